//! From `[monitor]` of the settings file to what the monitor is given.
//!
//! Invariant: what is contradictory is refused with its line, before anything is sent or opened.

pub mod alerts;
pub mod push;
pub mod rows;

use super::clickhouse;
use super::environment::{self, Environment};
use super::file::File;
use super::gateway::lanes;
use super::gateway::rows::LaneRow;
use super::quantity;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rows::{MonitorRow, TargetRow, WorkloadRow};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokrate_bench::prompts::{FileKind, PromptFile};
use tokrate_core::{Rng, Span};
use tokrate_detect::FalseAlarms;
use tokrate_monitor::{
    Cadence, DEFAULT_WORKLOAD, Endpoint, KnownProber, Limits, PromptSource, SUITE, Settings, Workload, built_in,
    built_in_names,
};
use tokrate_net::ClientConfig;
use tokrate_prober::Budget;
use tokrate_store::ReadFrom;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};
use toml::Spanned;

/// The database, unless another is named.
pub const DEFAULT_DATABASE: &str = "tokrate-monitor.db";
const DEFAULT_SLOTS: u32 = 8;
const MAX_SLOTS: u32 = 17_280;
const DEFAULT_IN_FLIGHT: u32 = 4;
const DEFAULT_PLACE: &str = "here";
const DEFAULT_RETENTION: Span = Span::from_secs(400 * 86_400);
/// What the detector looks back.
const MIN_RETENTION: Span = Span::from_secs(35 * 86_400);
const DEFAULT_IDLE: Span = Span::from_secs(60);
const DEFAULT_TOTAL: Span = Span::from_secs(300);
/// How often an own workload is probed.
pub const CADENCES: [(&str, Cadence); 3] =
    [("cycle", Cadence::EveryCycle), ("day", Cadence::Daily), ("week", Cadence::Weekly)];

/// The settings of a file.
pub fn resolve(file: &File) -> Result<Settings> {
    let row = file.monitor.as_ref().with_context(|| {
        format!(
            "find [monitor] in {}; `tokrate monitor init` writes it, `tokrate monitor --demo` needs none",
            shown(file)
        )
    })?;
    let reading = Reading { file };
    let mut workloads = Workloads { reading: &reading, own: &row.workload, list: Vec::new() };
    let chosen = workloads.places(&row.workloads)?;
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for name in &row.endpoints {
        let twice = endpoints.iter().any(|other| other.name == *name.get_ref());
        ensure!(!twice, reading.at(name.span(), &format!("the endpoint `{}` is there twice", name.get_ref())));
        endpoints.push(endpoint(&reading, row, name, &chosen, &mut workloads)?);
    }
    let is_hub = row.hub.is_some();
    ensure!(
        is_hub || !endpoints.is_empty(),
        "understand [monitor] of {}: `endpoints` is empty; name one target",
        shown(file)
    );
    let unused = row.targets.keys().find(|name| !row.endpoints.iter().any(|used| used.get_ref() == *name));
    if let Some(unused) = unused {
        bail!("understand monitor.targets.{unused} in {}: it is not among `endpoints`", shown(file));
    }
    let budget = budget(&reading, row, &endpoints)?;
    let slots_a_day = row.slots.as_ref().map_or(DEFAULT_SLOTS, |slots| slots.get_ref().get());
    if let Some(written) = row.slots.as_ref().filter(|_| slots_a_day > MAX_SLOTS) {
        bail!(reading.at(written.span(), &format!("{slots_a_day} slots a day; at most {MAX_SLOTS}")));
    }
    let environment = Environment::read();
    let prober = row.prober.clone().unwrap_or_else(|| environment.host.clone());
    push::ensure_own_name(&reading, row, &prober)?;
    let seed = row.seed.unwrap_or_else(|| Rng::root(0).child(&prober).next_u64());
    let retention = reading.span(row.retention.as_ref(), DEFAULT_RETENTION)?;
    if let Some(written) = row.retention.as_ref().filter(|_| retention < MIN_RETENTION) {
        bail!(reading.at(written.span(), "the detector looks back 35 days; keep probes for 840h at least"));
    }
    let allowed = row.false_alarms.as_ref().map_or(FalseAlarms::default().worse_in_month, |number| *number.get_ref());
    if let Some(written) = row.false_alarms.as_ref().filter(|_| !(0.0001..=10.0).contains(&allowed)) {
        bail!(reading.at(written.span(), "write a number from 0.0001 to 10"));
    }
    Ok(Settings {
        alerts: alerts::alerts(&reading, row)?,
        push: push::push(&reading, row, &prober)?,
        prober,
        place: row.place.clone().unwrap_or_else(|| DEFAULT_PLACE.to_owned()),
        endpoints,
        workloads: workloads.list,
        slots_a_day,
        budget,
        max_in_flight: row.max_in_flight.map_or(DEFAULT_IN_FLIGHT, std::num::NonZeroU32::get) as usize,
        limits: Limits {
            idle: reading.span(row.idle_timeout.as_ref(), DEFAULT_IDLE)?,
            total: reading.span(row.timeout.as_ref(), DEFAULT_TOTAL)?,
        },
        retention,
        shipping: clickhouse::of_monitor(row)?,
        database: row.database.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DATABASE)),
        false_alarms: FalseAlarms { worse_in_month: allowed, ..FalseAlarms::default() },
        seed,
        host: environment.host,
        machine: environment.machine,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Where the board is served unless another address is named.
pub const DEFAULT_BOARD: &str = "127.0.0.1:8413";

/// The address of the board: the flag over the file over the default; `None` if it is off.
pub fn board_address(flag: Option<&str>, file: Option<&File>) -> Result<Option<SocketAddr>> {
    let written = file.and_then(|file| file.monitor.as_ref()?.board.as_deref());
    match flag.or(written).unwrap_or(DEFAULT_BOARD) {
        "off" => Ok(None),
        address => {
            let parsed = address.parse().with_context(|| {
                format!("read the board's address `{address}`; write one such as {DEFAULT_BOARD}, or `off`")
            })?;
            Ok(Some(parsed))
        }
    }
}

/// Who may push to this hub; `None` if it is none.
pub fn hub_probers(file: &File) -> Result<Option<Vec<KnownProber>>> {
    let hub = file.monitor.as_ref().and_then(|row| row.hub.as_ref());
    hub.map(|hub| push::known_probers(&Reading { file }, hub)).transpose()
}

/// Names under which the board may be asked.
pub fn board_hosts(file: &File) -> Vec<String> {
    file.monitor.as_ref().map(|row| row.board_hosts.clone()).unwrap_or_default()
}

/// The gateway's log whose traffic the board shows: the flag over the file.
pub fn traffic_log(flag: Option<&Path>, file: Option<&File>) -> Result<Option<ReadFrom>> {
    let written = || file?.monitor.as_ref()?.log.clone();
    flag.map(Path::to_owned).or_else(written).map(|log| clickhouse::named(&log, file)).transpose()
}

/// The database of a file, or the default one.
pub fn database(file: &File) -> PathBuf {
    let named = file.monitor.as_ref().and_then(|row| row.database.clone());
    named.unwrap_or_else(|| PathBuf::from(DEFAULT_DATABASE))
}

/// Where a monitor's rows are read: what a flag names, else the ClickHouse of the settings, else the file `database` of them.
pub fn rows_of_monitor(flag: Option<&Path>, file: Option<&File>) -> Result<ReadFrom> {
    if let Some(flag) = flag {
        return clickhouse::named(flag, file);
    }
    match file.map(|file| clickhouse::of_file(file, false)).transpose()?.flatten() {
        Some(shipping) => Ok(ReadFrom::ClickHouse(shipping.to)),
        None => Ok(ReadFrom::File(file.map_or_else(|| PathBuf::from(DEFAULT_DATABASE), database))),
    }
}

fn shown(file: &File) -> String {
    if file.path.as_os_str().is_empty() { "tokrate.toml".to_owned() } else { file.path.display().to_string() }
}

/// The file, to say where something stands in it.
pub struct Reading<'f> {
    file: &'f File,
}

