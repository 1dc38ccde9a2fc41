//! From the flags of `tokrate apply` and `tokrate mcp` to what the merge engine and its server are given.

use super::environment::{self, Environment};
use crate::flags::apply::{Fallback as FallbackFlags, Flags};
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use tokrate_apply::{Encoding, Format, Language};
use tokrate_apply_host::{Fallback, FallbackConfig, HostConfig, OnRefuse};
use tokrate_catalog::Auth;
use tokrate_core::Span;
use tokrate_net::ClientConfig;
use tokrate_net::server::ApiKey;
use tokrate_targets::{KeyReference, key_header, parse_url};

/// Time for the answer of a model.
const FALLBACK_TIMEOUT: Span = Span::from_secs(300);

/// The language that was named, if one was.
pub fn language(typed: Option<&str>) -> Result<Option<Language>> {
    let Some(name) = typed else { return Ok(None) };
    let known = || Language::ALL.map(Language::name).join(", ");
    let language = Language::from_name(name).with_context(|| {
        format!("read --language: `{name}` is no language with a grammar; write one of {}", known())
    })?;
    ensure!(language.is_built_in(), "read --language: this build has no grammar for {name}; leave the flag out");
    Ok(Some(language))
}

/// The format that was named, if one was.
pub fn format(typed: Option<&str>) -> Result<Option<Format>> {
    let Some(name) = typed else { return Ok(None) };
    let known = || Format::ALL.map(Format::name).join(", ");
    let format = Format::from_name(name);
    format.map(Some).with_context(|| format!("read --format: `{name}` is no format; write one of {}", known()))
}

/// The encoding that was named, if one was.
pub fn encoding(typed: Option<&str>) -> Result<Option<Encoding>> {
    let Some(name) = typed else { return Ok(None) };
    let encoding = Encoding::from_name(name);
    encoding.map(Some).with_context(|| format!("read --encoding: `{name}` is none; write one of {}", encodings()))
}

/// The names of all encodings.
pub fn encodings() -> String {
    Encoding::NAMED.map(|(name, _)| name).join(", ")
}

/// What the server is given.
pub fn host(flags: &Flags, address: &str) -> Result<HostConfig> {
    let address: SocketAddr = address
        .parse()
        .ok()
        .with_context(|| format!("read --serve: `{address}` is no address; write for example 127.0.0.1:8410"))?;
    let default = HostConfig::new(address);
    let on_refuse = match flags.on_refuse.as_deref() {
        None => default.on_refuse,
        Some(name) => OnRefuse::from_name(name)
            .with_context(|| format!("read --on-refuse: `{name}` is neither `error` nor `original`"))?,
    };
    let max_body_bytes = flags.max_body_bytes.unwrap_or(default.max_body_bytes);
    ensure!(max_body_bytes > 0, "read --max-body-bytes: no request fits into 0 bytes");
    let key = KeyReference::first(&flags.serve_key_env, &flags.serve_key_file, &flags.serve_key_cmd);
    let key = key.map(|key| key.fetch(&environment::variable).context("understand the server's key")).transpose()?;
    Ok(HostConfig {
        hosts: flags.allow_hosts.clone(),
        api_key: key.map(|key| ApiKey::new(key.reveal().to_owned())),
        on_refuse,
        max_body_bytes,
        max_buffered_bytes: default.max_buffered_bytes.max(max_body_bytes.saturating_mul(2)),
        without_tree: flags.no_tree,
        fallback: fallback_config(&flags.fallback)?,
        ..default
    })
}

/// The model to fall back to, its address resolved.
pub fn fallback(flags: &FallbackFlags) -> Result<Option<Fallback>> {
    Ok(fallback_config(flags)?.map(Fallback::resolve).transpose()?)
}

fn fallback_config(flags: &FallbackFlags) -> Result<Option<FallbackConfig>> {
    let Some(typed) = &flags.fallback else { return Ok(None) };
    let (url, model) = typed
        .split_once(',')
        .filter(|(_, model)| !model.trim().is_empty())
        .with_context(|| "read --fallback: write URL,MODEL, for example http://127.0.0.1:8000/v1,qwen")?;
    let target = parse_url(url).context("read --fallback")?;
    let key = KeyReference::first(&flags.key_env, &flags.key_file, &flags.key_cmd);
    let key = key.map(|key| key_header(Auth::Bearer, &key.fetch(&environment::variable)?)).transpose()?;
    let headers = key.into_iter().collect();
    let client = ClientConfig { proxy: Environment::read().proxies(), ..ClientConfig::default() };
    Ok(Some(FallbackConfig { target, model: model.trim().to_owned(), headers, client, timeout: FALLBACK_TIMEOUT }))
}
