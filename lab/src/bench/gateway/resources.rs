//! What a gateway takes while it rests, what an open stream costs it, and how soon the provider learns that a client has gone.
//!
//! Invariant: memory is the kernel's account of the gateway's processes; a client's leaving is the tick before its
//! socket is closed, the upstream's knowing of it the tick at which it read the end.

use super::Theatre;
use super::door::{Call, Door, Tool};
use super::play::Ask;
use super::report::{Bar, Line};
use super::upstream::Ended;
use super::watch::{first_text, reach};
use crate::bench::clock::now;
use crate::bench::summary::{one_decimal, quantile, two_decimals};
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Streams whose memory is measured.
const OPEN_STREAMS: usize = 1_000;
/// How long after their end memory is looked at again: an allocator may give back what they needed, and takes its time.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// Clients that leave, and the pause from one to the next.
const LEAVING: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);
/// Rounds in which clients of peers leave: where calls go on, each costs the whole patience.
const PEER_LEAVINGS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the opening of many streams may take (ns).
const OPENING_NS: u64 = 40_000_000_000;

/// A way to leave.
struct Leaving {
    what: &'static str,
    name: &'static str,
    /// Under which name calls are counted that went on.
    unseen: &'static str,
    ask: Ask,
    race: bool,
}

const LEAVINGS: [Leaving; 4] = [
    Leaving { what: "mid-stream", name: "leave stream", unseen: "unseen stream", ask: Ask::Held, race: false },
    Leaving {
        what: "while a whole answer is awaited",
        name: "leave whole",
        unseen: "unseen whole",
        ask: Ask::Mute,
        race: false,
    },
    Leaving {
        what: "in a race of two, undecided",
        name: "leave race",
        unseen: "unseen race",
        ask: Ask::Role,
        race: true,
    },
    Leaving { what: "in a race of two, decided", name: "leave won", unseen: "unseen won", ask: Ask::Held, race: true },
];

/// Start, memory at rest and memory of open streams. tokrate is started anew in every round, a peer once.
pub fn memory(theatre: &mut Theatre) -> Result<()> {
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            if tool == Tool::Direct || (tool != Tool::Tokrate && round > 0) {
                continue;
            }
            if tool == Tool::Tokrate && round > 0 {
                let peak = theatre.doors[place].usage().peak_kib;
                theatre.peak_kib = theatre.peak_kib.max(peak);
                theatre.doors[place] = Door::open(tool, &theatre.places, &theatre.upstream)?;
            }
            let door = &theatre.doors[place];
            let (first_answer, idle) = (door.first_answer_ns as f64 / 1e6, door.idle_kib as f64);
            // litellm is busy with a thousand for longer than the whole run may take.
            let count = if tool == Tool::LiteLlm { OPEN_STREAMS / 10 } else { OPEN_STREAMS };
            let id = theatre.numbers(count as u64);
            let open = open_calls(theatre, &theatre.doors[place], id, count, Ask::Held, false);
            let resident = theatre.doors[place].usage().resident_kib as f64;
            match open {
                Ok(streams) => {
                    theatre.values.add("KiB a stream", tool, (resident - idle) / streams.len() as f64);
                }
                Err(error) => {
                    theatre.report.note(format!("{}: {count} open streams: failed to {error:#}", tool.name()));
                }
            }
            theatre.settle(place);
            std::thread::sleep(AFTERWARDS);
            let after = theatre.doors[place].usage().resident_kib as f64;
            theatre.values.add("after", tool, after / 1024.0);
            theatre.values.add("first answer", tool, first_answer);
            theatre.values.add("idle", tool, idle / 1024.0);
            let name = tool.name();
            theatre.tell(
                round,
                &format!("{name}: first answer after {first_answer:.0} ms, {idle} KiB, {resident} KiB open, {after} KiB behind them"),
            );
        }
    }
    report_memory(theatre)
}

fn report_memory(theatre: &mut Theatre) -> Result<()> {
    let values = &theatre.values;
    let own = |name| values.rounds(name, Tool::Tokrate).map(|rounds| rounds.median);
    let binary = std::fs::metadata(&theatre.places.tokrate).context("look at tokrate's binary")?.len() as f64 / 1e6;
    let mut lines = vec![
        Line::of("start to the end of the first answer (ms)", values, "first answer", one_decimal).judged(
            Bar::AtMost(50.0),
            one_decimal,
            own("first answer"),
            None,
        ),
        Line::of("resident at rest (MiB)", values, "idle", one_decimal).judged(
            Bar::AtMost(20.0),
            one_decimal,
            own("idle"),
            None,
        ),
        Line::of("resident per open stream, 1,000 open, of litellm 100 (KiB)", values, "KiB a stream", one_decimal)
            .judged(Bar::AtMost(20.0), one_decimal, own("KiB a stream"), None),
        Line::of(
            format!("resident {} s after they have gone (MiB)", AFTERWARDS.as_secs()),
            values,
            "after",
            one_decimal,
        ),
    ];
    let size = Line::new("binary (MB)").cell(Tool::Tokrate, one_decimal(binary));
    lines.push(size.judged(Bar::AtMost(60.0), one_decimal, Some(binary), None));
    lines.into_iter().for_each(|line| theatre.report.line(line));
    Ok(())
}

