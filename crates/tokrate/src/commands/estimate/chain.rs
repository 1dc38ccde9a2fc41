//! `tokrate estimate chain`: how long an agent takes, with each plan of who answers what.

use super::model_file;
use crate::commands::Verdict;
use crate::config::chain::{self as file, File, Source as SpeedSource, SpeedRow};
use crate::config::clickhouse;
use crate::flags::estimate::ChainFlags;
use crate::flags::source::Source;
use crate::out::estimate::chain::{Planned, Shown, html, json, text};
use crate::out::records::read_record;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::path::Path;
#[cfg(test)]
use tokrate_estimate::chain::Chain;
use tokrate_estimate::chain::{Plan, Speed, Spread, Step, Times, draw};
use tokrate_estimate::cost::ApiPrice;
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::traffic::{Arrivals, Lengths, run as simulate};
use tokrate_estimate::{Asked, Estimator};
use tokrate_record::{AttemptEnd, AttemptRole, Load, Metric, RunSamples};
use tokrate_store::Query;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// The chains that need no file.
pub const EXAMPLES: [(&str, &str); 3] = [
    ("coding", include_str!("chains/coding.toml")),
    ("chat", include_str!("chains/chat.toml")),
    ("research", include_str!("chains/research.toml")),
];
/// Fewest calls of a record or a log that times are drawn from.
const FEWEST_CALLS: usize = 5;

/// Draws the runs and prints.
pub fn run(flags: &ChainFlags) -> Result<Verdict> {
    if let Some(path) = &flags.html {
        crate::out::files::check_writable(path)?;
    }
    let text_of_chain = text_of(flags.file.as_deref(), flags.example.as_deref())?;
    if flags.print {
        crate::out::stdout::write(&text_of_chain)?;
        return Ok(Verdict::Good);
    }
    let shown = planned(&Estimator::embedded(), &text_of_chain)?;
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &html(&shown))?;
    }
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    if flags.html.as_deref() != Some(Path::new("-")) {
        crate::out::stdout::write(&written)?;
    }
    Ok(Verdict::Good)
}

/// The chain's file, or an example: `coding` without a name.
pub(super) fn text_of(file: Option<&Path>, name: Option<&str>) -> Result<String> {
    match file {
        Some(path) => {
            reading::text_of(path, MAX_SETTINGS_BYTES).with_context(|| format!("read the chain {}", path.display()))
        }
        None => Ok(example(name.unwrap_or("coding"))?.to_owned()),
    }
}

fn example(name: &str) -> Result<&'static str> {
    let found = EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let known = || EXAMPLES.map(|(known, _)| known).join(", ");
    found.with_context(|| format!("estimate: no example is named {name:?}; there are {}", known()))
}

/// The chain with every plan drawn.
pub(super) fn planned(estimator: &Estimator, text: &str) -> Result<Shown> {
    let file = file::read(text)?;
    let named = || format!("read the chain {:?}", file.name);
    let chain = file.chain().with_context(named)?;
    let all = file.plans(&chain).with_context(named)?;
    let mut notes = Vec::new();
    let mut plans = Vec::new();
    for (name, roles) in all {
        let mut speeds = Vec::new();
        for step in &chain.steps {
            let speed = step.role.as_ref().and_then(|role| roles.get(role));
            speeds.push(speed.map(|speed| of_step(estimator, &file, speed, step, &mut notes)).transpose()?);
        }
        let plan = Plan { name, speeds };
        let outcome = draw(&chain, &plan).map_err(|error| anyhow!("estimate: {error}"))?;
        plans.push(Planned { plan, outcome });
    }
    notes.sort();
    notes.dedup();
    Ok(Shown { chain, about: file.about, plans, notes })
}

/// The speed of one step.
fn of_step(estimator: &Estimator, file: &File, name: &str, step: &Step, notes: &mut Vec<String>) -> Result<Speed> {
    let row = file.speeds.get(name).with_context(|| format!("there are no [speeds.{name}]"))?;
    let mut price = row.price()?;
    let times = match row.source()? {
        SpeedSource::Stated { ttft, prefill, speed } => Times::Stated { ttft, prefill, speed },
        SpeedSource::Program(spread) => Times::Fixed(spread),
        SpeedSource::Record(path) => of_record(&path, row.concurrency, name, notes)?,
        SpeedSource::Log(path, lane) => of_log(&path, &lane, name, notes)?,
        SpeedSource::Curve(path) => of_curve(&path, row.users.unwrap_or(1), step, name, notes)?,
        SpeedSource::Estimate => {
            let (times, own) = of_estimate(estimator, row, step, name, notes)
                .with_context(|| format!("estimate [speeds.{name}] at the step {:?}", step.name))?;
            price = price.or(own);
            times
        }
    };
    Ok(Speed { name: name.to_owned(), times: vec![times], price, is_free: row.free, failures: row.failures })
}

/// Prompt of a step's calls in the mean over its repetitions, and what of it the cache holds.
fn prompt(step: &Step) -> (f64, f64) {
    let input = step.input + step.grows * f64::from(step.repeat - 1) / 2.0;
    (input, (input - step.input + step.cached - step.grows).max(step.cached))
}

/// Times of a hosted endpoint by its law, with so many calls of all its users in flight.
fn of_curve(path: &Path, users: u32, step: &Step, name: &str, notes: &mut Vec<String>) -> Result<Times> {
    let hosted = super::hosted::read(path)?;
    let (input, _) = prompt(step);
    let expected = hosted.expected(f64::from(users), input);
    let expected = expected.map_err(|error| anyhow!("{} at the step {:?}: {error}", path.display(), step.name))?;
    notes.push(format!("{name}: by the law of {} measured calls of {}", hosted.calls, hosted.name));
    notes.extend(expected.extrapolated.iter().map(|reason| format!("{name}: extrapolated, {reason}")));
    let (ttft, speed) = (expected.ttft.value, expected.speed.value);
    Ok(Times::Stated {
        ttft: Spread { median: ttft, slow: ttft * hosted.ttft.slow },
        // The law has the prompt in it.
        prefill: None,
        speed: Spread { median: speed, slow: speed / hosted.tpot.slow },
    })
}

