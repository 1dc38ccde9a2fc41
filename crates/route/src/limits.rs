//! The limits of one virtual key: requests and tokens per minute, concurrent streams, dollars per month.
//!
//! Invariant: the highest cost of an attempt is reserved before it starts and until it is settled, so that spent and
//! reserved together exceed the budget by at most one attempt's `max_cost - expected_cost`; a clock that jumps neither
//! locks a key out for good nor grants a month's budget twice.

use std::collections::BTreeMap;
use tokrate_core::{Money, Span, Tick};

/// Limits of a key; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyLimits {
    /// Requests per minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens per minute, of prompt and answer.
    pub tokens_per_minute: Option<u64>,
    /// Concurrent calls.
    pub streams: Option<u32>,
    /// Dollars per calendar month.
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
pub enum LimitKind {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Concurrent calls.
    Streams,
    /// Dollars per month.
    Budget,
}

/// A call that was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The limit that is exhausted.
    pub limit: LimitKind,
    /// How long to wait; `None` if that is not known or does not help.
    pub retry_after: Option<Span>,
}

/// An admitted call, to be returned with [`KeyMeter::end_call`].
#[derive(PartialEq, Debug)]
#[must_use = "a call that is never ended counts as in flight forever"]
pub struct Admitted(());

/// What an attempt may use, to be reserved before it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReservationRequest {
    /// Tokens of prompt and answer.
    pub tokens: u64,
    /// The highest cost, which is reserved.
    pub max_cost: Money,
    /// What must fit into the budget for it to start: the same, or less if its answer has no output limit.
    pub expected_cost: Money,
}

/// The reservation of an attempt, to be returned with [`KeyMeter::settle`] or [`KeyMeter::release`].
#[derive(PartialEq, Debug)]
#[must_use = "a reservation that is never settled stays reserved"]
pub struct KeyReservation {
    month: Month,
    tokens: u64,
    max_cost: Money,
}

/// Dollars of one month.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spending {
    /// Cost of the settled attempts.
    pub spent: Money,
    /// Highest cost of the attempts in flight.
    pub reserved: Money,
}

/// Usage of one key.
#[derive(Clone, Debug)]
pub struct KeyMeter {
    limits: KeyLimits,
    requests: Bucket,
    tokens: Bucket,
    streams: u32,
    /// By month; only the latest few are kept.
    months: BTreeMap<Month, Spending>,
}

