//! Configuration of a bench run as plain values.
//!
//! Invariant: no defaults here; the binary resolves flags, files and environment before.

use crate::gpu_source::GpuSource;
use crate::plan::PhaseSpec;
use crate::prompts::{Lengths, PromptSource};
use crate::schedule::ScheduleMode;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_core::Span;
use tokrate_judge::Slo;
use tokrate_record::MediaAmounts;
use tokrate_sim::{Faults, Law};
use tokrate_wire::ItemTask;

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct Config {
    /// What is measured.
    pub target: Target,
    /// Load levels, in the order in which they run.
    pub phases: Vec<PhaseSpec>,
    /// What comes after them.
    pub schedule_mode: ScheduleMode,
    /// What is asked for.
    pub request: RequestOptions,
    /// Where prompts come from.
    pub prompts: PromptSource,
    /// Limits of a request.
    pub limits: Limits,
    /// Send one probe request before the load, to find permanent errors early.
    pub probe: bool,
    /// Never abort on failures, to measure the failures themselves.
    pub keep_going: bool,
    /// Objectives of a request, for goodput.
    pub slos: Vec<Slo>,
    /// What the run may cost at most (USD), all targets together.
    pub max_cost_usd: Option<f64>,
    /// Client threads; `None` lets the run choose.
    pub workers: Option<u32>,
    /// How the client's own error is found.
    pub calibration: Calibration,
    /// What is read of engine and graphics processors meanwhile, and the slices of time.
    pub sampling: Sampling,
    /// Seed of arrivals and of the lengths and order of prompts.
    pub seed: u64,
    /// Seed of the words of made-up prompts. No other run and no other target of this one has it, unless a run is to be repeated:
    /// a server would answer words that it has seen from its prompt cache.
    pub text_seed: u64,
    /// Name of the measuring machine.
    pub host: String,
    /// What kind of machine it is, such as `linux x86_64, 4 cores`.
    pub machine: String,
    /// Region of the measuring machine, or empty.
    pub region: String,
    /// Version of the program.
    pub version: String,
}

/// Characters of a token of a text that is said: English has 4 to 5.
const CHARACTERS_OF_TOKEN: u64 = 6;

impl Config {
    /// Mean output tokens that requests ask for, rounded.
    pub fn output_tokens(&self) -> u32 {
        self.prompts.output_tokens(&self.request.output_tokens)
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub enum Target {
    /// The embedded engine, started for the run behind the real server on loopback.
    Embedded(Box<Embedded>),
    /// An endpoint somewhere.
    Remote(Box<Remote>),
}

impl Target {
    /// The endpoint, unless it is the embedded engine.
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Target::Embedded(_) => None,
            Target::Remote(remote) => Some(remote),
        }
    }
}

/// The embedded engine.
#[derive(Clone, PartialEq, Debug)]
pub struct Embedded {
    /// Its law.
    pub law: Law,
    /// Its faults.
    pub faults: Faults,
}

/// An endpoint and how it is reached.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Name of the provider or engine in the catalog; `None` uses the host of the base URL.
    pub provider: Option<String>,
    /// Wire dialect.
    pub dialect: tokrate_wire::Dialect,
    /// What it charges for the model, if that is known.
    pub price: Option<tokrate_record::TargetPrice>,
    /// The server's metrics page, if it is to be read.
    pub server_metrics: Option<ServerMetrics>,
    /// The machine that the engine runs on, if it is this one.
    pub engine_host: Option<tokrate_record::EngineHost>,
    /// Base URL; the dialect's path is appended.
    pub base: tokrate_net::Target,
    /// Model as the endpoint knows it.
    pub model: String,
    /// Further request headers. Values of secret headers are marked sensitive and never printed.
    pub headers: http::HeaderMap,
    /// What authorises its requests, where no header does.
    pub authorizer: Option<tokrate_net::Authorizer>,
    /// Where the key in the headers comes from, in words that hold no part of it, such as "the key from the environment
    /// variable KEY".
    pub key_origin: Option<String>,
    /// HTTP version.
    pub http: tokrate_net::HttpVersion,
    /// Open a new connection for each request.
    pub new_connections: bool,
    /// How requests share connections over HTTP/2.
    pub http2: tokrate_net::Sharing,
    /// Go on from earlier TLS sessions, where connections are new.
    pub tls_resume: bool,
    /// PEM file with further certificate authorities, or with the endpoint's own certificate.
    pub ca_file: Option<PathBuf>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Unix socket at which it listens, in place of the host and port of the base.
    pub unix_socket: Option<PathBuf>,
    /// Proxies, if any are named.
    pub proxy: Option<tokrate_net::ProxySettings>,
}

/// What is read beside the run, and how its time is cut.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// From one reading to the next; 0 reads only before and after each level.
    pub every: Span,
    /// Pages of exporters that describe graphics processors.
    pub gpu_pages: Vec<ServerMetrics>,
    /// Graphics processors of this machine.
    pub local_gpus: Option<Arc<dyn GpuSource>>,
    /// Length of a slice of time; `None` lets the run choose.
    pub slice: Option<Span>,
}

