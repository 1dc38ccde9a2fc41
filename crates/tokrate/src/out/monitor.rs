//! What `tokrate monitor` prints: its plan, the probes of a cycle, the demo.
//!
//! Invariant: a number that is missing has its reason in its place.

use crate::config::clickhouse::answers;
use std::fmt::Write;
use std::path::Path;
use tokrate_core::{Money, Span};
use tokrate_monitor::demo::DemoSummary;
use tokrate_monitor::{AlertRule, KnownProber, Settings, Watch};
use tokrate_prober::{Config, Plan};
use tokrate_store::{EventRow, ProbeRow};

/// Days of a month, as a plan has them.
const MONTH_DAYS: f64 = 30.0;

/// What is about to be watched.
pub fn watching(settings: &Settings) -> String {
    let (endpoints, workloads) = (settings.endpoints.len(), settings.workloads.len());
    if endpoints == 0 {
        return format!("keeping what others push in {} (Ctrl-C ends)", settings.database.display());
    }
    format!(
        "watching {} with {}, {} a day, from `{}` into {} (Ctrl-C ends)",
        counted(endpoints, "endpoint"),
        counted(workloads, "workload"),
        counted(settings.slots_a_day as usize, "cycle"),
        settings.place,
        settings.database.display()
    )
}

/// A count with what is counted.
pub fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The plan of a month.
pub fn plan(config: &Config, plan: &Plan) -> String {
    let mut rows = vec![row(["endpoint", "workload", "probes a day", "requests", "tokens", "USD"])];
    let usd = |usd: Option<f64>| {
        let amount = usd.and_then(Money::from_usd);
        amount.map_or("price unknown".to_owned(), |usd| usd.to_string())
    };
    let mut total = (0.0, 0.0, Some(0.0));
    for (place, endpoint) in config.endpoints.iter().enumerate() {
        let mut sum = (0.0, 0.0, Some(0.0));
        for series in plan.series.iter().filter(|series| series.endpoint == place) {
            let a_day = f64::from(config.slots_a_day) / f64::from(series.every);
            let lowered = if series.every > series.asked_every {
                format!(" (asked: {})", short(f64::from(config.slots_a_day) / f64::from(series.asked_every)))
            } else {
                String::new()
            };
            rows.push(row([
                &endpoint.name,
                &config.workloads[series.workload].name,
                &format!("{}{lowered}", short(a_day)),
                &format!("{:.0}", series.requests),
                &grouped(series.tokens),
                &usd(series.usd),
            ]));
            sum = (sum.0 + series.requests, sum.1 + series.tokens, add(sum.2, series.usd));
        }
        if endpoint.workloads.len() > 1 {
            rows.push(row([&endpoint.name, "all", "", &format!("{:.0}", sum.0), &grouped(sum.1), &usd(sum.2)]));
        }
        total = (total.0 + sum.0, total.1 + sum.1, add(total.2, sum.2));
    }
    rows.push(row(["all", "", "", &format!("{:.0}", total.0), &grouped(total.1), &usd(total.2)]));
    let mut text =
        format!("What is probed in {MONTH_DAYS:.0} days, with answers as long as allowed. Nothing was sent.\n\n");
    text.push_str(&aligned(&rows));
    text.push('\n');
    if let Some(budget) = plan.lowered {
        let key = budget.key();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{key} does not suffice for all: series are probed less often, those with the narrowest interval first."
        );
    }
    for budget in &plan.short {
        let key = budget.key();
        let _ = writeln!(text, "{key} does not suffice even for one probe of each in a week: some will not be sent.");
    }
    if config.budget == tokrate_prober::Budget::default() {
        text.push_str("There is no budget: usd_per_month or tokens_per_day sets one.\n");
    }
    text
}

