//! Coverage marks of gateway worlds: situations that the tests must have reached.
//!
//! A mark is set when the history shows it, never because the scenario asked for it. Invariant: each one is reached by at
//! least one of the fixed seeds, or their run fails.

use super::checkers::reports_failure;
use super::{CallEnd, GatewayHistory, GatewayScenario, Outcome};
use std::collections::BTreeSet;
use tokrate_core::FailureKind;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole};

macro_rules! situations {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// A situation that must be reached at least once.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum GatewaySituation { $($(#[$documentation])* $name,)* }

        impl GatewaySituation {
            /// Every situation.
            pub const ALL: &[GatewaySituation] = &[$(GatewaySituation::$name,)*];
        }
    };
}

situations! {
    /// A stream was answered whole.
    StreamAnswered,
    /// An answer in one piece.
    WholeAnswered,
    /// Embeddings.
    EmbeddingsAnswered,
    /// Sound, passed on as it came.
    SoundAnswered,
    /// Sound that broke off, and was cut.
    SoundCut,
    /// An answer was translated to another dialect.
    Translated,
    /// Failover to a second lane.
    FailedOver,
    /// A hedge won.
    HedgeWon,
    /// A race had a loser.
    RaceLost,
    /// A loser was drained and its cost is known.
    LoserDrained,
    /// A client disconnected after an attempt had started.
    ClientLeft,
    /// A client disconnected before its request was complete.
    RequestCut,
    /// A client that read nothing timed out.
    ClientStalled,
    /// An answer failed midway and the stream reported it to the client.
    BrokenTold,
    /// An answer failed before the client received any of it.
    FailedBeforeAnswer,
    /// A lane's answer was truncated.
    AnswerTruncated,
    /// A lane reported an error within a stream.
    ErrorInStream,
    /// A lane violated HTTP.
    BrokenHttp,
    /// A lane stalled and timed out.
    LaneStalled,
    /// A kept connection was found closed, and the request was sent again.
    SentAgain,
    /// A lane could not be connected to.
    NoConnection,
    /// A lane's refusal reached a client.
    LaneRefused,
    /// No lane was available: all in cool-down.
    NoLane,
    /// A key's limit refused a call.
    KeyRefused,
    /// A call without a known key was refused.
    KeyUnknown,
    /// A request was too large.
    RequestTooLarge,
    /// A request's body did not come in time.
    RequestTooSlow,
    /// The limit of open calls was reached.
    TooManyCalls,
    /// A reload succeeded while calls were open.
    ReloadedUnderLoad,
    /// A reload was refused.
    ReloadRefused,
    /// The gateway was stopped and open calls completed.
    Drained,
    /// The gateway was stopped and an open call was cut.
    CutAtStop,
    /// The log could not be written for a while, and no row was lost.
    DiskRecovered,
    /// Rows were lost, and counted.
    RowsLost,
    /// The log's file was moved away with rows in it.
    LogMoved,
    /// Wall times of rows go back.
    ClockWentBack,
    /// Wall times of rows fall into two months.
    MonthsPassed,
}

/// The situations that a world reached.
pub fn met(scenario: &GatewayScenario, history: &GatewayHistory) -> BTreeSet<GatewaySituation> {
    let mut met = BTreeSet::new();
    for row in &history.kept.rows {
        met.extend(of_row(row));
    }
    for outcome in &history.outcomes {
        met.extend(of_outcome(scenario, outcome));
    }
    of_world(history, &mut met);
    met
}

