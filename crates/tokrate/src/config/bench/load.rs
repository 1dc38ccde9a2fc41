//! How requests arrive: resolved from flags and settings file.

use super::Cost;
use super::inputs::Inputs;
use super::{OPEN_LEVEL, pick_text};
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench as flags;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use tokrate_bench::agents::AgentTrace;
use tokrate_bench::plan::{Arrivals, Backoff, Beginning, Extent, Growth, Load, PhaseSpec, Ramp, Think, ToolTimes};
use tokrate_core::{RequestsPerSecond, Span};

/// Concurrency levels of a sweep when none are given.
const DEFAULT_SWEEP: [u32; 4] = [1, 10, 25, 50];
/// The same of a provider that is paid by tokens: about a hundred requests instead of four hundred.
const PAID_SWEEP: [u32; 4] = [1, 2, 4, 8];
/// Time per level against the embedded engine by default.
const EMBEDDED_LEVEL: Span = Span::from_secs(8);
const DEFAULT_IN_FLIGHT_LIMIT: u32 = 4096;
const DEFAULT_TURNS: u32 = 5;
/// More requests in flight than any machine that runs this carries.
const MAX_CONCURRENCY: u32 = 100_000;

/// Lowest rate: about one request in three hours; less is a slip.
const MIN_RATE: f64 = 0.0001;

/// Requests of a level at least, without --requests and --duration.
const MIN_REQUESTS: u64 = 20;
/// The same in each of several rounds: a median has an interval from 6 on, and four rounds of these see more than two of twenty for the
/// same money.
const MIN_REQUESTS_OF_A_ROUND: u64 = 10;

/// Settings of every level.
struct Common {
    /// Requests of a level that does not go by time, at least.
    min_requests: u64,
    duration: Option<Span>,
    requests: Option<u64>,
    warmup: Option<u64>,
    backoff: Backoff,
}

