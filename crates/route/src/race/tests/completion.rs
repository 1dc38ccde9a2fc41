//! Tests of races that are won by the answer: which attempt wins, and how long a first token is held back.

use super::*;

/// A lane whose first token comes after `ttft` milliseconds, nine in ten within a fiftieth more, and that writes 100 tokens.
fn lane(ttft: u64, speed: f64) -> Candidate {
    let expected =
        Expectation { ttft: ms(ttft), ttft_p50: ms(ttft), ttft_p90: ms(ttft + ttft / 50), speed, weight: 20.0 };
    Candidate { expected: Some(expected), expected_output_tokens: 100.0, ..Candidate::default() }
}

fn unknown() -> Candidate {
    Candidate { expected_output_tokens: 100.0, ..Candidate::default() }
}

fn won_by_completion(mode: Mode, candidates: Vec<Candidate>) -> Race {
    Race::new(RaceConfig { mode, ..RaceConfig::default() }, candidates, at(0))
}

fn race_of_two(first: Candidate, second: Candidate) -> Race {
    let mut race = won_by_completion(Mode::Race { lanes: 2 }, vec![first, second]);
    actions_at(&mut race, 0);
    race
}

/// When it wants to be polled, in whole milliseconds.
fn wakes_at(race: &Race) -> u64 {
    race.wake_at().expect("it is undecided").as_nanos() / 1_000_000
}

/// Text of so many tokens.
fn tokens(milliseconds: u64, tokens: u32) -> StreamEvent {
    let text = TextRange { start: 0, end: tokens * 5 };
    StreamEvent { at: at(milliseconds), kind: EventKind::Text { channel: Channel::Answer, text } }
}

#[test]
fn a_first_token_is_held_for_a_lane_that_completes_earlier_and_for_no_more_than_a_share_of_what_that_saves() {
    // 100 tokens take 10 s there and 2 s here: a token that comes h after the first one saves 8 s - h, and is waited for
    // for a fifth of that: h = 0.2 / 1.2 * 8 s.
    let slow_first = |better| {
        let mut race = race_of_two(better, lane(100, 10.0));
        race.on_event(1, &text(100));
        race
    };
    let mut taken_over = slow_first(lane(1_200, 50.0));
    assert_eq!(actions_at(&mut taken_over, 100), "");
    taken_over.on_event(0, &text(1_250));
    assert_eq!(actions_at(&mut taken_over, 1_250), "win 0; cancel 1");
    let mut late = slow_first(lane(1_200, 50.0));
    assert_eq!(actions_at(&mut late, 100), "");
    assert_eq!(wakes_at(&late), 1_433);
    late.on_event(1, &tokens(1_400, 13));
    assert_eq!(actions_at(&mut late, 1_434), "win 1; cancel 0");
}

#[test]
fn nothing_is_held_for_a_lane_that_is_not_expected_in_time_or_saves_nothing() {
    // The lanes of a hedge are not chosen for each other: one comes when another is late.
    let hedged = |second| {
        let first = Candidate { hedge_after: Some(ms(20)), ..lane(100, 10.0) };
        let mut race = won_by_completion(Mode::Hedge, vec![first, second]);
        assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First)");
        assert_eq!(actions_at(&mut race, 20), "start 1 on 0 (Hedge)");
        race.on_event(0, &text(100));
        actions_at(&mut race, 100)
    };
    assert_eq!(hedged(lane(1_400, 50.0)), "", "it is expected after 1,420 ms");
    assert_eq!(hedged(lane(1_420, 50.0)), "win 0; cancel 1", "it would come after the last moment");
    assert_eq!(hedged(lane(90, 9.0)), "win 0; cancel 1", "it writes more slowly");
}

#[test]
fn of_two_equal_expected_ends_the_earlier_token_wins() {
    // 100 tokens at 100 tok/s from 100 ms on, and at 111.1 tok/s from 200 ms on: both are done at 1,100 ms.
    let mut race = race_of_two(lane(100, 100.0), lane(200, 100.0 / 0.9));
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "win 0; cancel 1");
}

#[test]
fn what_an_attempt_has_shown_corrects_what_is_expected_of_its_lane() {
    // Expected at 100 tok/s, done at 1.1 s; a hedge of it is expected to be done at 0.38 s.
    let begun = || {
        let first = Candidate { hedge_after: Some(ms(20)), ..lane(100, 100.0) };
        let mut race = won_by_completion(Mode::Hedge, vec![first, lane(260, 1_000.0)]);
        actions_at(&mut race, 0);
        actions_at(&mut race, 20);
        race.on_event(0, &text(100));
        race
    };
    assert_eq!(actions_at(&mut begun(), 100), "win 0; cancel 1", "0.9 s to save are worth 150 ms");
    // 17 tokens took 0.26 s where 0.17 were expected.
    let mut slow = begun();
    slow.on_event(0, &tokens(200, 1));
    assert_eq!(actions_at(&mut slow, 200), "");
    slow.on_event(1, &text(290));
    assert_eq!(actions_at(&mut slow, 290), "win 1; cancel 0");
}

