//! A made-up fleet: the same numbers for the same seed. Twelve endpoints of three models, 14 days of eight probes a day, a daily
//! cycle, three regressions, an hour of a faulty prober, an endpoint that fails.
//!
//! Nothing here was measured.

#![allow(dead_code)]

use std::sync::Arc;
use tokrate_board::{BoardData, Change, ChangeKind, Claim, EndpointPrice, Metric, Point, Prober, Series, Source};
use tokrate_core::{FailureKind, Rng};

pub const NOW: i64 = 1_795_521_600_000; // 2026-11-24T12:00:00Z
pub const DAY: i64 = 86_400_000;

/// How an endpoint answers.
#[derive(Clone)]
pub struct Persona {
    pub provider: String,
    pub model: String,
    pub speed: f64,
    pub ttft_ms: f64,
    pub spread: f64,
    /// Depth of the daily cycle.
    pub cycle: f64,
    pub failing: f64,
    /// Days ago and factor on the speed.
    pub drop: Option<(f64, f64)>,
    pub price: (f64, f64),
}

pub struct Workload {
    pub name: &'static str,
    pub input: u32,
    pub output: u32,
    /// Factors on speed and TTFT.
    pub speed: f64,
    pub ttft: f64,
    pub loads: &'static [u32],
}

pub const WORKLOADS: [Workload; 3] = [
    Workload { name: "chat-1k", input: 1_000, output: 1_000, speed: 1.0, ttft: 1.0, loads: &[1] },
    Workload { name: "agent-10k", input: 10_000, output: 1_500, speed: 0.9, ttft: 2.6, loads: &[1] },
    Workload { name: "burst-1k", input: 1_000, output: 1_000, speed: 1.0, ttft: 1.1, loads: &[1, 4, 10] },
];

pub fn personas() -> Vec<Persona> {
    let persona = |provider: &str, model: &str, speed: f64, ttft_ms: f64, price: (f64, f64)| Persona {
        provider: provider.to_owned(),
        model: model.to_owned(),
        speed,
        ttft_ms,
        spread: 0.15,
        cycle: 0.15,
        failing: 0.004,
        drop: None,
        price,
    };
    let (small, large, open) = ("swift-8b", "steady-70b", "wise-400b");
    vec![
        Persona { spread: 0.08, cycle: 0.05, ..persona("northwind", large, 292.0, 240.0, (0.6, 0.8)) },
        Persona { drop: Some((3.2, 0.72)), ..persona("halcyon", large, 310.0, 280.0, (0.7, 0.9)) },
        persona("meridian", large, 284.0, 460.0, (0.5, 0.7)),
        Persona { cycle: 0.35, ..persona("tideline", large, 96.0, 620.0, (0.2, 0.3)) },
        Persona { failing: 0.14, ..persona("quickstep", large, 420.0, 210.0, (0.4, 0.5)) },
        persona("northwind", small, 870.0, 160.0, (0.1, 0.15)),
        persona("cobalt", small, 640.0, 130.0, (0.05, 0.08)),
        Persona { drop: Some((5.6, 0.8)), ..persona("tideline", small, 410.0, 320.0, (0.03, 0.05)) },
        persona("halcyon", open, 74.0, 900.0, (3.0, 9.0)),
        persona("meridian", open, 71.0, 1_250.0, (2.5, 8.0)),
        Persona { drop: Some((9.4, 0.85)), ..persona("cobalt", open, 66.0, 780.0, (2.0, 8.0)) },
        Persona { spread: 0.35, ..persona("lanternfish", open, 48.0, 1_600.0, (1.0, 3.0)) },
    ]
}

/// One series of a persona.
pub fn series(persona: &Persona, workload: &Workload, place: &str, days: u32, a_day: u32, rng: &Rng) -> Series {
    let endpoint = format!("{}/{}", persona.provider, persona.model);
    let mut rng = rng.child(&endpoint).child(workload.name).child(place);
    let far = if place == "fra" { 0.0 } else { 90.0 };
    let count = days * a_day;
    let slot = DAY / i64::from(a_day);
    let mut points = Vec::with_capacity(count as usize);
    for index in 0..count {
        let at = NOW - i64::from(count - index) * slot + (rng.unit() * slot as f64) as i64;
        let in_flight = workload.loads[index as usize % workload.loads.len()];
        points.push(request(persona, workload, (at, in_flight, far), &mut rng));
    }
    let conditions =
        [("tokenizer", "o200k_base"), ("connection", "reused"), ("streaming", "true"), ("temperature", "0")];
    Series {
        source: Source::Monitor,
        endpoint,
        provider: persona.provider.clone(),
        model: persona.model.clone(),
        workload: workload.name.to_owned(),
        place: place.to_owned(),
        fingerprint: "5f1c09ad".to_owned(),
        conditions: conditions.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        points,
    }
}

