//! From the flags of `tokrate log` to a query of the log.

mod moment;

pub use moment::{date, moment};

use super::clickhouse;
use super::file::File;
use super::verdicts::threshold;
use crate::flags::log::Flags;
use crate::flags::source::Source;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use tokrate_store::{Grouping, Query, ReadFrom};

/// Where a gateway keeps its log by default.
pub const DEFAULT_NAME: &str = "tokrate-log.db";
/// How far back rows are read by default.
const DEFAULT_SINCE: &str = "24h";
/// More calls than anyone reads.
const MAX_CALLS: usize = 10_000;

/// A query, its log and its output.
#[derive(Debug)]
pub struct Config {
    /// Where the rows are.
    pub from: ReadFrom,
    /// What of it.
    pub source: Source,
    /// The rows.
    pub query: Query,
    /// How they are shown.
    pub view: View,
    /// JSON instead of tables.
    pub json: bool,
}

/// How rows are shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum View {
    /// Groups with their numbers.
    Groups(Grouping),
    /// So many calls with their attempts.
    Calls(usize),
    /// The calls of the query's session as a chain.
    Session,
    /// Each session.
    Sessions,
    /// Refused requests.
    Refused,
    /// The window of the query against the one before it, which the query then includes.
    Regressions {
        /// Where the later window begins (ms since 1970).
        split_unix_ms: u64,
        /// The relative change for the worse that counts.
        threshold: f64,
    },
}

/// Resolves flags and file at a wall time (ms since 1970).
pub fn resolve(flags: &Flags, now_unix_ms: u64) -> Result<Config> {
    let of_gateway = flags.source == Source::Gateway;
    ensure!(of_gateway || !flags.refused, "read --refused: only a gateway refuses requests; leave out --source");
    ensure!(of_gateway || flags.key.is_none(), "read --key: only a gateway's clients have keys; leave out --source");
    let until = flags.until.as_deref().map(|text| moment(text, now_unix_ms)).transpose().context("read --until")?;
    ensure!(until != Some(None), "read --until: `all` has no end; leave it out for all until now");
    let end = until.flatten().unwrap_or(now_unix_ms);
    let since = moment(flags.since.as_deref().unwrap_or(DEFAULT_SINCE), end).context("read --since")?;
    ensure!(since.is_none_or(|since| since < end), "read --since: it is not before --until");
    let mut query = Query {
        from_unix_ms: since,
        // Without --until, rows of a clock that runs ahead belong to it as well.
        until_unix_ms: until.flatten(),
        lane: flags.lane.clone(),
        alias: flags.alias.clone(),
        key: flags.key.clone(),
        session: flags.session.clone(),
        ..Query::default()
    };
    let is_by_session = flags.by == ["session"];
    ensure!(
        of_gateway || !(is_by_session || flags.session.is_some()),
        "read --session: only a gateway's clients name sessions; leave out --source"
    );
    let view = match (flags.calls, flags.regressions) {
        _ if flags.session.is_some() => View::Session,
        _ if is_by_session => View::Sessions,
        (Some(calls), _) => {
            ensure!((1..=MAX_CALLS).contains(&calls), "read --calls: write a number from 1 to {MAX_CALLS}");
            View::Calls(calls)
        }
        (None, true) => {
            let split = since.context("read --since: `all` has nothing before it to be compared with")?;
            query.from_unix_ms = Some(split.saturating_sub(end - split));
            View::Regressions { split_unix_ms: split, threshold: threshold(flags.threshold.as_deref())? }
        }
        (None, false) if flags.refused => View::Refused,
        (None, false) => View::Groups(grouping(&flags.by, flags.source)?),
    };
    Ok(Config { from: rows(flags)?, source: flags.source, query, view, json: flags.json })
}

fn grouping(names: &[String], source: Source) -> Result<Grouping> {
    if names.is_empty() {
        return Ok(Grouping { lane: true, alias: source != Source::Gateway, hour: false });
    }
    let mut by = Grouping::default();
    for name in names {
        match name.as_str() {
            "lane" => by.lane = true,
            "hour" => by.hour = true,
            "alias" | "workload" => by.alias = true,
            "all" if names.len() == 1 => {}
            other => bail!(
                "read --by: `{other}` makes no groups; write lane, alias, hour, several of them, or all or session alone"
            ),
        }
    }
    Ok(by)
}

/// Where a gateway's rows are read: what a flag names, else the ClickHouse of the settings, else its log.
pub fn rows_of_gateway(flag: Option<&Path>, file: Option<&File>) -> Result<ReadFrom> {
    if let Some(flag) = flag {
        return clickhouse::named(flag, file);
    }
    if let Some(shipping) = file.map(|file| clickhouse::of_file(file, true)).transpose()?.flatten() {
        return Ok(ReadFrom::ClickHouse(shipping.to));
    }
    let log = file.and_then(|file| Some((file, file.gateway.as_ref()?.log.as_deref()?)));
    match log {
        Some((file, "off")) => bail!(
            "read the log: gateway.log in {} is `off`, so that none is kept; name one by hand",
            file.path.display()
        ),
        log => Ok(ReadFrom::File(PathBuf::from(log.map_or(DEFAULT_NAME, |(_, log)| log)))),
    }
}

fn rows(flags: &Flags) -> Result<ReadFrom> {
    let flag = flags.db.as_deref();
    let file = clickhouse::settings_for(flag)?;
    match flags.source {
        Source::Gateway => rows_of_gateway(flag, file.as_ref()),
        Source::Monitor | Source::Bench => super::monitor::rows_of_monitor(flag, file.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 1_000 * HOUR;

    fn flags() -> Flags {
        Flags { db: Some(PathBuf::from("x.db")), ..Flags::default() }
    }

    #[test]
    fn the_window_is_a_day_until_now_and_its_forerunner_a_day_before() {
        let config = resolve(&flags(), NOW).expect("good flags");
        assert_eq!((config.query.from_unix_ms, config.query.until_unix_ms), (Some(NOW - 24 * HOUR), None));
        assert_eq!(config.view, View::Groups(Grouping { lane: true, ..Grouping::default() }));
        let asked = Flags { regressions: true, since: Some("2h".to_owned()), ..flags() };
        let config = resolve(&asked, NOW).expect("good flags");
        assert_eq!(config.query.from_unix_ms, Some(NOW - 4 * HOUR));
        assert_eq!(config.view, View::Regressions { split_unix_ms: NOW - 2 * HOUR, threshold: 0.05 });
    }

    #[test]
    fn groups_are_made_by_what_is_named() {
        let by = |names: &[&str]| {
            grouping(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), Source::Monitor).ok()
        };
        assert_eq!(by(&[]), Some(Grouping { lane: true, alias: true, hour: false }));
        assert_eq!(by(&["hour"]), Some(Grouping { hour: true, ..Grouping::default() }));
        assert_eq!(by(&["hour", "lane"]), Some(Grouping { lane: true, alias: false, hour: true }));
        assert_eq!(by(&["all"]), Some(Grouping::default()));
        assert_eq!((by(&["day"]), by(&["all", "lane"])), (None, None));
    }
}
