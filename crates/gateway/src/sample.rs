//! A gateway with an hour of made-up traffic, for tests of what shows it. It opens no sockets, and the same seed gives
//! the same hour.

use crate::config::{AliasConfig, Config, EndpointConfig, LaneConfig, LogSettings};
use crate::state::lock::locked;
use crate::state::plan::Plan;
use crate::state::shared::Shared;
use crate::telemetry::{Observer, Snapshot};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokrate_core::{FailureKind, Price, Rng, Span, Tick};
use tokrate_net::{Clock, Target};
use tokrate_record::{Attempt as Row, AttemptEnd, AttemptRole, CostBasis, Sample};
use tokrate_route::{LaneId, LoserPolicy, Outcome};
use tokrate_wire::Dialect;

/// How a lane of the sample behaves.
struct LaneProfile {
    name: &'static str,
    provider: &'static str,
    model: &'static str,
    cap: Option<u32>,
    /// Without load (ms).
    ttft: f64,
    /// Without load (tok/s).
    speed: f64,
    /// Attempts in flight at which everything takes twice as long.
    half_at: f64,
    /// Calls per minute.
    rate: u64,
    failing: f64,
    price: f64,
}

const LANES: [LaneProfile; 5] = [
    LaneProfile {
        name: "openai",
        provider: "openai",
        model: "gpt-5.2-mini",
        cap: Some(64),
        ttft: 420.0,
        speed: 118.0,
        half_at: 48.0,
        rate: 31,
        failing: 0.01,
        price: 2.0,
    },
    LaneProfile {
        name: "anthropic-eu",
        provider: "anthropic",
        model: "claude-haiku-4-5",
        cap: Some(40),
        ttft: 610.0,
        speed: 164.0,
        half_at: 60.0,
        rate: 22,
        failing: 0.02,
        price: 5.0,
    },
    LaneProfile {
        name: "groq",
        provider: "groq",
        model: "gpt-oss-120b",
        cap: Some(16),
        ttft: 190.0,
        speed: 480.0,
        half_at: 9.0,
        rate: 17,
        failing: 0.05,
        price: 0.6,
    },
    LaneProfile {
        name: "local",
        provider: "vllm",
        model: "qwen3-coder-30b",
        cap: None,
        ttft: 95.0,
        speed: 72.0,
        half_at: 14.0,
        rate: 26,
        failing: 0.0,
        price: 0.0,
    },
    LaneProfile {
        name: "spare",
        provider: "together",
        model: "qwen3-coder-480b-a35b-instruct",
        cap: Some(8),
        ttft: 900.0,
        speed: 60.0,
        half_at: 30.0,
        rate: 0,
        failing: 1.0,
        price: 2.0,
    },
];

/// The wall time of most tests (ms since 1970).
pub const NOON_UNIX_MS: u64 = 1_795_262_400_000;

/// An attempt that was answered normally.
pub fn row(call: u64, lane: &str) -> Row {
    Row {
        call: format!("18a3f0c2d4e5f607-{call:x}"),
        won: true,
        alias: "fast".to_owned(),
        lane: lane.to_owned(),
        dialect_in: "openai-chat".into(),
        overhead_ns: Some(61_000),
        sample: Sample {
            started_unix_ms: NOON_UNIX_MS,
            provider: "example".to_owned(),
            model: "model-1".to_owned(),
            model_answered: Some("model-1-2026-01-01".to_owned()),
            dialect: "openai-chat".into(),
            stream: true,
            in_flight: 3,
            status: Some(200),
            wait_ns: Some(40_000),
            ttft_ns: Some(180_000_000),
            total_ns: 2_400_000_000,
            output_speed: Some(92.5),
            output_tokens_std: 204,
            input_tokens: Some(912),
            output_tokens: Some(210),
            cost_usd: Some(0.000_42),
            cost_basis: CostBasis::Reported,
            ..Sample::default()
        },
        ..Row::default()
    }
}

