//! From the flags of `tokrate bench` to the plain configuration of the part.

use super::environment::Environment;
use super::file::File;
use super::quantity;
use super::secret::KeyReference;
use super::{Origin, Value, layered};
use crate::flags::bench::{self as flags, Flags};
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use tokrate_bench::plan::{Arrivals, Extent, Load, PhaseSpec};
use tokrate_bench::prompts::PromptSpec;
use tokrate_bench::{Calibration, Config, Embedded, Limits, Remote, RequestOptions, Target};
use tokrate_core::{RequestsPerSecond, Span};
use tokrate_net::{HttpVersion, ProxySettings};
use tokrate_sim::{Faults, Law};

/// Concurrency levels of a sweep when none are given.
const DEFAULT_SWEEP: [u32; 4] = [1, 10, 25, 50];
/// Time per level against the embedded engine when nothing else is asked for.
const EMBEDDED_LEVEL: Span = Span::from_secs(8);
/// More requests in flight than any machine that runs this carries.
const CONCURRENCY_MOST: u32 = 100_000;
const BODY_BYTES_MOST: u64 = 256 * 1024 * 1024;

/// Where results go and how the run is judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs {
    /// Record as JSON; `-` is standard output.
    pub json: Option<PathBuf>,
    /// One line per request.
    pub jsonl: Option<PathBuf>,
    /// The report.
    pub html: Option<PathBuf>,
    /// No progress, no table.
    pub quiet: bool,
    /// Share of failed requests above which the exit code is 1.
    pub max_failures: f64,
    /// Exit with 2 when the result does not count.
    pub strict: bool,
}

/// Resolves flags, environment and settings file.
pub fn resolve(flags: &Flags, environment: &Environment, file: &File) -> Result<(Config, Outputs)> {
    let target = target(&flags.target, environment, file)?;
    let embedded = matches!(target, Target::Embedded(_));
    let config = Config {
        phases: phases(&flags.load, file, embedded)?,
        request: request(&flags.request, file, embedded)?,
        prompts: prompts(&flags.request, file, embedded)?,
        limits: limits(&flags.limits, file)?,
        workers: flags.load.workers.or(file.bench.workers),
        calibration: calibration(&flags.limits, environment),
        seed: flags.load.seed.or(file.bench.seed).unwrap_or(0),
        host: environment.host.clone(),
        region: pick_text(
            "--region",
            &flags.target.region,
            Some(("TOKRATE_REGION", &environment.region)),
            file,
            "region",
            &file.bench.region,
        )
        .map(|region| region.value)
        .unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        target,
    };
    ensure!(config.workers != Some(0), "read --workers: at least one client thread is needed");
    Ok((config, outputs(flags, file, embedded)?))
}

