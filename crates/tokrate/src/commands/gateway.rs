//! `tokrate gateway`: starts the lanes of this process, then the gateway, and runs it until a signal ends it.

mod in_force;
mod watch;

use super::Verdict;
use crate::config::clickhouse::answers;
use crate::config::gateway::{EffectiveValue, Local, Resolved, resolve};
use crate::flags::gateway::Flags;
use crate::out::events;
use anyhow::{Context, Result};
use http::HeaderMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokrate_admin::Admin;
use tokrate_bench::Stop;
use tokrate_gateway::{
    Config, EndpointConfig, Gateway, RunningGateway, check_budgets, format_race, unresolved_blocking,
};
use tokrate_host::{EmulatedEngine, FleetConfig, Host, MetricNames, Provider, RunningHost};
use tokrate_net::Target;
use tokrate_wire::Dialect;

/// Of a lane whose host name has no address.
const UNRESOLVED: &str = "left out until its name has an address";
/// The alias for any question, which `tokrate init` writes.
const MAIN_ALIAS: &str = "auto";
/// How often the state of the log is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Serves until interrupted.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if let Some(chain) = &flags.init_roles {
        crate::out::stdout::write(&super::estimate::roles::settings(chain)?)?;
        return Ok(Verdict::Good);
    }
    let mut resolved = resolve(flags)?;
    if flags.check {
        anstream::print!("{}", check_text(&resolved.effective));
        if let Some(shipping) = resolved.config.log.as_ref().and_then(|log| log.shipping.as_ref()) {
            anstream::println!("store: {}", answers(shipping));
        }
        let warnings = check_budgets(&resolved.config)?.into_iter();
        let unresolved = unresolved_blocking(&resolved.config)?.into_iter();
        for warning in warnings.chain(unresolved.map(|lane| format!("{UNRESOLVED}: {lane}"))) {
            anstream::eprintln!("tokrate: {warning}");
        }
        return Ok(Verdict::Good);
    }
    events::start(flags.log_level, flags.log_format);
    let stop = Stop::default();
    super::interrupt::watch_quietly(stop.clone())?;
    tokrate_net::server::raise_open_files();
    let _locals = start_locals(&mut resolved)?;
    let gateway = Gateway::start(resolved.config.clone(), Admin::new)?;
    gateway.observer().report_settings(in_force::of_start(&resolved));
    let _watch =
        resolved.config.log.as_ref().map(|log| watch::start(log.path.clone(), gateway.observer(), stop.clone()));
    let warnings = check_budgets(&resolved.config)?;
    wait(&stop, &gateway, flags, || {
        anstream::print!("{}", serving_text(&resolved, &gateway));
        warn_of_budgets(&warnings);
        warn(&gateway.unresolved());
    })?;
    tell_of_lanes(&gateway);
    anstream::println!("letting open calls end (again to end at once)");
    if let Some(trouble) = gateway.stop() {
        tracing::error!(error = %trouble, "the throughput log could not be ended");
    }
    Ok(Verdict::Good)
}

/// Tells of lanes whose names have no address.
fn warn(unresolved: &[String]) {
    for lane in unresolved {
        tracing::warn!(%lane, "{UNRESOLVED}");
    }
}

