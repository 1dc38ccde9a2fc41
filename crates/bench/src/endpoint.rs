//! How an endpoint is reached, and the conditions that the record lists for it.
//!
//! Invariant: everything that changes what the engine does is part of the conditions.

use crate::BenchError;
use crate::config::{Config, Remote, RequestOptions, Target};
use crate::plan::{Beginning, Load, PhaseSpec};
use http::HeaderMap;
use std::net::{Ipv4Addr, SocketAddr};
use tokrate_core::Conditions;
use tokrate_net::{Authorizer, ClientConfig, HttpVersion};
use tokrate_record::TargetPrice;
use tokrate_tokens::Encoding;
use tokrate_wire::{Dialect, ItemTask};

/// The endpoint as requests see it, embedded or not.
pub(crate) struct Endpoint {
    pub client: ClientConfig,
    pub base: tokrate_net::Target,
    pub model: String,
    pub headers: HeaderMap,
    pub authorizer: Option<Authorizer>,
    pub key_origin: Option<String>,
    pub http: HttpVersion,
    pub provider: String,
    pub dialect: Dialect,
    pub price: Option<TargetPrice>,
}

impl Endpoint {
    /// Where the key that is sent comes from, in words; `None` if no header may hold one.
    pub(crate) fn sent_key(&self) -> Option<&str> {
        let has_key = self.headers.values().any(http::HeaderValue::is_sensitive);
        has_key.then(|| self.key_origin.as_deref().unwrap_or("the key in the headers that were given (--header)"))
    }

    /// The engine behind the server on loopback.
    pub(crate) fn embedded(address: SocketAddr, config: &Config) -> Result<Endpoint, BenchError> {
        let base = tokrate_net::Target::parse(&format!("http://{address}/v1"))?;
        let client =
            ClientConfig { connect_timeout: config.limits.connect, rx_timestamps: true, ..ClientConfig::default() };
        Ok(Endpoint {
            client,
            base,
            model: "sim".to_owned(),
            headers: HeaderMap::new(),
            authorizer: None,
            key_origin: None,
            http: HttpVersion::Http1,
            provider: "tokrate sim (embedded)".to_owned(),
            dialect: Dialect::OpenAiChat,
            price: None,
        })
    }

    /// An endpoint somewhere.
    pub(crate) fn remote(remote: &Remote, config: &Config) -> Endpoint {
        let client = ClientConfig {
            http: remote.http,
            http2: remote.http2,
            connect_timeout: config.limits.connect,
            reuse: !remote.new_connections,
            rx_timestamps: true,
            ca_file: remote.ca_file.clone(),
            insecure: remote.insecure,
            resume_tls: remote.tls_resume,
            lookup_each: remote.new_connections,
            unix_socket: remote.unix_socket.clone(),
            proxy: remote.proxy.clone(),
        };
        Endpoint {
            client,
            base: remote.base.clone(),
            model: remote.model.clone(),
            headers: remote.headers.clone(),
            authorizer: remote.authorizer.clone(),
            key_origin: remote.key_origin.clone(),
            http: remote.http,
            provider: remote.provider.clone().unwrap_or_else(|| remote.base.host().to_owned()),
            dialect: remote.dialect,
            price: remote.price.clone(),
        }
    }
}

/// The conditions that the record of a run will list; of the embedded engine, whose port is new in every run, without its endpoint.
///
/// # Errors
/// As of the run.
pub fn planned_conditions(config: &Config) -> Result<Conditions, BenchError> {
    match &config.target {
        Target::Embedded(_) => {
            let unbound = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let planned = conditions(config, &Endpoint::embedded(unbound, config)?, None);
            Ok(Conditions { endpoint: String::new(), ..planned })
        }
        Target::Remote(remote) => Ok(conditions(config, &Endpoint::remote(remote, config), None)),
    }
}

