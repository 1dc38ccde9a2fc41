//! How a race stands: what it says of itself, who takes over, and whose error it is.

use super::*;

#[test]
fn a_race_says_how_it_stands() {
    let mut race = race(Mode::Off, lanes(&[None, None]));
    assert_eq!((race.attempts(), race.winner(), race.candidate_of(0)), (0, None, None));
    told_if(&mut race, 0, &mut |candidate, _| candidate.lane == LaneId(1));
    assert_eq!((race.attempts(), race.winner()), (1, None));
    assert_eq!((race.candidate_of(0), race.candidate_of(1)), (Some(1), None), "the first candidate was passed over");
    assert!(!race.is_over());
    race.failed(0, at(5), failed(FailureKind::Connect));
    told(&mut race, 5);
    assert_eq!((race.attempts(), race.candidate_of(1)), (2, Some(0)));
    race.on(1, &text(7));
    told(&mut race, 7);
    assert_eq!(race.winner(), Some(1));
    assert!(!race.is_over(), "it has won and goes on");
    race.ended(1, at(9));
    assert_eq!(told(&mut race, 9), "finish 1");
    assert!(race.is_over());
}

#[test]
fn a_race_is_over_when_its_last_action_was_said() {
    let config =
        RaceConfig { mode: Mode::Race { lanes: 2 }, total_limit: Span::from_millis(50), ..RaceConfig::default() };
    let mut race = Race::new(config, lanes(&[None, None]), at(0));
    told(&mut race, 0);
    let mut actions = 0;
    while !race.is_over() {
        assert!(race.poll(at(50), &mut |_, _| true).is_some(), "after {actions} actions");
        actions += 1;
    }
    assert_eq!(actions, 3, "both are cancelled, and the call has failed");
}

#[test]
fn what_a_stream_told_is_its_failure_whatever_its_connection_does() {
    let mut race = race(Mode::Off, lanes(&[None]));
    told(&mut race, 0);
    race.on(0, &text(2));
    told(&mut race, 2);
    let error = What::Failed { kind: FailureKind::Overloaded, message: TextRange::default(), retry_after: None };
    race.on(0, &event(3, error));
    race.failed(0, at(4), Failed { kind: FailureKind::Truncated, retry_after: Some(ms(70)) });
    let known = Failed { kind: FailureKind::Overloaded, retry_after: Some(ms(70)) };
    assert_eq!(race.failure_of(0), Some(known));
    assert_eq!(told(&mut race, 4), "break 0 (overloaded, told true)");
}

fn paced(speed: f64, tokens: f64) -> Candidate {
    Candidate { expected_speed: Some(speed), expected_output_tokens: Some(tokens), ..Candidate::default() }
}

fn two(first: Candidate, second: Candidate) -> Race {
    let config = RaceConfig { mode: Mode::Race { lanes: 2 }, second_look: Some(ms(300)), ..RaceConfig::default() };
    let mut race = Race::new(config, vec![first, second], at(0));
    told(&mut race, 0);
    race
}

#[test]
fn of_two_that_would_be_done_at_once_the_one_that_began_first_wins() {
    // 100 tokens at 100 tok/s from 100 ms on and 90 tokens from 200 ms on: both are done at 1,100 ms.
    let mut race = two(paced(100.0, 90.0), paced(100.0, 100.0));
    race.on(1, &text(100));
    assert_eq!(told(&mut race, 100), "");
    race.on(0, &text(200));
    assert_eq!(told(&mut race, 200), "win 1; cancel 0");
}

#[test]
fn a_lane_without_a_speed_is_not_waited_with() {
    let mut race = two(paced(0.0, 100.0), paced(50.0, 100.0));
    race.on(0, &text(100));
    assert_eq!(told(&mut race, 100), "win 0; cancel 1");
}

#[test]
fn a_start_that_makes_up_for_one_that_has_failed_is_a_failover_in_a_race_too() {
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