#[test]
fn lanes_of_which_nothing_is_known_show_their_speeds_for_a_quarter_of_a_second() {
    let mut race = race_of_two(unknown(), unknown());
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    assert_eq!(race.wake_at(), Some(at(350)));
    let mut silent = race.clone();
    assert_eq!(actions_at(&mut silent, 350), "win 0; cancel 1", "too few tokens to tell, and nobody is due");
    // 10 tokens a second: 10 s are to go, and the other one may be done much earlier.
    race.on_event(0, &tokens(900, 8));
    assert_eq!(actions_at(&mut race, 900), "");
    assert_eq!(wakes_at(&race), 1_766, "a sixth of the 10 s after 100 ms");
    race.on_event(1, &text(1_000));
    race.on_event(1, &tokens(1_080, 8));
    assert_eq!(actions_at(&mut race, 1_080), "win 1; cancel 0", "100 tokens a second");
}

#[test]
fn a_lane_of_which_nothing_is_known_is_waited_for_as_if_it_were_the_fastest() {
    let mut race = race_of_two(lane(100, 50.0), unknown());
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    assert_eq!(wakes_at(&race), 433, "a sixth of the 2 s that are to go");
    race.on_event(0, &tokens(430, 17));
    assert_eq!(actions_at(&mut race, 434), "win 0; cancel 1");
}

#[test]
fn an_answer_that_is_complete_wins_at_once() {
    let mut race = race_of_two(lane(120, 1_000.0), lane(100, 10.0));
    race.on_event(1, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    race.on_event(1, &event(101, EventKind::Done));
    race.ended(1, at(101));
    assert_eq!(actions_at(&mut race, 101), "win 1; cancel 0; finish 1");
}

#[test]
fn nobody_is_waited_for_where_nobody_runs() {
    let mut race = won_by_completion(Mode::Off, vec![unknown(), unknown()]);
    actions_at(&mut race, 0);
    race.on_event(0, &text(5));
    assert_eq!(actions_at(&mut race, 5), "win 0");
}

#[test]
fn an_attempt_that_fails_while_another_is_held_for_it_is_waited_for_no_more() {
    let mut race = race_of_two(lane(300, 50.0), lane(100, 10.0));
    race.on_event(1, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    race.failed(0, at(150), failed(FailureKind::Truncated));
    assert_eq!(actions_at(&mut race, 150), "win 1");
}

#[test]
fn a_held_attempt_that_fails_leaves_the_race_to_the_others() {
    let mut race = race_of_two(lane(300, 50.0), lane(100, 10.0));
    race.on_event(1, &text(100));
    actions_at(&mut race, 100);
    race.failed(1, at(150), failed(FailureKind::Truncated));
    assert_eq!(actions_at(&mut race, 150), "", "nothing was sent, so the other one may still answer");
}

#[test]
fn nothing_more_is_started_while_a_win_is_held_back() {
    let hedged = |ttft, speed| Candidate { hedge_after: Some(ms(20)), ..lane(ttft, speed) };
    let mut race = won_by_completion(Mode::Hedge, vec![hedged(30, 10.0), hedged(300, 50.0), hedged(300, 50.0)]);
    actions_at(&mut race, 0);
    assert_eq!(actions_at(&mut race, 20), "start 1 on 0 (Hedge)");
    race.on_event(0, &text(30));
    assert_eq!(actions_at(&mut race, 30), "");
    assert_eq!(actions_at(&mut race, 40), "", "the second hedge would be due");
    race.failed(0, at(50), failed(FailureKind::Truncated));
    assert_eq!(actions_at(&mut race, 50), "start 2 on 0 (Failover)");
}

#[test]
fn a_lane_that_could_only_spoil_the_race_is_asked_once_the_better_one_is_late() {
    // Done at 1.7 s and at 2.1 s; the second one's token comes 0.6 s earlier, and a sixth of 1 s cannot hold it. 100 tokens at 10 a
    // second leave time enough to hold the third.
    let candidates = || vec![lane(100, 50.0), lane(700, 100.0), lane(100, 10.0)];
    let mut race = won_by_completion(Mode::Race { lanes: 3 }, candidates());
    assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First); start 1 on 0 (Race)");
    assert_eq!(
        (race.candidate_of(0), race.candidate_of(1)),
        (Some(1), Some(2)),
        "the one that completes first is asked first"
    );
    assert_eq!(wakes_at(&race), 734, "999 in 1,000 of its tokens have come by then");
    let mut late = race.clone();
    race.on_event(0, &text(650));
    assert_eq!(actions_at(&mut race, 650), "win 0; cancel 1");
    assert_eq!(actions_at(&mut late, 735), "start 2 on 0 (Race)");
    // Where the better one fails it is asked at once.
    let mut failing = won_by_completion(Mode::Race { lanes: 2 }, vec![lane(700, 100.0), lane(100, 50.0)]);
    assert_eq!(actions_at(&mut failing, 0), "start 0 on 0 (First)");
    failing.failed(0, at(10), failed(FailureKind::Connect));
    assert_eq!(actions_at(&mut failing, 10), "start 1 on 0 (Failover)");
    // Nobody waits for the time at which one that is put off could be asked if no attempt is left for it.
    let config = RaceConfig { mode: Mode::Race { lanes: 3 }, max_attempts: 2, ..RaceConfig::default() };
    let mut few_attempts = Race::new(config, candidates(), at(0));
    assert_eq!(actions_at(&mut few_attempts, 0), "start 0 on 0 (First); start 1 on 0 (Race)");
    assert_eq!(actions_at(&mut few_attempts, 1_200), "");
    // Nor is anything spoilt where the first token wins.
    let config = RaceConfig { mode: Mode::Race { lanes: 2 }, win: WinRule::FirstToken, ..RaceConfig::default() };
    let mut first_token = Race::new(config, candidates(), at(0));
    assert_eq!(actions_at(&mut first_token, 0), "start 0 on 0 (First); start 1 on 0 (Race)");
    assert_eq!((first_token.candidate_of(0), first_token.candidate_of(1)), (Some(0), Some(1)));
}

#[test]
fn a_lane_that_stalls_after_its_first_token_does_not_win_over_one_that_is_known() {
    let mut race = race_of_two(unknown(), lane(400, 300.0));
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "");
    assert_eq!(actions_at(&mut race, 350), "", "its silence says that it is slow");
    race.on_event(1, &text(410));
    assert_eq!(actions_at(&mut race, 410), "win 1; cancel 0");
}