impl Reading<'_> {
    /// An error with the line of what it is about.
    fn at(&self, place: Range<usize>, message: &str) -> anyhow::Error {
        let before = self.file.text.get(..place.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        anyhow!("understand [monitor] of {}, line {line}: {message}", shown(self.file))
    }

    fn span(&self, written: Option<&Spanned<String>>, default: Span) -> Result<Span> {
        let Some(written) = written else { return Ok(default) };
        let span = quantity::span(written.get_ref()).map_err(|error| self.at(written.span(), &format!("{error:#}")))?;
        ensure!(span > Span::ZERO, self.at(written.span(), "nothing is done within no time"));
        Ok(span)
    }
}

/// The workloads that are used, each once.
struct Workloads<'r> {
    reading: &'r Reading<'r>,
    own: &'r BTreeMap<String, WorkloadRow>,
    list: Vec<Workload>,
}

impl Workloads<'_> {
    /// The places of these workloads in the list.
    fn places(&mut self, names: &[Spanned<String>]) -> Result<Vec<usize>> {
        let mut places = Vec::new();
        if names.is_empty() {
            places.push(self.place(DEFAULT_WORKLOAD, 0..0)?);
        }
        for name in names {
            let (suite, members) = SUITE;
            if name.get_ref() == suite {
                for member in members {
                    places.push(self.place(member, name.span())?);
                }
            } else {
                places.push(self.place(name.get_ref(), name.span())?);
            }
        }
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    fn place(&mut self, name: &str, span: Range<usize>) -> Result<usize> {
        if let Some(place) = self.list.iter().position(|workload| workload.name == name) {
            return Ok(place);
        }
        let workload = match (self.own.get(name), built_in(name)) {
            (Some(row), None) => self.own(name, row, span)?,
            (None, Some(workload)) => workload,
            (Some(_), Some(_)) => {
                bail!(self.reading.at(span, &format!("`{name}` is built in; name your own workload otherwise")))
            }
            (None, None) => {
                let known: Vec<&str> = built_in_names().chain([SUITE.0]).collect();
                let known = known.join(", ");
                bail!(self.reading.at(span, &format!("there is no workload `{name}`; built in are {known}")))
            }
        };
        self.list.push(workload);
        Ok(self.list.len() - 1)
    }

    fn own(&self, name: &str, row: &WorkloadRow, span: Range<usize>) -> Result<Workload> {
        let prompts = match (&row.prompts, row.input_tokens) {
            (Some(file), None) => self.prompts(file)?,
            (None, Some(tokens)) => PromptSource::Words { input_tokens: tokens.get(), shared_prefix_tokens: 0 },
            _ => bail!(
                self.reading
                    .at(span, &format!("monitor.workload.{name} needs `prompts` or `input_tokens`, one of them"))
            ),
        };
        let every = row.every.as_ref().map_or(CADENCES[0].0, |every| every.get_ref().as_str());
        let cadence = CADENCES.iter().find(|(known, _)| *known == every);
        let Some((_, cadence)) = cadence else {
            let place = row.every.as_ref().map_or(span, Spanned::span);
            bail!(self.reading.at(place, &format!("`every` is cycle, day or week, not `{every}`")))
        };
        Ok(Workload {
            name: name.to_owned(),
            prompts,
            output_tokens: row.output_tokens.get(),
            requests: row.requests.map_or(1, std::num::NonZeroU32::get),
            cadence: *cadence,
        })
    }

    fn prompts(&self, file: &Spanned<PathBuf>) -> Result<PromptSource> {
        let path = file.get_ref();
        let refused = |error: String| self.reading.at(file.span(), &format!("{}: {error}", path.display()));
        let text = reading::text_of(path, MAX_DATA_BYTES)
            .map_err(|error| refused(format!("it cannot be read ({error:#}); check the path")))?;
        let kind = FileKind::of_name(&path.to_string_lossy());
        let read = PromptFile::parse(&text, kind).map_err(|bad| refused(format!("{bad:?}")))?;
        let prompts: Arc<[_]> = read.prompts().iter().map(|prompt| prompt.messages.clone()).collect();
        ensure!(!prompts.is_empty(), refused("it holds no prompt".to_owned()));
        Ok(PromptSource::Own { prompts, hash: read.hash() })
    }
}

