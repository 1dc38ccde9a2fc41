//! The configuration of a gateway as plain values; flags, files and the environment are read elsewhere.
//!
//! Invariant: no key is ever printed, and keys of clients are kept as hashes only.

pub(crate) mod curve;
pub(crate) mod display;
pub(crate) mod tls;

use http::HeaderMap;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tls::TlsConfig;
use tokrate_core::{Money, Price, Span};
use tokrate_net::{Authorizer, ClientConfig, Clock, Target};
use tokrate_route::{BreakerConfig, BudgetConfig, CurvePoint, LoserPolicy, Mode, Policy, WinRule};
use tokrate_store::{LogClock, LogConfig, Shipping};
use tokrate_wire::Dialect;

/// Most lanes in one race.
const MAX_LANES: usize = 16;

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address for clients; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Address of the admin side (page, metrics, API of the log); `None` to serve none.
    pub admin: Option<SocketAddr>,
    /// SHA-256 of the admin key; required unless the admin side listens on loopback.
    pub admin_key: Option<[u8; 32]>,
    /// Host names under which both sides may be reached, in addition to their addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Origins of other sites whose pages may call the gateway (`https://app.example`).
    pub origins: Vec<String>,
    /// Certificate and key, if clients speak TLS.
    pub tls: Option<TlsConfig>,
    /// Worker threads.
    pub workers: usize,
    /// How to connect to providers.
    pub client: ClientConfig,
    /// For how long after its last call a lane keeps an idle connection on each thread; zero to open connections only when a call
    /// needs one.
    pub keep_warm: Span,
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// Names that clients ask for. The name of a lane and `provider/model` work without an alias.
    pub aliases: Vec<AliasConfig>,
    /// What answers of some aliases are held against.
    pub answer_check: Option<AnswerCheck>,
    /// Keys of clients. Without any, whoever reaches the port may call.
    pub keys: Vec<KeyConfig>,
    /// Timeouts and size limits.
    pub limits: LimitsConfig,
    /// When lanes are taken out of rotation, and for how long.
    pub breaker: BreakerConfig,
    /// Whether the gateway itself asks a lane that failed whether it is back.
    pub probes: bool,
    /// Whether a model that is unknown here is taken for one of the aliases `reason`, `apply`, `compact`, `search`, by its instructions.
    pub role_by_system_prompt: bool,
    /// The throughput log, if one is kept.
    pub log: Option<LogSettings>,
    /// Where metrics and traces are pushed to; metrics in addition to `/metrics`.
    pub otel: Option<OtelConfig>,
    /// Region of this machine, for the log.
    pub region: Option<String>,
    /// Name of this machine, for the log.
    pub host: Option<String>,
    /// How long open calls may go on after the gateway is told to stop.
    pub drain: Span,
    /// Seed of the router's random choices.
    pub seed: u64,
}

/// A lane: a provider, a model there, and a key.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Its name, unique among lanes.
    pub name: String,
    /// Name of the provider, for the log.
    pub provider: String,
    /// The model as the provider knows it.
    pub model: String,
    /// Its endpoints, one for each dialect. A call in any other dialect is translated to that of the first.
    pub endpoints: Vec<EndpointConfig>,
    /// What it charges. Writes to a cache default to 1.25 times the price of input for lanes in Anthropic's dialect, which is
    /// what Anthropic charges for its five-minute cache, and to that price elsewhere.
    pub price: Option<Price>,
    /// Longest prompts and answers.
    pub token_limits: TokenLimits,
    /// Most attempts in flight at once.
    pub max_in_flight: Option<u32>,
    /// What happens to an attempt that lost a race.
    pub loser: LoserPolicy,
    /// Load curve that was measured before.
    pub curve: Vec<CurvePoint>,
    /// Lower-case names of further client headers to forward.
    pub forward_headers: Vec<String>,
    /// Which services it has beside the generation of text, and what they cost.
    pub services: ServicesConfig,
    /// Whether answers that a client wants in one piece may be asked for as streams where another lane could take over.
    pub stream_whole: bool,
}

/// The services of a lane beside the generation of text, by the names of [`crate::services`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServicesConfig {
    /// Those that it has; `None` to find out by asking.
    pub serves: Option<Vec<String>>,
    /// Whether it has embeddings, whatever the list says; `None` to go by the list.
    pub embeddings: Option<bool>,
    /// The most that a call of a service costs, where its tokens do not say.
    pub fees: Vec<(String, Money)>,
}

impl ServicesConfig {
    /// Whether the lane has a service, as far as the settings say.
    pub(crate) fn says(&self, service: &str) -> Option<bool> {
        let listed = self.serves.as_ref().map(|serves| serves.iter().any(|served| served == service));
        if service == "embeddings" { self.embeddings.or(listed) } else { listed }
    }

    /// The most that a call of a service costs, if it is known.
    pub(crate) fn fee(&self, service: &str) -> Option<Money> {
        self.fees.iter().find(|(name, _)| name == service).map(|(_, fee)| *fee)
    }
}

