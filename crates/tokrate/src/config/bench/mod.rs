//! From the flags of `tokrate bench` to the plain configuration of the part, by section of its help.

mod feasible;
mod inputs;
mod layers;
mod limits;
mod load;
mod output;
mod request;
mod schedule_mode;
pub(in crate::config) mod target;
mod verdict;

pub use feasible::check_open_files;
pub use output::Outputs;
pub use verdict::Requirements;

use super::environment::Environment;
use super::file::File;
use super::{Value, layered};
use crate::flags::bench::Flags;
use anyhow::{Result, ensure};
use inputs::Inputs;
use std::iter::repeat_n;
use tokrate_bench::schedule::ScheduleMode;
use tokrate_bench::{Config, Target};
use tokrate_judge::Slo;

/// Rounds of each level where several targets are compared: with two, a difference of 5 % is seen once in ten times, with four nearly always
/// (docs/method.md).
const ROUNDS_OF_SEVERAL: u32 = 4;
/// More rounds than this are a mistake.
const MAX_ROUNDS: u32 = 1000;

/// Resolves flags, environment and settings file.
/// Several targets give a configuration each; they differ only in what depends on the target.
pub fn resolve(flags: &Flags, environment: &Environment, file: &File) -> Result<(Vec<Config>, Outputs)> {
    let layers = layers::Layers::of(flags, file)?;
    resolve_flags(&layers.flags, environment, file).map_err(|error| layers.with_origin(error, file))
}

fn resolve_flags(flags: &Flags, environment: &Environment, file: &File) -> Result<(Vec<Config>, Outputs)> {
    let targets = target::targets(&flags.target, flags.limits.dry_run, environment, file)?;
    let embedded = targets.iter().any(|found| matches!(found.target, Target::Embedded(_)));
    let outputs = output::outputs(flags, file, embedded)?;
    ensure!(
        !outputs.scorecard || targets.len() > 1,
        "read --scorecard: it holds targets against each other; name at least two, such as groq/MODEL together/MODEL"
    );
    let inputs = inputs::inputs(flags, file)?;
    let rounds =
        flags.load.rounds.or(file.bench.rounds).unwrap_or(if targets.len() > 1 { ROUNDS_OF_SEVERAL } else { 1 });
    ensure!((1..=MAX_ROUNDS).contains(&rounds), "read --rounds: {rounds} is not between 1 and {MAX_ROUNDS}");
    let mut configs = targets
        .into_iter()
        .map(|target| config(target, flags, environment, file, &inputs, rounds))
        .collect::<Result<Vec<Config>>>()?;
    configs.iter().try_for_each(|config| feasible::check(config, &outputs.requirements.assertions))?;
    let strict = outputs.strict.then_some("--strict");
    let kept = outputs.requirements.save_baseline.as_ref().map(|_| "--save-baseline");
    for flag in strict.into_iter().chain(kept) {
        configs.iter().try_for_each(|config| feasible::check_error_becomes_known(flag, config))?;
    }
    for config in configs
        .iter_mut()
        .filter(|config| matches!(config.schedule_mode, ScheduleMode::Listed | ScheduleMode::Refine { .. }))
    {
        config.phases = config.phases.iter().flat_map(|phase| repeat_n(phase.clone(), rounds as usize)).collect();
    }
    Ok((configs, outputs))
}

fn config(
    found: target::BenchTarget,
    flags: &Flags,
    environment: &Environment,
    file: &File,
    inputs: &Inputs,
    rounds: u32,
) -> Result<Config> {
    let target::BenchTarget { mut target, quirks } = found;
    let embedded = matches!(target, Target::Embedded(_));
    let mut request = request::request(&flags.request, file, embedded)?;
    request.keep_unknown = flags.output.keep_unknown;
    request.legacy_max_tokens |= quirks.max_tokens_field;
    request.include_usage &= !quirks.no_stream_options;
    let max_cost_usd = limits::cost(&flags.limits, file, &mut target)?;
    let phases = load::phases(&flags.load, file, Cost::of(&target), inputs, rounds)?;
    let objectives = verdict::objectives(&flags.verdict, file)?;
    let slos: Vec<Slo> = objectives.iter().map(|objective| objective.slo).collect();
    let share = if flags.load.search.is_some() { verdict::share_of(&objectives)? } else { None };
    let config = Config {
        schedule_mode: schedule_mode::schedule_mode(flags, &phases, &slos, share)?,
        phases,
        request,
        prompts: request::prompts(&flags.request, file, embedded, inputs)?,
        limits: limits::limits(&flags.limits, file)?,
        probe: !flags.limits.no_probe,
        keep_going: flags.limits.keep_going,
        slos,
        max_cost_usd,
        workers: flags.load.workers.or(file.bench.workers),
        calibration: limits::calibration(&flags.limits, environment),
        seed: flags.load.seed.or(file.bench.seed).unwrap_or(0),
        host: environment.host.clone(),
        machine: environment.machine.clone(),
        region: pick_text(
            "--region",
            &flags.target.region,
            Some(("TOKRATE_REGION", &environment.region)),
            file,
            "region",
            &file.bench.region,
        )
        .map(|region| region.value)
        .unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target,
    };
    ensure!(config.workers != Some(0), "read --workers: at least one client thread is needed");
    Ok(config)
}

/// What a request costs; the default number of requests depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cost {
    /// An engine within this process.
    Nothing,
    /// Probably a server of the user's: no price is known.
    Time,
    /// A provider that is paid by tokens.
    Money,
}

impl Cost {
    fn of(target: &Target) -> Cost {
        let Some(remote) = target.remote() else { return Cost::Nothing };
        let row = remote.provider.as_deref().and_then(tokrate_catalog::provider);
        let hosted = row.is_some_and(|row| row.kind == tokrate_catalog::Kind::Hosted);
        if hosted || remote.price.is_some() { Cost::Money } else { Cost::Time }
    }
}

fn pick_text(
    flag: &'static str,
    typed: &Option<String>,
    variable: Option<(&'static str, &Option<String>)>,
    file: &File,
    key: &str,
    in_file: &Option<String>,
) -> Option<Value<String>> {
    layered(
        (flag, typed.clone()),
        variable.map(|(name, value)| (name, value.clone())),
        (file.key(key), in_file.clone()),
    )
}