/// The same, having lost to another attempt.
pub fn lost(call: u64, lane: &str, number: u32) -> Row {
    let won = row(call, lane);
    Row {
        attempt: number,
        won: false,
        end: AttemptEnd::Lost,
        role: AttemptRole::Hedge,
        sample: Sample { ttft_ns: None, ..won.sample },
        ..won
    }
}

/// The same, having failed.
pub fn failed(call: u64, lane: &str, kind: FailureKind) -> Row {
    let won = row(call, lane);
    let (ttft_ns, output_speed, cost_usd) = (None, None, None);
    Row {
        won: false,
        end: AttemptEnd::Failed,
        sample: Sample { failure: Some(kind), ttft_ns, output_speed, cost_usd, ..won.sample },
        ..won
    }
}

/// A lane without a key, at an address that is never connected to.
pub fn lane_config(name: &str, provider: &str, model: &str, cap: Option<u32>) -> LaneConfig {
    let endpoint = EndpointConfig {
        dialect: Dialect::OpenAiChat,
        base: Target::parse("http://127.0.0.1:9/v1").expect("a URL"),
        headers: http::HeaderMap::new(),
        authorizer: None,
        no_stream_options: false,
        max_tokens_field: false,
    };
    LaneConfig {
        name: name.to_owned(),
        provider: provider.to_owned(),
        model: model.to_owned(),
        endpoints: vec![endpoint],
        price: Some(Price::default()),
        token_limits: crate::config::TokenLimits::default(),
        max_in_flight: cap,
        loser: LoserPolicy::CancelEstimate,
        curve: Vec::new(),
        forward_headers: Vec::new(),
        services: crate::config::ServicesConfig::default(),
        stream_whole: true,
    }
}

/// A gateway without sockets, whose clock stands still.
pub struct SampleGateway {
    pub(crate) shared: Arc<Shared>,
}

impl SampleGateway {
    /// A gateway with these lanes and no traffic.
    pub fn new(lanes: Vec<LaneConfig>) -> SampleGateway {
        let (clock, _) = Clock::manual(Tick::ZERO + Span::from_secs(100_000));
        let alias = AliasConfig {
            name: "fast".to_owned(),
            lanes: (0..lanes.len()).collect(),
            policy: tokrate_route::Policy::Fixed,
            mode: tokrate_route::Mode::Hedge,
            max_attempts: 3,
            budget: tokrate_route::BudgetConfig::default(),
            win: tokrate_route::WinRule::default(),
        };
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let config = Config { listen, lanes, aliases: vec![alias], ..Config::default() };
        let plan = Plan::resolve_blocking(&config, clock).expect("a plan");
        SampleGateway { shared: Arc::new(Shared::new(clock, plan, None)) }
    }

    /// A gateway with an hour of traffic that ends at a wall time (ms since 1970).
    pub fn with_traffic(now_unix_ms: u64) -> SampleGateway {
        let lanes = LANES.iter().map(|lane| lane_config(lane.name, lane.provider, lane.model, lane.cap)).collect();
        let sample = SampleGateway::new(lanes);
        let shared = &sample.shared;
        let mut rows = Vec::new();
        for (index, lane) in LANES.iter().enumerate() {
            train(shared, LaneId(index as u32), lane);
            rows.extend(hour_of_attempts(lane, now_unix_ms));
        }
        rows.sort_by_key(|row| row.sample.started_unix_ms + row.sample.total_ns / 1_000_000);
        rows.iter().for_each(|row| shared.stats.record(row));
        record_latest_calls(shared, now_unix_ms);
        shared.open_calls.store(23, Ordering::Relaxed);
        sample
    }

