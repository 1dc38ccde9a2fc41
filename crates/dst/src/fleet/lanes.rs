//! Fleets for tests and published tables: a fixed one, random ones, and the load that each can take.
//!
//! Invariant: a seed gives the same fleet on every machine. The fleets were fixed before any policy was measured on them.

use super::{FleetLane, FleetScenario, Workload};
use tokrate_core::{Price, Rng, Span};
use tokrate_route::{LoserPolicy, RaceConfig, RouterConfig};
use tokrate_sim::{Background, Change, Curve, Faults, Law, Limits, Persona, Timetable};

/// Share of the peak throughput that defines the knee of a lane.
const KNEE_SHARE: f64 = 0.8;

/// The concurrency at which an engine reaches four fifths of the peak throughput within its slots.
pub fn knee_of(persona: &Persona) -> u32 {
    let most = (1..=persona.law.slots).map(|n| throughput(persona, n)).fold(0.0, f64::max);
    (1..=persona.law.slots).find(|&n| throughput(persona, n) >= KNEE_SHARE * most).unwrap_or(1)
}

/// Calls per second of a fleet with every lane at its knee.
pub fn knee_throughput(lanes: &[FleetLane], workload: &Workload) -> f64 {
    let calls = |lane: &FleetLane| {
        let n = knee_of(&lane.persona);
        let speed = throughput(&lane.persona, n) / f64::from(n);
        let first = lane.persona.law.first_chunk_delay(workload.prompt_mean as u32) + lane.latency + lane.latency;
        let limit = lane.persona.limits.requests_per_minute.map_or(f64::INFINITY, |limit| f64::from(limit) / 60.0);
        (f64::from(n) / (first.as_secs_f64() + workload.output_mean / speed)).min(limit)
    };
    lanes.iter().map(calls).sum()
}

/// Total tokens per second of `n` streams beside the mean background load.
fn throughput(persona: &Persona, n: u32) -> f64 {
    f64::from(n) * persona.law.stream_speed(n + persona.background.streams.round() as u32)
}

impl FleetScenario {
    /// A fleet without races: one attempt at a time, with failover.
    pub fn of(seed: u64, lanes: Vec<FleetLane>, workload: Workload, selector: super::LaneSelector) -> FleetScenario {
        FleetScenario {
            seed,
            lanes,
            workload,
            selector,
            race: RaceConfig { first_token_limit: Span::from_secs(120), ..RaceConfig::default() },
            budget: None,
            router: RouterConfig::default(),
        }
    }
}

fn usd_per_million(input: f64, output: f64) -> Price {
    Price::from_usd_per_million(input, output).expect("prices here are small numbers")
}

impl FleetLane {
    fn new(name: &str, law: Law, latency: Span) -> FleetLane {
        let law = Law { tokens_per_chunk: 8, ..law };
        let persona = Persona { name: name.to_owned(), law, ..Persona::default() };
        FleetLane { persona, latency, loser: LoserPolicy::CancelEstimate }
    }

    /// Six of the eight personas of `examples/personas.toml`: those with comparable answers (without the reasoning one
    /// and the cheating one), with the laws, faults, background load, limits and timetables published there.
    pub fn published() -> Vec<FleetLane> {
        let ms = Span::from_millis;
        let lane = |name, law: Law, price: (f64, f64), latency| {
            let mut lane = FleetLane::new(name, law, latency);
            lane.persona.price = usd_per_million(price.0, price.1);
            lane
        };
        let law = Law::default;
        let fast = Law {
            base_delay: ms(25),
            stream_tokens_per_second: 450.0,
            prefill_tokens_per_second: 1e5,
            contention: 0.002,
            coherency: 0.0,
            slots: 64,
            ..law()
        };
        let mut swift = lane("swift", fast, (0.9, 3.6), ms(12));
        swift.persona.limits = Limits { requests_per_minute: Some(600), tokens_per_minute: Some(2_000_000) };
        let hosted =
            Law { base_delay: ms(180), stream_tokens_per_second: 95.0, gap_jitter: 0.25, ttft_jitter: 0.3, ..law() };
        let mut steady = lane("steady", hosted, (0.25, 1.0), ms(20));
        steady.persona.faults = faults(&["server_error=0.002", "disconnect=0.001"]);
        steady.persona.background =
            Background { streams: 6.0, jitter: 0.4, every: Span::from_secs(5), ..Background::default() };
        let narrow = Law {
            base_delay: ms(350),
            stream_tokens_per_second: 70.0,
            contention: 0.06,
            coherency: 0.002,
            slots: 12,
            queue_limit: Some(40),
            gap_jitter: 0.4,
            ..law()
        };
        let mut crowded = lane("crowded", narrow, (0.04, 0.12), ms(25));
        crowded.persona.background =
            Background { streams: 10.0, jitter: 0.8, every: Span::from_secs(2), ..Background::default() };
        let quick = Law { base_delay: ms(90), stream_tokens_per_second: 140.0, ..law() };
        let mut regressing = lane("regressing", quick, (0.2, 0.8), ms(15));
        regressing.persona.faults = faults(&["server_error=0.01", "stall=0.002"]);
        // Published at 10 and 30 minutes; the clock runs eight times as fast, so that both fall into the run.
        let change =
            |at, speed, ttft, faults| Change { at: Span::from_secs(at), speed, ttft, faults, replacement: None };
        regressing.persona.timetable.changes = vec![change(600, 0.7, 1.8, 3.0), change(1_800, 1.0, 1.0, 1.0)];
        regressing.persona.time_scale = 8.0;
        let day = Law { base_delay: ms(120), stream_tokens_per_second: 110.0, ..law() };
        let mut daily = lane("daily", day, (0.3, 0.9), ms(30));
        let hours = |hours: u64| Span::from_secs(3_600 * hours);
        daily.persona.time_scale = 1_440.0;
        let speed = Curve { period: hours(24), amplitude: 0.15, peak: hours(4) };
        daily.persona.timetable = Timetable { speed: Some(speed), ..Timetable::default() };
        daily.persona.background = Background {
            streams: 14.0,
            jitter: 0.2,
            every: Span::from_secs(600),
            curve: Some(Curve { period: hours(24), amplitude: 0.9, peak: hours(15) }),
        };
        let small = Law {
            base_delay: ms(15),
            stream_tokens_per_second: 32.0,
            prefill_tokens_per_second: 400.0,
            slots: 2,
            gap_jitter: 0.05,
            contention: 0.35,
            ..law()
        };
        vec![swift, steady, crowded, regressing, daily, lane("desk", small, (0.01, 0.02), Span::from_micros(200))]
    }

