//! Tests of calls whose answer is wanted in one piece: which lane is asked instead of one that takes too long, and when.

use super::*;

/// Limits of a minute to the first token, ten seconds between tokens and ten minutes in all.
fn limits() -> RaceConfig {
    RaceConfig {
        first_token_limit: Span::from_secs(60),
        gap_limit: Span::from_secs(10),
        total_limit: Span::from_secs(600),
        commit: Commit::End,
        ..RaceConfig::default()
    }
}

fn whole(config: RaceConfig, lanes: usize, streamed: bool) -> Race {
    let candidates = super::lanes(&vec![None; lanes]);
    let candidates = candidates.into_iter().map(|candidate| Candidate { streamed, ..candidate }).collect();
    Race::new(config, candidates, at(0))
}

#[test]
fn a_lane_that_hangs_is_replaced_after_its_share_of_the_time() {
    let mut two = whole(limits(), 2, false);
    assert_eq!(actions_at(&mut two, 0), "start 0 on 0 (First)");
    assert_eq!(two.wake_at(), Some(at(300_000)), "half of ten minutes");
    assert_eq!(actions_at(&mut two, 299_999), "");
    assert_eq!(actions_at(&mut two, 300_000), "start 1 on 1 (Failover); cancel 0 (timed_out)");
    assert_eq!(two.wake_at(), Some(at(600_000)), "the last one has the rest");
    two.ended(1, at(500_000));
    assert_eq!(actions_at(&mut two, 500_000), "win 1; finish 1");
    let mut three = whole(limits(), 5, false);
    actions_at(&mut three, 0);
    assert_eq!(three.wake_at(), Some(at(200_000)), "as many attempts as the call may have");
    three.failed(0, at(100_000), failed(FailureKind::ServerError));
    actions_at(&mut three, 100_000);
    assert_eq!(three.wake_at(), Some(at(350_000)), "half of what is left then");
}

#[test]
fn a_limit_of_its_own_holds_for_every_attempt_of_the_last_lane_too() {
    let mut race = whole(RaceConfig { attempt_limit: Some(Span::from_secs(90)), ..limits() }, 2, false);
    actions_at(&mut race, 0);
    assert_eq!(actions_at(&mut race, 90_000), "cancel 0 (timed_out); start 1 on 1 (Failover)");
    assert_eq!(actions_at(&mut race, 180_000), "cancel 1 (timed_out); fail (timed_out of Some(1))");
}

#[test]
fn of_a_streamed_lane_it_is_seen_early_that_it_hangs() {
    let mut silent = whole(limits(), 2, true);
    actions_at(&mut silent, 0);
    silent.on_event(0, &event(50_000, EventKind::Empty));
    assert_eq!(actions_at(&mut silent, 60_000), "start 1 on 1 (Failover); cancel 0 (first_token_timeout)");
    // Of the last lane nothing is known by its silence: nobody else could answer.
    assert_eq!(silent.wake_at(), Some(at(600_000)));
    silent.on_event(1, &text(590_000));
    assert_eq!(actions_at(&mut silent, 590_000), "", "the first token is no answer");
    silent.ended(1, at(595_000));
    assert_eq!(actions_at(&mut silent, 595_000), "win 1; finish 1");
    let mut stalled = whole(limits(), 2, true);
    actions_at(&mut stalled, 0);
    stalled.on_event(0, &text(1_000));
    assert_eq!(actions_at(&mut stalled, 11_000), "cancel 0 (stalled); start 1 on 1 (Failover)");
}

#[test]
fn an_answer_that_comes_steadily_may_take_all_the_time_there_is() {
    let mut race = whole(limits(), 3, true);
    actions_at(&mut race, 0);
    for second in 1..599 {
        race.on_event(0, &text(second * 1_000));
        assert_eq!(actions_at(&mut race, second * 1_000), "");
    }
    race.ended(0, at(599_000));
    assert_eq!(actions_at(&mut race, 599_000), "win 0; finish 0");
}

#[test]
fn a_slow_lane_goes_on_while_no_other_may_be_asked() {
    let mut race = whole(limits(), 2, true);
    actions_at(&mut race, 0);
    assert_eq!(actions_at_if(&mut race, 60_000, &mut |_, _| false), "");
    assert_eq!(race.wake_at(), Some(at(75_000)), "asked again when a quarter more has passed");
    assert_eq!(actions_at(&mut race, 75_000), "start 1 on 1 (Failover); cancel 0 (first_token_timeout)");
    let mut lucky = whole(limits(), 2, true);
    actions_at(&mut lucky, 0);
    actions_at_if(&mut lucky, 60_000, &mut |_, _| false);
    lucky.ended(0, at(70_000));
    assert_eq!(actions_at(&mut lucky, 70_000), "win 0; finish 0");
}

#[test]
fn an_answer_whose_end_mark_has_come_is_complete_though_its_connection_stays_open() {
    let mut race = whole(limits(), 2, true);
    actions_at(&mut race, 0);
    race.on_event(0, &text(1_000));
    race.on_event(0, &event(2_000, EventKind::Done));
    assert_eq!(actions_at(&mut race, 2_999), "");
    assert_eq!(actions_at(&mut race, 3_000), "win 0; finish 0");
}

#[test]
fn an_end_mark_without_an_answer_is_no_answer() {
    for kind in [FailureKind::Empty, FailureKind::Untranslatable] {
        let mut race = whole(limits(), 2, true);
        actions_at(&mut race, 0);
        race.on_event(0, &event(1_000, EventKind::Done));
        race.failed(0, at(1_000), failed(kind));
        assert_eq!(actions_at(&mut race, 1_000), "start 1 on 1 (Failover)");
        race.on_event(1, &text(2_000));
        race.on_event(1, &event(2_000, EventKind::Done));
        race.failed(1, at(2_001), failed(FailureKind::Truncated));
        assert_eq!(actions_at(&mut race, 2_001), "win 1; finish 1", "its connection broke behind the end mark");
    }
}

#[test]
fn a_lane_that_does_not_stream_is_asked_again_for_the_answer_in_one_piece() {
    let mut race = whole(RaceConfig { max_attempts: 1, ..limits() }, 2, true);
    actions_at(&mut race, 0);
    race.retry_unstreamed(0);
    assert_eq!(actions_at(&mut race, 10), "start 1 on 0 (Failover)");
    assert_eq!(race.candidate_of(1), Some(0));
    race.retry_unstreamed(0);
    race.failed(1, at(20), failed(FailureKind::BadRequest));
    assert_eq!(actions_at(&mut race, 20), "fail (bad_request of Some(1))");
}

#[test]
fn a_hedge_of_a_streamed_lane_counts_to_the_first_token() {
    let candidates = super::lanes(&[Some(20), None]);
    let candidates = candidates.into_iter().map(|candidate| Candidate { streamed: true, ..candidate }).collect();
    let mut race = Race::new(RaceConfig { mode: Mode::Hedge, ..limits() }, candidates, at(0));
    actions_at(&mut race, 0);
    let mut begun = race.clone();
    begun.on_event(0, &text(19));
    assert_eq!(actions_at(&mut begun, 30), "");
    assert_eq!(actions_at(&mut race, 20), "start 1 on 1 (Hedge)");
    race.on_event(0, &text(25));
    race.ended(1, at(30));
    assert_eq!(actions_at(&mut race, 30), "win 1; cancel 0; finish 1", "whoever is complete first");
}
