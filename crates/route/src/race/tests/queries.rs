//! Tests of what a race reports about itself, which attempt takes over, and whose error is shown.

use super::*;

#[test]
fn a_race_reports_attempts_winner_and_candidates() {
    let mut race = race(Mode::Off, lanes(&[None, None]));
    assert_eq!((race.attempts(), race.winner(), race.candidate_of(0)), (0, None, None));
    actions_at_if(&mut race, 0, &mut |candidate, _| candidate.lane == LaneId(1));
    assert_eq!((race.attempts(), race.winner()), (1, None));
    assert_eq!((race.candidate_of(0), race.candidate_of(1)), (Some(1), None), "the first candidate was passed over");
    assert!(!race.is_over());
    race.failed(0, at(5), failed(FailureKind::Connect));
    actions_at(&mut race, 5);
    assert_eq!((race.attempts(), race.candidate_of(1)), (2, Some(0)));
    race.on_event(1, &text(7));
    actions_at(&mut race, 7);
    assert_eq!(race.winner(), Some(1));
    assert!(!race.is_over(), "it has won and goes on");
    race.ended(1, at(9));
    assert_eq!(actions_at(&mut race, 9), "finish 1");
    assert!(race.is_over());
}

#[test]
fn a_race_is_over_when_its_last_action_was_returned() {
    let config =
        RaceConfig { mode: Mode::Race { lanes: 2 }, total_limit: Span::from_millis(50), ..RaceConfig::default() };
    let mut race = Race::new(config, lanes(&[None, None]), at(0));
    actions_at(&mut race, 0);
    let mut actions = 0;
    while !race.is_over() {
        assert!(race.poll(at(50), &mut |_, _| true).is_some(), "after {actions} actions");
        actions += 1;
    }
    assert_eq!(actions, 3, "both are cancelled, and the call has failed");
}

#[test]
fn a_stream_error_is_the_failure_whatever_the_connection_does() {
    let mut race = race(Mode::Off, lanes(&[None]));
    actions_at(&mut race, 0);
    race.on_event(0, &text(2));
    actions_at(&mut race, 2);
    let error = EventKind::Failed { kind: FailureKind::Overloaded, message: TextRange::default(), retry_after: None };
    race.on_event(0, &event(3, error));
    race.failed(0, at(4), AttemptFailure { kind: FailureKind::Truncated, retry_after: Some(ms(70)) });
    let known = AttemptFailure { kind: FailureKind::Overloaded, retry_after: Some(ms(70)) };
    assert_eq!(race.failure_of(0), Some(known));
    assert_eq!(actions_at(&mut race, 4), "break 0 (overloaded, reported true)");
}

fn paced(speed: f64, tokens: f64) -> Candidate {
    Candidate { expected_speed: Some(speed), expected_output_tokens: Some(tokens), ..Candidate::default() }
}

fn two(first: Candidate, second: Candidate) -> Race {
    let config = RaceConfig { mode: Mode::Race { lanes: 2 }, second_look: Some(ms(300)), ..RaceConfig::default() };
    let mut race = Race::new(config, vec![first, second], at(0));
    actions_at(&mut race, 0);
    race
}

#[test]
fn of_two_equal_expected_ends_the_earlier_token_wins() {
    // 100 tokens at 100 tok/s from 100 ms on and 90 tokens from 200 ms on: both are done at 1,100 ms.
    let mut race = two(paced(100.0, 90.0), paced(100.0, 100.0));
    race.on_event(1, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    race.on_event(0, &text(200));
    assert_eq!(actions_at(&mut race, 200), "win 1; cancel 0");
}

#[test]
fn a_win_is_not_held_back_for_a_lane_without_known_speed() {
    let mut race = two(paced(0.0, 100.0), paced(50.0, 100.0));
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "win 0; cancel 1");
}

#[test]
fn a_replacement_for_a_failed_attempt_is_a_failover_in_a_race_too() {
    let mut race = race(Mode::Race { lanes: 2 }, lanes(&[None, None, None]));
    let next = |race: &mut Race| match race.poll(at(0), &mut |_, _| true) {
        Some(Action::Start { attempt, role, .. }) => (attempt, role),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(&mut race), (0, Role::First));
    race.failed(0, at(0), failed(FailureKind::Connect));
    assert_eq!(next(&mut race), (1, Role::Failover));
    assert_eq!(next(&mut race), (2, Role::Failover));
}