    /// Six random providers of one class: speed, contention, slots, delays, background load, prices, latency.
    pub fn random(seed: u64) -> Vec<FleetLane> {
        let root = Rng::root(seed).child("fleet");
        (0..6).map(|number| FleetLane::draw(&mut root.nth(number), number)).collect()
    }

    fn draw(rng: &mut Rng, number: u64) -> FleetLane {
        let law = Law {
            base_delay: Span::from_secs_f64(between(rng, 0.03, 0.4)),
            prefill_tokens_per_second: between(rng, 3_000.0, 50_000.0),
            stream_tokens_per_second: between(rng, 40.0, 250.0),
            contention: between(rng, 0.003, 0.05),
            coherency: between(rng, 1e-5, 1e-3),
            slots: between(rng, 16.0, 96.0) as u32,
            gap_jitter: between(rng, 0.05, 0.4),
            ttft_jitter: between(rng, 0.1, 0.5),
            ..Law::default()
        };
        let mut lane = FleetLane::new(&format!("lane-{number}"), law, Span::from_secs_f64(between(rng, 0.002, 0.04)));
        let output = between(rng, 0.1, 4.0);
        lane.persona.price = usd_per_million(output / 4.0, output);
        if rng.chance(0.5) {
            let streams = between(rng, 2.0, 12.0);
            lane.persona.background =
                Background { streams, jitter: 0.4, every: Span::from_secs(5), ..Background::default() };
        }
        lane
    }

    /// Two to four providers that have little in common: times to first token of 0.05 to 2 s, speeds of 20 to 300 tokens a
    /// second, steady or not. They slow down little under load, so that a race is not judged by the load it makes.
    pub fn unlike(seed: u64) -> Vec<FleetLane> {
        let root = Rng::root(seed).child("unlike");
        let count = 2 + root.child("count").below(3);
        let lane = |number: u64| {
            let mut rng = root.nth(number);
            let law = Law {
                base_delay: Span::from_secs_f64(between(&mut rng, 0.05, 2.0)),
                stream_tokens_per_second: between(&mut rng, 20.0, 300.0),
                contention: 0.001,
                coherency: 0.0,
                slots: 256,
                ttft_jitter: between(&mut rng, 0.05, 0.8),
                gap_jitter: between(&mut rng, 0.05, 0.4),
                ..Law::default()
            };
            FleetLane::new(&format!("unlike-{number}"), law, Span::from_secs_f64(between(&mut rng, 0.002, 0.04)))
        };
        (0..count).map(lane).collect()
    }

    /// Five providers with heavy-tailed times to first token: one in a hundred takes nineteen times the median.
    pub fn heavy_tailed(seed: u64) -> Vec<FleetLane> {
        let root = Rng::root(seed).child("tails");
        let lane = |number: u64| {
            let mut rng = root.nth(number);
            let law = Law {
                base_delay: Span::from_secs_f64(between(&mut rng, 0.2, 0.5)),
                stream_tokens_per_second: between(&mut rng, 80.0, 160.0),
                contention: 0.003,
                coherency: 0.0,
                slots: 256,
                // Log-normal: the median is 0.45 of the mean, the 99th percentile 8.5 of it.
                ttft_jitter: 2.0,
                gap_jitter: 0.2,
                ..Law::default()
            };
            let latency = Span::from_secs_f64(between(&mut rng, 0.002, 0.04));
            let mut lane = FleetLane::new(&format!("tail-{number}"), law, latency);
            let output = between(&mut rng, 0.5, 2.0);
            lane.persona.price = usd_per_million(output / 4.0, output);
            lane
        };
        (0..5).map(lane).collect()
    }
}

/// Log-uniform.
fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.unit())
}

fn faults(texts: &[&str]) -> Faults {
    let mut faults = Faults::default();
    texts.iter().for_each(|text| faults.set(text).expect("a fault of a fleet is well written"));
    faults
}
