//! From the flags of `tokrate bench` to the plain configuration of the part, by section of its help.

mod attachments;
mod audio;
mod batch;
mod clients;
mod dataset;
mod feasible;
mod inputs;
mod items;
mod layers;
mod limits;
mod load;
mod metrics;
mod output;
mod price;
mod request;
mod same_file;
mod schedule_mode;
mod structure;
pub(in crate::config) mod target;
mod texts;
mod until;
mod verdict;

pub use feasible::check_open_files;
pub use output::{Outputs, Progress};
pub use verdict::Requirements;

use super::environment::Environment;
use super::file::File;
use super::{Value, layered};
use crate::flags::bench::Flags;
use anyhow::{Result, ensure};
use inputs::Inputs;
use std::iter::repeat_n;
use tokrate_bench::schedule::ScheduleMode;
use tokrate_bench::{Config, RequestOptions, Target};
use tokrate_core::{Rng, Span};
use tokrate_judge::Slo;

/// Rounds of each level where results are compared: with two, a difference of 5 % is seen once in ten times, with four nearly always
/// (docs/method.md).
const ROUNDS_TO_COMPARE: u32 = 4;
/// Time of an open loop, of a ramp and of what clients send by default.
const OPEN_LEVEL: Span = Span::from_secs(30);
/// More rounds than this are a mistake.
const MAX_ROUNDS: u32 = 1000;

/// Resolves flags, environment and settings file.
/// Several targets give a configuration each; they differ only in what depends on the target.
pub fn resolve(flags: &Flags, environment: &Environment, file: &File) -> Result<(Vec<Config>, Outputs)> {
    let layers = layers::Layers::of(flags, file)?;
    resolve_flags(&layers.flags, environment, file).map_err(|error| layers.with_origin(error, file))
}