/// Tells what users of keys with a limit in dollars may stumble over.
fn warn_of_budgets(warnings: &[String]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

/// Tells of lanes that are left alone after failures, each with the cause.
fn tell_of_lanes(gateway: &RunningGateway) {
    for trouble in gateway.take_breaker_notices() {
        tracing::warn!("{trouble}");
    }
}

/// Prints where it serves, and waits for the end; SIGHUP reads the settings again.
fn wait(stop: &Stop, gateway: &RunningGateway, flags: &Flags, serving: impl FnOnce()) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("watch over the gateway: no runtime could be started")?;
    runtime.block_on(async {
        // From here on SIGHUP is caught; before, it would end the process, and a reader of the next lines may send one.
        let mut hangups = Hangups::new()?;
        serving();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                () = stop.wait() => return Ok(()),
                () = hangups.next() => {}
                _ = looks.tick() => {
                    while let Some(trouble) = gateway.take_log_error() {
                        tracing::error!(error = %trouble, "calls go on, but the throughput log is not written");
                    }
                    tell_of_lanes(gateway);
                    if let Some(trouble) = gateway.take_export_error() {
                        tracing::error!(error = %trouble, "calls go on, but the export to OpenTelemetry does not");
                    }
                    continue;
                }
            }
            match reload(gateway, flags) {
                Ok((message, config)) => {
                    anstream::println!("{message}");
                    // The log stays the one of the start, whatever the file names now; it was checked then.
                    warn_of_budgets(&check_budgets(&config).unwrap_or_default());
                    warn(&gateway.unresolved());
                }
                Err(error) => tracing::error!("kept the old settings: failed to {error:#}"),
            }
        }
    })
}

/// Reads the settings again. Lanes of this process stay as they were started.
fn reload(gateway: &RunningGateway, flags: &Flags) -> Result<(String, Config)> {
    let resolved = resolve(flags)?;
    anyhow::ensure!(
        resolved.locals.is_empty(),
        "read the settings again: lanes of this process (`local`) are started with it; end it and start it anew"
    );
    let (lanes, aliases) = (resolved.config.lanes.len(), resolved.config.aliases.len());
    gateway.reconfigure(&resolved.config)?;
    let observer = gateway.observer();
    observer.report_settings(in_force::of_reload(&resolved, &observer.snapshot().settings.settings));
    let message = format!(
        "read the settings again: {lanes} lanes, {aliases} aliases; addresses, hosts, origins, limits of connections and of \
         bodies_bytes and answers_bytes, the log and the export stay as they are"
    );
    Ok((message, resolved.config))
}

/// Starts simulated providers and the merge engine, and writes down where they are.
pub fn start_locals(resolved: &mut Resolved) -> Result<Vec<RunningHost>> {
    let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut hosts = Vec::new();
    for (place, local) in std::mem::take(&mut resolved.locals) {
        let is_apply = local == Local::Apply;
        let address = match local {
            Local::Simulated(persona) => {
                let provider = Provider {
                    persona: *persona,
                    address: Some(here),
                    model: resolved.config.lanes[place].model.clone(),
                    only_model: false,
                    api_key: None,
                    emulated_engine: EmulatedEngine::default(),
                    metrics: MetricNames::default(),
                    script: None,
                    gpus: None,
                };
                // Of one seed, all of them would write the same.
                let seed = resolved.config.seed + place as u64;
                let fleet = FleetConfig { providers: vec![provider], seed, ..FleetConfig::default() };
                let host = Host::start(fleet)?;
                let address = host.address();
                hosts.push(host);
                address
            }
            Local::Apply => start_apply(here)?,
        };
        resolved.config.lanes[place].endpoints = local_endpoints(address, is_apply)?;
    }
    Ok(hosts)
}

/// Starts the merge engine in a thread of its own, for the rest of the process.
fn start_apply(address: SocketAddr) -> Result<SocketAddr> {
    let (started, listening) = std::sync::mpsc::channel();
    let ready = started.clone();
    std::thread::Builder::new()
        .name("apply".to_owned())
        .spawn(move || {
            let listening = move |address: SocketAddr| drop(ready.send(Ok(address)));
            let config = tokrate_apply_host::HostConfig::new(address);
            if let Err(error) = tokrate_apply_host::run(config, listening, std::future::pending()) {
                drop(started.send(Err(error)));
            }
        })
        .context("start the merge engine: no thread could be started")?;
    Ok(listening.recv().context("start the merge engine: it ended at once")??)
}

/// How an engine of this process is spoken with.
fn local_endpoints(address: SocketAddr, only_chat: bool) -> Result<Vec<EndpointConfig>> {
    let mut endpoints = Vec::new();
    for dialect in Dialect::ALL {
        if only_chat && dialect != Dialect::OpenAiChat {
            continue;
        }
        let base = Target::parse(&format!("http://{address}{}", dialect.base_path()))?;
        endpoints.push(EndpointConfig {
            dialect,
            base,
            headers: HeaderMap::new(),
            authorizer: None,
            no_stream_options: false,
            max_tokens_field: false,
        });
    }
    Ok(endpoints)
}

