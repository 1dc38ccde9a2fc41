//! The lines of the view: what each part says, before it is known where it stands.
//!
//! Invariant: what is wrong is said in words and not by colour alone.

use crate::state::{Doing, FigureRow, Level, Live, Present, Quantiles, Unit};
use crate::style::Look;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use tokrate_core::format::{count, number, percent, seconds, usd};

/// What is run and how far it is, at the left end of the first line and at the right one, in so many columns. Where there is no room for all
/// of it, what matters least goes: the program's name, then the time, then the target's name.
pub(crate) fn head(live: &Live, columns: usize, look: Look) -> (Line<'static>, String) {
    let time = match live.left {
        _ if live.doing == Doing::Ended => format!("{} in all", whole(live.seconds)),
        Some(left) => format!("{}, about {} left", whole(live.seconds), whole(left)),
        None => whole(live.seconds),
    };
    let program = Span::styled("tokrate bench", look.strong());
    let Some(present) = &live.present else { return (Line::from(program), time) };
    let of = if present.of > present.number { format!("/{}", present.of) } else { String::new() };
    let round = if present.round > 1 { format!(", round {}", present.round) } else { String::new() };
    let level = Span::styled(format!("level {}{of}: {}{round}", present.number, present.name.text), look.accent());
    let target = Span::raw(live.targets.get(present.target).map_or(String::new(), |target| target.name.clone()));
    let parts: [(&[&Span<'static>], bool); 5] = [
        (&[&program, &target, &level], true),
        (&[&target, &level], true),
        (&[&target, &level], false),
        (&[&level], true),
        (&[&level], false),
    ];
    let laid_out = parts.map(|(spans, with_time)| {
        let spans =
            spans.iter().filter(|span| !span.content.is_empty()).flat_map(|span| [Span::raw("  "), (*span).clone()]);
        (Line::from(spans.skip(1).collect::<Vec<Span<'_>>>()), if with_time { time.clone() } else { String::new() })
    });
    let fits = |(line, time): &&(Line<'_>, String)| line.width() + 2 + time.chars().count() <= columns;
    laid_out.iter().find(fits).unwrap_or(&laid_out[4]).clone()
}

/// Seconds without fractions.
pub(crate) fn whole(value: f64) -> String {
    if value < 119.5 { format!("{:.0} s", value.max(0.0)) } else { seconds(value.round()) }
}

/// What the run is doing, beside the bar of the level.
pub(crate) fn doing(live: &Live) -> String {
    let Some(present) = &live.present else { return String::new() };
    match live.doing {
        _ if live.is_interrupted => "interrupted; writing what was measured (again to end at once)".to_owned(),
        Doing::Ended => "done; writing the results".to_owned(),
        Doing::Calibrating => "measuring the client's own error at this load".to_owned(),
        Doing::Measuring => match (present.wait, present.share > 0.02) {
            (Some(wait), _) => format!("waiting {} more, as the provider asks (429)", whole(wait)),
            (None, _) if present.share >= 1.0 && present.counts.in_flight == 1 => {
                "waiting for the last answer".to_owned()
            }
            (None, _) if present.share >= 1.0 => format!("waiting for the last {} answers", present.counts.in_flight),
            (None, true) => {
                let left = present.seconds * (1.0 - present.share) / present.share;
                format!("{:.0} %, {} of this level left", 100.0 * present.share, whole(left))
            }
            (None, false) => format!("{} of this level", whole(present.seconds)),
        },
    }
}

/// What has become of the requests: parts that are joined by commas.
pub(crate) fn counts(live: &Live, present: &Present, look: Look) -> Vec<Span<'static>> {
    let counts = present.counts;
    let mut parts = vec![Span::styled(format!("{} done", count(counts.answered)), look.strong())];
    if counts.failed > 0 {
        parts.push(Span::styled(format!("{} failed", count(counts.failed)), look.alarm()));
    }
    if counts.limited > 0 {
        parts.push(Span::styled(format!("{} limited (429)", count(counts.limited)), look.warning()));
    }
    parts.push(Span::raw(format!("{} in flight", count(counts.in_flight))));
    parts.extend(counts.per_second.map(|rate| Span::raw(format!("{} requests/s", number(rate)))));
    let unit = &live.shown.throughput.1;
    parts.extend(counts.throughput.map(|all| Span::raw(format!("≈ {} {unit} in all", number(all)))));
    parts
}

/// The heads of the columns of [`figure`].
pub(crate) const FIGURE_HEADS: [&str; 6] = ["", "p50", "p90", "p99", "worst", "of"];

/// A row of percentiles.
pub(crate) fn figure(row: &FigureRow) -> [String; 6] {
    let value = |value: f64| match row.unit {
        Unit::Seconds => seconds(value),
        Unit::TokensPerSecond => number(value),
    };
    let name = match row.unit {
        Unit::Seconds => row.name.clone(),
        Unit::TokensPerSecond => format!("{}, tok/s", row.name),
    };
    let missing = || "-".to_owned();
    match row.at {
        None => [name, missing(), missing(), missing(), missing(), "0".to_owned()],
        Some(Quantiles { p50, p90, p99, worst, n }) => {
            [name, value(p50), value(p90), value(p99), value(worst), count(n)]
        }
    }
}

/// Failures by kind.
pub(crate) fn errors(present: &Present, look: Look) -> Option<Line<'static>> {
    if present.errors.is_empty() {
        return None;
    }
    let kinds = present.errors.iter().map(|(kind, n)| format!("{} {}", count(*n), kind.replace('_', " ")));
    Some(labelled("Errors", kinds.collect::<Vec<String>>().join(", "), look.alarm(), look))
}

/// The client itself.
pub(crate) fn client(live: &Live, present: &Present, look: Look) -> Vec<Line<'static>> {
    let client = &present.client;
    let mut parts = Vec::new();
    parts.extend(client.cpu.map(|cpu| match client.threads {
        0 | 1 => format!("{:.0} % of a core", 100.0 * cpu),
        threads => format!("{:.0} % of a core (busiest of {threads} threads)", 100.0 * cpu),
    }));
    parts.extend(client.timer_lag.map(|lag| format!("timers {} late (p99)", seconds(lag))));
    parts.extend(client.error.clone().map(|error| format!("own error {error}")));
    let trouble = client.trouble();
    let style = if trouble.is_some() { look.warning() } else { Style::new() };
    let said = if parts.is_empty() { "not known yet".to_owned() } else { parts.join(", ") };
    let mut lines = vec![labelled("Client", said, style, look)];
    lines.extend(trouble.map(|trouble| labelled("", trouble, look.alarm(), look)));
    let alarm = live.targets.get(present.target).and_then(|target| target.alarm.as_ref());
    lines.extend(alarm.map(|alarm| {
        let said = format!("NOT VALID at {} by the client's own error: {}", alarm.level, alarm.why);
        labelled("", said, look.alarm(), look)
    }));
    lines
}

/// What is read beside the requests.
pub(crate) fn beside(present: &Present, look: Look) -> Vec<Line<'static>> {
    let label = |place: usize| if place == 0 { "Beside" } else { "" };
    let lines = present.beside.iter().enumerate();
    lines.map(|(place, text)| labelled(label(place), text.clone(), Style::new(), look)).collect()
}

/// What it costs.
pub(crate) fn money(live: &Live, look: Look) -> Option<Line<'static>> {
    let money = live.money?;
    let spent = format!("${}", usd(money.spent, 4));
    let (said, style) = match money.limit {
        None => (format!("{spent} spent"), Style::new()),
        Some(limit) => {
            let share = percent((money.spent / limit.max(f64::MIN_POSITIVE)).min(1.0));
            let said = format!("{spent} of ${} spent, {share}", usd(limit, 4));
            match money.is_near_limit() {
                true => (said + ": the limit ends the run soon", look.warning()),
                false => (said, Style::new()),
            }
        }
    };
    Some(labelled("Money", said, style, look))
}

