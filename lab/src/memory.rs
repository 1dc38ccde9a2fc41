//! How much memory is allocated at once while it is looked at, counted by the allocator itself.
//!
//! It does not tell who allocated, and slows nothing down that is not measured. Invariant: what is measured is the sum of
//! what was asked for, not what the system lent.

#![allow(unsafe_code, reason = "an allocator cannot be written without; each call is passed on as it came")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// The system's allocator, with a count beside it.
pub struct Counting;

static WATCHED: AtomicBool = AtomicBool::new(false);
static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// What comes of some work, and the most bytes that it held at once.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    HELD.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    WATCHED.store(true, Relaxed);
    let done = work();
    WATCHED.store(false, Relaxed);
    (done, PEAK.load(Relaxed).max(0) as usize)
}

fn count(more: usize, less: usize) {
    if WATCHED.load(Relaxed) {
        // Both may be there at once while one is copied into the other.
        PEAK.fetch_max(HELD.fetch_add(more as isize, Relaxed) + more as isize, Relaxed);
        HELD.fetch_sub(less as isize, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the layout and pointer that it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }
}
