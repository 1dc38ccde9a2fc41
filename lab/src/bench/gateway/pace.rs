//! Streams at the pace of a model: what a gateway adds to the first text and to each later one, alone and in a crowd.
//!
//! Invariant: how late a text is, is its arrival against the tick at which the upstream began to write it.

use super::Theatre;
use super::calls::late_line;
use super::door::{Call, Door, Tool};
use super::play::{Ask, CROWD_EVENTS, GAP_NS};
use super::report::{Bar, Line};
use super::upstream::Ended;
use super::watch::{Seen, Watch};
use crate::bench::clock::now;
use crate::bench::summary::{nearest_rank, two_decimals};
use anyhow::{Result, ensure};
use std::collections::BTreeMap;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// Calls of a round, one after the other.
const CALLS: usize = 15;
/// Numbers of streams that are tried: downwards, for peers upwards.
const CROWDS: [usize; 7] = [2_000, 1_500, 1_000, 512, 256, 64, 16];
/// From the start of one stream of a crowd to the next.
const START_GAP_NS: u64 = 500_000;
const DELAYED_ACK_NS: std::ops::Range<u64> = 35 * MILLISECOND..50 * MILLISECOND;

/// One stream at a time.
pub fn pace(theatre: &mut Theatre) -> Result<()> {
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            let watched = watch(theatre, place, Ask::Paced, 1, CALLS).and_then(|(seen, ended)| {
                let lags = lags(&seen, &ended);
                ensure!(!lags.is_empty(), "hear a text: {:?}", first_failure(&seen));
                Ok((seen, lags))
            });
            let Some((seen, lags)) = theatre.excused(tool, "pace", watched)? else { continue };
            let mut ttfts: Vec<u64> =
                seen.iter().filter_map(|seen| Some(seen.arrivals.first()? - seen.sent_at)).collect();
            ttfts.sort_unstable();
            let millis = |sorted: &[u64], level| nearest_rank(sorted, level).map_or(f64::NAN, |time| time as f64 / 1e6);
            theatre.values.add("ttft", tool, millis(&ttfts, 0.5));
            theatre.values.add("lag p50", tool, millis(&lags, 0.5));
            theatre.values.add("lag p99", tool, millis(&lags, 0.99));
            let late = lags.iter().filter(|lag| DELAYED_ACK_NS.contains(lag)).count();
            theatre.values.add("lag late", tool, late as f64);
            theatre.values.add("lags", tool, lags.len() as f64);
            theatre.tell(
                round,
                &format!(
                    "{}: TTFT p50 {:.3} ms, lag p50 {:.3} ms, p99 {:.3} ms",
                    tool.name(),
                    millis(&ttfts, 0.5),
                    millis(&lags, 0.5),
                    millis(&lags, 0.99)
                ),
            );
            let broken = seen.iter().filter(|seen| !seen.complete || seen.altered).count();
            if broken > 0 {
                let failure = first_failure(&seen);
                theatre.report.note(format!("{}: {broken} paced streams broken or altered: {failure:?}", tool.name()));
            }
        }
    }
    let values = &theatre.values;
    let added = |name| values.added(name, Tool::Tokrate).map(|rounds| rounds.median);
    let lines = [
        Line::of("TTFT p50 of one stream, the upstream's first text 5 ms after the call (ms)", values, "ttft", millis),
        Line::added("added to TTFT, p50 (ms)", values, "ttft", millis).judged(
            Bar::AtMost(0.15),
            two_decimals,
            added("ttft"),
            None,
        ),
        Line::of("write to arrival of a text, one stream of 20 ms gaps, p50 (ms)", values, "lag p50", millis),
        Line::of("write to arrival of a text, p99 (ms)", values, "lag p99", millis),
        Line::added("added to the arrival of a text, p99 (ms)", values, "lag p99", millis).judged(
            Bar::AtMost(0.5),
            two_decimals,
            added("lag p99"),
            None,
        ),
        late_line(theatre, "texts that came 35 to 50 ms after their write (delayed ACK)", "lag late", "lags"),
    ];
    lines.into_iter().for_each(|line| theatre.report.line(line));
    Ok(())
}