fn request(persona: &Persona, workload: &Workload, (at, in_flight, far): (i64, u32, f64), rng: &mut Rng) -> Point {
    let hour = (at.rem_euclid(DAY)) as f64 / DAY as f64 * std::f64::consts::TAU;
    let busy = 1.0 - persona.cycle * (0.5 - 0.5 * (hour - 0.6).cos());
    let noise = (persona.spread * rng.normal()).exp();
    let dropped = persona.drop.filter(|(ago, _)| (NOW - at) as f64 / (DAY as f64) < *ago).map_or(1.0, |(_, f)| f);
    let shared = f64::from(in_flight).powf(-0.28);
    let speed = persona.speed * workload.speed * busy * noise * dropped * shared;
    let ttft =
        (persona.ttft_ms * workload.ttft / busy) * (0.22 * rng.normal()).exp() * f64::from(in_flight).powf(0.35) + far;
    let e2e = ttft + f64::from(workload.output) / speed * 1_000.0;
    let mut point = Point {
        at,
        ttft_ms: Some(ttft as f32),
        output_speed: Some(speed as f32),
        e2e_ms: Some(e2e as f32),
        gap_p99_ms: Some((4_000.0 / speed * (0.3 * rng.normal()).exp()) as f32),
        in_flight,
        input_tokens: Some(workload.input),
        output_tokens: Some(workload.output),
        cost_usd: Some(
            ((f64::from(workload.input) * persona.price.0 + f64::from(workload.output) * persona.price.1) / 1e6) as f32,
        ),
        ..Point::default()
    };
    if rng.chance(persona.failing) {
        point.failure = Some(if rng.chance(0.6) { FailureKind::Overloaded } else { FailureKind::FirstTokenTimeout });
        point.reason = Some(Arc::from("503: the model is at capacity, try again later"));
    } else if rng.chance(0.01) {
        point.output_speed = None;
        point.reason = Some(Arc::from("no output speed: the answer came in one piece"));
    }
    // The prober's own network: four days ago, for three hours.
    let ago = (NOW - at) as f64 / DAY as f64;
    if (4.0..4.125).contains(&ago) || (4.5..4.9).contains(&ago) && at % 7 == 0 {
        point.ttft_ms = Some((ttft + 2_400.0) as f32);
        point.quarantine = Some(Arc::from("all unrelated providers were slower at once, and so was the reference"));
    }
    point
}

/// The whole board.
pub fn data() -> BoardData {
    let rng = Rng::root(20);
    let personas = personas();
    let mut all = Vec::new();
    for persona in &personas {
        for workload in &WORKLOADS {
            for place in ["fra", "iad"] {
                if place == "fra" || workload.name == "chat-1k" {
                    all.push(series(persona, workload, place, 14, 8, &rng));
                }
            }
        }
    }
    BoardData {
        now_unix_ms: NOW,
        title: "Example board".to_owned(),
        url: "https://speed.example.org/".to_owned(),
        series: all,
        events: events(&personas),
        probers: probers(),
        canaries: Vec::new(),
        prices: prices(&personas),
        claims: vec![Claim {
            model: "steady-70b".to_owned(),
            endpoint: "halcyon/steady-70b".to_owned(),
            metric: Metric::OutputSpeed,
            value: 500.0,
            source: "halcyon's own page".to_owned(),
            url: "https://halcyon.example.com/speed".to_owned(),
            date: "2026-10-02".to_owned(),
            computed: None,
        }],
        notices: vec!["All numbers here are invented: this is an example, nothing was measured.".to_owned()],
    }
}

pub fn prices(personas: &[Persona]) -> Vec<EndpointPrice> {
    let price = |persona: &Persona| EndpointPrice {
        endpoint: format!("{}/{}", persona.provider, persona.model),
        input_usd_per_million: persona.price.0,
        output_usd_per_million: persona.price.1,
        source: "price list".to_owned(),
        date: "2026-11-01".to_owned(),
    };
    personas.iter().map(price).collect()
}

pub fn events(personas: &[Persona]) -> Vec<Change> {
    let mut events = Vec::new();
    for persona in personas {
        let Some((ago, factor)) = persona.drop else { continue };
        let since = NOW - (ago * DAY as f64) as i64;
        events.push(Change {
            at: since + DAY,
            endpoint: format!("{}/{}", persona.provider, persona.model),
            workload: "chat-1k".to_owned(),
            place: "fra".to_owned(),
            metric: "output_speed".to_owned(),
            kind: ChangeKind::Regression,
            since,
            since_earliest: since - DAY / 8,
            since_latest: since + DAY / 4,
            until: None,
            change: Some(factor - 1.0),
            interval: Some((factor - 1.06, factor - 0.94)),
            p: 0.000_2,
            n: 17,
            remarks: vec![
                "The fingerprint of the stream changed at the same time: 4 tokens a chunk, 1 before.".to_owned(),
            ],
        });
    }
    let base = Change { kind: ChangeKind::Cycle, metric: "ttft_ms".to_owned(), ..events[0].clone() };
    events.push(Change {
        endpoint: "tideline/steady-70b".to_owned(),
        at: NOW - 2 * DAY,
        since: NOW - 6 * DAY,
        change: Some(0.9),
        interval: Some((0.6, 1.2)),
        remarks: Vec::new(),
        ..base.clone()
    });
    events.push(Change {
        kind: ChangeKind::Quarantine,
        endpoint: String::new(),
        metric: "all".to_owned(),
        at: NOW - 4 * DAY,
        since: NOW - 4 * DAY - DAY / 8,
        until: Some(NOW - 4 * DAY),
        change: None,
        interval: None,
        remarks: vec!["8 of 9 unrelated endpoints and the reference engine were slower in the same cycle.".to_owned()],
        ..base.clone()
    });
    events.push(Change {
        kind: ChangeKind::Suspect,
        endpoint: "cobalt/swift-8b".to_owned(),
        at: NOW - DAY / 2,
        since: NOW - DAY,
        change: Some(0.2),
        interval: Some((-0.05, 0.5)),
        p: 0.03,
        remarks: Vec::new(),
        ..base
    });
    events
}

pub fn probers() -> Vec<Prober> {
    let prober = |name: &str, place: &str, seen: i64| Prober {
        name: name.to_owned(),
        place: place.to_owned(),
        last_seen_unix_ms: Some(NOW - seen),
        silent_after_ms: 3_600_000,
        clock_skew_ms: Some(12.0),
        probes: 5_376,
        missed: 3,
        quarantined: 41,
        note: String::new(),
    };
    vec![prober("fra-1", "fra", 60_000), prober("iad-1", "iad", 120_000)]
}