pub(super) fn phases(
    flags: &flags::Load,
    file: &File,
    cost: Cost,
    inputs: &Inputs,
    rounds: u32,
    is_until: bool,
) -> Result<Vec<PhaseSpec>> {
    let (bench, embedded) = (&file.bench, cost == Cost::Nothing);
    let duration = pick_text("--duration", &flags.duration, None, file, "duration", &bench.duration)
        .map(|duration| duration.parse(|text| quantity::span(&text)))
        .transpose()?
        .map(|duration| duration.value)
        .filter(|_| flags.requests.is_none());
    ensure!(
        duration.is_none_or(|duration| !duration.is_zero()),
        "read --duration: a level needs some time; write for example 30s"
    );
    let requests = flags.requests.or(bench.requests);
    ensure!(requests != Some(0), "read --requests: at least one request is needed");
    let ignore = flags.no_backoff || bench.no_backoff.unwrap_or(false);
    let backoff = if ignore { Backoff::Ignore } else { Backoff::Obey };
    let min_requests = (2 * MIN_REQUESTS).div_ceil(u64::from(rounds)).clamp(MIN_REQUESTS_OF_A_ROUND, MIN_REQUESTS);
    let common = Common { min_requests, duration, requests, warmup: flags.warmup.or(bench.warmup), backoff };
    check_fits(flags, is_until)?;
    if let Some(axis) = flags.search {
        return Ok(vec![match axis {
            flags::Axis::Concurrency => searched(closed_phase(1, embedded, &common)?, flags),
            flags::Axis::Rate => searched(open_phase(flags, 1.0, &common)?, flags),
        }]);
    }
    if let Some(rates) = &flags.rate {
        return rates.iter().map(|&rate| open_phase(flags, rate, &common)).collect();
    }
    if let Some(ramp) = &flags.ramp {
        let ramp = ramp_of("--ramp", ramp, flags, &common)?;
        let whole = |level: f64| level.fract() == 0.0 && (1.0..=f64::from(MAX_CONCURRENCY)).contains(&level);
        ensure!(
            whole(ramp.from) && whole(ramp.to),
            "read --ramp: both ends are whole numbers from 1 to {MAX_CONCURRENCY}, such as 1..50"
        );
        return Ok(vec![ramped(Load::ClosedRamp { ramp }, &ramp, &common)]);
    }
    if let Some(ramp) = &flags.ramp_rate {
        let ramp = ramp_of("--ramp-rate", ramp, flags, &common)?;
        ensure!(ramp.from.max(ramp.to) <= 1e6, "read --ramp-rate: at most 1,000,000 requests per second");
        let load = Load::OpenRamp { ramp, arrivals: arrivals(flags)?, in_flight_limit: in_flight_limit(flags)? };
        return Ok(vec![ramped(load, &ramp, &common)]);
    }
    let speed = flags.trace_speed.unwrap_or(1.0);
    ensure!(speed.is_finite() && speed > 0.0, "read --trace-speed: it must be a number above 0; 2 is twice as fast");
    if let Some(trace) = &inputs.agents {
        return Ok(agents(flags, trace, speed, &common));
    }
    if let Some(trace) = &inputs.trace {
        let load = Load::Trace { due: trace.due(speed), in_flight_limit: in_flight_limit(flags)? };
        let extent = match common.duration.filter(|_| flags.duration.is_some() && flags.clients.is_none()) {
            Some(duration) => Extent::Duration(duration),
            None => Extent::Requests(flags.requests.unwrap_or(u64::MAX).min(trace.requests.len() as u64)),
        };
        return Ok(vec![PhaseSpec { load, extent, warmup: flags.warmup.unwrap_or(0), backoff }]);
    }
    if let Some(levels) = &flags.sessions {
        return levels.iter().map(|&sessions| conversations(flags, sessions, &common)).collect();
    }
    let levels = flags.concurrency.clone().or_else(|| bench.concurrency.clone());
    let levels = levels.unwrap_or_else(|| default_levels(cost, is_until).to_vec());
    ensure!(!levels.is_empty(), "read --concurrency: name at least one level");
    levels.into_iter().map(|concurrency| closed_phase(concurrency, embedded, &common)).collect()
}

/// The concurrency levels where none are given.
fn default_levels(cost: Cost, is_until: bool) -> &'static [u32] {
    match cost {
        // What is asked without a load is asked of one request at a time.
        _ if is_until => &[1],
        Cost::Money => &PAID_SWEEP,
        Cost::Nothing | Cost::Time => &DEFAULT_SWEEP,
    }
}

/// A search decides by itself how many requests it needs.
fn searched(spec: PhaseSpec, flags: &flags::Load) -> PhaseSpec {
    PhaseSpec { extent: Extent::Requests(flags.requests.unwrap_or(1)), ..spec }
}

