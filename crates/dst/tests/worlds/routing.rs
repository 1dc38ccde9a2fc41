//! The bars of routing and hedging, small: kept seeds of the tables in docs/routing.md, which `cargo xtask bench routing` makes.

use tokrate_core::Span;
use tokrate_dst::fleet::{
    FleetLane, FleetScenario, LaneSelector, Summary, Workload, knee_of, knee_throughput, run_fleet,
};
use tokrate_route::{BudgetConfig, Mode, Policy};

fn measure(seed: u64, load: f64, selector: LaneSelector) -> Summary {
    let lanes = FleetLane::random(seed);
    let workload = Workload { warmup: Span::from_secs(40), measured: Span::from_secs(40), ..Workload::default() };
    let calls_per_second = load * knee_throughput(&lanes, &workload);
    Summary::of(&run_fleet(&FleetScenario::of(seed, lanes, Workload { calls_per_second, ..workload }, selector)))
}

#[test]
fn completion_routing_is_a_quarter_below_peak_ewma_and_no_worse_than_a_greedy_oracle() {
    let (mut curves, mut peak, mut oracle) = (0.0, 0.0, 0.0);
    for seed in 1..=3 {
        curves += measure(seed, 0.5, LaneSelector::Router(Policy::Completion)).completion_mean;
        peak += measure(seed, 0.5, LaneSelector::Router(Policy::PeakEwma)).completion_mean;
        oracle += measure(seed, 0.5, LaneSelector::Oracle).completion_mean;
    }
    assert!(curves < 0.75 * peak, "{:.3} of peak-EWMA", curves / peak);
    assert!(curves < 1.1 * oracle, "{:.3} of the oracle", curves / oracle);
}

#[test]
fn hedging_cuts_the_tail_within_budget_at_the_engines_cost() {
    let summary = |mode: Mode| {
        let workload = Workload { calls_per_second: 20.0, ..Workload::default() };
        let mut scenario =
            FleetScenario::of(1, FleetLane::heavy_tailed(1), workload, LaneSelector::Router(Policy::Completion));
        scenario.race.mode = mode;
        scenario.budget = Some(BudgetConfig::default());
        Summary::of(&run_fleet(&scenario))
    };
    let (without, with) = (summary(Mode::Off), summary(Mode::Hedge));
    assert!(with.ttft_p99 * 1.6 < without.ttft_p99, "{:.3} of {:.3} s", with.ttft_p99, without.ttft_p99);
    assert!(with.extra_share <= 0.1 + 1e-9 && without.extra_share == 0.0, "{}", with.extra_share);
    let off = with.usd_per_thousand / with.ledger_usd_per_thousand - 1.0;
    assert!(off.abs() < 0.01, "{off:+.4} against the ledger");
}

#[test]
fn knees_follow_from_the_laws() {
    let knees: Vec<(String, u32)> =
        FleetLane::published().iter().map(|lane| (lane.persona.name.clone(), knee_of(&lane.persona))).collect();
    let shown: Vec<String> = knees.iter().map(|(name, knee)| format!("{name} {knee}")).collect();
    assert_eq!(shown, ["swift 50", "steady 19", "crowded 8", "regressing 19", "daily 19", "desk 2"]);
}
