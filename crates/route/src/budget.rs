//! The budget for extra requests (hedges and races): a share of the calls, a share of the spending, dollars per hour.
//!
//! Invariant: extra requests never exceed their share of the calls plus one burst; extra dollars, reservations included,
//! exceed their limits by no more than the error of an estimate.

use tokrate_core::{Span, Tick};

/// The settings of a budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BudgetConfig {
    /// Extra requests as a share of calls: each call adds this much to the bucket, which begins with one if this is above 0.
    pub extra_share: f64,
    /// Capacity of the bucket, in requests.
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

/// What keeps an extra request from starting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetLimit {
    /// [`BudgetConfig::extra_share`].
    ExtraShare,
    /// [`BudgetConfig::max_extra_cost_pct`].
    ExtraCost,
    /// [`BudgetConfig::max_extra_usd_per_hour`].
    ExtraUsdPerHour,
}

impl BudgetLimit {
    /// The name of its setting.
    pub const fn name(self) -> &'static str {
        match self {
            BudgetLimit::ExtraShare => "extra_share",
            BudgetLimit::ExtraCost => "max_extra_cost_pct",
            BudgetLimit::ExtraUsdPerHour => "max_extra_usd_per_hour",
        }
    }
}

/// The reservation of an extra request, to be returned with [`Budget::settle`] when its cost is known.
#[derive(PartialEq, Debug)]
#[must_use = "a reservation that is never settled or released stays reserved"]
pub struct ExtraReservation {
    usd: f64,
}

/// The outcome of an attempt within its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptResult {
    /// Its answer went to the client.
    Won,
    /// Another attempt won.
    Lost,
    /// It failed, or the client disconnected before any attempt had won.
    Neither,
}

/// The most that one more attempt can add to the cost of a call beyond its winner (USD): if the most expensive attempts
/// lose, either its own cost or that of the cheapest one under way, whichever is higher. `None` if a cost is not known.
pub fn extra_usd(own: Option<f64>, under_way: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let costs = under_way.collect::<Option<Vec<f64>>>()?;
    let cheapest = costs.into_iter().reduce(f64::min).unwrap_or(0.0);
    own.map(|own| own.max(cheapest))
}

/// The budget for extra requests of one alias.
#[derive(Clone, Debug)]
pub struct Budget {
    config: BudgetConfig,
    /// Extra requests that may be started now.
    level: f64,
    reserved_usd: f64,
    extra: HourlySum,
    regular: HourlySum,
}

impl Budget {
    /// A budget whose calls have earned nothing yet, but for one extra request: the first call may be one that hangs.
    pub fn new(config: BudgetConfig) -> Budget {
        let level = if config.extra_share > 0.0 { 1.0 } else { 0.0 };
        Budget { config, level, reserved_usd: 0.0, extra: HourlySum::default(), regular: HourlySum::default() }
    }

    /// A call has arrived: the bucket earns its share.
    pub fn on_call(&mut self) {
        self.level = (self.level + self.config.extra_share.max(0.0)).min(self.config.burst.max(1.0));
    }

    /// A regular request (one that would have been sent anyway) cost this much (USD).
    pub fn record_regular(&mut self, now: Tick, usd: f64) {
        self.regular.add(now, usd);
    }

    /// Whether an extra request of this expected cost (USD) may start.
    pub fn permits(&mut self, now: Tick, expected_usd: Option<f64>) -> bool {
        self.limit_for(now, expected_usd).is_none()
    }

    /// What keeps an extra request of this expected cost (USD) from starting now, if anything does. An unknown cost is not
    /// allowed where dollars are limited: unknown is not zero.
    pub fn limit_for(&mut self, now: Tick, expected_usd: Option<f64>) -> Option<BudgetLimit> {
        // Ten times 0.1 is slightly less than 1 in floating point.
        if self.level < 1.0 - 1e-9 {
            return Some(BudgetLimit::ExtraShare);
        }
        let BudgetConfig { max_extra_cost_pct, max_extra_usd_per_hour, .. } = self.config;
        let extra = expected_usd.map(|usd| self.extra.last_hour(now) + self.reserved_usd + usd);
        let regular = if max_extra_cost_pct.is_some() { self.regular.last_hour(now) } else { 0.0 };
        let exceeds = |limit: Option<f64>| limit.is_some_and(|limit| extra.is_none_or(|extra| extra > limit));
        if exceeds(max_extra_cost_pct.map(|percent| regular * percent / 100.0)) {
            return Some(BudgetLimit::ExtraCost);
        }
        exceeds(max_extra_usd_per_hour).then_some(BudgetLimit::ExtraUsdPerHour)
    }

    /// Reserves an extra request if it is permitted.
    pub fn reserve(&mut self, now: Tick, expected_usd: Option<f64>) -> Option<ExtraReservation> {
        if !self.permits(now, expected_usd) {
            return None;
        }
        self.level = (self.level - 1.0).max(0.0);
        let usd = expected_usd.unwrap_or(0.0).max(0.0);
        self.reserved_usd += usd;
        Some(ExtraReservation { usd })
    }

    /// An extra request has ended and cost this much (USD; 0 if it is not billed).
    pub fn settle_extra(&mut self, now: Tick, reserved: ExtraReservation, usd: f64) {
        self.reserved_usd = (self.reserved_usd - reserved.usd).max(0.0);
        debug_assert!(self.reserved_usd >= 0.0 && self.level >= 0.0, "a budget is never negative");
        self.extra.add(now, usd);
    }

    /// A request has ended and cost this much (USD; 0 if it is not billed). Extra is what a call cost beyond its
    /// winner: if the extra request won, the cost of the regular one counts as extra.
    pub fn settle(&mut self, now: Tick, reserved: Option<ExtraReservation>, usd: f64, result: AttemptResult) {
        match (reserved, result) {
            (Some(reserved), AttemptResult::Won) => {
                self.settle_extra(now, reserved, 0.0);
                self.record_regular(now, usd);
            }
            (Some(reserved), AttemptResult::Lost | AttemptResult::Neither) => self.settle_extra(now, reserved, usd),
            (None, AttemptResult::Lost) => self.extra.add(now, usd),
            (None, AttemptResult::Won | AttemptResult::Neither) => self.record_regular(now, usd),
        }
    }

    /// An extra request was never sent: returns its reservation.
    pub fn release(&mut self, reserved: ExtraReservation) {
        self.reserved_usd = (self.reserved_usd - reserved.usd).max(0.0);
        self.level = (self.level + 1.0).min(self.config.burst.max(1.0));
    }

    /// Extra requests that could start now, dollars aside.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// Dollars reserved for extra requests in flight.
    pub fn reserved_usd(&self) -> f64 {
        self.reserved_usd
    }

    /// Dollars spent on extra requests in the last hour.
    pub fn extra_usd_last_hour(&mut self, now: Tick) -> f64 {
        self.extra.last_hour(now)
    }
}

const MINUTE: Span = Span::from_secs(60);
/// One more than an hour has: the minute in which the hour began counts in full, so that the sum is never too small.
const MINUTES: usize = 61;

/// A sum over the last hour, by minute.
#[derive(Clone, Debug)]
struct HourlySum {
    minutes: [f64; MINUTES],
    /// The latest minute with a sample, counted from the origin of the clock.
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

    /// Clears the minutes that are too old. A clock that goes back adds to the latest known minute.
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
