//! Keeps parts that one task polls in turn from waking that task while it is at it.
//!
//! It refuses to know the parts. Invariant: a wake-up is swallowed only if every part is polled after it, before the task
//! rests; any other is passed on.
//!
//! A connection and its body tell each other of every piece, which would cost the task a further round for each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Stands between parts and their task.
pub(super) struct Gate {
    shared: Arc<Shared>,
    waker: Waker,
}

#[derive(Default)]
struct Shared {
    closed: AtomicBool,
    knocked: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Gate {
    pub(super) fn new() -> Gate {
        let shared = Arc::new(Shared::default());
        Gate { waker: Waker::from(Arc::clone(&shared)), shared }
    }

    /// Calls `round` with a context for the parts. It is to poll all of them until none gets on, and to say when a last
    /// round over all of them begins: what knocked before that is forgotten.
    pub(super) fn closed_during<T>(
        &self,
        context: &mut Context<'_>,
        round: impl FnOnce(&mut Context<'_>, &dyn Fn()) -> T,
    ) -> T {
        self.shared.keep(context.waker());
        self.shared.closed.store(true, Ordering::SeqCst);
        let task = context.waker().clone();
        let result = round(context, &|| {
            self.shared.knocked.store(false, Ordering::SeqCst);
        });
        self.shared.closed.store(false, Ordering::SeqCst);
        if self.shared.knocked.swap(false, Ordering::SeqCst) {
            task.wake_by_ref();
        }
        result
    }
}

impl Shared {
    fn keep(&self, waker: &Waker) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *task {
            Some(kept) => kept.clone_from(waker),
            None => *task = Some(waker.clone()),
        }
    }

    fn knock(&self) {
        self.knocked.store(true, Ordering::SeqCst);
        // Both sides write their flag and then read the other's: one of them sees that the task must be woken.
        if !self.closed.load(Ordering::SeqCst)
            && let Some(task) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner)
        {
            task.wake_by_ref();
        }
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.knock();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.knock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn only_what_comes_before_the_last_round_is_swallowed() {
        let gate = Gate::new();
        for (before, after, later, expected) in [
            (true, false, false, false),
            (false, true, false, true),
            (true, true, false, true),
            (false, false, true, true),
            (false, false, false, false),
        ] {
            let woken = Arc::new(Woken::default());
            let task = Waker::from(Arc::clone(&woken));
            let kept = gate.closed_during(&mut Context::from_waker(&task), |context, last_round| {
                if before {
                    context.waker().wake_by_ref();
                }
                last_round();
                if after {
                    context.waker().wake_by_ref();
                }
                context.waker().clone()
            });
            if later {
                kept.wake();
            }
            assert_eq!(woken.0.load(Ordering::SeqCst), expected);
        }
    }
}
