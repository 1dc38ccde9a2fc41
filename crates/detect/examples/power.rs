//! False alarms and power of the level detector on synthetic days.
#![allow(clippy::print_stdout, missing_docs)]

use tokrate_core::Rng;
use tokrate_detect::{FalseAlarms, LevelDetector, Look, Point, Way};

const HOUR: i64 = 3_600_000;

struct World {
    spread: f64,
    drop: f64,
    at: i64,
    extra: bool,
}

fn run(world: &World, seed: u64, days: i64) -> (usize, Option<i64>, usize, usize) {
    let mut rng = Rng::root(seed).child("w");
    let mut detector = LevelDetector::new(Way::Down, FalseAlarms::default());
    let (mut alarms, mut found, mut suspects, mut better) = (0, None, 0, 0);
    let phase = rng.unit() * 24.0;
    let value = |at: i64, rng: &mut Rng| {
        let hour = (at as f64 / HOUR as f64) % 24.0;
        let cycle = 1.0 + 0.3 * ((hour - phase) / 24.0 * std::f64::consts::TAU).cos();
        let mut v = 100.0 * cycle * (world.spread * rng.normal()).exp();
        if rng.chance(0.03) { v *= if rng.chance(0.5) { 0.2 } else { 3.0 } }
        if at >= world.at { v *= 1.0 - world.drop }
        v
    };
    for slot in 0..days * 8 {
        let at = slot * 3 * HOUR + (rng.unit() * 3.0 * HOUR as f64) as i64;
        let mut todo = vec![at];
        let mut k = 0;
        let mut extra_done = false;
        while k < todo.len() {
            let at = todo[k];
            k += 1;
            let v = value(at, &mut rng);
            match detector.push(Point::new(at, v).unwrap()) {
                Look::Usual => {}
                Look::Suspect(Way::Down) => {
                    suspects += 1;
                    if world.extra && !extra_done {
                        extra_done = true;
                        for i in 1..=8 { todo.push(at + i * HOUR / 9) }
                    }
                }
                Look::Suspect(Way::Up) => {}
                Look::Shifted(shift) => {
                    if shift.way == Way::Up { better += 1; continue }
                    if at < world.at { alarms += 1 } else if found.is_none() { found = Some(at - world.at) }
                }
            }
        }
    }
    (alarms, found, suspects, better)
}

fn main() {
    let n = 400;
    for spread in [0.1, 0.15, 0.2, 0.25, 0.3] {
        let w = World { spread, drop: 0.0, at: i64::MAX, extra: false };
        let (mut alarms, mut suspects, mut better) = (0, 0, 0);
        for seed in 0..n { let (a, _, s, b) = run(&w, seed, 60); alarms += a; suspects += s; better += b }
        println!("spread {spread}: false worse/30d {:.3} better {:.3} suspects {:.1}", alarms as f64 / n as f64 / 2.0, better as f64 / n as f64 / 2.0, suspects as f64 / n as f64 / 2.0);
    }
    for (spread, drop, within) in [(0.15, 0.2, 72), (0.3, 0.2, 72), (0.15, 0.1, 96)] {
        for extra in [false, true] {
            let mut delays = vec![];
            for seed in 0..n {
                let at = 30 * 24 * HOUR + (seed as i64 * 7919 % 24) * HOUR;
                let (_, found, _, _) = run(&World { spread, drop, at, extra }, 1000 + seed, 45);
                delays.push(found.unwrap_or(i64::MAX));
            }
            delays.sort();
            let hit = delays.iter().filter(|d| **d <= within * HOUR).count();
            println!("spread {spread} drop {drop} extra {extra}: within {within} h {:.1} %, median {:.1} h", hit as f64 / n as f64 * 100.0, delays[n as usize / 2] as f64 / HOUR as f64);
        }
    }
}