/// What the run goes on for.
pub(crate) fn notes(live: &Live, look: Look) -> Vec<Line<'static>> {
    let label = |place: usize| if place == 0 { "Goal" } else { "" };
    let notes = live.notes.iter().enumerate();
    notes.map(|(place, text)| labelled(label(place), text.clone(), Style::new(), look)).collect()
}

/// Columns of the labels.
pub(crate) const LABEL: usize = 8;

pub(crate) fn labelled(label: &str, text: String, style: Style, look: Look) -> Line<'static> {
    Line::from(vec![Span::styled(format!("{label:LABEL$}"), look.quiet()), Span::styled(text, style)])
}

/// The heads of the columns of [`level`].
pub(crate) fn level_heads(live: &Live) -> [String; 6] {
    let (time, unit) = (&live.shown.time, &live.shown.throughput.1);
    let each = if unit == "tok/s" { "tok/s each" } else { "" };
    ["level", &format!("{unit} in all"), &format!("{time} p50"), &format!("{time} p99"), each, "failed"]
        .map(str::to_owned)
}

/// A level that has ended, as a row.
pub(crate) fn level(level: &Level) -> [String; 6] {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let rounds = if level.rounds > 1 { format!(" ({} rounds)", level.rounds) } else { String::new() };
    let doubt = if level.is_valid { "" } else { " !" };
    [
        format!("{}{rounds}{doubt}", level.name.text),
        known(level.throughput.map(number)),
        known(level.p50.map(seconds)),
        known(level.p99.map(seconds)),
        known(level.speed.map(number)),
        if level.failed > 0 { count(level.failed) } else { "0".to_owned() },
    ]
}