/// The most memory that there was in the whole run.
pub fn peak(theatre: &mut Theatre) {
    let mut line = Line::new("resident at most, all of this run (MiB)");
    let mut own = None;
    for door in theatre.doors.iter().filter(|door| door.tool != Tool::Direct) {
        let before = if door.tool == Tool::Tokrate { theatre.peak_kib } else { 0 };
        let peak = door.usage().peak_kib.max(before) as f64 / 1024.0;
        line = line.cell(door.tool, one_decimal(peak));
        own = if door.tool == Tool::Tokrate { Some(peak) } else { own };
    }
    theatre.report.line(line.judged(Bar::AtMost(100.0), one_decimal, own, None));
}

/// Clients that leave.
pub fn leave(theatre: &mut Theatre) -> Result<()> {
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            if !tool.passes_bytes_on() && round >= PEER_LEAVINGS {
                continue;
            }
            for leaving in LEAVINGS.iter().filter(|leaving| !leaving.race || tool == Tool::Tokrate) {
                match leave_once(theatre, place, leaving) {
                    Ok((delays, unseen)) => {
                        let p99 = quantile(delays.clone(), 0.99).unwrap_or(f64::NAN);
                        let name = tool.name();
                        theatre.tell(round, &format!("{name}, {}: p99 {p99:.2} ms, {unseen} unseen", leaving.what));
                        theatre.values.add(leaving.unseen, tool, unseen as f64);
                        if unseen > 0 {
                            theatre.report.note(format!(
                                "{name}: {LEAVING} clients left {}, and {unseen} calls went on at the upstream for {} s and more",
                                leaving.what,
                                PATIENCE.as_secs()
                            ));
                        } else {
                            theatre.values.add(leaving.name, tool, p99);
                        }
                    }
                    Err(error) => {
                        let name = tool.name();
                        theatre
                            .report
                            .note(format!("{name}, clients that leave {}: failed to {error:#}", leaving.what));
                    }
                }
            }
        }
    }
    for leaving in &LEAVINGS {
        let own = theatre.values.rounds(leaving.name, Tool::Tokrate).map(|rounds| rounds.median);
        // A call that goes on misses the bar, however soon the others ended.
        let unseen = |tool| theatre.values.sum(leaving.unseen, tool).filter(|unseen| *unseen > 0.0);
        let own = if unseen(Tool::Tokrate).is_some() { Some(f64::INFINITY) } else { own };
        let what = format!("client leaves {}: to the upstream's reading of the end, p99 (ms)", leaving.what);
        let mut line = Line::of(what, &theatre.values, leaving.name, two_decimals);
        for tool in Tool::ALL {
            if let Some(unseen) = unseen(tool) {
                line = line.cell(tool, format!("{unseen:.0} went on"));
            }
        }
        theatre.report.line(line.judged(Bar::AtMost(50.0), one_decimal, own, None));
    }
    Ok(())
}

/// How long after each leaving the upstream knew (ms), and how many calls it never learned of.
fn leave_once(theatre: &mut Theatre, place: usize, leaving: &Leaving) -> Result<(Vec<f64>, usize)> {
    let first = theatre.numbers(LEAVING as u64);
    theatre.upstream.take_ended();
    let before = theatre.upstream.open();
    let streams = open_calls(theatre, &theatre.doors[place], first, LEAVING, leaving.ask, leaving.race)?;
    let mut left_at = Vec::with_capacity(streams.len());
    for stream in streams {
        left_at.push(now());
        drop(stream);
        std::thread::sleep(PAUSE);
    }
    theatre.upstream.wait_for_open(before, PATIENCE);
    let unseen = theatre.upstream.open().saturating_sub(before);
    let ours = |ended: &Ended| (first..first + LEAVING as u64).contains(&ended.id);
    let ended: Vec<Ended> = theatre.upstream.take_ended().into_iter().filter(ours).collect();
    theatre.settle(place);
    // The loser of a race that was decided has gone before its client.
    let delays = ended.iter().filter_map(|ended| {
        let left_at = left_at[(ended.id - first) as usize];
        Some(ended.closed_at?.checked_sub(left_at)? as f64 / 1e6)
    });
    Ok((delays.collect(), unseen))
}

/// Opens so many calls and waits until each is where it stays.
fn open_calls(
    theatre: &Theatre,
    door: &Door,
    first: u64,
    count: usize,
    ask: Ask,
    race: bool,
) -> Result<Vec<TcpStream>> {
    let (before, from) = (theatre.upstream.open(), now());
    let mut streams = Vec::with_capacity(count);
    for place in 0..count {
        let mut stream = reach(door.address)?;
        stream.write_all(&door.request(Call { ask, id: first + place as u64, race })).context("send a call")?;
        streams.push(stream);
    }
    if ask == Ask::Held {
        for (place, stream) in streams.iter_mut().enumerate() {
            ensure!(
                now() - from < OPENING_NS,
                "open {count} streams: {place} have text after {} s",
                OPENING_NS / 1_000_000_000
            );
            first_text(stream)?;
        }
        // What follows a first text, such as the end of a race, has happened by then.
        std::thread::sleep(Duration::from_millis(300));
    } else {
        let wanted = before + if race { 2 * count } else { count };
        let open = theatre.upstream.wait_for_open(wanted, PATIENCE);
        ensure!(open, "open {wanted} calls at the upstream: there are {}", theatre.upstream.open());
    }
    Ok(streams)
}