fn of_row(row: &Attempt) -> Vec<GatewaySituation> {
    use GatewaySituation::*;
    let answered = row.end == AttemptEnd::Answered && row.won;
    let is_embeddings = row.dialect_in == "embeddings";
    let is_passed = tokrate_wire::Dialect::from_name(&row.dialect_in).is_none();
    let rules = [
        (answered && row.sample.stream && !is_passed, StreamAnswered),
        (answered && !row.sample.stream && !is_passed, WholeAnswered),
        (answered && row.dialect_in == "speech", SoundAnswered),
        (row.won && row.end == AttemptEnd::Failed && row.dialect_in == "speech", SoundCut),
        (answered && is_embeddings, EmbeddingsAnswered),
        (answered && row.dialect_in != row.sample.dialect, Translated),
        (row.role == AttemptRole::Failover, FailedOver),
        (row.role == AttemptRole::Hedge && row.won, HedgeWon),
        (row.end == AttemptEnd::Lost, RaceLost),
        (row.end == AttemptEnd::Lost && row.sample.output_tokens.is_some(), LoserDrained),
        (row.end == AttemptEnd::Abandoned, ClientLeft),
        (row.sample.failure == Some(FailureKind::ClientStalled), ClientStalled),
        (matches!(row.sample.failure, Some(FailureKind::Connect | FailureKind::ConnectTimeout)), NoConnection),
        (row.sample.failure == Some(FailureKind::Truncated), AnswerTruncated),
        (row.sample.failure == Some(FailureKind::ErrorInStream), ErrorInStream),
        (row.sample.failure == Some(FailureKind::Protocol), BrokenHttp),
        (matches!(row.sample.failure, Some(FailureKind::Stalled)), LaneStalled),
    ];
    rules.into_iter().filter_map(|(is_so, situation)| is_so.then_some(situation)).collect()
}

fn of_outcome(scenario: &GatewayScenario, outcome: &Outcome) -> Vec<GatewaySituation> {
    use GatewaySituation::*;
    let call = &scenario.clients[outcome.client].calls[outcome.nth];
    let (reply, status) = (&outcome.reply, outcome.reply.status.unwrap_or(0));
    let says = |text: &str| String::from_utf8_lossy(&reply.body).contains(text);
    let is_own = reply.header("x-tokrate-call").is_none();
    let rules = [
        (outcome.end == CallEnd::Disconnected && outcome.sent_at.is_none(), RequestCut),
        (status == 200 && outcome.end == CallEnd::Whole && reports_failure(call, reply), BrokenTold),
        (status >= 500 && !is_own, FailedBeforeAnswer),
        (status >= 400 && !is_own && says("not now"), LaneRefused),
        (status == 503 && says("none of its lanes is available"), NoLane),
        (status == 429 && (says("has reached its limit of") || says("has spent its monthly budget")), KeyRefused),
        (status == 401 && is_own, KeyUnknown),
        (status == 413 && is_own, RequestTooLarge),
        (status == 408, RequestTooSlow),
        (status == 503 && says("calls open"), TooManyCalls),
    ];
    rules.into_iter().filter_map(|(is_so, situation)| is_so.then_some(situation)).collect()
}

fn of_world(history: &GatewayHistory, met: &mut BTreeSet<GatewaySituation>) {
    use GatewaySituation::*;
    let stopped_at = history.stopped.map(|(at, _)| at);
    let ended_behind = |outcome: &&Outcome| Some(outcome.ended_at) > stopped_at && Some(outcome.began_at) < stopped_at;
    let mut behind = history.outcomes.iter().filter(ended_behind);
    let rows = &history.kept.rows;
    let month = |row: &Attempt| {
        let date = tokrate_core::Date::of_seconds(row.sample.started_unix_ms / 1_000);
        (date.year, date.month)
    };
    let mut ids = BTreeSet::new();
    let rules = [
        (history.reloads.iter().any(|(open, taken)| *open > 0 && *taken), ReloadedUnderLoad),
        (history.reloads.iter().any(|(_, taken)| !taken), ReloadRefused),
        (behind.clone().any(|outcome| outcome.end == CallEnd::Whole && outcome.reply.status == Some(200)), Drained),
        (behind.any(|outcome| outcome.end == CallEnd::Closed), CutAtStop),
        (history.kept.failures > 0 && history.log.lost == 0 && history.log.written > 0, DiskRecovered),
        (history.log.lost > 0, RowsLost),
        (!history.kept.moved.is_empty(), LogMoved),
        (!rows.is_sorted_by_key(|row| row.sample.started_unix_ms / 1_800_000), ClockWentBack),
        (rows.iter().any(|row| month(row) != month(&rows[0])), MonthsPassed),
        (history.served.iter().any(|served| !ids.insert(&served.id)), SentAgain),
    ];
    met.extend(rules.into_iter().filter_map(|(is_so, situation)| is_so.then_some(situation)));
}
