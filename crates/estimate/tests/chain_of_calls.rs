//! A chain of 24 calls, run by an agent among other users of a simulated fleet, against what is drawn for it beforehand.
//!
//! The fleet runs in virtual time through the scheduler; the estimate knows only single calls, drawn independently.

use std::collections::HashMap;
use tokrate_core::{Rng, Tick};
use tokrate_engine::Request;
use tokrate_estimate::chain::{Chain, Plan, Speed, Step, Times, draw};
use tokrate_estimate::serving::{Serving, Tuning};
use tokrate_estimate::traffic::{Arrivals, Lengths, quantile, run};
use tokrate_estimate::{Asked, Estimator};

const CALLS: u32 = 24;
const USERS: u32 = 12;
const RUNS: usize = 120;
const LENGTHS: Lengths = Lengths { isl: 900, osl: 80, shared: 0, variation: 0.2 };

fn fleet() -> Serving {
    let asked = Asked {
        model: "llama-3.1-8b".to_owned(),
        hardware: "h100-sxm".to_owned(),
        n_gpus: Some(2.0),
        tp: Some(1.0),
        engine: Some("vllm".to_owned()),
        weight_precision: Some("fp8".to_owned()),
        ..Asked::default()
    };
    Serving::new(&Estimator::embedded(), &asked, &Tuning::default()).expect("in the tables")
}

/// Seconds of each run of the chain, made by the last user while the others ask one request after another.
fn runs_of_an_agent(serving: &Serving) -> Vec<f64> {
    let mut cluster = serving.cluster(1.0).expect("can run");
    let mut rng = Rng::root(7).child("fleet");
    let mut open: HashMap<u64, u32> = HashMap::new();
    let (mut due, mut emitted) = ((0..=USERS).map(|user| (Tick::ZERO, user)).collect::<Vec<_>>(), Vec::new());
    let (mut submitted, mut made, mut begun, mut seconds) = (0, 0, Tick::ZERO, Vec::new());
    let mut now = Tick::ZERO;
    while seconds.len() < RUNS {
        for (_, user) in due.drain(..) {
            let mut drawn = |mean: u32| (f64::from(mean) * rng.log_normal(LENGTHS.variation)).round().max(1.0) as u32;
            let (isl, osl) = match user {
                USERS => (LENGTHS.isl, LENGTHS.osl),
                _ => (drawn(LENGTHS.isl), drawn(LENGTHS.osl)),
            };
            cluster.submit(&Request::unique(submitted, isl, osl)).expect("fits");
            open.insert(submitted, user);
            submitted += 1;
        }
        cluster.poll_to(now, Tick::MAX, &mut emitted);
        if emitted.is_empty() {
            now = cluster.wake_at().expect("somebody always asks");
            cluster.poll_to(now, Tick::MAX, &mut emitted);
        }
        for (at, emission) in emitted.drain(..).filter(|(_, emission)| emission.last) {
            let user = open.remove(&emission.id).expect("it was sent");
            if user == USERS {
                made += 1;
                if made % CALLS == 0 {
                    seconds.push(at.since(begun).as_secs_f64());
                    begun = at;
                }
            }
            due.push((at, user));
        }
    }
    // The first run has the burst of all beginning at once in it.
    let mut seconds = seconds.split_off(1);
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[test]
fn an_estimated_chain_takes_as_long_as_one_run_against_the_fleet() {
    let serving = fleet();
    let samples = run(&serving, &LENGTHS, Arrivals::Users { users: USERS + 1, think: 0.0 }, 1.0).expect("can run");
    let step = Step {
        name: "call".to_owned(),
        role: Some("reason".to_owned()),
        after: Vec::new(),
        input: f64::from(LENGTHS.isl),
        cached: 0.0,
        grows: 0.0,
        output: f64::from(LENGTHS.osl),
        tool: None,
        repeat: CALLS,
        fan_out: 1,
        race: 1,
        again: (0.0, 0),
    };
    let speed = Speed {
        name: "own".to_owned(),
        times: vec![Times::Drawn { ttft: samples.ttft, tpot: samples.tpot }],
        price: None,
        is_free: true,
        failures: 0.0,
    };
    let chain = Chain { name: "agent".to_owned(), steps: vec![step] };
    let plan = Plan { name: "own".to_owned(), speeds: vec![Some(speed)] };
    let estimated = draw(&chain, &plan).expect("can run").seconds;
    let seen = runs_of_an_agent(&serving);
    for (share, most) in [(0.5, 0.05), (0.95, 0.10)] {
        let (estimate, truth) = (quantile(&estimated, share), quantile(&seen, share));
        let off = estimate / truth - 1.0;
        assert!(off.abs() < most, "p{:.0}: {estimate:.3} s estimated, {truth:.3} s seen", share * 100.0);
    }
}
