//! How often each series is probed, so that a budget suffices: where it does not, the series with the narrowest interval is probed
//! less often, again and again.
//!
//! Invariant: no series is left out; at the least it is probed once a week, or as seldom as was asked.

use crate::budget::BudgetKind;
use crate::config::{Config, DAY_MS};
use crate::schedule::{Schedule, SeriesId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tokrate_core::Money;

/// Days of a month, for a plan that is shown before anything is sent.
const MONTH_DAYS: f64 = 30.0;
/// What the schedule may use of a budget; the rest is for further probes after a suspicion.
const REGULAR_SHARE: f64 = 0.85;
/// The longest time between probes of a series (days), unless more was asked.
const MAX_DAYS: u32 = 7;

/// A limit over some time: which, how much is left, and how many cycles of it a series has when it is in one of so many.
pub(crate) struct Window<'w> {
    pub kind: BudgetKind,
    pub left: f64,
    pub cycles: Box<dyn Fn(SeriesId, u32) -> f64 + 'w>,
}

/// A cadence that fits.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cadence {
    /// Each series is part of one cycle in so many.
    pub every: Vec<u32>,
    /// The budget for which it was lowered.
    pub lowered: Option<BudgetKind>,
    /// The budgets that do not suffice even so.
    pub short: Vec<BudgetKind>,
}

/// What the schedule comes to in a month of 30 days.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Each series.
    pub series: Vec<PlannedSeries>,
    /// The budget for which some series are probed less often than asked.
    pub lowered: Option<BudgetKind>,
    /// Budgets that do not suffice for one probe of each series in a week.
    pub short: Vec<BudgetKind>,
}

/// What one series comes to.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedSeries {
    /// Place of the endpoint in the configuration.
    pub endpoint: usize,
    /// Place of the workload.
    pub workload: usize,
    /// In one cycle of how many it was asked to be, and is planned to be.
    pub asked_every: u32,
    /// See `asked_every`.
    pub every: u32,
    /// Requests in a month.
    pub requests: f64,
    /// Tokens of prompts and answers in a month, when answers are as long as allowed.
    pub tokens: f64,
    /// What they cost (USD); `None` where no price is known.
    pub usd: Option<f64>,
}

impl Plan {
    /// Plans a month of 30 days.
    pub fn of(config: &Config) -> Plan {
        let schedule = Schedule::new(config);
        let slots = f64::from(config.slots_a_day);
        let mut windows = Vec::new();
        if let Some(most) = config.budget.usd_per_month {
            let left = most.as_usd() * REGULAR_SHARE;
            let cycles = Box::new(move |_: SeriesId, every: u32| slots * MONTH_DAYS / f64::from(every));
            windows.push(Window { kind: BudgetKind::Money, left, cycles });
        }
        if let Some(most) = config.budget.tokens_per_day {
            let left = most as f64 * REGULAR_SHARE;
            let cycles = Box::new(move |_: SeriesId, every: u32| slots / f64::from(every));
            windows.push(Window { kind: BudgetKind::Tokens, left, cycles });
        }
        let spreads = vec![1.0; schedule.series.len()];
        let Cadence { every, lowered, short } = fit(config, &schedule, &spreads, &windows);
        let series = schedule.series.iter().zip(every).map(|(series, every)| {
            let (tokens, cost) = config.usual(series.endpoint, series.workload);
            let probes = slots * MONTH_DAYS / f64::from(every);
            let priced = config.endpoints[series.endpoint].price.is_some();
            PlannedSeries {
                endpoint: series.endpoint,
                workload: series.workload,
                asked_every: config.workloads[series.workload].every,
                every,
                requests: probes * f64::from(config.workloads[series.workload].requests),
                tokens: probes * tokens as f64,
                usd: priced.then(|| probes * cost.as_usd()),
            }
        });
        Plan { series: series.collect(), lowered, short }
    }
}

/// The windows of what is left of a month's dollars and a day's tokens, from a slot on.
pub(crate) fn windows<'s>(
    schedule: &'s Schedule,
    slot: u64,
    (money, tokens): (Option<Money>, Option<u64>),
    wall_ms: u64,
) -> Vec<Window<'s>> {
    let window = |kind, left: f64, end_ms: u64| {
        let until = schedule.slot_of(end_ms).max(slot + 1);
        let cycles = Box::new(move |series, every| schedule.count(series, every, slot, until) as f64);
        Window { kind, left, cycles }
    };
    let day_end = (wall_ms / DAY_MS + 1) * DAY_MS;
    let money = money.map(|left| window(BudgetKind::Money, left.as_usd(), crate::budget::month_end_ms(wall_ms)));
    money.into_iter().chain(tokens.map(|left| window(BudgetKind::Tokens, left as f64, day_end))).collect()
}

/// The cadence that fits into all windows. `spreads` are those of the series' values: an interval is as wide as the spread over the
/// root of the number of samples.
pub(crate) fn fit(config: &Config, schedule: &Schedule, spreads: &[f64], windows: &[Window<'_>]) -> Cadence {
    let asked = |id: SeriesId| config.workloads[schedule.series[id].workload].every;
    let longest = |id: SeriesId| asked(id).max(config.slots_a_day.saturating_mul(MAX_DAYS));
    let mut every: Vec<u32> = (0..schedule.series.len()).map(asked).collect();
    let (mut lowered, mut short) = (None, Vec::new());
    for window in windows {
        let use_of = |id: SeriesId| {
            let series = schedule.series[id];
            let (tokens, cost) = config.usual(series.endpoint, series.workload);
            match window.kind {
                BudgetKind::Money => cost.as_usd(),
                BudgetKind::Tokens => tokens as f64,
            }
        };
        let uses: Vec<f64> = (0..every.len()).map(use_of).collect();
        let width = |id: SeriesId, every: u32| spreads[id] * f64::from(every).sqrt();
        let key = |id: SeriesId, every: u32| Reverse((ordered(width(id, every)), Reverse(ordered(uses[id])), id));
        let candidates = (0..every.len()).filter(|id| uses[*id] > 0.0);
        let mut narrowest: BinaryHeap<_> = candidates.map(|id| key(id, every[id])).collect();
        let mut needed: f64 = (0..every.len()).map(|id| uses[id] * (window.cycles)(id, every[id])).sum();
        while needed > window.left {
            let Some(Reverse((.., id))) = narrowest.pop() else {
                short.push(window.kind);
                break;
            };
            if every[id] >= longest(id) {
                continue;
            }
            let next = every[id].saturating_mul(2).min(longest(id));
            needed += uses[id] * ((window.cycles)(id, next) - (window.cycles)(id, every[id]));
            every[id] = next;
            lowered.get_or_insert(window.kind);
            narrowest.push(key(id, next));
        }
    }
    Cadence { every, lowered, short }
}

/// A number of a heap: as large as the value, for values from 0 on.
fn ordered(value: f64) -> u64 {
    value.max(0.0).to_bits()
}
