//! Runs over loopback that go on until something is known: until a width, a limit, or a verdict.
//!
//! Widths are asked so that no stumble of a busy machine decides.

use std::sync::Arc;
use tokrate_bench::forecast::{Forecast, remaining};
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::prompts::{Lengths, PromptSource};
use tokrate_bench::schedule::{ScheduleMode, Until, Verdicts};
use tokrate_bench::{
    Calibration, Config, Embedded, Limits, Observer, PhasePosition, Progress, RequestOptions, Stop, Target, run,
};
use tokrate_core::Span;
use tokrate_judge::compare::{CompareOptions, CompareVerdict};
use tokrate_judge::{Comparison, Precision};
use tokrate_meter::RequestNumbers;
use tokrate_net::Clock;
use tokrate_record::{Metric, PrecisionStatus, Record, Status, UntilEnd};
use tokrate_sim::{Faults, Law};

/// Keeps what was told on the way.
#[derive(Default)]
struct Watcher {
    start_up: usize,
    expected: Vec<usize>,
    rest: Option<f64>,
}

impl Observer for Watcher {
    fn probing(&mut self, _: usize) {}

    fn planned(&mut self, _: usize, forecast: &Forecast) {
        self.start_up = forecast.start_up;
    }

    fn phase_started(&mut self, place: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {
        self.expected.push(place.of);
    }

    fn calibrating(&mut self, _: PhasePosition) {}

    fn phase_ended(&mut self, place: PhasePosition, record: &Record, _: &[RequestNumbers]) {
        if place.phase + 1 == self.start_up {
            self.rest = remaining(record).and_then(|level| level.requests);
        }
    }
}

fn level() -> PhaseSpec {
    PhaseSpec { load: Load::Closed { concurrency: 1 }, extent: Extent::Requests(6), warmup: 1, backoff: Backoff::Obey }
}

fn config(speed: f64, schedule_mode: ScheduleMode, round: PhaseSpec) -> Config {
    let law = Law {
        stream_tokens_per_second: speed,
        base_delay: Span::from_millis(5),
        gap_jitter: 0.3,
        ttft_jitter: 0.3,
        ..Law::default()
    };
    Config {
        target: Target::Embedded(Box::new(Embedded { law, faults: Faults::default() })),
        phases: vec![round],
        request: RequestOptions { output_tokens: Lengths::Fixed(20), ..RequestOptions::plain() },
        prompts: PromptSource::synthetic(30, 0),
        sampling: tokrate_bench::Sampling::default(),
        max_cost_usd: None,
        schedule_mode,
        limits: Limits {
            connect: Span::from_secs(5),
            idle: Span::from_secs(10),
            total: Span::from_secs(20),
            wait: Span::from_secs(60),
            max_body_bytes: 1 << 20,
        },
        probe: false,
        keep_going: false,
        slos: Vec::new(),
        workers: None,
        calibration: Calibration::Off,
        seed: 0,
        text_seed: 0,
        host: "h".to_owned(),
        machine: String::new(),
        region: String::new(),
        version: "0".to_owned(),
    }
}

fn until(condition: &str, max_requests: u64) -> Config {
    let conditions = vec![Precision::parse(condition).expect("a condition")];
    let until = Until { conditions, max_requests, max_time: None };
    let round = until.round_of(&level());
    config(800.0, ScheduleMode::Until(until), round)
}

fn measured(config: Config) -> (Record, Watcher) {
    let mut watcher = Watcher::default();
    let mut records = run(&[config], Clock::monotonic(), &Stop::default(), &mut watcher).expect("it ran");
    (records.remove(0), watcher)
}

#[test]
fn a_run_ends_when_its_figure_is_known_and_keeps_how_well() {
    let (record, watcher) = measured(until("e2e_p50 ± 95%", 600));
    let known = record.until.as_ref().expect("it was asked");
    assert_eq!((known.end, record.status, record.phases.len()), (UntilEnd::Reached, Status::Complete, 6));
    assert_eq!((watcher.start_up, watcher.expected.len(), watcher.rest), (6, 6, None));
    let outcome = &known.conditions[0];
    assert_eq!((outcome.status, outcome.rounds, outcome.requests), (PrecisionStatus::Reached, 6, 42));
    assert!(record.notes.contains(&outcome.sentence), "{:?}", record.notes);
    assert_eq!(Record::parse(&record.to_json()).expect("it reads back"), record);
}

#[test]
fn a_limit_ends_a_run_that_says_how_much_is_missing() {
    let (record, watcher) = measured(until("ttft_p50 ± 0.1%", 49));
    let known = record.until.as_ref().expect("it was asked");
    assert_eq!((known.end, record.status, record.phases.len()), (UntilEnd::Requests, Status::Complete, 7));
    assert!(
        watcher.rest.is_some_and(|rest| rest > 100.0),
        "thirds of a time are not known to 0.1 %: {:?}",
        watcher.rest
    );
    let sentence = &known.conditions[0].sentence;
    assert!(sentence.contains("not reached after 49 requests; about"), "{sentence}");
}

#[test]
fn two_targets_are_measured_until_they_are_compared() {
    let verdicts = Verdicts {
        metrics: vec![Metric::OutputSpeed],
        options: CompareOptions::default(),
        baseline: None,
        max_requests: 400,
        comparisons: 1,
        looks: Vec::new(),
    };
    let mode = ScheduleMode::Verdict(verdicts);
    // Eight times as slow, so that no stumble of the machine makes them alike.
    let configs = [800.0, 100.0].map(|speed| config(speed, mode.clone(), Verdicts::round_of(&level())));
    let records = run(&configs, Clock::monotonic(), &Stop::default(), &mut Watcher::default()).expect("both ran");
    for record in &records {
        let known = record.until.as_ref().expect("it was asked");
        assert_eq!((known.end, record.status), (UntilEnd::Reached, Status::Complete), "{record:?}");
        assert!([4, 6].contains(&record.phases.len()), "{} rounds", record.phases.len());
    }
    let judged = Comparison::of(records).judged(&["a".to_owned(), "b".to_owned()], false);
    let report = &judged.against_first[0].report;
    let speed = report.rows.iter().find(|row| row.metric == Metric::OutputSpeed).expect("a row");
    assert_eq!(speed.verdict, CompareVerdict::Worse);
    assert!(report.notes[0].contains("all looks"), "{:?}", report.notes);
}
