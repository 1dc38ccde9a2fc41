//! What a run says of an engine and of graphics processors beside it, held against engines whose truth is known: slots, cache and power
//! follow laws, and the run has to find them.

use std::sync::Arc;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::prompts::{Lengths, PromptSource};
use tokrate_bench::report::{Samples, html};
use tokrate_bench::schedule::ScheduleMode;
use tokrate_bench::{
    Calibration, Config, Limits, Observer, PhasePosition, Progress, Remote, RequestOptions, Sampling, ServerMetrics,
    Stop, Target, run,
};
use tokrate_core::Span;
use tokrate_engine::{Cluster, Engine, EngineArgs, SharedTime, Speculation, Work};
use tokrate_host::{FleetConfig, GpuLaw, Host, HostConfig};
use tokrate_meter::RequestNumbers;
use tokrate_net::Clock;
use tokrate_record::timeline::TimeSeries;
use tokrate_record::{LimitedBy, Record};
use tokrate_sim::{Law, Scheduled};

struct Silent;

impl Observer for Silent {
    fn probing(&mut self, _: usize) {}
    fn planned(&mut self, _: usize, _: &Forecast) {}
    fn phase_started(&mut self, _: PhasePosition, _: &PhaseSpec, _: &Arc<Progress>) {}
    fn calibrating(&mut self, _: PhasePosition) {}
    fn phase_ended(&mut self, _: PhasePosition, _: &Record, _: &[RequestNumbers]) {}
}

/// Tokens of a prompt where the test has no other wish.
const SHORT: u32 = 30;

/// A run of these levels against an engine, whose pages are read ten times a second.
fn measured(fleet: FleetConfig, levels: &[u32], requests: u64, prompt_tokens: u32, output_tokens: Lengths) -> Record {
    let host = Host::start(fleet).expect("it starts");
    let base = tokrate_net::Target::parse(&format!("http://{}/v1", host.address())).expect("an address");
    let page = |path: &str| ServerMetrics {
        target: base.clone(),
        path: path.to_owned(),
        unix_socket: None,
        family: None,
        headers: http::HeaderMap::new(),
    };
    let remote = Remote {
        provider: None,
        dialect: tokrate_wire::Dialect::OpenAiChat,
        price: None,
        server_metrics: Some(page("/metrics")),
        engine_host: None,
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
        base: base.clone(),
    };
    let level = |concurrency: &u32| PhaseSpec {
        load: Load::Closed { concurrency: *concurrency },
        extent: Extent::Requests(requests),
        warmup: u64::from(*concurrency),
        backoff: Backoff::Obey,
    };
    let config = Config {
        target: Target::Remote(Box::new(remote)),
        phases: levels.iter().map(level).collect(),
        schedule_mode: ScheduleMode::Listed,
        request: RequestOptions { output_tokens, ..RequestOptions::plain() },
        prompts: PromptSource::synthetic(prompt_tokens, 0),
        limits: Limits {
            connect: Span::from_secs(5),
            idle: Span::from_secs(20),
            total: Span::from_secs(60),
            wait: Span::from_secs(60),
            max_body_bytes: 1 << 20,
        },
        probe: false,
        keep_going: false,
        slos: Vec::new(),
        max_cost_usd: None,
        workers: None,
        calibration: Calibration::Off,
        sampling: Sampling {
            every: Span::from_millis(100),
            gpu_pages: vec![page("/gpu-metrics")],
            local_gpus: None,
            slice: Some(Span::from_millis(200)),
        },
        seed: 0,
        text_seed: 0,
        host: "h".to_owned(),
        machine: String::new(),
        region: String::new(),
        version: "0".to_owned(),
    };
    let records = run(&[config], Clock::monotonic(), &Stop::default(), &mut Silent).expect("it ran");
    host.stop();
    records.into_iter().next().expect("one target")
}

/// Two processors that reach their cap of 500 W with all places taken, of 1980 MHz below it.
const GPUS: GpuLaw = GpuLaw { count: 2, idle_watts: 100.0, peak_watts: 700.0, cap_watts: 500.0 };

fn within(found: Option<f64>, wanted: f64, share: f64) {
    assert!(found.is_some_and(|found| (found - wanted).abs() <= wanted * share), "{found:?} is not {wanted}");
}

