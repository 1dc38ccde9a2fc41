//! The forecast of a run, printed before it starts: a line, and the table of `--dry-run`.
//!
//! Invariant: what is not known, bounded or estimated is marked so.

use super::paragraph::note;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};
use tokrate_bench::Config;
use tokrate_bench::forecast::{ASSUMED, Basis, Forecast, Level};
use tokrate_charts::format;
use tokrate_judge::scorecard::Scorecard;
use tokrate_record::{PrecisionOutcome, PrecisionStatus, Record};

/// What the time of answers stands on whose length nobody asks for.
const AS_SEEN: &str = "; the time if each answer takes as long as the one before the load";

/// The plan of one target in a line.
pub fn line(forecast: &Forecast) -> String {
    let levels = match (forecast.levels.len(), &forecast.added) {
        (0, Some(added)) => added.name.clone(),
        (1, None) => "1 level".to_owned(),
        (n, None) => format!("{n} levels"),
        (1, Some(added)) => format!("1 level and {}", added.name),
        (n, Some(added)) => format!("{n} levels and {}", added.name),
    };
    let mut parts = vec![levels];
    let total = forecast.total();
    let has_before = forecast.before.is_some();
    parts.extend(numbers(&total, has_before, forecast.added.is_some() || forecast.is_time_at_most));
    if total.seconds.is_some() && forecast.calibration_seconds > 0.0 {
        parts.push(format!("and up to {} of calibration", time(forecast.calibration_seconds)));
    }
    let assumed = if forecast.assumed { format!("; {}", assumption()) } else { String::new() };
    let as_seen = if forecast.is_time_as_seen && total.seconds.is_some() { AS_SEEN } else { "" };
    parts.join(", ") + as_seen + &assumed
}

/// The plan of several targets in a line, with what it is a plan of.
pub fn together(forecasts: &[Forecast]) -> String {
    let sum = Forecast::together(forecasts);
    let has_further = forecasts.iter().any(|forecast| forecast.added.is_some() || forecast.is_time_at_most);
    format!("{}: {}", sum.name, numbers(&sum, false, has_further).join(", "))
}

/// By how much rounds differ among themselves for the line that says what they show; rounds on a quiet machine and network do by about as much.
const SPREAD: f64 = 0.01;

/// What difference between the targets the rounds of the plan show, as a sentence; `None` of a plan without listed levels.
pub fn detectable(forecasts: &[Forecast]) -> Option<String> {
    let change = Forecast::detectable(forecasts, SPREAD)?;
    let rounds = forecasts.iter().map(|forecast| forecast.rounds).min()?;
    Some(if change.is_finite() {
        format!(
            "{rounds} rounds of each target show differences from about {:.1} % on where rounds differ by {:.0} % among themselves",
            100.0 * change,
            100.0 * SPREAD
        )
    } else {
        format!(
            "a single round of each target shows no difference below {}, as nobody knows by how much rounds differ; --rounds {} does",
            format::percent(Scorecard::MIN_DIFFERENCE_OF_SINGLE_ROUNDS),
            Scorecard::ENOUGH_ROUNDS
        )
    })
}

/// The numbers that are known, in words; a run that may add levels, or whose answers are not streamed, takes up to so long. Whether a request
/// before the load is among them is said.
fn numbers(level: &Level, has_before: bool, has_further: bool) -> Vec<String> {
    let (asked, answered) = match level.basis {
        Basis::Exact => ("", "up to "),
        Basis::AtMost => ("up to ", "up to "),
        Basis::About => ("about ", "about "),
    };
    let bounded = if has_further { "up to " } else { "" };
    let (token_sign, answered) = if level.by_mean_lengths { ("about ", "about ") } else { (asked, answered) };
    let count = |n: f64| format::count(n.ceil() as u64);
    let mut parts = Vec::new();
    let counted = |n: f64, what: &str| format!("{} {what}{}", count(n), if n.ceil() == 1.0 { "" } else { "s" });
    let before = if has_before { " (one before the load)" } else { "" };
    parts.extend(level.requests.map(|n| format!("{asked}{}{before}", counted(n, "request"))));
    let tokens = level.input_tokens.zip(level.output_tokens);
    parts.extend(tokens.map(|(input, output)| {
        // Vectors and scores are no tokens.
        let written = if output > 0.0 { format!(" and {answered}{} out", count(output)) } else { String::new() };
        format!("{token_sign}{} in{written}", counted(input, "token"))
    }));
    parts.extend(level.usd.map(|usd| format!("{answered}${}", format::usd(usd, 4))));
    parts.extend(level.seconds.map(|seconds| format!("{bounded}about {}", time(seconds))));
    parts
}

/// What a run with `--until` is still expected to take, as a sentence, and what its limits leave of that; `None` where nothing is left or nobody
/// knows.
pub fn remaining(record: &Record, planned: Option<&Forecast>) -> Option<String> {
    let until = record.until.as_ref()?;
    let open = until.conditions.iter().filter(|outcome| outcome.status == PrecisionStatus::NotReached);
    let known: Vec<String> =
        open.map(|outcome| format!("{} at {} is {}", outcome.condition, outcome.phase, width(outcome))).collect();
    let more = tokrate_bench::forecast::remaining(record)?;
    let limits = planned.and_then(|planned| limits_leave(record, planned, &more)).unwrap_or_default();
    Some(format!("{}; expected further: {}{limits}", known.join(", "), numbers(&more, false, false).join(", ")))
}