/// As many streams at once as hold, up to 2,000.
pub fn crowd(theatre: &mut Theatre) -> Result<()> {
    let mut held: BTreeMap<Tool, usize> = BTreeMap::new();
    for round in 0..theatre.rounds {
        for place in theatre.turns(round) {
            let tool = theatre.doors[place].tool;
            if tool.passes_bytes_on() {
                let before = held.get(&tool).copied().unwrap_or(CROWDS[0]);
                held.insert(tool, most_held(theatre, round, place, before)?);
            } else if round == 0 {
                let most = climb(theatre, place);
                held.extend(theatre.excused(tool, "crowd", most)?.map(|most| (tool, most)));
            }
        }
    }
    report_crowd(theatre, &held);
    Ok(())
}

/// The most streams that hold, from `before` downwards; 0 when none do.
fn most_held(theatre: &mut Theatre, round: usize, place: usize, before: usize) -> Result<usize> {
    let tool = theatre.doors[place].tool;
    // What held before is tried twice: a machine may stumble.
    let sizes = [before].into_iter().chain(CROWDS.into_iter().filter(|size| *size <= before));
    for size in sizes.filter(|size| *size > 0) {
        let judged = one_crowd(theatre, place, size)?;
        theatre.tell(round, &format!("{}: {}", tool.name(), judged.told()));
        if let Some(complaint) = &judged.complaint {
            let (name, round) = (tool.name(), round + 1);
            theatre.report.note(format!("{name}, {size} streams did not hold in round {round}: {complaint}"));
            continue;
        }
        theatre.values.add("crowd lag p99", tool, judged.lag_p99);
        theatre.values.add("crowd gap", tool, judged.longest_gap);
        if tool == Tool::Tokrate {
            theatre.values.add("crowd CPU", tool, judged.cpu_share);
        }
        return Ok(size);
    }
    Ok(0)
}

/// The most streams that hold behind a peer, from few upwards.
fn climb(theatre: &mut Theatre, place: usize) -> Result<usize> {
    let name = theatre.doors[place].tool.name();
    let mut most = 0;
    for size in CROWDS.into_iter().rev() {
        let judged = one_crowd(theatre, place, size)?;
        theatre.tell(0, &format!("{name}: {}", judged.told()));
        if let Some(complaint) = &judged.complaint {
            theatre.report.note(format!("{name}, {size} streams did not hold: {complaint}"));
            break;
        }
        most = size;
    }
    Ok(most)
}

fn report_crowd(theatre: &mut Theatre, held: &BTreeMap<Tool, usize>) {
    let mut line = Line::new("streams of 50 tok/s that hold in every round, of 2,000 (peers: one round)");
    for (tool, most) in held {
        line = line.cell(*tool, most.to_string());
    }
    let most = held.get(&Tool::Tokrate).map(|most| *most as f64);
    let floor = held.get(&Tool::Direct).map(|most| *most as f64);
    let count = |value: f64| format!("{value:.0}");
    let values = &theatre.values;
    let lines = [
        line.judged(Bar::AtLeastAsFloor(CROWDS[0] as f64), count, most, floor),
        Line::of(
            "write to arrival of a text at as many streams as held, p99 (ms)",
            values,
            "crowd lag p99",
            two_decimals,
        ),
        Line::of("longest gap of any of these streams (ms)", values, "crowd gap", two_decimals),
        Line::of("CPU of the gateway at as many streams as held (cores)", values, "crowd CPU", two_decimals),
    ];
    lines.into_iter().for_each(|line| theatre.report.line(line));
}

/// What came of a crowd.
struct Judged {
    size: usize,
    lag_p99: f64,
    longest_gap: f64,
    cpu_share: f64,
    /// Why it did not hold.
    complaint: Option<String>,
}

impl Judged {
    fn told(&self) -> String {
        let Judged { size, lag_p99, longest_gap, cpu_share, complaint } = self;
        let verdict = complaint.as_deref().unwrap_or("holds");
        format!(
            "{size} streams: lag p99 {lag_p99:.1} ms, longest gap {longest_gap:.1} ms, {cpu_share:.2} cores: {verdict}"
        )
    }
}

