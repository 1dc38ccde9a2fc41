//! The circuit breaker of one lane: who is to blame for a failure, and how long the lane is out of rotation.
//!
//! Invariant: client errors, cancelled calls and successes never open it; a wait that the provider asked for is kept, up to
//! `max_retry_after`; after the wait one probe at a time is let through. A call that was let through while it was open
//! (see [`crate::Router::allows_as_last_resort`]) closes it by its first token, and does not prolong the wait by its failure.

use tokrate_core::{FailureKind, Span, Tick};

/// Outcomes that the failure rate is taken of: as many as a word has bits, but for one, so that the mask can be written as a shift.
const OUTCOMES_KEPT: u32 = u64::BITS - 1;

/// Whose fault a failure is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Blame {
    /// The client: no lane can answer such a request.
    Client,
    /// The configuration of the lane (key or model): it fails for everybody until that is corrected.
    Key,
    /// The load: the lane works but wants fewer calls.
    Load,
    /// The lane: host, network, server or model.
    Lane,
    /// Nobody.
    Nobody,
}

/// Whose fault a failure of that kind is.
pub fn blame(kind: FailureKind) -> Blame {
    match kind {
        FailureKind::BadRequest => Blame::Client,
        FailureKind::Unauthorized | FailureKind::ModelNotFound => Blame::Key,
        FailureKind::RateLimited | FailureKind::Overloaded => Blame::Load,
        // A resource missing at one provider may exist at another, and what a merge engine cannot merge a model can; that is
        // no fault of either.
        FailureKind::NotFound | FailureKind::EditRefused => Blame::Nobody,
        // The lane answered correctly, only not for this client's dialect.
        FailureKind::Untranslatable => Blame::Nobody,
        FailureKind::Cancelled | FailureKind::TooLarge | FailureKind::ClientStalled => Blame::Nobody,
        _ => Blame::Lane,
    }
}

/// The settings of a breaker.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BreakerConfig {
    /// Consecutive failures of the lane that open it.
    pub consecutive_failures: u32,
    /// Failure rate over the latest outcomes that opens it, once there are [`BreakerConfig::min_outcomes`].
    pub failure_rate_limit: f64,
    /// Outcomes needed before the rate counts; the latest [`OUTCOMES_KEPT`] are kept.
    pub min_outcomes: u32,
    /// How long it stays open the first time; each failed probe doubles it.
    pub cool_down: Span,
    /// Upper limit of the cool-down.
    pub max_cool_down: Span,
    /// How long a lane stays out of rotation the first time after its key or model was refused.
    pub key_cool_down: Span,
    /// Limit for a wait that a provider asks for.
    pub max_retry_after: Span,
    /// After this time a probe without a result no longer blocks another one.
    pub probe_timeout: Span,
}

impl Default for BreakerConfig {
    fn default() -> BreakerConfig {
        BreakerConfig {
            // As Envoy's outlier detection and Istio have it.
            consecutive_failures: 5,
            failure_rate_limit: 0.5,
            // At a failure rate of 10 %, which other lanes make up for, ten failures of twenty come once in 140,000 windows.
            min_outcomes: 20,
            // About as long as a proxy takes to restart; engines take longer, hence the doubling.
            cool_down: Span::from_secs(2),
            max_cool_down: Span::from_secs(30),
            // Somebody has to correct the key or the model first.
            key_cool_down: Span::from_secs(600),
            // When a quota is used up some ask for the rest of the day; an hour later it is tried again all the same.
            max_retry_after: Span::from_secs(3_600),
            // Longer than the first token of a slow model takes.
            probe_timeout: Span::from_secs(60),
        }
    }
}

/// State of a breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// No calls pass.
    Open {
        /// Until this time.
        until: Tick,
        /// Who is to blame.
        blame: Blame,
    },
    /// The cool-down is over: one call may probe the lane.
    HalfOpen {
        /// Whether a probe is in flight.
        probing: bool,
    },
}

/// One lane's breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    config: BreakerConfig,
    /// Set while it is open or half-open.
    open: Option<OpenPeriod>,
    /// Openings since the last success.
    trips: u32,
    consecutive_failures: u32,
    /// The latest outcomes, newest in the lowest bit; 1 is a failure.
    outcomes: u64,
    outcomes_seen: u32,
}

#[derive(Clone, Copy, Debug)]
struct OpenPeriod {
    at: Tick,
    until: Tick,
    blame: Blame,
    probe_at: Option<Tick>,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(config: BreakerConfig) -> Breaker {
        Breaker { config, open: None, trips: 0, consecutive_failures: 0, outcomes: 0, outcomes_seen: 0 }
    }

    /// The state at `now`.
    pub fn state(&self, now: Tick) -> BreakerState {
        match self.open {
            None => BreakerState::Closed,
            Some(period) if now < period.until => BreakerState::Open { until: period.until, blame: period.blame },
            Some(period) => {
                let probing = period.probe_at.is_some_and(|at| now.since(at) < self.config.probe_timeout);
                BreakerState::HalfOpen { probing }
            }
        }
    }