    /// The same with a throughput log that holds these rows; nothing that is recorded later is added to it.
    #[must_use]
    pub fn with_log(mut self, path: &std::path::Path, rows: &[Row]) -> SampleGateway {
        let mut file = tokrate_store::Sqlite::open(path).expect("a new log");
        file.append(rows).expect("room");
        drop(file);
        let settings = LogSettings { path: path.to_owned(), retention: None, shipping: None };
        let shared = Arc::get_mut(&mut self.shared).expect("nobody else has it yet");
        shared.log = Some(tokrate_store::Log::open(settings.store_config(shared.clock)).expect("a log"));
        self
    }

    /// The attempts of an hour that ends at a wall time (ms since 1970), as a log has them.
    pub fn hour(now_unix_ms: u64) -> Vec<Row> {
        let mut rows: Vec<Row> = LANES.iter().flat_map(|lane| hour_of_attempts(lane, now_unix_ms)).collect();
        for (index, row) in rows.iter_mut().enumerate() {
            row.key = [Some("ada"), Some("bob"), None][index % 3].map(str::to_owned);
            row.alias = ["fast", "reason"][index % 2].to_owned();
        }
        rows
    }

    /// Records an attempt.
    pub fn record(&self, row: &Row) {
        self.shared.stats.record(row);
    }

    /// What an admin side is made with.
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::clone(&self.shared), self.shared.clock.now() - UPTIME)
    }

    /// Its state as if that were the wall time (ms since 1970).
    pub fn snapshot(&self, now_unix_ms: u64) -> Snapshot {
        Snapshot { now_unix_ms, resident_bytes: Some(37 << 20), ..self.observer().snapshot() }
    }
}

/// The sample's uptime.
const UPTIME: Span = Span::from_secs(7_512);

/// Trains the router on a lane.
fn train(shared: &Shared, lane: LaneId, profile: &LaneProfile) {
    let mut rng = Rng::root(7).child(profile.name);
    let plan = shared.plan();
    let mut router = locked(&plan.router);
    let now = shared.clock.now();
    let outcome = |speed| Outcome { prompt_tokens: 900, output_tokens: 200, output_speed: speed, ..Outcome::default() };
    for round in 0..if profile.rate == 0 { 0 } else { 60u64 } {
        let load = 1 + round % (profile.half_at as u64 / 2 + 3);
        let slow = 1.0 + load as f64 / profile.half_at;
        let at = now - Span::from_secs(300 - 5 * round);
        let started: Vec<_> = (0..load).map(|_| router.start(lane, at)).collect();
        for mut started in started {
            let ttft = Span::from_secs_f64(profile.ttft / 1e3 * slow * rng.log_normal(0.3));
            router.first_token(&mut started, at + ttft, ttft, 900);
            router.finish(
                started,
                at + ttft + Span::from_secs(2),
                &outcome(Some(profile.speed / slow * rng.log_normal(0.05))),
            );
        }
    }
    if profile.failing >= 1.0 {
        for _ in 0..6 {
            let started = router.start(lane, now);
            router.finish(started, now, &Outcome { failure: Some(FailureKind::ServerError), ..Outcome::default() });
        }
    }
    // These stay in flight for the rest of the test.
    let open = (profile.half_at / 5.0) as u64 * u64::from(profile.rate > 0);
    for _ in 0..open {
        let _in_flight = router.start(lane, now);
    }
}

