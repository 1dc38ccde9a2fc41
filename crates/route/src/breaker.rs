//! The breaker of one lane: who is to blame for a failure, and when the lane is left alone for a while.
//!
//! It refuses to know why a lane is asked. Invariant: a client's own fault, a call that was cancelled and a good end never open
//! it; a wait that the provider asked for is never cut short; after the wait one call at a time tries the lane.

use tokrate_core::{FailureKind, Span, Tick};

/// Whose fault a failure is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Blame {
    /// The client's: no lane can answer such a request, and no lane is worse for it.
    Client,
    /// That of this lane's settings, its key or its model: nobody can use it until they are put right.
    Key,
    /// The load's: the lane works and wants fewer calls.
    Load,
    /// The lane's: host, network, server or model.
    Lane,
    /// Nobody's.
    Nobody,
}

/// Whose fault a failure of that kind is.
pub fn blame(kind: FailureKind) -> Blame {
    match kind {
        FailureKind::BadRequest => Blame::Client,
        FailureKind::Unauthorized | FailureKind::ModelNotFound => Blame::Key,
        FailureKind::RateLimited | FailureKind::Overloaded => Blame::Load,
        // What does not exist at one provider may exist at another, and says nothing of either.
        FailureKind::NotFound => Blame::Nobody,
        // The lane answered well; another client would have got it.
        FailureKind::Untranslatable => Blame::Nobody,
        FailureKind::Cancelled | FailureKind::TooLarge | FailureKind::ClientStalled => Blame::Nobody,
        _ => Blame::Lane,
    }
}

/// The settings of a breaker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakerConfig {
    /// Failures of the lane in a row that open it.
    pub failures_in_a_row: u32,
    /// Share of failures among the latest outcomes that opens it, once there are [`BreakerConfig::outcomes_least`].
    pub failure_share: f64,
    /// Outcomes before the share counts; at most 64 are remembered.
    pub outcomes_least: u32,
    /// How long it stays open the first time; each failed try after that doubles it.
    pub cool_down: Span,
    /// But never longer than this.
    pub cool_down_most: Span,
    /// How long a lane is left alone whose key or model was refused, the first time.
    pub key_cool_down: Span,
    /// The longest wait asked for by a provider that is believed.
    pub retry_after_most: Span,
    /// After how long a try that nobody has heard of again does not count any more.
    pub probe_most: Span,
}

impl Default for BreakerConfig {
    fn default() -> BreakerConfig {
        BreakerConfig {
            failures_in_a_row: 5,
            failure_share: 0.5,
            outcomes_least: 20,
            cool_down: Span::from_secs(2),
            cool_down_most: Span::from_secs(120),
            key_cool_down: Span::from_secs(600),
            retry_after_most: Span::from_secs(3_600),
            probe_most: Span::from_secs(60),
        }
    }
}

/// Whether a lane may be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// It may.
    Closed,
    /// It may not.
    Open {
        /// Until then.
        until: Tick,
        /// Who is to blame.
        why: Blame,
    },
    /// The wait is over: one call may try it.
    HalfOpen {
        /// Whether one is trying.
        probing: bool,
    },
}

/// One lane's breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    config: BreakerConfig,
    /// Since when it is open, until when, and who is to blame; `None` when it is closed.
    open: Option<Opening>,
    /// Openings since the last good end.
    trips: u32,
    failures_in_a_row: u32,
    /// The latest outcomes, the newest in the lowest bit; 1 is a failure.
    outcomes: u64,
    outcomes_seen: u32,
}

#[derive(Clone, Copy, Debug)]
struct Opening {
    at: Tick,
    until: Tick,
    why: Blame,
    probe_at: Option<Tick>,
}

impl Breaker {
    /// A closed one.
    pub fn new(config: BreakerConfig) -> Breaker {
        Breaker { config, open: None, trips: 0, failures_in_a_row: 0, outcomes: 0, outcomes_seen: 0 }
    }

    /// Whether the lane may be asked at `now`, and why not.
    pub fn state(&self, now: Tick) -> BreakerState {
        match self.open {
            None => BreakerState::Closed,
            Some(opening) if now < opening.until => BreakerState::Open { until: opening.until, why: opening.why },
            Some(opening) => {
                let probing = opening.probe_at.is_some_and(|at| now.since(at) < self.config.probe_most);
                BreakerState::HalfOpen { probing }
            }
        }
    }

