//! Where a target's server publishes its metrics.
//!
//! Hosted providers are not asked. Invariant: a key goes only to the server that the requests go to.

use crate::config::{Value, machine, quantity};
use crate::flags::bench::Flags;
use anyhow::{Context, Result, anyhow, ensure};
use http::HeaderMap;
use std::path::Path;
use tokrate_bench::{Sampling, ServerMetrics};
use tokrate_catalog::{Kind, Provider};
use tokrate_core::Span;
use tokrate_net::Target;
use tokrate_targets::parse_url;

/// Where Prometheus expects them.
const USUAL_PATH: &str = "/metrics";
/// How often pages are read unless somebody says otherwise.
const USUAL_INTERVAL: Span = Span::from_secs(1);
/// The least of what is typed: what is drawn has no finer grain.
const MIN_INTERVAL: Span = Span::from_millis(100);

/// What is read beside the run: how often, and where graphics processors are described.
pub(in crate::config::bench) fn sampling(flags: &Flags) -> Result<Sampling> {
    let every = match flags.target.metrics_every.as_deref() {
        None => USUAL_INTERVAL,
        Some("off") => Span::ZERO,
        Some(text) => interval(text).map_err(|error| anyhow!("read --metrics-every: {error:#}, or `off`"))?,
    };
    let slice = flags.output.slice.as_deref().map(|text| interval(text).context("read --slice")).transpose()?;
    let typed = flags.target.gpu_metrics.as_deref();
    let pages = typed.unwrap_or_default().iter().filter(|url| *url != "off");
    Ok(Sampling {
        every,
        gpu_pages: pages.map(|url| gpu_page(url)).collect::<Result<_>>()?,
        local_gpus: if typed.is_none() { machine::gpu_source() } else { None },
        slice,
    })
}

/// A time between two points of what is drawn.
fn interval(text: &str) -> Result<Span> {
    quantity::at_least(MIN_INTERVAL, quantity::span(text)?)
}

/// A page of an exporter; no key goes there.
fn gpu_page(url: &str) -> Result<ServerMetrics> {
    ensure!(url.contains("://"), "read --gpu-metrics: `{url}` is neither a URL nor `off`");
    let target = parse_url(url).context("read --gpu-metrics")?;
    let path = Some(target.path_with("")).filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.to_owned());
    Ok(ServerMetrics { target, path, unix_socket: None, family: None, headers: HeaderMap::new() })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_beside_the_run_is_as_typed() {
        let read = |set: &dyn Fn(&mut Flags)| {
            let mut flags = Flags::default();
            set(&mut flags);
            sampling(&flags).map_err(|error| format!("{error:#}"))
        };
        let usual = read(&|_| ()).expect("nothing is typed");
        assert_eq!((usual.every, usual.slice, usual.gpu_pages.len()), (Span::from_secs(1), None, 0));
        let off = read(&|flags| flags.target.metrics_every = Some("off".to_owned())).expect("it is off");
        assert_eq!(off.every, Span::ZERO);
        let pages = ["http://a:9400", "http://b/gpu/metrics", "off"].map(str::to_owned).to_vec();
        let named = read(&|flags| flags.target.gpu_metrics = Some(pages.clone())).expect("two pages");
        let paths: Vec<&str> = named.gpu_pages.iter().map(|page| page.path.as_str()).collect();
        assert_eq!(paths, ["/metrics", "/gpu/metrics"]);
        for (typed, shown) in [("50ms", "50ms"), ("0", "0s")] {
            let short =
                read(&|flags| flags.target.metrics_every = Some(typed.to_owned())).expect_err("it is too often");
            assert_eq!(
                short,
                format!("read --metrics-every: {shown} is less than 100ms; write 100ms or more, or `off`")
            );
        }
        let slice = read(&|flags| flags.output.slice = Some("1ms".to_owned())).expect_err("it is too short");
        assert_eq!(slice, "read --slice: 1ms is less than 100ms; write 100ms or more");
        let word = read(&|flags| flags.target.gpu_metrics = Some(vec!["yes".to_owned()])).expect_err("it is no URL");
        assert!(word.contains("neither a URL nor `off`"), "{word}");
    }
}