/// An hour of attempts.
fn hour_of_attempts(profile: &LaneProfile, now_unix_ms: u64) -> Vec<Row> {
    let mut rng = Rng::root(11).child(profile.name);
    let mut rows = Vec::new();
    for minute in 0..60u64 {
        let tide = 1.0 + 0.5 * (minute as f64 / 9.0).sin() + if (38..44).contains(&minute) { 0.9 } else { 0.0 };
        let silent = profile.name == "groq" && (15..22).contains(&minute);
        let calls = if silent { 0 } else { (profile.rate as f64 * tide) as u64 };
        for number in 0..calls {
            let started_unix_ms = now_unix_ms - (60 - minute) * 60_000 + number * 60_000 / calls.max(1);
            let slow = 0.7 + 0.5 * tide;
            let ttft = (profile.ttft * slow * rng.log_normal(0.35) * 1e6) as u64;
            let speed = profile.speed / slow * rng.log_normal(0.08);
            let tokens = 40 + rng.below(400);
            let cost = profile.price * tokens as f64 / 1e6 * 2.0;
            let call = minute * 1_000_000 + number * 1_000 + rng.below(1_000);
            let usual = Row {
                lane: profile.name.to_owned(),
                overhead_ns: Some(48_000 + rng.exponential(Span::from_micros(14)).as_nanos()),
                sample: Sample {
                    provider: profile.provider.to_owned(),
                    model: profile.model.to_owned(),
                    model_answered: None,
                    started_unix_ms,
                    ttft_ns: Some(ttft),
                    total_ns: ttft + (tokens as f64 / speed * 1e9) as u64,
                    output_speed: Some(speed),
                    output_tokens: Some(tokens),
                    in_flight: 1 + rng.below((profile.half_at / 2.0) as u64 + 3) as u32,
                    cost_usd: Some(cost),
                    ..row(call, profile.name).sample
                },
                ..row(call, profile.name)
            };
            let kinds = [FailureKind::RateLimited, FailureKind::Overloaded, FailureKind::Stalled];
            let row = match () {
                () if rng.chance(profile.failing) => {
                    let kind = kinds[rng.below(3) as usize];
                    let (ttft_ns, output_speed, cost_usd) = (None, None, None);
                    let end = AttemptEnd::Failed;
                    Row {
                        won: false,
                        end,
                        sample: Sample { failure: Some(kind), ttft_ns, output_speed, cost_usd, ..usual.sample },
                        ..usual
                    }
                }
                () if rng.chance(0.07) => {
                    let (role, end) = (AttemptRole::Hedge, AttemptEnd::Lost);
                    let cost_usd = Some(cost * 0.4);
                    Row {
                        won: false,
                        attempt: 1,
                        role,
                        end,
                        sample: Sample { ttft_ns: None, output_speed: None, cost_usd, ..usual.sample },
                        ..usual
                    }
                }
                () => usual,
            };
            rows.push(row);
        }
    }
    rows
}

/// The last calls, with every kind of ending.
fn record_latest_calls(shared: &Shared, now_unix_ms: u64) {
    for number in 0..9u64 {
        let name = ["openai", "local", "anthropic-eu"][number as usize % 3];
        let ttft = 150_000_000 + number * 53_000_000;
        let total_ns = ttft + 1_100_000_000 + number * 171_000_000;
        let alias = ["fast", "reason", "compact"][number as usize % 3].to_owned();
        let plain = Row {
            alias,
            sample: Sample { ttft_ns: Some(ttft), total_ns, ..row(900_000_000 + number, name).sample },
            ..row(900_000_000 + number, name)
        };
        record(shared, now_unix_ms, 21_000 - number * 900, of_lane(name, plain));
    }
    record_hedges(shared, now_unix_ms);
    record_failovers(shared, now_unix_ms);
    record_endings(shared, now_unix_ms);
}

/// The row as one of a lane of the sample.
fn of_lane(name: &str, row: Row) -> Row {
    let profile = LANES.iter().find(|lane| lane.name == name).expect("a lane of the sample");
    let (provider, model) = (profile.provider.to_owned(), profile.model.to_owned());
    Row { lane: name.to_owned(), sample: Sample { provider, model, model_answered: None, ..row.sample }, ..row }
}

/// Counts a row that began `ago` milliseconds before now.
fn record(shared: &Shared, now_unix_ms: u64, ago: u64, row: Row) {
    shared.stats.record(&Row { sample: Sample { started_unix_ms: now_unix_ms - ago, ..row.sample }, ..row });
}

