//! Whether the plan can yield what is asserted about it; an error before the load is better than one after it.
//!
//! Invariant: what it refuses could not be judged whatever the server does.

use super::metrics;
use anyhow::{Result, ensure};
use tokrate_bench::plan::Extent;
use tokrate_bench::prompts::PromptSource;
use tokrate_bench::schedule::{Axis, ScheduleMode};
use tokrate_bench::{Calibration, Config};
use tokrate_judge::Assertion;
use tokrate_net::HttpVersion;
use tokrate_record::{Load, Metric};
use tokrate_wire::Dialect;

/// Refuses objectives and assertions that no answer of the plan can be held against.
pub(super) fn check(config: &Config, assertions: &[Assertion], rounds: u32) -> Result<()> {
    check_pictures(config)?;
    for slo in &config.slos {
        check_metric(&format!("--slo {slo}"), slo.metric, config)?;
    }
    if let ScheduleMode::Until(until) = &config.schedule_mode {
        for condition in &until.conditions {
            condition
                .metric()
                .map_or(Ok(()), |metric| check_metric(&format!("--until '{condition}'"), metric, config))?;
        }
    }
    for assertion in assertions {
        let named = format!("--assert {assertion}");
        if let Some(metric) = assertion.metric() {
            check_metric(&named, metric, config)?;
        }
        check_load(assertion, config)?;
        check_sample(assertion, config, rounds)?;
    }
    Ok(())
}

/// Pictures go only where the API has a place for them: a prompt without its picture would be another measurement.
fn check_pictures(config: &Config) -> Result<()> {
    let PromptSource::File(file) = &config.prompts else { return Ok(()) };
    let Some(remote) = config.target.remote() else { return Ok(()) };
    let dialect = remote.dialect;
    if dialect == Dialect::OllamaChat {
        ensure!(
            !file.has_linked_images(),
            "read the prompts: Ollama takes pictures as data only; write `data:image/png;base64,...` instead of an address"
        );
    }
    ensure!(
        !file.has_detailed_images() || dialect == Dialect::OpenAiChat,
        "read the prompts: they hold pictures with a `detail`, which {} has no place for; leave it out, or use --dialect openai-chat",
        dialect.name()
    );
    ensure!(
        file.with_images() == 0
            || !matches!(dialect, Dialect::OpenAiCompletions | Dialect::LlamaCompletion | Dialect::OllamaGenerate),
        "read the prompts: they hold pictures, for which {} has no place; use --dialect openai-chat",
        dialect.name()
    );
    Ok(())
}

/// Refuses a flag that takes only figures of known error where the client's own cannot become known. The embedded engine logs it.
pub(super) fn check_error_becomes_known(flag: &str, config: &Config) -> Result<()> {
    if config.target.remote().is_none() {
        return Ok(());
    }
    ensure!(
        config.calibration != Calibration::Off,
        "read {flag}: it takes figures whose error is known, and --calibration off leaves that of the client unknown; leave out one \
         of them"
    );
    ensure!(
        config.request.stream,
        "read {flag}: it takes figures whose error is known, and that of the client is measured on streamed answers; leave out \
         {flag} or --no-stream"
    );
    Ok(())
}

/// Descriptors that a run needs beside its connections.
const RESERVED_DESCRIPTORS: u64 = 64;

/// The most connections that a run may open with so many descriptors.
pub(super) fn max_connections(open_files: u64) -> u64 {
    open_files.saturating_sub(RESERVED_DESCRIPTORS)
}

/// Refuses a load that needs more connections than this process may open: the requests beyond them would fail here, and
/// look like failures of the server.
pub fn check_open_files(configs: &[Config], open_files: u64) -> Result<()> {
    for config in configs {
        // Both ends of a connection to the embedded engine are ours; HTTP/2 shares connections.
        let (ends, shared) = match config.target.remote() {
            None => (2, None),
            Some(remote) if remote.http == HttpVersion::Http2 && !remote.new_connections => {
                (1, Some(remote.http2.connections.unwrap_or(1) as u64))
            }
            Some(_) => (1, None),
        };
        let listed = config.phases.iter().map(|phase| u64::from(phase.load.max_in_flight())).max().unwrap_or(0);
        let most = match &config.schedule_mode {
            ScheduleMode::Search(search) if search.axis == Axis::Concurrency => search.max_load as u64,
            ScheduleMode::System { max_concurrency: most } => u64::from(*most),
            ScheduleMode::Search(_)
            | ScheduleMode::Listed
            | ScheduleMode::Refine { .. }
            | ScheduleMode::Until(_)
            | ScheduleMode::Verdict(_) => listed,
        };
        let allowed = max_connections(open_files) / ends;
        let needed = shared.map_or(most * ends, |shared| shared.min(most)) + RESERVED_DESCRIPTORS;
        let need =
            if most == 1 { "1 request in flight needs".to_owned() } else { format!("{most} requests in flight need") };
        let instead = match allowed {
            0 => String::new(),
            allowed => format!(", or ask for at most {allowed} at once"),
        };
        ensure!(
            needed <= open_files,
            "start the run: {need} {needed} open files, and this process may have {open_files}; raise the limit (`ulimit -n {needed}`){instead}"
        );
    }
    Ok(())
}

