//! Tests of the race: scenarios of single calls, and properties of every call.

use super::*;
use crate::lane::LaneId;
use crate::lane_model::Expectation;
use proptest::prelude::*;
use tokrate_core::{Channel, TextRange};

mod completion;
mod queries;
mod whole;

fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(milliseconds * 1_000_000)
}

fn ms(milliseconds: u64) -> Span {
    Span::from_millis(milliseconds)
}

fn text(milliseconds: u64) -> StreamEvent {
    StreamEvent {
        at: at(milliseconds),
        kind: EventKind::Text { channel: Channel::Answer, text: TextRange { start: 0, end: 1 } },
    }
}

fn event(milliseconds: u64, kind: EventKind) -> StreamEvent {
    StreamEvent { at: at(milliseconds), kind }
}

fn lanes(hedge_after: &[Option<u64>]) -> Vec<Candidate> {
    let candidate = |(lane, after): (usize, &Option<u64>)| Candidate {
        lane: LaneId(lane as u32),
        hedge_after: after.map(ms),
        ..Candidate::default()
    };
    hedge_after.iter().enumerate().map(candidate).collect()
}

fn failed(kind: FailureKind) -> AttemptFailure {
    AttemptFailure { kind, retry_after: None }
}

/// Everything that is to be done at a time, as a line of text.
fn actions_at(race: &mut Race, milliseconds: u64) -> String {
    actions_at_if(race, milliseconds, &mut |_, _| true)
}

fn actions_at_if(race: &mut Race, milliseconds: u64, allow: &mut dyn FnMut(&Candidate, Role) -> bool) -> String {
    let mut lines = Vec::new();
    while let Some(action) = race.poll(at(milliseconds), allow) {
        lines.push(match action {
            Action::Start { attempt, lane, role, .. } => format!("start {attempt} on {} ({role:?})", lane.0),
            Action::Win { attempt } => format!("win {attempt}"),
            Action::Cancel { attempt, reason: CancelReason::Lost } => format!("cancel {attempt}"),
            Action::Cancel { attempt, reason: CancelReason::Failed(kind) } => {
                format!("cancel {attempt} ({})", kind.name())
            }
            Action::Drain { attempt, until, max_bytes } => {
                format!("drain {attempt} until {} ms, {max_bytes} bytes", until.as_nanos() / 1_000_000)
            }
            Action::Finish { attempt } => format!("finish {attempt}"),
            Action::Break { attempt, kind, reported } => {
                format!("break {attempt} ({}, reported {reported})", kind.name())
            }
            Action::Fail { kind, attempt } => format!("fail ({} of {attempt:?})", kind.name()),
        });
    }
    assert!(race.wake_at().is_none_or(|wake_at| wake_at > at(milliseconds)), "woken in the past: {race:?}");
    lines.join("; ")
}

fn race(mode: Mode, candidates: Vec<Candidate>) -> Race {
    Race::new(RaceConfig { mode, win: WinRule::FirstToken, ..RaceConfig::default() }, candidates, at(0))
}

#[test]
fn a_single_lane_wins_with_its_first_token_and_not_before() {
    let mut race = race(Mode::Off, lanes(&[None, None]));
    assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First)");
    race.on_event(0, &event(5, EventKind::Empty));
    race.on_event(0, &event(5, EventKind::Model(TextRange::default())));
    race.on_event(0, &event(6, EventKind::Usage(tokrate_core::Usage::default())));
    assert_eq!(actions_at(&mut race, 6), "");
    race.on_event(0, &text(7));
    assert_eq!(actions_at(&mut race, 7), "win 0");
    race.ended(0, at(9));
    assert_eq!(actions_at(&mut race, 9), "finish 0");
    assert!(race.is_over());
    assert_eq!(actions_at(&mut race, 10), "");
    let mut tools = self::race(Mode::Off, lanes(&[None]));
    actions_at(&mut tools, 0);
    let call = EventKind::ToolCall { index: 0, id: TextRange::default(), name: TextRange::default() };
    tools.on_event(0, &event(3, call));
    assert_eq!(actions_at(&mut tools, 3), "win 0");
}

