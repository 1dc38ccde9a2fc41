//! From the flags of `tokrate gateway` and `[gateway]` of the settings file to what the gateway is given; every value
//! remembers where it came from.

pub mod aliases;
pub(in crate::config) mod amounts;
pub(in crate::config) mod lanes;
mod otel;
pub mod rows;
pub mod simulated;
mod tls;

use super::clickhouse;
use super::environment::{self, Environment};
use super::file::File;
use super::quantity;
use crate::flags::gateway::Flags;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rows::{BreakerRow, GatewayRow, LimitsRow};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use tokrate_core::Span;
use tokrate_gateway::{
    BreakerConfig, Config, DEFAULT_SEED, LaneConfig, LimitsConfig, LogSettings, format_race, key_hash,
};
use tokrate_net::{ClientConfig, HttpVersion};
use tokrate_store::Shipping;
use tokrate_targets::KeyReference;

/// The origin of a value that was not set.
const DEFAULT: &str = "default";
const DEFAULT_LISTEN: &str = "127.0.0.1:8411";
const DEFAULT_ADMIN: &str = "127.0.0.1:8412";
const DEFAULT_LOG: &str = "tokrate-log.db";
/// Versions of HTTP towards providers, the default first.
pub(in crate::config) const HTTP: [(&str, HttpVersion); 2] = [("1.1", HttpVersion::Http1), ("2", HttpVersion::Http2)];
/// For how long after its last call a lane keeps a connection. Calls of one agent come every few seconds to minutes; who has paused for
/// longer does not mind a handshake.
const KEEP_WARM: Span = Span::from_secs(300);
/// How long rows are kept by default.
const DEFAULT_RETENTION: Span = Span::from_secs(90 * 86_400);

/// What is to be started.
#[derive(Debug)]
pub struct Resolved {
    /// For the gateway. Lanes of this process have no endpoint yet.
    pub config: Config,
    /// Lanes of this process, by their place in the configuration.
    pub locals: Vec<(usize, Local)>,
    /// Whether nothing was configured, so that simulated providers stand in.
    pub is_trial: bool,
    /// The effective configuration, with where each value came from.
    pub effective: Vec<EffectiveValue>,
    /// The settings file, and its text.
    pub file: PathBuf,
    pub text: String,
}

/// Lanes, and which of them are inside of this process, by their places.
pub type Lanes = (Vec<LaneConfig>, Vec<(usize, Local)>);

/// An engine inside of this process.
#[derive(Clone, PartialEq, Debug)]
pub enum Local {
    /// A simulated provider.
    Simulated(Box<tokrate_sim::Persona>),
    /// The merge engine.
    Apply,
}

/// A value of the effective configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveValue {
    /// Its key in the settings file.
    pub key: String,
    /// The value, keys of providers as `***`.
    pub value: String,
    /// Where it came from.
    pub origin: String,
}

/// Resolves flags and file. Keys are fetched.
pub fn resolve(flags: &Flags) -> Result<Resolved> {
    resolve_file(flags, &File::read(flags.config.as_deref())?)
}

/// What an empty file comes to, key by key.
#[cfg(test)]
pub(in crate::config) fn defaults() -> Vec<EffectiveValue> {
    let resolved = resolve_file(&Flags::default(), &File::default()).expect("nothing is needed");
    resolved.effective.into_iter().filter(|value| value.origin == DEFAULT).collect()
}