fn check_metric(named: &str, metric: Metric, config: &Config) -> Result<()> {
    metrics::check(named, metric, config)?;
    let name = metric.name();
    ensure!(
        config.request.stream || !metric.row().needs_stream,
        "hold answers to {named}: without streaming an answer comes in one piece, which has no {name}; leave out --no-stream, or use e2e"
    );
    if config.request.audio.is_some() || config.request.items.is_some() {
        return Ok(());
    }
    let tokens = u64::from(config.prompts.most_output_tokens(&config.request.output_tokens));
    let needed = metric.row().tokens_needed;
    let length = if tokens == 1 { "1 token".to_owned() } else { format!("{tokens} tokens") };
    ensure!(
        tokens >= needed,
        "hold answers to {named}: an answer of {length} has no {name}, which takes {needed}; ask for more with --output-tokens"
    );
    Ok(())
}

/// Refuses a demand on a load that the plan does not run.
fn check_load(assertion: &Assertion, config: &Config) -> Result<()> {
    let rows = || config.phases.iter().map(|phase| phase.load.row());
    let between = |low, high| assertion.is_for_load_between(low, high);
    let is_run = match &config.schedule_mode {
        ScheduleMode::Listed | ScheduleMode::Until(_) | ScheduleMode::Verdict(_) => {
            rows().any(|load| assertion.is_for_load(load))
        }
        // What is added lies between two of the listed levels.
        ScheduleMode::Refine { .. } => {
            let least = rows().min_by(|a, b| a.amount().total_cmp(&b.amount()));
            let most = rows().max_by(|a, b| a.amount().total_cmp(&b.amount()));
            least.zip(most).is_some_and(|(least, most)| between(least, most))
        }
        ScheduleMode::Search(search) => match search.axis {
            Axis::Concurrency => {
                between(Load::Closed { concurrency: 1 }, Load::Closed { concurrency: search.max_load as u32 })
            }
            Axis::Rate => between(Load::Open { rate: 0.0, cap: None }, Load::Open { rate: search.max_load, cap: None }),
        },
        ScheduleMode::System { max_concurrency } => {
            between(Load::Closed { concurrency: 1 }, Load::Closed { concurrency: *max_concurrency })
        }
    };
    let names: Vec<String> = config.phases.iter().map(|phase| phase.load.name()).collect();
    let there = match &config.schedule_mode {
        ScheduleMode::Listed | ScheduleMode::Until(_) | ScheduleMode::Verdict(_) => names.join(", "),
        ScheduleMode::Refine { .. } => format!("{} and levels between them", names.join(", ")),
        ScheduleMode::Search(search) => format!("{} up to {}", search.axis.name(), search.max_load),
        ScheduleMode::System { max_concurrency } => format!("concurrency up to {max_concurrency}"),
    };
    ensure!(is_run, "hold the run to --assert {assertion}: no level of the plan has this load; planned are {there}");
    Ok(())
}

/// Refuses a percentile that the requests of all rounds of a level are too few for.
fn check_sample(assertion: &Assertion, config: &Config, rounds: u32) -> Result<()> {
    let is_open_ended =
        matches!(config.schedule_mode, ScheduleMode::Search(_) | ScheduleMode::Until(_) | ScheduleMode::Verdict(_));
    let Some(needed) = assertion.requests_needed().filter(|_| !is_open_ended) else {
        // It sends as many as it takes.
        return Ok(());
    };
    for phase in config.phases.iter().filter(|phase| assertion.is_for_load(phase.load.row())) {
        let Extent::Requests(of_a_round) = phase.extent else { continue };
        let requests = of_a_round.saturating_mul(u64::from(rounds));
        let easier = if assertion.has_easier_percentile() { ", or for a lower percentile" } else { "" };
        ensure!(
            requests >= needed,
            "hold the run to --assert {assertion}: that takes {needed} requests a level, and {} has {requests}; ask for more with \
             --requests{easier}",
            phase.load.name()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::environment::Environment;
    use crate::config::file::File;
    use crate::flags::bench::Flags;

    fn refused(concurrency: u32, open_files: u64) -> Option<String> {
        let mut flags = Flags::default();
        flags.load.concurrency = Some(vec![concurrency]);
        let resolved = crate::config::bench::resolve(&flags, &Environment::default(), &File::default());
        let (configs, _) = resolved.expect("the embedded engine");
        check_open_files(&configs, open_files).err().map(|error| error.to_string())
    }

    #[test]
    fn too_few_open_files_are_told_with_what_is_possible_and_never_with_none() {
        // Both ends of a connection to the embedded engine are ours.
        assert_eq!(
            refused(10, 72).as_deref(),
            Some(
                "start the run: 10 requests in flight need 84 open files, and this process may have 72; raise the limit \
                 (`ulimit -n 84`), or ask for at most 4 at once"
            )
        );
        assert_eq!(
            refused(1, 64).as_deref(),
            Some(
                "start the run: 1 request in flight needs 66 open files, and this process may have 64; raise the limit \
                 (`ulimit -n 66`)"
            )
        );
        assert_eq!((refused(4, 72), refused(1, 66)), (None, None));
    }
}
