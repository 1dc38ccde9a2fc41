//! From `store` and its keys, under `[gateway]` and `[monitor]`, to a database of ClickHouse.
//!
//! Invariant: a password is read by reference, and in no message.

use super::environment::{self, Environment};
use super::file::File;
use super::gateway::rows::GatewayRow;
use super::monitor::rows::MonitorRow;
use super::quantity;
use anyhow::{Context, Result, anyhow, ensure};
use std::path::PathBuf;
use tokrate_core::Span;
use tokrate_net::{ClientConfig, Clock};
use tokrate_store::{ClickHouseAccess, ClickHouseAddress, Shipping};
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

/// Whether it answers, for `--check`.
pub fn answers(shipping: &Shipping) -> String {
    match shipping.to.server_version() {
        Ok(version) => format!("ClickHouse {version} answers"),
        Err(error) => format!("failed to {error}"),
    }
}
