//! Everything in a stream but its text: usage, timings, model, finish reason, oddities; and the outcome derived from it.
//!
//! Invariant: the outcome does not depend on whether the text is kept.

use super::{Ending, Failure, Oddities};
use tokrate_core::{
    Channel, EventBatch, FailureKind, FinishReason, Oddity, ServerTimings, Span, StreamEvent, Tick, Usage, What,
};

/// Everything in a stream but its text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StreamMetadata {
    pub usage: Option<Usage>,
    pub timings: Option<ServerTimings>,
    pub finish: Option<FinishReason>,
    pub done_at: Option<Tick>,
    pub model: Option<String>,
    pub model_changes: u32,
    pub oddities: Oddities,
    pub failure: Option<Failure>,
    /// Whether anything was understood: an event other than an oddity or the end mark.
    understood: bool,
}

impl StreamMetadata {
    /// Processes one event, and returns its text, if any. `has_text` is whether there was text before it.
    #[inline]
    pub fn on<'b>(&mut self, event: &StreamEvent, batch: &'b EventBatch, has_text: bool) -> Option<(Channel, &'b str)> {
        if let What::Text { channel, text } = event.what {
            self.understood = true;
            return Some((channel, batch.text(text)));
        }
        self.on_other(event, batch, has_text)
    }

    fn on_other<'b>(
        &mut self,
        event: &StreamEvent,
        batch: &'b EventBatch,
        has_text: bool,
    ) -> Option<(Channel, &'b str)> {
        match event.what {
            What::Text { channel, text } => return Some((channel, batch.text(text))),
            What::Empty | What::Opaque => self.understood = true,
            What::Model(name) => {
                self.understood = true;
                let name = batch.text(name);
                match &self.model {
                    None => self.model = Some(name.to_owned()),
                    Some(first) if first == name => {}
                    Some(_) => self.model_changes = self.model_changes.saturating_add(1),
                }
            }
            What::Usage(usage) => {
                self.understood = true;
                self.usage = Some(self.usage.unwrap_or_default().updated_by(usage));
            }
            What::ToolCall { name, .. } => {
                self.understood = true;
                return Some((Channel::Tool, batch.text(name)));
            }
            What::Timings(index) => {
                let timings = self.timings.unwrap_or_default();
                self.timings = Some(timings.updated_by(batch.timings(index)));
            }
            What::Unknown { .. } => {}
            What::Finish(reason) => {
                self.understood = true;
                self.finish.get_or_insert(reason);
            }
            What::Done => {
                self.done_at.get_or_insert(event.at);
            }
            What::Failed { kind, message, retry_after } => {
                let kind = if has_text { FailureKind::ErrorInStream } else { kind };
                self.fail(kind, batch.text(message), retry_after);
            }
            What::Odd(oddity) => self.oddities.add(oddity),
        }
        None
    }

    /// Notes a failure, if it is the first.
    pub fn fail(&mut self, kind: FailureKind, message: &str, retry_after: Option<Span>) {
        self.failure.get_or_insert_with(|| Failure { kind, message: message.to_owned(), retry_after });
    }

    /// Counts text that makes an answer too long to be measured.
    pub fn fail_too_large(&mut self) {
        self.fail(FailureKind::TooLarge, "more than 4 GiB of output text", None);
    }

    /// Derives the outcome; the rules are at [`super::RequestMeter::finish`].
    pub fn close(&mut self, ending: Ending, has_text: bool) {
        if self.failure.is_none() {
            self.failure = self.verdict(ending, has_text);
        }
        let missing = self.failure.is_none() && self.done_at.is_none();
        if missing && self.oddities.count(Oddity::MissingDone) == 0 {
            self.oddities.add(Oddity::MissingDone);
        }
    }

    fn verdict(&self, ending: Ending, has_text: bool) -> Option<Failure> {
        let done = self.done_at.is_some();
        let of = |kind, message: &str| Some(Failure { kind, message: message.to_owned(), retry_after: None });
        match ending {
            Ending::Failed { kind, message, retry_after } if !(done && has_text) => {
                Some(Failure { kind, message, retry_after })
            }
            _ if has_text && (done || self.finish.is_some()) => None,
            _ if has_text => {
                of(FailureKind::Truncated, "the body ended without a finish reason and without an end mark")
            }
            _ if self.oddities.count(Oddity::UnfinishedEvent) > 0 => {
                of(FailureKind::Truncated, "the body ended in the middle of an event")
            }
            _ if self.oddities.count(Oddity::EventTooLarge) > 0 => {
                of(FailureKind::TooLarge, "an event, or all of the answer, was too large to be read")
            }
            _ if self.oddities.count(Oddity::Unreadable) > 0
                || !self.understood && self.oddities.count(Oddity::Malformed) > 0 =>
            {
                of(FailureKind::NotJson, "the body is not what the dialect prescribes")
            }
            _ => of(FailureKind::Empty, "the answer holds no output text"),
        }
    }
}
