//! Titles that say what a chart or a page shows, with the figure.
//!
//! Invariant: a title claims no more than its chart shows: every number in it is one that was measured, and two that differ by less than
//! figures may be off are called the same.

use super::samples::LoadSamples;
use tokrate_charts::Series;
use tokrate_charts::format::{number, plain, seconds};
use tokrate_record::curve::{CurveResult, LoadAxis, LoadLevel, Measured};
use tokrate_record::run::{Rounds, by_load, most_throughput};
use tokrate_record::{Metric, Record, Status};

/// Figures that differ by less than this share are the same: they may be off by 2 % (docs/method.md), both of them.
const SAME: f64 = 0.04;
/// Values within this factor of the least are said to stay.
const STAYS: f64 = 1.25;
/// Targets that a title names at most.
const MAX_NAMED: usize = 3;

/// A load with the words that its axis has.
fn at(curve: &CurveResult, load: f64) -> String {
    let unit = match curve.axis {
        LoadAxis::Concurrency => "in flight",
        LoadAxis::Rate => "req/s",
    };
    format!("{} {unit}", plain(load))
}

/// Levels with a larger share of failed or refused requests say nothing of what the endpoint carries, as for the models of throughput.
const MAX_LOST_SHARE: f64 = 0.05;

/// The levels that speak for the endpoint.
fn sound(curve: &CurveResult) -> impl Iterator<Item = &LoadLevel> {
    let lost = |level: &LoadLevel| (level.failures + level.rate_limited) as f64 / level.requests.max(1) as f64;
    curve.levels.iter().map(|row| &row.level).filter(move |level| lost(level) <= MAX_LOST_SHARE)
}

/// Those of them that have a figure above 0: load and value, rising.
fn values(curve: &CurveResult, of: impl Fn(&LoadLevel) -> Option<Measured>) -> Vec<(f64, f64)> {
    let known = sound(curve).filter_map(|level| Some((level.load, of(level)?.value)));
    known.filter(|(_, value)| *value > 0.0).collect()
}

/// What one request gets.
pub(super) fn output_speed(curve: &CurveResult) -> Option<String> {
    let speeds = values(curve, |level| level.output_speed);
    let ((low, first), (high, last)) = ends(&speeds)?;
    let (least, most) = range(&speeds);
    Some(if most <= least * (1.0 + SAME) {
        format!("One request gets {} tok/s at every load up to {}", number(first), at(curve, high))
    } else {
        format!("One request gets {} tok/s at {}, {} at {}", number(first), at(curve, low), number(last), plain(high))
    })
}

/// What all requests together get; of an open loop nothing, where that is what was sent and a short run is mostly chance.
pub(super) fn throughput(curve: &CurveResult) -> Option<String> {
    let all = values(curve, |level| level.throughput).into_iter().filter(|_| curve.axis == LoadAxis::Concurrency);
    let all: Vec<(f64, f64)> = all.collect();
    let (_, (high, last)) = ends(&all)?;
    let (_, most) = range(&all);
    let (load, best) = *all.iter().find(|(_, value)| *value >= most * (1.0 - SAME / 2.0))?;
    let reached = format!("{} tok/s at {}", number(best), at(curve, load));
    let is_highest = curve.levels.last().is_some_and(|row| row.level.load == high);
    Some(if load == high && is_highest {
        format!("All together still gain at the highest load: {reached}")
    } else if load == high {
        format!("All together get {reached}; higher loads lose requests")
    } else if last < best * (1.0 - SAME) {
        format!("All together get at most {reached}, and {} at {}", number(last), plain(high))
    } else {
        format!("All together get {reached}; more load adds nothing")
    })
}

/// How long the first token takes.
pub(super) fn ttft(curve: &CurveResult) -> Option<String> {
    let times = values(curve, |level| level.ttft);
    let ((low, first), (high, last)) = ends(&times)?;
    let (least, most) = range(&times);
    let steady = times.iter().take_while(|(_, time)| *time <= first * STAYS).last().map_or(low, |(load, _)| *load);
    let from_to = |to: f64, load: f64| {
        format!(
            "The first token takes {} ms at {}, and {} at {}",
            number(first),
            at(curve, low),
            number(to),
            plain(load)
        )
    };
    Some(if most <= least * STAYS {
        let (least, most) = (number(least), number(most));
        format!("The first token takes {least} to {most} ms at every load up to {}", at(curve, high))
    } else if last <= first * STAYS {
        let (load, _) = *times.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        from_to(most, load)
    } else if steady > low {
        let most = number(until_most(&times, steady));
        let (until, last) = (at(curve, steady), number(last));
        format!("The first token takes up to {most} ms until {until}, and {last} at {}", plain(high))
    } else {
        from_to(last, high)
    })
}

/// The most of the values up to a load.
fn until_most(values: &[(f64, f64)], load: f64) -> f64 {
    values.iter().filter(|(at, _)| *at <= load).map(|(_, value)| *value).fold(0.0, f64::max)
}