/// That the limits end the run before what is expected, if they do.
fn limits_leave(record: &Record, planned: &Forecast, more: &Level) -> Option<String> {
    let total = planned.load();
    let started: u64 = record.phases.iter().map(|phase| phase.counts.started).sum();
    let requests = (total.requests? - started as f64).max(0.0);
    let spent = record.spending.map_or(0.0, |spending| spending.usd);
    let usd = planned.usd_limit.map(|limit| (limit - spent).max(0.0));
    let left = [
        more.requests.filter(|more| *more > requests).map(|_| format!("{} requests", format::count(requests as u64))),
        more.usd.zip(usd).filter(|(more, left)| more > left).map(|(_, left)| format!("${}", format::usd(left, 4))),
    ];
    let left: Vec<String> = left.into_iter().flatten().collect();
    (!left.is_empty()).then(|| format!("; the limits of the run leave {} of that", left.join(" and ")))
}

/// The present half width of a figure's interval.
pub fn width(outcome: &PrecisionOutcome) -> String {
    match (outcome.half_width, outcome.relative) {
        (Some(half), true) => format!("± {:.1} %", 100.0 * half),
        (Some(half), false) if outcome.unit.is_empty() => format!("± {:.1} %", 100.0 * half),
        (Some(half), false) => format!("± {} {}", format::number(half), outcome.unit),
        (None, _) => "± ?".to_owned(),
    }
}

/// What an estimate assumes of answers that nobody has seen yet.
fn assumption() -> String {
    format!(
        "estimated for answers that begin after {} s and come at {:.0} tok/s each; a faster server is asked more",
        ASSUMED.ttft,
        1.0 / ASSUMED.per_token
    )
}

/// What every target will be asked for, level by level, in lines of at most `width`.
pub fn text(names: &[String], configs: &[Config], width: usize) -> String {
    let paragraph = |words: &str| note(words, width);
    let mut text = String::new();
    let forecasts: Vec<Forecast> = configs.iter().map(|config| Forecast::of(config, None)).collect();
    for ((name, config), forecast) in names.iter().zip(configs).zip(&forecasts) {
        text += &format!("{name} at {}\n{}\n", place(config), table(forecast));
        if config.probe && config.target.remote().is_some() {
            text += &paragraph(
                "One request goes before the load, to see whether the endpoint answers (--no-probe leaves it out).",
            );
        }
        text += "\n";
    }
    if forecasts.len() > 1 {
        text += &paragraph(&together(&forecasts));
        text.extend(detectable(&forecasts).map(|sentence| paragraph(&sentence)));
        text += "\n";
    }
    text += &paragraph(
        "Nothing was sent. Output tokens and dollars are the most that can be used; times that depend on the server's speed are \
         not known before the first answer (-).",
    );
    let mut levels = forecasts.iter().flat_map(|forecast| forecast.levels.iter().chain(&forecast.added));
    let has_estimate = levels.any(|level| level.basis == Basis::About || level.by_mean_lengths);
    text += &paragraph(if has_estimate { "≤ is an upper bound, ≈ an estimate." } else { "≤ is an upper bound." });
    if forecasts.iter().any(|forecast| forecast.assumed) {
        text += &paragraph(&format!("A level that goes by time is {}.", assumption()));
    }
    text
}

fn place(config: &Config) -> String {
    config.target.remote().map_or_else(|| "an embedded engine".to_owned(), |remote| remote.base.to_string())
}

fn table(forecast: &Forecast) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(["level", "requests", "tokens in", "tokens out", "USD", "time"]);
    let rows = || forecast.before.iter().chain(&forecast.levels).chain(&forecast.added);
    let total = (rows().count() > 1).then(|| forecast.total());
    for level in rows().chain(&total) {
        let [name, numbers @ ..] = row(level);
        let numbers = numbers.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(name)).chain(numbers));
    }
    table
}

fn row(level: &Level) -> [String; 6] {
    let sign = match level.basis {
        Basis::Exact => "",
        Basis::AtMost => "≤ ",
        Basis::About => "≈ ",
    };
    // A time is no estimate because the number of requests is one.
    let bounded = if level.basis == Basis::AtMost { sign } else { "" };
    let known = |sign: &str, number: Option<String>| number.map_or_else(|| "-".to_owned(), |it| format!("{sign}{it}"));
    let count = |n: f64| format::count(n.ceil() as u64);
    // Of an exact number of requests too nobody knows how long their answers get.
    let answered = if level.basis == Basis::Exact { "≤ " } else { sign };
    let (asked, answered) = if level.by_mean_lengths { ("≈ ", "≈ ") } else { (sign, answered) };
    [
        level.name.clone(),
        known(sign, level.requests.map(count)),
        known(asked, level.input_tokens.map(count)),
        known(answered, level.output_tokens.map(count)),
        known(answered, level.usd.map(|usd| format::usd(usd, 4))),
        level.seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{bounded}{}", time(seconds))),
    ]
}

/// A time in the largest unit that leaves two digits.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{:.0} s", s.ceil()),
        s if s < 7_200.0 => format!("{:.0} min", (s / 60.0).ceil()),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
