//! Where requests begin to queue, from time to first token; needs no model.
//!
//! Invariant: a level counts as waiting only beyond its intervals.
//!
//! By Little's law, of `n` requests that are in flight the share `wait / time of a request` is waiting, so that
//! n (1 - wait / time) run: where requests begin to wait, all of them did. The wait is what TTFT has grown by since the
//! lowest load.

use super::capacity::{FigureStatus, LoadFigure};
use super::{LoadAxis, LoadLevel, Measured};

/// A level counts as waiting if its requests wait longer than this share of their time; other causes change TTFT by less.
const MIN_WAITING_SHARE: f64 = 0.03;
/// A level counts as not waiting if its requests wait at most this share of their time, whatever its intervals.
const MAX_QUIET_SHARE: f64 = 0.05;
/// The estimates of levels that wait agree when they are within this factor of one another.
const AGREEMENT_FACTOR: f64 = 1.1;
/// Half of the narrowest interval that is stated, as a share of the load: the intervals of times are those of chance, and what a
/// short level begins and ends with moves means by as much beside it.
const MIN_HALF_WIDTH: f64 = 0.02;
/// An answer whose first token comes later than this share of its time did not stream, so waiting cannot be separated.
const MAX_STREAMED_SHARE: f64 = 0.98;

/// A level's estimate of the waiting share.
struct Wait {
    load: f64,
    /// Share of a request's time that it waits, with the lowest and the highest that the intervals allow.
    share: [f64; 3],
}

/// The load beyond which requests wait. Levels rise by load.
pub(super) fn waits(axis: LoadAxis, levels: &[LoadLevel]) -> LoadFigure {
    let unknown = |reason: &str| LoadFigure::without(FigureStatus::Unknown, reason);
    let timed: Vec<(&LoadLevel, Measured, Measured)> = levels.iter().filter_map(times).collect();
    let Some(&(lowest, base, e2e)) = timed.first() else { return unknown("no level has a time to first token") };
    if timed.len() < 2 {
        return unknown("a single level has nothing to be compared with");
    }
    if base.value >= MAX_STREAMED_SHARE * e2e.value {
        return unknown("answers arrived in one piece, so waiting cannot be separated from decoding");
    }
    let seen: Vec<Wait> = timed.iter().map(|(level, ttft, e2e)| wait(level.load, base, *ttft, *e2e)).collect();
    // From the first level on, all must wait: one slow level amid quick ones is noise.
    let first = seen.iter().rposition(|wait| wait.share[1] <= MIN_WAITING_SHARE).map_or(0, |last| last + 1);
    let Some(waiting) = seen.get(first..).filter(|waiting| !waiting.is_empty()) else {
        let reason = format!("no request waits at the highest load, {}", levels[levels.len() - 1].load);
        return LoadFigure::without(FigureStatus::Above, reason);
    };
    // What may wait or not is on neither side.
    let quiet = seen[..first].iter().rev().find(|wait| wait.share[2] <= MAX_QUIET_SHARE);
    let before = quiet.map_or(lowest.load, |wait| wait.load);
    match axis {
        // Of offered rates nothing is known but between which of them it begins.
        LoadAxis::Rate => {
            let first = waiting[0].load;
            LoadFigure::with_interval(axis, f64::midpoint(before, first), before, first)
        }
        LoadAxis::Concurrency => running(waiting, before),
    }
}

/// A level with its mean TTFT and E2E, if it has both.
fn times(level: &LoadLevel) -> Option<(&LoadLevel, Measured, Measured)> {
    Some((level, level.mean_ttft?, level.mean_e2e.filter(|e2e| e2e.value > 0.0)?))
}

fn wait(load: f64, base: Measured, ttft: Measured, e2e: Measured) -> Wait {
    let ends = |m: Measured| (m.low.unwrap_or(m.value), m.high.unwrap_or(m.value));
    let ((base_low, base_high), (low, high)) = (ends(base), ends(ttft));
    let share = |wait: f64| (wait / e2e.value).clamp(0.0, 1.0);
    Wait { load, share: [ttft.value - base.value, low - base_high, high - base_low].map(share) }
}

/// How many ran at the levels that wait, if they agree; else only that it begins between two levels.
fn running(waiting: &[Wait], before: f64) -> LoadFigure {
    let axis = LoadAxis::Concurrency;
    let first = waiting[0].load;
    if first - before <= 1.0 {
        // Requests are integers, so waiting begins with the next one.
        let (low, high) = (Some(before), Some(first));
        return LoadFigure { status: FigureStatus::Found, load: Some(before), low, high, reason: String::new() };
    }
    // Lower bound of the running requests at a level that does not wait.
    let least = before * (1.0 - MAX_QUIET_SHARE);
    let run = |wait: &Wait| wait.share.map(|share| wait.load * (1.0 - share));
    let estimates: Vec<[f64; 3]> = waiting.iter().map(run).collect();
    let ends = |place: usize| estimates.iter().map(move |estimate| estimate[place]);
    let (smallest, largest) = (ends(0).fold(f64::INFINITY, f64::min), ends(0).fold(0.0, f64::max));
    if largest > smallest * AGREEMENT_FACTOR {
        return LoadFigure::with_interval(axis, (least * first).sqrt(), least, first);
    }
    // Each counts by how narrow its interval is.
    let weight = |[_, high, low]: [f64; 3]| (high - low).max(1e-3 * first).powi(-2);
    let total: f64 = estimates.iter().map(|estimate| weight(*estimate)).sum();
    let load = estimates.iter().map(|estimate| estimate[0] * weight(*estimate)).sum::<f64>() / total;
    let load = load.clamp(least, first);
    let (low, high) = (ends(2).fold(smallest, f64::min), ends(1).fold(largest, f64::max));
    let (low, high) = (low.min(load * (1.0 - MIN_HALF_WIDTH)), high.max(load * (1.0 + MIN_HALF_WIDTH)));
    LoadFigure::with_interval(axis, load, low.clamp(least, load), high.clamp(load, first))
}

/// The rate of the most power, throughput / time of a request as both were measured: it lies between the neighbours of the
/// level that has it. Levels rise by load.
pub(super) fn max_power_load(levels: &[LoadLevel]) -> LoadFigure {
    let power = |level: &LoadLevel| Some((level.load, level.throughput?.value / level.mean_e2e?.value));
    let powers: Vec<(f64, f64)> = levels.iter().filter_map(power).filter(|(_, power)| power.is_finite()).collect();
    let Some(best) = (0..powers.len()).max_by(|&a, &b| powers[a].1.total_cmp(&powers[b].1)) else {
        return LoadFigure::without(FigureStatus::Unknown, "no level has a throughput and a time");
    };
    let neighbour = |at: Option<usize>| at.and_then(|at| powers.get(at)).map(|(load, _)| *load);
    match (neighbour(best.checked_sub(1)), neighbour(best.checked_add(1))) {
        (Some(low), Some(high)) => LoadFigure::with_interval(LoadAxis::Rate, powers[best].0, low, high),
        (Some(_), None) => {
            let last = powers[best].0;
            LoadFigure::without(FigureStatus::Above, format!("a request does not slow yet at the highest load, {last}"))
        }
        _ => LoadFigure::without(FigureStatus::Below, "it is so at the lowest load already"),
    }
}