/// What all gain, and what each loses; of an open loop nothing, as above.
pub(super) fn each_against_all(curve: &CurveResult) -> Option<String> {
    let both = sound(curve).filter_map(|level| Some((level.load, level.output_speed?.value, level.throughput?.value)));
    let both: Vec<(f64, f64, f64)> = both.filter(|(_, each, all)| *each > 0.0 && *all > 0.0).collect();
    let (low, each, all) = *both.first().filter(|_| curve.axis == LoadAxis::Concurrency)?;
    let (high, last_each, last_all) = *both.last().filter(|last| last.0 > low)?;
    let (gain, share) = (number(last_all / all), number(100.0 * last_each / each));
    Some(format!("From {} to {}, all get {gain} times as much and each keeps {share} %", plain(low), at(curve, high)))
}

/// Several targets at the highest load that all of them have.
pub(super) fn of_targets(
    what: &str,
    unit: &str,
    curves: &[(&str, &CurveResult)],
    of: impl Fn(&LoadLevel) -> Option<Measured>,
) -> Option<String> {
    let all: Vec<(&str, Vec<(f64, f64)>)> = curves.iter().map(|(name, curve)| (*name, values(curve, &of))).collect();
    let value = |values: &[(f64, f64)], load: f64| values.iter().find(|(at, _)| *at == load).map(|(_, value)| *value);
    let loads = all.first()?.1.iter().rev().map(|(load, _)| *load);
    let load = loads.into_iter().find(|load| all.iter().all(|(_, values)| value(values, *load).is_some()))?;
    let named = all.iter().filter_map(|(name, values)| Some(format!("{name} {}", number(value(values, load)?))));
    let named: Vec<String> = named.collect();
    (named.len() <= MAX_NAMED).then(|| format!("{what} at {}: {} {unit}", at(curves[0].1, load), named.join(", ")))
}

/// What a line comes to at its ends, such as `A request takes 51.0 ms at 1 in flight, 51.6 at 8`; `None` of a line without two points.
pub(super) fn ends_of(line: &Series, what: &str, unit: &str, axis: &str) -> Option<String> {
    let mut known: Vec<(f64, f64)> = line.points.iter().filter_map(|point| Some((point.x, point.y?))).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, first), (high, last)) = ends(&known)?;
    Some(format!("{what} {} {unit} at {} {axis}, {} at {}", number(first), plain(low), number(last), plain(high)))
}

/// The medians of a time, at the lowest load and at the highest.
pub(super) fn medians(what: &str, loads: &[LoadSamples], of: impl Fn(&LoadSamples) -> &Vec<f64>) -> Option<String> {
    let known = loads.iter().filter_map(|load| Some((load.name(), median(of(load))?)));
    let known: Vec<(String, String)> = known.collect();
    let (first, last) = known.first().zip(known.last())?;
    Some(match first.0 == last.0 {
        true => format!("Half of {what} take at most {}", first.1),
        false => format!("Half of {what} take at most {} at {}, {} at {}", first.1, first.0, last.1, last.0),
    })
}

/// The median of times in seconds, by nearest rank as everywhere.
pub(super) fn median(values: &[f64]) -> Option<String> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    Some(seconds(*values.get(values.len().div_ceil(2).checked_sub(1)?)?))
}

/// The page's title: what was measured, and what it came to.
pub(super) fn page(record: &Record) -> String {
    let model = &record.conditions.model;
    let loads = by_load(&record.phases);
    let first = loads.iter().find(|load| load.count(|phase| phase.counts.measured) > 0);
    let Some(first) = first.filter(|_| record.status != Status::Failed) else {
        return format!("{model}: nothing could be measured");
    };
    if loads.iter().any(Rounds::has_items) {
        let most = loads.iter().filter_map(Rounds::item_throughput).fold(0.0, f64::max);
        return format!("{model}: up to {} items a second", number(most));
    }
    let speed = first.output_speed().and_then(|speed| speed.value.or(speed.descriptive));
    let ttft = first.times(Metric::Ttft).and_then(|times| times.p50.nearest_rank());
    let most = most_throughput(&loads).filter(|_| loads.len() > 1).and_then(Rounds::throughput);
    let mut parts = Vec::new();
    parts.extend(speed.map(|speed| format!("{} tok/s for one request", number(speed))));
    parts.extend(ttft.filter(|_| speed.is_some()).map(|ttft| format!("after {} ms", number(ttft))));
    let one = parts.join(" ");
    let all = most.map(|most| format!("up to {} tok/s for all", number(most)));
    let said: Vec<String> = Some(one).filter(|one| !one.is_empty()).into_iter().chain(all).collect();
    if said.is_empty() { format!("{model}: how fast it answers") } else { format!("{model}: {}", said.join(", ")) }
}