fn resolve_file(flags: &Flags, file: &File) -> Result<Resolved> {
    let row = file.gateway.clone().unwrap_or_default();
    let is_trial = row.lanes.is_empty();
    if is_trial && file.gateway.is_some() && !row.aliases.is_empty() {
        bail!("understand [gateway] of {}: it has aliases and no lanes; add [gateway.lanes.NAME]", file.path.display());
    }
    let mut effective = EffectiveConfig { file: file.path.clone(), values: Vec::new() };
    let listen = effective.pick("listen", ("--listen", flags.listen.clone()), row.listen.clone(), DEFAULT_LISTEN)?;
    let admin = effective.pick("admin", ("--admin", flags.admin.clone()), row.admin.clone(), DEFAULT_ADMIN)?;
    let log = effective.pick("log", ("--log", flags.log.clone()), row.log.clone(), DEFAULT_LOG)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = effective.pick("workers", ("--workers", flags.workers), row.workers, cores)?;
    ensure!((1..=1024).contains(&workers), "read workers: write a number from 1 to 1024");
    let (lanes, locals) = match is_trial {
        true => simulated::lanes(),
        false => effective.lanes(&row)?,
    };
    let aliases = match is_trial {
        true => simulated::aliases(),
        false => aliases::aliases(&row, &lanes)?,
    };
    let keys = aliases::keys(&row)?;
    effective.routes(&lanes, &aliases, &keys, is_trial);
    let answer_check = simulated::answer_check(&lanes, &locals, &aliases);
    let config = Config {
        answer_check,
        listen: address("listen", &listen)?,
        admin: (admin != "off").then(|| address("admin", &admin)).transpose()?,
        admin_key: effective.admin_key(&row)?,
        hosts: effective.list("hosts", &row.hosts),
        origins: effective.list("origins", &row.origins),
        tls: tls::tls(row.tls.as_ref(), &mut effective)?,
        workers,
        client: client(&row, &mut effective)?,
        keep_warm: effective.span("keep_warm", row.keep_warm.as_deref(), KEEP_WARM)?,
        limits: effective.limits(&row.limits)?,
        breaker: effective.breaker(&row.breaker)?,
        probes: effective.number("breaker.probe", row.breaker.probe, true),
        role_by_system_prompt: effective.flag("role_by_system_prompt", row.role_by_system_prompt),
        log: log_settings(&log, &row, &mut effective)?,
        region: effective.region(environment::variable("TOKRATE_REGION"), row.region.clone()),
        host: Some(environment::host_name()),
        drain: effective.span("drain", row.drain.as_deref(), Span::from_secs(30))?,
        seed: effective.number("seed", row.seed, DEFAULT_SEED),
        otel: otel::otel(row.otel.as_ref(), &environment::variable, &mut effective)?,
        lanes,
        aliases,
        keys,
    };
    Ok(effective.resolved(config, locals, is_trial, file))
}

/// The lanes that were named: lanes of the settings file, or targets of the catalog; without any name all lanes of the file, or
/// the simulated ones.
pub fn lanes_for(config: Option<&std::path::Path>, names: &[String]) -> Result<Resolved> {
    let file = File::read(config)?;
    let mut row = file.gateway.clone().unwrap_or_default();
    let is_known = |row: &GatewayRow, name: &String| row.lanes.contains_key(name);
    row.aliases.clear();
    row.keys.clear();
    let unknown: Vec<&String> = names.iter().filter(|name| !is_known(&row, name)).collect();
    let simulated: Vec<String> = simulated::personas().map(|persona| persona.name).to_vec();
    let mut wanted = std::collections::BTreeMap::new();
    for name in unknown {
        let found = match simulated.contains(name) {
            true => rows::LaneRow { local: Some(format!("sim:{name}")), ..rows::LaneRow::default() },
            false => rows::LaneRow { target: Some(name.clone()), ..rows::LaneRow::default() },
        };
        wanted.insert(name.clone(), found);
    }
    if !names.is_empty() {
        row.lanes.retain(|name, _| names.contains(name));
        row.lanes.extend(wanted);
    }
    let is_trial = row.lanes.is_empty();
    let mut effective = EffectiveConfig { file: file.path.clone(), values: Vec::new() };
    let (lanes, locals) = if is_trial { simulated::lanes() } else { effective.lanes(&row)? };
    let seed = row.seed.unwrap_or(DEFAULT_SEED);
    let config = Config { lanes, seed, client: client(&row, &mut effective)?, ..Config::default() };
    Ok(effective.resolved(config, locals, is_trial, &file))
}

fn address(name: &str, text: &str) -> Result<SocketAddr> {
    text.parse()
        .ok()
        .with_context(|| format!("read {name}: `{text}` is no address; write for example {DEFAULT_LISTEN}"))
}

fn client(row: &GatewayRow, effective: &mut EffectiveConfig) -> Result<ClientConfig> {
    let name = effective.pick("http", ("", None), row.http.clone(), HTTP[0].0)?;
    let named = HTTP.iter().find(|(known, _)| *known == name);
    let (_, http) = *named.with_context(|| format!("read gateway.http: it is \"1.1\" or \"2\", not `{name}`"))?;
    // Also where no lane is reached over TLS.
    if let Some(path) = &row.ca_file {
        tokrate_net::check_ca_file(path).context("understand gateway.ca_file")?;
    }
    Ok(ClientConfig {
        http,
        connect_timeout: effective.span("limits.connect", row.limits.connect.as_deref(), Span::from_secs(10))?,
        reuse: true,
        resume_tls: true,
        ca_file: row.ca_file.clone(),
        proxy: Environment::read().proxies(),
        ..ClientConfig::default()
    })
}

fn log_settings(path: &str, row: &GatewayRow, effective: &mut EffectiveConfig) -> Result<Option<LogSettings>> {
    let retention = effective.span("log_retention", row.log_retention.as_deref(), DEFAULT_RETENTION)?;
    let shipping = clickhouse::of_gateway(row)?;
    if let Some(shipping) = &shipping {
        ensure!(path != "off", "understand gateway.store: rows wait for it in the log, and that is `off`");
        effective.note(
            "store",
            format!("{} ({})", shipping.to.shown().display(), keep(shipping)),
            effective.file_origin(),
        );
    }
    Ok((path != "off").then(|| LogSettings { path: PathBuf::from(path), retention: Some(retention), shipping }))
}

