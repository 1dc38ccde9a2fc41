//! What a race is made of and what it answers: settings, candidates, failures, actions. Plain data.

use crate::lane::LaneId;
use crate::lane_model::Expectation;
use tokrate_core::{FailureKind, Span, Tick};

/// How many lanes one call may use at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// One at a time; the next one when it fails (failover).
    #[default]
    Off,
    /// Several at once; which one wins is up to the [`WinRule`].
    Race {
        /// How many, at least 1.
        lanes: usize,
    },
    /// One; a second one when the first takes longer than [`Candidate::hedge_after`], or at once when it fails.
    Hedge,
}

/// Which of several attempts the client gets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WinRule {
    /// The one that is expected to complete first, by its lane's curve and what it has shown. The first token of another one
    /// is held back for it.
    Completion {
        /// For how long at most, as a share of the time that the wait may save.
        hold: f64,
    },
    /// The one whose first token comes first.
    FirstToken,
}

impl WinRule {
    /// The share by default: a user waits a fifth of what may be saved for a first token that was there already.
    pub const DEFAULT_HOLD: f64 = 0.2;
}

impl Default for WinRule {
    fn default() -> WinRule {
        WinRule::Completion { hold: WinRule::DEFAULT_HOLD }
    }
}

/// What makes an attempt the winner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Commit {
    /// Its first output text or tool call: for streamed answers.
    #[default]
    FirstToken,
    /// Its successful end: for clients that want the answer in one piece.
    End,
}

/// The settings of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct RaceConfig {
    /// How many lanes may be asked.
    pub mode: Mode,
    /// Limit for the attempts of the call, failed ones included; at least 1.
    pub max_attempts: usize,
    /// An attempt without output text for longer than this has failed. With [`Commit::End`] it goes on until another
    /// lane can be asked instead: nothing has reached the client, and a late answer is better than none.
    pub first_token_limit: Span,
    /// After its first token, an attempt that makes no progress for longer than this has failed. Chunks without text
    /// are no progress.
    pub gap_limit: Span,
    /// With [`Commit::End`]: an attempt that has not ended after this time has failed. `None` for an equal share of the
    /// time that the call has left for each attempt that it may still have; such an attempt goes on as well until
    /// another lane can be asked instead.
    pub attempt_limit: Option<Span>,
    /// The whole call, from [`Race::new`] on.
    pub total_limit: Span,
    /// What makes an attempt the winner.
    pub commit: Commit,
    /// Which of several attempts wins; only with [`Commit::FirstToken`], since otherwise all show their ends.
    pub win: WinRule,
}

impl Default for RaceConfig {
    fn default() -> RaceConfig {
        RaceConfig {
            mode: Mode::Off,
            max_attempts: 3,
            first_token_limit: Span::from_secs(60),
            gap_limit: Span::from_secs(60),
            attempt_limit: None,
            total_limit: Span::from_secs(600),
            commit: Commit::FirstToken,
            win: WinRule::default(),
        }
    }
}

/// What becomes of an attempt that lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LoserPolicy {
    /// It is cancelled; what the provider bills for it is estimated.
    #[default]
    CancelEstimate,
    /// It is read to its end in the background, so that its usage is exact.
    DrainExact {
        /// For at most this long.
        max_time: Span,
        /// And at most this many bytes.
        max_bytes: u64,
    },
    /// It is cancelled; the provider bills nothing.
    Free,
}

/// A lane that the call may use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Candidate {
    /// Which lane.
    pub lane: LaneId,
    /// Whether its answer comes piece by piece, so that first-token and gap limits apply. With [`Commit::FirstToken`] all do.
    pub streamed: bool,
    /// How long it may take to its first token (to its end if it is not streamed) before a hedge starts, usually its
    /// own 90th percentile. `None` for never.
    pub hedge_after: Option<Span>,
    /// What becomes of it when it loses.
    pub loser: LoserPolicy,
    /// What is expected of the lane; `None` if too little is known. For [`WinRule::Completion`].
    pub expected: Option<Expectation>,
    /// Whether its lane never answered in time of late, so that nothing is held for it. For [`WinRule::Completion`].
    pub is_silent: bool,
    /// Expected output tokens. For [`WinRule::Completion`].
    pub expected_output_tokens: f64,
}

/// Why an attempt was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// The call's first.
    First,
    /// An earlier one has failed.
    Failover,
    /// An earlier one is slow.
    Hedge,
    /// Together with the first.
    Race,
}

/// How an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// How long the provider asked to wait.
    pub retry_after: Option<Span>,
}

/// Why an attempt is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelReason {
    /// Another one won.
    Lost,
    /// It failed: a time limit has passed, or its stream reported an error.
    Failed(FailureKind),
}

/// What the caller has to do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Begin an attempt.
    Start {
        /// Its number, from 0 in order of starts.
        attempt: usize,
        /// Index of its candidate.
        candidate: usize,
        /// The candidate's lane.
        lane: LaneId,
        /// Why it is started.
        role: Role,
        /// Whether its answer is asked for piece by piece.
        streamed: bool,
    },
    /// Forward its bytes to the client from now on, those buffered so far first.
    Win {
        /// The winner.
        attempt: usize,
    },
    /// Abort an attempt: close its connection.
    Cancel {
        /// Its number.
        attempt: usize,
        /// Why.
        reason: CancelReason,
    },
    /// Read a losing attempt to its end in the background. The race no longer follows it.
    Drain {
        /// Its number.
        attempt: usize,
        /// Until this time at the latest.
        until: Tick,
        /// At most this many bytes from now on.
        max_bytes: u64,
    },
    /// The winner succeeded; close its connection if it is still open after the end marker. The last action.
    Finish {
        /// The winner.
        attempt: usize,
    },
    /// The winner failed after it had won; close its connection if it is open. The last action.
    Break {
        /// The winner.
        attempt: usize,
        /// How it failed.
        kind: FailureKind,
        /// Whether its own stream has reported the error, so that the client has seen it.
        reported: bool,
    },
    /// No attempt can win any more. The last action.
    Fail {
        /// How the call failed. [`FailureKind::Overloaded`] without an attempt if no lane could be used at all.
        kind: FailureKind,
        /// The attempt whose error is reported to the client: a client error first, else the latest one; `None` if
        /// there was no attempt or the time limit of the call has passed.
        attempt: Option<usize>,
    },
}
