//! The load that keeps objectives: as a table with its curve, as a page and as JSON.
//!
//! Invariant: every load shown was run; where nothing keeps the objectives, the nearest that is kept is shown.

use super::short;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_charts::{Axis, Block, Direction, LineChart, Mark, Page, Point, Section, Series, SeriesStyle, terminal};
use tokrate_estimate::capacity::{Capacity, Figure, Objective, Search, Tried};
use tokrate_estimate::serving::Serving;
use tokrate_estimate::traffic::{Lengths, mean, quantile};

/// What a search found, with what it was about.
pub struct Shown {
    /// Model, as it was asked for.
    pub asked_model: String,
    /// Storage of the weights, where it was given.
    pub precision: Option<String>,
    /// The nearest measured rows.
    pub nearest: Vec<String>,
    /// Users or requests a second that were asked for.
    pub wanted: Option<f64>,
    /// The engine.
    pub serving: Serving,
    /// What requests look like.
    pub lengths: Lengths,
    /// What was searched.
    pub kind: Search,
    /// The objectives.
    pub objectives: Vec<Objective>,
    /// The same as they were typed.
    pub slos: Vec<String>,
    /// What was found.
    pub capacity: Capacity,
    /// Price of one device, $/hour.
    pub dollars_hour: Option<(f64, f64)>,
}

impl Shown {
    /// Whether some load keeps the objectives, and all that was asked for.
    pub fn carries(&self) -> bool {
        self.capacity.most.is_some_and(|most| self.wanted.is_none_or(|wanted| wanted <= most))
    }

    /// Sets of these devices that carry what was asked for, if a load keeps the objectives at all.
    fn sets(&self) -> Option<f64> {
        Some((self.wanted? / self.capacity.most?).ceil())
    }

    fn unit(&self) -> &'static str {
        if matches!(self.kind, Search::Users(_)) { "users" } else { "requests/s" }
    }
}

/// A value of an objective with its unit.
fn valued(objective: &Objective, value: f64) -> String {
    match objective.figure {
        Figure::OutputSpeed => format!("{} tok/s", short(value)),
        _ => seconds(value),
    }
}

/// Seconds, or milliseconds of less than one.
pub fn seconds(value: f64) -> String {
    if value < 1.0 { format!("{} ms", short(value * 1e3)) } else { format!("{} s", short(value)) }
}

/// The result for people.
pub fn text(shown: &Shown) -> String {
    let mut text = "Computed in virtual time with fitted step times, not measured.\n\n".to_owned();
    // Writing to a String cannot fail.
    let _ = head(&mut text, shown);
    let _ = result(&mut text, shown);
    let _ = table(&mut text, shown);
    // One load is no curve.
    if shown.capacity.curve.len() > 1 {
        text.push('\n');
        text.push_str(&terminal::plot(&chart(shown), 100, 18, true));
    }
    for assumed in &shown.serving.assumed {
        let _ = writeln!(text, "assumed: {assumed}");
    }
    if !shown.nearest.is_empty() {
        let _ = writeln!(text, "nearest measured: {}", shown.nearest.join(", "));
    }
    text
}

fn head(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let question = &shown.serving.question;
    let lengths = &shown.lengths;
    writeln!(
        text,
        "{}{} on {} x {}, scheduler {}",
        shown.asked_model,
        shown.precision.as_ref().map_or(String::new(), |name| format!(" in {name}")),
        question.devices,
        question.device.name,
        shown.serving.args.policy.name()
    )?;
    let vary = if lengths.variation > 0.0 { format!(", varying by {}", lengths.variation) } else { String::new() };
    let same = if lengths.shared > 0 { format!(", {} of them shared by all", lengths.shared) } else { String::new() };
    let load = match shown.kind {
        Search::Users(0.0) => "users who ask again at once".to_owned(),
        Search::Users(think) => format!("users who ask again {} after an answer", seconds(think)),
        Search::Rate => "requests at random times".to_owned(),
    };
    writeln!(text, "prompts of {} tokens{same}, answers of {}{vary}; {load}", lengths.isl, lengths.osl)?;
    writeln!(text, "objectives: {}\n", shown.slos.join("; "))
}

