//! An estimate as a page: the curve over the load, and the roofline with each load on it.
//!
//! Invariant: what is measured and what is computed are series of their own, never one line.

use super::against::Compared;
use super::{Shown, one, short};
use tokrate_charts::{
    Axis, Block, Direction, Level, LineChart, Mark, Notice, Page, Point, Section, Series, SeriesStyle,
};
use tokrate_estimate::precision::Arithmetic;

/// Points of a roof's line: enough for a smooth bend on a logarithmic axis.
const ROOF_POINTS: usize = 49;
/// How far the roof is drawn to both sides of the loads and of its bend, as a factor.
const MARGIN: f64 = 4.0;

/// The page of an estimate, with what a record measured beside it where there is one.
pub fn html(shown: &Shown, measured: &[Compared]) -> String {
    let mut words = String::new();
    // Writing to a String cannot fail.
    let _ = one(&mut words, shown);
    let mut blocks = vec![Block::chart(&curve(shown, measured))];
    blocks.extend(roofline(shown).iter().map(Block::chart));
    blocks.push(Block::Code(words));
    let title = format!("{} on {} x {}", shown.asked_model, shown.devices, shown.device.name);
    let computed = "Computed from facts and fitted coefficients, not measured; intervals are of 80 %.".to_owned();
    let page = Page {
        title,
        subtitle: format!("prompts of {} tokens, answers of {}", shown.isl, shown.osl),
        notices: vec![Notice { level: Level::Info, text: computed }],
        sections: vec![Section { title: "The estimate".to_owned(), intro: String::new(), blocks }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// Output speed of one request over the load.
fn curve(shown: &Shown, measured: &[Compared]) -> LineChart {
    let computed = shown.loads.iter().map(|load| {
        let speed = load.answer.tok_s_user;
        Point {
            x: f64::from(load.concurrency),
            y: speed.map(|it| it.value),
            low: speed.map(|it| it.low),
            high: speed.map(|it| it.high),
            label: String::new(),
        }
    });
    let mut series = vec![Series { name: "computed".to_owned(), points: computed.collect(), style: SeriesStyle::Fit }];
    if !measured.is_empty() {
        let point = |row: &Compared| Point { x: f64::from(row.concurrency), y: row.tok_s_user, ..Point::default() };
        series.push(Series {
            name: "measured".to_owned(),
            points: measured.iter().map(point).collect(),
            style: SeriesStyle::Measured,
        });
    }
    LineChart {
        title: "Output speed of one request, by load".to_owned(),
        description: "The band is the estimate's 80 % interval.".to_owned(),
        x: Axis::log("Requests in flight", ""),
        y: Axis::log("Output speed", "tok/s"),
        series,
        marks: Vec::new(),
        bands: Vec::new(),
    }
}

/// The roofline of one device while decoding (Williams et al. 2009): arithmetic that the memory bandwidth can feed, up to the
/// peak, and where each load sits. `None` where the shares of both are not known, as of on-chip memory.
pub fn roofline(shown: &Shown) -> Option<LineChart> {
    let device = &shown.device;
    let arithmetic = shown.arithmetic.unwrap_or(Arithmetic::Bf16);
    let peak = device.peak(arithmetic);
    let bend = peak / device.bandwidth;
    let loads: Vec<(f64, f64, u32)> = shown
        .loads
        .iter()
        .filter(|load| load.answer.mbu > 0.0 && load.answer.mfu > 0.0)
        .map(|load| {
            let reached = load.answer.mfu * peak;
            (reached / (load.answer.mbu * device.bandwidth), reached, load.concurrency)
        })
        .collect();
    if loads.is_empty() || device.layer_latency.is_some() {
        return None;
    }
    let intensities = || loads.iter().map(|load| load.0).chain([bend]);
    let (least, most) = (intensities().fold(f64::MAX, f64::min) / MARGIN, intensities().fold(0.0, f64::max) * MARGIN);
    let roof = (0..ROOF_POINTS).map(|place| {
        let intensity = least * (most / least).powf(place as f64 / (ROOF_POINTS - 1) as f64);
        Point { x: intensity, y: Some((intensity * device.bandwidth).min(peak) / 1e12), ..Point::default() }
    });
    let reached = loads.iter().map(|(intensity, reached, users)| Point {
        x: *intensity,
        y: Some(reached / 1e12),
        label: format!("{users}"),
        ..Point::default()
    });
    let series = |name: &str, points, style| Series { name: name.to_owned(), points, style };
    Some(LineChart {
        title: format!("Roofline of one {} while decoding", device.name),
        description: format!(
            "Below the bend at {} FLOP a byte memory binds ({} TB/s), above it arithmetic ({} TFLOP/s dense). Each point is a number of requests in flight.",
            short(bend),
            short(device.bandwidth / 1e12),
            short(peak / 1e12)
        ),
        x: Axis::log("FLOP a byte read", ""),
        y: Axis::log("Arithmetic reached", "TFLOP/s"),
        series: vec![
            series("roof", roof.collect(), SeriesStyle::Reference),
            series("computed", reached.collect(), SeriesStyle::Measured),
        ],
        marks: vec![Mark { direction: Direction::Vertical, at: bend, low: None, high: None, label: "bend".to_owned() }],
        bands: Vec::new(),
    })
}
