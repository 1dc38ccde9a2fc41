//! Streams at the pace of a model: what a gateway adds to the first text and to each later one, alone and in a crowd.
//!
//! Invariant: how late a text is, is its arrival against the tick at which the upstream began to write it.

use super::GatewayBench;
use super::calls::late_line;
use super::endpoint::{Call, Endpoint, Tool};
use super::report::{Bar, Line};
use super::script::{CROWD_EVENTS, GAP_NS, ScriptName};
use super::streams::{StreamLoad, StreamResult};
use super::upstream::Ended;
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
pub fn pace(bench: &mut GatewayBench) -> Result<()> {
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            let watched = run_streams(bench, place, ScriptName::Paced, 1, CALLS).and_then(|(seen, ended)| {
                let lags = lags(&seen, &ended);
                ensure!(!lags.is_empty(), "get a text: {:?}", first_failure(&seen));
                Ok((seen, lags))
            });
            let Some((seen, lags)) = bench.result_or_note(tool, "pace", watched)? else { continue };
            let mut ttfts: Vec<u64> =
                seen.iter().filter_map(|seen| Some(seen.arrivals.first()? - seen.sent_at)).collect();
            ttfts.sort_unstable();
            let millis = |sorted: &[u64], level| nearest_rank(sorted, level).map_or(f64::NAN, |time| time as f64 / 1e6);
            bench.values.add("ttft", tool, millis(&ttfts, 0.5));
            bench.values.add("lag p50", tool, millis(&lags, 0.5));
            bench.values.add("lag p99", tool, millis(&lags, 0.99));
            let late = lags.iter().filter(|lag| DELAYED_ACK_NS.contains(lag)).count();
            bench.values.add("lag late", tool, late as f64);
            bench.values.add("lags", tool, lags.len() as f64);
            bench.print_progress(
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
                bench.report.note(format!("{}: {broken} paced streams broken or altered: {failure:?}", tool.name()));
            }
        }
    }
    let values = &bench.values;
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
        late_line(bench, "texts that came 35 to 50 ms after their write (delayed ACK)", "lag late", "lags"),
    ];
    lines.into_iter().for_each(|line| bench.report.line(line));
    Ok(())
}

/// As many streams at once as hold, up to 2,000.
pub fn crowd(bench: &mut GatewayBench) -> Result<()> {
    let mut sustained: BTreeMap<Tool, usize> = BTreeMap::new();
    for round in 0..bench.rounds {
        for place in bench.turns(round) {
            let tool = bench.endpoints[place].tool;
            if tool.passes_bytes_on() {
                let before = sustained.get(&tool).copied().unwrap_or(CROWDS[0]);
                sustained.insert(tool, max_sustained(bench, round, place, before)?);
            } else if round == 0 {
                let most = climb(bench, place);
                sustained.extend(bench.result_or_note(tool, "crowd", most)?.map(|most| (tool, most)));
            }
        }
    }
    report_crowd(bench, &sustained);
    Ok(())
}

/// The most streams that hold, from `before` downwards; 0 when none do.
fn max_sustained(bench: &mut GatewayBench, round: usize, place: usize, before: usize) -> Result<usize> {
    let tool = bench.endpoints[place].tool;
    // What sustained before is tried twice: a machine may stumble.
    let sizes = [before].into_iter().chain(CROWDS.into_iter().filter(|size| *size <= before));
    for size in sizes.filter(|size| *size > 0) {
        let judged = one_crowd(bench, place, size)?;
        bench.print_progress(round, &format!("{}: {}", tool.name(), judged.summary()));
        if let Some(error_text) = &judged.error_text {
            let (name, round) = (tool.name(), round + 1);
            bench.report.note(format!("{name}, {size} streams did not hold in round {round}: {error_text}"));
            continue;
        }
        bench.values.add("crowd lag p99", tool, judged.lag_p99);
        bench.values.add("crowd gap", tool, judged.longest_gap);
        if tool == Tool::Tokrate {
            bench.values.add("crowd CPU", tool, judged.cpu_share);
        }
        return Ok(size);
    }
    Ok(0)
}

/// The most streams that hold behind a peer, from few upwards.
fn climb(bench: &mut GatewayBench, place: usize) -> Result<usize> {
    let name = bench.endpoints[place].tool.name();
    let mut most = 0;
    for size in CROWDS.into_iter().rev() {
        let judged = one_crowd(bench, place, size)?;
        bench.print_progress(0, &format!("{name}: {}", judged.summary()));
        if let Some(error_text) = &judged.error_text {
            bench.report.note(format!("{name}, {size} streams did not hold: {error_text}"));
            break;
        }
        most = size;
    }
    Ok(most)
}