#[test]
fn failover_goes_on_until_attempts_run_out() {
    let mut race = race(Mode::Off, lanes(&[None, None, None, None]));
    assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First)");
    race.failed(0, at(1), failed(FailureKind::Unauthorized));
    assert_eq!(actions_at(&mut race, 1), "start 1 on 1 (Failover)");
    race.failed(1, at(2), AttemptFailure { kind: FailureKind::RateLimited, retry_after: Some(ms(900)) });
    assert_eq!(actions_at(&mut race, 2), "start 2 on 2 (Failover)");
    race.failed(2, at(3), failed(FailureKind::Connect));
    assert_eq!(actions_at(&mut race, 3), "fail (connect of Some(2))");
    assert_eq!(race.retry_after(), Some(ms(900)));
}

#[test]
fn a_client_error_is_not_retried_and_is_the_one_reported() {
    let mut alone = race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut alone, 0);
    alone.failed(0, at(1), failed(FailureKind::BadRequest));
    assert_eq!(actions_at(&mut alone, 1), "fail (bad_request of Some(0))");
    // Those that run already may still answer it.
    let mut both = race(Mode::Race { lanes: 2 }, lanes(&[None, None, None]));
    assert_eq!(actions_at(&mut both, 0), "start 0 on 0 (First); start 1 on 1 (Race)");
    both.failed(0, at(1), failed(FailureKind::BadRequest));
    assert_eq!(actions_at(&mut both, 1), "");
    let mut lucky = both.clone();
    lucky.on_event(1, &text(2));
    assert_eq!(actions_at(&mut lucky, 2), "win 1");
    both.failed(1, at(2), failed(FailureKind::ServerError));
    assert_eq!(actions_at(&mut both, 2), "fail (bad_request of Some(0))");
}

#[test]
fn a_race_keeps_the_configured_number_of_lanes_running() {
    let mut race = race(Mode::Race { lanes: 2 }, lanes(&[None, None, None]));
    assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First); start 1 on 1 (Race)");
    race.failed(0, at(1), failed(FailureKind::Overloaded));
    assert_eq!(actions_at(&mut race, 1), "start 2 on 2 (Failover)");
    race.on_event(1, &text(5));
    race.on_event(2, &text(4));
    assert_eq!(actions_at(&mut race, 5), "win 2; cancel 1", "by the stamp, not by the order of the reports");
    race.failed(2, at(6), failed(FailureKind::Truncated));
    assert_eq!(actions_at(&mut race, 6), "break 2 (truncated, reported false)");
}

#[test]
fn a_hedge_starts_after_its_delay_and_at_once_on_failure() {
    let mut slow = race(Mode::Hedge, lanes(&[Some(20), Some(10), None]));
    assert_eq!(actions_at(&mut slow, 0), "start 0 on 0 (First)");
    assert_eq!(slow.wake_at(), Some(at(20)));
    assert_eq!(actions_at(&mut slow, 19), "");
    assert_eq!(actions_at(&mut slow, 20), "start 1 on 1 (Hedge)");
    assert_eq!(actions_at(&mut slow, 30), "start 2 on 2 (Hedge)");
    slow.on_event(0, &text(31));
    assert_eq!(actions_at(&mut slow, 31), "win 0; cancel 1; cancel 2");
    let mut broken = race(Mode::Hedge, lanes(&[Some(20), None]));
    actions_at(&mut broken, 0);
    broken.failed(0, at(4), failed(FailureKind::ServerError));
    assert_eq!(actions_at(&mut broken, 4), "start 1 on 1 (Failover)");
    let mut unknown = race(Mode::Hedge, lanes(&[None, None]));
    actions_at(&mut unknown, 0);
    assert_eq!(unknown.wake_at(), Some(at(60_000)), "only the limit: what is unknown is not slow");
}

#[test]
fn a_refused_start_goes_to_the_next_candidate_and_is_retried_a_quarter_later() {
    let mut race = race(Mode::Hedge, lanes(&[Some(20), Some(20), Some(20)]));
    assert_eq!(actions_at_if(&mut race, 0, &mut |candidate, _| candidate.lane.0 != 0), "start 0 on 1 (First)");
    let mut asked = 0;
    let mut refuse = |_: &Candidate, role| {
        assert_eq!(role, Role::Hedge);
        asked += 1;
        false
    };
    assert_eq!(actions_at_if(&mut race, 20, &mut refuse), "");
    assert_eq!(race.wake_at(), Some(at(25)));
    assert_eq!(actions_at_if(&mut race, 24, &mut refuse), "");
    assert_eq!(actions_at_if(&mut race, 25, &mut refuse), "");
    assert_eq!(asked, 4, "two candidates, twice each");
    let mut started = race.clone();
    assert_eq!(actions_at(&mut started, 40), "start 1 on 0 (Hedge)");
    race.failed(0, at(30), failed(FailureKind::Connect));
    assert_eq!(actions_at(&mut race, 30), "start 1 on 0 (Failover)", "a failover asks anew");
    let mut none = self::race(Mode::Race { lanes: 3 }, lanes(&[None, None]));
    assert_eq!(actions_at_if(&mut none, 0, &mut |_, _| false), "fail (overloaded of None)");
}

