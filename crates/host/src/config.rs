//! What a host is told to do, as plain values.
//!
//! It refuses to know flags, files and the environment. Invariant: a key is never printed.

use crate::metrics::MetricNames;
use crate::truth::TruthLog;
use std::net::{Ipv4Addr, SocketAddr};
use tokrate_core::Span;
pub use tokrate_net::server::ApiKey;
use tokrate_sim::{Faults, Law, Persona};

/// Settings of a host with one provider, which does not change over time.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Where to listen; port 0 takes any free one.
    pub address: SocketAddr,
    /// The engine's law.
    pub law: Law,
    /// The engine's faults. A request can replace them with headers `x-tokrate-fault: stall@5`.
    pub faults: Faults,
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Model name that answers carry.
    pub model: String,
    /// Whether requests for another model are answered with 404; else any name is taken.
    pub only_model: bool,
    /// Key to demand.
    pub api_key: Option<ApiKey>,
    /// Where the truth log goes.
    pub truth: TruthLog,
    /// Requests open at once; one more is answered with 503. Connections have no limit but that of open files.
    pub requests_most: usize,
    /// Largest request body, in bytes; a larger one is answered with 413.
    pub request_bytes_most: usize,
    /// Names under which it may be asked, beside the addresses that it listens on and `localhost`.
    pub hosts: Vec<String>,
    /// How long open requests may go on when the host is stopped.
    pub drain: Span,
}

/// Settings of a host with several virtual providers.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// Where all providers answer, each to the models that begin with its name and a slash; port 0 takes any free one.
    pub address: Option<SocketAddr>,
    /// The providers. Their names differ.
    pub providers: Vec<Provider>,
    /// Seed of everything that is drawn; each provider has its own seed from it.
    pub seed: u64,
    /// Where the truth log of all of them goes.
    pub truth: TruthLog,
    /// Requests open at once, over all providers; one more is answered with 503.
    pub requests_most: usize,
    /// Largest request body, in bytes; a larger one is answered with 413.
    pub request_bytes_most: usize,
    /// Names under which it may be asked, beside the addresses that it listens on and `localhost`.
    pub hosts: Vec<String>,
    /// How long open requests may go on when the host is stopped.
    pub drain: Span,
}

/// One virtual provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its character. Faults can be replaced by a request with headers `x-tokrate-fault: stall@5`.
    pub persona: Persona,
    /// A port of its own; port 0 takes any free one.
    pub address: Option<SocketAddr>,
    /// Model name that its answers carry.
    pub model: String,
    /// Whether requests for another model are answered with 404; else any name is taken.
    pub only_model: bool,
    /// Key to demand.
    pub api_key: Option<ApiKey>,
    /// Which engine it poses as.
    pub guise: Guise,
    /// Whose names its metrics have at `/metrics`.
    pub metrics: MetricNames,
}

/// Which engine a provider poses as: what it says of itself, and whether it sends its times along in dialects that leave
/// this to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Guise {
    /// None but this one.
    #[default]
    Tokrate,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// llama.cpp's server, which sends `timings` in OpenAI's dialects.
    LlamaCpp,
    /// Ollama.
    Ollama,
}

impl Guise {
    /// All of them.
    pub const ALL: [Guise; 6] =
        [Guise::Tokrate, Guise::Vllm, Guise::Sglang, Guise::Tgi, Guise::LlamaCpp, Guise::Ollama];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Guise::Tokrate => "tokrate",
            Guise::Vllm => "vllm",
            Guise::Sglang => "sglang",
            Guise::Tgi => "tgi",
            Guise::LlamaCpp => "llama-cpp",
            Guise::Ollama => "ollama",
        }
    }

    /// The names of metrics that the engine has.
    pub fn metrics(self) -> MetricNames {
        match self {
            Guise::Tokrate | Guise::Vllm => MetricNames::Vllm,
            Guise::Sglang => MetricNames::Sglang,
            Guise::Tgi => MetricNames::Tgi,
            Guise::LlamaCpp => MetricNames::LlamaCpp,
            Guise::Ollama => MetricNames::Off,
        }
    }

    /// Who owns its models, as its list of models says.
    pub(crate) fn owner(self) -> &'static str {
        match self {
            Guise::LlamaCpp => "llamacpp",
            Guise::Ollama => "library",
            other => other.name(),
        }
    }
}

impl Default for HostConfig {
    /// The default engine on any free port of loopback, without faults, key or log.
    fn default() -> HostConfig {
        HostConfig {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            law: Law::default(),
            faults: Faults::default(),
            seed: 0,
            model: "sim".to_owned(),
            only_model: false,
            api_key: None,
            truth: TruthLog::Off,
            requests_most: 20_000,
            request_bytes_most: 32 << 20,
            hosts: Vec::new(),
            drain: Span::from_secs(1),
        }
    }
}

impl Default for FleetConfig {
    /// No provider, no port, no log.
    fn default() -> FleetConfig {
        FleetConfig { address: None, providers: Vec::new(), ..FleetConfig::from(HostConfig::default()) }
    }
}

impl From<HostConfig> for FleetConfig {
    fn from(config: HostConfig) -> FleetConfig {
        let persona =
            Persona { name: config.model.clone(), law: config.law, faults: config.faults, ..Persona::default() };
        let provider = Provider {
            persona,
            address: Some(config.address),
            model: config.model,
            only_model: config.only_model,
            api_key: config.api_key,
            guise: Guise::default(),
            metrics: MetricNames::default(),
        };
        FleetConfig {
            address: None,
            providers: vec![provider],
            seed: config.seed,
            truth: config.truth,
            requests_most: config.requests_most,
            request_bytes_most: config.request_bytes_most,
            hosts: config.hosts,
            drain: config.drain,
        }
    }
}
