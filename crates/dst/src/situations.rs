//! Coverage marks: situations that a set of scenarios must have reached for a pass to mean anything.
//!
//! Invariant: a mark is set by the world where it happens, never by a scenario that merely asks for it.

use std::collections::BTreeSet;

/// A situation that must be reached at least once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Situation {
    /// Several text events completed by one read.
    BurstInOneRead,
    /// An event whose bytes came in several reads.
    EventSplitAcrossReads,
    /// A read that begins within a character.
    Utf8Split,
    /// Two reads at one tick.
    ReadsAtOneTick,
    /// Reasoning and answer text in one read.
    ChannelsInOneRead,
    /// Usage in the last read of a body.
    UsageInLastRead,
    /// A request waits for a slot of the engine.
    QueueInEngine,
    /// The engine's queue is full.
    QueueFull,
    /// A rate limit error.
    RateLimited,
    /// A server error before any answer.
    ServerError,
    /// An error event before any text.
    ErrorBeforeText,
    /// An error event after text.
    ErrorAfterText,
    /// An event with broken JSON.
    Malformed,
    /// An answer without text.
    EmptyAnswer,
    /// A complete answer without its end marker.
    MissingDone,
    /// A whole answer of many tokens at one tick.
    OneBurst,
    /// No connection.
    ConnectRefused,
    /// The body breaks off before its first byte.
    CutBeforeBody,
    /// The body breaks off inside an event.
    CutInsideEvent,
    /// The body breaks off between two events.
    CutBetweenEvents,
    /// The body is cut so late in an event that the event still counts.
    CutAfterEventsJson,
    /// The connection breaks after the end mark.
    ResetAfterDone,
    /// A refusal's body is cut.
    RefusalCut,
    /// The link stalls.
    LinkStall,
    /// The idle limit ends a request.
    IdleLimit,
    /// The total limit ends a request.
    TotalLimit,
    /// The end of the run ends a request.
    Cancelled,
    /// The engine continues an answer that was cancelled.
    WriteAfterLeaving,
    /// An arrival is forfeited.
    ForfeitedArrival,
    /// A request is delayed in an open loop, and later ones are sent all the same.
    OvertakenInOpenLoop,
    /// Two workers share a plan.
    SharedPlan,
}

impl Situation {
    /// Every situation.
    pub const ALL: [Situation; 31] = [
        Situation::BurstInOneRead,
        Situation::EventSplitAcrossReads,
        Situation::Utf8Split,
        Situation::ReadsAtOneTick,
        Situation::ChannelsInOneRead,
        Situation::UsageInLastRead,
        Situation::QueueInEngine,
        Situation::QueueFull,
        Situation::RateLimited,
        Situation::ServerError,
        Situation::ErrorBeforeText,
        Situation::ErrorAfterText,
        Situation::Malformed,
        Situation::EmptyAnswer,
        Situation::MissingDone,
        Situation::OneBurst,
        Situation::ConnectRefused,
        Situation::CutBeforeBody,
        Situation::CutInsideEvent,
        Situation::CutBetweenEvents,
        Situation::CutAfterEventsJson,
        Situation::ResetAfterDone,
        Situation::RefusalCut,
        Situation::LinkStall,
        Situation::IdleLimit,
        Situation::TotalLimit,
        Situation::Cancelled,
        Situation::WriteAfterLeaving,
        Situation::ForfeitedArrival,
        Situation::OvertakenInOpenLoop,
        Situation::SharedPlan,
    ];
}

/// The situations that were reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Situations(BTreeSet<Situation>);

impl Situations {
    /// Marks a situation.
    pub fn mark(&mut self, situation: Situation) {
        self.0.insert(situation);
    }

    /// Marks a situation if `so`.
    pub fn mark_if(&mut self, so: bool, situation: Situation) {
        if so {
            self.mark(situation);
        }
    }

    /// Adds those of another run.
    pub fn merge(&mut self, other: &Situations) {
        self.0.extend(&other.0);
    }

    /// Whether a situation was reached.
    pub fn met(&self, situation: Situation) -> bool {
        self.0.contains(&situation)
    }

    /// Situations that were never reached.
    pub fn missing(&self) -> Vec<Situation> {
        Situation::ALL.into_iter().filter(|situation| !self.met(*situation)).collect()
    }
}
