//! Random gateway scenarios: lanes and their faults, aliases, keys, clients, reloads, disk faults.
//!
//! Invariant: a seed gives the same scenario on every machine, and every scenario ends.

use super::disk::{DiskFault, DiskOutage};
use super::pipe::PipeLaw;
use super::response::{LaneFaults, MAX_TOKENS};
use http::HeaderMap;
use tokrate_core::{ChatRequest, Message, Money, Price, Rng, Role, Span, Tick};
use tokrate_gateway::{
    AliasConfig, BudgetConfig, Config, CurvePoint, EndpointConfig, KeyConfig, KeyLimits, LaneConfig, LimitsConfig,
    LogSettings, LoserPolicy, Mode, Policy, ServicesConfig, TokenLimits, WinRule, key_hash,
};
use tokrate_net::{ClientConfig, Target};
use tokrate_wire::{Dialect, Shape, encode_request};

/// Start time; not 0, so that an unset tick is noticed.
pub const STARTED_AT: Tick = Tick::from_nanos(1_000_000_007);

/// Paths that pass byte for byte. Sound, which is passed on as it comes, most often: of it most can be cut.
const PASSED: [&str; 5] = ["/embeddings", "/audio/speech", "/rerank", "/audio/speech", "/images/generations"];

/// A gateway scenario.
#[derive(Clone, Debug)]
pub struct GatewayScenario {
    /// Seed of all randomness.
    pub seed: u64,
    /// Wall time at the start (Unix seconds).
    pub wall_seconds: u64,
    /// The first configuration.
    pub config: Config,
    /// Faults of each lane.
    pub lanes: Vec<LaneFaults>,
    /// Connections to lanes.
    pub lane_law: PipeLaw,
    /// The clients.
    pub clients: Vec<Client>,
    /// Reloads by time.
    pub reloads: Vec<(Span, Reload)>,
    /// Jumps of the wall clock (seconds) by time.
    pub jumps: Vec<(Span, i64)>,
    /// Faults of the disk of the log.
    pub disk: Vec<DiskOutage>,
    /// Capacity of the log queue, in rows.
    pub queue_rows: usize,
    /// When the gateway is stopped.
    pub stop_after: Span,
}

/// A new configuration.
#[derive(Clone, Debug)]
pub struct Reload {
    /// The configuration.
    pub config: Config,
    /// Whether it is valid.
    pub is_valid: bool,
}

/// A client: a sequence of calls over one connection if possible.
#[derive(Clone, PartialEq, Debug)]
pub struct Client {
    /// When it starts.
    pub at: Span,
    /// Its connections.
    pub law: PipeLaw,
    /// Its calls.
    pub calls: Vec<Call>,
}

/// One call of a client.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// The wait before it.
    pub pause: Span,
    /// Index of the key that is sent.
    pub key: Option<usize>,
    /// The dialect; `None` for what passes byte for byte.
    pub dialect: Option<Dialect>,
    /// The requested shape.
    pub shape: Shape,
    /// The request, head and body.
    pub request: Vec<u8>,
    /// Whether the request is valid.
    pub is_sound: bool,
    /// How the request is sent.
    pub sends: SendPattern,
    /// How the response is read.
    pub reads: ReadPattern,
    /// The client disconnects after this time, whatever it has received.
    pub disconnects_after: Option<Span>,
}

/// How a request is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendPattern {
    /// All at once.
    AtOnce,
    /// In pieces.
    Slowly {
        /// How many.
        bytes: usize,
        /// The wait after each.
        every: Span,
    },
    /// Only this many bytes; then the client disconnects.
    Cut(usize),
}

/// How an answer is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPattern {
    /// As fast as it arrives.
    All,
    /// So many bytes at a time.
    Slowly {
        /// How many.
        bytes: usize,
        /// The wait after each.
        every: Span,
    },
    /// Up to this many bytes; then the client disconnects.
    Disconnects {
        /// How many.
        after: usize,
    },
    /// Pauses after this many bytes.
    Pauses {
        /// How many.
        after: usize,
        /// For how long.
        pause: Span,
    },
}