fn report_crowd(bench: &mut GatewayBench, sustained: &BTreeMap<Tool, usize>) {
    let mut line = Line::new("streams of 50 tok/s that hold in every round, of 2,000 (peers: one round)");
    for (tool, most) in sustained {
        line = line.cell(*tool, most.to_string());
    }
    let most = sustained.get(&Tool::Tokrate).map(|most| *most as f64);
    let floor = sustained.get(&Tool::Direct).map(|most| *most as f64);
    let count = |value: f64| format!("{value:.0}");
    let values = &bench.values;
    let lines = [
        line.judged(Bar::AtLeastAsFloor(CROWDS[0] as f64), count, most, floor),
        Line::of(
            "write to arrival of a text at as many streams as sustained, p99 (ms)",
            values,
            "crowd lag p99",
            two_decimals,
        ),
        Line::of("longest gap of any of these streams (ms)", values, "crowd gap", two_decimals),
        Line::of("CPU of the gateway at as many streams as sustained (cores)", values, "crowd CPU", two_decimals),
    ];
    lines.into_iter().for_each(|line| bench.report.line(line));
}

/// What came of a crowd.
struct CrowdResult {
    size: usize,
    lag_p99: f64,
    longest_gap: f64,
    cpu_share: f64,
    /// Why it did not hold.
    error_text: Option<String>,
}

impl CrowdResult {
    fn summary(&self) -> String {
        let CrowdResult { size, lag_p99, longest_gap, cpu_share, error_text } = self;
        let verdict = error_text.as_deref().unwrap_or("holds");
        format!(
            "{size} streams: lag p99 {lag_p99:.1} ms, longest gap {longest_gap:.1} ms, {cpu_share:.2} cores: {verdict}"
        )
    }
}

fn one_crowd(bench: &mut GatewayBench, place: usize, size: usize) -> Result<CrowdResult> {
    let (cpu, from) = (bench.endpoints[place].cpu_ns(), now());
    let (seen, ended) = run_streams(bench, place, ScriptName::Crowd, size, 1)?;
    let cpu_share = (bench.endpoints[place].cpu_ns() - cpu) as f64 / (now() - from) as f64;
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
    let error_text = if broken > 0 {
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
    Ok(CrowdResult {
        size,
        lag_p99: nearest_rank(&lags, 0.99).map_or(f64::NAN, |lag| lag as f64 / 1e6),
        longest_gap: longest_gap.map_or(f64::NAN, |gap| gap as f64 / 1e6),
        cpu_share,
        error_text,
    })
}

/// Watches streams; what the client saw, and what the upstream did, by the number of the call.
fn run_streams(
    bench: &mut GatewayBench,
    place: usize,
    ask: ScriptName,
    streams: usize,
    calls_each: usize,
) -> Result<(Vec<StreamResult>, BTreeMap<u64, Ended>)> {
    let id = bench.numbers((streams * calls_each) as u64);
    let endpoint: &Endpoint = &bench.endpoints[place];
    let expected = endpoint.tool.passes_bytes_on().then(|| ask.true_body());
    bench.upstream.take_ended();
    let watch = StreamLoad {
        endpoint,
        call: Call { ask, id, race: false },
        streams,
        calls_each,
        start_gap_ns: START_GAP_NS,
        expected: expected.as_deref(),
        timeout_ns: 12 * SECOND,
    };
    let seen = watch.run();
    bench.wait_until_idle(place);
    let seen = seen?;
    let ended = bench.upstream.take_ended().into_iter().map(|ended| (ended.id, ended)).collect();
    Ok((seen, ended))
}

/// How long after their writes all texts arrived (ns), rising.
fn lags(seen: &[StreamResult], ended: &BTreeMap<u64, Ended>) -> Vec<u64> {
    let pairs = seen.iter().filter_map(|seen| Some((seen, ended.get(&seen.id)?)));
    let mut lags: Vec<u64> = pairs
        .flat_map(|(seen, ended)| seen.arrivals.iter().zip(&ended.writes))
        .map(|(arrival, write)| arrival.saturating_sub(*write))
        .collect();
    lags.sort_unstable();
    lags
}

fn first_failure(seen: &[StreamResult]) -> Option<&str> {
    seen.iter().find_map(|seen| seen.failure.as_deref())
}

fn millis(value: f64) -> String {
    format!("{value:.3}")
}
