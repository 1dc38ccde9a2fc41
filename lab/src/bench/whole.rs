//! Bars on a run as a whole: how long one request takes from start to exit, how much memory a crowd costs, and what is left
//! of streams that were cut.
//!
//! Invariant: costs are the kernel's, of the process and nothing else.

use super::blast::Blast;
use super::client::{Load, Row};
use super::events::Script;
use super::paced::{Pace, Paced};
use super::summary::{Rounds, one_decimal};
use super::table::Line;
use super::throughput::{show, times};
use super::{Report, Stage};
use anyhow::Result;

const MILLISECOND: u64 = 1_000_000;
/// Runs of a single request in a round.
const RUNS_PER_ROUND: usize = 20;
const EVENTS_BEFORE_CUT: u32 = 20;

/// One request, start to exit.
pub fn one_request(stage: &Stage) -> Result<Report> {
    let server = Blast::start(vec![Script::new(40, 1, true)], 1, true, None)?;
    let load = Load { address: server.address, concurrency: 1, requests: 1, ..Load::default() };
    let (mut floor, mut tokrate) = (Vec::new(), Vec::new());
    for round in 0..stage.rounds {
        for _ in 0..RUNS_PER_ROUND {
            floor.push(stage.clients.floor(&load)?.cost.wall_ns as f64 / 1e6);
            if !stage.floor_only {
                tokrate.push(stage.clients.tokrate(&load)?.cost.wall_ns as f64 / 1e6);
            }
        }
        let last = |times: &[f64]| times.last().copied().unwrap_or(f64::NAN);
        stage.print_progress(
            round,
            &format!("one request: floor {:.1} ms, tokrate {:.1} ms", last(&floor), last(&tokrate)),
        );
    }
    let (floor, tokrate) = (Rounds::of(floor), Rounds::of(tokrate));
    let line = Line {
        what: "a run of one request, start to exit (ms), calibration off".to_owned(),
        floor: show(floor, one_decimal),
        tokrate: show(tokrate, one_decimal),
        against: times(tokrate, floor),
        bar: "≤ 50".to_owned(),
        met: tokrate.map(|time| time.median <= 50.0),
    };
    Ok(Report { lines: vec![line], notes: Vec::new() })
}

/// The help text, start to exit.
pub fn help(stage: &Stage) -> Result<Report> {
    let mut times = Vec::new();
    if stage.floor_only {
        return Ok(Report { lines: Vec::new(), notes: Vec::new() });
    }
    for round in 0..stage.rounds {
        for _ in 0..RUNS_PER_ROUND {
            times.push(stage.clients.help()?.wall_ns as f64 / 1e6);
        }
        stage.print_progress(round, &format!("help: tokrate {:.1} ms", times.last().copied().unwrap_or(f64::NAN)));
    }
    let times = Rounds::of(times);
    let line = Line {
        what: "`tokrate --help`, start to exit (ms)".to_owned(),
        floor: "-".to_owned(),
        tokrate: show(times, one_decimal),
        against: "-".to_owned(),
        bar: "≤ 10".to_owned(),
        met: times.map(|time| time.median <= 10.0),
    };
    Ok(Report { lines: vec![line], notes: Vec::new() })
}

/// Peak memory at 500 connections.
pub fn memory_500(stage: &Stage) -> Result<Report> {
    let pace =
        Pace { ttft_ns: 100 * MILLISECOND, gap_ns: 20 * MILLISECOND, events: 80, spread: 40, tokens_per_event: 1 };
    let (mut floor, mut tokrate) = (Vec::new(), Vec::new());
    for round in 0..stage.rounds {
        let server = Paced::start(pace, None)?;
        let load = Load { address: server.address, concurrency: 500, requests: 1000, warmup: 500, ..Load::default() };
        floor.push(stage.clients.floor(&load)?.cost.peak_kib as f64 / 1024.0);
        if !stage.floor_only {
            tokrate.push(stage.clients.tokrate(&load)?.cost.peak_kib as f64 / 1024.0);
        }
        let last = |sizes: &[f64]| sizes.last().copied().unwrap_or(f64::NAN);
        stage.print_progress(
            round,
            &format!("peak memory: floor {:.1} MiB, tokrate {:.1} MiB", last(&floor), last(&tokrate)),
        );
    }
    let (floor, tokrate) = (Rounds::of(floor), Rounds::of(tokrate));
    let line = Line {
        what: "peak memory (MiB), 500 connections".to_owned(),
        floor: show(floor, one_decimal),
        tokrate: show(tokrate, one_decimal),
        against: times(tokrate, floor),
        bar: "≤ 100, excellent ≤ 50".to_owned(),
        met: tokrate.map(|size| size.median <= 100.0),
    };
    Ok(Report { lines: vec![line], notes: Vec::new() })
}

/// Every second stream is cut after some events.
pub fn cut(stage: &Stage) -> Result<Report> {
    let scripts = vec![Script::new(40, 1, true), Script::new(EVENTS_BEFORE_CUT, 1, false)];
    let server = Blast::start(scripts, 1, true, None)?;
    let load = Load { address: server.address, concurrency: 4, requests: 40, ..Load::default() };
    if stage.floor_only {
        return Ok(Report { lines: Vec::new(), notes: Vec::new() });
    }
    let outcome = stage.clients.tokrate(&load)?;
    let (odd, even): (Vec<&Row>, Vec<&Row>) = outcome.rows.iter().partition(|row| row.index % 2 == 1);
    let expected = Some(u64::from(EVENTS_BEFORE_CUT));
    let is_kept = |row: &&&Row| row.first_text_at.is_some() && row.tokens == expected && Some(row.events) == expected;
    let kept = odd.iter().filter(is_kept).count();
    let labelled = odd.iter().filter(|row| row.failure.as_deref() == Some("truncated")).count();
    let whole = even.iter().filter(|row| row.failure.is_none()).count();
    let exit = outcome.cost.exit;
    let line = Line {
        what: "every second of 40 streams cut after 20 tokens".to_owned(),
        floor: "-".to_owned(),
        tokrate: format!(
            "{kept}/20 kept whole, {labelled}/20 labelled `truncated`, {whole}/20 others unharmed, exit {exit:?}"
        ),
        against: "-".to_owned(),
        bar: "kept, labelled, exit status says so".to_owned(),
        met: Some(kept == 20 && labelled == 20 && whole == 20 && exit == Some(1)),
    };
    Ok(Report { lines: vec![line], notes: Vec::new() })
}
