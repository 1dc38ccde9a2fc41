//! Flags of `tokrate bench` that say what is measured. Nothing is resolved or checked here beyond its form.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What is measured.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Target")]
pub struct Target {
    /// PROVIDER/MODEL, or ENGINE[@HOST:PORT]/MODEL for an engine of your own; several take turns and are compared
    /// (`tokrate targets` lists them) [default: an embedded engine]
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Base URL, such as http://127.0.0.1:8000/v1, or the whole address of its API [default: that of the TARGET]
    #[arg(long, value_name = "BASE")]
    pub url: Option<String>,
    /// Model name as the endpoint knows it [default: the only one that it lists]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// What is spoken, such as openai-chat, openai-responses, anthropic, gemini or ollama-chat [default: that of the TARGET,
    /// else openai-chat]
    #[arg(long, value_name = "NAME")]
    pub dialect: Option<String>,
    /// Environment variable that holds the API key [default: the provider's own]
    #[arg(long, value_name = "VAR", conflicts_with_all = ["key_file", "key_cmd"])]
    pub key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "FILE", conflicts_with = "key_cmd")]
    pub key_file: Option<PathBuf>,
    /// Command that prints the API key
    #[arg(long, value_name = "COMMAND")]
    pub key_cmd: Option<String>,
    /// Further request header, "Name: value"; repeatable
    #[arg(long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// HTTP version; h2 multiplexes and is a condition of its own
    #[arg(long, value_enum, value_name = "VERSION")]
    pub http: Option<HttpVersion>,
    /// With --http 2: so many connections, over which requests are spread [default: one for each 50 requests in flight]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: Option<u32>,
    /// With --http 2: streams of a connection at most; a request that finds none waits, which is shown [default: what the server allows,
    /// without --connections 50]
    #[arg(long, allow_negative_numbers = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub streams: Option<u32>,
    /// Open a new connection for every request, its name looked up anew, and show each step up to the first token
    #[arg(long)]
    pub new_connections: bool,
    /// With --new-connections: go on from earlier TLS sessions, as a warm process does, instead of a full handshake each time
    #[arg(long)]
    pub tls_resume: bool,
    /// Unix socket at which the endpoint listens; --url http://localhost/v1 then only says path and name
    #[arg(long, value_name = "PATH")]
    pub unix_socket: Option<PathBuf>,
    /// Proxy for every request: http://, https://, socks5:// or socks5h://, or `off` [default: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY
    /// and NO_PROXY]
    #[arg(long, value_name = "URL|off", conflicts_with = "unix_socket")]
    pub proxy: Option<String>,
    /// PEM file with further certificate authorities, or with the endpoint's own certificate
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Take any certificate of the endpoint: for tests only, with a warning in the result; means nothing for http://
    #[arg(long)]
    pub insecure: bool,
    /// Where the server publishes its own metrics (Prometheus), or `off` [default: where a local engine of the TARGET does]
    #[arg(long, value_name = "URL|off")]
    pub server_metrics: Option<String>,
    /// Where graphics processors are described (Prometheus: NVIDIA's DCGM-exporter, AMD's device-metrics-exporter), or `off`
    /// [default: NVIDIA's driver on this machine, in a binary with the feature nvml]
    #[arg(long, value_name = "URL,…|off", value_delimiter = ',')]
    pub gpu_metrics: Option<Vec<String>>,
    /// How often the server's and the processors' metrics are read during the run, or `off` for before and after each level only [default: 1s]
    #[arg(long, value_name = "TIME|off")]
    pub metrics_every: Option<String>,
    /// Region or place of the measuring machine, kept with the result
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Settings file [default: tokrate.toml in this folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// HTTP versions.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpVersion {
    /// HTTP/1.1, one request at a time per connection
    #[value(name = "1.1")]
    Http1,
    /// HTTP/2
    #[value(name = "2")]
    Http2,
}