fn result(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let (capacity, unit) = (&shown.capacity, shown.unit());
    let Some(most) = capacity.most else {
        writeln!(
            text,
            "Nothing keeps the objectives, not even the smallest load that was tried. Nearest that is kept there:"
        )?;
        let Some(first) = capacity.curve.first() else { return Ok(()) };
        for (objective, slo) in shown.objectives.iter().zip(&shown.slos) {
            let value = objective.value(&first.samples);
            let value = value.map_or("no request has it".to_owned(), |value| valued(objective, value));
            writeln!(text, "  {slo}: {value}{}", if objective.kept(&first.samples) { ", kept" } else { "" })?;
        }
        return writeln!(text);
    };
    let end = |load: Option<f64>| load.map_or("none".to_owned(), whole_or_short);
    let beyond = if capacity.unbounded { " and more: the objectives bound no load that was tried" } else { "" };
    writeln!(
        text,
        "carries {} {unit}{beyond} (80 % interval of the speed: {} to {})",
        whole_or_short(most),
        end(capacity.range.0),
        end(capacity.range.1)
    )?;
    if let Some(at) = capacity.curve.iter().find(|tried| tried.load == most) {
        let samples = &at.samples;
        writeln!(
            text,
            "there {} requests/s and {} tok/s; {} in the system = requests/s x {} each (Little)",
            short(samples.requests_a_second),
            short(samples.tokens_a_second),
            short(samples.in_system),
            seconds(mean(&samples.e2e))
        )?;
        if let Some((low, high)) = shown.dollars_hour {
            let cost = |hour: f64| hour * shown.serving.question.devices / (3600.0 * samples.tokens_a_second) * 1e6;
            writeln!(text, "${} to ${} a million output tokens at that load", short(cost(low)), short(cost(high)))?;
        }
    }
    if let Some((next, slo)) = first_miss(shown) {
        writeln!(text, "at {} {unit} it is {slo} that is missed", whole_or_short(next))?;
    }
    if let Some((wanted, sets)) = shown.wanted.zip(shown.sets()) {
        let devices = sets * shown.serving.question.devices;
        writeln!(
            text,
            "{} {unit} need {sets} of it: {devices} x {}{}",
            whole_or_short(wanted),
            shown.serving.question.device.name,
            shown.dollars_hour.map_or(String::new(), |(low, high)| format!(
                ", ${} to ${} an hour",
                short(low * devices),
                short(high * devices)
            ))
        )?;
    }
    writeln!(text)
}

/// The smallest load beyond the capacity that was tried, and the first objective that it misses.
fn first_miss(shown: &Shown) -> Option<(f64, String)> {
    let most = shown.capacity.most?;
    let next = shown.capacity.curve.iter().find(|tried| tried.load > most && !tried.good())?;
    let missed = next.kept.iter().zip(&shown.slos).find(|(kept, _)| !**kept).map(|(_, slo)| format!("'{slo}'"));
    Some((next.load, missed.unwrap_or_else(|| "the queue".to_owned())))
}

/// A load: whole users as they are, rates in three digits.
pub fn whole_or_short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { short(value) }
}

fn table(text: &mut String, shown: &Shown) -> std::fmt::Result {
    writeln!(
        text,
        "{:>10}  {:>10} {:>10}  {:>10} {:>10}  {:>9} {:>10} {:>6}  keeps",
        shown.unit(),
        "TTFT p50",
        "p95",
        "tok/s p50",
        "p5",
        "e2e p95",
        "tok/s all",
        "cache"
    )?;
    for tried in &shown.capacity.curve {
        let samples = &tried.samples;
        let speed = |share: f64| match quantile(&samples.tpot, share) {
            0.0 => "-".to_owned(),
            time => short(1.0 / time),
        };
        let keeps = match tried {
            Tried { samples, .. } if samples.overloaded => "no: overloaded".to_owned(),
            tried if tried.good() => "all".to_owned(),
            tried => {
                let missed: Vec<&str> = tried
                    .kept
                    .iter()
                    .zip(&shown.slos)
                    .filter(|(kept, _)| !**kept)
                    .map(|(_, slo)| slo.as_str())
                    .collect();
                format!("not {}", missed.join("; "))
            }
        };
        writeln!(
            text,
            "{:>10}  {:>10} {:>10}  {:>10} {:>10}  {:>9} {:>10} {:>5.0}%  {keeps}",
            whole_or_short(tried.load),
            seconds(quantile(&samples.ttft, 0.5)),
            seconds(quantile(&samples.ttft, 0.95)),
            speed(0.5),
            speed(0.95),
            seconds(quantile(&samples.e2e, 0.95)),
            short(samples.tokens_a_second),
            samples.cache_use * 100.0
        )?;
    }
    Ok(())
}