/// A server's metrics page.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    /// The server; its path is ignored.
    pub target: tokrate_net::Target,
    /// Path of the page.
    pub path: String,
    /// Unix socket at which it listens, in place of the target's host and port.
    pub unix_socket: Option<PathBuf>,
    /// Whose names the metrics have; `None` recognises them.
    pub family: Option<String>,
    /// Headers to send, those with keys marked sensitive.
    pub headers: http::HeaderMap,
}

/// What each request asks for.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestOptions {
    /// What is asked for instead of text, if it is.
    pub items: Option<Items>,
    /// How batches of requests are carried out, if requests are sent as such.
    pub batches: Option<BatchOptions>,
    /// Which images are asked for, if they are.
    pub images: Option<crate::ImagesAsked>,
    /// Sound that is asked for, or is what is sent.
    pub audio: Option<crate::AudioTask>,
    /// Calls of tools or JSON in place of free text, if answers are to be that.
    pub structure: Option<std::sync::Arc<crate::Structure>>,
    /// Pictures and sound that go with the prompts, if any do.
    pub attachments: Option<Arc<crate::Attachments>>,
    /// Calls of tools and their results within the turns of conversations.
    pub tool_turns: Option<std::sync::Arc<crate::ToolTurns>>,
    /// Several models that requests ask for in turns, in place of the endpoint's one.
    pub adapters: Option<std::sync::Arc<crate::Adapters>>,
    /// Ask for a stream.
    pub stream: bool,
    /// Ask for token counts in the stream.
    pub include_usage: bool,
    /// Output tokens asked for, where a prompt does not say.
    pub output_tokens: Lengths,
    /// Ask the engine to go on past its end token.
    pub ignore_eos: bool,
    /// Send the limit as `max_tokens`.
    pub legacy_max_tokens: bool,
    /// Sampling temperature, if it is to be sent.
    pub temperature: Option<f64>,
    /// Further body fields: name and JSON text.
    pub extra: Vec<(String, String)>,
    /// Keep fields of the answer that the dialect does not prescribe; every event is read in full then.
    pub keep_unknown: bool,
}

/// How a batch of requests is carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchOptions {
    /// From one question after it to the next.
    pub poll: Span,
    /// Leave its files where they are.
    pub keep: bool,
    /// Folder of the notes of what is left at servers; without one none are kept.
    pub notes: Option<Arc<Path>>,
}

/// Vectors or scores of several texts a request, images of one, or a batch of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Items {
    /// Which of them.
    pub task: ItemTask,
    /// Texts, images or requests of a request where the load does not say.
    pub batch: u32,
}

impl RequestOptions {
    /// Images and sound of a request at most, whose texts have so many tokens and which asks for so many items.
    pub fn media_at_most(&self, input_tokens: u32, items: u32) -> MediaAmounts {
        if let Some(audio) = &self.audio {
            return audio.amounts(0, &|| u64::from(input_tokens) * CHARACTERS_OF_TOKEN);
        }
        if self.makes_images() {
            let pixels = self.images.as_ref().map_or(0, crate::ImagesAsked::most_pixels);
            let images = u64::from(items);
            return MediaAmounts { images_out: images, pixels_out: images * pixels, ..MediaAmounts::default() };
        }
        self.attachments.as_deref().map(crate::Attachments::at_most).unwrap_or_default()
    }

    /// Whether images are asked for.
    pub fn makes_images(&self) -> bool {
        self.items.is_some_and(|items| items.task == ItemTask::Images)
    }

    /// What the answer of a request is held against, if it is to be more than text; `turn` is that of its session.
    pub(crate) fn structure_of(&self, turn: Option<u32>) -> Option<&crate::Structure> {
        let is_text = self.tool_turns.as_deref().zip(turn).is_some_and(|(tools, turn)| !tools.demands_call(turn));
        self.structure.as_deref().filter(|_| !is_text)
    }

    /// A stream of 1,000 tokens with its usage, and nothing else.
    pub fn plain() -> RequestOptions {
        RequestOptions {
            items: None,
            batches: None,
            images: None,
            audio: None,
            structure: None,
            attachments: None,
            adapters: None,
            tool_turns: None,
            stream: true,
            include_usage: true,
            output_tokens: Lengths::Fixed(1000),
            ignore_eos: false,
            legacy_max_tokens: false,
            temperature: None,
            extra: Vec::new(),
            keep_unknown: false,
        }
    }
}

/// Limits of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// To open a connection.
    pub connect: Span,
    /// Without a byte.
    pub idle: Span,
    /// For the whole request.
    pub total: Span,
    /// The longest wait that a provider may ask for (`Retry-After`); a longer one ends the run.
    pub wait: Span,
    /// Largest body that is read, in bytes.
    pub max_body_bytes: u64,
}

/// How the client's own error is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Calibration {
    /// By measuring the embedded engine at the same load, now.
    Run,
    /// From the cache in this folder; if missing, as `Run`, and cached there.
    Cached(PathBuf),
    /// Not at all.
    Off,
}
