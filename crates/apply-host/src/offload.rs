//! Work that another thread may do in parallel.
//!
//! Nobody waits for a thread that has not started: whoever needs the result then does the work itself. Invariant: each piece of work runs at
//! most once, and without a free thread everything runs as on a single one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A closure for another thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;
/// Passes a closure to another thread, which may run it later or never.
pub(crate) type Spawner<'h> = &'h dyn Fn(Job);

/// A piece of work and its result. Once dropped, it is not started any more.
pub(crate) struct Offloaded<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

enum State<T> {
    Pending(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(T),
    /// The result was taken, or there will be none.
    Closed,
}

impl<T: Send + 'static> Offloaded<T> {
    /// Offers work to another thread.
    pub(crate) fn offer(spawner: Spawner<'_>, work: impl FnOnce() -> T + Send + 'static) -> Offloaded<T> {
        let state = Mutex::new(State::Pending(Box::new(work)));
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        spawner(Box::new(move || worker.run()));
        Offloaded { shared }
    }

    /// The result; runs the work here unless another thread has started it. `None` if that thread panicked.
    pub(crate) fn get(self) -> Option<T> {
        self.shared.run();
        let mut state = self.shared.lock();
        loop {
            match std::mem::replace(&mut *state, State::Closed) {
                State::Done(result) => return Some(result),
                State::Running => *state = State::Running,
                State::Pending(_) | State::Closed => return None,
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Drop for Offloaded<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if matches!(*state, State::Pending(_)) {
            *state = State::Closed;
        }
    }
}

impl<T> Shared<T> {
    /// Runs the work, unless it was started.
    fn run(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Pending(_)) {
            return;
        }
        let State::Pending(work) = std::mem::replace(&mut *state, State::Running) else { return };
        drop(state);
        let notify = NotifyOnDrop(self);
        let result = work();
        *self.lock() = State::Done(result);
        drop(notify);
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the waiting thread, even if the work panicked.
struct NotifyOnDrop<'s, T>(&'s Shared<T>);

impl<T> Drop for NotifyOnDrop<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Running) {
            *state = State::Closed;
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
        assert_eq!(Offloaded::offer(&drop, || std::thread::current().id()).get(), Some(here));
    }

    #[test]
    fn what_another_thread_has_begun_is_waited_for() {
        let (begun, has_begun) = channel();
        let (go, may_go) = channel();
        let threads = Mutex::new(Vec::<JoinHandle<()>>::new());
        let spawner = |job| threads.lock().expect("no panic").push(spawn(job));
        let work = Offloaded::offer(&spawner, move || {
            begun.send(()).expect("parsed");
            may_go.recv().expect("the sender lives until the test ends");
            std::thread::current().id()
        });
        has_begun.recv().expect("begun");
        go.send(()).expect("parsed");
        assert!(work.get().is_some_and(|there| there != std::thread::current().id()));
        threads.into_inner().expect("no panic").into_iter().for_each(|it| it.join().expect("no panic"));
    }

    #[test]
    fn what_is_dropped_is_not_begun() {
        let jobs = Mutex::new(Vec::<Job>::new());
        let spawner = |job| jobs.lock().expect("no panic").push(job);
        let not_begun = Offloaded::offer(&spawner, || panic!("it is begun"));
        drop::<Offloaded<()>>(not_begun);
        jobs.lock().expect("no panic").drain(..).for_each(|job| job());
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let (begun, has_begun) = channel();
        let threads = Mutex::new(Vec::<JoinHandle<()>>::new());
        let spawner = |job| threads.lock().expect("no panic").push(spawn(job));
        let work = Offloaded::<()>::offer(&spawner, move || {
            begun.send(()).expect("parsed");
            std::panic::resume_unwind(Box::new("broken"));
        });
        has_begun.recv().expect("begun");
        assert_eq!(work.get(), None);
        assert!(threads.into_inner().expect("no panic").into_iter().all(|it| it.join().is_err()));
    }
}