impl GatewayScenario {
    /// One client, one lane, one call, no faults.
    pub fn plain(seed: u64) -> GatewayScenario {
        let lanes =
            vec![LaneFaults { first: Span::from_millis(200), gap: Span::from_millis(20), ..LaneFaults::default() }];
        let law = PipeLaw { capacity: 65_536, max_read: 65_536 };
        let mut rng = Rng::root(seed).child("plain");
        let config = Config {
            lanes: vec![lane(&mut rng, 0, LoserPolicy::Free)],
            aliases: vec![AliasConfig { mode: Mode::Off, ..alias(&mut rng, "a0", vec![0]) }],
            ..Config::default()
        };
        let call = Call {
            pause: Span::ZERO,
            key: None,
            dialect: Some(Dialect::OpenAiChat),
            shape: Shape::Stream,
            request: request(&mut rng, Some(Dialect::OpenAiChat), Shape::Stream, "a0", None),
            is_sound: true,
            sends: SendPattern::AtOnce,
            reads: ReadPattern::All,
            disconnects_after: None,
        };
        GatewayScenario {
            seed,
            wall_seconds: 1_795_000_000,
            config,
            lanes,
            lane_law: law,
            clients: vec![Client { at: Span::from_millis(10), law, calls: vec![call] }],
            reloads: Vec::new(),
            jumps: Vec::new(),
            disk: Vec::new(),
            queue_rows: 100,
            stop_after: Span::from_secs(60),
        }
    }

    /// One call of one client, hedged on a second lane; both lanes are silent. The client leaves after this time, if it does.
    pub fn hedged(leaves_after: Option<Span>) -> GatewayScenario {
        // One whose client leaves the mode to the alias.
        let asks_for_a_mode = |scenario: &GatewayScenario| {
            String::from_utf8_lossy(&scenario.clients[0].calls[0].request).contains("x-tokrate-mode")
        };
        let mut plain = (1..).map(GatewayScenario::plain);
        let mut scenario = plain.find(|scenario| !asks_for_a_mode(scenario)).expect("most have none");
        let mut rng = Rng::root(1).child("hedged");
        scenario.lanes = vec![LaneFaults { first: Span::from_secs(36_000), ..LaneFaults::default() }; 2];
        scenario.config.lanes = (0..2)
            .map(|place| LaneConfig {
                curve: vec![CurvePoint { ttft_p90: Span::from_millis(300), ..curve_point(&mut Rng::root(2)) }],
                max_in_flight: None,
                ..lane(&mut rng, place, LoserPolicy::Free)
            })
            .collect();
        scenario.config.aliases = vec![AliasConfig {
            mode: Mode::Hedge,
            policy: Policy::Fixed,
            max_attempts: 2,
            budget: BudgetConfig { extra_share: 1.0, ..BudgetConfig::default() },
            ..alias(&mut rng, "a0", vec![0, 1])
        }];
        scenario.clients[0].calls[0].disconnects_after = leaves_after;
        scenario
    }

    /// A random scenario.
    pub fn swarm(seed: u64) -> GatewayScenario {
        let root = Rng::root(seed).child("gateway");
        let mut rng = root.child("world");
        let lanes: Vec<LaneFaults> = (0..1 + rng.below(4)).map(|_| faults(&mut rng)).collect();
        let budgets: Vec<bool> = (0..rng.below(4)).map(|_| rng.chance(0.4)).collect();
        let (config, keys) = (config(&mut root.child("config"), lanes.len(), &budgets), budgets.len());
        let mut reloading = root.child("reloads");
        let reloads = (0..rng.below(4))
            .map(|_| (Span::from_millis(rng.below(40_000)), reload(&mut reloading, &config, &budgets)))
            .collect();
        let most = config.limits.send;
        let mut calling = root.child("clients");
        let clients = (0..1 + rng.below(20)).map(|_| client(&mut calling, keys, most)).collect();
        // The last minutes of a month, so that budgets roll over.
        let wall_seconds = 1_796_083_200 - rng.below(300);
        GatewayScenario {
            seed,
            wall_seconds,
            config,
            lane_law: law(&mut rng),
            lanes,
            clients,
            reloads,
            jumps: jumps(&mut rng),
            disk: disk(&mut rng),
            queue_rows: if rng.chance(0.2) { 1 + rng.below(4) as usize } else { 1_000 },
            stop_after: Span::from_millis(if rng.chance(0.5) { rng.below(40_000) } else { 400_000 }),
        }
    }
}

fn law(rng: &mut Rng) -> PipeLaw {
    let size = |rng: &mut Rng| 1_usize << (4 + rng.below(13));
    PipeLaw { capacity: size(rng).max(64), max_read: size(rng) }
}