fn resolve_flags(flags: &Flags, environment: &Environment, file: &File) -> Result<(Vec<Config>, Outputs)> {
    let mut targets = target::targets(&flags.target, flags.limits.dry_run, environment, file)?;
    if flags.verdict.self_check {
        ensure!(
            targets.len() == 1 && flags.verdict.baseline.is_none(),
            "read --self-check: it measures one target against itself; name one target and no --baseline"
        );
        targets.extend(targets.first().cloned());
    }
    let embedded = targets.iter().any(|found| matches!(found.target, Target::Embedded(_)));
    let outputs = output::outputs(flags, file, embedded)?;
    same_file::check(flags, file, &outputs)?;
    ensure!(
        !outputs.scorecard || targets.len() > 1,
        "read --scorecard: it holds targets against each other; name at least two, such as groq/MODEL together/MODEL"
    );
    let inputs = inputs::inputs(flags, file)?;
    let rounds = flags.load.rounds.or(file.bench.rounds).unwrap_or_else(|| {
        let is_compared = targets.len() > 1 || is_held_against_another_run(flags, file, &outputs);
        if is_compared { ROUNDS_TO_COMPARE } else { 1 }
    });
    ensure!((1..=MAX_ROUNDS).contains(&rounds), "read --rounds: {rounds} is not between 1 and {MAX_ROUNDS}");
    let mut configs = targets
        .into_iter()
        .enumerate()
        .map(|(place, target)| config((place, target), flags, environment, file, &inputs, rounds))
        .collect::<Result<Vec<Config>>>()?;
    configs.iter().try_for_each(|config| feasible::check(config, &outputs.requirements.assertions, rounds))?;
    let is_verdict = |config: &Config| matches!(config.schedule_mode, ScheduleMode::Verdict(_));
    ensure!(
        configs.len() > 1 || outputs.requirements.baseline.is_some() || !configs.iter().any(is_verdict),
        "read --until verdict: there is nothing to compare; name two targets or more, or a --baseline"
    );
    let comparisons = (configs.len() as u64).saturating_sub(1).max(1);
    for config in &mut configs {
        if let ScheduleMode::Verdict(verdicts) = &mut config.schedule_mode {
            verdicts.comparisons = comparisons;
        }
    }
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

/// Whether a single target is measured to be compared with another run of it, and how much to measure was left to us: how many
/// requests or seconds somebody named is what is spent.
fn is_held_against_another_run(flags: &Flags, file: &File, outputs: &Outputs) -> bool {
    let requirements = &outputs.requirements;
    let is_amount_named = flags.load.requests.is_some()
        || flags.load.duration.is_some()
        || file.bench.requests.is_some()
        || file.bench.duration.is_some()
        || flags.load.is_trace();
    (requirements.baseline.is_some() || requirements.save_baseline.is_some()) && !is_amount_named
}

/// Seed of what the requests of a target hold: words, sound and images. Targets may be one server, which would answer the second from its caches.
fn text_seed(asked_seed: Option<u64>, environment: &Environment, place: usize) -> u64 {
    let of_run = asked_seed.unwrap_or(environment.entropy);
    if place == 0 { of_run } else { Rng::root(of_run).child("targets").nth(place as u64).next_u64() }
}

/// The configuration of the target at a place of the list.
fn config(
    (place, found): (usize, target::BenchTarget),
    flags: &Flags,
    environment: &Environment,
    file: &File,
    inputs: &Inputs,
    rounds: u32,
) -> Result<Config> {
    let target::BenchTarget { mut target, quirks } = found;
    let embedded = matches!(target, Target::Embedded(_));
    let asked_seed = flags.load.seed.or(file.bench.seed);
    let text_seed = text_seed(asked_seed, environment, place);
    let request = asked_request(flags, file, &target, &quirks, inputs, text_seed)?;
    if request.batches.is_some() {
        batch::price(flags, file, &mut target, quirks.half_price_batches);
    }
    let prompts = request::prompts(&flags.request, file, embedded, inputs)?;
    let media = request.media_at_most(prompts.input_tokens(), request.items.map_or(1, |items| items.batch));
    let bill = price::Bill { media, has_text: request.audio.is_none() && !request.makes_images() };
    let max_cost_usd = price::limit(&flags.limits, file, &mut target, &bill)?;
    let is_until = !flags.limits.until.is_empty();
    let phases = load::phases(&flags.load, file, Cost::of(&target), inputs, rounds, is_until)?;
    let phases = items::batched(flags, request.items, phases);
    let is_batch = request.batches.is_some();
    let phases = if is_batch { batch::levels(flags, file, phases)? } else { phases };
    let mut limits = limits::limits(&flags.limits, file)?;
    limits.total = if is_batch { batch::total(flags, file, limits.total) } else { limits.total };
    let objectives = verdict::objectives(&flags.verdict, file)?;
    let slos: Vec<Slo> = objectives.iter().map(|objective| objective.slo).collect();
    let share = if flags.load.search.is_some() { verdict::share_of(&objectives)? } else { None };
    let (schedule_mode, phases) =
        match until::until(flags, &phases, request.stream && request.items.is_none() && request.audio.is_none())? {
            Some(until) => until,
            None => (schedule_mode::schedule_mode(flags, &phases, &slos, share)?, phases),
        };
    let config = Config {
        schedule_mode,
        phases,
        request,
        prompts,
        limits,
        // A batch to try would cost what it does.
        probe: !flags.limits.no_probe && !is_batch,
        keep_going: flags.limits.keep_going,
        slos,
        max_cost_usd,
        workers: flags.load.workers.or(file.bench.workers),
        calibration: limits::calibration(&flags.limits, environment),
        sampling: sampling(&target, flags)?,
        seed: asked_seed.unwrap_or(0),
        text_seed,
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

/// What every request of the run asks for.
fn asked_request(
    flags: &Flags,
    file: &File,
    target: &Target,
    quirks: &tokrate_catalog::Quirks,
    inputs: &Inputs,
    text_seed: u64,
) -> Result<RequestOptions> {
    let mut request = request::request(&flags.request, file, matches!(target, Target::Embedded(_)))?;
    request.keep_unknown = flags.output.keep_unknown;
    request.legacy_max_tokens |= quirks.max_tokens_field;
    request.include_usage &= !quirks.no_stream_options;
    items::check(flags, target, request.items, inputs)?;
    request.structure = structure::asked(flags, target, inputs)?;
    request.attachments = attachments::asked(flags, target, inputs)?;
    request.audio = audio::asked(flags, text_seed)?;
    audio::check(flags, target, request.audio.as_ref(), inputs)?;
    request.tool_turns = structure::tool_turns(flags)?;
    Ok(request)
}

/// What is read beside the run of a target. The processors of this machine are those of an engine on it only.
fn sampling(target: &Target, flags: &Flags) -> Result<tokrate_bench::Sampling> {
    let mut sampling = target::metrics::sampling(flags)?;
    if target.remote().is_none_or(|remote| remote.engine_host.is_none()) {
        sampling.local_gpus = None;
    }
    Ok(sampling)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each level runs.
    fn rounds(set: impl Fn(&mut Flags)) -> usize {
        let mut flags = Flags::default();
        flags.load.concurrency = Some(vec![1, 8]);
        set(&mut flags);
        let resolved = resolve(&flags, &Environment::default(), &File::default());
        let (configs, _) = resolved.expect("the embedded engine");
        configs[0].phases.len() / 2
    }

    #[test]
    fn a_run_against_a_baseline_has_rounds_unless_its_amount_is_named() {
        let held = |flags: &mut Flags| flags.verdict.baseline = Some("base.json".into());
        let kept = |flags: &mut Flags| flags.verdict.save_baseline = Some("base.json".into());
        assert_eq!((rounds(|_| ()), rounds(held), rounds(kept)), (1, 4, 4));
        let named = |flags: &mut Flags| {
            held(flags);
            flags.load.requests = Some(40);
        };
        assert_eq!(rounds(named), 1);
        let timed = |flags: &mut Flags| {
            held(flags);
            flags.load.duration = Some("10s".to_owned());
        };
        assert_eq!(rounds(timed), 1);
        let both = |flags: &mut Flags| {
            named(flags);
            flags.load.rounds = Some(3);
        };
        assert_eq!(rounds(both), 3);
    }

    #[test]
    fn targets_of_one_run_are_sent_different_words_sound_and_images() {
        use crate::flags::bench::Task;
        let sent = |seed: Option<u64>, task: Task| {
            let mut flags = Flags::default();
            flags.target.targets = ["vllm@127.0.0.1:8001/m", "vllm@127.0.0.1:8002/m"].map(str::to_owned).to_vec();
            (flags.load.seed, flags.request.task) = (seed, Some(task));
            flags.audio.audio_seconds = Some(vec![0.5]);
            let environment = Environment { entropy: 7, ..Environment::default() };
            let (configs, _) = resolve(&flags, &environment, &File::default()).expect("two targets");
            let sound = |config: &Config| {
                use tokrate_bench::AudioTask::{Realtime, Speech, Transcription};
                match config.request.audio.as_ref().expect("sound is sent") {
                    Transcription(task) => task.clips.of(0).file.clone(),
                    Realtime(task) => task.clips.as_ref().expect("lengths were named").of(0).file.clone(),
                    Speech(_) => panic!("it is said and not sent"),
                }
            };
            configs.iter().map(|config| (config.text_seed, sound(config))).collect::<Vec<_>>()
        };
        for task in [Task::Transcription, Task::Realtime] {
            let of_run = sent(None, task);
            // Words and images of a request are drawn by that seed.
            assert!(of_run[0].0 != of_run[1].0 && of_run[0].1 != of_run[1].1, "{task:?}");
            let again = sent(Some(3), task);
            assert!(again[0].1 != again[1].1 && again == sent(Some(3), task), "{task:?}");
            assert_ne!(of_run[0].1, again[0].1, "another run has other sound");
        }
    }

    #[test]
    fn a_percentile_is_possible_if_the_requests_of_all_rounds_suffice() {
        let planned = |rounds, requests| {
            let mut flags = Flags::default();
            flags.verdict.asserts = vec!["ttft_p95 < 400ms".to_owned()];
            (flags.load.rounds, flags.load.requests) = (Some(rounds), Some(requests));
            resolve(&flags, &Environment::default(), &File::default()).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(planned(4, 33), Ok(()), "132 of 130");
        let refused = planned(4, 32).expect_err("128 of 130");
        assert!(refused.contains("takes 130 requests a level, and concurrency 1 has 128"), "{refused}");
    }
}