fn pick_text(
    flag: &'static str,
    typed: &Option<String>,
    variable: Option<(&'static str, &Option<String>)>,
    file: &File,
    key: &str,
    in_file: &Option<String>,
) -> Option<Value<String>> {
    layered(
        (flag, typed.clone()),
        variable.map(|(name, value)| (name, value.clone())),
        (file.key(key), in_file.clone()),
    )
}

fn target(flags: &flags::Target, environment: &Environment, file: &File) -> Result<Target> {
    let bench = &file.bench;
    let url = pick_text("--url", &flags.url, Some(("TOKRATE_URL", &environment.url)), file, "url", &bench.url);
    let model =
        pick_text("--model", &flags.model, Some(("TOKRATE_MODEL", &environment.model)), file, "model", &bench.model);
    let Some(url) = url else {
        if let Some(model) = model.filter(|model| matches!(model.origin, Origin::Flag(_))) {
            bail!(
                "start the run: --model {} needs an endpoint; name it with --url, such as --url http://127.0.0.1:8000/v1",
                model.value
            );
        }
        // A little unsteadiness, as real engines have it; without it all requests of a level would march in step.
        let law = Law { gap_jitter: 0.1, ttft_jitter: 0.1, ..Law::default() };
        return Ok(Target::Embedded(Box::new(Embedded { law, faults: Faults::default() })));
    };
    let base = url.parse(|url| Ok(tokrate_net::Target::parse(&url)?))?.value;
    let model = model
        .map(|model| model.value)
        .filter(|model| !model.is_empty())
        .context("start the run: no model was named; add --model NAME (the endpoint lists its models at /models)")?;
    let mut headers = Vec::new();
    if let Some(key) = key_reference(flags, file) {
        let mut value = http::HeaderValue::from_str(&format!("Bearer {}", key.fetch()?.reveal()))
            .context("read the API key: it holds characters that no header can carry")?;
        value.set_sensitive(true);
        headers.push((http::header::AUTHORIZATION, value));
    }
    let typed =
        if flags.headers.is_empty() { bench.headers.clone().unwrap_or_default() } else { flags.headers.clone() };
    for line in &typed {
        headers.push(header(line)?);
    }
    Ok(Target::Remote(Box::new(Remote {
        base,
        model,
        headers,
        http: http_version(flags, file)?,
        new_connections: flags.new_connections,
        ca_file: flags.ca_file.clone().or_else(|| bench.ca_file.clone()),
        proxy: ProxySettings::from_values(
            environment.http_proxy.as_deref(),
            environment.https_proxy.as_deref(),
            environment.all_proxy.as_deref(),
            environment.no_proxy.as_deref(),
        ),
    })))
}

fn key_reference(flags: &flags::Target, file: &File) -> Option<KeyReference> {
    let of = |variable: &Option<String>, path: &Option<PathBuf>, command: &Option<String>| {
        None.or_else(|| variable.clone().map(KeyReference::Variable))
            .or_else(|| path.clone().map(KeyReference::File))
            .or_else(|| command.clone().map(KeyReference::Command))
    };
    of(&flags.key_env, &flags.key_file, &flags.key_cmd)
        .or_else(|| of(&file.bench.key_env, &file.bench.key_file, &file.bench.key_cmd))
}

/// Reads "Name: value". An error names the header, never its value.
fn header(line: &str) -> Result<(http::HeaderName, http::HeaderValue)> {
    let (name, value) = line.split_once(':').context("read --header: write it as \"Name: value\"")?;
    let name = name.trim();
    let parsed =
        http::HeaderName::try_from(name).ok().with_context(|| format!("read --header: `{name}` is no header name"))?;
    let mut value = http::HeaderValue::from_str(value.trim())
        .ok()
        .with_context(|| format!("read --header: the value of `{name}` holds characters that no header can carry"))?;
    // Any header may carry a key.
    value.set_sensitive(true);
    Ok((parsed, value))
}

fn http_version(flags: &flags::Target, file: &File) -> Result<HttpVersion> {
    Ok(match (flags.http, file.bench.http.as_deref()) {
        (Some(flags::HttpVersion::Http1), _) | (None, None | Some("1.1")) => HttpVersion::Http1,
        (Some(flags::HttpVersion::Http2), _) | (None, Some("2")) => HttpVersion::Http2,
        (None, Some(other)) => bail!("read {}: `{other}` is no HTTP version; write 1.1 or 2", file.key("http")),
    })
}

fn phases(flags: &flags::Load, file: &File, embedded: bool) -> Result<Vec<PhaseSpec>> {
    let bench = &file.bench;
    let duration = pick_text("--duration", &flags.duration, None, file, "duration", &bench.duration)
        .map(|duration| duration.parse(|text| quantity::span(&text)))
        .transpose()?
        .map(|duration| duration.value)
        .filter(|_| flags.requests.is_none());
    ensure!(
        duration.is_none_or(|duration| !duration.is_zero()),
        "read --duration: a level needs some time; write for example 30s"
    );
    let requests = flags.requests.or(bench.requests);
    ensure!(requests != Some(0), "read --requests: at least one request is needed");
    let warmup = flags.warmup.or(bench.warmup);
    if let Some(rates) = &flags.rate {
        return rates.iter().map(|&rate| open_phase(flags, rate, duration, requests, warmup)).collect();
    }
    let levels =
        flags.concurrency.clone().or_else(|| bench.concurrency.clone()).unwrap_or_else(|| DEFAULT_SWEEP.to_vec());
    ensure!(!levels.is_empty(), "read --concurrency: name at least one level");
    levels
        .into_iter()
        .map(|concurrency| {
            ensure!(
                (1..=CONCURRENCY_MOST).contains(&concurrency),
                "read --concurrency: {concurrency} is not between 1 and {CONCURRENCY_MOST}"
            );
            let extent = match (duration, requests) {
                (Some(duration), _) => Extent::Duration(duration),
                (None, Some(requests)) => Extent::Requests(requests),
                (None, None) if embedded => Extent::Duration(EMBEDDED_LEVEL),
                (None, None) => Extent::Requests(u64::from(concurrency * 3).max(20)),
            };
            Ok(PhaseSpec {
                load: Load::Closed { concurrency },
                extent,
                warmup: warmup.unwrap_or(u64::from(concurrency)),
            })
        })
        .collect()
}

fn open_phase(
    flags: &flags::Load,
    rate: f64,
    duration: Option<Span>,
    requests: Option<u64>,
    warmup: Option<u64>,
) -> Result<PhaseSpec> {
    let rate = RequestsPerSecond::new(rate)
        .filter(|rate| rate.per_second() > 0.0 && rate.per_second() <= 1e6)
        .with_context(|| format!("read --rate: {rate} is not a rate between 0 and 1,000,000 requests per second"))?;
    let arrivals = match flags.arrivals.unwrap_or(flags::Arrivals::Poisson) {
        flags::Arrivals::Constant => Arrivals::Constant,
        flags::Arrivals::Poisson => Arrivals::Poisson,
    };
    let extent = match (duration, requests) {
        (Some(duration), _) => Extent::Duration(duration),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) => Extent::Duration(Span::from_secs(30)),
    };
    let in_flight_limit = flags.max_in_flight.unwrap_or(4096);
    ensure!(in_flight_limit > 0, "read --max-in-flight: with 0 every arrival would be forfeited; give at least 1");
    let load = Load::Open { rate, arrivals, in_flight_limit };
    Ok(PhaseSpec { load, extent, warmup: warmup.unwrap_or(0) })
}

