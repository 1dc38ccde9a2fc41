//! Several targets in one run: they alternate, each has its own record, and the report shows them side by side.

use std::sync::Arc;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::prompts::{Lengths, PromptSource};
use tokrate_bench::report::{Samples, Subject, comparison_html};
use tokrate_bench::schedule::ScheduleMode;
use tokrate_bench::{
    Calibration, Config, Embedded, Limits, Observer, PhasePosition, Progress, Remote, RequestOptions, Sampling, Stop,
    Target, run,
};
use tokrate_core::Span;
use tokrate_host::{Host, HostConfig};
use tokrate_judge::scorecard::differing_conditions;
use tokrate_meter::RequestNumbers;
use tokrate_net::Clock;
use tokrate_record::{Record, Status};
use tokrate_sim::{Faults, Law};

#[derive(Default)]
struct RowCollector {
    started: Vec<(usize, usize)>,
    samples: [Samples; 2],
}

impl Observer for RowCollector {
    fn probing(&mut self, _: usize) {
        unreachable!("the embedded engine is not asked before");
    }

    fn planned(&mut self, _: usize, forecast: &Forecast) {
        assert_eq!(forecast.total().requests, Some(32.0), "6 and the warm-up, at each of four levels");
    }

    fn phase_started(&mut self, place: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {
        assert_eq!(place.of, 4);
        self.started.push((place.target, place.phase));
    }

    fn calibrating(&mut self, _: PhasePosition) {}

    fn phase_ended(&mut self, place: PhasePosition, record: &Record, rows: &[RequestNumbers]) {
        assert_eq!(record.phases.len(), place.phase + 1, "the record holds the phases so far");
        self.samples[place.target].add(&record.phases[place.phase], rows);
    }
}

fn config(speed: f64) -> Config {
    let level = |concurrency| PhaseSpec {
        load: Load::Closed { concurrency },
        extent: Extent::Requests(6),
        warmup: u64::from(concurrency),
        backoff: Backoff::Obey,
    };
    let law = Law { stream_tokens_per_second: speed, base_delay: Span::from_millis(5), ..Law::default() };
    Config {
        target: Target::Embedded(Box::new(Embedded { law, faults: Faults::default() })),
        phases: vec![level(1), level(1), level(3), level(3)],
        request: RequestOptions {
            batches: None,
            images: None,
            structure: None,
            attachments: None,
            adapters: None,
            tool_turns: None,
            items: None,
            audio: None,
            stream: true,
            include_usage: true,
            output_tokens: Lengths::Fixed(40),
            ignore_eos: false,
            legacy_max_tokens: false,
            temperature: None,
            extra: Vec::new(),
            keep_unknown: false,
        },
        prompts: PromptSource::synthetic(30, 0),
        max_cost_usd: None,
        schedule_mode: ScheduleMode::Listed,
        limits: Limits {
            connect: Span::from_secs(5),
            idle: Span::from_secs(10),
            total: Span::from_secs(20),
            wait: Span::from_secs(60),
            max_body_bytes: 1 << 20,
        },
        probe: true,
        keep_going: false,
        slos: Vec::new(),
        workers: None,
        sampling: Sampling::default(),
        calibration: Calibration::Off,
        seed: 0,
        text_seed: 0,
        host: "h".to_owned(),
        machine: String::new(),
        region: String::new(),
        version: "0".to_owned(),
    }
}

#[test]
fn two_targets_take_turns_and_share_a_page() {
    let mut collector = RowCollector::default();
    // Answers of 55 and of 405 ms, so that no stumble of the machine makes them alike.
    let configs = [config(800.0), config(100.0)];
    let records = run(&configs, Clock::monotonic(), &Stop::default(), &mut collector).expect("both ran");
    assert_eq!(collector.started, [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)], "A-B-B-A");
    let began = |target: usize, phase: usize| records[target].phases[phase].started_at_ns;
    assert!(began(0, 0) < began(1, 0) && began(1, 0) < began(1, 1) && began(1, 1) < began(0, 1), "one after the other");
    let names: Vec<&str> = records[0].phases.iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["concurrency 1", "concurrency 1, round 2", "concurrency 3", "concurrency 3, round 2"]);
    let curve = records[0].curve.as_ref().expect("two levels make a curve");
    assert_eq!(curve.levels.iter().map(|level| level.level.load).collect::<Vec<f64>>(), [1.0, 3.0]);
    let e2e = |record: &Record| record.phases[0].e2e.p50.nearest_rank().expect("measured");
    assert!(1.5 * e2e(&records[0]) < e2e(&records[1]), "each record is its own target's");

    assert!(differing_conditions(&[&records[0], &records[1]]).is_empty(), "only the endpoints differ");
    let subjects = [("fast <one>", 0), ("slow one", 1)].map(|(name, place)| Subject {
        name,
        record: &records[place],
        samples: &collector.samples[place],
    });
    let page = comparison_html(&subjects, Vec::new());
    for part in ["fast &lt;one&gt;, slow one: how fast they answer", "<h4>c = 3</h4>", "Where the targets differ"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<one>") && !page.contains("NaN"));
}

