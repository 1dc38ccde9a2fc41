//! Measures routing and hedging on simulated fleets and prints the tables of docs/routing.md:
//! `cargo run --release -p tokrate-dst --example routing [SEEDS [races]]`.

#![allow(clippy::print_stdout)]

use std::ops::RangeInclusive;
use tokrate_core::Span;
use tokrate_dst::fleet::{FleetLane, FleetScenario, LaneSelector, Summary, Workload, knee_throughput, run_fleet};
use tokrate_route::{BudgetConfig, Mode, Policy, RaceConfig, WinRule};

const POLICIES: [(&str, LaneSelector); 9] = [
    ("completion", LaneSelector::Router(Policy::Completion)),
    ("own completion", LaneSelector::Router(Policy::OwnCompletion)),
    ("cheapest with TTFT up to 1 s and 40 tok/s", LaneSelector::Router(CHEAPEST)),
    ("peak-EWMA, power of two", LaneSelector::Router(Policy::PeakEwma)),
    ("least busy", LaneSelector::Router(Policy::LeastBusy)),
    ("round robin", LaneSelector::Router(Policy::RoundRobin)),
    ("lowest latency", LaneSelector::Router(Policy::LowestLatency)),
    ("oracle", LaneSelector::Oracle),
    ("selfless oracle", LaneSelector::SelflessOracle),
];

const CHEAPEST: Policy = Policy::Cheapest { max_ttft: Some(Span::from_secs(1)), min_speed: Some(40.0) };

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok()).unwrap_or(5);
    if std::env::args().nth(2).is_some_and(|only| only == "races") {
        return races(81..=80 + seeds * 8);
    }
    for load in [0.5, 0.8, 1.0] {
        table(&format!("drawn fleets, {:.0} % of the knee", load * 100.0), seeds, load, FleetLane::random);
    }
    for load in [0.8, 1.0] {
        table(&format!("published fleet, {:.0} % of the knee", load * 100.0), seeds, load, |_| FleetLane::published());
    }
    hedges("completion", seeds, Policy::Completion);
    hedges("order as listed", seeds, Policy::Fixed);
    races(81..=80 + seeds * 8);
}

/// Means over seeds of what a policy did.
#[derive(Clone, Copy, Default)]
struct Mean {
    completion: f64,
    completion_p99: f64,
    ttft_p99: f64,
    usd: f64,
    failed: f64,
    extra: f64,
    ledger: f64,
}

fn mean(summaries: &[Summary]) -> Mean {
    let of = |value: fn(&Summary) -> f64| summaries.iter().map(value).sum::<f64>() / summaries.len() as f64;
    Mean {
        completion: of(|summary| summary.completion_mean),
        completion_p99: of(|summary| summary.completion_p99),
        ttft_p99: of(|summary| summary.ttft_p99),
        usd: of(|summary| summary.usd_per_thousand),
        failed: of(|summary| summary.failed as f64 / summary.calls as f64),
        extra: of(|summary| summary.extra_share),
        ledger: of(|summary| summary.ledger_usd_per_thousand),
    }
}

fn table(title: &str, seeds: u64, load: f64, lanes: impl Fn(u64) -> Vec<FleetLane>) {
    println!("\n### {title}\n");
    println!(
        "| policy | mean completion | of peak-EWMA | regret to oracle (min..max) | p99 completion | p99 TTFT | USD per 1,000 calls | failed |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let measure = |seed: u64, selector: LaneSelector| {
        let lanes = lanes(seed);
        let workload = Workload::default();
        let calls_per_second = load * knee_throughput(&lanes, &workload);
        let workload = Workload { calls_per_second, ..workload };
        Summary::of(&run_fleet(&FleetScenario::of(seed, lanes, workload, selector)))
    };
    let results: Vec<(&str, Vec<Summary>)> = POLICIES
        .iter()
        .map(|(name, selector)| (*name, (1..=seeds).map(|seed| measure(seed, *selector)).collect()))
        .collect();
    let by_name = |wanted: &str| &results.iter().find(|(name, _)| *name == wanted).expect("it was measured").1;
    let (oracle, peak) = (by_name("oracle"), mean(by_name("peak-EWMA, power of two")));
    for (name, summaries) in &results {
        let all = mean(summaries);
        let regrets: Vec<f64> =
            summaries.iter().zip(oracle).map(|(one, best)| one.completion_mean / best.completion_mean - 1.0).collect();
        let (low, high) = regrets.iter().fold((f64::MAX, f64::MIN), |(low, high), &at| (low.min(at), high.max(at)));
        println!(
            "| {name} | {:.2} s | {:+.0} % | {:+.1} % ({:+.1}..{:+.1}) | {:.1} s | {:.2} s | {:.3} | {:.2} % |",
            all.completion,
            (all.completion / peak.completion - 1.0) * 100.0,
            (all.completion / mean(oracle).completion - 1.0) * 100.0,
            low * 100.0,
            high * 100.0,
            all.completion_p99,
            all.ttft_p99,
            all.usd,
            all.failed * 100.0,
        );
    }
}

