//! Axes of points in time: days since 1970, with ticks at whole minutes, hours, days and weeks, in UTC.
//!
//! Invariant: as for every axis, ticks are finite, inside the domain and strictly increasing, and there are few of them.

use tokrate_core::Date;

/// Distances between ticks, in days.
const STEPS: [f64; 20] = [
    1.0 * MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    1.0 / 24.0,
    2.0 / 24.0,
    3.0 / 24.0,
    0.25,
    0.5,
    1.0,
    2.0,
    3.0,
    7.0,
    14.0,
    28.0,
    91.0,
    182.0,
    365.0,
];
/// A minute, in days.
const MINUTE: f64 = 1.0 / 1_440.0;
/// The shortest domain, so that a single moment has one (days).
const SHORTEST: f64 = 10.0 * MINUTE;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Days that have a date: until the year 9999.
const LAST_DAY: f64 = 2_932_896.0;

/// The domain around `bounds` and its ticks, about `target` of them and never more than `most`.
pub(crate) fn domain(bounds: Option<(f64, f64)>, target: usize, most: usize) -> (f64, f64, Vec<f64>) {
    let (low, high) = bounds.unwrap_or((0.0, 1.0));
    let (low, high) = (low.clamp(0.0, LAST_DAY), high.clamp(0.0, LAST_DAY));
    let (low, high) = if high - low < SHORTEST { (low, low + SHORTEST) } else { (low, high) };
    let fits = |step: &f64| (high - low) / step <= target as f64;
    let longest = (high - low) / target.max(1) as f64;
    let step = STEPS.into_iter().find(fits).unwrap_or(longest.ceil());
    let first = (low / step).ceil() as u64;
    let ticks = (first..).map(|index| index as f64 * step).take_while(|tick| *tick <= high).take(most).collect();
    (low, high, ticks)
}

/// Labels of ticks: the day, with the time where ticks are closer than a day; of one day only the time, but for the first.
pub(crate) fn labels(ticks: &[f64]) -> Vec<String> {
    let in_days = ticks.iter().all(|tick| *tick == tick.trunc());
    let in_one_day = ticks.windows(2).all(|pair| day_of(pair[0]) == day_of(pair[1]));
    let label = |(index, tick): (usize, &f64)| match (in_days, in_one_day && index > 0) {
        (true, _) => day(*tick),
        (false, true) => time(*tick),
        (false, false) => moment(*tick),
    };
    ticks.iter().enumerate().map(label).collect()
}

/// Minutes since 1970, to the nearest, so that a tick at 14:00 never reads 13:59.
fn minutes(value: f64) -> u64 {
    (value.clamp(0.0, LAST_DAY) * 1_440.0).round() as u64
}

fn day_of(value: f64) -> u64 {
    minutes(value) / 1_440
}

/// A time of the day: "14:25".
fn time(value: f64) -> String {
    let minutes = minutes(value);
    format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

/// A day: "21 Nov".
fn day(value: f64) -> String {
    let date = Date::of_day(value.clamp(0.0, LAST_DAY) as u64);
    format!("{} {}", date.day, MONTHS[(date.month as usize - 1).min(11)])
}

/// A day and minute: "21 Nov 14:25".
pub(crate) fn moment(value: f64) -> String {
    format!("{} {}", day(day_of(value) as f64), time(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_whole_days_or_hours() {
        // 2026-11-10 to 2026-11-24 07:12.
        let (_, _, ticks) = domain(Some((20_767.3, 20_781.3)), 8, 24);
        assert_eq!(labels(&ticks), ["11 Nov", "13 Nov", "15 Nov", "17 Nov", "19 Nov", "21 Nov", "23 Nov"]);
        let (_, _, ticks) = domain(Some((20_780.3, 20_781.3)), 5, 24);
        assert_eq!(labels(&ticks), ["23 Nov 12:00", "23 Nov 18:00", "24 Nov 00:00", "24 Nov 06:00"]);
        let (_, _, ticks) = domain(Some((20_780.5, 20_780.52)), 5, 24);
        assert_eq!(labels(&ticks), ["23 Nov 12:00", "12:10", "12:20"]);
        for bounds in [None, Some((5.0, 5.0)), Some((-1e9, 1e12)), Some((0.0, 1e6))] {
            let (low, high, ticks) = domain(bounds, 5, 24);
            assert!(low < high && ticks.len() <= 24, "{bounds:?}");
            assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]) && ticks.iter().all(|t| (low..=high).contains(t)));
        }
    }
}