/// Refuses options of a load that was not chosen.
fn check_fits(flags: &flags::Load, is_until: bool) -> Result<()> {
    let spaced = flags.rate.is_some() || flags.ramp_rate.is_some() || flags.search == Some(flags::Axis::Rate);
    ensure!(
        flags.arrivals.is_none() || spaced,
        "read --arrivals: it spaces the arrivals of an open loop; give --rate or --ramp-rate too"
    );
    ensure!(
        flags.burstiness.is_none() || flags.arrivals == Some(flags::Arrivals::Gamma),
        "read --burstiness: it is the shape of gamma arrivals; give --arrivals gamma too"
    );
    ensure!(
        flags.max_in_flight.is_none() || spaced || flags.is_trace(),
        "read --max-in-flight: it bounds an open loop; give --rate, --ramp-rate, --trace or --clients too"
    );
    let is_trace = flags.is_trace() || flags.agents.is_some();
    let partners = [
        ("--trace-speed", flags.trace_speed.is_some(), "--trace, --clients or --agents", is_trace),
        ("--trace-limit", flags.trace_limit.is_some(), "--trace or --agents", is_trace && flags.clients.is_none()),
        ("--clients-from", flags.clients_from.is_some(), "--clients", flags.clients.is_some()),
        ("--clients-rate", flags.clients_rate.is_some(), "--clients", flags.clients.is_some()),
        ("--agents-at-once", flags.agents_at_once.is_some(), "--agents", flags.agents.is_some()),
        ("--turns", flags.turns.is_some(), "--sessions", flags.sessions.is_some()),
        ("--think", flags.think.is_some(), "--sessions", flags.sessions.is_some()),
        ("--tool-turns", flags.tool_turns.is_some(), "--sessions", flags.sessions.is_some()),
        ("--tool-time", flags.tool_time.is_some(), "--tool-turns", flags.tool_turns.is_some()),
        ("--tool-tokens", flags.tool_tokens.is_some(), "--tool-turns", flags.tool_turns.is_some()),
        ("--slo-share", flags.slo_share.is_some(), "--search", flags.search.is_some()),
        ("--max-requests", flags.max_requests.is_some(), "--search or --until", flags.search.is_some() || is_until),
    ];
    for (flag, is_given, partner, is_there) in partners {
        // What ends a level is called so elsewhere.
        let instead =
            if flag == "--max-requests" { "say with --requests how many a level measures" } else { "leave it out" };
        ensure!(!is_given || is_there, "read {flag}: it means something with {partner} only; give that, or {instead}");
    }
    ensure!(
        flags.ramp_growth.is_none() || flags.ramp.is_some() || flags.ramp_rate.is_some(),
        "read --ramp-growth: give --ramp or --ramp-rate too"
    );
    Ok(())
}

fn closed_phase(concurrency: u32, embedded: bool, common: &Common) -> Result<PhaseSpec> {
    ensure!(
        (1..=MAX_CONCURRENCY).contains(&concurrency),
        "read --concurrency: {concurrency} is not between 1 and {MAX_CONCURRENCY}"
    );
    let extent = match (common.duration, common.requests) {
        (Some(duration), _) => Extent::Duration(duration),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) if embedded => Extent::Duration(EMBEDDED_LEVEL),
        (None, None) => Extent::Requests((u64::from(concurrency) * 3).max(common.min_requests)),
    };
    let warmup = common.warmup.unwrap_or(u64::from(concurrency));
    Ok(PhaseSpec { load: Load::Closed { concurrency }, extent, warmup, backoff: common.backoff })
}

fn open_phase(flags: &flags::Load, rate: f64, common: &Common) -> Result<PhaseSpec> {
    ensure!(
        rate != f64::INFINITY,
        "read --rate: requests that are all sent at once have no rate; for so many in flight give --concurrency N, for a burst a large --rate \
         such as 1000 with --requests N"
    );
    let rate = RequestsPerSecond::new(rate).filter(|rate| (MIN_RATE..=1e6).contains(&rate.per_second())).with_context(
        || {
            let shown = if rate != 0.0 && rate.abs() < MIN_RATE { format!("{rate:e}") } else { rate.to_string() };
            format!("read --rate: {shown} is not a rate between {MIN_RATE} and 1,000,000 requests per second")
        },
    )?;
    let load = Load::Open { rate, arrivals: arrivals(flags)?, in_flight_limit: in_flight_limit(flags)? };
    let extent = match (common.duration, common.requests) {
        (Some(duration), _) => Extent::Duration(duration),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) => Extent::Duration(OPEN_LEVEL),
    };
    Ok(PhaseSpec { load, extent, warmup: common.warmup.unwrap_or(0), backoff: common.backoff })
}

fn arrivals(flags: &flags::Load) -> Result<Arrivals> {
    Ok(match flags.arrivals.unwrap_or(flags::Arrivals::Poisson) {
        flags::Arrivals::Constant => Arrivals::Constant,
        flags::Arrivals::Poisson => Arrivals::Poisson,
        flags::Arrivals::Gamma => {
            let shape = flags.burstiness.unwrap_or(1.0);
            ensure!(
                (0.001..=1_000_000.0).contains(&shape),
                "read --burstiness: {shape} is not between 0.001 and 1,000,000; 1 is Poisson, less comes in bursts"
            );
            Arrivals::Gamma { shape }
        }
    })
}

