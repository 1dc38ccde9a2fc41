//! Whether the plan can yield what is demanded of it: better to hear that now than after the load.
//!
//! It does not know results. Invariant: what it refuses could never have been stated, whatever the server does.

use anyhow::{Result, ensure};
use tokrate_bench::Config;
use tokrate_bench::plan::Extent;
use tokrate_bench::prompts::PromptSource;
use tokrate_bench::schedule::{Axis, ScheduleMode};
use tokrate_meter::{Assertion, Metric};
use tokrate_net::HttpVersion;
use tokrate_wire::Dialect;

/// Refuses objectives and assertions that no answer of the plan can be held against.
pub(super) fn check(config: &Config, assertions: &[Assertion]) -> Result<()> {
    check_pictures(config)?;
    for slo in &config.slos {
        check_metric(&format!("--slo {slo}"), slo.metric, config)?;
    }
    for assertion in assertions {
        let named = format!("--assert {assertion}");
        if let Some(metric) = assertion.metric() {
            check_metric(&named, metric, config)?;
        }
        check_sample(&named, assertion, config)?;
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
        file.with_images() == 0
            || !matches!(dialect, Dialect::OpenAiCompletions | Dialect::LlamaCompletion | Dialect::OllamaGenerate),
        "read the prompts: they hold pictures, for which {} has no place; use --dialect openai-chat",
        dialect.name()
    );
    Ok(())
}

/// Descriptors that a run needs beside its connections.
const DESCRIPTORS_KEPT: u64 = 64;

/// The most connections that a run may open with so many descriptors.
pub(super) fn connections_most(open_files: u64) -> u64 {
    open_files.saturating_sub(DESCRIPTORS_KEPT).max(1)
}

/// Refuses a load that needs more connections than this process may open: the requests beyond them would fail here, and the
/// server would be blamed.
pub fn check_open_files(configs: &[Config], open_files: u64) -> Result<()> {
    for config in configs {
        // Both ends of a connection to the embedded engine are ours; HTTP/2 shares one connection.
        let (ends, shared) = match config.target.remote() {
            None => (2, false),
            Some(remote) => (1, remote.http == HttpVersion::Http2),
        };
        let listed = config.phases.iter().map(|phase| u64::from(phase.load.max_in_flight())).max().unwrap_or(0);
        let most = match &config.schedule_mode {
            ScheduleMode::Search(search) if search.axis == Axis::Concurrency => search.max_load as u64,
            ScheduleMode::System { max_concurrency: most } => u64::from(*most),
            ScheduleMode::Search(_) | ScheduleMode::Listed | ScheduleMode::Refine { .. } => listed,
        };
        let allowed = connections_most(open_files) / ends;
        ensure!(
            shared || most <= allowed,
            "start the run: {most} requests in flight need {} open files, and this process may have {open_files}; raise the \
             limit (`ulimit -n {}`) or ask for at most {allowed} at once",
            most * ends + DESCRIPTORS_KEPT,
            most * ends + DESCRIPTORS_KEPT,
        );
    }
    Ok(())
}

fn check_metric(named: &str, metric: Metric, config: &Config) -> Result<()> {
    let name = metric.name();
    ensure!(
        config.request.stream || !metric.row().needs_stream,
        "read {named}: without streaming an answer comes in one piece, which has no {name}; leave out --no-stream, or use e2e"
    );
    let tokens = u64::from(config.prompts.output_tokens().unwrap_or(config.request.output_tokens));
    let needed = metric.row().tokens_needed;
    ensure!(
        tokens >= needed,
        "read {named}: an answer of {tokens} tokens has no {name}, which takes {needed}; ask for more with --output-tokens"
    );
    Ok(())
}

fn check_sample(named: &str, assertion: &Assertion, config: &Config) -> Result<()> {
    let Some(needed) = assertion.requests_needed().filter(|_| !matches!(config.schedule_mode, ScheduleMode::Search(_)))
    else {
        // A search sends as many as it takes.
        return Ok(());
    };
    for phase in config.phases.iter().filter(|phase| assertion.is_for_load(phase.load.row())) {
        let Extent::Requests(requests) = phase.extent else { continue };
        ensure!(
            requests >= needed,
            "read {named}: it takes {needed} requests to state it, and {} has {requests}; ask for more with --requests, or for a \
             percentile nearer to the middle",
            phase.load.name()
        );
    }
    Ok(())
}