/// Times of calls of a step's lengths among other users of the same, in virtual time; and what they cost at that load.
fn of_estimate(
    estimator: &Estimator,
    row: &SpeedRow,
    step: &Step,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<(Times, Option<ApiPrice>)> {
    let users = row.users.unwrap_or(1);
    let (input, cached) = prompt(step);
    let isl = input.round().clamp(1.0, 1e8);
    let osl = step.output.round().clamp(1.0, 1e8);
    let asked = model_file::with_file(Asked {
        model: row.model.clone().unwrap_or_default(),
        hardware: row.hardware.clone().unwrap_or_default(),
        n_gpus: row.gpus.map(f64::from),
        weight_precision: row.precision.clone(),
        engine: row.engine.clone(),
        isl: Some(isl),
        osl: Some(osl),
        ..Asked::default()
    })?;
    let refused = |error: String| anyhow!("{error}");
    let serving = Serving::new(estimator, &asked, &Tuning::default()).map_err(refused)?;
    let lengths =
        Lengths { isl: isl as u32, osl: osl as u32, shared: cached.min(isl - 1.0) as u32, variation: LENGTHS_VARY };
    let samples = simulate(&serving, &lengths, Arrivals::Users { users, think: 0.0 }, 1.0).map_err(refused)?;
    notes.push(format!(
        "{name}: computed, not measured, with {users} users at once whose lengths vary by {LENGTHS_VARY}"
    ));
    // Output tokens carry the whole cost of the devices, as they take most of the time.
    let own = serving.question.device.dollars_hour.map(|(low, high)| {
        let output = (low + high) / 2.0 * serving.question.devices / (3600.0 * samples.tokens_a_second) * 1e6;
        notes.push(format!("{name}: cost from the middle of a range of rents, at full use by its users"));
        ApiPrice { input: 0.0, output, cached: 0.0 }
    });
    Ok((Times::Drawn { ttft: samples.ttft, tpot: samples.tpot }, own))
}

/// How much the lengths of simulated calls vary: so that users are not in step.
const LENGTHS_VARY: f64 = 0.2;

/// Times of a bench's level.
fn of_record(path: &Path, concurrency: Option<u32>, name: &str, notes: &mut Vec<String>) -> Result<Times> {
    let record = read_record(path)?;
    ensure!(
        !record.is_estimate(),
        "{}: it is an estimate, of which no calls can be drawn; name its model and hardware in [speeds.{name}] in place of `record`",
        path.display()
    );
    let samples = RunSamples::of_record(&record);
    let is_asked = |load: &Load| match (load, concurrency) {
        (Load::Closed { concurrency }, Some(asked)) => *concurrency == asked,
        _ => concurrency.is_none(),
    };
    let level = samples.levels.iter().find(|level| is_asked(&level.load)).with_context(|| {
        let names: Vec<&str> = samples.levels.iter().map(|level| level.name.as_str()).collect();
        format!("{}: it has no such level of concurrency; it has {}", path.display(), names.join(", "))
    })?;
    let values = |metric: Metric| -> Vec<f64> {
        level.times.get(&metric).map_or(Vec::new(), |samples| samples.sorted.iter().map(|ms| ms / 1e3).collect())
    };
    notes.push(format!(
        "{name}: drawn from the level {} of {}, with its lengths of prompts",
        level.name,
        path.display()
    ));
    drawn(values(Metric::Ttft), values(Metric::Tpot), &path.display().to_string())
}

/// Times of a lane in the gateway's log.
fn of_log(path: &Path, lane: &str, name: &str, notes: &mut Vec<String>) -> Result<Times> {
    let (store, _) = clickhouse::rows(path, Some(Source::Gateway))?;
    let query = Query { lane: Some(lane.to_owned()), end: Some(AttemptEnd::Answered), ..Query::default() };
    let rows: Vec<_> =
        store.attempts(&query)?.into_iter().filter(|row| row.role != AttemptRole::Probe && row.sample.stream).collect();
    let ttft = rows.iter().filter_map(|row| row.sample.ttft_ns).map(|ns| ns as f64 / 1e9).collect();
    let tpot = rows.iter().filter_map(|row| row.sample.tpot_ms()).map(|ms| ms / 1e3).collect();
    notes.push(format!("{name}: drawn from {} attempts of the lane {lane} in {}", rows.len(), path.display()));
    drawn(ttft, tpot, &format!("{} (lane {lane})", path.display()))
}

fn drawn(ttft: Vec<f64>, tpot: Vec<f64>, shown: &str) -> Result<Times> {
    let finite = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value >= 0.0);
    ensure!(finite(&ttft) && finite(&tpot), "{shown}: it holds times that are no numbers");
    if ttft.len() < FEWEST_CALLS || tpot.len() < FEWEST_CALLS {
        bail!("{shown}: {} calls have a TTFT and {} a time a token; {FEWEST_CALLS} are needed", ttft.len(), tpot.len());
    }
    Ok(Times::Drawn { ttft, tpot })
}

/// A chain as it is read by itself, for tests of what is refused.
#[cfg(test)]
pub(super) fn check(text: &str) -> Result<Chain> {
    let file = file::read(text)?;
    let chain = file.chain()?;
    file.plans(&chain)?;
    Ok(chain)
}
