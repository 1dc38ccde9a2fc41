//! A chain with its plans: distribution, cost, where the time goes, and a Gantt chart; for a terminal, as a page and as JSON.
//!
//! Invariant: percentiles are those of whole runs; a cost is shown only if every price is known.

use super::capacity::seconds as short_seconds;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_charts::terminal::sparkline;
use tokrate_charts::{
    Axis, Block, DistributionChart, DistributionKind, Outcome as RowOutcome, Page, Sample, Section, TimelineChart,
    TimelineRow,
};
use tokrate_estimate::chain::{Chain, Outcome, Plan};
use tokrate_estimate::traffic::{mean, quantile};

/// A plan with its runs.
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Its runs.
    pub outcome: Outcome,
}

/// A chain with its plans.
pub struct Shown {
    /// The chain.
    pub chain: Chain,
    /// What it stands for.
    pub about: String,
    /// The plans.
    pub plans: Vec<Planned>,
    /// Where times are from.
    pub notes: Vec<String>,
}

/// Columns of the Gantt chart, and bins of the distribution.
const WIDTH: usize = 56;
const BINS: usize = 40;

/// A time as people say it.
fn time(seconds: f64) -> String {
    if seconds < 120.0 {
        return short_seconds(seconds);
    }
    let whole = seconds.round() as u64;
    match whole {
        whole if whole < 7200 => format!("{} min {:02} s", whole / 60, whole % 60),
        whole => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

fn dollars(value: Option<f64>) -> String {
    value.map_or("unknown".to_owned(), |value| format!("${value:.4}"))
}

/// The result for people.
pub fn text(shown: &Shown) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = head(&mut text, shown);
    for planned in &shown.plans {
        let _ = plan(&mut text, shown, planned);
    }
    for note in &shown.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn head(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let calls = shown.chain.calls();
    writeln!(
        text,
        "{}: {calls:.0} calls, {} steps; computed, not measured",
        shown.chain.name,
        shown.chain.steps.len()
    )?;
    if !shown.about.is_empty() {
        writeln!(text, "{}", shown.about)?;
    }
    writeln!(
        text,
        "\n{:<20} {:>13} {:>13} {:>13} {:>10}   {:>13} {:>13} {:>13}",
        "plan", "p50", "p95", "mean", "cost", "first tokens", "tokens", "tools"
    )?;
    for Planned { plan, outcome } in &shown.plans {
        writeln!(
            text,
            "{:<20} {:>13} {:>13} {:>13} {:>10}   {:>13} {:>13} {:>13}",
            plan.name,
            time(quantile(&outcome.seconds, 0.5)),
            time(quantile(&outcome.seconds, 0.95)),
            time(mean(&outcome.seconds)),
            dollars(outcome.dollars),
            time(outcome.parts[0]),
            time(outcome.parts[1]),
            time(outcome.parts[2])
        )?;
    }
    let slow = 1.0 - 0.99_f64.powf(calls);
    writeln!(text, "Of {calls:.0} calls at least one is slower than its p99 in {:.1} % of the runs.\n", slow * 100.0)
}

fn plan(text: &mut String, shown: &Shown, Planned { plan, outcome }: &Planned) -> std::fmt::Result {
    writeln!(text, "{}, a run of median length ({}):", plan.name, time(outcome.median.seconds))?;
    let scale = WIDTH as f64 / outcome.median.seconds.max(1e-9);
    for bar in &outcome.median.bars {
        let from = (bar.start * scale).round() as usize;
        let to = ((bar.end * scale).round() as usize).clamp(from + 1, WIDTH.max(from + 1));
        let first = from + ((bar.parts[0] * scale).round() as usize).min(to - from);
        // Of steps with a tool the end of the bar is the tool.
        let tool = to - ((bar.parts[2] * scale).round() as usize).min(to - first);
        let drawn = format!(
            "{}{}{}{}",
            " ".repeat(from),
            "░".repeat(first - from),
            "█".repeat(tool - first),
            "▒".repeat(to - tool)
        );
        let mark = if bar.critical { '*' } else { ' ' };
        writeln!(text, "  {:<16}{mark}│{drawn:<WIDTH$}│ {}", name(shown, bar.step), time(bar.end - bar.start))?;
    }
    writeln!(text, "  ░ waits for first tokens  █ tokens  ▒ tools  * the end waits for it")?;
    let (low, high) = (quantile(&outcome.seconds, 0.005), quantile(&outcome.seconds, 0.995));
    let width = ((high - low) / BINS as f64).max(1e-9);
    let mut bins = [0.0; BINS];
    for seconds in outcome.seconds.iter().filter(|seconds| (low..=high).contains(*seconds)) {
        bins[(((seconds - low) / width) as usize).min(BINS - 1)] += 1.0;
    }
    let bins: Vec<Option<f64>> = bins.into_iter().map(Some).collect();
    writeln!(text, "  {} {} {}", time(low), sparkline(&bins, true), time(high))?;
    let mut order: Vec<usize> = (0..shown.chain.steps.len()).collect();
    order.sort_by(|a, b| outcome.saved_by_twice[*b].total_cmp(&outcome.saved_by_twice[*a]));
    let saves: Vec<String> = order
        .iter()
        .filter(|at| outcome.saved_by_twice[**at] > 0.005 * outcome.median.seconds)
        .take(3)
        .map(|at| format!("{} {}", name(shown, *at), time(outcome.saved_by_twice[*at])))
        .collect();
    writeln!(text, "  at twice the speed would save: {}\n", saves.join(", "))
}

/// A step's name, as a row holds it.
fn name(shown: &Shown, step: usize) -> String {
    let step = &shown.chain.steps[step];
    let mut name: String = step.name.chars().filter(|letter| !letter.is_control()).take(16).collect();
    let times = step.repeat * step.fan_out;
    if times > 1 && name.chars().count() <= 11 {
        name.push_str(&format!(" x{times}"));
    }
    name
}

/// A page with the distributions and a Gantt chart of each plan.
pub fn html(shown: &Shown) -> String {
    let sample = |planned: &Planned| Sample {
        name: planned.plan.name.clone(),
        values: planned.outcome.seconds.clone(),
        failed: 0,
    };
    let distribution = DistributionChart {
        title: "How long a run takes (computed)".to_owned(),
        description:
            "Runs drawn from the times of their calls; each curve is the share of the runs that took so long or less."
                .to_owned(),
        x: Axis::linear("time of a run", "s"),
        kind: DistributionKind::Cumulative,
        samples: shown.plans.iter().map(sample).collect(),
    };
    let mut blocks = vec![Block::chart(&distribution)];
    for planned in &shown.plans {
        let row = |bar: &tokrate_estimate::chain::Bar| TimelineRow {
            label: name(shown, bar.step),
            start: bar.start,
            first: Some(bar.start + bar.parts[0]),
            end: bar.end,
            outcome: RowOutcome::Good,
        };
        blocks.push(Block::chart(&TimelineChart {
            title: format!("{}: a run of median length", planned.plan.name),
            description: "Each bar is a step; its first part is the wait for first tokens.".to_owned(),
            rows: planned.outcome.median.bars.iter().map(row).collect(),
        }));
    }
    blocks.push(Block::Code(text(shown)));
    let page = Page {
        title: shown.chain.name.clone(),
        subtitle: "computed, not measured".to_owned(),
        sections: vec![Section { title: "Time and cost".to_owned(), intro: shown.about.clone(), blocks }],
        footer: format!("tokrate {}", env!("CARGO_PKG_VERSION")),
        ..Page::default()
    };
    page.html()
}

/// The result as JSON.
pub fn json(shown: &Shown) -> Json {
    let step = |outcome: &Outcome, at: usize| {
        object!({
            "name": shown.chain.steps[at].name,
            "role": shown.chain.steps[at].role,
            "critical_share": outcome.critical[at].0,
            "critical_seconds": outcome.critical[at].1,
            "saved_by_twice_the_speed": outcome.saved_by_twice[at],
        })
    };
    let bar = |bar: &tokrate_estimate::chain::Bar| object!({ "step": shown.chain.steps[bar.step].name, "start": bar.start, "end": bar.end, "critical": bar.critical });
    let plan = |Planned { plan, outcome }: &Planned| {
        object!({
            "name": plan.name,
            "seconds": {
                "p50": quantile(&outcome.seconds, 0.5), "p90": quantile(&outcome.seconds, 0.9),
                "p95": quantile(&outcome.seconds, 0.95), "p99": quantile(&outcome.seconds, 0.99), "mean": mean(&outcome.seconds),
            },
            "dollars": outcome.dollars,
            "calls": outcome.calls,
            "first_token_seconds": outcome.parts[0],
            "token_seconds": outcome.parts[1],
            "tool_seconds": outcome.parts[2],
            "steps": (0..shown.chain.steps.len()).map(|at| step(outcome, at)).collect::<Vec<_>>(),
            "median_run": outcome.median.bars.iter().map(bar).collect::<Vec<_>>(),
        })
    };
    object!({
        "computed": true,
        "chain": shown.chain.name,
        "calls": shown.chain.calls(),
        "plans": shown.plans.iter().map(plan).collect::<Vec<_>>(),
        "notes": shown.notes,
    })
}