fn faults(rng: &mut Rng) -> LaneFaults {
    // Most lanes are healthy; the others have a few kinds of faults, occasionally or always.
    let level = [0.0, 0.1, 0.3, 0.8, 1.5][rng.below(5) as usize];
    let mut draw = |most: f64| if rng.chance(0.5) { most * level } else { 0.0 };
    LaneFaults {
        refused: draw(0.5),
        unreachable: draw(0.2),
        broken: draw(0.8),
        stalled: draw(0.3),
        garbled: draw(0.3),
        refusal: draw(0.6),
        error_event: draw(0.4),
        wrong_length: draw(0.5),
        empty: draw(0.4),
        uncounted: draw(1.0),
        closes: draw(0.8),
        stale: draw(0.8),
        first: Span::from_millis(1 + rng.below(1_500)),
        gap: Span::from_millis(rng.below(150)),
    }
}

/// `budgets` says which keys have a budget: one that gets a budget by a reload is looked up in the log.
fn config(rng: &mut Rng, lanes: usize, budgets: &[bool]) -> Config {
    let losers = [
        LoserPolicy::CancelEstimate,
        LoserPolicy::Free,
        LoserPolicy::DrainExact { max_time: Span::from_secs(5), max_bytes: 100_000 },
        LoserPolicy::DrainExact { max_time: Span::from_millis(200), max_bytes: 500 },
    ];
    let lane_configs = (0..lanes).map(|place| {
        let loser = losers[rng.below(4) as usize];
        lane(rng, place, loser)
    });
    let lane_configs = lane_configs.collect();
    let aliases = (0..2).map(|number| {
        let first = rng.below(lanes as u64) as usize;
        let count = 1 + rng.below(lanes as u64) as usize;
        alias(rng, &format!("a{number}"), (0..count).map(|nth| (first + nth) % lanes).collect())
    });
    let aliases = aliases.collect();
    let keys = budgets.iter().enumerate().map(|(place, has_budget)| key(rng, place, *has_budget)).collect();
    Config {
        workers: 1 + rng.below(2) as usize,
        client: ClientConfig { connect_timeout: Span::from_secs(2), reuse: rng.chance(0.8), ..ClientConfig::default() },
        lanes: lane_configs,
        aliases,
        keys,
        limits: limits(rng),
        // Budgets need a log; the file is the simulated one.
        log: Some(LogSettings { path: "/simulated/log.db".into(), retention: None, shipping: None }),
        drain: Span::from_millis(rng.below(10_000)),
        seed: rng.next_u64(),
        ..Config::default()
    }
}

fn lane(rng: &mut Rng, place: usize, loser: LoserPolicy) -> LaneConfig {
    let endpoint = |rng: &mut Rng| EndpointConfig {
        dialect: Dialect::ALL[rng.below(Dialect::ALL.len() as u64) as usize],
        base: Target::parse(&format!("http://10.0.0.{}/v1", place + 1)).expect("a URL"),
        headers: HeaderMap::new(),
        authorizer: None,
        no_stream_options: rng.chance(0.2),
        max_tokens_field: rng.chance(0.2),
    };
    let mut endpoints = vec![endpoint(rng)];
    if rng.chance(0.3) {
        let second = endpoint(rng);
        endpoints.extend(Some(second).filter(|second| second.dialect != endpoints[0].dialect));
    }
    let (input, output) = (rng.unit() * 5.0, rng.unit() * 20.0);
    let price = rng.chance(0.8).then(|| Price::from_usd_per_million(input, output).expect("small numbers"));
    LaneConfig {
        name: format!("lane{place}"),
        provider: "p".to_owned(),
        model: format!("m{place}"),
        endpoints,
        price,
        max_in_flight: rng.chance(0.2).then(|| 1 + rng.below(4) as u32),
        loser,
        // With a curve, hedges start from the first call on.
        curve: if rng.chance(0.5) { vec![curve_point(rng)] } else { Vec::new() },
        forward_headers: Vec::new(),
        services: ServicesConfig::default(),
        stream_whole: rng.chance(0.8),
        token_limits: TokenLimits { input: None, output: rng.chance(0.5).then_some(MAX_TOKENS) },
    }
}

