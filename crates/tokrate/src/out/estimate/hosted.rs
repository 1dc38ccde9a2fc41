//! The law of a hosted endpoint: as a table beside what was measured, as a page and as JSON.
//!
//! Invariant: what was measured and what the law gives stand in columns and series of their own.

use super::capacity::seconds;
use super::{interval, short};
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_charts::{Axis, Block, LineChart, Page, Point, Section, Series, SeriesStyle};
use tokrate_estimate::Value;
use tokrate_estimate::hosted::{Expected, Hosted, Law, Seen};

/// A law, and what it was fitted to.
pub struct Shown {
    /// The law.
    pub hosted: Hosted,
    /// What was measured, by load and length of prompt.
    pub seen: Vec<Seen>,
    /// Tokens of a prompt and an answer that are asked about.
    pub lengths: (f64, f64),
    /// Objectives as they were typed.
    pub slos: Vec<String>,
    /// Most requests in flight that keep them.
    pub within: Option<Value>,
    /// Loads that were asked about.
    pub asked: Vec<(u32, Expected)>,
}

impl Shown {
    fn law(&self, seen: &Seen) -> Option<Expected> {
        self.hosted.expected(seen.load, seen.prompt).ok()
    }
}

/// The law for people.
pub fn text(shown: &Shown) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut text, shown);
    let _ = table(&mut text, shown);
    let _ = asked(&mut text, shown);
    text
}

fn head(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let hosted = &shown.hosted;
    writeln!(
        text,
        "{}: a law fitted to {} measured calls of {}; {:.1} % of calls failed",
        hosted.name,
        hosted.calls,
        hosted.source,
        hosted.failures * 100.0
    )?;
    writeln!(text, "  {}", law("TTFT", &hosted.ttft))?;
    writeln!(text, "  {}", law("time a token", &hosted.tpot))?;
    let range =
        |(low, high): (f64, f64)| if low == high { short(low) } else { format!("{} to {}", short(low), short(high)) };
    writeln!(
        text,
        "  measured with {} in flight and prompts of {} tokens; up to twice beyond it is extrapolated, further it is refused\n",
        range(hosted.load),
        range(hosted.prompt)
    )
}

/// A law in words.
fn law(what: &str, law: &Law) -> String {
    let terms = law.law;
    let prompt = match terms.a_token {
        0.0 => String::new(),
        a_token => format!(" + {} a 1,000 prompt tokens", seconds(a_token * 1e3)),
    };
    let base = seconds(terms.base);
    let whole = if prompt.is_empty() { base } else { format!("({base}{prompt})") };
    let load = if terms.exponent == 0.0 { String::new() } else { format!(" x in flight^{:.2}", terms.exponent) };
    format!("median {what} = {whole}{load}; the slowest 5 % of calls take {:.1} times as long", law.slow)
}

fn table(text: &mut String, shown: &Shown) -> std::fmt::Result {
    writeln!(
        text,
        "{:>9} {:>8} {:>6}  {:>14} {:<26} {:>14} {:<24}",
        "in flight", "prompt", "calls", "TTFT measured", "law (80 %)", "tok/s measured", "law (80 %)"
    )?;
    for seen in &shown.seen {
        let law = shown.law(seen);
        let ttft = law.as_ref().map(|law| law.ttft.times(1e3));
        writeln!(
            text,
            "{:>9} {:>8} {:>6}  {:>14} {:<26} {:>14} {:<24}",
            format!("{:.0}", seen.load),
            format!("{:.0}", seen.prompt),
            seen.n,
            seen.ttft.map_or("-".to_owned(), |ttft| format!("{} ms", short(ttft * 1e3))),
            interval(ttft, " ms"),
            seen.speed.map_or("-".to_owned(), short),
            interval(law.map(|law| law.speed), ""),
        )?;
    }
    writeln!(text)
}

