//! Counts how often the client's own error is judged wrongly, and prints the table of docs/method.md:
//! `cargo run --release -p tokrate-bench --example client_error [SCENARIOS] [FIRST SEED]`.
//!
//! Each scenario is an engine of known law on loopback, measured as any other endpoint is: the client's error comes from a
//! calibration. The same requests are then compared with the engine's log (the ground truth).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints what it finds")]

mod scenario;
mod table;

use scenario::Scenario;
use std::error::Error;
use std::sync::Arc;
use table::{Outcome, Table};
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::PhaseSpec;
use tokrate_bench::{Observer, PhasePosition, Progress, Stop, ground_truth, run};
use tokrate_core::{Conditions, Sketch, Span, Tick};
use tokrate_host::{Host, HostConfig, TruthLog};
use tokrate_meter::{ClientError, ClientErrorSource, FigureValidity, RequestNumbers};
use tokrate_net::Clock;
use tokrate_record::{PhaseInput, PhaseResult, Record, Warmup};

/// Keeps the rows of the only phase.
#[derive(Default)]
struct RowCollector {
    rows: Vec<RequestNumbers>,
}

impl Observer for RowCollector {
    fn probing(&mut self, _: usize) {}
    fn planned(&mut self, _: usize, _: &Forecast) {}
    fn phase_started(&mut self, _: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {}
    fn calibrating(&mut self, _: PhasePosition) {}
    fn phase_ended(&mut self, _: PhasePosition, _: &Record, rows: &[RequestNumbers]) {
        self.rows = rows.to_vec();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let number = |place, otherwise| std::env::args().nth(place).map_or(Ok(otherwise), |text| text.parse::<u64>());
    let (count, from) = (number(1, 200)?, number(2, 0)?);
    let mut table = Table::default();
    for seed in from..from + count {
        let scenario = Scenario::random(seed);
        for (judged, truth) in pairs(seed, &scenario)? {
            let outcome = Outcome::of(&judged, &truth);
            if outcome.is_wrong() {
                eprintln!("{seed} {outcome:?} {judged:?} truly moved by {:.3}; {scenario:?}", truth.moved);
            }
            table.add(&scenario, &judged.figure, outcome);
        }
    }
    println!("{table}");
    Ok(())
}

/// Every figure of a scenario as the calibration judges it, with the same as the engine's log does.
fn pairs(seed: u64, scenario: &Scenario) -> Result<Vec<(FigureValidity, FigureValidity)>, Box<dyn Error>> {
    let busy = scenario.keep_busy();
    let law = scenario.law.clone();
    let host = Host::start(HostConfig { law, truth: TruthLog::Memory, seed, ..HostConfig::default() })?;
    let config = scenario.config(&format!("http://{}/v1", host.address()))?;
    let mut collector = RowCollector::default();
    let record = run(&[config], Clock::monotonic(), &Stop::default(), &mut collector)?.remove(0);
    busy.stop();
    let (log, lateness) = (host.truth(), host.lateness());
    host.stop();
    let phase = record.phases.first().ok_or("nothing was measured")?;
    let error = ground_truth::compare_with_log(ClientErrorSource::Truth, &collector.rows, "0", &log, &lateness);
    let figures = |error: Option<ClientError>| error.map_or_else(Vec::new, |error| error.figures);
    let by_truth = figures(judged(phase, error, &mut collector.rows).client_error);
    let by_calibration = figures(phase.client_error.clone());
    let same = |judged: &FigureValidity| by_truth.iter().find(|truth| truth.figure == judged.figure).cloned();
    Ok(by_calibration.into_iter().filter_map(|judged| Some((judged.clone(), same(&judged)?))).collect())
}

/// The phase once more, judged by another error.
fn judged(phase: &PhaseResult, error: ClientError, rows: &mut [RequestNumbers]) -> PhaseResult {
    let warmup = rows.iter().filter(|row| row.warmup).count() as u64;
    let input = PhaseInput {
        name: phase.name.clone(),
        conditions: &Conditions { streaming: true, ..Conditions::default() },
        load: phase.load,
        warmup: Warmup::Requests(warmup),
        started_at: Tick::from_nanos(phase.started_at_ns),
        ended_at: Tick::from_nanos(phase.ended_at_ns),
        interrupted: false,
        client_error: Some(error),
        timer_lag: &Sketch::new(),
        client_cpu: Span::ZERO,
        late: 0,
        forfeited: 0,
        withheld: 0,
        held_back: None,
    };
    PhaseResult::of(&input, rows)
}
