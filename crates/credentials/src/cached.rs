//! A credential that is fetched when it is first wanted, and again before it expires.
//!
//! One that is refused before that, because it was revoked, is dropped and fetched anew once.
//!
//! Time is counted from the fetch by the clock that never jumps, not by the date that a credential carries. Invariant: one fetch at a time;
//! a caller waits only when there is nothing that can be used.

use crate::error::CredentialError;
use crate::reach::Reach;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokrate_core::{Span, Tick};
use tokrate_net::{ClientConfig, Clock};

/// A credential is fetched anew when so much of its life is left, or a fifth of it where that is less. Five minutes is what the SDKs
/// of AWS and Google take.
const REFRESH_BEFORE: Span = Span::from_secs(300);
/// With less than this left it is not used any more: a request takes its time to arrive.
const UNUSABLE_BEFORE: Span = Span::from_secs(5);
/// A source that failed is asked again after this, doubled with each failure up to the longest.
const RETRY_AFTER: Span = Span::from_secs(1);
const MAX_RETRY_AFTER: Span = Span::from_secs(32);

/// A credential that took the place of a refused one is not dropped itself for so long: that the lane has a bad key does not pass by
/// asking for tokens with every request.
const RENEW_AGAIN_AFTER: Span = Span::from_secs(60);

/// What was fetched.
pub(crate) struct Fetched<T> {
    pub value: T,
    /// How long it is good for, from now on; `None` for ever.
    pub lifetime: Option<Span>,
}

/// Where a credential comes from. Blocks; called in a thread of its own.
pub(crate) trait Source<T>: Send + Sync {
    fn fetch(&self, reach: &Reach) -> Result<Fetched<T>, CredentialError>;
}

/// The credential of one source.
pub(crate) struct Cached<T>(Arc<Shared<T>>);

struct Shared<T> {
    source: Box<dyn Source<T>>,
    state: Mutex<State<T>>,
    /// Wakes those who wait for a fetch.
    ended: Notify,
}

/// A credential, and which of those of its source it is.
pub(crate) struct Held<T> {
    pub value: Arc<T>,
    pub generation: u64,
}

struct State<T> {
    value: Option<Arc<T>>,
    /// Rises with every credential.
    generation: u64,
    /// When one was last dropped because it was refused.
    refused_at: Option<Tick>,
    refresh_at: Tick,
    unusable_at: Tick,
    is_fetching: bool,
    failure: Option<Arc<CredentialError>>,
    failures: u32,
    retry_at: Tick,
}

enum Step<T> {
    Have(Held<T>),
    Failed(Arc<CredentialError>),
    Wait,
}

impl<T: Send + Sync + 'static> Cached<T> {
    pub fn new(source: impl Source<T> + 'static) -> Cached<T> {
        let state = State {
            value: None,
            generation: 0,
            refused_at: None,
            refresh_at: Tick::ZERO,
            unusable_at: Tick::ZERO,
            is_fetching: false,
            failure: None,
            failures: 0,
            retry_at: Tick::ZERO,
        };
        Cached(Arc::new(Shared { source: Box::new(source), state: Mutex::new(state), ended: Notify::new() }))
    }

    /// The credential; waits for it if there is none that can be used.
    pub async fn get(&self, client: &ClientConfig, clock: Clock) -> Result<Held<T>, Arc<CredentialError>> {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            // Before the look at the state: a fetch that ends between the two is not missed.
            ended.as_mut().enable();
            match self.step(client, clock) {
                Step::Have(value) => return Ok(value),
                Step::Failed(error) => return Err(error),
                Step::Wait => ended.await,
            }
        }
    }

    /// The credential of that generation was refused. True if there is or will be another one.
    pub fn refused(&self, generation: u64, now: Tick) -> bool {
        let mut state = self.0.lock();
        // Of several requests under way the first drops it; a fetch that brings another may have ended since.
        if state.generation != generation || state.value.is_none() {
            return true;
        }
        if state.refused_at.is_some_and(|at| now < later(at, RENEW_AGAIN_AFTER)) {
            return false;
        }
        (state.value, state.refused_at) = (None, Some(now));
        true
    }

    fn step(&self, client: &ClientConfig, clock: Clock) -> Step<T> {
        let now = clock.now();
        let mut state = self.0.lock();
        let usable = state.value.clone().filter(|_| now < state.unusable_at);
        let usable = usable.map(|value| Held { value, generation: state.generation });
        let may_fetch = !state.is_fetching && now >= state.retry_at;
        let is_due = usable.is_none() || now >= state.refresh_at;
        if is_due && may_fetch {
            state.is_fetching = true;
            drop(state);
            self.fetch_beside(Reach::new(client, clock));
            return usable.map_or(Step::Wait, Step::Have);
        }
        match (usable, &state.failure) {
            (Some(value), _) => Step::Have(value),
            (None, Some(error)) if !state.is_fetching => Step::Failed(Arc::clone(error)),
            (None, _) => Step::Wait,
        }
    }

    fn fetch_beside(&self, reach: Reach) {
        let guard = Fetch { shared: Arc::clone(&self.0), clock: reach.clock(), result: None };
        // Without a thread the guard is dropped, which ends the fetch as a failure.
        let _ = std::thread::Builder::new().name("credentials".to_owned()).spawn(move || {
            let mut guard = guard;
            guard.result = Some(guard.shared.source.fetch(&reach));
        });
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fetch under way; when it is dropped it has ended, however that came.
struct Fetch<T> {
    shared: Arc<Shared<T>>,
    clock: Clock,
    result: Option<Result<Fetched<T>, CredentialError>>,
}

impl<T> Drop for Fetch<T> {
    fn drop(&mut self) {
        let now = self.clock.now();
        let broken = || CredentialError {
            of: "the provider",
            tried: vec!["the fetch broke off".to_owned()],
            hint: "look for an earlier message of this process",
            is_temporary: true,
        };
        let mut state = self.shared.lock();
        state.is_fetching = false;
        match self.result.take().unwrap_or_else(|| Err(broken())) {
            Ok(Fetched { value, lifetime }) => {
                let lifetime = lifetime.unwrap_or(Span::MAX);
                let early = REFRESH_BEFORE.min(Span::from_nanos(lifetime.as_nanos() / 5));
                state.refresh_at = later(now, lifetime - early);
                state.unusable_at = later(now, lifetime - UNUSABLE_BEFORE.min(early));
                state.value = Some(Arc::new(value));
                state.generation += 1;
                (state.failure, state.failures, state.retry_at) = (None, 0, now);
            }
            Err(error) => {
                let wait = RETRY_AFTER.as_nanos().saturating_mul(1 << state.failures.min(5));
                state.retry_at = later(now, Span::from_nanos(wait).min(MAX_RETRY_AFTER));
                state.failures = state.failures.saturating_add(1);
                state.failure = Some(Arc::new(error));
            }
        }
        drop(state);
        self.shared.ended.notify_waiters();
    }
}

fn later(now: Tick, span: Span) -> Tick {
    Tick::from_nanos(now.as_nanos().saturating_add(span.as_nanos()))
}

#[cfg(test)]
mod tests;
