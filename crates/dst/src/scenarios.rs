//! Scenarios of worlds, random or written by hand.
//!
//! Invariant: a seed gives the same scenario on every machine, and every scenario ends: each exchange has a time limit, and
//! nothing can loop forever at one tick.

use crate::link::LinkLaw;
use crate::text_style::TextStyle;
use tokrate_bench::plan::{Arrivals, Backoff, Extent, Growth, Load, PhaseSpec, Ramp, Think};
use tokrate_core::{RequestsPerSecond, Rng, Span, Tick};
use tokrate_sim::{AtToken, Background, Faults, Law, Limits as RateLimits};
use tokrate_wire::Dialect;

/// Start time; not 0, so that an unset tick is noticed.
pub const STARTED_AT: Tick = Tick::from_nanos(1_000_000_007);

/// Timeouts of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Idle timeout, from the last byte or from sending.
    pub idle: Span,
    /// Total timeout, from sending to the end.
    pub total: Span,
}

/// A world to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Seed of all randomness.
    pub seed: u64,
    /// Law of the engine.
    pub law: Law,
    /// Faults of the engine.
    pub faults: Faults,
    /// Its background load.
    pub background: Background,
    /// Its rate limits.
    pub rate_limits: RateLimits,
    /// The link of every request.
    pub link: LinkLaw,
    /// The dialect.
    pub dialect: Dialect,
    /// How words are rendered.
    pub text_style: TextStyle,
    /// The load.
    pub spec: PhaseSpec,
    /// Workers that share the plan.
    pub workers: u32,
    /// Prompt tokens of every request.
    pub input_tokens: u32,
    /// Output tokens of every request.
    pub output_tokens: u32,
    /// Whether usage is requested.
    pub include_usage: bool,
    /// Timeouts of clients.
    pub limits: Limits,
    /// When the run is interrupted.
    pub stop_at: Option<Tick>,
}

impl Scenario {
    /// One request after the other, no faults, an ideal link.
    pub fn plain(requests: u64) -> Scenario {
        Scenario {
            seed: 1,
            law: Law::default(),
            faults: Faults::default(),
            background: Background::default(),
            rate_limits: RateLimits::default(),
            link: LinkLaw::ideal(),
            dialect: Dialect::OpenAiChat,
            text_style: TextStyle::Plain,
            spec: PhaseSpec {
                load: Load::Closed { concurrency: 1 },
                extent: Extent::Requests(requests),
                warmup: 0,
                backoff: Backoff::Obey,
            },
            workers: 1,
            input_tokens: 100,
            output_tokens: 40,
            include_usage: true,
            limits: Limits { idle: Span::from_secs(20), total: Span::from_secs(120) },
            stop_at: None,
        }
    }

    /// Closed loop with this concurrency.
    pub fn closed(self, concurrency: u32) -> Scenario {
        Scenario { spec: PhaseSpec { load: Load::Closed { concurrency }, ..self.spec }, ..self }
    }

    /// Open loop.
    pub fn open(self, rate: f64, arrivals: Arrivals, in_flight_limit: u32) -> Scenario {
        let rate = RequestsPerSecond::new(rate).expect("a rate of a scenario is finite");
        Scenario { spec: PhaseSpec { load: Load::Open { rate, arrivals, in_flight_limit }, ..self.spec }, ..self }
    }

    /// With these faults, in command-line syntax.
    ///
    /// # Panics
    /// If one cannot be parsed.
    pub fn with_faults(mut self, faults: &[&str]) -> Scenario {
        faults.iter().for_each(|text| self.faults.set(text).expect("a fault of a scenario is well written"));
        self
    }