/// The conditions of a level, or of a whole run.
pub(crate) fn conditions(config: &Config, endpoint: &Endpoint, spec: Option<&PhaseSpec>) -> Conditions {
    let load = spec.map(|spec| &spec.load);
    let all_closed = || config.phases.iter().all(|spec| spec.load.is_closed());
    let concurrency = match load {
        Some(Load::Closed { concurrency } | Load::Batched { concurrency, .. }) => Some(*concurrency),
        Some(Load::Sessions { sessions, .. }) => Some(*sessions),
        Some(Load::Agents { beginning: Beginning::AtOnce(sessions, _), .. }) => Some(*sessions),
        _ => None,
    };
    let rate = match load {
        Some(Load::Open { .. } | Load::Trace { .. }) => load.and_then(Load::rate),
        _ => None,
    };
    let arrivals = match load {
        Some(load) => load.arrivals(),
        None => if all_closed() { "closed" } else { "open" }.to_owned(),
    };
    let input = config.request.audio.as_ref().and_then(|audio| audio.input());
    Conditions {
        model: endpoint.model.clone(),
        provider: endpoint.provider.clone(),
        endpoint: match &endpoint.client.unix_socket {
            None => endpoint.base.to_string(),
            Some(path) => format!("{} at unix:{}", endpoint.base, path.display()),
        },
        dialect: endpoint.dialect.name().to_owned(),
        task: task(&config.request).to_owned(),
        batch: config.request.items.and_then(|items| batch(config, spec, items.batch)),
        media: media(&config.request),
        streaming: config.request.stream,
        http_version: endpoint.http.name().to_owned(),
        tls: endpoint.base.is_tls(),
        proxied: endpoint.client.uses_proxy(&endpoint.base),
        connection: connection(&endpoint.client),
        input_tokens: if input.is_some() { 0 } else { config.prompts.input_tokens() },
        output_tokens: if writes_nothing(&config.request) { 0 } else { config.output_tokens() },
        shared_prefix_tokens: config.prompts.shared_prefix_tokens(),
        prompts: input.map_or_else(|| config.prompts.text(&config.request.output_tokens), str::to_owned),
        ignore_eos: config.request.ignore_eos,
        arrivals,
        concurrency,
        rate,
        tokenizer: Encoding::O200kBase.name().to_owned(),
        options: options_text(&config.request),
        host: config.host.clone(),
        machine: config.machine.clone(),
        region: config.region.clone(),
        seed: config.seed,
        version: config.version.clone(),
    }
}

/// Whether its answers hold no text.
fn writes_nothing(request: &RequestOptions) -> bool {
    request.audio.is_some() || request.items.is_some_and(|items| items.task != ItemTask::Batch)
}

/// State of the connection when a request is sent, and how requests share it.
fn connection(client: &ClientConfig) -> String {
    let streams = client.http2.streams.map(|streams| format!("at most {streams} streams each"));
    let state = match (client.reuse, client.resume_tls, client.http2.connections) {
        (true, _, None) => "reused".to_owned(),
        (true, _, Some(1)) => "1 shared".to_owned(),
        (true, _, Some(connections)) => format!("{connections} shared"),
        (false, false, _) => "new".to_owned(),
        (false, true, _) => "new, TLS sessions resumed".to_owned(),
    };
    [Some(state), streams].into_iter().flatten().collect::<Vec<String>>().join(", ")
}

/// What is asked for, in one word.
fn task(request: &RequestOptions) -> &'static str {
    let structure = request.structure.as_ref().map(|structure| structure.task());
    let audio = request.audio.as_ref().map(|audio| audio.name());
    request.items.map(|items| items.task.name()).or(structure).or(audio).unwrap_or("chat")
}

/// Images and sound that requests bring or ask for, in words.
fn media(request: &RequestOptions) -> String {
    let brought = request.attachments.as_ref().map(|attached| attached.text());
    brought.or(request.images.as_ref().map(|asked| asked.text())).unwrap_or_default()
}

/// Texts of a request of a level; of a whole run those that all its levels have.
fn batch(config: &Config, spec: Option<&PhaseSpec>, otherwise: u32) -> Option<u32> {
    let of = |spec: &PhaseSpec| spec.load.batch().unwrap_or(otherwise);
    match spec {
        Some(spec) => Some(of(spec)),
        None => {
            let first = config.phases.first().map(of);
            first.filter(|first| config.phases.iter().all(|spec| of(spec) == *first))
        }
    }
}

/// Options that change what an engine does, as one line.
fn options_text(options: &RequestOptions) -> String {
    let temperature = options.temperature.map(|temperature| format!("temperature={temperature}"));
    let extra = options.extra.iter().map(|(name, json)| format!("{name}={json}"));
    let schema = options.structure.as_ref().map(|structure| format!("schema={}", structure.name()));
    let poll = options.batches.as_ref().map(|batches| format!("poll={}", batches.poll));
    let partial = options.images.as_ref().and_then(|asked| asked.partial);
    let partial = partial.map(|partial| format!("partial_images={partial}"));
    let adapters = options.adapters.as_ref().map(|adapters| format!("models={adapters}"));
    let tools = options.tool_turns.as_ref().map(|tools| format!("tool_results={}x{}", tools.each, tools.result));
    let audio = options.audio.as_ref().map(|audio| audio.options());
    let named = [temperature, tools, adapters, schema, partial, poll, audio].into_iter().flatten();
    named.chain(extra).collect::<Vec<String>>().join(" ")
}