    /// Whether a call may be started at `now`.
    pub fn allows(&self, now: Tick) -> bool {
        matches!(self.state(now), BreakerState::Closed | BreakerState::HalfOpen { probing: false })
    }

    /// A call starts at `now`; if the breaker is half-open, it is the probe.
    pub fn start(&mut self, now: Tick) {
        if self.state(now) == (BreakerState::HalfOpen { probing: false })
            && let Some(period) = &mut self.open
        {
            period.probe_at = Some(now);
        }
    }

    /// A call started at `started` got its first token: enough for a probe to close the breaker, and for a last resort to
    /// do so if the lane had failed. Calls that were in flight when it opened say nothing, and a wait that the provider
    /// asked for is kept.
    pub fn first_token(&mut self, started: Tick) {
        let is_last_resort = |period: OpenPeriod| period.blame == Blame::Lane && started >= period.at;
        if self.open.is_some_and(|period| started >= period.until || is_last_resort(period)) {
            self.open = None;
            self.consecutive_failures = 0;
            (self.outcomes, self.outcomes_seen) = (0, 0);
        }
    }

    /// A call started at `started` succeeded.
    pub fn ended(&mut self, started: Tick) {
        self.first_token(started);
        if self.open.is_none() {
            self.trips = 0;
            self.consecutive_failures = 0;
            self.record(false);
        }
    }

    /// A call started at `started` was cancelled or failed through nobody's fault: another probe may start.
    pub fn cancelled(&mut self, started: Tick) {
        if let Some(period) = &mut self.open
            && period.probe_at == Some(started)
        {
            period.probe_at = None;
        }
    }

    /// A call started at `started` failed at `now`.
    pub fn failed(&mut self, now: Tick, started: Tick, blame: Blame, retry_after: Option<Span>) {
        match blame {
            Blame::Client | Blame::Nobody => self.cancelled(started),
            Blame::Key => self.trip(now, started, blame, self.config.key_cool_down),
            Blame::Load => match retry_after {
                // The provider named the time to retry: then, and not later.
                Some(asked) => {
                    self.open_for(now, started, blame, asked.min(self.config.max_retry_after));
                }
                None => self.trip(now, started, blame, Span::ZERO),
            },
            Blame::Lane => {
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.record(true);
                if self.should_open() || self.open.is_some_and(|period| started >= period.until) {
                    self.trip(now, started, blame, Span::ZERO);
                }
            }
        }
    }

    fn should_open(&self) -> bool {
        let rate = f64::from(self.outcomes.count_ones()) / f64::from(self.outcomes_seen.max(1));
        self.consecutive_failures >= self.config.consecutive_failures
            || self.outcomes_seen >= self.config.min_outcomes && rate >= self.config.failure_rate_limit
    }

    fn record(&mut self, failed: bool) {
        self.outcomes_seen = (self.outcomes_seen + 1).min(OUTCOMES_KEPT);
        self.outcomes = ((self.outcomes << 1) | u64::from(failed)) & ((1 << OUTCOMES_KEPT) - 1);
    }

    /// Opens the breaker for at least `floor`, twice as long each time, or prolongs the wait if it is open.
    fn trip(&mut self, now: Tick, started: Tick, blame: Blame, floor: Span) {
        let doubled = self.config.cool_down.as_nanos().saturating_mul(1 << self.trips.min(20));
        let cool_down = Span::from_nanos(doubled).min(self.config.max_cool_down).max(floor);
        if self.is_new_failure(started) {
            self.open_for(now, started, blame, cool_down);
            self.trips = self.trips.saturating_add(1);
        } else {
            self.open_for(now, started, blame, floor);
        }
    }

    /// Whether the call was started while the breaker was closed, or as a probe. Calls that were already in flight when
    /// it opened say nothing new.
    fn is_new_failure(&self, started: Tick) -> bool {
        self.open.is_none_or(|period| started >= period.until)
    }

    fn open_for(&mut self, now: Tick, started: Tick, blame: Blame, wait: Span) {
        let until = now + wait;
        match &mut self.open {
            Some(period) if started < period.until => {
                if until > period.until {
                    (period.until, period.blame) = (until, blame);
                }
            }
            _ => self.open = Some(OpenPeriod { at: now, until, blame, probe_at: None }),
        }
    }

    /// The same without the probe in flight, for a router that does not learn of its end.
    pub fn without_probe(mut self) -> Breaker {
        self.open.iter_mut().for_each(|period| period.probe_at = None);
        self
    }

    /// Who is to blame and when its wait is over, while it is open or half-open.
    pub fn opened_by(&self) -> Option<(Blame, Tick)> {
        self.open.map(|period| (period.blame, period.until))
    }

    /// When it opened, if it is open.
    pub fn open_since(&self) -> Option<Tick> {
        self.open.map(|period| period.at)
    }
}

#[cfg(test)]
mod tests;
