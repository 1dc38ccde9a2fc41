//! `tokrate sim`: the simulated engine as a server, until Ctrl-C.

use super::Verdict;
use crate::config::sim::resolve;
use crate::flags::sim::Flags;
use anyhow::Result;
use tokrate_bench::Stop;
use tokrate_host::{Host, Summary};

/// Serves until interrupted; then says what was served and how late the engine itself was.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let config = resolve(flags)?;
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let (model, logged) = (config.model.clone(), flags.truth_log.clone());
    let ready = move |address| {
        anstream::println!("serving model `{model}` at http://{address}/v1 (Ctrl-C ends)");
        anstream::println!(
            "try: tokrate bench --url http://{address}/v1 --model {model} --concurrency 1,4 --requests 20"
        );
        if let Some(path) = logged {
            anstream::println!("truth log: {}", path.display());
        }
    };
    let summary = Host::run(config, ready, async move { stop.wait().await })?;
    anstream::println!("{}", closing_line(&summary));
    if let Some(error) = summary.log_error {
        anyhow::bail!("write the truth log to its end: {error}");
    }
    Ok(Verdict::Good)
}

fn closing_line(summary: &Summary) -> String {
    let lateness = |q| {
        summary
            .lateness
            .quantile(q)
            .map_or_else(|| "-".to_owned(), |lag| tokrate_core::Span::from_nanos(lag).to_string())
    };
    let dropped = match summary.rows_dropped {
        0 => String::new(),
        rows => format!("; the truth log lacks {rows} rows, the disk was too slow"),
    };
    format!(
        "{} writes; lateness of the engine's own writes: p50 {}, p99 {}, max {}{dropped}",
        summary.lateness.count(),
        lateness(0.5),
        lateness(0.99),
        lateness(1.0)
    )
}
