//! The latest pages: shown while new ones are made.
//!
//! Invariant: one set of pages is made at a time, however many ask; nobody is shown pages that are older than [`OLDEST`].

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokrate_core::{Span, Tick};

/// Pages that are older are made anew while they are shown.
const REFRESH: Span = Span::from_secs(60);
/// Whoever would be shown pages that are older waits for new ones.
const OLDEST: Span = Span::from_secs(300);

/// Pages that are replaced as a whole.
#[derive(Debug)]
pub(crate) struct Pages<S> {
    /// And the time that they are of.
    latest: RefCell<Option<(Tick, Arc<S>)>>,
    /// Held by whoever makes new ones.
    making: Arc<Mutex<()>>,
    /// Whether they grow old at all.
    is_fixed: bool,
}

impl<S: 'static> Pages<S> {
    /// None yet. Pages of a fixed time are made once.
    pub fn new(is_fixed: bool) -> Rc<Pages<S>> {
        Rc::new(Pages { latest: RefCell::default(), making: Arc::default(), is_fixed })
    }

    /// The pages, and how old they are; `make` makes new ones where they are due. Needs a `LocalSet`.
    ///
    /// # Errors
    /// Those of `make`, where there are no pages that may be shown.
    pub async fn get<E, F>(self: &Rc<Self>, now: Tick, make: impl FnOnce() -> F) -> Result<(Arc<S>, Span), E>
    where
        F: Future<Output = Result<S, E>> + 'static,
    {
        match self.latest(now) {
            Some((pages, age)) if self.is_fixed || age < REFRESH => return Ok((pages, age)),
            Some((pages, age)) if age < OLDEST => {
                if let Ok(turn) = Arc::clone(&self.making).try_lock_owned() {
                    self.make_beside(now, turn, make());
                }
                return Ok((pages, age));
            }
            _ => {}
        }
        let _turn = self.making.lock().await;
        // Made by whoever had the turn before.
        if let Some(latest) = self.latest(now).filter(|(_, age)| *age < REFRESH) {
            return Ok(latest);
        }
        Ok((self.put(now, make().await?), Span::ZERO))
    }

    /// Where it fails the pages grow older, until somebody waits for new ones and is told why.
    fn make_beside<E>(
        self: &Rc<Self>,
        now: Tick,
        turn: OwnedMutexGuard<()>,
        made: impl Future<Output = Result<S, E>> + 'static,
    ) {
        let pages = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Ok(made) = made.await {
                pages.put(now, made);
            }
            drop(turn);
        });
    }

    fn latest(&self, now: Tick) -> Option<(Arc<S>, Span)> {
        self.latest.borrow().as_ref().map(|(at, pages)| (Arc::clone(pages), now.since(*at)))
    }

    /// Their age counts from when their making began.
    fn put(&self, at: Tick, pages: S) -> Arc<S> {
        let pages = Arc::new(pages);
        *self.latest.borrow_mut() = Some((at, Arc::clone(&pages)));
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::sync::oneshot;
    use tokio::task::LocalSet;

    fn at(seconds: u64) -> Tick {
        Tick::ZERO + Span::from_secs(seconds)
    }

    fn in_a_runtime(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, test);
    }

    async fn got(pages: &Rc<Pages<u32>>, seconds: u64, next: u32) -> (u32, Span) {
        let (pages, age) = pages.get(at(seconds), || async move { Ok::<u32, String>(next) }).await.expect("made");
        (*pages, age)
    }

    #[test]
    fn pages_of_a_minute_are_shown_while_new_ones_are_made_once() {
        in_a_runtime(async {
            let pages = Pages::new(false);
            assert_eq!(got(&pages, 0, 1).await, (1, Span::ZERO));
            assert_eq!(got(&pages, 59, 2).await, (1, Span::from_secs(59)));
            let (done, made) = oneshot::channel::<u32>();
            let begun = Rc::new(Cell::new(0));
            let counted = Rc::clone(&begun);
            let make = move || async move {
                counted.set(counted.get() + 1);
                made.await.map_err(|error| error.to_string())
            };
            let (shown, age) = pages.get(at(61), make).await.expect("shown");
            assert_eq!((*shown, age), (1, Span::from_secs(61)), "nobody waits");
            tokio::task::yield_now().await;
            assert_eq!(begun.get(), 1);
            // Others ask meanwhile: none of them makes anything, and none of them waits.
            assert_eq!(got(&pages, 62, 7).await, (1, Span::from_secs(62)));
            assert_eq!(got(&pages, 100, 8).await, (1, Span::from_secs(100)));
            done.send(3).expect("it waits");
            tokio::task::yield_now().await;
            assert_eq!(got(&pages, 101, 9).await, (3, Span::from_secs(40)), "of the time at which their making began");
        });
    }

    #[test]
    fn pages_that_are_too_old_or_of_a_failed_making_are_waited_for() {
        in_a_runtime(async {
            let pages = Pages::new(false);
            assert_eq!(got(&pages, 0, 1).await.0, 1);
            let failing = || async { Err::<u32, String>("it is away".to_owned()) };
            assert_eq!(pages.get(at(299), failing).await.map(|(shown, _)| *shown), Ok(1));
            tokio::task::yield_now().await;
            assert_eq!(pages.get(at(300), failing).await.map(|(shown, _)| *shown), Err("it is away".to_owned()));
            assert_eq!(got(&pages, 301, 2).await, (2, Span::ZERO));
        });
    }

    #[test]
    fn pages_of_a_fixed_time_are_made_once() {
        in_a_runtime(async {
            let pages = Pages::new(true);
            assert_eq!(got(&pages, 0, 1).await.0, 1);
            assert_eq!(got(&pages, 100_000, 2).await.0, 1);
        });
    }
}
