//! The limits of one virtual key: requests and tokens a minute, streams at once, dollars a month.
//!
//! It refuses to know keys, prices and calendars: amounts and the month are handed in. Invariant: what an attempt may cost at
//! most is held from before its start until it is settled, so that spent and held together never exceed the budget by more than
//! one attempt may cost beyond what was expected of it; a clock that jumps neither locks a key out for ever nor gives a month's
//! budget twice.

use std::collections::BTreeMap;
use tokrate_core::{Money, Span, Tick};

/// What a key may use; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyLimits {
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, those of prompt and answer.
    pub tokens_per_minute: Option<u64>,
    /// Calls at once.
    pub streams: Option<u32>,
    /// Dollars a calendar month.
    pub usd_per_month: Option<Money>,
}

/// A calendar month.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Month {
    /// Its year.
    pub year: i32,
    /// 1 to 12.
    pub month: u8,
}

/// Which limit refused a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RefusedFor {
    /// Requests a minute.
    Requests,
    /// Tokens a minute.
    Tokens,
    /// Calls at once.
    Streams,
    /// Dollars a month.
    Budget,
}

/// A call that was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The limit that is used up.
    pub what: RefusedFor,
    /// How long to wait; `None` if it cannot be said, or no wait helps.
    pub retry_after: Option<Span>,
}

/// A call that was admitted, to be handed back with [`KeyMeter::leave`].
#[derive(PartialEq, Debug)]
#[must_use = "a call that is never handed back is under way for ever"]
pub struct Admitted(());

/// What an attempt may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// What it may cost at most; so much is held for it.
    pub most: Money,
    /// What must fit into the budget for it to begin: the same, or less where nobody set a limit to its answer.
    pub expected: Money,
}

/// What is held for an attempt, to be handed back with [`KeyMeter::settle`] or [`KeyMeter::release`].
#[derive(PartialEq, Debug)]
#[must_use = "what is never settled is held for ever"]
pub struct HeldForAttempt {
    month: Month,
    tokens: u64,
    most: Money,
}

/// Dollars of one month.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spending {
    /// What attempts cost that are settled.
    pub spent: Money,
    /// What attempts under way may cost at most.
    pub held: Money,
}

/// What one key has used.
#[derive(Clone, Debug)]
pub struct KeyMeter {
    limits: KeyLimits,
    requests: Bucket,
    tokens: Bucket,
    streams: u32,
    /// By month; the latest few.
    months: BTreeMap<Month, Spending>,
}

/// Months that are remembered: a clock that goes back and forth finds its month again.
const MONTHS_MOST: usize = 4;

impl KeyMeter {
    /// A key that has used nothing yet.
    pub fn new(limits: KeyLimits, now: Tick) -> KeyMeter {
        KeyMeter {
            limits,
            requests: Bucket::full(limits.requests_per_minute.map(f64::from), now),
            tokens: Bucket::full(limits.tokens_per_minute.map(|tokens| tokens as f64), now),
            streams: 0,
            months: BTreeMap::new(),
        }
    }

    /// Its limits.
    pub fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Other limits from now on; what was used stays used.
    pub fn set_limits(&mut self, now: Tick, limits: KeyLimits) {
        self.limits = limits;
        self.requests.set_limit(now, limits.requests_per_minute.map(f64::from));
        self.tokens.set_limit(now, limits.tokens_per_minute.map(|tokens| tokens as f64));
    }

    /// What was spent in a month before this meter was made, as the log has it.
    pub fn restore(&mut self, month: Month, spent: Money) {
        let known = self.month(month);
        known.spent = known.spent.max(spent);
    }

    /// Whether a call may begin, by requests a minute and calls at once; if so, it is counted.
    ///
    /// # Errors
    /// The limit that is used up; nothing is counted then.
    pub fn admit(&mut self, now: Tick) -> Result<Admitted, Refused> {
        if self.limits.streams.is_some_and(|most| self.streams >= most) {
            return Err(Refused { what: RefusedFor::Streams, retry_after: None });
        }
        if let Err(retry_after) = self.requests.has(now, 1.0) {
            return Err(Refused { what: RefusedFor::Requests, retry_after });
        }
        self.requests.take(1.0);
        self.streams += 1;
        Ok(Admitted(()))
    }

    /// A call has ended. The request itself stays counted.
    pub fn leave(&mut self, _: Admitted) {
        self.streams = self.streams.saturating_sub(1);
    }

