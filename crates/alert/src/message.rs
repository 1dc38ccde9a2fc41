//! A message: what a receiver gets of an incident.

use crate::incident::Member;
use serde::{Deserialize, Serialize};

/// Why a message is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// The incident began.
    Firing,
    /// More endpoints are in it, or some have recovered.
    Changed,
    /// It lasts.
    Reminder,
    /// It is over.
    Resolved,
}

impl MessageKind {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            MessageKind::Firing => "firing",
            MessageKind::Changed => "changed",
            MessageKind::Reminder => "reminder",
            MessageKind::Resolved => "resolved",
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Unique, and the same at every attempt to deliver it, so that a receiver can drop what it has already.
    pub id: String,
    /// The incident, the same in all its messages.
    pub incident: String,
    /// Why it is sent.
    pub kind: MessageKind,
    /// The rule that found it.
    pub rule: String,
    /// Who runs the endpoints.
    pub provider: String,
    /// When the incident began (ms since 1970).
    pub opened_ms: u64,
    /// When this message was made.
    pub at_ms: u64,
    /// The series in it, those that have recovered too.
    pub members: Vec<Member>,
    /// Who gets it.
    pub receivers: Vec<String>,
}
