//! Tests of the figures of a report on logs small enough to compute by hand or by textbook formulas.

use super::*;

/// A call of one attempt with an answer of 100 tokens.
fn call(number: u64, lane: u32, ttft: f64, completion: f64) -> LoggedAttempt {
    LoggedAttempt {
        call: number,
        lane: LaneId(lane),
        started: at(number as f64 * 0.25),
        stream: true,
        ttft: Some(Span::from_secs_f64(ttft)),
        total: Span::from_secs_f64(completion),
        prompt_tokens: 1_000,
        output_tokens: 100,
        output_speed: Some(100.0 / (completion - ttft)),
        usd: Some(0.002),
        failure: None,
        won: true,
    }
}

/// The same, but that the client left: it tells of its lane, and is no call that could have been answered otherwise.
fn left(number: u64, lane: u32, ttft: f64, completion: f64) -> LoggedAttempt {
    LoggedAttempt { failure: Some(FailureKind::Cancelled), won: false, ..call(number, lane, ttft, completion) }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other.abs()
}

#[test]
fn coverage_is_the_share_of_covered_calls() {
    assert!(near(Report { calls: 8, covered: 2, ..Report::default() }.coverage(), 0.25));
    assert!(Report::default().coverage().abs() < f64::MIN_POSITIVE);
}

#[test]
fn a_call_counts_as_answered_if_its_winner_did_not_fail() {
    let mut rows: Vec<LoggedAttempt> = (0..10).map(|number| call(number, 0, 0.5, 2.0)).collect();
    rows[2].failure = Some(FailureKind::Truncated);
    rows[5].won = false;
    rows[7] = left(7, 0, 0.5, 2.0);
    assert_eq!(run(&rows, 1, Alternative::Single(Policy::Fixed)).calls, 7);
}

#[test]
fn the_error_between_two_lanes_is_that_of_two_independent_means() {
    let of_first = [(0.1, 1.0), (0.3, 2.0), (0.5, 4.0), (0.7, 6.0), (0.9, 7.0)];
    let of_second = [(1.0, 2.0, 0.001), (1.0, 4.0, 0.003), (3.0, 6.0, 0.001), (3.0, 8.0, 0.003)];
    let mut rows: Vec<LoggedAttempt> =
        (0..).zip(of_first).map(|(number, (ttft, completion))| left(number, 0, ttft, completion)).collect();
    rows.extend((5..).zip(of_second).map(|(number, (ttft, completion, usd))| LoggedAttempt {
        usd: Some(usd),
        ..call(number, 1, ttft, completion)
    }));
    let report = run(&rows, 2, Alternative::Single(Policy::Fixed));
    assert_eq!((report.calls, report.covered, report.same_choice, report.attempts), (4, 4, 0, 5));
    let means = |means: Means| [means.completion, means.ttft, means.usd.expect("priced"), means.attempts];
    let (measured, estimated) = (means(report.measured), means(report.estimated));
    assert!(measured.into_iter().zip([5.0, 2.0, 0.002, 1.0]).all(|(found, known)| near(found, known)), "{report:?}");
    assert!(estimated.into_iter().zip([4.0, 0.5, 0.002, 1.0]).all(|(found, known)| near(found, known)), "{report:?}");
    // Of five that stand for a lane: the sample variance (26 / 4 and 0.4 / 4) by five. Of the four calls that were measured,
    // which are all there are: their variance (5 and 1) by four. A cost follows from the price; that paid varied by 0.001.
    assert!(near(report.completion_error, (6.5 / 5.0 + 5.0 / 4.0_f64).sqrt()), "{report:?}");
    assert!(near(report.ttft_error, (0.1 / 5.0 + 1.0 / 4.0_f64).sqrt()), "{report:?}");
    assert!(near(report.usd_error.expect("priced"), 0.001 / 2.0), "{report:?}");
}

#[test]
fn the_logged_choices_differ_from_themselves_by_almost_nothing() {
    let completions = [1.0, 2.0, 3.0, 5.0, 6.0, 7.0];
    let rows: Vec<LoggedAttempt> =
        (0..).zip(completions).map(|(number, completion)| call(number, 0, completion / 10.0, completion)).collect();
    let report = run(&rows, 1, Alternative::Single(Policy::Fixed));
    assert_eq!((report.covered, report.same_choice, report.attempts), (6, 6, 6));
    assert!(near(report.estimated.completion, 4.0) && near(report.measured.completion, 4.0), "{report:?}");
    // Each of n calls stands for all others, and the others for it. With d its distance from the mean, the others' means take up
    // d (n - 2) / (n - 1)² of it, widened by the root of (n - 1) / (n - 2); its own difference is -d / (n - 1). The sum of all d²
    // is 28; without what is taken up the error would be 1.06 s.
    let error = (1.0 - (4.0 / 5.0_f64).sqrt()) / 5.0 * 28.0_f64.sqrt();
    assert!(
        near(report.completion_error, error) && near(report.ttft_error, error / 10.0),
        "{report:?} and not {error}"
    );
}

#[test]
fn percentiles_of_the_logged_choices_are_uncertain_but_their_difference_is_not() {
    let time = |number: u64| 1.05_f64.powi((number * 17 % 60) as i32);
    let rows: Vec<LoggedAttempt> = (0..60).map(|number| call(number, 0, time(number), 2.0 * time(number))).collect();
    let report = run(&rows, 1, Alternative::Single(Policy::Fixed));
    for found in [report.ttft[0], report.ttft[1], report.completion[0], report.completion[1]] {
        let error = (found.high - found.low) / (2.0 * 1.959_964);
        assert!(found.difference_error < 0.3 * error && error > 0.05 * found.estimated, "{found:?}: {error}");
    }
}