/// The curve of the objective that binds, over the load.
fn chart(shown: &Shown) -> LineChart {
    let binding =
        first_miss(shown).and_then(|(_, slo)| shown.slos.iter().position(|typed| slo == format!("'{typed}'")));
    let at = binding.unwrap_or(0);
    let objective = shown.objectives[at];
    let (unit, factor) = match objective.figure {
        Figure::OutputSpeed => ("tok/s", 1.0),
        _ => ("s", 1.0),
    };
    let point = |tried: &Tried| Point {
        x: tried.load,
        y: objective.value(&tried.samples).map(|value| value * factor),
        ..Point::default()
    };
    let slo = &shown.slos[at];
    let mut marks = vec![Mark {
        direction: Direction::Horizontal,
        at: objective.bound,
        low: None,
        high: None,
        label: format!("objective {slo}"),
    }];
    if let Some(most) = shown.capacity.most {
        let (low, high) = shown.capacity.range;
        marks.push(Mark {
            direction: Direction::Vertical,
            at: most,
            low,
            high,
            label: format!("carries {} {}", whole_or_short(most), shown.unit()),
        });
    }
    LineChart {
        title: format!("{slo}, by load (computed)"),
        description: "Each point is one load in virtual time; the horizontal line is the objective.".to_owned(),
        x: Axis::log(shown.unit(), ""),
        y: Axis::log(slo.split_whitespace().next().unwrap_or_default(), unit),
        series: vec![Series {
            name: "computed".to_owned(),
            points: shown.capacity.curve.iter().map(point).collect(),
            style: SeriesStyle::Fit,
        }],
        marks,
        bands: Vec::new(),
    }
}

/// A page with the curve.
pub fn html(shown: &Shown) -> String {
    let mut words = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut words, shown);
    let _ = result(&mut words, shown);
    let _ = table(&mut words, shown);
    let page = Page {
        title: format!("Capacity of {} x {}", shown.serving.question.devices, shown.serving.question.device.name),
        subtitle: "computed in virtual time with fitted step times, not measured".to_owned(),
        sections: vec![Section {
            title: "The load within the objectives".to_owned(),
            intro: String::new(),
            blocks: vec![Block::chart(&chart(shown)), Block::Code(words)],
        }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// The result as JSON.
pub fn json(shown: &Shown) -> Json {
    let tried = |tried: &Tried| {
        let samples = &tried.samples;
        object!({
            "load": tried.load,
            "keeps_all": tried.good(),
            "overloaded": samples.overloaded,
            "kept": tried.kept,
            "values": shown.objectives.iter().map(|objective| objective.value(samples)).collect::<Vec<_>>(),
            "ttft_s": { "p50": quantile(&samples.ttft, 0.5), "p95": quantile(&samples.ttft, 0.95), "p99": quantile(&samples.ttft, 0.99) },
            "tpot_s": { "p50": quantile(&samples.tpot, 0.5), "p95": quantile(&samples.tpot, 0.95) },
            "e2e_s": { "p50": quantile(&samples.e2e, 0.5), "p95": quantile(&samples.e2e, 0.95) },
            "requests_s": samples.requests_a_second,
            "tok_s_total": samples.tokens_a_second,
            "cache_use": samples.cache_use,
            "preemptions": samples.preemptions,
        })
    };
    object!({
        "computed": true,
        "model": shown.asked_model,
        "facts_of": shown.serving.question.model.name,
        "hardware": shown.serving.question.device.name,
        "n_gpus": shown.serving.question.devices,
        "scheduler": shown.serving.args.policy.name(),
        "load": shown.unit(),
        "objectives": shown.slos,
        "carries": { "value": shown.capacity.most, "low": shown.capacity.range.0, "high": shown.capacity.range.1 },
        "unbounded": shown.capacity.unbounded,
        "wanted": shown.wanted,
        "sets": shown.sets(),
        "curve": shown.capacity.curve.iter().map(tried).collect::<Vec<_>>(),
        "assumed": shown.serving.assumed,
        "nearest": shown.nearest,
    })
}
