//! Measures the choice of lanes by their prompt caches on simulated engines and prints the tables of docs/routing.md, worst first:
//! `cargo run --release -p tokrate-dst --example caching [SEEDS [FIRST_SEED [unlike|like [WORKLOAD@PERCENT,..]]]]`.

#![allow(clippy::print_stdout)]

use std::ops::Range;
use tokrate_core::Span;
use tokrate_dst::caching::{
    CacheEngine, CacheScenario, CacheSelector, CacheSummary, CacheWorkload, SessionKind, knee_sessions, run_caches,
};
use tokrate_route::Policy;

/// The objective was made while looking at seeds 1 to 4, and earlier versions of it were measured on 101, 102, 201 and 202.
const FIRST_SEED: u64 = 601;
/// Most of what is spent that hedges may add.
const HEDGE_SHARE: f64 = 0.03;

const SELECTORS: [(&str, CacheSelector, Option<f64>); 8] = [
    ("cache", CacheSelector::Router(Policy::Cache), None),
    ("cache, hedges up to 3 % of the spend", CacheSelector::Router(Policy::Cache), Some(HEDGE_SHARE)),
    ("peak-EWMA, power of two", CacheSelector::Router(Policy::PeakEwma), None),
    ("session stickiness", CacheSelector::Sticky, None),
    ("LMETRIC, as a gateway sees", CacheSelector::Lmetric { told: false, with_queue: false }, None),
    ("LMETRIC with queue, as a gateway sees", CacheSelector::Lmetric { told: false, with_queue: true }, None),
    ("LMETRIC with queue, told by the engines", CacheSelector::Lmetric { told: true, with_queue: true }, None),
    ("oracle", CacheSelector::Oracle, None),
];

/// A kind of engines, and those of a seed.
type Fleet = (&'static str, fn(u64) -> Vec<CacheEngine>);

/// What was measured of one fleet, workload and load.
struct Case {
    title: String,
    found: Vec<(&'static str, CacheSummary, (f64, f64))>,
}

fn main() {
    let argument = |place: usize| std::env::args().nth(place);
    let seeds: u64 = argument(1).and_then(|seeds| seeds.parse().ok()).unwrap_or(3);
    let first = argument(2).and_then(|first| first.parse().ok()).unwrap_or(FIRST_SEED);
    let only = argument(3);
    let of = CacheWorkload::of;
    let cases = [
        ("conversations", of(SessionKind::Conversation), 80),
        ("agents", of(SessionKind::Agent), 80),
        ("shared system prompts", of(SessionKind::SharedPrompt), 80),
        ("all three", CacheWorkload::mixed(), 80),
        ("documents", of(SessionKind::Document), 80),
        ("fan-outs", of(SessionKind::FanOut), 80),
        ("retrieval", of(SessionKind::Retrieval), 80),
        ("growing tools", of(SessionKind::GrowingTools), 80),
        ("all three", CacheWorkload::mixed(), 50),
        ("all three", CacheWorkload::mixed(), 95),
    ];
    let chosen = argument(4);
    let is_chosen = |name: &str, percent: u32| {
        chosen.as_deref().is_none_or(|chosen| chosen.split(',').any(|one| one == format!("{name}@{percent}")))
    };
    let fleets: [Fleet; 2] = [("unlike", CacheEngine::unlike), ("like", |_| CacheEngine::alike())];
    let mut all = Vec::new();
    for (kind, engines) in fleets.iter().filter(|(kind, _)| only.as_deref().is_none_or(|only| only == *kind)) {
        for (name, workload, percent) in cases.iter().filter(|(name, _, percent)| is_chosen(name, *percent)) {
            let title = format!("{kind} engines, {name}, {percent} % of the knee");
            all.push(measure(title, first..first + seeds, f64::from(*percent) / 100.0, *engines, workload));
        }
    }
    all.sort_by(|one, other| other.to_lmetric().total_cmp(&one.to_lmetric()));
    println!(
        "\n| fleet, workload, load | mean TTFT | to peak-EWMA | to the best LMETRIC | to the best LMETRIC as a gateway sees | p99 | to the oracle's p99 | cost to peak-EWMA |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    all.iter().for_each(Case::print_line);
    all.iter().for_each(Case::print_table);
}

fn measure(
    title: String,
    seeds: Range<u64>,
    load: f64,
    engines: fn(u64) -> Vec<CacheEngine>,
    workload: &CacheWorkload,
) -> Case {
    let run = |selector: CacheSelector, hedge_share: Option<f64>, seed: u64| {
        let engines = engines(seed);
        run_caches(&CacheScenario {
            seed,
            sessions_per_second: load * knee_sessions(&engines, workload),
            engines,
            workload: workload.clone(),
            selector,
            hedge_share,
            warmup: Span::from_secs(240),
            measured: Span::from_secs(240),
            restart: None,
        })
    };
    let found = SELECTORS.iter().map(|(name, selector, hedge_share)| {
        let all: Vec<CacheSummary> = seeds.clone().map(|seed| run(*selector, *hedge_share, seed)).collect();
        let means = all.iter().map(|one| one.ttft_mean);
        let range = means.fold((f64::MAX, 0.0_f64), |(low, high), mean| (low.min(mean), high.max(mean)));
        (*name, CacheSummary::mean(&all), range)
    });
    Case { title, found: found.collect() }
}

impl Case {
    fn of(&self, name: &str) -> &CacheSummary {
        let found = self.found.iter().find(|(known, ..)| *known == name);
        &found.expect("every selector was measured").1
    }

    /// Our mean over the least of the LMETRICs whose names end so.
    fn to_lmetric_of(&self, end: &str) -> f64 {
        let all = self.found.iter().filter(|(name, ..)| name.starts_with("LMETRIC") && name.ends_with(end));
        self.of("cache").ttft_mean / all.map(|(_, one, _)| one.ttft_mean).fold(f64::MAX, f64::min)
    }

    fn to_lmetric(&self) -> f64 {
        self.to_lmetric_of("")
    }

    fn print_line(&self) {
        let (ours, peak) = (self.of("cache"), self.of("peak-EWMA, power of two"));
        let percent = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
        println!(
            "| {} | {:.3} s | {} | {} | {} | {:.2} s | {} | {} |",
            self.title,
            ours.ttft_mean,
            percent(ours.ttft_mean / peak.ttft_mean),
            percent(self.to_lmetric()),
            percent(self.to_lmetric_of("sees")),
            ours.ttft_p99,
            percent(ours.ttft_p99 / self.of("oracle").ttft_p99),
            percent(ours.usd_per_thousand / peak.usd_per_thousand),
        );
    }

    fn print_table(&self) {
        println!("\n### {}\n", self.title);
        println!(
            "| who chooses | mean TTFT (min..max of seeds) | p50 | p99 | mean completion | prompt cached | USD per 1,000 calls | of it hedges |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for (name, mean, (low, high)) in &self.found {
            println!(
                "| {name} | {:.3} s ({low:.3}..{high:.3}) | {:.3} s | {:.2} s | {:.2} s | {:.1} % | {:.3} | {:.1} % |",
                mean.ttft_mean,
                mean.ttft_p50,
                mean.ttft_p99,
                mean.completion_mean,
                mean.cached_share * 100.0,
                mean.usd_per_thousand,
                mean.hedge_share * 100.0,
            );
        }
    }
}
