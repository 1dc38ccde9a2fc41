//! A whole answer, collected piece by piece for a client that does not stream.
//!
//! Invariant: its texts together never exceed [`MAX_WHOLE_BYTES`].

use tokrate_core::Channel;

/// The most text of an answer that is held in memory: 32 MiB.
pub(super) const MAX_WHOLE_BYTES: usize = 32 << 20;

/// Texts that wait for the end, or for a tool call to be complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Collected {
    pub(super) reasoning: String,
    pub(super) answer: String,
}

impl Collected {
    pub(super) fn is_empty(&self) -> bool {
        self.reasoning.is_empty() && self.answer.is_empty()
    }

    pub(super) fn push(&mut self, channel: Channel, text: &str) {
        match channel {
            Channel::Reasoning => self.reasoning.push_str(text),
            Channel::Answer | Channel::Tool => self.answer.push_str(text),
        }
    }
}
