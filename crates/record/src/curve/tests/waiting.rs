//! Where requests begin to wait, by hand on both sides of every limit.

use super::super::waiting::{max_power_load, waits};
use super::*;

/// A mean TTFT with its interval.
type Ttft = (f64, f64, f64);

fn timed(load: f64, (value, low, high): Ttft, e2e: f64) -> LoadLevel {
    let mean_ttft = Some(Measured { value, low: Some(low), high: Some(high) });
    LoadLevel { mean_ttft, mean_e2e: Some(Measured::plain(e2e)), ..level(load, 80.0 * load) }
}

/// The same without an interval.
fn plain(load: f64, ttft: f64, e2e: f64) -> LoadLevel {
    LoadLevel {
        mean_ttft: Some(Measured::plain(ttft)),
        mean_e2e: Some(Measured::plain(e2e)),
        ..level(load, 80.0 * load)
    }
}

#[track_caller]
fn assert_lies(figure: &LoadFigure, status: FigureStatus, load: Option<f64>, low: f64, high: f64) {
    let near =
        |found: Option<f64>, expected: f64| found.is_some_and(|found| (found - expected).abs() < 1e-12 * expected);
    assert_eq!((figure.status, figure.load.is_some()), (status, load.is_some()), "{figure:?}");
    assert!(load.is_none_or(|load| near(figure.load, load)), "{figure:?} for {load:?}");
    assert!(near(figure.low, low) && near(figure.high, high), "{figure:?} for {low} to {high}");
}

#[test]
fn without_times_or_with_answers_in_one_piece_nothing_is_known() {
    let reason = |levels: &[LoadLevel]| {
        let figure = waits(LoadAxis::Concurrency, levels);
        assert_eq!(figure.status, FigureStatus::Unknown, "{figure:?}");
        figure.reason
    };
    let untimed = [1.0, 2.0].map(|n| LoadLevel { mean_ttft: None, ..level(n, 80.0) });
    let at_once = [1.0, 2.0].map(|n| plain(n, 0.0, 0.0));
    for levels in [&untimed[..], &at_once[..], &[]] {
        assert_eq!(reason(levels), "no level has a time to first token");
    }
    assert_eq!(reason(&[plain(1.0, 100.0, 1_000.0)]), "a single level has nothing to be compared with");
    let whole = [plain(1.0, 98.0, 100.0), plain(2.0, 98.0, 100.0)];
    assert_eq!(reason(&whole), "answers arrived in one piece, so waiting cannot be separated from decoding");
    let nearly = [plain(1.0, 97.0, 100.0), plain(2.0, 97.0, 100.0)];
    assert_eq!(waits(LoadAxis::Concurrency, &nearly).status, FigureStatus::Above);
}

#[test]
fn a_level_waits_beyond_what_intervals_allow_and_is_quiet_within() {
    let base = (100.0, 95.0, 105.0);
    let of = |third: Ttft, fourth: Ttft| {
        waits(
            LoadAxis::Rate,
            &[timed(1.0, base, 1e3), timed(2.0, base, 1e3), timed(4.0, third, 1e3), timed(8.0, fourth, 1e3)],
        )
    };
    let late = (400.0, 390.0, 410.0);
    // 30 of 1,000 ms at least are no wait, 31 are one.
    let none = of(base, (200.0, 135.0, 300.0));
    assert_eq!(none.reason, "no request waits at the highest load, 8");
    assert_eq!((none.status, none.low, none.high), (FigureStatus::Above, None, None));
    assert_lies(&of(base, (200.0, 136.0, 300.0)), FigureStatus::Between, None, 4.0, 8.0);
    // 50 of 1,000 ms at most are quiet, 51 may be a wait.
    assert_lies(&of((100.0, 95.0, 145.0), late), FigureStatus::Between, None, 4.0, 8.0);
    assert_lies(&of((100.0, 95.0, 146.0), late), FigureStatus::Between, None, 2.0, 8.0);
    // Where none is quiet it may begin at the lowest.
    let wide = (100.0, 0.0, 200.0);
    let rates = [timed(1.0, wide, 1e3), timed(2.0, wide, 1e3), timed(4.0, late, 1e3)];
    assert_lies(&waits(LoadAxis::Rate, &rates), FigureStatus::Between, None, 1.0, 4.0);
    // The middle of two rates that are close is stated.
    let rates = [plain(8.0, 100.0, 1e3), plain(9.0, 100.0, 1e3), plain(10.0, 400.0, 1e3)];
    assert_lies(&waits(LoadAxis::Rate, &rates), FigureStatus::Found, Some(9.5), 9.0, 10.0);
}