#[test]
fn each_time_limit_has_its_own_failure_kind() {
    let config = RaceConfig {
        first_token_limit: ms(50),
        gap_limit: ms(30),
        total_limit: ms(200),
        max_attempts: 2,
        ..RaceConfig::default()
    };
    let mut race = Race::new(config.clone(), lanes(&[None, None]), at(0));
    assert_eq!(actions_at(&mut race, 0), "start 0 on 0 (First)");
    race.on_event(0, &event(40, EventKind::Empty));
    assert_eq!(actions_at(&mut race, 50), "cancel 0 (first_token_timeout); start 1 on 1 (Failover)");
    race.on_event(1, &text(60));
    assert_eq!(actions_at(&mut race, 60), "win 1");
    race.on_event(1, &event(80, EventKind::Empty));
    assert_eq!(race.wake_at(), Some(at(90)), "a chunk without text is no progress");
    assert_eq!(actions_at(&mut race, 90), "break 1 (stalled, reported false)");
    let mut long = Race::new(config.clone(), lanes(&[None, None]), at(0));
    actions_at(&mut long, 0);
    for step in 1..8 {
        long.on_event(0, &text(step * 25));
        actions_at(&mut long, step * 25);
    }
    assert_eq!(actions_at(&mut long, 200), "break 0 (timed_out, reported false)");
    let whole = RaceConfig { commit: Commit::End, ..config };
    let mut whole = Race::new(whole, lanes(&[None]), at(0));
    actions_at(&mut whole, 0);
    assert_eq!(actions_at(&mut whole, 199), "");
    assert_eq!(actions_at(&mut whole, 200), "cancel 0 (timed_out); fail (timed_out of None)");
}

#[test]
fn a_non_streamed_answer_wins_when_it_ends() {
    let config = RaceConfig { mode: Mode::Race { lanes: 2 }, commit: Commit::End, ..RaceConfig::default() };
    let mut race = Race::new(config, lanes(&[None, None]), at(0));
    actions_at(&mut race, 0);
    race.on_event(0, &text(3));
    assert_eq!(actions_at(&mut race, 3), "");
    race.ended(1, at(4));
    assert_eq!(actions_at(&mut race, 4), "win 1; cancel 0; finish 1");
}

#[test]
fn a_stream_error_before_the_win_is_a_failure_and_after_it_is_already_reported() {
    let error =
        EventKind::Failed { kind: FailureKind::ErrorInStream, message: TextRange::default(), retry_after: None };
    let mut before = race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut before, 0);
    before.on_event(0, &event(2, error));
    assert_eq!(actions_at(&mut before, 2), "cancel 0 (error_in_stream); start 1 on 1 (Failover)");
    let mut after = race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut after, 0);
    after.on_event(0, &text(2));
    actions_at(&mut after, 2);
    after.on_event(0, &event(3, error));
    assert_eq!(actions_at(&mut after, 3), "", "the rest of the stream still goes to the client");
    after.ended(0, at(4));
    assert_eq!(actions_at(&mut after, 4), "break 0 (error_in_stream, reported true)");
}

#[test]
fn an_empty_answer_is_retried_unless_its_finish_reason_explains_it_and_wins_if_nothing_else_does() {
    let mut race = race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut race, 0);
    race.on_event(0, &event(1, EventKind::Finish(FinishReason::Stop)));
    race.ended(0, at(1));
    assert_eq!(actions_at(&mut race, 1), "start 1 on 1 (Failover)");
    let mut better = race.clone();
    better.on_event(1, &text(2));
    assert_eq!(actions_at(&mut better, 2), "win 1");
    race.failed(1, at(2), failed(FailureKind::Connect));
    assert_eq!(actions_at(&mut race, 2), "win 0; finish 0");
    let mut explained = self::race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut explained, 0);
    explained.on_event(0, &event(1, EventKind::Finish(FinishReason::ContentFilter)));
    explained.ended(0, at(1));
    assert_eq!(actions_at(&mut explained, 1), "win 0; finish 0");
}