/// With room for fewer requests in flight than this an arrival process is likely not to be kept; 1,024 open files, the usual limit,
/// leave 960.
const MIN_IN_FLIGHT: u64 = 256;

fn in_flight_limit(flags: &flags::Load) -> Result<u32> {
    in_flight_limit_of(flags.max_in_flight, tokrate_net::server::open_files())
}

fn in_flight_limit_of(typed: Option<u32>, open_files: u64) -> Result<u32> {
    let possible = super::feasible::max_connections(open_files).min(u64::from(DEFAULT_IN_FLIGHT_LIMIT));
    let most = match possible {
        0 => "no request can be in flight".to_owned(),
        1 => "1 request in flight is the most, and arrivals beyond it would be forfeited".to_owned(),
        n => format!("{n} requests in flight are the most, and arrivals beyond them would be forfeited"),
    };
    let instead =
        if possible == 0 { String::new() } else { format!(", or say --max-in-flight {possible} if that is enough") };
    ensure!(
        typed.is_some() || possible >= MIN_IN_FLIGHT,
        "start the run: this process may have {open_files} open files, so that {most}; raise the limit (`ulimit -n 4096`){instead}"
    );
    let limit = typed.unwrap_or(possible as u32);
    ensure!(limit > 0, "read --max-in-flight: with 0 every arrival would be forfeited; give at least 1");
    Ok(limit)
}

fn ramp_of(flag: &str, text: &str, flags: &flags::Load, common: &Common) -> Result<Ramp> {
    let level = |text: &str| text.trim().parse::<f64>().ok().filter(|level| level.is_finite() && *level > 0.0);
    let ends = text.split_once("..").and_then(|(from, to)| level(from).zip(level(to)));
    let (from, to) = ends.with_context(|| format!("read {flag}: `{text}` is not two numbers above 0 such as 1..50"))?;
    let growth = match flags.ramp_growth.unwrap_or(flags::Growth::Linear) {
        flags::Growth::Linear => Growth::Linear,
        flags::Growth::Exponential => Growth::Exponential,
    };
    Ok(Ramp { from, to, growth, over: common.duration.unwrap_or(OPEN_LEVEL) })
}

fn ramped(load: Load, ramp: &Ramp, common: &Common) -> PhaseSpec {
    PhaseSpec { load, extent: Extent::Duration(ramp.over), warmup: 0, backoff: common.backoff }
}

fn conversations(flags: &flags::Load, sessions: u32, common: &Common) -> Result<PhaseSpec> {
    ensure!(
        (1..=MAX_CONCURRENCY).contains(&sessions),
        "read --sessions: {sessions} is not between 1 and {MAX_CONCURRENCY}"
    );
    let turns = flags.turns.unwrap_or(DEFAULT_TURNS);
    ensure!((1..=10_000).contains(&turns), "read --turns: {turns} is not between 1 and 10,000");
    let think = pause("--think", flags.think.as_deref())?;
    let time = pause("--tool-time", flags.tool_time.as_deref())?;
    let tools = flags.tool_turns.map(|each| ToolTimes { each, time });
    // Each result is a request of its own.
    let turns = turns.saturating_mul(1 + flags.tool_turns.unwrap_or(0));
    // The file's extents are for levels; a session has an end of its own.
    let extent = match (common.duration.filter(|_| flags.duration.is_some()), flags.requests) {
        (Some(duration), _) => Extent::Duration(duration),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) => Extent::Sessions(u64::from(sessions)),
    };
    let load = Load::Sessions { sessions, turns, think, tools };
    Ok(PhaseSpec { load, extent, warmup: flags.warmup.unwrap_or(0), backoff: common.backoff })
}