#[test]
fn slots_that_are_full_and_the_power_of_their_law_are_found() {
    let law = Law {
        slots: 4,
        stream_tokens_per_second: 100.0,
        contention: 0.0,
        coherency: 0.0,
        base_delay: Span::from_millis(5),
        ..Law::default()
    };
    let fleet = FleetConfig::from(HostConfig { law, gpus: Some(GPUS), ..HostConfig::default() });
    let record = measured(fleet, &[1, 12], 30, SHORT, Lengths::Fixed(20));
    let [one, twelve] = &record.phases[..] else { panic!("two levels") };
    let sampled = |level: &tokrate_record::PhaseResult| level.sampled.clone().expect("it was read");
    let (alone, full) = (sampled(one), sampled(twelve));
    assert_eq!((full.gpus, full.running.map(|gauge| gauge.max)), (2, Some(4.0)));
    within(full.running.map(|gauge| gauge.mean), 4.0, 0.02);
    within(full.waiting.map(|gauge| gauge.mean), 8.0, 0.05);
    assert_eq!((full.preemptions, alone.waiting.map(|gauge| gauge.max)), (Some(0.0), Some(0.0)));
    // One of four places: 100 W and a quarter of 600 W; the moments between two requests are idle.
    within(alone.power.map(|gauge| gauge.mean), 500.0, 0.05);
    within(full.power.map(|gauge| gauge.mean), 1_000.0, 0.01);
    within(full.clock.map(|gauge| gauge.mean), 1_320.0, 0.01);
    assert_eq!(full.power_limit, Some(1_000.0));
    within(full.joules, 1_000.0 * full.seconds, 0.01);
    let tokens = twelve.throughput.as_ref().expect("a steady window").tokens;
    within(full.joules_per_token, full.joules.expect("known") / tokens as f64, 1e-9);
    // The slots limit, not the power: what runs at once is at its limit while the cache is empty.
    let limit = twelve.limit.as_ref().expect("it is evident");
    assert_eq!(limit.by, LimitedBy::Batch, "{limit:?}");
    assert!(limit.sentence.starts_with("running stays at 4 and "), "{limit:?}");
    assert_eq!(one.limit, None);

    let timeline = record.timeline.as_ref().expect("a run has one");
    assert_eq!((timeline.slice_seconds, timeline.gpus.len(), timeline.phases.len()), (0.2, 2, 2));
    let values = |series| timeline.values(series).unwrap_or_else(|| panic!("no {series:?}"));
    let sum = |series| values(series).iter().flatten().sum::<f64>();
    let counts = |of: fn(&tokrate_record::run::Counts) -> u64| (of(&one.counts) + of(&twelve.counts)) as f64;
    assert_eq!(sum(TimeSeries::Begun), counts(|counts| counts.started));
    assert_eq!((sum(TimeSeries::Answered), sum(TimeSeries::Failed)), (counts(|counts| counts.answered), 0.0));
    let written = counts(|counts| counts.answered) * 20.0;
    assert!((sum(TimeSeries::Throughput) * 0.2 - written).abs() < 1e-6, "every token lies in a slice");
    within(Some(sum(TimeSeries::EngineThroughput) * 0.2), written, 0.02);
    assert!(values(TimeSeries::Running).iter().flatten().all(|running| (0.0..=4.0).contains(running)));
    let page = html(&record, &Samples::default(), Vec::new());
    assert!(page.contains("The run over time") && page.contains("GPU power") && page.contains("batch is at its limit"));
}

#[test]
fn a_cache_that_is_full_is_found_to_limit() {
    // Twelve to thirteen of the requests fit, of the 64 that might run at once. Nearly all of a request is its prompt, so the cache is
    // full from the moment it is admitted. Answers of many lengths end one by one: where twelve end in the same step, a reading
    // before the next one finds the cache empty, which a busy machine makes likely.
    let args = EngineArgs { max_num_seqs: 64, num_blocks: 264, ..EngineArgs::default() };
    let engine = Engine::new(args, SharedTime::new(|_: &Work| Span::from_millis(5))).expect("an engine");
    let mut fleet = FleetConfig::from(HostConfig::default());
    fleet.providers[0].persona.scheduled = Some(Scheduled::new(Cluster::new(vec![engine]).expect("a cluster")));
    let record = measured(fleet, &[36], 120, 320, Lengths::Uniform { from: 20, to: 80 });
    let level = &record.phases[0];
    let sampled = level.sampled.as_ref().expect("it was read");
    let limit = level.limit.as_ref().unwrap_or_else(|| panic!("it is evident: {sampled:?}"));
    assert_eq!(limit.by, LimitedBy::KvCache, "{limit:?}");
    // No processors are published, which is a note and no failure.
    assert_eq!((sampled.gpus, sampled.joules, sampled.joules_missing.clone()), (0, None, None));
    assert!(record.notes.iter().any(|note| note.contains("gpu-metrics answers 404")), "{:?}", record.notes);
}

#[test]
fn the_share_of_a_draft_that_is_accepted_is_found() {
    let speculation = Some(Speculation { draft_tokens: 3, acceptance: 0.7 });
    let args = EngineArgs { max_num_seqs: 8, num_blocks: 4_000, speculation, ..EngineArgs::default() };
    let engine = Engine::new(args, SharedTime::new(|_: &Work| Span::from_millis(10))).expect("an engine");
    let mut fleet = FleetConfig::from(HostConfig::default());
    fleet.providers[0].persona.scheduled = Some(Scheduled::new(Cluster::new(vec![engine]).expect("a cluster")));
    let record = measured(fleet, &[4], 60, SHORT, Lengths::Fixed(120));
    let sampled = record.phases[0].sampled.as_ref().expect("it was read");
    // Of three proposals the first is kept with 0.7, the second with 0.7^2, the third with 0.7^3.
    within(sampled.speculation_accepted, (0.7 + 0.49 + 0.343) / 3.0, 0.05);
    // A client that is late with the next request leaves a place empty for as long.
    within(sampled.running.map(|gauge| gauge.mean), 4.0, 0.1);
    assert_eq!(sampled.running.map(|gauge| gauge.max), Some(4.0));
    assert!(sampled.prefix_cache_hits.is_some_and(|share| (0.0..1.0).contains(&share)), "{sampled:?}");
    assert_eq!(record.phases[0].limit, None, "nothing is full");
}
