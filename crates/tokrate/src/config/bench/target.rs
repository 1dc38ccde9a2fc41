//! What is measured, and with which key: resolved from flags, environment and settings file.

use super::pick_text;
use crate::config::Origin;
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::config::secret::KeyReference;
use crate::flags::bench as flags;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use tokrate_bench::{Embedded, Remote, Target};
use tokrate_net::{HttpVersion, ProxySettings};
use tokrate_sim::{Faults, Law};

pub(super) fn target(flags: &flags::Target, environment: &Environment, file: &File) -> Result<Target> {
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
        provider: None,
        dialect: tokrate_wire::Dialect::OpenAiChat,
        price: None,
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
