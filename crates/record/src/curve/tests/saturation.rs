//! The signs of saturation, each on both sides of its limit.

use super::super::saturation::signs;
use super::*;

/// Load, throughput, median TTFT.
fn levels(numbers: &[(f64, f64, f64)]) -> Vec<LoadLevel> {
    let each = numbers.iter();
    each.map(|&(load, throughput, ttft)| LoadLevel { ttft: Some(Measured::plain(ttft)), ..level(load, throughput) })
        .collect()
}

fn sign(kind: SignKind, from: f64, seen: f64, limit: f64) -> Vec<SaturationSign> {
    vec![SaturationSign { kind, from, seen, limit }]
}

#[test]
fn a_unit_of_load_no_longer_pays_below_a_tenth_of_the_first() {
    let of = |points: &[(f64, f64)]| {
        signs(&points.iter().map(|&(load, throughput)| level(load, throughput)).collect::<Vec<_>>())
    };
    let marginal = |from, seen| sign(SignKind::MarginalThroughput, from, seen, 0.1);
    // 100 a unit at first, and then 10 and 9.
    assert_eq!(of(&[(2.0, 200.0), (4.0, 400.0), (8.0, 440.0)]), []);
    assert_eq!(of(&[(2.0, 200.0), (4.0, 400.0), (8.0, 436.0)]), marginal(4.0, 0.09));
    assert_eq!(of(&[(2.0, 200.0), (4.0, 204.0), (8.0, 604.0), (16.0, 604.0)]), marginal(8.0, 0.0));
    // Levels of the same load say nothing of what more load adds.
    assert_eq!(of(&[(2.0, 200.0), (4.0, 204.0), (4.0, 208.0), (8.0, 210.0)]), marginal(2.0, 0.02));
    assert_eq!(of(&[(2.0, 0.0), (4.0, 0.0), (8.0, 100.0)]), []);
    assert_eq!(of(&[(2.0, 200.0)]), []);
    assert_eq!(of(&[]), []);
    // A level without throughput is passed over.
    let mut gap = levels(&[(2.0, 200.0, 100.0), (4.0, 400.0, 100.0), (8.0, 436.0, 100.0)]);
    gap[1].throughput = None;
    assert_eq!(signs(&gap), []);
}

#[test]
fn requests_queue_where_ttft_grows_by_a_quarter_while_throughput_is_flat() {
    let queueing = |numbers: &[(f64, f64, f64)]| {
        let found = signs(&levels(numbers)).into_iter().filter(|sign| sign.kind == SignKind::Queueing);
        found.collect::<Vec<_>>()
    };
    let sign = |from, seen| sign(SignKind::Queueing, from, seen, 0.25);
    assert_eq!(queueing(&[(2.0, 100.0, 100.0), (4.0, 104.0, 125.0)]), sign(2.0, 0.25));
    assert_eq!(queueing(&[(2.0, 100.0, 100.0), (4.0, 104.0, 124.0)]), []);
    assert_eq!(queueing(&[(2.0, 100.0, 100.0), (4.0, 106.0, 125.0)]), []);
    assert_eq!(queueing(&[(2.0, 100.0, 100.0), (2.0, 100.0, 200.0)]), []);
    // Growth from nothing is no number; what comes later is seen.
    assert_eq!(queueing(&[(2.0, 100.0, 0.0), (4.0, 100.0, 100.0), (8.0, 100.0, 150.0)]), sign(4.0, 0.5));
    assert_eq!(queueing(&[(2.0, 0.0, 100.0), (4.0, 0.0, 200.0), (8.0, 100.0, 200.0)]), []);
}

#[test]
fn refusals_and_failures_count_from_five_and_a_twentieth_above_the_first_level() {
    // Requests, those that are lost.
    type Expected = Option<(f64, f64, f64)>;
    let table: [(&[(u64, u64)], Expected); 9] = [
        (&[(100, 0), (100, 5)], Some((1.0, 0.05, 0.05))),
        (&[(100, 0), (200, 9)], None),
        (&[(100, 0), (40, 4)], None),
        (&[(100, 0), (40, 5)], Some((1.0, 0.125, 0.05))),
        (&[(100, 25), (100, 30)], Some((1.0, 0.3, 0.3))),
        (&[(100, 25), (100, 29)], None),
        (&[(100, 0), (100, 0), (100, 50), (100, 60)], Some((2.0, 0.5, 0.05))),
        (&[(100, 0), (0, 9), (100, 50)], Some((2.0, 0.5, 0.05))),
        (&[(0, 0), (100, 50)], None),
    ];
    for (numbers, expected) in table {
        for kind in [SignKind::RateLimited, SignKind::Failures] {
            let levels = numbers.iter().zip(DOUBLING).map(|(&(requests, lost), load)| {
                let (failures, rate_limited) = if kind == SignKind::Failures { (lost, 0) } else { (0, lost) };
                LoadLevel { requests, failures, rate_limited, ..level(load, 80.0 * load) }
            });
            let expected = expected.map_or(vec![], |(from, seen, limit)| sign(kind, from, seen, limit));
            assert_eq!(signs(&levels.collect::<Vec<_>>()), expected, "{numbers:?}");
        }
    }
}
