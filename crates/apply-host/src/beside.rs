//! Work that another thread may do while this one goes on.
//!
//! It refuses to wait for a thread that has not begun: then the one who needs the result does the work itself. Invariant:
//! every piece of work is done once at most, and so with no thread to spare all goes as it would on one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What another thread may run.
pub(crate) type Job = Box<dyn FnOnce() + Send>;
/// Hands work to another thread, now or later.
pub(crate) type Hands<'h> = &'h dyn Fn(Job);

/// A piece of work and what came of it. Dropped, it is not begun any more.
pub(crate) struct Beside<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Open(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(T),
    /// The result is taken, or there will be none.
    Over,
}

impl<T: Send + 'static> Beside<T> {
    /// Offers work to another thread.
    pub(crate) fn offer(hands: Hands<'_>, work: impl FnOnce() -> T + Send + 'static) -> Beside<T> {
        let state = Mutex::new(State::Open(Box::new(work)));
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let other = Arc::clone(&shared);
        hands(Box::new(move || other.run()));
        Beside { shared }
    }

    /// What came of it; it is done here unless another thread has begun. None if that broke down.
    pub(crate) fn get(self) -> Option<T> {
        self.shared.run();
        let mut state = self.shared.lock();
        loop {
            match std::mem::replace(&mut *state, State::Over) {
                State::Done(result) => return Some(result),
                State::Running => *state = State::Running,
                State::Open(_) | State::Over => return None,
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if matches!(*state, State::Open(_)) {
            *state = State::Over;
        }
    }
}

impl<T> Shared<T> {
    /// Does the work, if nobody has begun it.
    fn run(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Open(_)) {
            return;
        }
        let State::Open(work) = std::mem::replace(&mut *state, State::Running) else { return };
        drop(state);
        let unless_broken = Finish(self);
        let result = work();
        *self.lock() = State::Done(result);
        drop(unless_broken);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the one who waits, also when the work has panicked.
struct Finish<'s, T>(&'s Shared<T>);

impl<T> Drop for Finish<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Running) {
            *state = State::Over;
        }
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread::{JoinHandle, spawn};

    #[test]
    fn without_another_thread_it_is_done_here() {
        let here = std::thread::current().id();
        assert_eq!(Beside::offer(&drop, || std::thread::current().id()).get(), Some(here));
    }

    #[test]
    fn what_another_thread_has_begun_is_waited_for() {
        let (begun, has_begun) = channel();
        let (go, may_go) = channel();
        let threads = Mutex::new(Vec::<JoinHandle<()>>::new());
        let hands = |job| threads.lock().expect("no panic").push(spawn(job));
        let work = Beside::offer(&hands, move || {
            begun.send(()).expect("heard");
            may_go.recv().expect("told");
            std::thread::current().id()
        });
        has_begun.recv().expect("begun");
        go.send(()).expect("heard");
        assert!(work.get().is_some_and(|there| there != std::thread::current().id()));
        threads.into_inner().expect("no panic").into_iter().for_each(|it| it.join().expect("no panic"));
    }

    #[test]
    fn what_is_dropped_is_not_begun() {
        let jobs = Mutex::new(Vec::<Job>::new());
        let hands = |job| jobs.lock().expect("no panic").push(job);
        let not_begun = Beside::offer(&hands, || panic!("it is begun"));
        drop::<Beside<()>>(not_begun);
        jobs.lock().expect("no panic").drain(..).for_each(|job| job());
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let (begun, has_begun) = channel();
        let threads = Mutex::new(Vec::<JoinHandle<()>>::new());
        let hands = |job| threads.lock().expect("no panic").push(spawn(job));
        let work = Beside::<()>::offer(&hands, move || {
            begun.send(()).expect("heard");
            std::panic::resume_unwind(Box::new("broken"));
        });
        has_begun.recv().expect("begun");
        assert_eq!(work.get(), None);
        assert!(threads.into_inner().expect("no panic").into_iter().all(|it| it.join().is_err()));
    }
}
