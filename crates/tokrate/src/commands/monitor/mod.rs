//! `tokrate monitor`: what an endpoint did for days, and what changed.

pub mod add;
mod alerts;
mod board;
mod demo;
mod export;
pub mod init;
mod push;
mod replay;

use super::Verdict;
use crate::config::file::File;
use crate::config::monitor::{board_address, board_hosts, hub_probers, resolve, traffic_log};
use crate::flags::monitor::{BackupFlags, Command, ConfigFlags, Flags};
use crate::out::{monitor as shown, stdout};
use anyhow::{Context, Result, bail};
use tokrate_bench::Stop;
use tokrate_monitor::{BoardFrame, Extent, Report, ServeConfig};
use tokrate_net::Clock;
use tokrate_prober::Plan;
use tokrate_store::{MonitorStore, ProbeRow};

/// Runs the part that was asked for.
pub fn run(flags: &Flags) -> Result<Verdict> {
    match &flags.command {
        Some(Command::Once(flags)) => once(flags),
        Some(Command::Init(flags)) => init::run(flags),
        Some(Command::Add(flags)) => add::run(flags),
        Some(Command::Export(flags)) => export::run(flags),
        Some(Command::Backup(flags)) => backup(flags),
        Some(Command::AlertTest(flags)) => alerts::test(flags),
        Some(Command::PushKey(flags)) => push::key(flags),
        Some(Command::Replay(flags)) => replay::run(flags),
        None if flags.demo => demo::run(flags),
        None if flags.check => check(flags),
        None => watch(flags),
    }
}

/// Watches until it is interrupted; changes are JSON lines on standard output.
fn watch(flags: &Flags) -> Result<Verdict> {
    let file = File::read(flags.config.as_deref())?;
    let settings = resolve(&file)?;
    let stop = Stop::default();
    super::interrupt::watch_quietly(stop.clone())?;
    let (hub, inbox) = hub_probers(&file)?.map(tokrate_monitor::hub).unzip();
    let served = match board_address(flags.board.as_deref(), Some(&file))? {
        None if hub.is_some() => bail!("start the hub: batches come in where the board is served, and that is off"),
        None => None,
        Some(address) => {
            let config = ServeConfig {
                address,
                hosts: board_hosts(&file),
                database: settings.database.clone(),
                clickhouse: settings.shipping.as_ref().map(|shipping| shipping.to.clone()),
                frame: BoardFrame {
                    log: traffic_log(flags.log.as_deref(), Some(&file))?,
                    ..BoardFrame::of(&settings, "How fast they answer", "")
                },
                hub,
                at_unix_ms: None,
            };
            Some(board::start(config, stop.clone())?)
        }
    };
    let watching = shown::watching(&settings);
    let mut trouble = Ok(());
    let ran = tokrate_monitor::run(settings, Clock::monotonic(), Extent::Endless, inbox, stop.wait(), &mut |report| {
        match report {
            // Not before: a page of a database that is not there yet is an error.
            Report::Started => {
                anstream::eprintln!("tokrate: {watching}");
                if let Some(served) = &served {
                    anstream::eprintln!("tokrate: the board is at http://{}/", served.address);
                }
            }
            Report::Event(event) => {
                let written = stdout::write(&format!("{}\n", event.to_json()));
                if trouble.is_ok() {
                    trouble = written;
                }
            }
            Report::Notice(text) => anstream::eprintln!("tokrate: {text}"),
            Report::Probe(_) => {}
        }
    });
    stop.set();
    if let Some(served) = served {
        served.join()?;
    }
    ran?;
    trouble?;
    Ok(Verdict::Good)
}

/// Probes everything once.
fn once(flags: &ConfigFlags) -> Result<Verdict> {
    let settings = resolve(&File::read(flags.config.as_deref())?)?;
    let stop = Stop::default();
    super::interrupt::watch_quietly(stop.clone())?;
    let (mut rows, mut events): (Vec<ProbeRow>, Vec<_>) = (Vec::new(), Vec::new());
    tokrate_monitor::run(
        settings,
        Clock::monotonic(),
        Extent::OneCycle,
        None,
        stop.wait(),
        &mut |report| match report {
            Report::Started => {}
            Report::Event(event) => events.push(event),
            Report::Notice(text) => anstream::eprintln!("tokrate: {text}"),
            Report::Probe(row) => rows.push(*row),
        },
    )?;
    stdout::write(&shown::probes(&rows))?;
    for event in &events {
        stdout::write(&format!("{}\n", event.to_json()))?;
    }
    let failed = rows.iter().filter(|row| row.reason.is_some()).count();
    let got_worse = events.iter().any(|event| matches!(event.kind.as_str(), "regression" | "errors" | "fidelity"));
    // The prober was at fault: its numbers are those of this machine.
    let does_not_count = events.iter().any(|event| event.kind == "quarantine");
    Ok(match failed {
        _ if stop.is_set() => Verdict::Partial,
        failed if failed == rows.len() || does_not_count => Verdict::NotMeasured,
        0 if !got_worse => Verdict::Good,
        _ => Verdict::BelowBar,
    })
}

/// Says what the settings come to.
fn check(flags: &Flags) -> Result<Verdict> {
    let file = File::read(flags.config.as_deref())?;
    let settings = resolve(&file)?;
    let probers = hub_probers(&file)?;
    let schedule = settings.schedule();
    schedule.check().context("make a schedule of [monitor]")?;
    let plan = Plan::of(&schedule);
    if !settings.endpoints.is_empty() {
        stdout::write(&shown::plan(&schedule, &plan))?;
    }
    stdout::write(&shown::connections(&settings, probers.as_deref()))?;
    Ok(if plan.short.is_empty() { Verdict::Good } else { Verdict::BelowBar })
}

fn backup(flags: &BackupFlags) -> Result<Verdict> {
    let store = MonitorStore::open_reader(&add::database_path(flags.db.as_deref()))?;
    store.backup(&flags.file)?;
    anstream::println!("copied {} to {}", store.path().display(), flags.file.display());
    Ok(Verdict::Good)
}
