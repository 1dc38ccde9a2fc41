//! How much work may be open at once: a number of lines and of bytes.
//!
//! Invariant: one piece is always let in, however heavy it is; beyond that neither bound is passed.

use std::sync::{Condvar, Mutex};

/// A window of work.
pub struct Window {
    lines_most: usize,
    max_bytes: usize,
    open: Mutex<Open>,
    changed: Condvar,
}

#[derive(Default)]
struct Open {
    lines: usize,
    bytes: usize,
    closed: bool,
}

impl Window {
    /// An empty window.
    pub fn new(lines_most: usize, max_bytes: usize) -> Window {
        Window { lines_most, max_bytes, open: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for room; `false` if the window was closed.
    pub fn admit(&self, bytes: usize) -> bool {
        let open = self.open.lock().expect("nobody panics while it holds this");
        let full = |open: &mut Open| {
            !open.closed && open.lines > 0 && (open.lines >= self.lines_most || open.bytes + bytes > self.max_bytes)
        };
        let mut open = self.changed.wait_while(open, full).expect("nobody panics while it holds this");
        open.lines += 1;
        open.bytes += bytes;
        !open.closed
    }

    /// Gives room back.
    pub fn release(&self, bytes: usize) {
        let mut open = self.open.lock().expect("nobody panics while it holds this");
        open.lines -= 1;
        open.bytes -= bytes;
        self.changed.notify_all();
    }

    /// Wakes all that wait, for good.
    pub fn close(&self) {
        self.open.lock().expect("nobody panics while it holds this").closed = true;
        self.changed.notify_all();
    }
}
