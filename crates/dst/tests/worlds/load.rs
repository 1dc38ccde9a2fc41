//! Loops keep their promises whatever the server does, and the gate stays silent.

use tokrate_bench::plan::{Arrivals, Extent, Load};
use tokrate_core::{RequestsPerSecond, Rng, Span};
use tokrate_dst::scenarios::STARTED_AT;
use tokrate_dst::{History, LinkLaw, Scenario, checkers, run};
use tokrate_sim::Law;

fn hold(scenario: &Scenario) -> History {
    let history = run(scenario);
    assert_eq!(checkers::check(scenario, &history), Vec::<String>::new());
    history
}

fn due_ticks(history: &History) -> Vec<u64> {
    history.exchanges.iter().map(|exchange| (exchange.started_at - STARTED_AT).as_nanos()).collect()
}

#[test]
fn an_open_loop_sends_when_due_whatever_happens() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let calm = Scenario::plain(60).open(30.0, arrivals, u32::MAX);
        let slow = Law { slots: 1, base_delay: Span::from_secs(3), ..Law::default() };
        let worlds = [
            calm.clone(),
            calm.clone().with_faults(&["stall"]),
            calm.clone().with_faults(&["disconnect=0.5", "server_error=0.5"]),
            Scenario { law: slow, ..calm.clone() },
            Scenario {
                link: LinkLaw { stall: 0.5, stall_for: Span::from_secs(5), ..LinkLaw::ideal() },
                ..calm.clone()
            },
            Scenario { link: LinkLaw { refused: 1.0, ..LinkLaw::ideal() }, ..calm.clone() },
            Scenario { workers: 4, ..calm.clone() },
        ];
        let (mut rng, mean) =
            (Rng::root(1).child("arrivals"), RequestsPerSecond::new(30.0).unwrap().interval().unwrap());
        let gap = |_| if arrivals == Arrivals::Constant { mean } else { rng.exponential(mean) };
        let gaps: Vec<u64> = (0..59).map(gap).map(Span::as_nanos).collect();
        let schedule: Vec<u64> = std::iter::once(0)
            .chain(gaps.iter().scan(0, |due, gap| {
                *due += gap;
                Some(*due)
            }))
            .collect();
        for (number, world) in worlds.iter().enumerate() {
            assert_eq!(due_ticks(&hold(world)), schedule, "world {number}, {arrivals:?}");
        }
    }
}

#[test]
fn arrivals_above_the_limit_are_forfeited_and_counted() {
    let scenario = Scenario::plain(50).open(100.0, Arrivals::Constant, 7).with_faults(&["stall@3"]);
    let history = hold(&scenario);
    // Nobody ends within the half second that the arrivals take.
    assert_eq!((history.exchanges.len(), history.forfeited), (7, 43));
    let (_, result) = checkers::summarize(&scenario, &history);
    assert_eq!((result.counts.forfeited, result.adj_e2e.infinite), (43, 50), "forfeited and failed are +infinity");
}

#[test]
fn a_closed_loop_keeps_its_concurrency_and_never_exceeds_it() {
    for concurrency in [1, 3, 16] {
        let law = Law { slots: 4, gap_jitter: 0.3, ..Law::default() };
        let faults = ["disconnect=0.1", "rate_limited=0.1"];
        let link = LinkLaw::with_latency(Span::from_micros(700));
        let scenario = Scenario { law, link, ..Scenario::plain(80).closed(concurrency).with_faults(&faults) };
        let history = hold(&scenario);
        let (_, result) = checkers::summarize(&scenario, &history);
        assert_eq!(result.concurrency.peak, concurrency);
        assert!(history.running_peak <= 4);
    }
}

#[test]
fn workers_that_share_a_plan_cover_it_completely() {
    for workers in 1..=5 {
        let scenario = Scenario { workers, ..Scenario::plain(53).closed(10) };
        let history = hold(&scenario);
        let mut indices: Vec<u64> = history.exchanges.iter().map(|exchange| exchange.start.index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..53).collect::<Vec<u64>>(), "{workers} workers");
    }
}

#[test]
fn a_phase_ends_after_its_duration() {
    let mut scenario = Scenario::plain(0).closed(6);
    scenario.spec.extent = Extent::Duration(Span::from_secs(4));
    let history = hold(&scenario);
    assert!(due_ticks(&history).iter().all(|&due| due < 4_000_000_000));
    assert!((history.ended_at - STARTED_AT) > Span::from_secs(4), "those in flight still end");
    assert!(matches!(scenario.spec.load, Load::Closed { concurrency: 6 }));
}

#[test]
fn an_interrupted_run_cancels_requests_in_flight_and_starts_no_more() {
    let stop_at = STARTED_AT + Span::from_millis(900);
    let scenario = Scenario { stop_at: Some(stop_at), ..Scenario::plain(1_000).closed(5) };
    let history = hold(&scenario);
    let (_, result) = checkers::summarize(&scenario, &history);
    assert_eq!(result.counts.cancelled, 5);
    assert!(history.exchanges.iter().all(|exchange| exchange.trace.timing.ended_at <= stop_at));
}

#[test]
fn the_gate_is_silent_where_no_time_passes_at_all() {
    for faults in [&[][..], &["rate_limited=0.5"], &["rate_limited"], &["empty=0.5", "disconnect=0.5"]] {
        for law in [Law::unlimited(), Law::default()] {
            let scenario = Scenario { law, ..Scenario::plain(30).closed(4).with_faults(faults) };
            hold(&scenario);
            hold(&scenario.clone().open(50.0, Arrivals::Constant, 4));
        }
    }
}