/// A time between two turns: none, always as long, or exponentially distributed.
fn pause(flag: &str, text: Option<&str>) -> Result<Think> {
    let read = |text: &str| quantity::span(text).map_err(|error| anyhow::anyhow!("read {flag}: {error:#}"));
    Ok(match text.map(|text| (text, text.strip_prefix("exp:"))) {
        None => Think::Fixed(Span::ZERO),
        Some((_, Some(mean))) => Think::Exponential(read(mean)?),
        Some((text, None)) => Think::Fixed(read(text)?),
    })
}

/// Sessions of agents: so many at once, or each at its own time.
fn agents(flags: &flags::Load, trace: &Arc<AgentTrace>, speed: f64, common: &Common) -> Vec<PhaseSpec> {
    let at_once = |sessions: &u32| Beginning::AtOnce(*sessions, speed);
    let beginnings = match &flags.agents_at_once {
        Some(levels) => levels.iter().map(at_once).collect(),
        None if trace.has_times() => vec![Beginning::OwnTimes(speed)],
        None => vec![Beginning::AtOnce(1, speed)],
    };
    let phase = |beginning| {
        let recorded = trace.sessions.len() as u64;
        let sessions = match beginning {
            Beginning::AtOnce(places, _) => recorded.max(u64::from(places)),
            Beginning::OwnTimes(_) => recorded,
        };
        let extent = match common.duration.filter(|_| flags.duration.is_some()) {
            Some(duration) => Extent::Duration(duration),
            None => Extent::Sessions(sessions),
        };
        let load = Load::Agents { trace: Arc::clone(trace), beginning };
        PhaseSpec { load, extent, warmup: flags.warmup.unwrap_or(0), backoff: common.backoff }
    };
    beginnings.into_iter().map(phase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_means_nothing_without_another_is_refused_beside_any_other_load() {
        let given: [fn(&mut flags::Load); 6] = [
            |load| load.trace_speed = Some(2.0),
            |load| load.trace_limit = Some(2),
            |load| load.turns = Some(2),
            |load| load.think = Some("2s".to_owned()),
            |load| load.slo_share = Some(0.9),
            |load| load.max_requests = Some(9),
        ];
        for give in given {
            let mut load = flags::Load { concurrency: Some(vec![1]), ..flags::Load::default() };
            give(&mut load);
            let refused = check_fits(&load, false).expect_err("its partner is missing").to_string();
            assert!(refused.contains("it means something with --"), "{refused}");
            let there = flags::Load {
                trace: Some("t".into()),
                sessions: Some(vec![1]),
                search: Some(flags::Axis::Rate),
                ..load
            };
            assert!(check_fits(&there, false).is_ok());
        }
    }

    #[test]
    fn a_rate_of_next_to_nothing_is_a_slip_and_is_shown_short() {
        let common = Common { min_requests: 20, duration: None, requests: None, warmup: None, backoff: Backoff::Obey };
        let refused =
            open_phase(&flags::Load::default(), 1e-300, &common).expect_err("nobody waits so long").to_string();
        assert_eq!(refused, "read --rate: 1e-300 is not a rate between 0.0001 and 1,000,000 requests per second");
    }

    #[test]
    fn an_open_loop_says_how_many_requests_its_open_files_allow() {
        let refused = |open_files| in_flight_limit_of(None, open_files).map_err(|error| error.to_string());
        let text = |said: &str| Err(format!("start the run: this process may have {said}"));
        assert_eq!(
            refused(64),
            text("64 open files, so that no request can be in flight; raise the limit (`ulimit -n 4096`)")
        );
        assert_eq!(
            refused(65),
            text(
                "65 open files, so that 1 request in flight is the most, and arrivals beyond it would be forfeited; raise the limit \
                 (`ulimit -n 4096`), or say --max-in-flight 1 if that is enough"
            )
        );
        assert_eq!(refused(1024), Ok(960));
        assert_eq!(in_flight_limit_of(Some(10), 128).ok(), Some(10));
    }
}