/// Who gets alerts, where it is pushed to, and who pushes here; empty if nobody.
pub fn connections(settings: &Settings, probers: Option<&[KnownProber]>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    for receiver in &settings.alerts.receivers {
        let _ = writeln!(text, "Alerts go to `{}`: {receiver}", receiver.name);
    }
    for AlertRule { rule, watch, .. } in &settings.alerts.rules {
        let what = match watch {
            Watch::Changes(kinds) => kinds.join(", "),
            Watch::Objectives(slos) => {
                let slos: Vec<String> = slos.iter().map(ToString::to_string).collect();
                format!("{} of {} probes miss {}", rule.failing, rule.of, slos.join(" or "))
            }
            Watch::Silence(ms) => format!("a prober is silent for {}", Span::from_millis(*ms)),
        };
        let places = if rule.places > 1 { format!(" in {} places", rule.places) } else { String::new() };
        let _ = writeln!(text, "Rule `{}`: {what}{places}, to {}", rule.name, rule.receivers.join(", "));
    }
    if let Some(shipping) = &settings.shipping {
        let _ = writeln!(text, "Probes and changes go to {} too: {}", shipping.to.shown().display(), answers(shipping));
    }
    if let Some(push) = &settings.push {
        let _ = writeln!(text, "All that is kept is pushed to {}, as `{}`", push.hub, settings.prober);
    }
    if let Some(probers) = probers {
        let names: Vec<&str> = probers.iter().map(|prober| prober.name.as_str()).collect();
        let _ = writeln!(text, "These may push here: {}", names.join(", "));
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// The probes of one cycle.
pub fn probes(probes: &[ProbeRow]) -> String {
    let mut rows = vec![row(["endpoint", "workload", "TTFT", "output speed", "total", ""])];
    for probe in probes {
        let sample = &probe.probe.sample;
        let ms = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| format!("{:.0} ms", ns as f64 / 1e6));
        let speed = sample.output_speed.map_or("-".to_owned(), |speed| format!("{speed:.1} tok/s"));
        let missing = || sample.output_speed_missing.as_deref().or(sample.ttft_missing.as_deref()).unwrap_or_default();
        let why = probe.reason.as_deref().unwrap_or_else(missing);
        let (endpoint, workload) = (probe.probe.endpoint.as_str(), probe.probe.workload.as_str());
        rows.push(row([endpoint, workload, &ms(sample.ttft_ns), &speed, &ms(Some(sample.total_ns)), why]));
    }
    aligned(&rows)
}

/// What the fleet of the demo did.
pub fn demo(summary: &DemoSummary, database: &Path) -> String {
    let mut text = String::new();
    let quarantines = summary.events.iter().filter(|event| event.kind == "quarantine").count();
    let regressions = summary.events.iter().filter(|event| event.kind == "regression");
    let mut places: Vec<&str> = regressions.map(|event| event.endpoint.as_str()).collect();
    places.dedup();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "12 simulated endpoints, 14 days in virtual time: {} requests, {} failed, {} in quarantine.\n",
        summary.requests, summary.failed, summary.quarantined
    );
    let mut rows = vec![row(["when", "what", "endpoint", "number", "since", "by"])];
    rows.extend(summary.events.iter().map(|event| event_row(event, summary.begun_unix_ms)));
    text.push_str(&aligned(&rows));
    let planted = summary.planted();
    let found = planted.len() - summary.missing().len();
    let _ = writeln!(
        text,
        "\nFound {found} of {} planted regressions, and {quarantines} of 1 planted prober fault.",
        planted.len()
    );
    for missing in summary.missing() {
        let _ = writeln!(text, "Not found: {} of {}", missing.metric, missing.endpoint);
    }
    let _ = writeln!(text, "\nThe probes: {}\n  tokrate monitor export --jsonl - --db {0}", database.display());
    text
}

fn event_row(event: &EventRow, begun_unix_ms: u64) -> [String; 6] {
    let day = |ms: i64| {
        let elapsed = ms.saturating_sub_unsigned(begun_unix_ms) / 60_000;
        format!("day {} {:02}:{:02}", elapsed / 1_440 + 1, elapsed / 60 % 24, elapsed % 60)
    };
    let by = match event.kind.as_str() {
        "quarantine" => event.remark.clone().unwrap_or_default(),
        _ => format!("{:+.0} % ({:+.0} to {:+.0} %)", 100.0 * event.change, 100.0 * event.low, 100.0 * event.high),
    };
    let endpoint =
        if event.endpoint == "*" { "all".to_owned() } else { format!("{}, {}", event.endpoint, event.workload) };
    row([&day(event.at_unix_ms), &event.kind, &endpoint, &event.metric, &day(event.since_unix_ms), &by])
}

fn add(sum: Option<f64>, more: Option<f64>) -> Option<f64> {
    Some(sum? + more?)
}

/// A number with as many decimals as it needs.
fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A whole number in groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(str::to_owned)
}

/// Cells in columns.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<String>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
