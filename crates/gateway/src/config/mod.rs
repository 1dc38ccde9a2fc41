//! What a gateway is told to do, as plain values.
//!
//! It refuses to know flags, files and the environment. Invariant: no key is ever printed; those of clients are known by
//! their hash alone.

pub(crate) mod curve;
pub(crate) mod display;

use http::HeaderMap;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokrate_core::{Span, TokenPrice};
use tokrate_net::{ClientConfig, Target};
use tokrate_route::{BudgetConfig, CurvePoint, LoserPolicy, Mode, Policy};
use tokrate_wire::Dialect;

/// Lanes of one race at most.
const MAX_LANES: usize = 16;

/// Settings of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where the page, the metrics and the log's API are; `None` for nowhere.
    pub admin: Option<SocketAddr>,
    /// SHA-256 of the key that whoever asks there has to show; elsewhere than on loopback it must be set.
    pub admin_key: Option<[u8; 32]>,
    /// Names under which both may be asked, beside the addresses that they listen on and `localhost`.
    pub hosts: Vec<String>,
    /// Origins of other sites whose pages may ask (`https://app.example`).
    pub origins: Vec<String>,
    /// Threads that serve.
    pub workers: usize,
    /// How providers are connected to.
    pub client: ClientConfig,
    /// The lanes.
    pub lanes: Vec<LaneConfig>,
    /// Names that clients ask for. A lane's own name, and `provider/model`, are understood without one.
    pub aliases: Vec<AliasConfig>,
    /// Keys that clients show. Without any, everybody who reaches the port may ask.
    pub keys: Vec<KeyConfig>,
    /// When calls are given up, and how large they may be.
    pub limits: LimitsConfig,
    /// Where the throughput log is kept.
    pub log: Option<LogSettings>,
    /// Where metrics are exported to, besides being told to who asks.
    pub otel: Option<OtelConfig>,
    /// How long open calls may go on when the gateway is stopped.
    pub drain: Span,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// A way to an answer: a provider, a model there, and a key.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Its name, unlike that of every other.
    pub name: String,
    /// The provider's name, for the log.
    pub provider: String,
    /// The model as the provider knows it.
    pub model: String,
    /// How it is spoken with, a dialect an endpoint. A call in another dialect is translated to that of the first.
    pub endpoints: Vec<EndpointConfig>,
    /// What it charges.
    pub price: Option<Price>,
    /// How long its prompts and answers can become.
    pub token_limits: TokenLimits,
    /// Calls that may be open at once.
    pub max_in_flight: Option<u32>,
    /// What becomes of an attempt that lost a race.
    pub loser: LoserPolicy,
    /// How quick it is under which load, as far as that was measured before.
    pub curve: Vec<CurvePoint>,
    /// Names of further headers of the client that are handed on, in lower case.
    pub forward_headers: Vec<String>,
    /// Whether it has embeddings; `None` to find out by asking.
    pub embeddings: Option<bool>,
}

/// A dialect of a lane.
#[derive(Clone)]
pub struct EndpointConfig {
    /// The dialect.
    pub dialect: Dialect,
    /// Base URL to which the dialect's path is appended.
    pub base: Target,
    /// Headers of every request, the key among them, marked sensitive.
    pub headers: HeaderMap,
    /// Whether it refuses `stream_options`.
    pub no_stream_options: bool,
    /// Whether it wants the output limit as `max_tokens`.
    pub max_tokens_field: bool,
}

/// US dollars per million tokens.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Price {
    /// Of the prompt.
    pub input: f64,
    /// Of the answer.
    pub output: f64,
    /// Of input tokens that come from a cache, where that is another price.
    pub cached: Option<f64>,
    /// Of input tokens that are written to a cache, where that is another price. Without it, a lane that speaks Anthropic's
    /// dialect is taken to charge a quarter more than for others, as Anthropic does for its cache of five minutes.
    pub cache_write: Option<f64>,
}

/// Tokens that one call of a lane can have at most, as far as the settings say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TokenLimits {
    /// Of the prompt.
    pub input: Option<u64>,
    /// Of an answer.
    pub output: Option<u64>,
}

/// A name that clients ask for.
#[derive(Clone, Debug)]
pub struct AliasConfig {
    /// The name.
    pub name: String,
    /// Its lanes, by their place in [`Config::lanes`].
    pub lanes: Vec<usize>,
    /// Which lane a call goes to first.
    pub policy: Policy,
    /// When further ones are begun.
    pub mode: Mode,
    /// Attempts of one call, failovers included.
    pub max_attempts: usize,
    /// What racing may cost.
    pub budget: BudgetConfig,
    /// How long the first token of another attempt is waited for after one has its own.
    pub second_look: Option<Span>,
}

/// A key that clients show.
#[derive(Clone, Debug)]
pub struct KeyConfig {
    /// Its name, for the log.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Names that it may ask for; empty for all.
    pub aliases: Vec<String>,
    /// What it may use.
    pub limits: tokrate_route::KeyLimits,
}