    /// A random scenario.
    pub fn swarm(seed: u64) -> Scenario {
        let mut rng = Rng::root(seed).child("swarm");
        let spec = draw_spec(&mut rng);
        let most_workers = spec.load.max_in_flight();
        let workers = if rng.chance(0.3) { 1 + rng.below(u64::from(most_workers.min(4))) as u32 } else { 1 };
        let stop_after = Span::from_millis(rng.below(3_000));
        Scenario {
            seed,
            law: draw_law(&mut rng),
            faults: draw_faults(&mut rng),
            background: Background::default(),
            rate_limits: RateLimits::default(),
            link: draw_link(&mut rng),
            dialect: Dialect::OpenAiChat,
            text_style: if rng.chance(0.5) { TextStyle::Plain } else { TextStyle::Mixed },
            spec,
            workers,
            input_tokens: rng.below(2_000) as u32,
            output_tokens: 1 + rng.below(120) as u32,
            include_usage: rng.chance(0.7),
            limits: Limits {
                idle: Span::from_millis(300 + rng.below(5_000)),
                total: Span::from_millis(if rng.chance(0.3) {
                    50 + rng.below(1_000)
                } else {
                    1_500 + rng.below(60_000)
                }),
            },
            stop_at: rng.chance(0.2).then(|| STARTED_AT + stop_after),
        }
    }
}

impl Scenario {
    /// As [`Scenario::swarm`], with a load of any shape, and rate limits obeyed or ignored.
    pub fn with_random_load(seed: u64) -> Scenario {
        let mut scenario = Scenario::swarm(seed);
        let mut rng = Rng::root(seed).child("shape");
        let (load, extent) = draw_load(&mut rng);
        let spec = &mut scenario.spec;
        spec.load = load;
        if let Some(extent) = extent {
            (spec.extent, spec.warmup) = (extent, 0);
        }
        spec.backoff = if rng.chance(0.6) { Backoff::Obey } else { Backoff::Ignore };
        scenario.workers = scenario.workers.min(scenario.spec.load.max_in_flight());
        if rng.chance(0.3) {
            scenario.faults.rate_limited = rng.unit() * 0.4;
        }
        scenario
    }
}

fn draw_spec(rng: &mut Rng) -> PhaseSpec {
    let load = if rng.chance(0.5) {
        Load::Closed { concurrency: 1 + rng.below(16) as u32 }
    } else {
        Load::Open {
            rate: RequestsPerSecond::new(1.0 + rng.unit() * 60.0).expect("finite"),
            arrivals: if rng.chance(0.5) { Arrivals::Poisson } else { Arrivals::Constant },
            in_flight_limit: 1 + rng.below(40) as u32,
        }
    };
    let extent = if rng.chance(0.6) {
        Extent::Requests(1 + rng.below(60))
    } else {
        Extent::Duration(Span::from_millis(1 + rng.below(2_500)))
    };
    PhaseSpec { load, extent, warmup: if rng.chance(0.5) { rng.below(8) } else { 0 }, backoff: Backoff::Ignore }
}

/// A load of any shape, and its extent if it implies one.
fn draw_load(rng: &mut Rng) -> (Load, Option<Extent>) {
    let arrivals = match rng.below(3) {
        0 => Arrivals::Constant,
        1 => Arrivals::Poisson,
        _ => Arrivals::Gamma { shape: 0.2 + rng.unit() * 4.0 },
    };
    let in_flight_limit = 1 + rng.below(40) as u32;
    let ramp = Ramp {
        from: 1.0 + rng.below(12) as f64,
        to: 1.0 + rng.below(12) as f64,
        growth: if rng.chance(0.5) { Growth::Linear } else { Growth::Exponential },
        over: Span::from_millis(100 + rng.below(2_500)),
    };
    let of_ramp = Some(Extent::Duration(ramp.over));
    match rng.below(10) {
        0..4 => (Load::Closed { concurrency: 1 + rng.below(16) as u32 }, None),
        4..7 => {
            let rate = RequestsPerSecond::new(1.0 + rng.unit() * 60.0).expect("finite");
            (Load::Open { rate, arrivals, in_flight_limit }, None)
        }
        7 => (Load::ClosedRamp { ramp }, of_ramp),
        8 => (Load::OpenRamp { ramp, arrivals, in_flight_limit }, of_ramp),
        _ => {
            let think = Span::from_millis(rng.below(300));
            let think = if rng.chance(0.5) { Think::Fixed(think) } else { Think::Exponential(think) };
            let sessions = 1 + rng.below(8) as u32;
            let load = Load::Sessions { sessions, turns: 1 + rng.below(4) as u32, think, tools: None };
            (load, Some(Extent::Sessions(u64::from(sessions) + rng.below(6))))
        }
    }
}