fn hedges(name: &str, seeds: u64, policy: Policy) {
    println!("\n### heavy tails: hedge and race, lanes by {name}\n");
    println!(
        "| mode | p99 TTFT | without over with | extra requests | mean completion | USD per 1,000 calls | against the ledger |"
    );
    println!("|---|---|---|---|---|---|---|");
    let base = RaceConfig { first_token_limit: Span::from_secs(120), ..RaceConfig::default() };
    let hedge = RaceConfig { mode: Mode::Hedge, ..base.clone() };
    let race = RaceConfig { mode: Mode::Race { lanes: 2 }, ..base.clone() };
    let first_race = RaceConfig { win: WinRule::FirstToken, ..race.clone() };
    let first_hedge = RaceConfig { win: WinRule::FirstToken, ..hedge.clone() };
    let budget = Some(BudgetConfig::default());
    let modes = [
        ("off", base, None),
        ("hedge, 10 % budget", hedge, budget),
        ("hedge, first token wins", first_hedge, budget),
        ("race of 2, no budget", race, None),
        ("race of 2, first token wins", first_race, None),
    ];
    let mut without = None;
    for (name, race, budget) in modes {
        let measure = |seed| {
            let measured = Span::from_secs(600);
            let workload = Workload { calls_per_second: 20.0, measured, ..Workload::default() };
            let lanes = FleetLane::heavy_tailed(seed);
            let scenario = FleetScenario::of(seed, lanes, workload, LaneSelector::Router(policy));
            Summary::of(&run_fleet(&FleetScenario { race: race.clone(), budget, ..scenario }))
        };
        let all = mean(&(1..=seeds).map(measure).collect::<Vec<Summary>>());
        let off = *without.get_or_insert(all.ttft_p99);
        println!(
            "| {name} | {:.2} s | {:.2} | {:.1} % | {:.2} s | {:.3} | {:+.2} % |",
            all.ttft_p99,
            off / all.ttft_p99,
            all.extra * 100.0,
            all.completion,
            all.usd,
            (all.usd / all.ledger - 1.0) * 100.0,
        );
    }
}

/// Races of all lanes of unlike fleets beside the lane that is best alone, by its mean. The rules were made while looking at fleets 1 to 40.
fn races(fleets: RangeInclusive<u64>) {
    println!(
        "\n### {} fleets of unlike lanes: a race of all lanes beside the best lane alone\n",
        fleets.clone().count()
    );
    println!(
        "| rule | median: worst fleet | middle fleet | over 2 % slower | p99: worst fleet | middle fleet | over 2 % slower | TTFT p50, middle fleet | requests a call |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let alone: Vec<(f64, f64)> = fleets.clone().map(best_alone).collect();
    let rules = [
        ("first token", WinRule::FirstToken),
        ("completion, hold 0.05", WinRule::Completion { hold: 0.05 }),
        ("completion, hold 0.2 (default)", WinRule::Completion { hold: WinRule::DEFAULT_HOLD }),
        ("completion, hold 0.5", WinRule::Completion { hold: 0.5 }),
    ];
    for (name, win) in rules {
        let raced: Vec<Summary> = fleets
            .clone()
            .map(|seed| {
                let lanes = FleetLane::unlike(seed);
                let race = RaceConfig { mode: Mode::Race { lanes: lanes.len() }, win, ..RaceConfig::default() };
                unlike(seed, lanes, race)
            })
            .collect();
        let quotients = |of: fn(&Summary) -> f64, best: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> =
                raced.iter().zip(&alone).map(|(race, alone)| of(race) / best(alone) - 1.0).collect();
            all.sort_by(f64::total_cmp);
            let over = all.iter().filter(|quotient| **quotient > 0.02).count();
            format!("{:+.1} % | {:+.1} % | {over}", all[all.len() - 1] * 100.0, all[all.len() / 2] * 100.0)
        };
        let mut ttft: Vec<f64> = raced.iter().map(|race| race.ttft_p50).collect();
        ttft.sort_by(f64::total_cmp);
        println!(
            "| {name} | {} | {} | {:.2} s | {:.2} |",
            quotients(|race| race.completion_p50, |alone| alone.0),
            quotients(|race| race.completion_p99, |alone| alone.1),
            ttft[ttft.len() / 2],
            1.0 + mean(&raced).extra,
        );
    }
}

/// Median and 99th percentile of completion (seconds) of the lane that has the least mean, alone.
fn best_alone(seed: u64) -> (f64, f64) {
    let one = |lane: FleetLane| unlike(seed, vec![lane], RaceConfig::default());
    let summaries = FleetLane::unlike(seed).into_iter().map(one);
    let best = summaries
        .min_by(|one, other| one.completion_mean.total_cmp(&other.completion_mean))
        .expect("a fleet has lanes");
    (best.completion_p50, best.completion_p99)
}

/// Ten thousand calls to lanes that are far from busy.
fn unlike(seed: u64, lanes: Vec<FleetLane>, race: RaceConfig) -> Summary {
    let measured = Span::from_secs(20_000);
    let workload = Workload { calls_per_second: 0.5, measured, warmup: Span::from_secs(200), ..Workload::default() };
    let race = RaceConfig { first_token_limit: Span::from_secs(120), ..race };
    let scenario = FleetScenario::of(seed, lanes, workload, LaneSelector::Router(Policy::Completion));
    Summary::of(&run_fleet(&FleetScenario { race, ..scenario }))
}
