//! Axes: domains, tick positions and the mapping from values to pixels.
//!
//! Linear value axes start at zero unless values are negative, because lengths are read as ratios; logarithmic axes are
//! labelled as such.
//!
//! Invariant: for every input the domain has a positive width and at most [`MAX_TICKS`] ticks, all finite, inside the
//! domain and strictly increasing; a mapped value is always finite.

use crate::{dates, format};

/// Magnitudes beyond this are treated as not drawable, so that differences never overflow.
pub(crate) const LARGEST: f64 = 1e200;
/// Magnitudes below this are treated as zero, so that logarithms stay in range.
pub(crate) const SMALLEST: f64 = 1e-200;
/// No axis has more ticks than this.
pub(crate) const MAX_TICKS: usize = 24;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scale {
    /// Linear; from zero if no value is negative.
    #[default]
    Linear,
    /// Logarithmic; non-positive values cannot be drawn and are counted. Stated in the label.
    Log,
}

/// One axis: what it shows, in which unit, on which scale.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Axis {
    /// Label, such as "Output speed of one request".
    pub label: String,
    /// Unit, such as "tok/s"; empty for none. With "s" the ticks choose ms, µs and so on; "date" is days since 1970.
    pub unit: String,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// Values that it covers in any case, so that charts side by side have the same axis.
    pub holds: Option<(f64, f64)>,
    /// Values that are labelled in place of round ones: the last always, the others where they fit.
    pub labelled: Vec<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale: Scale::Linear, holds: None, labelled: Vec::new() }
    }

    /// An axis of points in time, in days since 1970; the ticks are dates, in UTC.
    pub fn dates(label: impl Into<String>) -> Axis {
        Axis::linear(label, "date")
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), scale: Scale::Log, holds: None, labelled: Vec::new() }
    }

    /// The same axis with these values labelled in place of round ones.
    #[must_use]
    pub fn labelled_at(self, values: impl IntoIterator<Item = f64>) -> Axis {
        Axis { labelled: values.into_iter().collect(), ..self }
    }

    /// Extends the axis to cover these values.
    #[must_use]
    pub fn holding(self, values: impl IntoIterator<Item = f64>) -> Axis {
        let drawable = values.into_iter().filter(|value| self.accepts(*value));
        let holds = drawable.fold(self.holds, |ends, value| match ends {
            None => Some((value, value)),
            Some((low, high)) => Some((low.min(value), high.max(value))),
        });
        Axis { holds, ..self }
    }

    /// Label, unit and, if it applies, "log scale".
    pub(crate) fn caption(&self) -> String {
        let unit = if self.unit.is_empty() || self.is_time() || self.is_date() {
            String::new()
        } else {
            format!(", {}", self.unit)
        };
        let scale = if self.scale == Scale::Log { " (log scale)" } else { "" };
        format!("{}{unit}{scale}", self.label)
    }

    /// True when values are seconds, whose ticks choose their own unit.
    pub(crate) fn is_time(&self) -> bool {
        self.unit == "s"
    }

    /// True when values are points in time.
    pub(crate) fn is_date(&self) -> bool {
        self.unit == "date"
    }

    /// The unit for the head of a column; none where the cells say it.
    pub(crate) fn column_unit(&self) -> &str {
        if self.is_date() { "" } else { &self.unit }
    }

    /// A value for a cell of a column, without its unit.
    pub(crate) fn cell(&self, value: f64) -> String {
        if self.is_date() { dates::moment(value) } else { format::plain(value) }
    }

    /// True when `value` can be placed on this axis.
    pub(crate) fn accepts(&self, value: f64) -> bool {
        value.abs() <= LARGEST && (self.scale == Scale::Linear || value >= SMALLEST)
    }

    /// A value of this axis in words, with its unit.
    pub(crate) fn quantity(&self, value: f64) -> String {
        match self.unit.as_str() {
            _ if !value.is_finite() => format::number(value),
            "s" => format::seconds(value),
            "date" => dates::moment(value),
            "" => format::plain(value),
            unit => format!("{} {unit}", format::plain(value)),
        }
    }
}