fn one_crowd(theatre: &mut Theatre, place: usize, size: usize) -> Result<Judged> {
    let (cpu, from) = (theatre.doors[place].cpu_ns(), now());
    let (seen, ended) = watch(theatre, place, Ask::Crowd, size, 1)?;
    let cpu_share = (theatre.doors[place].cpu_ns() - cpu) as f64 / (now() - from) as f64;
    let lags = lags(&seen, &ended);
    let longest_gap = seen.iter().flat_map(|seen| seen.arrivals.windows(2)).map(|pair| pair[1] - pair[0]).max();
    let broken = seen.iter().filter(|seen| !seen.complete).count();
    let altered = seen.iter().filter(|seen| seen.complete && seen.altered).count();
    let short = seen.iter().filter(|seen| seen.complete && seen.arrivals.len() != CROWD_EVENTS as usize).count();
    // How far behind its timetable the upstream was at the end of each stream: then it is not the gateway that failed.
    let behind = ended.values().filter_map(|ended| {
        let (first, last) = (ended.writes.first()?, ended.writes.last()?);
        Some((last - first).saturating_sub(GAP_NS * (ended.writes.len() as u64 - 1)))
    });
    let behind = behind.max().unwrap_or(0);
    let complaint = if broken > 0 {
        Some(format!("{broken} did not end, the first with {:?}", first_failure(&seen)))
    } else if altered + short > 0 {
        Some(format!("{altered} were altered, {short} have lost texts"))
    } else if longest_gap.is_some_and(|gap| gap > SECOND) {
        Some(format!("a stall of {:.1} s", longest_gap.unwrap_or(0) as f64 / 1e9))
    } else if behind > SECOND {
        Some(format!("the upstream itself was {:.1} s late", behind as f64 / 1e9))
    } else {
        None
    };
    Ok(Judged {
        size,
        lag_p99: nearest_rank(&lags, 0.99).map_or(f64::NAN, |lag| lag as f64 / 1e6),
        longest_gap: longest_gap.map_or(f64::NAN, |gap| gap as f64 / 1e6),
        cpu_share,
        complaint,
    })
}

/// Watches streams; what the client saw, and what the upstream did, by the number of the call.
fn watch(
    theatre: &mut Theatre,
    place: usize,
    ask: Ask,
    streams: usize,
    calls_each: usize,
) -> Result<(Vec<Seen>, BTreeMap<u64, Ended>)> {
    let id = theatre.numbers((streams * calls_each) as u64);
    let door: &Door = &theatre.doors[place];
    let expected = door.tool.passes_bytes_on().then(|| ask.true_body());
    theatre.upstream.take_ended();
    let watch = Watch {
        door,
        call: Call { ask, id, race: false },
        streams,
        calls_each,
        start_gap_ns: START_GAP_NS,
        expected: expected.as_deref(),
        give_up_ns: 12 * SECOND,
    };
    let seen = watch.run();
    theatre.settle(place);
    let seen = seen?;
    let ended = theatre.upstream.take_ended().into_iter().map(|ended| (ended.id, ended)).collect();
    Ok((seen, ended))
}

/// How long after their writes all texts arrived (ns), rising.
fn lags(seen: &[Seen], ended: &BTreeMap<u64, Ended>) -> Vec<u64> {
    let pairs = seen.iter().filter_map(|seen| Some((seen, ended.get(&seen.id)?)));
    let mut lags: Vec<u64> = pairs
        .flat_map(|(seen, ended)| seen.arrivals.iter().zip(&ended.writes))
        .map(|(arrival, write)| arrival.saturating_sub(*write))
        .collect();
    lags.sort_unstable();
    lags
}

fn first_failure(seen: &[Seen]) -> Option<&str> {
    seen.iter().find_map(|seen| seen.failure.as_deref())
}

fn millis(value: f64) -> String {
    format!("{value:.3}")
}