/// Woodruff's interval: that of the share below the percentile, and the quantiles at both its ends.
#[test]
fn the_interval_of_a_percentile_comes_from_the_share_below_it() {
    // 111 times to the first token, each half a percent above the one before; an answer takes 1.65 times as long.
    let least = 1e-5 * (0.005 * 2_300.0_f64).exp();
    let time = |number: u64| least * (0.005 * (number as f64 + 0.05)).exp();
    let longer = 0.5_f64.exp();
    let mut rows: Vec<LoggedAttempt> =
        (0..111).map(|number| left(number, 0, time(number), longer * time(number))).collect();
    rows.extend((111..116).map(|number| call(number, 1, 2.0, 3.0)));
    let report = run(&rows, 2, Alternative::Single(Policy::Fixed));
    assert_eq!((report.covered, report.attempts), (5, 111));
    for (place, (level, below)) in [(0.5, 56.0), (0.9, 100.0), (0.99, 110.0)].into_iter().enumerate() {
        let share: f64 = below / 111.0;
        let reach = 1.959_964 * (share * (1.0 - share) / 110.0).sqrt();
        let known = [level, level - reach, level + reach].map(|q: f64| least * (0.005 * 111.0 * q.min(1.0)).exp());
        for (found, times) in [(report.ttft[place], 1.0), (report.completion[place], longer)] {
            let values = [found.estimated, found.low, found.high];
            let same = values.into_iter().zip(known).all(|(value, known)| near(value, known * times));
            assert!(near(found.level, level) && same, "{found:?} and not {known:?} times {times}");
        }
        assert!(near(report.ttft[place].measured, 2.0) && near(report.completion[place].measured, 3.0));
    }
}

#[test]
fn a_failing_lane_is_retried_and_its_percentiles_are_those_of_its_tries() {
    // Six of twelve calls failed. Of an answered one's eleven neighbours that is 6 in 11.
    let mut rows: Vec<LoggedAttempt> = (0..12).map(|number| call(number, 0, 0.5, 2.0)).collect();
    rows.iter_mut().step_by(2).for_each(|row| row.failure = Some(FailureKind::Truncated));
    let report = run(&rows, 1, Alternative::Single(Policy::Fixed));
    assert_eq!((report.calls, report.covered), (6, 6));
    assert!(near(report.estimated.completion, 2.0 * 11.0 / 5.0), "{report:?}");
    // After one try 45 % have ended, after two 70 %, after three 84 %, after four 91 %, after seven 98.6 %, after eight 99.2 %.
    for (found, seconds) in report.completion.into_iter().zip([4.0, 8.0, 16.0]) {
        assert!((found.estimated / seconds - 1.0).abs() < 0.006, "{found:?} and not {seconds}");
    }
}

#[test]
fn a_race_of_constant_lanes_has_one_winner_and_uses_all() {
    // Calls that were raced: the first lane always won.
    let raced = |number: u64| {
        let lost = LoggedAttempt { usd: Some(0.0025), ..left(number, 1, 1.0, 1.5) };
        [call(number, 0, 0.5, 2.5), lost]
    };
    let rows: Vec<LoggedAttempt> = (0..8).flat_map(raced).collect();
    let race = run(&rows, 2, Alternative::Race { policy: Policy::Fixed, lanes: 2 });
    assert_eq!((race.calls, race.covered), (8, 8));
    assert!(near(race.measured.attempts, 2.0) && near(race.estimated.attempts, 2.0), "{race:?}");
    assert!(near(race.measured.usd.expect("priced"), 0.0045), "{race:?}");
    // A prompt and an answer at the first lane's prices, a prompt at the second's.
    assert!(near(race.estimated.usd.expect("priced"), 0.002 + 0.002), "{race:?}");
    assert!(near(race.estimated.ttft, 0.5) && near(race.estimated.completion, 2.5), "{race:?}");
    let alone = run(&rows, 2, Alternative::Single(Policy::Fixed));
    assert!(near(alone.measured.attempts, 2.0) && near(alone.estimated.attempts, 1.0), "{alone:?}");
    assert!(near(alone.estimated.usd.expect("priced"), 0.002), "{alone:?}");
}

#[test]
fn nothing_is_explored_once_the_lanes_are_known() {
    // Turn about; the second lane is the quicker one.
    let config = ReplayConfig { window: Span::from_secs(5), ..ReplayConfig::default() };
    let rows: Vec<LoggedAttempt> = (0..1_300)
        .map(|number| call(number, (number % 2) as u32, 0.1, if number % 2 == 0 { 0.2 } else { 0.15 }))
        .collect();
    let of = |rows: &[LoggedAttempt]| replay(rows, &lanes(2), &Alternative::Single(Policy::OwnCompletion), &config, 1);
    let (short, long) = (of(&rows[..100]), of(&rows));
    assert_eq!((short.covered, long.covered), (100, 1_300));
    assert_eq!(long.same_choice - short.same_choice, 600, "every second one of the twelve hundred others");
}

#[test]
fn a_choice_does_not_see_its_own_call() {
    // One lane only was asked, one call after the other. The least busy one is the first of two that are idle.
    let rows: Vec<LoggedAttempt> = (0..20).map(|number| call(number, 0, 0.1, 0.2)).collect();
    let report = run(&rows, 2, Alternative::Single(Policy::LeastBusy));
    assert_eq!((report.covered, report.same_choice), (20, 20));
}