/// Whether an axis must include zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Lengths are read as ratios: zero is included.
    Zero,
    /// Positions only: zero is included if it is near.
    Near,
}

/// The mapping from a domain of values to pixels, with its ticks.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// Tick values, strictly increasing, inside the domain.
    pub(crate) ticks: Vec<f64>,
    labels: Vec<String>,
    /// The last tick is labelled whatever else is.
    last_counts: bool,
}

impl Mapping {
    /// Fits an axis that covers all `values` to the pixels `from` to `to`, with about `target` ticks.
    pub(crate) fn fit(axis: &Axis, values: &[f64], origin: Origin, (from, to): (f64, f64), target: usize) -> Mapping {
        let covered = axis.holds.into_iter().flat_map(|(low, high)| [low, high]);
        let usable = values.iter().copied().chain(covered).filter(|v| axis.accepts(*v));
        let bounds = usable.fold(None, |found: Option<(f64, f64)>, v| match found {
            None => Some((v, v)),
            Some((low, high)) => Some((low.min(v), high.max(v))),
        });
        let target = target.clamp(2, MAX_TICKS - 4);
        let (low, high, ticks) = match axis.scale {
            Scale::Linear if axis.is_date() => dates::domain(bounds, target, MAX_TICKS),
            Scale::Linear => linear_domain(bounds, origin, target),
            Scale::Log => log_domain(bounds, values, target),
        };
        let own = own_ticks(axis, low, high);
        let last_counts = !own.is_empty();
        let (ticks, labels) = match last_counts {
            true => (own.clone(), own.iter().map(|tick| format::plain(*tick)).collect()),
            false => (ticks.clone(), tick_labels(axis, &ticks)),
        };
        Mapping { scale: axis.scale, low, high, from, to, ticks, labels, last_counts }
    }