/// An endpoint, its key fetched.
fn endpoint(
    reading: &Reading<'_>,
    row: &MonitorRow,
    name: &Spanned<String>,
    chosen: &[usize],
    workloads: &mut Workloads<'_>,
) -> Result<Endpoint> {
    let plain = TargetRow { target: Some(name.get_ref().clone()), ..TargetRow::default() };
    let target = row.targets.get(name.get_ref()).unwrap_or(&plain);
    let lane_row = LaneRow {
        target: target.target.clone(),
        url: target.url.clone(),
        dialect: target.dialect.clone(),
        model: target.model.clone(),
        provider: target.provider.clone(),
        key_env: target.key_env.clone(),
        key_file: target.key_file.clone(),
        key_cmd: target.key_cmd.clone(),
        headers: target.headers.clone(),
        price: target.price,
        ..LaneRow::default()
    };
    let lane = lanes::lane_of(name.get_ref(), &lane_row)
        .map_err(|error| reading.at(name.span(), &format!("`{}`: {error:#}", name.get_ref())))?;
    let spoken = lane.endpoints.into_iter().next().context("find the endpoint: it has no address")?;
    let own = target.workloads.as_deref().map(|names| workloads.places(names)).transpose()?;
    Ok(Endpoint {
        name: name.get_ref().clone(),
        provider: lane.provider,
        model: lane.model,
        dialect: spoken.dialect,
        base: spoken.base,
        headers: spoken.headers,
        authorizer: spoken.authorizer,
        client: ClientConfig {
            reuse: false,
            rx_timestamps: true,
            ca_file: row.ca_file.clone(),
            proxy: Environment::read().proxies(),
            ..ClientConfig::default()
        },
        price: lane.price,
        legacy_max_tokens: spoken.max_tokens_field,
        include_usage: !spoken.no_stream_options,
        workloads: own.unwrap_or_else(|| chosen.to_vec()),
    })
}

fn budget(reading: &Reading<'_>, row: &MonitorRow, endpoints: &[Endpoint]) -> Result<Budget> {
    if let Some(usd) = &row.usd_per_month
        && let Some(unknown) = endpoints.iter().find(|endpoint| endpoint.price.is_none())
    {
        let name = &unknown.name;
        let message = format!(
            "the budget is in dollars, and no price of `{name}` is known; write price = {{ input = 0.0, output = 0.0 }} in \
             [monitor.targets.NAME], or tokens_per_day in place of usd_per_month"
        );
        bail!(reading.at(usd.span(), &message));
    }
    Ok(Budget {
        usd_per_month: row.usd_per_month.as_ref().map(|usd| usd.get_ref().money()),
        tokens_per_day: row.tokens_per_day.as_ref().map(|tokens| tokens.get_ref().get()),
    })
}

/// A variable of the environment, for `monitor init`.
pub fn variable(name: &str) -> Option<String> {
    environment::variable(name)
}