/// Breaks down when the second level begins.
struct Broken;

impl Observer for Broken {
    fn probing(&mut self, _: usize) {}

    fn planned(&mut self, _: usize, _: &Forecast) {}

    fn phase_started(&mut self, place: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {
        assert!(place.phase == 0, "the second level breaks");
    }

    fn calibrating(&mut self, _: PhasePosition) {}

    fn phase_ended(&mut self, _: PhasePosition, _: &Record, _: &[RequestNumbers]) {}
}

#[test]
fn results_before_a_panic_are_kept() {
    let records = run(&[config(800.0)], Clock::monotonic(), &Stop::default(), &mut Broken).expect("a record");
    assert_eq!(records[0].phases.len(), 1);
    assert_eq!(records[0].status, Status::Partial);
    let reason = records[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("internal error in tokrate") && reason.contains("the second level breaks"), "{reason}");
}

/// Interrupts the run as soon as the client's own error is measured.
struct Interrupting(Stop);

impl Observer for Interrupting {
    fn probing(&mut self, _: usize) {}

    fn planned(&mut self, _: usize, _: &Forecast) {}

    fn phase_started(&mut self, _: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {}

    fn calibrating(&mut self, _: PhasePosition) {
        self.0.set();
    }

    fn phase_ended(&mut self, _: PhasePosition, _: &Record, _: &[RequestNumbers]) {}
}

#[test]
fn an_interrupt_during_the_calibration_leaves_a_part_and_no_error_of_a_part() {
    let law = Law { stream_tokens_per_second: 800.0, base_delay: Span::from_millis(5), ..Law::default() };
    let host = Host::start(HostConfig { law, ..HostConfig::default() }).expect("it starts");
    let remote = Remote {
        provider: None,
        dialect: tokrate_wire::Dialect::OpenAiChat,
        price: None,
        server_metrics: None,
        engine_host: None,
        base: tokrate_net::Target::parse(&format!("http://{}/v1", host.address())).expect("an address"),
        model: "sim".to_owned(),
        headers: http::HeaderMap::new(),
        authorizer: None,
        key_origin: None,
        http: tokrate_net::HttpVersion::Http1,
        new_connections: false,
        tls_resume: false,
        http2: tokrate_net::Sharing::default(),
        ca_file: None,
        insecure: false,
        unix_socket: None,
        proxy: None,
    };
    let config = config(800.0);
    let config = Config {
        target: Target::Remote(Box::new(remote)),
        phases: config.phases[..1].to_vec(),
        probe: false,
        calibration: Calibration::Run,
        ..config
    };
    let stop = Stop::default();
    let records = run(&[config], Clock::monotonic(), &stop, &mut Interrupting(stop.clone())).expect("a record");
    host.stop();
    assert_eq!((records[0].status, records[0].phases.len()), (Status::Partial, 1));
    let reason = records[0].reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("interrupted while the client's own error was measured"), "{reason}");
    let level = &records[0].phases[0];
    assert_eq!((level.interrupted, level.counts.answered), (false, 7), "its load was over");
    assert!(!level.is_client_error_known(), "what was cut short says nothing");
}
