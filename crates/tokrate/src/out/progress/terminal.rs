//! The terminal while the view is shown: a second page without cursor and echo, and the first one given back whatever ends the view:
//! its end, a panic, or an exit at once.
//!
//! Invariant: after [`leave`] nothing of the view reaches the terminal any more.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

/// The second page, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// Whether the view is shown.
static SHOWN: AtomicBool = AtomicBool::new(false);
/// Held while the view is written.
static WRITING: Mutex<()> = Mutex::new(());
/// What the terminal was like before the view.
static BEFORE: Mutex<Option<Saved>> = Mutex::new(None);
/// How often it is looked whether a picture has been written, before the terminal is given back all the same: whoever writes it may be
/// the thread that panics.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// What the terminal was like before.
struct Saved {
    #[cfg(unix)]
    settings: Option<rustix::termios::Termios>,
}

/// Columns and rows of the terminal on standard error.
pub fn size() -> Option<(u16, u16)> {
    #[cfg(unix)]
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| (size.ws_col, size.ws_row));
    #[cfg(not(unix))]
    let size = None;
    size.filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Whether the terminal is this program's to change: one that runs in the background of a shell would be stopped for it.
pub fn is_ours() -> bool {
    #[cfg(unix)]
    let ours = rustix::termios::tcgetpgrp(std::io::stderr()).is_ok_and(|group| group == rustix::process::getpgrp());
    #[cfg(not(unix))]
    let ours = true;
    ours
}

/// Shows the second page. A panic anywhere gives the first one back, before it says what it is.
pub fn enter() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
    });
    if !SHOWN.swap(true, SeqCst) {
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Saved::take());
        write(ENTER);
    }
}

/// Writes to the second page, if it is shown; false if it is not any more.
pub fn draw(bytes: &str) -> bool {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = is_shown();
    if shown {
        write(bytes);
    }
    shown
}

/// Gives the first page back. Does nothing where it is shown already.
pub fn leave() {
    if !SHOWN.swap(false, SeqCst) {
        return;
    }
    for _ in 0..TRIES {
        if !matches!(WRITING.try_lock(), Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    write(LEAVE);
    if let Some(saved) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        saved.give_back();
    }
}

/// Whether the view is shown.
pub fn is_shown() -> bool {
    SHOWN.load(SeqCst)
}

fn write(bytes: &str) {
    let mut stderr = std::io::stderr().lock();
    // A terminal that has gone shows nothing, and the run goes on without it.
    let _ = stderr.write_all(bytes.as_bytes()).and_then(|()| stderr.flush());
}

impl Saved {
    /// Ends the echo of keys. Ctrl-C goes on to be an interrupt; Ctrl-Z and Ctrl-\ would leave the second page standing, and a run that is
    /// suspended measures nothing.
    #[cfg(unix)]
    fn take() -> Saved {
        use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        let settings = tcgetattr(std::io::stdin()).ok().filter(|_| is_ours());
        if let Some(mut changed) = settings.clone() {
            changed.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            changed.special_codes[SpecialCodeIndex::VSUSP] = 0;
            changed.special_codes[SpecialCodeIndex::VQUIT] = 0;
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &changed);
        }
        Saved { settings }
    }

    #[cfg(not(unix))]
    fn take() -> Saved {
        Saved {}
    }

    #[cfg(unix)]
    fn give_back(self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        if let Some(settings) = self.settings {
            // What was typed meanwhile was meant for nobody.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &settings);
        }
    }

    #[cfg(not(unix))]
    fn give_back(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_any_thread_gives_the_terminal_back() {
        let panics = |holds: bool| {
            enter();
            assert!(is_shown() && draw(""));
            let thread = std::thread::spawn(move || {
                let _writing = holds.then(|| WRITING.lock().unwrap_or_else(PoisonError::into_inner));
                panic!("a panic of a test");
            });
            assert!(thread.join().is_err());
            assert!(!is_shown() && !draw("x"), "nothing is drawn any more");
        };
        panics(false);
        // The thread that draws.
        panics(true);
        leave();
        assert!(!is_shown());
    }
}