/// First and last of several.
fn ends(values: &[(f64, f64)]) -> Option<((f64, f64), (f64, f64))> {
    let (first, last) = (*values.first()?, *values.last()?);
    (last.0 > first.0).then_some((first, last))
}

/// The least and the most.
fn range(values: &[(f64, f64)]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), (_, value)| (low.min(*value), high.max(*value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Rng;

    fn curve(axis: LoadAxis, levels: &[(f64, f64, f64, f64)]) -> CurveResult {
        let level = |&(load, speed, throughput, ttft): &(f64, f64, f64, f64)| LoadLevel {
            load,
            throughput: Some(Measured::plain(throughput)),
            output_speed: Some(Measured::plain(speed)),
            ttft: Some(Measured::plain(ttft)),
            mean_ttft: None,
            mean_e2e: None,
            requests: 100,
            failures: 0,
            rate_limited: 0,
        };
        CurveResult::of(axis, &levels.iter().map(level).collect::<Vec<LoadLevel>>(), &Rng::root(0))
    }

    #[test]
    fn a_title_says_what_its_curve_shows() {
        let saturates = curve(
            LoadAxis::Concurrency,
            &[
                (1.0, 200.0, 155.0, 91.0),
                (8.0, 171.0, 1100.0, 94.0),
                (12.0, 156.0, 1534.0, 93.0),
                (24.0, 156.0, 1537.0, 558.0),
            ],
        );
        let titles = |curve: &CurveResult| {
            [output_speed, throughput, ttft, each_against_all].map(|title| title(curve).unwrap_or_default())
        };
        assert_eq!(
            titles(&saturates),
            [
                "One request gets 200 tok/s at 1 in flight, 156 at 24",
                "All together get 1,534 tok/s at 12 in flight; more load adds nothing",
                "The first token takes up to 94.0 ms until 12 in flight, and 558 at 24",
                "From 1 to 24 in flight, all get 9.92 times as much and each keeps 78.0 %",
            ]
        );
        let grows = curve(LoadAxis::Concurrency, &[(1.0, 50.0, 48.0, 100.0), (4.0, 49.0, 180.0, 130.0)]);
        assert_eq!(
            titles(&grows)[..3],
            [
                "One request gets 50.0 tok/s at every load up to 4 in flight",
                "All together still gain at the highest load: 180 tok/s at 4 in flight",
                "The first token takes 100 ms at 1 in flight, and 130 at 4",
            ]
        );
        let falls = curve(
            LoadAxis::Concurrency,
            &[(1.0, 50.0, 48.0, 100.0), (4.0, 49.0, 180.0, 90.0), (8.0, 9.0, 70.0, 110.0)],
        );
        assert_eq!(
            throughput(&falls).as_deref(),
            Some("All together get at most 180 tok/s at 4 in flight, and 70.0 at 8")
        );
        assert_eq!(
            ttft(&falls).as_deref(),
            Some("The first token takes 90.0 to 110 ms at every load up to 8 in flight")
        );
        let open = curve(LoadAxis::Rate, &[(2.0, 50.0, 80.0, 100.0), (4.0, 49.0, 160.0, 400.0)]);
        let titles_of_open = [
            "One request gets 50.0 tok/s at every load up to 4 req/s",
            "",
            "The first token takes 100 ms at 2 req/s, and 400 at 4",
            "",
        ];
        assert_eq!(titles(&open), titles_of_open, "its throughput is what was sent");
        let mut refuses = saturates.clone();
        refuses.levels[3].level.rate_limited = 40;
        let title = throughput(&refuses).expect("three levels are left");
        assert_eq!(title, "All together get 1,534 tok/s at 12 in flight; higher loads lose requests");
        refuses.levels.iter_mut().for_each(|row| row.level.failures = 10);
        assert_eq!(titles(&refuses), [""; 4], "no level speaks for the endpoint");
        assert_eq!(titles(&curve(LoadAxis::Rate, &[(2.0, 50.0, 80.0, 100.0)])), [""; 4], "one level is no curve");
    }

    #[test]
    fn targets_are_named_at_the_highest_load_that_all_of_them_have() {
        let first = curve(LoadAxis::Concurrency, &[(1.0, 200.0, 155.0, 91.0), (8.0, 171.0, 1100.0, 94.0)]);
        let second = curve(LoadAxis::Concurrency, &[(1.0, 120.0, 90.0, 91.0), (4.0, 100.0, 400.0, 94.0)]);
        let title =
            |curves: &[(&str, &CurveResult)]| of_targets("Output speed", "tok/s", curves, |level| level.output_speed);
        assert_eq!(
            title(&[("a", &first), ("b", &second)]).as_deref(),
            Some("Output speed at 1 in flight: a 200, b 120 tok/s")
        );
        assert_eq!(title(&[("a", &first), ("b", &first), ("c", &first), ("d", &first)]), None, "too many for a title");
    }
}
