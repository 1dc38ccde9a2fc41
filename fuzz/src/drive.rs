//! Polls futures by hand within one runtime for each thread: no runtime is made for an input, nothing waits, and time stands
//! still.
//!
//! It does not know what is driven. Invariant: a future that wakes itself without end is a failure, not a hang.

use std::cell::LazyCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use tokio::runtime::{Builder, Runtime};

/// Times that a future may wake itself for one piece of input: far more than any reader of a few KiB has steps.
const TURNS_MOST: usize = 100_000;

thread_local! {
    /// Timers need one to be made in; none of them is ever waited for.
    static RUNTIME: LazyCell<Runtime> =
        LazyCell::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime of one thread"));
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` where timers can be made.
pub fn within_runtime<T>(work: impl FnOnce() -> T) -> T {
    RUNTIME.with(|runtime| {
        let _entered = runtime.enter();
        work()
    })
}

/// Polls futures until none has anything left to do.
pub struct Driver {
    woken: Arc<Woken>,
    waker: Waker,
}

impl Default for Driver {
    fn default() -> Driver {
        let woken = Arc::<Woken>::default();
        Driver { waker: Arc::clone(&woken).into(), woken }
    }
}

impl Driver {
    /// Polls a future until it is ready or waits for something from outside.
    ///
    /// # Panics
    /// When it wakes itself without end.
    pub fn poll<F: Future + ?Sized>(&self, mut future: Pin<&mut F>) -> Poll<F::Output> {
        let mut context = Context::from_waker(&self.waker);
        for _ in 0..TURNS_MOST {
            self.woken.0.store(false, Ordering::Relaxed);
            let polled = future.as_mut().poll(&mut context);
            if polled.is_ready() || !self.woken.0.load(Ordering::Relaxed) {
                return polled;
            }
        }
        panic!("it wakes itself without end");
    }

    /// The output of a future that has all it needs.
    ///
    /// # Panics
    /// When it waits all the same.
    pub fn finish<F: Future + ?Sized>(&self, future: Pin<&mut F>, what: &str) -> F::Output {
        match self.poll(future) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("{what} waits for something that will never come"),
        }
    }
}