/// The effective configuration, a line a value.
fn check_text(shown: &[EffectiveValue]) -> String {
    let width = |of: fn(&EffectiveValue) -> usize| shown.iter().map(of).max().unwrap_or(0);
    let key_width = width(|row| row.key.len());
    let mut text = String::new();
    for row in shown {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:key_width$}  {}   ({})", row.key, row.value, row.origin);
    }
    text
}

/// Where the gateway is, and how it is called.
fn serving_text(resolved: &Resolved, gateway: &RunningGateway) -> String {
    let Config { lanes, aliases, keys, log, otel, .. } = &resolved.config;
    let (scheme, admin_scheme) = {
        let name = |speaks_tls| if speaks_tls { "https" } else { "http" };
        let (clients, admin) = gateway.speaks_tls();
        (name(clients), name(admin))
    };
    let url = format!("{scheme}://{}", gateway.address());
    let mut text = String::new();
    // Writing to a String cannot fail.
    let noun = if lanes.len() == 1 { "lane" } else { "lanes" };
    let _ = writeln!(text, "serving {} {noun} at {url}/v1 (Ctrl-C ends)", lanes.len());
    if resolved.is_trial {
        let _ = writeln!(
            text,
            "no lanes are configured: three simulated providers stand in; `tokrate init` writes a tokrate.toml"
        );
    }
    for lane in lanes {
        let _ = writeln!(text, "  lane  {:12} {}/{}", lane.name, lane.provider, lane.model);
    }
    for alias in aliases {
        let names: Vec<&str> = alias.lanes.iter().map(|place| lanes[*place].name.as_str()).collect();
        let _ = writeln!(
            text,
            "  alias {:12} {}; {}; {}",
            alias.name,
            names.join(", "),
            alias.policy,
            format_race(alias.mode, alias.win)
        );
    }
    let alias = aliases.iter().find(|alias| alias.name == MAIN_ALIAS).or(aliases.first());
    let model = alias.map_or(&lanes[0].name, |alias| &alias.name);
    let key = if keys.is_empty() { "none is needed" } else { "one of [gateway.keys], such as in OPENAI_API_KEY" };
    let _ = writeln!(text, "\npoint an SDK at base URL {url}/v1, model `{model}`, key: {key}");
    let shows = if keys.is_empty() { "" } else { " -H \"authorization: Bearer $OPENAI_API_KEY\"" };
    let _ = writeln!(
        text,
        "try: curl -sN {url}/v1/chat/completions{shows} -H 'content-type: application/json' \\\n       \
         -d '{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"How fast are you?\"}}]}}'"
    );
    if let Some(admin) = gateway.admin() {
        let _ = writeln!(text, "page: {admin_scheme}://{admin}/   metrics: {admin_scheme}://{admin}/metrics");
    }
    if let Some(otel) = otel {
        if otel.metrics {
            let _ = writeln!(text, "metrics are exported to {} every {}", otel.endpoint, otel.interval);
        }
        if let Some(traces) = otel.traces {
            let lanes = if traces.propagate { "; lanes are told of them" } else { "" };
            let _ =
                writeln!(text, "traces are exported to {}, {} % of them{lanes}", otel.endpoint, 100.0 * traces.ratio);
        }
    }
    if let Some(log) = log {
        let _ = writeln!(text, "throughput log: {} (`tokrate log` reads it)", log.path.display());
    }
    text
}

/// SIGHUP.
#[cfg(unix)]
struct Hangups(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Hangups {
    fn new() -> Result<Hangups> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Hangups(signal(SignalKind::hangup()).context("watch for SIGHUP: the signal cannot be caught")?))
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(not(unix))]
struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    fn new() -> Result<Hangups> {
        Ok(Hangups)
    }

    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