    /// The pixel of `value`; values outside the domain are placed on its edge, NaN on its start.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// How far along the axis pixel `pixel` lies, from 0 to 1.
    pub(crate) fn share_at(&self, pixel: f64) -> f64 {
        ((pixel - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Lowest and highest value of the domain.
    pub(crate) fn domain(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Ticks with their labels.
    pub(crate) fn labelled(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks.iter().copied().zip(self.labels.iter().map(String::as_str))
    }

    /// The labels that fit if each takes `extent` pixels along the axis: every tick if possible, else every second,
    /// third and so on.
    pub(crate) fn fitting(&self, extent: f64) -> Vec<(f64, &str)> {
        let placed = self.placed(|_| extent, 0.0, (f64::NEG_INFINITY, f64::INFINITY));
        placed.into_iter().map(|tick| (tick.value, tick.label)).collect()
    }

    /// The labels that fit side by side between two edges, `gap` pixels apart, with their centres.
    pub(crate) fn placed(&self, extent: impl Fn(&str) -> f64, gap: f64, (left, right): (f64, f64)) -> Vec<Tick<'_>> {
        let place = |(value, label): (f64, &'_ str)| {
            let half = extent(label) / 2.0;
            self.at(value).min(right - half).max(left + half)
        };
        let all: Vec<Tick<'_>> =
            self.labelled().map(|(value, label)| Tick { value, label, middle: place((value, label)) }).collect();
        let fits = |kept: &[Tick<'_>]| {
            kept.windows(2).all(|pair| {
                let room = (pair[1].middle - pair[0].middle).abs();
                room >= (extent(pair[0].label) + extent(pair[1].label)) / 2.0 + gap
            })
        };
        if self.last_counts {
            let mut kept: Vec<Tick<'_>> = Vec::new();
            for tick in all.into_iter().rev() {
                kept.insert(0, tick);
                if !fits(&kept) {
                    kept.remove(0);
                }
            }
            return kept;
        }
        (1..=all.len().max(1))
            .map(|stride| all.iter().copied().step_by(stride).collect::<Vec<_>>())
            .find(|kept| fits(kept))
            .unwrap_or_default()
    }
}

/// The values that an axis wants labelled, rising, with zero where the axis begins there; the last are kept of too many.
fn own_ticks(axis: &Axis, low: f64, high: f64) -> Vec<f64> {
    let mut own: Vec<f64> = axis.labelled.iter().copied().filter(|value| (low..=high).contains(value)).collect();
    own.extend((low == 0.0 && !own.is_empty()).then_some(0.0));
    own.sort_by(f64::total_cmp);
    let own = strictly_increasing(own);
    own[own.len().saturating_sub(MAX_TICKS)..].to_vec()
}

/// A tick with a placed label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tick<'a> {
    pub(crate) value: f64,
    pub(crate) label: &'a str,
    /// Centre of the label, which stays inside the edges.
    pub(crate) middle: f64,
}

fn linear_domain(bounds: Option<(f64, f64)>, origin: Origin, target: usize) -> (f64, f64, Vec<f64>) {
    let (mut low, mut high) = bounds.unwrap_or((0.0, 1.0));
    if origin == Origin::Zero || (low > 0.0 && low <= high * 0.3) {
        low = low.min(0.0);
        high = high.max(0.0);
    }
    if high - low <= low.abs().max(high.abs()) * 1e-9 || high - low < SMALLEST {
        let room = if low.abs() < SMALLEST { 1.0 } else { low.abs() * 0.5 };
        (low, high) = if low.abs() < SMALLEST { (0.0, room) } else { (low - room, high + room) };
    }
    let step = nice_step((high - low) / target as f64);
    if origin == Origin::Near {
        return laid(low, high, origin, step);
    }
    // A scale whose highest tick is far below the data says little of the data: finer steps come nearer.
    let mut found = laid(low, high, origin, step);
    for finer in [nice_step(step / 2.5), nice_step(step / 5.0)] {
        if found.2.last().is_some_and(|tick| *tick >= TOP_TICK_LEAST * high) {
            break;
        }
        found = laid(low, high, origin, finer);
    }
    found
}

/// The highest tick of an axis from zero stands at this share of the highest value at least.
const TOP_TICK_LEAST: f64 = 0.75;

/// The domain around `low` to `high` and its ticks, `step` apart.
fn laid(mut low: f64, mut high: f64, origin: Origin, step: f64) -> (f64, f64, Vec<f64>) {
    let first = (low / step + 1e-9).floor();
    let last = (high / step - 1e-9).ceil();
    // Value axes end on ticks unless that wastes space; position axes end with the data.
    if origin == Origin::Zero {
        low = if low < 0.0 { first * step } else { low };
        high = if last * step - high > (high - low) * 0.15 { high + (high - low) * 0.06 } else { last * step };
    }
    let inside = |v: &f64| (low - step * 1e-6..=high + step * 1e-6).contains(v);
    let count = ((last - first) as usize).min(MAX_TICKS - 1);
    let ticks = (0..=count).map(|i| (first + i as f64) * step).filter(inside).map(|v| v.clamp(low, high)).collect();
    (low, high, strictly_increasing(ticks))
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `raw`.
fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let lead = raw / power;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|n| lead <= *n + 1e-9).unwrap_or(10.0);
    nice * power
}

fn log_domain(bounds: Option<(f64, f64)>, values: &[f64], target: usize) -> (f64, f64, Vec<f64>) {
    let (mut low, mut high) = bounds.unwrap_or((1.0, 10.0));
    if high / low < 1.0 + 1e-9 {
        (low, high) = (low / 2.0, high * 2.0);
    }
    if let Some(ticks) = doublings(values, low, high, target) {
        return (low, high, ticks);
    }
    let decades = (high / low).log10();
    if decades < 0.25 {
        // Too narrow for 1-2-5 steps: evenly spaced values instead.
        let (_, _, ticks) = linear_domain(Some((low, high)), Origin::Near, target.min(5));
        let ticks = ticks.into_iter().filter(|t| *t >= low && *t <= high).collect();
        return (low, high, ticks);
    }
    let (bottom, top) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let leads: &[f64] = if decades * 3.0 <= target as f64 * 1.3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let stride = if leads.len() == 1 { (decades / target as f64).ceil().max(1.0) as usize } else { 1 };
    let candidates: Vec<f64> = (bottom - 1..=top)
        .filter(|power| power.rem_euclid(stride as i32) == 0)
        .flat_map(|power| leads.iter().map(move |lead| power_of_ten(*lead, power)))
        .collect();
    // The domain ends on the ticks around the data when that costs less than a quarter of its width.
    let below = candidates.iter().copied().rfind(|t| *t <= low * (1.0 + 1e-9)).unwrap_or(low);
    let above = candidates.iter().copied().find(|t| *t >= high * (1.0 - 1e-9)).unwrap_or(high);
    low = if (low / below).log10() <= decades * 0.25 { below.min(low) } else { low };
    high = if (above / high).log10() <= decades * 0.25 { above.max(high) } else { high };
    let ticks = candidates.into_iter().filter(|t| *t >= low && *t <= high).take(MAX_TICKS).collect();
    (low, high, strictly_increasing(ticks))
}

/// The exact `f64` of the decimal literal `lead`e`power`.
fn power_of_ten(lead: f64, power: i32) -> f64 {
    format!("{lead:.0}e{power}").parse().unwrap_or(lead)
}

/// Powers of two as ticks, when every value is one (concurrency levels usually are).
fn doublings(values: &[f64], low: f64, high: f64, target: usize) -> Option<Vec<f64>> {
    let is_power = |v: &f64| (1.0..=1e9).contains(v) && v.log2().fract() == 0.0;
    let mut distinct: Vec<f64> = values.to_vec();
    distinct.sort_by(f64::total_cmp);
    distinct.dedup();
    if distinct.len() < 3 || !distinct.iter().all(is_power) {
        return None;
    }
    let (first, last) = (low.log2() as usize, high.log2() as usize);
    let stride = (last - first).div_ceil(target.max(9)).max(1);
    Some((first..=last).step_by(stride).map(|power| 2f64.powi(power as i32)).take(MAX_TICKS).collect())
}

fn strictly_increasing(mut ticks: Vec<f64>) -> Vec<f64> {
    ticks.dedup_by(|later, earlier| *later <= *earlier);
    ticks
}

fn tick_labels(axis: &Axis, ticks: &[f64]) -> Vec<String> {
    if axis.is_time() && axis.scale == Scale::Log {
        return ticks.iter().map(|t| short_seconds(*t)).collect();
    }
    if axis.is_date() {
        return dates::labels(ticks);
    }
    let largest = ticks.iter().fold(0.0f64, |m, t| m.max(t.abs()));
    let step = ticks.windows(2).map(|p| p[1] - p[0]).fold(f64::INFINITY, f64::min);
    if axis.is_time() {
        let (scale, unit) = match largest {
            m if m < 1e-6 => (1e9, "ns"),
            m if m < 1e-3 => (1e6, "µs"),
            m if m < 1.0 => (1e3, "ms"),
            _ => (1.0, "s"),
        };
        return ticks
            .iter()
            .map(|t| format!("{} {unit}", tick_number(t * scale, step * scale, largest * scale)))
            .collect();
    }
    let percent = if axis.unit == "%" { " %" } else { "" };
    let step_of = |t: &f64| if axis.scale == Scale::Log { *t } else { step };
    ticks.iter().map(|t| format!("{}{percent}", tick_number(*t, step_of(t), largest))).collect()
}

fn short_seconds(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 0.999_999 => (v, "s"),
        v if v >= 0.999_999e-3 => (v * 1e3, "ms"),
        v if v >= 0.999_999e-6 => (v * 1e6, "µs"),
        v => (v * 1e9, "ns"),
    };
    format!("{} {unit}", format::plain(scaled))
}