/// A hedge that won, one that lost.
fn record_hedges(shared: &Shared, now_unix_ms: u64) {
    record(
        shared,
        now_unix_ms,
        9_000,
        of_lane(
            "openai",
            Row {
                role: AttemptRole::First,
                sample: Sample { total_ns: 1_020_000_000, ..lost(910, "openai", 0).sample },
                ..lost(910, "openai", 0)
            },
        ),
    );
    let won = row(910, "groq");
    record(
        shared,
        now_unix_ms,
        8_180,
        of_lane(
            "groq",
            Row {
                attempt: 1,
                role: AttemptRole::Hedge,
                sample: Sample { output_speed: Some(455.0), ..won.sample },
                ..won
            },
        ),
    );
    record(
        shared,
        now_unix_ms,
        6_390,
        of_lane(
            "anthropic-eu",
            Row {
                sample: Sample { total_ns: 390_000_000, ..lost(911, "anthropic-eu", 1).sample },
                ..lost(911, "anthropic-eu", 1)
            },
        ),
    );
    record(
        shared,
        now_unix_ms,
        7_000,
        of_lane(
            "openai",
            Row { sample: Sample { ttft_ns: Some(960_000_000), ..row(911, "openai").sample }, ..row(911, "openai") },
        ),
    );
}

/// A failover, a race whose loser was drained.
fn record_failovers(shared: &Shared, now_unix_ms: u64) {
    let refused = Row {
        sample: Sample {
            status: Some(429),
            total_ns: 210_000_000,
            ..failed(912, "groq", FailureKind::RateLimited).sample
        },
        ..failed(912, "groq", FailureKind::RateLimited)
    };
    record(shared, now_unix_ms, 5_000, of_lane("groq", refused));
    record(
        shared,
        now_unix_ms,
        4_790,
        of_lane("local", Row { attempt: 1, role: AttemptRole::Failover, ..row(912, "local") }),
    );
    record(shared, now_unix_ms, 4_000, of_lane("local", Row { role: AttemptRole::First, ..row(913, "local") }));
    let slower = Row {
        role: AttemptRole::Race,
        sample: Sample { ttft_ns: Some(540_000_000), ..lost(913, "groq", 1).sample },
        ..lost(913, "groq", 1)
    };
    record(shared, now_unix_ms, 4_000, of_lane("groq", slower));
}

/// A client that left, a stream that broke, a lane that failed, a model that was not asked for, an answer in one piece.
fn record_endings(shared: &Shared, now_unix_ms: u64) {
    let whole = Sample {
        stream: false,
        ttft_ns: None,
        output_speed: None,
        answer_ns: Some(2_350_000_000),
        total_ns: 2_350_000_000,
        ..row(918, "local").sample
    };
    record(shared, now_unix_ms, 3_500, of_lane("local", Row { sample: whole, ..row(918, "local") }));
    let left = Row {
        end: AttemptEnd::Abandoned,
        sample: Sample { cost_basis: CostBasis::Estimated, ..row(914, "anthropic-eu").sample },
        ..row(914, "anthropic-eu")
    };
    record(
        shared,
        now_unix_ms,
        3_000,
        of_lane("anthropic-eu", Row { sample: Sample { total_ns: 1_700_000_000, ..left.sample }, ..left }),
    );
    let broke = Row {
        won: true,
        sample: Sample { ttft_ns: Some(300_000_000), ..failed(915, "openai", FailureKind::Truncated).sample },
        ..failed(915, "openai", FailureKind::Truncated)
    };
    record(shared, now_unix_ms, 2_000, of_lane("openai", broke));
    record(
        shared,
        now_unix_ms,
        1_400,
        of_lane(
            "spare",
            Row {
                sample: Sample { status: Some(503), ..failed(916, "spare", FailureKind::ServerError).sample },
                ..failed(916, "spare", FailureKind::ServerError)
            },
        ),
    );
    let other = Some("qwen3-coder-30b-a3b-awq".to_owned());
    record(
        shared,
        now_unix_ms,
        1_000,
        Row {
            sample: Sample { model_answered: other, ..of_lane("local", row(917, "local")).sample },
            ..of_lane("local", row(917, "local"))
        },
    );
}