    /// Whether a call may be started at `now`.
    pub fn allows(&self, now: Tick) -> bool {
        matches!(self.state(now), BreakerState::Closed | BreakerState::HalfOpen { probing: false })
    }

    /// A call starts at `now`; if the wait is over, it is the one that tries the lane.
    pub fn start(&mut self, now: Tick) {
        if self.state(now) == (BreakerState::HalfOpen { probing: false })
            && let Some(opening) = &mut self.open
        {
            opening.probe_at = Some(now);
        }
    }

    /// A call that was started at `started` got its first token: enough for a lane that is being tried.
    pub fn first_token(&mut self, started: Tick) {
        if self.open.is_some_and(|opening| started >= opening.until) {
            self.open = None;
            self.failures_in_a_row = 0;
            (self.outcomes, self.outcomes_seen) = (0, 0);
        }
    }

    /// A call that was started at `started` ended well.
    pub fn ended(&mut self, started: Tick) {
        self.first_token(started);
        if self.open.is_none() {
            self.trips = 0;
            self.failures_in_a_row = 0;
            self.remember(false);
        }
    }

    /// A call that was started at `started` was given up or went to nobody's blame: a try is free again.
    pub fn cancelled(&mut self, started: Tick) {
        if let Some(opening) = &mut self.open
            && opening.probe_at == Some(started)
        {
            opening.probe_at = None;
        }
    }

    /// A call that was started at `started` failed at `now`.
    pub fn failed(&mut self, now: Tick, started: Tick, blame: Blame, retry_after: Option<Span>) {
        match blame {
            Blame::Client | Blame::Nobody => self.cancelled(started),
            Blame::Key => self.trip(now, started, blame, self.config.key_cool_down),
            Blame::Load => match retry_after {
                // It was told when to come again: then, and not later.
                Some(asked) => {
                    self.open_for(now, started, blame, asked.min(self.config.retry_after_most));
                }
                None => self.trip(now, started, blame, Span::ZERO),
            },
            Blame::Lane => {
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.remember(true);
                if self.is_broken() || self.open.is_some_and(|opening| started >= opening.until) {
                    self.trip(now, started, blame, Span::ZERO);
                }
            }
        }
    }

    fn is_broken(&self) -> bool {
        let share = f64::from(self.outcomes.count_ones()) / f64::from(self.outcomes_seen.max(1));
        self.failures_in_a_row >= self.config.failures_in_a_row
            || self.outcomes_seen >= self.config.outcomes_least && share >= self.config.failure_share
    }

    fn remember(&mut self, failed: bool) {
        let kept = 64 - 1;
        self.outcomes_seen = (self.outcomes_seen + 1).min(kept);
        self.outcomes = ((self.outcomes << 1) | u64::from(failed)) & ((1 << kept) - 1);
    }

    /// Opens it for at least `floor`, twice as long each time; or makes the wait of an open one longer.
    fn trip(&mut self, now: Tick, started: Tick, why: Blame, floor: Span) {
        let doubled = self.config.cool_down.as_nanos().saturating_mul(1 << self.trips.min(20));
        let cool_down = Span::from_nanos(doubled).min(self.config.cool_down_most).max(floor);
        if self.is_news(started) {
            self.open_for(now, started, why, cool_down);
            self.trips = self.trips.saturating_add(1);
        } else {
            self.open_for(now, started, why, floor);
        }
    }

    /// Whether a call was started when the lane was thought to be sound, or as a try: that one which was under way when the lane
    /// was closed off has failed too is no news.
    fn is_news(&self, started: Tick) -> bool {
        self.open.is_none_or(|opening| started >= opening.until)
    }

    fn open_for(&mut self, now: Tick, started: Tick, why: Blame, wait: Span) {
        let until = now + wait;
        match &mut self.open {
            Some(opening) if started < opening.until => opening.until = opening.until.max(until),
            _ => self.open = Some(Opening { at: now, until, why, probe_at: None }),
        }
    }

    /// Since when it is open, if it is.
    pub fn open_since(&self) -> Option<Tick> {
        self.open.map(|opening| opening.at)
    }
}

#[cfg(test)]
mod tests;
