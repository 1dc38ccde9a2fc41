//! Prints the errors of cross-validation by kind of question, worst rows first, beside the naive roofline.
//!
//! `--write` also writes the coefficients and intervals into `data`; `--rows N` shows N rows of each kind. Questions do not say how long
//! their engine's settings let prompts wait, as people's do not; with `--told` they do where it is known.

#![allow(clippy::print_stdout)]

use std::path::Path;
use tokrate_estimate::asked::Facts;
use tokrate_estimate::calibrate::{calibrate, embedded_trace};
use tokrate_estimate::coefficients::{COUNT, Coefficients, GROUPS, OF_GROUP, group};
use tokrate_estimate::fit::{self, Output};
use tokrate_estimate::interval::Intervals;
use tokrate_estimate::measured::{self, Measured};
use tokrate_estimate::question::{Kind, Question};
use tokrate_estimate::validate::{self, Residual};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |flag: &str| arguments.iter().position(|word| word == flag).and_then(|at| arguments.get(at + 1));
    let shown: usize = after("--rows").and_then(|count| count.parse().ok()).unwrap_or(5);
    let facts = Facts::embedded();
    let (rows, refused) = measured::rows(&facts);
    let told = arguments.iter().any(|word| word == "--told");
    let asked: fn(&Question) -> Question = if told { Question::clone } else { without_settings };
    let residuals = validate::cross_validate(&rows, asked);
    println!(
        "{} measured rows, {} refused; each left out twice: with its model, with its device\n",
        rows.len(),
        refused.len()
    );
    for (id, reason) in &refused {
        println!("refused {id}: {reason}");
    }
    println!("| kind | residuals | mean | median | naive mean | naive median | covered by 80 % | median width | bar |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (kind, output, queued, name, bar) in KINDS {
        let of = |residual: &&Residual| {
            residual.kind == *kind
                && residual.output == *output
                && queued.is_none_or(|queued| queued == residual.queued)
        };
        let some: Vec<&Residual> = residuals.iter().filter(of).collect();
        if !some.is_empty() {
            summary(name, &some, &residuals, bar);
        }
    }
    for (kind, output, queued, name, _) in KINDS {
        let mut some: Vec<&Residual> = residuals
            .iter()
            .filter(|r| r.kind == *kind && r.output == *output && queued.is_none_or(|q| q == r.queued))
            .collect();
        some.sort_by(|a, b| b.log().abs().total_cmp(&a.log().abs()));
        println!("\nWorst, {name}: predicted over measured, naive over measured, left out, row");
        for residual in some.iter().take(shown) {
            let over = residual.predicted / residual.measured;
            println!(
                "  {over:.2} {:.2} {} {}",
                residual.naive / residual.measured,
                residual.left_out,
                rows[residual.row].id
            );
        }
    }
    if !told && arguments.iter().any(|word| word == "--write") {
        write(&rows, &residuals)?;
    }
    Ok(())
}

fn without_settings(question: &Question) -> Question {
    Question { wait_steps: 0.0, ..question.clone() }
}

type Shown = (Kind, Output, Option<bool>, &'static str, &'static str);

/// What is shown, with its bar.
const KINDS: &[Shown] = &[
    (Kind::SingleStream, Output::Tpot, None, "single stream, time a token", "mean 12 %, median 9 %"),
    (Kind::Served, Output::Tpot, None, "served, TPOT", "mean 22 %, median 14 %"),
    (Kind::Served, Output::Ttft, Some(false), "served, TTFT", "median 35 %"),
    (Kind::Served, Output::Ttft, Some(true), "served, TTFT, queue-limited", ""),
    (Kind::Ceiling, Output::Total, None, "ceilings", "median 25 %"),
    (Kind::SingleStream, Output::Prefill, None, "prompt speed, one prompt", ""),
];

fn summary(name: &str, some: &[&Residual], all: &[Residual], bar: &str) {
    let mean = |of: &dyn Fn(&Residual) -> f64| some.iter().map(|r| of(r)).sum::<f64>() / some.len() as f64 * 100.0;
    let median = |of: &dyn Fn(&Residual) -> f64| middle(some.iter().map(|r| of(r)).collect()) * 100.0;
    // The interval of a row left out is made of the residuals of the others only.
    let factors = |residual: &Residual| {
        let others = all.iter().filter(|other| other.left_out != residual.left_out && other.row != residual.row);
        Intervals::of_residuals(others).factors(residual.kind, residual.output, residual.class, residual.experts)
    };
    let covered = mean(&|residual: &Residual| {
        let (over, factors) = (residual.measured / residual.predicted, factors(residual));
        if over >= factors.low && over <= factors.high { 1.0 } else { 0.0 }
    });
    let width = median(&|residual: &Residual| {
        let factors = factors(residual);
        (factors.high - factors.low) / 2.0
    });
    println!(
        "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {covered:.0} % | ±{width:.0} % | {bar} |",
        some.len(),
        mean(&Residual::relative),
        median(&Residual::relative),
        mean(&Residual::relative_naive),
        median(&Residual::relative_naive),
    );
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 }
}

/// Writes the coefficients of all rows, with standard errors, and the intervals of the residuals.
fn write(rows: &[Measured], residuals: &[Residual]) -> Result<(), Box<dyn std::error::Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut fitted = fit::fit(&rows.iter().collect::<Vec<_>>());
    let (trace, settings) = embedded_trace()?;
    let names = Coefficients::names();
    let (coefficients, changed) = calibrate(&trace, &settings, &Facts::embedded(), &fitted.coefficients)?;
    fitted.coefficients = coefficients;
    for one in &changed {
        if let Some(place) = names.iter().position(|name| *name == one.name) {
            fitted.errors[place] = one.error;
        }
    }
    let of_trace = |name: &String| changed.iter().any(|one| one.name == *name);
    let count = |place: usize| {
        let own = |row: &&Measured| {
            place >= GROUPS.len() * OF_GROUP.len()
                || group(row.question.device.class, row.question.engine) == place / OF_GROUP.len()
        };
        rows.iter().filter(own).count() + if of_trace(&names[place]) { trace.len() } else { 0 }
    };
    let lines = (0..COUNT)
        .map(|k| format!("{},{:.5},{:.3},{}\n", names[k], fitted.coefficients.0[k].exp(), fitted.errors[k], count(k)));
    let text = format!("name,value,standard_error_log,rows\n{}", lines.collect::<String>());
    std::fs::write(data.join("coefficients.csv"), text)?;
    std::fs::write(data.join("intervals.csv"), Intervals::of_residuals(residuals.iter()).table())?;
    Ok(())
}
