//! From `store` and its keys, under `[gateway]` and `[monitor]`, to a database of ClickHouse; and where a command reads rows: there or
//! in a file.
//!
//! Invariant: a password is read by reference, and in no message.

use super::environment::{self, Environment};
use super::file::File;
use super::gateway::rows::GatewayRow;
use super::monitor::rows::MonitorRow;
use super::quantity;
use crate::flags::source::Source;
use anyhow::{Context, Result, anyhow, ensure};
use std::io::Read;
use std::path::{Path, PathBuf};
use tokrate_core::Span;
use tokrate_net::{ClientConfig, Clock};
use tokrate_store::{ClickHouseAccess, ClickHouseAddress, ReadFrom, Shipping, Store, StoreError};
use tokrate_targets::KeyReference;

/// The keys as they are written.
struct Written<'r> {
    /// `gateway` or `monitor`.
    table: &'static str,
    store: Option<&'r str>,
    password: Option<KeyReference>,
    keep: Option<&'r str>,
    ca_file: Option<PathBuf>,
}

/// Where the rows of the gateway's log go beside it.
pub fn of_gateway(row: &GatewayRow) -> Result<Option<Shipping>> {
    shipping(Written {
        table: "gateway",
        store: row.store.as_deref(),
        password: KeyReference::first(&row.store_key_env, &row.store_key_file, &row.store_key_cmd),
        keep: row.store_retention.as_deref(),
        ca_file: row.ca_file.clone(),
    })
}

/// Where the probes of the monitor go beside its database.
pub fn of_monitor(row: &MonitorRow) -> Result<Option<Shipping>> {
    shipping(Written {
        table: "monitor",
        store: row.store.as_deref(),
        password: KeyReference::first(&row.store_key_env, &row.store_key_file, &row.store_key_cmd),
        keep: row.store_retention.as_deref(),
        ca_file: row.ca_file.clone(),
    })
}

/// The same of a settings file, as whoever only reads needs it.
pub fn of_file(file: &File, is_gateway: bool) -> Result<Option<Shipping>> {
    let of_gateway = || file.gateway.as_ref().map(of_gateway);
    let found = if is_gateway { of_gateway() } else { file.monitor.as_ref().map(of_monitor) };
    Ok(found.transpose()?.flatten())
}

fn shipping(written: Written<'_>) -> Result<Option<Shipping>> {
    let Written { table, store, password, keep, ca_file } = written;
    let Some(store) = store else {
        let is_lone = password.is_some() || keep.is_some();
        ensure!(!is_lone, "understand [{table}]: it has keys of a store and no `store`");
        return Ok(None);
    };
    // What was written may hold a password: it is not shown.
    let address = ClickHouseAddress::parse(store).map_err(|error| anyhow!("understand {table}.store: {error}"))?;
    let password = password.map(|reference| reference.fetch(&environment::variable)).transpose();
    let password = password.with_context(|| format!("understand {table}.store"))?;
    let keep = keep.map(quantity::span).transpose().with_context(|| format!("read {table}.store_retention"))?;
    ensure!(keep.is_none_or(|keep| keep > Span::ZERO), "read {table}.store_retention: nothing is kept for no time");
    let client = ClientConfig { ca_file, proxy: Environment::read().proxies(), ..ClientConfig::default() };
    let password = password.map(|password| password.reveal().to_owned());
    let access = ClickHouseAccess { address, password, client, clock: Clock::monotonic() };
    Ok(Some(Shipping { to: access.database(), keep }))
}

/// The settings that say where a ClickHouse is; none where a file is named by hand, which needs none.
pub fn settings_for(named: Option<&Path>) -> Result<Option<File>> {
    match named.filter(|path| address_of(path).is_none()) {
        Some(_) => Ok(None),
        None => File::of_folder("name a file of tokrate by hand").map(Some),
    }
}

/// What a user has named: a file, or a ClickHouse (`clickhouse://…`) with the password of the settings that write to the same one.
pub fn named(written: &Path, file: Option<&File>) -> Result<ReadFrom> {
    let Some(text) = address_of(written) else { return Ok(ReadFrom::File(written.to_owned())) };
    let address = ClickHouseAddress::parse(text).map_err(|error| anyhow!("read the address of ClickHouse: {error}"))?;
    let shown = address.to_string();
    for is_gateway in [true, false] {
        let shipping = file.map(|file| of_file(file, is_gateway)).transpose()?.flatten();
        if let Some(same) = shipping.filter(|shipping| shipping.to.shown() == Path::new(&shown)) {
            return Ok(ReadFrom::ClickHouse(same.to));
        }
    }
    let client = ClientConfig { proxy: Environment::read().proxies(), ..ClientConfig::default() };
    let access = ClickHouseAccess { address, password: None, client, clock: Clock::monotonic() };
    Ok(ReadFrom::ClickHouse(access.database()))
}

/// The text of what is no file but the address of a ClickHouse.
pub fn address_of(written: &Path) -> Option<&str> {
    written.to_str().filter(|text| text.starts_with("clickhouse://") || text.starts_with("clickhouses://"))
}

/// Whether what a user has named holds rows: a file of SQLite, or a ClickHouse.
pub fn holds_rows(written: &Path) -> bool {
    let mut begin = [0; 16];
    let read = std::fs::File::open(written).and_then(|mut file| file.read_exact(&mut begin));
    address_of(written).is_some() || read.is_ok() && begin == *b"SQLite format 3\0"
}

/// The rows of a database that was named, and their source: that of a log is the gateway, and of a database that has several the asked
/// one, else the monitor.
pub fn rows(written: &Path, source: Option<Source>) -> Result<(Box<dyn Store>, Source)> {
    let file = settings_for(Some(written))?;
    let from = named(written, file.as_ref())?;
    if let ReadFrom::ClickHouse(_) = from {
        let source = source.unwrap_or(Source::Monitor);
        return Ok((from.rows(source.of_rows())?, source));
    }
    match from.log() {
        Ok(log) => Ok((log, Source::Gateway)),
        Err(StoreError::Foreign { .. }) => {
            let source = source.filter(|source| *source != Source::Gateway).unwrap_or(Source::Monitor);
            Ok((from.probes_as_log(source.of_rows())?, source))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether it answers, for `--check`.
pub fn answers(shipping: &Shipping) -> String {
    match shipping.to.server_version() {
        Ok(version) => format!("ClickHouse {version} answers"),
        Err(error) => format!("failed to {error}"),
    }
}
