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
