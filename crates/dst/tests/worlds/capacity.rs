//! Sweeps over engines whose capacity is known. The table of docs/method.md is made by `examples/capacity.rs`.

use tokrate_dst::capacity::{Kind, Sweep, Verdict};
use tokrate_record::curve::FigureStatus;

#[test]
fn the_capacity_of_a_small_engine_is_found() {
    // Small ones, one of each kind, so that this ends soon.
    let small = |kind: Kind| {
        let drawn = (0..10_000).map(Sweep::random);
        drawn.filter(|sweep| sweep.kind == kind && (4..=6).contains(&sweep.scenario.law.slots)).nth(1)
    };
    let mut found = 0;
    for sweep in Kind::ALL.into_iter().filter_map(small) {
        let (truth, curve) = (sweep.truth(), sweep.run());
        let capacity = &curve.capacity;
        let stated =
            [(&capacity.slows, truth.slows), (&capacity.nearly_all, truth.nearly_all), (&capacity.waits, truth.waits)];
        for (figure, truth) in stated {
            let verdict = Sweep::verdict(&curve, figure, truth);
            let shown = format!("{:?}, seed {}: {truth} is said to be {figure:?}", sweep.kind, sweep.scenario.seed);
            assert!(!matches!(verdict, Verdict::Wrong | Verdict::Excludes), "{shown}");
            found += usize::from(figure.status == FigureStatus::Found);
        }
    }
    assert!(found >= 10, "{found} of 21 were found");
}

#[test]
fn the_truth_of_an_engine_without_contention_is_its_slots() {
    let hard = (0..).map(Sweep::random).find(|sweep| sweep.kind == Kind::Hard).expect("every seventh is");
    let (truth, slots) = (hard.truth(), f64::from(hard.scenario.law.slots));
    assert_eq!(truth.waits, slots);
    assert!((truth.slows / slots - 1.0).abs() < 0.01 && (truth.nearly_all / slots - 0.9).abs() < 0.01, "{truth:?}");
}
