//! What extra requests may cost: a share of the calls, a share of the spending, dollars in an hour.
//!
//! It refuses to know lanes and races. Invariant: extra requests never exceed their share of the calls plus one burst, and
//! extra dollars, those of requests under way included, never exceed their limits by more than an estimate was wrong.

use tokrate_core::{Span, Tick};

/// The settings of a budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetConfig {
    /// Extra requests as a share of calls: each call adds so much to the bucket.
    pub extra_share: f64,
    /// The most that the bucket holds, in requests.
    pub burst: f64,
    /// Extra dollars of the last hour as a percentage of what the calls of that hour would have cost without them; `None` for
    /// no limit.
    pub max_extra_cost_pct: Option<f64>,
    /// Extra dollars in any hour; `None` for no limit.
    pub max_extra_usd_per_hour: Option<f64>,
}

impl Default for BudgetConfig {
    fn default() -> BudgetConfig {
        BudgetConfig { extra_share: 0.1, burst: 10.0, max_extra_cost_pct: None, max_extra_usd_per_hour: None }
    }
}

/// An extra request that was granted, to be handed back with [`Budget::spent`] when its cost is known.
#[derive(PartialEq, Debug)]
#[must_use = "what is never handed back is held for ever"]
pub struct Reserved {
    usd: f64,
}

/// How a request stood in its call when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stood {
    /// Its answer went to the client.
    Won,
    /// Another one's did.
    Lost,
    /// It failed, or the client left before any had won.
    Neither,
}

/// What one more request can make a call cost beyond its winner (USD), beside those that are under way: the dearest of them lose, so
/// it is its own cost or that of the cheapest one, whichever is more. `None` if a cost is not known.
pub fn extra_usd(own: Option<f64>, under_way: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let costs = under_way.collect::<Option<Vec<f64>>>()?;
    let cheapest = costs.into_iter().reduce(f64::min).unwrap_or(0.0);
    own.map(|own| own.max(cheapest))
}

/// What is left for extra requests.
#[derive(Clone, Debug)]
pub struct Budget {
    config: BudgetConfig,
    /// Extra requests that may be started now.
    level: f64,
    reserved_usd: f64,
    extra: HourlySum,
    base: HourlySum,
}

impl Budget {
    /// A budget with an empty bucket: extra requests are earned by calls.
    pub fn new(config: BudgetConfig) -> Budget {
        Budget { config, level: 0.0, reserved_usd: 0.0, extra: HourlySum::default(), base: HourlySum::default() }
    }

    /// A call came in.
    pub fn call(&mut self) {
        self.level = (self.level + self.config.extra_share.max(0.0)).min(self.config.burst.max(1.0));
    }

    /// A call's own request, the one that would have been made anyway, cost so much (USD).
    pub fn paid(&mut self, now: Tick, usd: f64) {
        self.base.add(now, usd);
    }

    /// Whether an extra request of that expected cost (USD) may be started. One of unknown cost may not where dollars are
    /// limited: unknown is not nothing.
    pub fn permits(&mut self, now: Tick, expected_usd: Option<f64>) -> bool {
        // A tenth added ten times is a hair less than one.
        if self.level < 1.0 - 1e-9 {
            return false;
        }
        if self.config.max_extra_cost_pct.is_none() && self.config.max_extra_usd_per_hour.is_none() {
            return true;
        }
        let Some(expected_usd) = expected_usd else { return false };
        let extra = self.extra.last_hour(now) + self.reserved_usd + expected_usd;
        let base = self.base.last_hour(now);
        self.config.max_extra_cost_pct.is_none_or(|percent| extra <= base * percent / 100.0)
            && self.config.max_extra_usd_per_hour.is_none_or(|most| extra <= most)
    }

    /// Takes an extra request out of the budget if it is permitted.
    pub fn reserve(&mut self, now: Tick, expected_usd: Option<f64>) -> Option<Reserved> {
        if !self.permits(now, expected_usd) {
            return None;
        }
        self.level = (self.level - 1.0).max(0.0);
        let usd = expected_usd.unwrap_or(0.0).max(0.0);
        self.reserved_usd += usd;
        Some(Reserved { usd })
    }

    /// An extra request has ended and cost so much (USD; 0 if nobody bills it).
    pub fn spent(&mut self, now: Tick, reserved: Reserved, usd: f64) {
        self.reserved_usd = (self.reserved_usd - reserved.usd).max(0.0);
        self.extra.add(now, usd);
    }

    /// A request has ended and cost so much (USD; 0 if nobody bills it). Extra is what a call cost beyond its winner: if the extra
    /// request has won, the one that would have been made anyway is what was spent on racing.
    pub fn settle(&mut self, now: Tick, reserved: Option<Reserved>, usd: f64, stood: Stood) {
        match (reserved, stood) {
            (Some(reserved), Stood::Won) => {
                self.spent(now, reserved, 0.0);
                self.paid(now, usd);
            }
            (Some(reserved), Stood::Lost | Stood::Neither) => self.spent(now, reserved, usd),
            (None, Stood::Lost) => self.extra.add(now, usd),
            (None, Stood::Won | Stood::Neither) => self.paid(now, usd),
        }
    }

    /// An extra request that was granted was never sent: its place and its dollars are free again.
    pub fn give_back(&mut self, reserved: Reserved) {
        self.reserved_usd = (self.reserved_usd - reserved.usd).max(0.0);
        self.level = (self.level + 1.0).min(self.config.burst.max(1.0));
    }

    /// Extra requests that could be started now, dollars aside.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Dollars held for extra requests under way.
    pub fn reserved_usd(&self) -> f64 {
        self.reserved_usd
    }

    /// Dollars that went to extra requests in the last hour.
    pub fn extra_usd_last_hour(&mut self, now: Tick) -> f64 {
        self.extra.last_hour(now)
    }
}

const MINUTE: Span = Span::from_secs(60);
/// One more than an hour has: the minute that the hour began in counts as a whole, so that the sum is never too small.
const MINUTES: usize = 61;

/// A sum over the last hour, in steps of a minute.
#[derive(Clone, Debug)]
struct HourlySum {
    minutes: [f64; MINUTES],
    /// The latest minute that anything was added in, counted from the origin of the clock.
    latest: u64,
}

impl Default for HourlySum {
    fn default() -> HourlySum {
        HourlySum { minutes: [0.0; MINUTES], latest: 0 }
    }
}

impl HourlySum {
    fn add(&mut self, now: Tick, amount: f64) {
        self.advance(now);
        if amount.is_finite() {
            self.minutes[(self.latest % MINUTES as u64) as usize] += amount.max(0.0);
        }
    }

    fn last_hour(&mut self, now: Tick) -> f64 {
        self.advance(now);
        self.minutes.iter().sum()
    }

    /// Forgets the minutes that are too long ago. A clock that went back adds to the latest minute known.
    fn advance(&mut self, now: Tick) {
        let minute = now.as_nanos() / MINUTE.as_nanos();
        for passed in 1..=minute.saturating_sub(self.latest).min(MINUTES as u64) {
            self.minutes[((self.latest + passed) % MINUTES as u64) as usize] = 0.0;
        }
        self.latest = self.latest.max(minute);
    }
}

#[cfg(test)]
mod tests;
