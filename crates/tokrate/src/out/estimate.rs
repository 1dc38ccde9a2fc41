//! Estimates as a table.
//!
//! Invariant: each number is shown with its interval, and says that it is computed.

pub mod against;
pub mod capacity;
pub mod chain;
pub mod claim;
pub mod cost;
pub mod fleet;
pub mod hosted;
pub mod record;
pub mod roofline;
pub mod what_if;

use std::fmt::Write;
use tokrate_estimate::hardware::Device;
use tokrate_estimate::precision::Arithmetic;
use tokrate_estimate::{Answer, Value};
use tokrate_meter::Comfort;

/// An answer at a load.
pub struct Load {
    /// Requests at once.
    pub concurrency: u32,
    /// The answer.
    pub answer: Answer,
}

/// A model on devices, at several loads.
pub struct Shown {
    /// Model, as it was asked for.
    pub asked_model: String,
    /// Model, as the table names it.
    pub model: String,
    /// Device.
    pub device: Device,
    /// Arithmetic that multiplies the weights.
    pub arithmetic: Option<Arithmetic>,
    /// How many.
    pub devices: f64,
    /// Engine, where it was given.
    pub engine: Option<String>,
    /// Storage of the weights, where it was given.
    pub precision: Option<String>,
    /// Tokens of a prompt.
    pub isl: f64,
    /// Tokens of an answer.
    pub osl: f64,
    /// Price of one device, $/hour.
    pub dollars_hour: Option<(f64, f64)>,
    /// Whether the price was given and is not the table's.
    pub given_price: bool,
    /// The loads.
    pub loads: Vec<Load>,
}

impl Shown {
    /// Dollars a million output tokens at a load, from the lowest price to the highest; the speed is the estimate itself.
    fn cost(&self, load: &Load) -> Option<(f64, f64)> {
        let speed = load.answer.tok_s_total?.value;
        let cost = |hour: f64| hour * self.devices / (3600.0 * speed) * 1e6;
        self.dollars_hour.map(|(low, high)| (cost(low), cost(high)))
    }
}

/// The table of all, and how to ask one's own question after a worked example.
pub fn text(all: &[Shown], example: bool) -> String {
    let mut text = String::new();
    if example {
        text.push_str("A worked example: Llama 3.3 70B, prompts of 1,000 tokens, answers of 300.\n");
    }
    text.push_str("Computed from facts and fitted coefficients, not measured; each number with its 80 % interval.\n");
    for shown in all {
        // Writing to a String cannot fail.
        let _ = one(&mut text, shown);
    }
    if all.iter().any(|shown| shown.dollars_hour.is_some() && !shown.given_price) {
        text.push_str("\nPrices: ranges of on-demand rents from memory, not quotes; --price sets yours.\n");
    }
    if example {
        text.push_str(
            "\nYour own question:\n  tokrate estimate speed --model llama-3.3-70b --hardware h100-sxm --gpus 4 --precision fp8 --engine vllm \\\n    -c 1,10,25,50 --isl 1000 --osl 300\n",
        );
    }
    text
}

fn one(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let given = [shown.precision.as_deref(), shown.engine.as_deref()];
    let given: Vec<&str> = given.into_iter().flatten().collect();
    let given = if given.is_empty() { String::new() } else { format!("  {}", given.join(", ")) };
    writeln!(text, "\n{} on {} x {}{given}", shown.asked_model, shown.devices, shown.device.name)?;
    writeln!(
        text,
        "  {:>5}  {:<22} {:<28} {:<20} {:<16} {:<14} reads",
        "users", "tok/s a user", "TTFT", "tok/s in all", "binds", "$/Mtok out"
    )?;
    for load in &shown.loads {
        let answer = &load.answer;
        let cost = shown.cost(load).map_or("-".to_owned(), |(low, high)| match (low, high) {
            (low, high) if low == high => short(low),
            (low, high) => format!("{}-{}", short(low), short(high)),
        });
        let comfort = answer.tok_s_user.map_or("-", |speed| Comfort::of(speed.value).name());
        writeln!(
            text,
            "  {:>5}  {:<22} {:<28} {:<20} {:<16} {:<14} {comfort}",
            load.concurrency,
            interval(answer.tok_s_user, ""),
            time(answer.ttft_ms),
            interval(answer.tok_s_total, ""),
            answer.binds,
            cost,
        )?;
    }
    let first = shown.loads.first().map(|load| &load.answer);
    let last = shown.loads.last().map(|load| &load.answer);
    if let Some((first, last)) = first.zip(last) {
        writeln!(
            text,
            "  MBU {} % to {} %, MFU {} % to {} %; nearest measured: {}",
            share(first.mbu),
            share(last.mbu),
            share(first.mfu),
            share(last.mfu),
            last.nearest.join(", ")
        )?;
    }
    let mut notes: Vec<String> = vec![format!("facts of {}", shown.model)];
    for load in &shown.loads {
        let extrapolated = load.answer.extrapolated.iter().map(|reason| format!("extrapolated: {reason}"));
        let assumed = load.answer.assumed.iter().map(|what| format!("assumed: {what}"));
        notes.extend(load.answer.waits.clone());
        notes.extend(extrapolated.chain(assumed));
    }
    let mut seen: Vec<String> = Vec::new();
    for note in notes {
        if !seen.contains(&note) {
            writeln!(text, "  {note}")?;
            seen.push(note);
        }
    }
    Ok(())
}

fn interval(value: Option<Value>, unit: &str) -> String {
    value.map_or("-".to_owned(), |value| {
        format!("{}{unit} ({}-{})", short(value.value), short(value.low), short(value.high))
    })
}

/// A time in ms with its interval; in seconds or minutes where it has too many digits to be read.
fn time(value: Option<Value>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let (factor, unit) = match value.value {
        ms if ms >= 600e3 => (1.0 / 60e3, " min"),
        ms if ms >= 10e3 => (1e-3, " s"),
        _ => (1.0, " ms"),
    };
    interval(Some(value.times(factor)), unit)
}

/// A share in per cent, with a decimal where it is below ten.
fn share(share: f64) -> String {
    if share < 0.0995 { format!("{:.1}", share * 100.0) } else { format!("{:.0}", share * 100.0) }
}

/// Three digits at most, but whole numbers above.
fn short(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 0.1 => format!("{value:.4}"),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