fn asked(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let (prompt, output) = shown.lengths;
    for (load, expected) in &shown.asked {
        writeln!(
            text,
            "at {load} in flight, prompts of {prompt:.0}: TTFT {}, {} tok/s",
            interval(Some(expected.ttft.times(1e3)), " ms"),
            interval(Some(expected.speed), "")
        )?;
        for reason in &expected.extrapolated {
            writeln!(text, "  extrapolated: {reason}")?;
        }
    }
    let Some(within) = shown.within else { return Ok(()) };
    let slos = shown.slos.join("; ");
    if within.value == 0.0 {
        return writeln!(
            text,
            "{slos}: not kept at any load that was measured (prompts of {prompt:.0} tokens, answers of {output:.0})"
        );
    }
    let is_all = within.value >= shown.hosted.load.1.floor();
    writeln!(
        text,
        "{slos}: kept up to {:.0} in flight{} (80 %: {:.0} to {:.0}; prompts of {prompt:.0} tokens, answers of {output:.0})",
        within.value,
        if is_all { ", all that was measured" } else { "" },
        within.low,
        within.high
    )
}

/// A page with the law over the load.
pub fn html(shown: &Shown) -> String {
    let hosted = &shown.hosted;
    let (least, most) = hosted.load;
    let prompt = shown.lengths.0;
    // A load between the ends of what was measured.
    const POINTS: i32 = 25;
    let loads = (0..POINTS).map(|place| least * (most / least).powf(f64::from(place) / f64::from(POINTS - 1)));
    let expected: Vec<(f64, Expected)> =
        loads.filter_map(|load| Some((load, hosted.expected(load, prompt).ok()?))).collect();
    let chart = |title: &str, y: Axis, law: fn(&Expected) -> Value, measured: fn(&Seen) -> Option<f64>| {
        let point = |(load, expected): &(f64, Expected)| {
            let value = law(expected);
            Point { x: *load, y: Some(value.value), low: Some(value.low), high: Some(value.high), ..Point::default() }
        };
        let dot = |seen: &Seen| Point {
            x: seen.load,
            y: measured(seen),
            label: format!("{:.0} tokens", seen.prompt),
            ..Point::default()
        };
        LineChart {
            title: title.to_owned(),
            description: format!(
                "The line is the law for prompts of {prompt:.0} tokens; points are medians that were measured."
            ),
            x: Axis::log("Requests in flight", ""),
            y,
            series: vec![
                Series {
                    name: "law".to_owned(),
                    points: expected.iter().map(point).collect(),
                    style: SeriesStyle::Fit,
                },
                Series {
                    name: "measured".to_owned(),
                    points: shown.seen.iter().map(dot).collect(),
                    style: SeriesStyle::Measured,
                },
            ],
            ..LineChart::default()
        }
    };
    let blocks = vec![
        Block::chart(&chart("Time to the first token", Axis::log("TTFT", "s"), |it| it.ttft, |it| it.ttft)),
        Block::chart(&chart(
            "Output speed of one request",
            Axis::log("Output speed", "tok/s"),
            |it| it.speed,
            |it| it.speed,
        )),
        Block::Code(text(shown)),
    ];
    let page = Page {
        title: format!("How {} answers", hosted.name),
        subtitle: format!("a law fitted to {} measured calls", hosted.calls),
        sections: vec![Section { title: "By load".to_owned(), intro: String::new(), blocks }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// The law as JSON.
pub fn json(shown: &Shown) -> Json {
    let terms = |law: &Law| object!({ "base_s": law.law.base, "a_token_s": law.law.a_token, "exponent": law.law.exponent, "p95_over_p50": law.slow });
    let seen = |seen: &Seen| object!({ "measured": seen, "law": shown.law(seen) });
    let asked = |(load, expected): &(u32, Expected)| object!({ "in_flight": load, "expected": expected });
    object!({
        "name": shown.hosted.name,
        "source": shown.hosted.source,
        "calls": shown.hosted.calls,
        "failures": shown.hosted.failures,
        "measured_in_flight": shown.hosted.load,
        "measured_prompts": shown.hosted.prompt,
        "ttft": terms(&shown.hosted.ttft),
        "tpot": terms(&shown.hosted.tpot),
        "levels": shown.seen.iter().map(seen).collect::<Vec<_>>(),
        "at": shown.asked.iter().map(asked).collect::<Vec<_>>(),
        "prompt_tokens": shown.lengths.0,
        "answer_tokens": shown.lengths.1,
        "objectives": shown.slos,
        "kept_up_to": shown.within,
    })
}