fn keep(shipping: &Shipping) -> String {
    shipping.keep.map_or("kept for ever".to_owned(), |keep| format!("kept for {keep}"))
}

/// The effective configuration as it is resolved, for `--check`.
struct EffectiveConfig {
    file: PathBuf,
    values: Vec<EffectiveValue>,
}

impl EffectiveConfig {
    /// What the settings of a file came to.
    fn resolved(self, config: Config, locals: Vec<(usize, Local)>, is_trial: bool, file: &File) -> Resolved {
        let (path, text) = (file.path.clone(), file.text.clone());
        Resolved { config, locals, is_trial, effective: self.values, file: path, text }
    }

    fn note(&mut self, key: &str, value: impl ToString, origin: String) {
        self.values.push(EffectiveValue { key: format!("gateway.{key}"), value: value.to_string(), origin });
    }

    fn file_origin(&self) -> String {
        self.file.display().to_string()
    }

    /// A flag over the file over the default.
    fn pick<T: ToString>(
        &mut self,
        key: &str,
        (flag, typed): (&'static str, Option<T>),
        row: Option<T>,
        default: impl Into<T>,
    ) -> Result<T> {
        let (value, origin) = match (typed, row) {
            (Some(value), _) => (value, flag.to_owned()),
            (None, Some(value)) => (value, self.file_origin()),
            (None, None) => (default.into(), DEFAULT.to_owned()),
        };
        self.note(key, value.to_string(), origin);
        Ok(value)
    }

    fn span(&mut self, key: &str, text: Option<&str>, default: Span) -> Result<Span> {
        let (span, origin) = match text {
            None => (default, DEFAULT.to_owned()),
            Some(text) => {
                let span = quantity::span(text).map_err(|error| anyhow!("read gateway.{key}: {error:#}"))?;
                (span, self.file_origin())
            }
        };
        self.note(key, quantity::shown(span), origin);
        Ok(span)
    }

    /// A variable over the file.
    fn region(&mut self, variable: Option<String>, row: Option<String>) -> Option<String> {
        let (region, origin) = match (variable, row.filter(|region| !region.is_empty())) {
            (Some(region), _) => (region, "TOKRATE_REGION".to_owned()),
            (None, Some(region)) => (region, self.file_origin()),
            (None, None) => return None,
        };
        self.note("region", &region, origin);
        Some(region)
    }

    fn number<T: ToString + Copy>(&mut self, key: &str, row: Option<T>, default: T) -> T {
        let origin = if row.is_some() { self.file_origin() } else { DEFAULT.to_owned() };
        let value = row.unwrap_or(default);
        self.note(key, value, origin);
        value
    }

    /// A flag that is off unless the file sets it.
    fn flag(&mut self, key: &str, row: Option<bool>) -> bool {
        if let Some(value) = row {
            self.note(key, value, self.file_origin());
        }
        row.unwrap_or(false)
    }

    fn list(&mut self, key: &str, row: &[String]) -> Vec<String> {
        if !row.is_empty() {
            self.note(key, row.join(", "), self.file_origin());
        }
        row.to_vec()
    }

    /// A limit whose default depends on the machine.
    fn limit(&mut self, key: &str, row: Option<usize>) -> Result<Option<usize>> {
        if let Some(limit) = row {
            ensure!(limit > 0, "read gateway.{key}: nobody can be served by 0");
            self.note(key, limit, self.file_origin());
        }
        Ok(row)
    }

    /// The hash of the admin side's key, which is fetched.
    fn admin_key(&mut self, row: &GatewayRow) -> Result<Option<[u8; 32]>> {
        let reference = KeyReference::first(&row.admin_key_env, &row.admin_key_file, &row.admin_key_cmd);
        let Some(reference) = reference else { return Ok(None) };
        let key = reference.fetch(&environment::variable).context("understand gateway.admin_key")?;
        self.note("admin_key", "***", self.file_origin());
        Ok(Some(key_hash(key.reveal())))
    }

    fn limits(&mut self, row: &LimitsRow) -> Result<LimitsConfig> {
        let default = LimitsConfig::default();
        let request_bytes = self.number("limits.request_bytes", row.request_bytes, default.request_bytes);
        let limits = LimitsConfig {
            body: self.span("limits.body", row.body.as_deref(), default.body)?,
            first_token: self.span("limits.first_token", row.first_token.as_deref(), default.first_token)?,
            gap: self.span("limits.gap", row.gap.as_deref(), default.gap)?,
            attempt: self.optional_span("limits.attempt", row.attempt.as_deref())?,
            total: self.span("limits.total", row.total.as_deref(), default.total)?,
            send: self.span("limits.send", row.send.as_deref(), default.send)?,
            silence: self.span("limits.silence", row.silence.as_deref(), default.silence)?,
            request_bytes,
            file_bytes: self.number("limits.file_bytes", row.file_bytes, default.file_bytes),
            bodies_bytes: self.number(
                "limits.bodies_bytes",
                row.bodies_bytes,
                default.bodies_bytes.max(request_bytes.saturating_mul(2)),
            ),
            answers_bytes: self.number("limits.answers_bytes", row.answers_bytes, default.answers_bytes),
            answer_bytes: self.number("limits.answer_bytes", row.answer_bytes, default.answer_bytes),
            calls: self.number("limits.calls", row.calls, default.calls),
            connections: self.limit("limits.connections", row.connections)?,
            connections_by_peer: self.limit("limits.connections_by_peer", row.connections_by_peer)?,
        };
        ensure!(
            limits.bodies_bytes / 2 >= limits.request_bytes,
            "read gateway.limits.bodies_bytes: it must be at least twice request_bytes, {request_bytes}"
        );
        let spans = [
            ("first_token", limits.first_token),
            ("gap", limits.gap),
            ("attempt", limits.attempt.unwrap_or(limits.total)),
            ("total", limits.total),
            ("send", limits.send),
            ("silence", limits.silence),
        ];
        for (name, span) in spans {
            ensure!(span > Span::ZERO, "read gateway.limits.{name}: nothing can be answered within no time");
        }
        Ok(limits)
    }

    fn breaker(&mut self, row: &BreakerRow) -> Result<BreakerConfig> {
        let default = BreakerConfig::default();
        let failures = row.failures.map(NonZeroU32::get);
        let breaker = BreakerConfig {
            consecutive_failures: self.number("breaker.failures", failures, default.consecutive_failures),
            cool_down: self.span("breaker.cool_down", row.cool_down.as_deref(), default.cool_down)?,
            max_cool_down: self.span("breaker.max_cool_down", row.max_cool_down.as_deref(), default.max_cool_down)?,
            key_cool_down: self.span("breaker.key_cool_down", row.key_cool_down.as_deref(), default.key_cool_down)?,
            max_retry_after: self.span(
                "breaker.max_retry_after",
                row.max_retry_after.as_deref(),
                default.max_retry_after,
            )?,
            ..default
        };
        ensure!(
            breaker.cool_down > Span::ZERO && breaker.max_cool_down >= breaker.cool_down,
            "read gateway.breaker: `cool_down` must be above 0 and at most `max_cool_down`, {}",
            breaker.max_cool_down
        );
        Ok(breaker)
    }

    /// A time that is not set by default.
    fn optional_span(&mut self, key: &str, text: Option<&str>) -> Result<Option<Span>> {
        text.map(|text| self.span(key, Some(text), Span::ZERO)).transpose()
    }

    fn lanes(&mut self, row: &GatewayRow) -> Result<Lanes> {
        let (mut lanes, mut locals) = (Vec::new(), Vec::new());
        for (place, (name, row)) in row.lanes.iter().enumerate() {
            lanes.push(match &row.local {
                None => lanes::lane(name, row)?,
                Some(local) => {
                    let (lane, local) = simulated::local(name, local, row)?;
                    locals.push((place, local));
                    lane
                }
            });
        }
        Ok((lanes, locals))
    }

    /// Lanes, aliases and keys in a line each.
    fn routes(
        &mut self,
        lanes: &[LaneConfig],
        aliases: &[tokrate_gateway::AliasConfig],
        keys: &[tokrate_gateway::KeyConfig],
        is_trial: bool,
    ) {
        let origin = if is_trial { "no lanes are configured".to_owned() } else { self.file_origin() };
        for lane in lanes {
            let spoken: Vec<String> = lane.endpoints.iter().map(|endpoint| format!("{endpoint:?}")).collect();
            let spoken = if spoken.is_empty() { "in this process".to_owned() } else { spoken.join("; ") };
            let price = lane.price.map_or("no price".to_owned(), |price| {
                format!("${} in, ${} out per million tokens", price.input, price.output)
            });
            let value = format!("{}/{}, {price}, {spoken}", lane.provider, lane.model);
            self.note(&format!("lanes.{}", lane.name), value, origin.clone());
        }
        for alias in aliases {
            let names: Vec<&str> = alias.lanes.iter().map(|place| lanes[*place].name.as_str()).collect();
            let value = format!("{}; {}; {}", names.join(", "), alias.policy, format_race(alias.mode, alias.win));
            self.note(&format!("aliases.{}", alias.name), value, origin.clone());
        }
        for key in keys {
            let allowed = if key.aliases.is_empty() { "all".to_owned() } else { key.aliases.join(", ") };
            self.note(&format!("keys.{}", key.name), format!("*** for {allowed}"), origin.clone());
        }
    }
}