/// Formats a tick with the decimals that its step needs.
fn tick_number(value: f64, step: f64, largest: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-5..1e9).contains(&largest) || !step.is_finite() || step <= 0.0 {
        return format::plain(value);
    }
    if largest >= 1e6 && step >= 1e5 {
        return format!("{}M", format::plain(value / 1e6));
    }
    let places = (-(step.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
    format::fixed(value, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
        let map = Mapping::fit(axis, values, Origin::Zero, (0.0, 400.0), 6);
        map.labelled().map(|(_, label)| label.to_owned()).collect()
    }

    #[test]
    fn linear_ticks_are_one_two_or_five() {
        let axis = Axis::linear("x", "tok/s");
        assert_eq!(ticks(&axis, &[7.0, 93.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(&axis, &[0.1, 0.43]), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(ticks(&axis, &[-3.0, 4.0]), ["−4", "−2", "0", "2", "4"]);
        assert_eq!(ticks(&axis, &[0.0, 2.5e6]), ["0", "0.5M", "1M", "1.5M", "2M", "2.5M"]);
        assert_eq!(ticks(&Axis::linear("t", "s"), &[0.08, 0.4]), ["0 ms", "100 ms", "200 ms", "300 ms", "400 ms"]);
    }

    #[test]
    fn log_ticks_are_decades_doublings_or_one_two_five() {
        assert_eq!(
            ticks(&Axis::log("t", "s"), &[0.003, 400.0]),
            ["1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1,000 s"]
        );
        assert_eq!(ticks(&Axis::log("t", "s"), &[0.23, 1.4]), ["200 ms", "500 ms", "1 s", "2 s"]);
        assert_eq!(ticks(&Axis::log("n", ""), &[1.0, 2.0, 4.0, 64.0]), ["1", "2", "4", "8", "16", "32", "64"]);
    }

    #[test]
    fn a_scale_has_a_tick_near_its_highest_value() {
        let few = |highest: f64| {
            let map = Mapping::fit(&Axis::linear("y", "tok/s"), &[highest], Origin::Zero, (30.0, 1.0), 2);
            map.labelled().map(|(_, label)| label.to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(few(4130.0), "0 2,000 4,000");
        assert_eq!(few(413.0), "0 200 400");
        assert_eq!(few(2970.0), "0 1,000 2,000 3,000");
        assert_eq!(few(1404.0), "0 500 1,000 1,500");
        for highest in (1..2000).map(|n| f64::from(n) * 7.0) {
            let map = Mapping::fit(&Axis::linear("y", ""), &[highest], Origin::Zero, (30.0, 1.0), 2);
            let last = map.ticks.last().copied().unwrap_or_default();
            assert!(last >= TOP_TICK_LEAST * highest && map.ticks.len() <= 8, "{highest}: {:?}", map.ticks);
        }
    }

    #[test]
    fn what_is_to_be_labelled_is_and_the_last_of_it_always() {
        let labels = |levels: &[f64], room: f64| {
            let axis = Axis::linear("Requests in flight", "").labelled_at(levels.to_vec());
            let map = Mapping::fit(&axis, levels, Origin::Near, (0.0, 100.0), 9);
            let placed = map.placed(|_| room, 1.0, (-50.0, 150.0));
            placed.into_iter().map(|tick| tick.label.to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(&[1.0, 4.0], 2.0), "0 1 4", "no half requests");
        assert_eq!(labels(&[1.0, 4.0, 16.0, 24.0], 2.0), "0 1 4 16 24");
        assert_eq!(labels(&[1.0, 4.0, 16.0, 24.0], 20.0), "4 16 24");
        assert_eq!(labels(&[1.0, 4.0, 16.0, 24.0], 40.0), "4 24");
        assert_eq!(labels(&[1.0, 4.0, 16.0, 24.0], 1e3), "24");
    }

    proptest! {
        #[test]
        fn every_axis_is_sound(values in prop::collection::vec(any::<f64>(), 0..20), log: bool, zero: bool, target in 0usize..40) {
            let axis = if log { Axis::log("x", "s") } else { Axis::linear("x", "s") };
            let map = Mapping::fit(&axis, &values, if zero { Origin::Zero } else { Origin::Near }, (10.0, 210.0), target);
            let (low, high) = map.domain();
            prop_assert!(low.is_finite() && high.is_finite() && low < high, "{low} {high}");
            prop_assert!(map.ticks.len() <= MAX_TICKS);
            for pair in map.ticks.windows(2) {
                prop_assert!(pair[0] < pair[1]);
            }
            for tick in &map.ticks {
                prop_assert!((low..=high).contains(tick), "{tick} outside {low} to {high}");
            }
            for value in values {
                let pixel = map.at(value);
                prop_assert!((10.0..=210.0).contains(&pixel));
            }
        }
    }
}