fn curve_point(rng: &mut Rng) -> CurvePoint {
    CurvePoint {
        in_flight: 1,
        prompt_tokens: 100,
        ttft: Span::from_millis(1 + rng.below(300)),
        ttft_p90: Span::from_millis(10 + rng.below(600)),
        output_speed: 10.0 + rng.unit() * 100.0,
        n: 20,
    }
}

fn alias(rng: &mut Rng, name: &str, lanes: Vec<usize>) -> AliasConfig {
    let policies: Vec<Policy> = Policy::without_parameters().collect();
    let mode = match rng.below(4) {
        0 => Mode::Off,
        1 => Mode::Race { lanes: 2 + rng.below(2) as usize },
        _ => Mode::Hedge,
    };
    AliasConfig {
        name: name.to_owned(),
        lanes,
        policy: policies[rng.below(policies.len() as u64) as usize],
        mode,
        max_attempts: 1 + rng.below(4) as usize,
        budget: BudgetConfig {
            extra_share: [0.1, 0.5, 1.0, 2.0][rng.below(4) as usize],
            burst: 10.0,
            max_extra_cost_pct: rng.chance(0.2).then(|| rng.unit() * 200.0),
            max_extra_usd_per_hour: rng.chance(0.2).then(|| rng.unit() * 0.01),
        },
        win: match rng.chance(0.3) {
            true => WinRule::Completion { hold: rng.below(300) as f64 / 300.0 },
            false => WinRule::FirstToken,
        },
    }
}

fn key(rng: &mut Rng, place: usize, has_budget: bool) -> KeyConfig {
    let limits = KeyLimits {
        requests_per_minute: rng.chance(0.3).then(|| 1 + rng.below(20) as u32),
        tokens_per_minute: rng.chance(0.3).then(|| 50 + rng.below(5_000)),
        streams: rng.chance(0.4).then(|| 1 + rng.below(4) as u32),
        usd_per_month: if has_budget { Money::from_usd(rng.unit() * 0.01) } else { None },
    };
    let aliases = if rng.chance(0.2) { vec!["a0".to_owned()] } else { Vec::new() };
    KeyConfig { name: format!("key{place}"), sha256: key_hash(&format!("sk-{place}")), aliases, limits }
}

fn limits(rng: &mut Rng) -> LimitsConfig {
    LimitsConfig {
        body: Span::from_secs(1 + rng.below(10)),
        first_token: Span::from_secs(1 + rng.below(10)),
        gap: Span::from_secs(1 + rng.below(5)),
        total: Span::from_secs(3 + rng.below(30)),
        send: Span::from_secs(1 + rng.below(20)),
        request_bytes: 2_000,
        answer_bytes: if rng.chance(0.2) { 1_000 } else { 1 << 20 },
        calls: if rng.chance(0.2) { 1 + rng.below(3) as usize } else { 1_000 },
        ..LimitsConfig::default()
    }
}

fn reload(rng: &mut Rng, begun: &Config, budgets: &[bool]) -> Reload {
    let mut config = config(rng, begun.lanes.len(), budgets);
    // Keys keep their names and may get other limits; some stay unchanged.
    for (new, old) in config.keys.iter_mut().zip(&begun.keys) {
        if rng.chance(0.5) {
            *new = old.clone();
        }
    }
    let is_valid = rng.chance(0.8);
    if !is_valid {
        match rng.below(3) {
            0 => config.lanes.clear(),
            1 => config.aliases[0].lanes.clear(),
            _ => config.aliases[1].name = config.aliases[0].name.clone(),
        }
    }
    Reload { config, is_valid }
}

fn client(rng: &mut Rng, keys: usize, send_limit: Span) -> Client {
    let calls = (0..1 + rng.below(3)).map(|_| call(rng, keys, send_limit)).collect();
    Client { at: Span::from_millis(rng.below(40_000)), law: law(rng), calls }
}