/// One dialect of a lane.
#[derive(Clone)]
pub struct EndpointConfig {
    /// The dialect.
    pub dialect: Dialect,
    /// Base URL to which the dialect's path is appended.
    pub base: Target,
    /// Headers of every request, keys among them, marked sensitive.
    pub headers: HeaderMap,
    /// What authorises its requests, where no header does.
    pub authorizer: Option<Authorizer>,
    /// Whether the endpoint rejects `stream_options`.
    pub no_stream_options: bool,
    /// Whether the endpoint expects the output limit as `max_tokens`.
    pub max_tokens_field: bool,
}

/// Token limits of one call on a lane, as far as they are configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TokenLimits {
    /// Most tokens in a prompt.
    pub input: Option<u64>,
    /// Most tokens in an answer.
    pub output: Option<u64>,
}

/// A name that clients ask for.
#[derive(Clone, Debug)]
pub struct AliasConfig {
    /// The name.
    pub name: String,
    /// Its lanes, as indices into [`Config::lanes`].
    pub lanes: Vec<usize>,
    /// Which lane a call tries first.
    pub policy: Policy,
    /// When further attempts are started.
    pub mode: Mode,
    /// Most attempts of one call, failovers included.
    pub max_attempts: usize,
    /// What hedges and races may cost.
    pub budget: BudgetConfig,
    /// Which of several attempts wins.
    pub win: WinRule,
}

/// A rule that finished answers are held against before a client gets any of them; an answer that breaks it is a failed attempt
/// (`edit_refused`), and the next lane is asked.
#[derive(Clone)]
pub struct AnswerCheck {
    /// Names of the aliases that it holds for.
    pub aliases: Vec<String>,
    /// Names of the lanes that need no check.
    pub exempt: Vec<String>,
    /// Gets the request as one of OpenAI's chat, and the answer's text without reasoning; says why the answer breaks the rule.
    pub check: Arc<AnswerRule>,
    /// Lanes whose models have to be told how to write their answers.
    pub instructed: Option<Instructed>,
}

/// What is said of an answer to a request.
pub type AnswerRule = dyn Fn(&[u8], &str) -> Result<(), String> + Send + Sync;

/// Lanes whose models are told how to write their answers, from which the text for the client is made.
#[derive(Clone)]
pub struct Instructed {
    /// Names of the lanes.
    pub lanes: Vec<String>,
    /// What their models are told, as instructions of the system.
    pub text: Arc<str>,
    /// Gets what the rule gets; makes the text that the client gets in place of the answer's, or says why there is none.
    pub finish: Arc<AnswerFinish>,
}

/// What is made of an answer to a request.
pub type AnswerFinish = dyn Fn(&[u8], &str) -> Result<String, String> + Send + Sync;

impl fmt::Debug for AnswerCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a check of {:?} but of {:?}", self.aliases, self.exempt)
    }
}

/// A key of a client.
#[derive(Clone, Debug)]
pub struct KeyConfig {
    /// Its name, for the log.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Aliases it may use; empty for all.
    pub aliases: Vec<String>,
    /// Its limits.
    pub limits: tokrate_route::KeyLimits,
}

/// Timeouts and size limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitsConfig {
    /// Time to read a request's body.
    pub body: Span,
    /// Time to the first token.
    pub first_token: Span,
    /// Time between two tokens.
    pub gap: Span,
    /// Time for one attempt at an answer in one piece; `None` for its share of what is left of `total`.
    pub attempt: Option<Span>,
    /// Time for the whole call.
    pub total: Span,
    /// Time within which a client must read some of the data that is ready for it, or be disconnected.
    pub send: Span,
    /// Time without a byte of a realtime session in either direction.
    pub silence: Span,
    /// Largest request that is held (bytes).
    pub request_bytes: usize,
    /// Largest form with files, which is passed on as it comes beyond `request_bytes`.
    pub file_bytes: u64,
    /// Largest answer (bytes).
    pub answer_bytes: u64,
    /// Bytes that the bodies of all open calls may hold together; a call beyond that gets a 503.
    pub bodies_bytes: usize,
    /// Bytes of answers that may be buffered for all clients together; an answer that finds no room fails.
    pub answers_bytes: usize,
    /// Calls open at once over all clients; one more gets a 503.
    pub calls: usize,
    /// Client connections open at once; `None` for half of the process's file descriptors, because each call needs one
    /// to a provider as well.
    pub connections: Option<usize>,
    /// Connections of one peer without a key; `None` for half of what all such peers may have. Unused when no keys are
    /// configured.
    pub connections_by_peer: Option<usize>,
}

/// Settings of the throughput log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Path of the database.
    pub path: PathBuf,
    /// How long rows are kept.
    pub retention: Option<Span>,
    /// Where rows go beside it.
    pub shipping: Option<Shipping>,
}

/// An OpenTelemetry collector that metrics and traces are pushed to, over OTLP/HTTP with protobuf.
#[derive(Clone)]
pub struct OtelConfig {
    /// Base URL; `/v1/metrics` and `/v1/traces` are appended to it.
    pub endpoint: Target,
    /// Headers of every request, keys among them, marked sensitive.
    pub headers: HeaderMap,
    /// Time between two exports of the metrics.
    pub interval: Span,
    /// Whether metrics are exported.
    pub metrics: bool,
    /// Which traces are exported; `None` for none.
    pub traces: Option<TracesConfig>,
    /// Resource attributes, in addition to or instead of `service.name`, `service.version` and `service.instance.id`.
    pub resource: Vec<(String, String)>,
}