/// When calls are given up, and how large they may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitsConfig {
    /// Time for the request's body to come.
    pub body: Span,
    /// Time to the first token.
    pub first_token: Span,
    /// Time between two tokens.
    pub gap: Span,
    /// Time for everything.
    pub total: Span,
    /// Time in which a client must take something of what lies ready for it; one that takes nothing for so long is given up.
    pub send: Span,
    /// Largest request (bytes).
    pub request_bytes: usize,
    /// Largest answer (bytes).
    pub answer_bytes: u64,
    /// What the bodies of all open calls may hold together (bytes); one more is answered with 503.
    pub bodies_bytes: usize,
    /// What the answers of all open calls may hold together (bytes), as far as their clients have not taken them; one for which
    /// there is no room fails.
    pub answers_bytes: usize,
    /// Calls open at once, over all clients; one more is answered with 503.
    pub calls: usize,
    /// Connections of clients open at once; `None` for as many as half of the process's descriptors allow, as a call needs one to
    /// a provider as well.
    pub connections: Option<usize>,
    /// Connections of one peer that has shown no key; `None` for half of those that such peers may have together. Without keys
    /// there is no such limit.
    pub connections_by_peer: Option<usize>,
}

/// Where the throughput log is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// The database's file.
    pub path: PathBuf,
    /// How long rows are kept.
    pub retention: Option<Span>,
}

/// An OpenTelemetry collector that is told the metrics, over OTLP/HTTP in protocol buffers.
#[derive(Clone)]
pub struct OtelConfig {
    /// Base URL; `/v1/metrics` is appended to it.
    pub endpoint: Target,
    /// Headers of every request, keys among them, marked sensitive.
    pub headers: HeaderMap,
    /// Time between two exports.
    pub interval: Span,
    /// Attributes of the resource, beside or instead of `service.name`, `service.version` and `service.instance.id`.
    pub resource: Vec<(String, String)>,
}

impl OtelConfig {
    /// Time between two exports, if nothing else is said: that of OpenTelemetry's SDKs.
    pub const INTERVAL: Span = Span::from_secs(60);
}

impl LogSettings {
    pub(crate) fn store_config(&self) -> tokrate_store::LogConfig {
        let mut config = tokrate_store::LogConfig::new(&self.path);
        config.retention = self.retention;
        config
    }
}

/// With it, the simulated lanes that stand in for real ones make none of their faults in their first answers: whoever tries the
/// gateway meets them later.
pub const DEFAULT_SEED: u64 = 7;

impl Default for Config {
    /// A gateway without lanes on any free port of loopback.
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin: None,
            admin_key: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            workers: 1,
            client: ClientConfig::default(),
            lanes: Vec::new(),
            aliases: Vec::new(),
            keys: Vec::new(),
            limits: LimitsConfig::default(),
            log: None,
            otel: None,
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
            total: Span::from_secs(1800),
            send: Span::from_secs(120),
            request_bytes: 32 << 20,
            answer_bytes: 64 << 20,
            bodies_bytes: 256 << 20,
            answers_bytes: 256 << 20,
            calls: 20_000,
            connections: None,
            connections_by_peer: None,
        }
    }
}

/// What Anthropic charges for a token that is written to its cache of five minutes, over that of another one.
const ANTHROPIC_CACHE_WRITE: f64 = 1.25;

impl Price {
    /// Whether each of its numbers can be one.
    pub fn is_sound(&self) -> bool {
        let numbers = [Some(self.input), Some(self.output), self.cached, self.cache_write];
        numbers.into_iter().flatten().all(|usd| TokenPrice::per_token(usd).is_some())
    }
}

impl LaneConfig {
    /// What a token costs; `None` without a price.
    pub fn token_price(&self) -> Option<TokenPrice> {
        let price = self.price?;
        let is_anthropic = self.endpoints.iter().any(|endpoint| endpoint.dialect == Dialect::Anthropic);
        let write = price.input * if is_anthropic { ANTHROPIC_CACHE_WRITE } else { 1.0 };
        Some(TokenPrice {
            input: TokenPrice::per_token(price.input)?,
            output: TokenPrice::per_token(price.output)?,
            cached_input: TokenPrice::per_token(price.cached.unwrap_or(price.input))?,
            cache_write: TokenPrice::per_token(price.cache_write.unwrap_or(write))?,
        })
    }

    /// What the router has to know of it.
    pub(crate) fn for_router(&self) -> tokrate_route::LaneConfig {
        tokrate_route::LaneConfig {
            price_input_usd_per_million: self.price.map(|price| price.input),
            price_output_usd_per_million: self.price.map(|price| price.output),
            max_in_flight: self.max_in_flight,
        }
    }
}

/// The mode of that name: `off`, `hedge`, `race` (of two) or `race=N`.
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

/// The hash by which a client's key is known.
pub fn key_hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

impl fmt::Debug for OtelConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        write!(formatter, "{} {headers:?} every {}, {:?}", self.endpoint, self.interval, self.resource)
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(http::HeaderName::as_str).collect();
        write!(formatter, "{} at {} {headers:?}", self.dialect.name(), self.base)
    }
}
