//! Settings of a host. Invariant: a key is never printed.

use crate::gpu::GpuLaw;
use crate::metrics::MetricNames;
use crate::script::AnswerScript;
use crate::truth::TruthLog;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
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
    /// Seed of all randomness.
    pub seed: u64,
    /// Model name in answers.
    pub model: String,
    /// Whether requests for another model are answered with 404; else any name is taken.
    pub only_model: bool,
    /// Required key, if any.
    pub api_key: Option<ApiKey>,
    /// What it answers in place of words, if a rule fits.
    pub script: Option<Arc<AnswerScript>>,
    /// The graphics processors that it publishes at `/gpu-metrics`, if any.
    pub gpus: Option<GpuLaw>,
    /// Destination of the truth log.
    pub truth: TruthLog,
    /// Most open requests; further ones get 503. Connections are limited only by open files.
    pub max_requests: usize,
    /// Largest request body, in bytes; a larger one is answered with 413.
    pub max_request_bytes: usize,
    /// Allowed host names besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How long open requests may continue at shutdown.
    pub drain: Span,
}

/// Settings of a host with several virtual providers.
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// Address of all providers, each for models that begin with its name and a slash; port 0 takes any free one.
    pub address: Option<SocketAddr>,
    /// The providers. Their names differ.
    pub providers: Vec<Provider>,
    /// Seed of all randomness; each provider derives its own.
    pub seed: u64,
    /// Destination of the truth log of all providers.
    pub truth: TruthLog,
    /// Most open requests over all providers; further ones get 503.
    pub max_requests: usize,
    /// Largest request body, in bytes; a larger one is answered with 413.
    pub max_request_bytes: usize,
    /// Allowed host names besides its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How long open requests may continue at shutdown.
    pub drain: Span,
}

/// One virtual provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its persona. Faults can be replaced by a request with headers `x-tokrate-fault: stall@5`.
    pub persona: Persona,
    /// A port of its own; port 0 takes any free one.
    pub address: Option<SocketAddr>,
    /// Model name in its answers.
    pub model: String,
    /// Whether requests for another model are answered with 404; else any name is taken.
    pub only_model: bool,
    /// Required key, if any.
    pub api_key: Option<ApiKey>,
    /// The engine that it emulates.
    pub emulated_engine: EmulatedEngine,
    /// Naming scheme of its metrics at `/metrics`.
    pub metrics: MetricNames,
    /// The graphics processors that it publishes at `/gpu-metrics`, if any.
    pub gpus: Option<GpuLaw>,
    /// What it answers in place of words, if a rule fits.
    pub script: Option<Arc<AnswerScript>>,
}

/// The engine that a provider emulates: its self-description, and whether it sends timings in dialects that leave this to the
/// engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EmulatedEngine {
    /// No other engine.
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

impl EmulatedEngine {
    /// All of them.
    pub const ALL: [EmulatedEngine; 6] = [
        EmulatedEngine::Tokrate,
        EmulatedEngine::Vllm,
        EmulatedEngine::Sglang,
        EmulatedEngine::Tgi,
        EmulatedEngine::LlamaCpp,
        EmulatedEngine::Ollama,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            EmulatedEngine::Tokrate => "tokrate",
            EmulatedEngine::Vllm => "vllm",
            EmulatedEngine::Sglang => "sglang",
            EmulatedEngine::Tgi => "tgi",
            EmulatedEngine::LlamaCpp => "llama-cpp",
            EmulatedEngine::Ollama => "ollama",
        }
    }

    /// Naming scheme of the metrics of the engine.
    pub fn metrics(self) -> MetricNames {
        match self {
            EmulatedEngine::Tokrate | EmulatedEngine::Vllm => MetricNames::Vllm,
            EmulatedEngine::Sglang => MetricNames::Sglang,
            EmulatedEngine::Tgi => MetricNames::Tgi,
            EmulatedEngine::LlamaCpp => MetricNames::LlamaCpp,
            EmulatedEngine::Ollama => MetricNames::Off,
        }
    }

    /// `owned_by` in its list of models.
    pub(crate) fn owner(self) -> &'static str {
        match self {
            EmulatedEngine::LlamaCpp => "llamacpp",
            EmulatedEngine::Ollama => "library",
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
            script: None,
            gpus: None,
            truth: TruthLog::Off,
            max_requests: 20_000,
            max_request_bytes: 32 << 20,
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
            emulated_engine: EmulatedEngine::default(),
            metrics: MetricNames::default(),
            gpus: config.gpus,
            script: config.script,
        };
        FleetConfig {
            address: None,
            providers: vec![provider],
            seed: config.seed,
            truth: config.truth,
            max_requests: config.max_requests,
            max_request_bytes: config.max_request_bytes,
            hosts: config.hosts,
            drain: config.drain,
        }
    }
}