/// Which calls are traced, and whether lanes hear of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TracesConfig {
    /// Share of the traces that begin here which are kept, 0 to 1; in others the client's word counts.
    pub ratio: f64,
    /// Calls that take this long are kept whatever the share.
    pub slow: Option<Span>,
    /// Whether lanes get `traceparent` and `tracestate`.
    pub propagate: bool,
}

impl Default for TracesConfig {
    fn default() -> TracesConfig {
        TracesConfig { ratio: 1.0, slow: None, propagate: false }
    }
}

impl OtelConfig {
    /// The default interval, that of OpenTelemetry's SDKs.
    pub const INTERVAL: Span = Span::from_secs(60);
}

impl LogSettings {
    pub(crate) fn store_config(&self, clock: Clock) -> LogConfig {
        let mut config =
            LogConfig::new(&self.path, LogClock::new(move || clock.now(), move || clock.wall_nanos() / 1_000_000));
        config.retention = self.retention;
        config.shipping.clone_from(&self.shipping);
        config
    }
}

/// With this seed the simulated lanes produce no faults in their first answers, so that someone who tries the gateway
/// does not meet them at once.
pub const DEFAULT_SEED: u64 = 7;

impl Default for Config {
    /// A gateway without lanes on a free loopback port.
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin: None,
            admin_key: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            tls: None,
            workers: 1,
            client: ClientConfig::default(),
            keep_warm: Span::ZERO,
            lanes: Vec::new(),
            aliases: Vec::new(),
            answer_check: None,
            keys: Vec::new(),
            limits: LimitsConfig::default(),
            breaker: BreakerConfig::default(),
            probes: true,
            role_by_system_prompt: false,
            log: None,
            otel: None,
            region: None,
            host: None,
            drain: Span::from_secs(30),
            seed: DEFAULT_SEED,
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> LimitsConfig {
        LimitsConfig {
            body: Span::from_secs(30),
            first_token: Span::from_secs(120),
            gap: Span::from_secs(60),
            attempt: None,
            total: Span::from_secs(1800),
            send: Span::from_secs(120),
            silence: Span::from_secs(600),
            request_bytes: 32 << 20,
            file_bytes: 512 << 20,
            answer_bytes: 64 << 20,
            bodies_bytes: 256 << 20,
            answers_bytes: 256 << 20,
            calls: 20_000,
            connections: None,
            connections_by_peer: None,
        }
    }
}

/// Anthropic's price of a token written to its five-minute cache, relative to a plain input token (2026 price list).
const ANTHROPIC_CACHE_WRITE: f64 = 1.25;

impl KeyConfig {
    /// Whether it may use an alias.
    pub fn allows_alias(&self, alias: &str) -> bool {
        self.aliases.is_empty() || self.aliases.iter().any(|allowed| allowed == alias)
    }
}

impl LaneConfig {
    /// What the lane charges, writes to a cache included: where their price is not configured, Anthropic's is taken for its
    /// dialect and that of other input elsewhere. `None` without a price.
    pub fn full_price(&self) -> Option<Price> {
        let price = self.price?;
        let is_anthropic = self.endpoints.iter().any(|endpoint| endpoint.dialect == Dialect::Anthropic);
        let of_anthropic = || Money::from_usd(price.input.as_usd() * ANTHROPIC_CACHE_WRITE);
        let cache_write = price.cache_write.or_else(|| is_anthropic.then(of_anthropic).flatten());
        Some(Price { cache_write, ..price })
    }

    /// The part of the settings that the router needs.
    pub(crate) fn for_router(&self) -> tokrate_route::LaneConfig {
        tokrate_route::LaneConfig { price: self.full_price(), max_in_flight: self.max_in_flight }
    }
}

/// Parses `off`, `hedge`, `race` (of two lanes) or `race=N`.
pub fn parse_mode(name: &str) -> Option<Mode> {
    match name {
        "off" => Some(Mode::Off),
        "hedge" => Some(Mode::Hedge),
        "race" => Some(Mode::Race { lanes: 2 }),
        other => {
            let lanes = other.strip_prefix("race=")?.parse().ok()?;
            (1..=MAX_LANES).contains(&lanes).then_some(Mode::Race { lanes })
        }
    }
}

/// The hash under which a key is stored.
pub fn key_hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

impl fmt::Debug for OtelConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        let OtelConfig { endpoint, interval, resource, metrics, traces, .. } = self;
        write!(formatter, "{endpoint} {headers:?} every {interval}, {resource:?}, metrics {metrics}, {traces:?}")
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        write!(formatter, "{} at {} {headers:?}", self.dialect.name(), self.base)?;
        self.authorizer.as_ref().map_or(Ok(()), |authorizer| write!(formatter, " with {authorizer:?}"))
    }
}