fn call(rng: &mut Rng, keys: usize, send_limit: Span) -> Call {
    let dialect = (!rng.chance(0.05)).then(|| Dialect::ALL[rng.below(Dialect::ALL.len() as u64) as usize]);
    let shape = if dialect.is_some() && rng.chance(0.7) { Shape::Stream } else { Shape::Whole };
    // Occasionally an unknown key.
    let key = (keys > 0 && !rng.chance(0.03)).then(|| rng.below(keys as u64 * 10 + 1) as usize / 10);
    let model = ["a0", "a1", "lane0", "nothing"][(rng.below(31) / 10) as usize];
    let mut request = request(rng, dialect, shape, model, key);
    let is_sound = !rng.chance(0.05);
    if !is_sound {
        let at = rng.below(request.len() as u64) as usize;
        request[at] ^= 1 + rng.below(255) as u8;
    }
    let sends = match rng.below(20) {
        0 => SendPattern::Slowly { bytes: 1 + rng.below(200) as usize, every: Span::from_millis(rng.below(2_000)) },
        1 => SendPattern::Cut(rng.below(request.len() as u64) as usize),
        _ => SendPattern::AtOnce,
    };
    let after = rng.below(3_000) as usize;
    let reads = match rng.below(12) {
        0 => ReadPattern::Slowly { bytes: 1 + rng.below(500) as usize, every: Span::from_millis(rng.below(300)) },
        1 => ReadPattern::Disconnects { after },
        2..=4 => {
            let pause = Span::from_nanos(send_limit.as_nanos() / 2 + rng.below(send_limit.as_nanos() * 2));
            ReadPattern::Pauses { after, pause }
        }
        _ => ReadPattern::All,
    };
    Call {
        pause: Span::from_millis(rng.below(500)),
        key,
        dialect,
        shape,
        request,
        is_sound,
        sends,
        reads,
        disconnects_after: rng.chance(0.1).then(|| Span::from_millis(rng.below(4_000))),
    }
}

/// A request as it goes over the wire.
fn request(rng: &mut Rng, dialect: Option<Dialect>, shape: Shape, model: &str, key: Option<usize>) -> Vec<u8> {
    let words = if rng.chance(0.05) { 600 } else { 1 + rng.below(60) };
    let text: Vec<String> = (0..words).map(|word| format!("word{word}")).collect();
    let body = match dialect {
        Some(dialect) => {
            let chat = ChatRequest {
                model: model.to_owned(),
                messages: vec![Message::text(Role::User, text.join(" "))],
                stream: shape != Shape::Whole,
                include_usage: rng.chance(0.5) && shape != Shape::Whole,
                max_output_tokens: (dialect.requires_max_tokens() || rng.chance(0.5))
                    .then(|| 1 + rng.below(200) as u32),
                ..ChatRequest::default()
            };
            encode_request(dialect, &chat)
        }
        None => format!(r#"{{"model":"{model}","input":"{}"}}"#, text.join(" ")).into_bytes(),
    };
    let path =
        dialect.map_or_else(|| PASSED[words as usize % PASSED.len()].to_owned(), |dialect| dialect.path(model, shape));
    let mut head = format!("POST /v1{path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n");
    if let Some(key) = key {
        head.push_str(&format!("authorization: Bearer sk-{key}\r\n"));
    }
    if rng.chance(0.3) {
        let mode = ["off", "hedge", "race", "race=3", "nonsense"][(rng.below(41) / 10) as usize];
        head.push_str(&format!("x-tokrate-mode: {mode}\r\n"));
    }
    let length = body.len();
    match rng.chance(0.2) {
        true => {
            head.push_str("transfer-encoding: chunked\r\n\r\n");
            [head.as_bytes(), format!("{length:x}\r\n").as_bytes(), &body, b"\r\n0\r\n\r\n"].concat()
        }
        false => {
            head.push_str(&format!("content-length: {length}\r\n\r\n"));
            [head.as_bytes(), &body].concat()
        }
    }
}

fn jumps(rng: &mut Rng) -> Vec<(Span, i64)> {
    const JUMPS: [i64; 5] = [3_600, -3_600, 40 * 86_400, -20 * 86_400, 90];
    let mut jump = || (Span::from_millis(rng.below(60_000)), JUMPS[rng.below(5) as usize]);
    let first = jump();
    let second = jump();
    match rng.below(4) {
        0 => vec![first],
        1 => vec![first, second],
        _ => Vec::new(),
    }
}

fn disk(rng: &mut Rng) -> Vec<DiskOutage> {
    let faults_of_disk = [DiskFault::Full, DiskFault::Full, DiskFault::Locked, DiskFault::Moved];
    (0..rng.below(3))
        .map(|_| {
            let from = STARTED_AT + Span::from_millis(rng.below(40_000));
            let lasts = if rng.chance(0.2) { Span::from_secs(100_000) } else { Span::from_millis(rng.below(20_000)) };
            DiskOutage { from, until: from + lasts, fault: faults_of_disk[rng.below(4) as usize] }
        })
        .collect()
}
