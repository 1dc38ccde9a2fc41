//! Where a target's server publishes its metrics.
//!
//! Hosted providers are not asked. Invariant: a key goes only to the server that the requests go to.

use crate::config::Value;
use anyhow::{Result, ensure};
use http::HeaderMap;
use std::path::Path;
use tokrate_bench::ServerMetrics;
use tokrate_catalog::{Kind, Provider};
use tokrate_net::Target;
use tokrate_targets::parse_url;

/// Where Prometheus expects them.
const USUAL_PATH: &str = "/metrics";

/// What was typed, or where the catalog says that the engine publishes them.
pub(super) fn server_metrics(
    typed: Option<Value<String>>,
    row: Option<&'static Provider>,
    (base, unix_socket): (&Target, Option<&Path>),
    headers: &HeaderMap,
) -> Result<Option<ServerMetrics>> {
    let published = row.filter(|row| row.kind == Kind::Local).and_then(|row| row.metrics);
    let family = published.map(|metrics| metrics.family.to_owned());
    let (target, path) = match typed {
        Some(typed) if typed.value == "off" => return Ok(None),
        Some(typed) => {
            let target = typed.parse(|url| {
                ensure!(url.contains("://"), "`{url}` is neither a URL nor `off`");
                Ok(parse_url(&url)?)
            })?;
            let path = Some(target.value.path_with("")).filter(|path| !path.is_empty());
            (target.value, path.unwrap_or_else(|| USUAL_PATH.to_owned()))
        }
        None => match published {
            Some(metrics) => (base.clone(), metrics.path.to_owned()),
            None => return Ok(None),
        },
    };
    let place = |target: &Target| (target.is_tls(), target.host().to_owned(), target.port());
    let is_there = place(&target) == place(base);
    let headers = if is_there { headers.clone() } else { HeaderMap::new() };
    let unix_socket = unix_socket.filter(|_| is_there).map(Path::to_owned);
    Ok(Some(ServerMetrics { target, path, unix_socket, family, headers }))
}
