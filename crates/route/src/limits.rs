//! The limits of one virtual key: requests and tokens a minute, streams at once, dollars a month.
//!
//! It refuses to know keys and calendars: the month is handed in. Invariant: what calls under way were admitted for counts as
//! used until they are settled, so that calls at once exceed a limit by no more than their estimates were wrong; a clock that
//! jumps neither locks a key out for ever nor gives a month's budget twice.

use std::collections::BTreeMap;
use tokrate_core::{Span, Tick};

/// What a key may use; `None` for no limit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct KeyLimits {
    /// Requests a minute.
    pub requests_per_minute: Option<u32>,
    /// Tokens a minute, those of prompt and answer.
    pub tokens_per_minute: Option<u64>,
    /// Calls at once.
    pub streams: Option<u32>,
    /// Dollars a calendar month.
    pub usd_per_month: Option<f64>,
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

/// What is held for a call, to be handed back with [`KeyMeter::settle`] or [`KeyMeter::release`].
#[derive(PartialEq, Debug)]
#[must_use = "what is never settled is held for ever"]
pub struct Held {
    month: Month,
    tokens: u64,
    usd: f64,
}

/// What one key has used.
#[derive(Clone, Debug)]
pub struct KeyMeter {
    limits: KeyLimits,
    requests: Bucket,
    tokens: Bucket,
    streams: u32,
    /// Dollars by month, spent and held for calls under way; the latest few.
    months: BTreeMap<Month, Dollars>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Dollars {
    spent: f64,
    held: f64,
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

    /// Dollars that were spent in a month before this meter was made, as the log has them.
    pub fn restore(&mut self, month: Month, usd: f64) {
        if let Some(dollars) = self.dollars(month) {
            dollars.spent = dollars.spent.max(usd);
        }
    }

    /// Whether a call may begin, by requests a minute and calls at once; if so, it is counted. Nothing has to be known of it.
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

    /// Holds so many tokens and dollars for a call, if tokens a minute and dollars a month allow it.
    ///
    /// # Errors
    /// The limit that is used up; nothing is held then.
    pub fn reserve(
        &mut self,
        now: Tick,
        month: Month,
        expected_tokens: u64,
        expected_usd: f64,
    ) -> Result<Held, Refused> {
        let refused = |what, retry_after| Err(Refused { what, retry_after });
        let usd = if expected_usd.is_finite() { expected_usd.max(0.0) } else { 0.0 };
        if let Some(most) = self.limits.usd_per_month {
            let used = self.dollars(month).map_or(0.0, |dollars| dollars.spent + dollars.held);
            if used + usd > most || used >= most {
                return refused(RefusedFor::Budget, None);
            }
        }
        if let Err(wait) = self.tokens.has(now, expected_tokens as f64) {
            return refused(RefusedFor::Tokens, wait);
        }
        self.tokens.take(expected_tokens as f64);
        if let Some(dollars) = self.dollars(month) {
            dollars.held += usd;
        }
        Ok(Held { month, tokens: expected_tokens, usd })
    }

    /// A call has ended, and this is what it used.
    pub fn settle(&mut self, now: Tick, held: Held, tokens: u64, usd: f64) {
        self.tokens.fill(now);
        self.tokens.take(tokens as f64 - held.tokens as f64);
        let usd = if usd.is_finite() { usd.max(0.0) } else { held.usd };
        if let Some(dollars) = self.dollars(held.month) {
            dollars.spent += usd;
            dollars.held = (dollars.held - held.usd).max(0.0);
        }
    }

    /// A call has ended and used nothing: it never reached a lane, or no lane took it.
    pub fn release(&mut self, now: Tick, held: Held) {
        self.settle(now, held, 0, 0.0);
    }

    /// Calls under way.
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// Dollars spent in a month, without those held for calls under way.
    pub fn usd_spent(&self, month: Month) -> f64 {
        self.months.get(&month).map_or(0.0, |dollars| dollars.spent)
    }

    /// A month's dollars; `None` for one that is long forgotten.
    fn dollars(&mut self, month: Month) -> Option<&mut Dollars> {
        self.months.entry(month).or_default();
        while self.months.len() > MONTHS_MOST {
            self.months.pop_first();
        }
        self.months.get_mut(&month)
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
