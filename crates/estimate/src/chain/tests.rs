//! Chains whose times and costs can be worked out by hand, and chains that cannot be.

use super::*;
use crate::traffic::quantile;

fn step(name: &str, after: &[usize], output: f64) -> Step {
    Step {
        name: name.to_owned(),
        role: Some("reason".to_owned()),
        after: after.to_vec(),
        input: 1000.0,
        cached: 0.0,
        grows: 0.0,
        output,
        tool: None,
        repeat: 1,
        fan_out: 1,
        race: 1,
        again: (0.0, 0),
    }
}

/// A second to the first token, a hundred tokens/s, a dollar a million tokens either way.
fn steady() -> Speed {
    let one = |median| Spread { median, slow: median };
    Speed {
        name: "steady".to_owned(),
        times: vec![Times::Stated { ttft: one(1.0), prefill: None, speed: one(100.0) }],
        price: Some(ApiPrice { input: 1.0, output: 1.0, cached: 0.1 }),
        is_free: false,
        failures: 0.0,
    }
}

fn outcome(steps: Vec<Step>, speed: &Speed) -> Outcome {
    let plan = Plan { name: "all".to_owned(), speeds: steps.iter().map(|_| Some(speed.clone())).collect() };
    draw(&Chain { name: "a chain".to_owned(), steps }, &plan).expect("can run")
}

#[test]
fn steady_calls_add_up_as_by_hand() {
    // 1 + 100/100 s; then two side by side of 2 and 3 s; then 2 s more.
    let steps = vec![step("a", &[], 101.0), step("b", &[0], 101.0), step("c", &[0], 201.0), step("d", &[1, 2], 101.0)];
    let found = outcome(steps, &steady());
    assert!(found.seconds.iter().all(|seconds| (seconds - 7.0).abs() < 1e-9));
    let critical: Vec<bool> = found.median.bars.iter().map(|bar| bar.critical).collect();
    assert_eq!(critical, [true, false, true, true]);
    // 4 · 1,000 + 504 tokens.
    assert!((found.dollars.expect("known") - 4504e-6).abs() < 1e-12);
    assert_eq!(found.parts.map(|part| part.round()), [3.0, 4.0, 0.0]);
    // `c` at twice the speed takes 1.5 s, so that `b` counts with 2 s: one saved.
    assert!((found.saved_by_twice[2] - 1.0).abs() < 1e-9 && found.saved_by_twice[1].abs() < 1e-9);
}

#[test]
fn repetitions_grow_cache_and_tools_count() {
    let mut edit = step("edit", &[], 1.0);
    (edit.repeat, edit.grows, edit.tool) = (3, 100.0, Some(Spread { median: 2.0, slow: 2.0 }));
    let found = outcome(vec![edit], &steady());
    assert!((found.median.seconds - 9.0).abs() < 1e-9);
    // Prompts of 1,000, 1,100, 1,200 tokens; of the last 100 that grew before are cached; three answers of one.
    let expected = (3300.0 - 100.0 + 100.0 * 0.1 + 3.0) / 1e6;
    assert!((found.dollars.expect("known") - expected).abs() < 1e-12, "{:?}", found.dollars);
}

#[test]
fn percentiles_are_those_of_a_sum_and_not_sums_of_percentiles() {
    let mut many = step("many", &[], 1.0);
    many.repeat = 25;
    let mut speed = steady();
    let spread = Spread { median: 1.0, slow: 3.0 };
    speed.times = vec![Times::Stated { ttft: spread, prefill: None, speed: Spread { median: 100.0, slow: 100.0 } }];
    let found = outcome(vec![many], &speed);
    let sigma = 3.0_f64.ln() / 1.644_853_6;
    let mean = (sigma * sigma / 2.0).exp();
    let deviation = mean * ((sigma * sigma).exp() - 1.0).sqrt();
    let (p50, p95) = (quantile(&found.seconds, 0.5), quantile(&found.seconds, 0.95));
    // The sum of 25 is nearly normal, a little skewed.
    assert!((p50 / (25.0 * mean) - 1.0).abs() < 0.02, "{p50}");
    assert!((p95 / (25.0 * mean + 1.645 * 5.0 * deviation) - 1.0).abs() < 0.03, "{p95}");
    assert!(p95 < 25.0 * 3.0 * 0.7, "far from 25 times the p95");
}

#[test]
fn racing_lanes_are_sooner_and_paid_twice_and_fan_out_waits_for_the_slowest() {
    let mut speed = steady();
    let spread = Spread { median: 1.0, slow: 4.0 };
    speed.times = vec![Times::Stated { ttft: spread, prefill: None, speed: Spread { median: 100.0, slow: 100.0 } }];
    let with = |change: fn(&mut Step)| {
        let mut one = step("one", &[], 1.0);
        change(&mut one);
        outcome(vec![one], &speed)
    };
    let (plain, race, wide) = (with(|_| {}), with(|step| step.race = 2), with(|step| step.fan_out = 8));
    let p95 = |found: &Outcome| quantile(&found.seconds, 0.95);
    assert!(p95(&race) < p95(&plain) * 0.7 && p95(&wide) > p95(&plain) * 1.3);
    assert!((race.dollars.expect("known") / plain.dollars.expect("known") - 2.0).abs() < 1e-9);
    let again = with(|step| step.again = (0.5, 3));
    // 1 + 1/2 + 1/4 + 1/8 tries.
    assert!((again.calls - 1.875).abs() < 0.06, "{}", again.calls);
    let failing = Speed { failures: 0.2, ..steady() };
    let found = outcome(vec![step("one", &[], 101.0)], &failing);
    assert!((found.calls - 1.248).abs() < 0.03, "{}", found.calls);
}

#[test]
fn a_price_that_is_not_known_is_no_price() {
    let unknown = Speed { price: None, ..steady() };
    assert_eq!(outcome(vec![step("one", &[], 10.0)], &unknown).dollars, None);
    let free = Speed { price: None, is_free: true, ..steady() };
    assert_eq!(outcome(vec![step("one", &[], 10.0)], &free).dollars, Some(0.0));
}

#[test]
fn impossible_chains_are_refused() {
    let refused = |steps: Vec<Step>| Chain { name: String::new(), steps }.check().expect_err("refused");
    assert_eq!(
        refused(vec![step("a", &[2], 1.0), step("b", &[0], 1.0), step("c", &[1], 1.0)]),
        "a cycle: a, b, c wait for each other"
    );
    assert!(refused(Vec::new()).contains("no step"));
    let with = |change: fn(&mut Step)| {
        let mut one = step("one", &[], 1.0);
        change(&mut one);
        refused(vec![one])
    };
    assert!(with(|step| step.output = f64::NAN).contains("at least 0"));
    assert!(with(|step| step.cached = 2000.0).contains("2000 cached tokens"));
    assert!(with(|step| step.repeat = 0).contains("at least 1"));
    assert!(with(|step| step.again = (1.0, 3)).contains("never ends"));
    assert!(with(|step| step.role = None).contains("neither"));
    assert!(with(|step| step.repeat = 1_000_000).contains("at most"));
}