    /// Holds what an attempt may use, if tokens a minute and dollars a month allow it to begin. One that costs nothing always
    /// fits the budget.
    ///
    /// At any time spent and held together are at most the budget plus `most - expected` of one attempt: whoever begins fits in
    /// with what is expected of it beside the most of all others.
    ///
    /// # Errors
    /// The limit that is used up; nothing is held then.
    pub fn reserve(&mut self, now: Tick, month: Month, need: Need) -> Result<HeldForAttempt, Refused> {
        let Need { tokens, most, expected } = need;
        let Spending { spent, held } = *self.month(month);
        if let Some(budget) = self.limits.usd_per_month.filter(|_| most > Money::ZERO) {
            let used = spent.saturating_add(held);
            if used >= budget || used.saturating_add(expected) > budget {
                return Err(Refused { what: RefusedFor::Budget, retry_after: None });
            }
        }
        if let Err(retry_after) = self.tokens.has(now, tokens as f64) {
            return Err(Refused { what: RefusedFor::Tokens, retry_after });
        }
        self.tokens.take(tokens as f64);
        self.month(month).held = held.saturating_add(most);
        Ok(HeldForAttempt { month, tokens, most })
    }

    /// An attempt may cost no more than so much, as has become known; it never holds more than before.
    pub fn lower(&mut self, attempt: &mut HeldForAttempt, most: Money) {
        let freed = attempt.most.saturating_sub(most);
        let month = self.month(attempt.month);
        month.held = month.held.saturating_sub(freed);
        attempt.most = attempt.most.min(most);
    }

    /// An attempt has ended, and this is what it used.
    pub fn settle(&mut self, now: Tick, attempt: HeldForAttempt, tokens: u64, cost: Money) {
        self.tokens.fill(now);
        self.tokens.take(tokens as f64 - attempt.tokens as f64);
        let month = self.month(attempt.month);
        month.held = month.held.saturating_sub(attempt.most);
        month.spent = month.spent.saturating_add(cost);
    }

    /// An attempt used nothing: it was never begun.
    pub fn release(&mut self, now: Tick, attempt: HeldForAttempt) {
        self.settle(now, attempt, 0, Money::ZERO);
    }

    /// Calls under way.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Dollars of a month.
    pub fn spending(&self, month: Month) -> Spending {
        self.months.get(&month).copied().unwrap_or_default()
    }

    /// A month's dollars. One that is earlier than all that are remembered counts as the earliest of them: its own would be
    /// forgotten at once, and with it what is spent in it.
    fn month(&mut self, month: Month) -> &mut Spending {
        let is_full = self.months.len() >= MONTHS_MOST;
        let earliest = self.months.keys().next().copied().filter(|_| is_full);
        let month = earliest.map_or(month, |earliest| month.max(earliest));
        if is_full && !self.months.contains_key(&month) {
            self.months.pop_first();
        }
        self.months.entry(month).or_default()
    }
}

/// What fills steadily, up to one minute's worth. It may owe.
#[derive(Clone, Debug)]
struct Bucket {
    per_minute: Option<f64>,
    level: f64,
    filled_at: Tick,
}

impl Bucket {
    fn full(per_minute: Option<f64>, now: Tick) -> Bucket {
        Bucket { per_minute, level: per_minute.unwrap_or(0.0), filled_at: now }
    }

    fn set_limit(&mut self, now: Tick, per_minute: Option<f64>) {
        self.fill(now);
        self.level = match (self.per_minute, per_minute) {
            (Some(_), Some(most)) => self.level.min(most),
            (_, most) => most.unwrap_or(0.0),
        };
        self.per_minute = per_minute;
    }

    fn fill(&mut self, now: Tick) {
        if let Some(per_minute) = self.per_minute {
            self.level = (self.level + now.since(self.filled_at).as_secs_f64() * per_minute / 60.0).min(per_minute);
        }
        self.filled_at = self.filled_at.max(now);
    }

    /// Whether so many are there; if not, how long until they are (`None` for never).
    fn has(&mut self, now: Tick, wanted: f64) -> Result<(), Option<Span>> {
        self.fill(now);
        let Some(per_minute) = self.per_minute else { return Ok(()) };
        // A rounding error of a fill must not make anybody wait.
        let missing = wanted - self.level;
        if missing <= 1e-6 {
            return Ok(());
        }
        let wait = Span::from_secs_f64(missing * 60.0 / per_minute.max(f64::MIN_POSITIVE));
        Err((wanted <= per_minute).then_some(wait))
    }

    fn take(&mut self, wanted: f64) {
        if let Some(per_minute) = self.per_minute {
            self.level = (self.level - wanted).min(per_minute);
        }
    }
}

#[cfg(test)]
mod tests;