#[test]
fn what_runs_at_the_levels_that_wait_is_how_many_run_at_all() {
    let before = [plain(1.0, 100.0, 1e3), plain(4.0, 100.0, 1e3)];
    let of = |waiting: &[LoadLevel]| waits(LoadAxis::Concurrency, &[&before[..], waiting].concat());
    // 30 % of 16 wait, and 64 % of 32: 11.2 and 11.52 run, and no interval is narrower than 2 % to both sides.
    assert_lies(
        &of(&[plain(16.0, 700.0, 2e3), plain(32.0, 2_660.0, 4e3)]),
        FigureStatus::Found,
        Some(11.36),
        11.36 * 0.98,
        11.36 * 1.02,
    );
    // Intervals of 10.88 to 11.52 and of 10.88 to 12.16: the first counts for four of the second.
    let sixteen = timed(16.0, (700.0, 660.0, 740.0), 2e3);
    let levels = [sixteen.clone(), timed(32.0, (2_660.0, 2_580.0, 2_740.0), 4e3)];
    assert_lies(&of(&levels), FigureStatus::Found, Some(11.264), 10.88, 12.16);
    // No interval counts as less than a thousandth of the load, 0.016: one of 0.064 counts for a sixteenth.
    let levels = [plain(16.0, 700.0, 2e3), timed(32.0, (2_660.0, 2_656.0, 2_664.0), 4e3)];
    assert_lies(
        &of(&levels),
        FigureStatus::Found,
        Some((16.0 * 11.2 + 11.52) / 17.0),
        (16.0 * 11.2 + 11.52) / 17.0 * 0.98,
        11.552,
    );
    // 11.2 and 12.32 agree within a tenth, 11.2 and 12.48 do not: between 95 % of what is quiet and the first that waits.
    let levels = [plain(16.0, 700.0, 2e3), plain(32.0, 2_562.0, 4e3)];
    assert_eq!(of(&levels).status, FigureStatus::Found);
    let levels = [plain(16.0, 700.0, 2e3), plain(32.0, 2_540.0, 4e3)];
    assert_lies(&of(&levels), FigureStatus::Between, None, 3.8, 16.0);
    // The same on a narrow range, whose middle is the root of both ends: 95 % of 10, and 10 x 1.05.
    let narrow =
        [plain(1.0, 100.0, 1e3), plain(100.0, 100.0, 1e3), plain(101.5, 400.0, 1e3), plain(300.0, 2_000.0, 4e3)];
    let middle = (95.0_f64 * 101.5).sqrt();
    assert_lies(&waits(LoadAxis::Concurrency, &narrow), FigureStatus::Found, Some(middle), 95.0, 101.5);
    // Never more than the first that waits, nor less than 95 % of what is quiet.
    let levels = [plain(10.0, 131.0, 1e3), plain(11.0, 140.0, 1e3)];
    assert_lies(&of(&levels), FigureStatus::Found, Some(10.0), 9.69, 10.0);
    assert_lies(&of(&[plain(16.0, 1_900.0, 2e3)]), FigureStatus::Found, Some(3.8), 3.8, 3.8 * 1.02);
    // Of whole requests the one that is more begins to wait.
    assert_lies(&of(&[plain(5.0, 400.0, 1e3)]), FigureStatus::Found, Some(4.0), 4.0, 5.0);
    assert_ne!(of(&[plain(5.5, 400.0, 1e3)]).load, Some(4.0));
}

#[test]
fn the_rate_of_the_most_power_lies_between_its_neighbours() {
    // Throughput / time.
    let of = |numbers: &[(f64, f64, f64)]| {
        let each = numbers.iter();
        let levels = each.map(|&(rate, throughput, time)| LoadLevel {
            throughput: Some(Measured::plain(throughput)),
            ..plain(rate, 100.0, time)
        });
        max_power_load(&levels.collect::<Vec<_>>())
    };
    assert_eq!(of(&[]).reason, "no level has a throughput and a time");
    assert_eq!((of(&[]).status, of(&[(1.0, 100.0, 0.0)]).status), (FigureStatus::Unknown, FigureStatus::Unknown));
    let figure = of(&[(9.5, 95.0, 1e3), (10.0, 100.0, 1e3), (11.0, 110.0, 2e3)]);
    assert_lies(&figure, FigureStatus::Found, Some(10.0), 9.5, 11.0);
    let figure = of(&[(1.0, 90.0, 1e3), (10.0, 100.0, 1e3), (20.0, 110.0, 2e3)]);
    assert_lies(&figure, FigureStatus::Between, None, 1.0, 20.0);
    let figure = of(&[(1.0, 10.0, 1e3), (2.0, 20.0, 1e3)]);
    assert_eq!(figure, LoadFigure::without(FigureStatus::Above, "a request does not slow yet at the highest load, 2"));
    for numbers in [&[(1.0, 10.0, 1e3), (2.0, 11.0, 2e3)][..], &[(1.0, 10.0, 1e3)]] {
        assert_eq!(of(numbers), LoadFigure::without(FigureStatus::Below, "it is so at the lowest load already"));
    }
}