#[test]
fn images_are_content() {
    let mut race = race(Mode::Off, lanes(&[None, None]));
    actions_at(&mut race, 0);
    race.on_event(0, &event(1, EventKind::Opaque));
    assert_eq!(actions_at(&mut race, 1), "win 0");
    race.on_event(0, &event(2, EventKind::Finish(FinishReason::Stop)));
    race.ended(0, at(2));
    assert_eq!(actions_at(&mut race, 2), "finish 0");
}

#[test]
fn a_failure_after_the_end_marker_is_ignored() {
    let mut reset = race(Mode::Off, lanes(&[None]));
    actions_at(&mut reset, 0);
    reset.on_event(0, &text(1));
    reset.on_event(0, &event(1, EventKind::Done));
    let mut silent = reset.clone();
    reset.failed(0, at(2), failed(FailureKind::Truncated));
    assert_eq!(actions_at(&mut reset, 2), "win 0; finish 0");
    assert_eq!(actions_at(&mut silent, 2), "win 0");
    assert_eq!(actions_at(&mut silent, 60_001), "finish 0", "a connection that stays open");
}

#[test]
fn a_loser_is_drained_if_its_cost_must_be_exact() {
    let mut candidates = lanes(&[None, None, None]);
    candidates[1].loser = LoserPolicy::DrainExact { max_time: ms(500), max_bytes: 9_000 };
    candidates[2].loser = LoserPolicy::Free;
    let mut race = race(Mode::Race { lanes: 3 }, candidates);
    actions_at(&mut race, 0);
    race.on_event(0, &text(10));
    assert_eq!(actions_at(&mut race, 10), "win 0; drain 1 until 510 ms, 9000 bytes; cancel 2");
    // A lane that is over its limit is not read on.
    let config = RaceConfig { first_token_limit: ms(10), ..RaceConfig::default() };
    let loser = LoserPolicy::DrainExact { max_time: ms(500), max_bytes: 9_000 };
    let mut late = Race::new(config, vec![Candidate { loser, ..Candidate::default() }], at(0));
    actions_at(&mut late, 0);
    assert_eq!(actions_at(&mut late, 10), "cancel 0 (first_token_timeout); fail (first_token_timeout of Some(0))");
}

/// One thing that happens to a race.
#[derive(Clone, Debug)]
enum Happens {
    Event(usize, u8),
    Ends(usize),
    Fails(usize, usize),
    Passes(u64),
    Wakes,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..5usize, 0..7u8).prop_map(|(attempt, what)| Happens::Event(attempt, what)),
        1 => (0..5usize).prop_map(Happens::Ends),
        2 => (0..5usize, 0..FailureKind::ALL.len()).prop_map(|(attempt, kind)| Happens::Fails(attempt, kind)),
        3 => (0..40u64).prop_map(Happens::Passes),
        2 => Just(Happens::Wakes),
    ]
}

fn any_config() -> impl Strategy<Value = RaceConfig> {
    let mode = prop_oneof![Just(Mode::Off), (1..4usize).prop_map(|lanes| Mode::Race { lanes }), Just(Mode::Hedge)];
    let limits = (5..100u64, 5..100u64, 20..400u64);
    let rest = (0..5usize, any::<bool>(), proptest::option::of(0.0..1.0), proptest::option::weighted(0.3, 5..150u64));
    (mode, limits, rest).prop_map(|(mode, (first, gap, total), (max_attempts, end, hold, attempt))| RaceConfig {
        mode,
        max_attempts,
        first_token_limit: ms(first),
        gap_limit: ms(gap),
        total_limit: ms(total),
        attempt_limit: attempt.map(ms),
        commit: if end { Commit::End } else { Commit::FirstToken },
        win: hold.map_or(WinRule::FirstToken, |hold| WinRule::Completion { hold }),
    })
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let loser = prop_oneof![
        Just(LoserPolicy::CancelEstimate),
        Just(LoserPolicy::Free),
        Just(LoserPolicy::DrainExact { max_time: ms(40), max_bytes: 100 })
    ];
    let expected = (1..2_000u32, 0..100u64, 0..100u64).prop_map(|(speed, ttft, more)| Expectation {
        ttft: ms(ttft),
        ttft_p50: ms(ttft),
        ttft_p90: ms(ttft + more),
        speed: f64::from(speed),
        weight: 1.0,
    });
    let times = (proptest::option::of(0..60u64), proptest::option::of(expected));
    (0..4u32, times, loser, any::<(bool, bool)>()).prop_map(|(lane, (after, expected), loser, flags)| Candidate {
        lane: LaneId(lane),
        streamed: flags.0,
        is_silent: flags.1,
        hedge_after: after.map(ms),
        loser,
        expected,
        expected_output_tokens: 50.0,
    })
}