fn draw_law(rng: &mut Rng) -> Law {
    let mut some = |probability: f64| rng.chance(probability);
    let (queues, jitters, coalesces, reasons, chunks) = (some(0.4), some(0.5), some(0.3), some(0.3), some(0.4));
    Law {
        slots: 1 + rng.below(24) as u32,
        queue_limit: queues.then(|| rng.below(6) as u32),
        base_delay: Span::from_nanos(rng.below(80_000_000)),
        stream_tokens_per_second: 40.0 + rng.unit() * 2_000.0,
        tokens_per_chunk: if chunks { 1 + rng.below(8) as u32 } else { 1 },
        gap_jitter: if jitters { rng.unit() } else { 0.0 },
        ttft_jitter: if jitters { rng.unit() } else { 0.0 },
        reasoning_tokens: if reasons { rng.below(40) as u32 } else { 0 },
        coalesce: if coalesces { Span::from_millis(1 + rng.below(60)) } else { Span::ZERO },
        role_first: rng.chance(0.8),
        usage_every_chunk: rng.chance(0.2),
        ..Law::default()
    }
}

fn draw_faults(rng: &mut Rng) -> Faults {
    if rng.chance(0.3) {
        return Faults::default();
    }
    let mut now_and_then = || if rng.chance(0.4) { rng.unit() * 0.3 } else { 0.0 };
    let probabilities: [f64; 10] = std::array::from_fn(|_| now_and_then());
    let [rate_limited, server_error, stall, disconnect, malformed, error_event, missing_usage, empty, no_done, burst] =
        probabilities;
    let mut place = |probability: f64| AtToken {
        probability,
        token: if rng.chance(0.5) { Some(rng.below(12) as u32) } else { None },
    };
    let (stall, disconnect, malformed, error_event) =
        (place(stall), place(disconnect), place(malformed), place(error_event));
    Faults {
        rate_limited,
        retry_after: Span::from_secs(1 + rng.below(30)),
        server_error,
        server_error_status: 500 + rng.below(5) as u16,
        stall,
        disconnect,
        malformed,
        error_event,
        missing_usage,
        empty,
        no_done,
        burst,
        ..Faults::default()
    }
}

/// Latency is never zero here: requests that end at the tick of their start would make a closed loop with a duration
/// spin forever.
fn draw_link(rng: &mut Rng) -> LinkLaw {
    let mut law = LinkLaw::with_latency(Span::from_nanos(1 + rng.below(40_000_000)));
    if rng.chance(0.4) {
        law.jitter = Span::from_nanos(rng.below(5_000_000));
    }
    if rng.chance(0.3) {
        law.bytes_per_second = Some(20_000 + rng.below(1_000_000));
    }
    if rng.chance(0.3) {
        law.coalesce = Span::from_micros(1 + rng.below(30_000));
    }
    if rng.chance(0.6) {
        law.split = rng.unit() * 0.7;
        law.split_delay = Span::from_nanos(if rng.chance(0.5) { rng.below(4_000_000) } else { 0 });
    }
    if rng.chance(0.3) {
        law.stall = rng.unit() * 0.02;
        law.stall_for = Span::from_millis(rng.below(2_000));
    }
    if rng.chance(0.4) {
        law.reset = rng.unit() * 0.5;
        law.reset_within = if rng.chance(0.3) { rng.below(300) } else { rng.below(20_000) };
    }
    if rng.chance(0.2) {
        law.reset_late = rng.unit() * 0.1;
    }
    if rng.chance(0.2) {
        law.refused = rng.unit() * 0.2;
    }
    law
}