/// Months that are kept: a clock that goes back and forth across a month end finds its month again.
const MAX_MONTHS: usize = 4;

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

    /// Changes the limits; usage stays counted.
    pub fn set_limits(&mut self, now: Tick, limits: KeyLimits) {
        self.limits = limits;
        self.requests.set_limit(now, limits.requests_per_minute.map(f64::from));
        self.tokens.set_limit(now, limits.tokens_per_minute.map(|tokens| tokens as f64));
    }

    /// Sets what was spent in a month before this meter was created, as the log has it.
    pub fn restore(&mut self, month: Month, spent: Money) {
        let known = self.month(month);
        known.spent = known.spent.max(spent);
    }

    /// Admits and counts a call if requests per minute and concurrent calls allow it.
    ///
    /// # Errors
    /// The limit that is exhausted; nothing is counted then.
    pub fn admit(&mut self, now: Tick) -> Result<Admitted, Refused> {
        if self.limits.streams.is_some_and(|limit| self.streams >= limit) {
            return Err(Refused { limit: LimitKind::Streams, retry_after: None });
        }
        if let Err(retry_after) = self.requests.check(now, 1.0) {
            return Err(Refused { limit: LimitKind::Requests, retry_after });
        }
        self.requests.take(1.0);
        self.streams += 1;
        Ok(Admitted(()))
    }

    /// Counts a request that a call under way makes beside its first.
    ///
    /// # Errors
    /// When no request per minute is left; nothing is counted then.
    pub fn count_request(&mut self, now: Tick) -> Result<(), Refused> {
        let refused = |retry_after| Refused { limit: LimitKind::Requests, retry_after };
        self.requests.check(now, 1.0).map_err(refused)?;
        self.requests.take(1.0);
        Ok(())
    }

    /// Whether tokens per minute are left.
    pub fn has_tokens(&mut self, now: Tick) -> bool {
        self.tokens.check(now, 1.0).is_ok()
    }

    /// A call has ended. The request stays counted.
    pub fn end_call(&mut self, _: Admitted) {
        debug_assert!(self.streams > 0, "a call ends once");
        self.streams = self.streams.saturating_sub(1);
    }

    /// Reserves what an attempt may use if tokens per minute and dollars per month allow it to start. A free attempt
    /// always fits the budget.
    ///
    /// Spent and reserved together are at most the budget plus `max_cost - expected_cost` of one attempt: each start
    /// fits with its expected cost beside the highest cost of all others.
    ///
    /// # Errors
    /// The limit that is exhausted; nothing is reserved then.
    pub fn reserve(&mut self, now: Tick, month: Month, need: ReservationRequest) -> Result<KeyReservation, Refused> {
        let ReservationRequest { tokens, max_cost, expected_cost } = need;
        let Spending { spent, reserved } = *self.month(month);
        if let Some(budget) = self.limits.usd_per_month.filter(|_| max_cost > Money::ZERO) {
            let used = spent.saturating_add(reserved);
            if used >= budget || used.saturating_add(expected_cost) > budget {
                return Err(Refused { limit: LimitKind::Budget, retry_after: None });
            }
        }
        if let Err(retry_after) = self.tokens.check(now, tokens as f64) {
            return Err(Refused { limit: LimitKind::Tokens, retry_after });
        }
        self.tokens.take(tokens as f64);
        self.month(month).reserved = reserved.saturating_add(max_cost);
        Ok(KeyReservation { month, tokens, max_cost })
    }

    /// The highest cost of an attempt has turned out to be lower. A reservation never grows.
    pub fn lower(&mut self, attempt: &mut KeyReservation, max_cost: Money) {
        let freed = attempt.max_cost.saturating_sub(max_cost);
        let month = self.month(attempt.month);
        month.reserved = month.reserved.saturating_sub(freed);
        attempt.max_cost = attempt.max_cost.min(max_cost);
    }

    /// An attempt has ended and used this much.
    pub fn settle(&mut self, now: Tick, attempt: KeyReservation, tokens: u64, cost: Money) {
        self.tokens.refill(now);
        self.tokens.take(tokens as f64 - attempt.tokens as f64);
        let month = self.month(attempt.month);
        month.reserved = month.reserved.saturating_sub(attempt.max_cost);
        month.spent = month.spent.saturating_add(cost);
    }

    /// An attempt was never started and used nothing.
    pub fn release(&mut self, now: Tick, attempt: KeyReservation) {
        self.settle(now, attempt, 0, Money::ZERO);
    }

    /// Calls in flight.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Dollars of a month.
    pub fn spending(&self, month: Month) -> Spending {
        self.months.get(&month).copied().unwrap_or_default()
    }

    /// Spending of a month. A month before all that are kept counts as the earliest of them: its own entry would be
    /// dropped at once, and what is spent in it forgotten.
    fn month(&mut self, month: Month) -> &mut Spending {
        let is_full = self.months.len() >= MAX_MONTHS;
        let earliest = self.months.keys().next().copied().filter(|_| is_full);
        let month = earliest.map_or(month, |earliest| month.max(earliest));
        if is_full && !self.months.contains_key(&month) {
            self.months.pop_first();
        }
        self.months.entry(month).or_default()
    }
}

/// A token bucket that holds up to one minute's worth. Its level may be negative.
#[derive(Clone, Debug)]
struct Bucket {
    per_minute: Option<f64>,
    level: f64,
    refilled_at: Tick,
}

impl Bucket {
    fn full(per_minute: Option<f64>, now: Tick) -> Bucket {
        Bucket { per_minute, level: per_minute.unwrap_or(0.0), refilled_at: now }
    }

    fn set_limit(&mut self, now: Tick, per_minute: Option<f64>) {
        self.refill(now);
        self.level = match (self.per_minute, per_minute) {
            (Some(_), Some(capacity)) => self.level.min(capacity),
            (_, capacity) => capacity.unwrap_or(0.0),
        };
        self.per_minute = per_minute;
    }

    fn refill(&mut self, now: Tick) {
        if let Some(per_minute) = self.per_minute {
            self.level = (self.level + now.since(self.refilled_at).as_secs_f64() * per_minute / 60.0).min(per_minute);
        }
        self.refilled_at = self.refilled_at.max(now);
    }

    /// Whether the bucket holds `wanted`; if not, how long until it does (`None` for never).
    fn check(&mut self, now: Tick, wanted: f64) -> Result<(), Option<Span>> {
        self.refill(now);
        let Some(per_minute) = self.per_minute else { return Ok(()) };
        // A rounding error must not make a call wait.
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