/// What a driver knows of a race, to hold the invariants against.
#[derive(Default)]
struct Ledger {
    open: Vec<bool>,
    won: Option<usize>,
    last: Option<Action>,
}

impl Ledger {
    fn note(&mut self, action: Action) {
        assert!(self.last.is_none(), "{action:?} after the last action");
        match action {
            Action::Start { attempt, .. } => {
                assert!(self.won.is_none(), "a start after the win");
                assert_eq!(attempt, self.open.len());
                self.open.push(true);
            }
            Action::Win { attempt } => assert!(self.won.replace(attempt).is_none(), "two winners"),
            Action::Cancel { attempt, .. } | Action::Drain { attempt, .. } => {
                assert!(Some(attempt) != self.won && std::mem::replace(&mut self.open[attempt], false), "ended twice");
            }
            Action::Finish { attempt } | Action::Break { attempt, .. } => {
                assert_eq!(self.won, Some(attempt));
                self.open[attempt] = false;
                self.last = Some(action);
            }
            Action::Fail { .. } => {
                assert_eq!(self.won, None);
                self.last = Some(action);
            }
        }
    }

    /// An attempt ended by itself.
    fn close(&mut self, attempt: usize) {
        if self.won != Some(attempt)
            && let Some(open) = self.open.get_mut(attempt)
        {
            *open = false;
        }
    }
}

fn event_kind(number: u8) -> EventKind {
    match number {
        0 | 1 => text(0).kind,
        2 => EventKind::Empty,
        3 => EventKind::Finish(FinishReason::Stop),
        4 => EventKind::Done,
        5 => EventKind::Usage(tokrate_core::Usage::default()),
        _ => EventKind::Failed { kind: FailureKind::Overloaded, message: TextRange::default(), retry_after: None },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn any_race_ends_once_and_leaves_nothing_running(
        config in any_config(),
        candidates in proptest::collection::vec(any_candidate(), 0..5),
        script in proptest::collection::vec(happens(), 0..60),
        grants in any::<u64>(),
    ) {
        let most = config.max_attempts.max(1);
        let end = at(0) + config.total_limit;
        let mut race = Race::new(config, candidates, at(0));
        let (mut ledger, mut now, mut asked) = (Ledger::default(), at(0), 0u32);
        for step in script.into_iter().map(Some).chain([None]) {
            match step {
                Some(Happens::Event(attempt, number)) => {
                    race.on_event(attempt, &StreamEvent { at: now, kind: event_kind(number) });
                }
                Some(Happens::Ends(attempt)) => {
                    race.ended(attempt, now);
                    ledger.close(attempt);
                }
                Some(Happens::Fails(attempt, kind)) => {
                    // An error in the stream is answered with a cancel, which is to come first.
                    if race.running().any(|running| running == attempt) {
                        race.failed(attempt, now, failed(FailureKind::ALL[kind]));
                        ledger.close(attempt);
                    }
                }
                Some(Happens::Passes(milliseconds)) => now += ms(milliseconds),
                Some(Happens::Wakes) => now = race.wake_at().map_or(now, |wake_at| wake_at.max(now)),
                None => now = now.max(end),
            }
            let mut polls = 0;
            while let Some(action) = race.poll(now, &mut |_, _| {
                asked = asked.wrapping_add(1);
                grants >> (asked % 64) & 1 == 0
            }) {
                ledger.note(action);
                polls += 1;
                prop_assert!(polls < 100, "it goes round in circles");
            }
            prop_assert!(race.wake_at().is_none_or(|wake_at| wake_at > now), "woken in the past");
            prop_assert!(race.is_over() || race.running().next().is_some(), "nothing runs and nobody says so");
            prop_assert!(ledger.open.len() <= most);
        }
        prop_assert!(race.is_over() && race.wake_at().is_none());
        prop_assert!(ledger.last.is_some());
        prop_assert!(ledger.open.iter().all(|open| !open), "left running: {:?}", ledger.open);
    }
}