#[test]
fn two_lanes_that_are_silent_hold_nothing_for_good() {
    let mut race = race_of_two(unknown(), lane(400, 300.0));
    race.on_event(0, &text(100));
    actions_at(&mut race, 350);
    // 999 in 1,000 have come after 420 ms.
    assert_eq!(actions_at(&mut race, 600), "win 0; cancel 1");
    // 10 s to write are worth 1.6 s.
    let mut known = race_of_two(lane(400, 300.0), lane(100, 10.0));
    known.on_event(1, &text(100));
    assert_eq!(actions_at(&mut known, 100), "");
    assert_eq!(actions_at(&mut known, 600), "");
    assert_eq!(actions_at(&mut known, 1_720), "win 1; cancel 0");
}

#[test]
fn nothing_is_held_for_a_lane_that_never_answered_in_time() {
    let mut race = race_of_two(lane(100, 50.0), Candidate { is_silent: true, ..unknown() });
    race.on_event(0, &text(100));
    assert_eq!(actions_at(&mut race, 100), "win 0; cancel 1");
}

#[test]
fn an_answer_that_says_that_it_ends_is_complete_whatever_its_connection_does() {
    let mut race = race_of_two(lane(120, 1_000.0), lane(100, 10.0));
    race.on_event(1, &text(100));
    race.on_event(1, &event(101, EventKind::Finish(FinishReason::Stop)));
    assert_eq!(actions_at(&mut race, 101), "win 1; cancel 0");
}

#[test]
fn how_long_a_first_token_was_held_is_known_once_it_is_let_go() {
    let mut held = race_of_two(lane(1_200, 50.0), lane(100, 10.0));
    held.on_event(1, &text(100));
    assert_eq!(actions_at(&mut held, 100), "");
    assert_eq!(held.hold(), None);
    held.on_event(0, &text(1_250));
    assert_eq!(actions_at(&mut held, 1_250), "win 0; cancel 1");
    assert_eq!(held.hold(), Some(ms(1_150)));
    let mut at_once = race_of_two(lane(100, 50.0), lane(1_200, 10.0));
    at_once.on_event(0, &text(100));
    assert_eq!(actions_at(&mut at_once, 103), "win 0; cancel 1");
    assert_eq!(at_once.hold(), None, "a late poll holds nothing back");
}

#[test]
fn a_race_of_whole_answers_asks_all_its_lanes_at_once() {
    // Streamed, the second one would only spoil the race; of whole answers the better end wins, whose first token comes when it may.
    let lanes = || vec![lane(1_200, 200.0), lane(600, 66.7)];
    let config = |commit| RaceConfig { mode: Mode::Race { lanes: 2 }, commit, ..RaceConfig::default() };
    let mut streamed = Race::new(config(Commit::FirstToken), lanes(), at(0));
    assert_eq!(actions_at(&mut streamed, 0), "start 0 on 0 (First)");
    let mut whole = Race::new(config(Commit::End), lanes(), at(0));
    assert_eq!(actions_at(&mut whole, 0), "start 0 on 0 (First); start 1 on 0 (Race)");
}
