//! The curve as it grows: throughput and the time against the load, the levels that have ended and the present one.

use crate::state::{Level, Live, Present, Unit};
use tokrate_charts::{Axis, LineChart, Point, Series, SeriesStyle};

/// Throughput against load.
pub(crate) fn throughput(live: &Live) -> LineChart {
    let present = |present: &Present| present.counts.throughput;
    let (name, unit) = &live.shown.throughput;
    chart(live, name, unit, &|level| level.throughput, &present, 1.0, "")
}

/// Median and 99th percentile of the time against load; of several targets the 99th percentile, which tells them apart.
pub(crate) fn time(live: &Live) -> LineChart {
    let name = &live.shown.time;
    let of = |place: fn(&crate::Quantiles) -> f64| {
        move |present: &Present| {
            let row = present.figures.iter().find(|row| row.unit == Unit::Seconds && row.name == *name)?;
            row.at.as_ref().map(place)
        }
    };
    let p99 = chart(live, &format!("{name} p99"), "ms", &|level| level.p99, &of(|at| at.p99), 1e3, "p99");
    if live.targets.len() > 1 {
        return p99;
    }
    let mut both = chart(live, &format!("{name} p50 and p99"), "ms", &|level| level.p50, &of(|at| at.p50), 1e3, "p50");
    both.series.extend(p99.series);
    both
}

fn chart(
    live: &Live,
    name: &str,
    unit: &str,
    of_level: &dyn Fn(&Level) -> Option<f64>,
    of_present: &dyn Fn(&Present) -> Option<f64>,
    scale: f64,
    figure: &str,
) -> LineChart {
    let named = |target: &str| match (live.targets.len(), figure) {
        (1, figure) => figure.to_owned(),
        (_, _) => target.to_owned(),
    };
    let point = |x: f64, y: Option<f64>| Point { x, y: y.map(|y| y * scale), ..Point::default() };
    let series = live.targets.iter().filter(|target| !target.levels.is_empty()).map(|target| Series {
        name: named(&target.name),
        points: target.levels.iter().map(|level| point(level.name.amount, of_level(level))).collect(),
        style: SeriesStyle::Measured,
    });
    let mut series: Vec<Series> = series.collect();
    if let Some(present) = live.present.as_ref().filter(|_| live.doing == crate::Doing::Measuring)
        && let Some(value) = of_present(present)
    {
        let name = if figure.is_empty() || live.targets.len() > 1 { "now".to_owned() } else { format!("{figure} now") };
        let points = vec![point(present.name.amount, Some(value))];
        series.push(Series { name, points, style: SeriesStyle::Measured });
    }
    let mut loads: Vec<f64> = series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    // Loads that double stand at equal distances on a logarithmic axis.
    let is_wide = loads.first().zip(loads.last()).is_some_and(|(first, last)| *first > 0.0 && last / first >= 8.0);
    let axis = if is_wide { Axis::log(&live.shown.load, "") } else { Axis::linear(&live.shown.load, "") };
    LineChart { x: axis.labelled_at(loads), y: Axis::linear(name, unit), series, ..LineChart::default() }
}