fn request(flags: &flags::Request, file: &File, embedded: bool) -> Result<RequestOptions> {
    let bench = &file.bench;
    let output_tokens = flags.output_tokens.or(bench.output_tokens).unwrap_or(if embedded { 100 } else { 1000 });
    ensure!(output_tokens > 0, "read --output-tokens: at least one token is needed");
    let temperature = flags.temperature.or(bench.temperature);
    ensure!(
        temperature.is_none_or(|temperature| temperature.is_finite() && temperature >= 0.0),
        "read --temperature: it must be a number of at least 0"
    );
    let extra = flags.body.iter().map(|field| body_field(field)).collect::<Result<Vec<_>>>()?;
    Ok(RequestOptions {
        stream: !flags.no_stream,
        include_usage: !flags.no_usage,
        output_tokens,
        ignore_eos: flags.ignore_eos || bench.ignore_eos.unwrap_or(false),
        legacy_max_tokens: flags.max_tokens_field || bench.max_tokens_field.unwrap_or(false),
        temperature,
        extra,
    })
}

/// Reads NAME=JSON.
fn body_field(field: &str) -> Result<(String, String)> {
    let (name, json) = field.split_once('=').with_context(|| format!("read --body: `{field}` is not NAME=JSON"))?;
    serde_json::from_str::<serde_json::Value>(json)
        .with_context(|| format!("read --body: the value of `{name}` is not JSON; quote text as '\"text\"'"))?;
    Ok((name.to_owned(), json.to_owned()))
}

fn prompts(flags: &flags::Request, file: &File, embedded: bool) -> Result<PromptSpec> {
    let bench = &file.bench;
    let input_tokens = flags.input_tokens.or(bench.input_tokens).unwrap_or(if embedded { 200 } else { 1000 });
    ensure!(
        (1..=10_000_000).contains(&input_tokens),
        "read --input-tokens: {input_tokens} is not between 1 and 10,000,000"
    );
    let shared_prefix_tokens = flags.shared_prefix.or(bench.shared_prefix).unwrap_or(0);
    ensure!(
        shared_prefix_tokens <= input_tokens,
        "read --shared-prefix: {shared_prefix_tokens} tokens do not fit into prompts of {input_tokens} (--input-tokens)"
    );
    Ok(PromptSpec { input_tokens, shared_prefix_tokens })
}

fn limits(flags: &flags::Limits, file: &File) -> Result<Limits> {
    let bench = &file.bench;
    let read = |flag, typed: &Option<String>, key, in_file: &Option<String>, default: Span| -> Result<Span> {
        let found = pick_text(flag, typed, None, file, key, in_file);
        let span = found.map(|text| {
            text.parse(|text| {
                let span = quantity::span(&text)?;
                ensure!(!span.is_zero(), "a limit of no time lets nothing through");
                Ok(span)
            })
        });
        Ok(span.transpose()?.map_or(default, |span| span.value))
    };
    Ok(Limits {
        connect: read(
            "--connect-timeout",
            &flags.connect_timeout,
            "connect_timeout",
            &bench.connect_timeout,
            Span::from_secs(10),
        )?,
        idle: read("--idle-timeout", &flags.idle_timeout, "idle_timeout", &bench.idle_timeout, Span::from_secs(60))?,
        total: read("--timeout", &flags.timeout, "timeout", &bench.timeout, Span::from_secs(600))?,
        max_body_bytes: BODY_BYTES_MOST,
    })
}

fn calibration(flags: &flags::Limits, environment: &Environment) -> Calibration {
    match (flags.calibration.unwrap_or(flags::Calibration::Cached), &environment.cache_folder) {
        (flags::Calibration::Off, _) => Calibration::Off,
        (flags::Calibration::Cached, Some(folder)) => Calibration::Cached(folder.clone()),
        (flags::Calibration::Run | flags::Calibration::Cached, _) => Calibration::Run,
    }
}

fn outputs(flags: &Flags, file: &File, embedded: bool) -> Result<Outputs> {
    let output = &flags.output;
    let default_html = (embedded && !output.no_html).then(|| PathBuf::from("tokrate-report.html"));
    let max_failures = flags.limits.max_failures.or(file.bench.max_failures).unwrap_or(0.01);
    ensure!((0.0..=1.0).contains(&max_failures), "read --max-failures: {max_failures} is not a share between 0 and 1");
    for (flag, path) in [("--jsonl", &output.jsonl), ("--html", &output.html)] {
        let is_stdout = path.as_deref() == Some(std::path::Path::new("-"));
        ensure!(!is_stdout, "read {flag}: only --json can go to standard output; name a file");
    }
    Ok(Outputs {
        json: output.json.clone(),
        jsonl: output.jsonl.clone(),
        html: output.html.clone().or(default_html),
        quiet: output.quiet,
        max_failures,
        strict: flags.limits.strict,
    })
}
