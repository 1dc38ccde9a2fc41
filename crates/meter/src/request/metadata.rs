//! Everything in a stream but its text: usage, timings, model, finish reason, anomalies; and the outcome derived from it.
//!
//! Invariant: the outcome does not depend on whether the text is kept.

use super::{Anomalies, Ending, Failure, ImageTrace};
use tokrate_core::{
    Anomaly, Channel, EventBatch, EventKind, FailureKind, FinishReason, ServerTimings, Span, StreamEvent, Tick, Usage,
};

/// Results that are no text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Results {
    /// Vectors, scores, images and the like.
    pub items: Option<u32>,
    /// Images.
    pub images: Option<ImageTrace>,
}

/// Everything in a stream but its text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct StreamMetadata {
    pub usage: Option<Usage>,
    pub timings: Option<ServerTimings>,
    pub finish: Option<FinishReason>,
    pub done_at: Option<Tick>,
    pub model: Option<String>,
    pub model_changes: u32,
    pub anomalies: Anomalies,
    pub failure: Option<Failure>,
    /// Results that are no text, if there were any. Few answers have some, and every open stream keeps this.
    pub results: Option<Box<Results>>,
    /// Whether an answer without text may be whole: it is sound, or the transcript of silence.
    needs_no_text: bool,
    /// Whether anything was understood: an event other than an anomaly or the end mark.
    understood: bool,
}

impl StreamMetadata {
    /// Processes one event, and returns its text, if any. `has_text` is whether there was text before it.
    #[inline]
    pub fn on<'b>(&mut self, event: &StreamEvent, batch: &'b EventBatch, has_text: bool) -> Option<(Channel, &'b str)> {
        if let EventKind::Text { channel, text } = event.kind {
            self.on_text();
            return Some((channel, batch.text(text)));
        }
        self.on_other(event, batch, has_text)
    }

    /// Notes that there was text.
    #[inline]
    pub fn on_text(&mut self) {
        self.understood = true;
    }

    fn on_other<'b>(
        &mut self,
        event: &StreamEvent,
        batch: &'b EventBatch,
        has_text: bool,
    ) -> Option<(Channel, &'b str)> {
        match event.kind {
            EventKind::Text { channel, text } => return Some((channel, batch.text(text))),
            EventKind::Empty | EventKind::Opaque => self.understood = true,
            EventKind::Items(items) => {
                self.understood = true;
                let known = &mut self.results.get_or_insert_default().items;
                *known = Some(known.unwrap_or(0).saturating_add(items));
            }
            EventKind::Image { pixels, is_partial } => {
                self.understood = true;
                ImageTrace::add(&mut self.results.get_or_insert_default().images, event.at, pixels, is_partial);
            }
            EventKind::Sound(_) | EventKind::Silence => {
                self.understood = true;
                self.needs_no_text = true;
            }
            EventKind::Model(name) => {
                self.understood = true;
                let name = batch.text(name);
                match &self.model {
                    None => self.model = Some(name.to_owned()),
                    Some(first) if first == name => {}
                    Some(_) => self.model_changes = self.model_changes.saturating_add(1),
                }
            }
            EventKind::Usage(usage) => {
                self.understood = true;
                self.usage = Some(self.usage.unwrap_or_default().updated_by(usage));
            }
            EventKind::ToolCall { name, .. } => {
                self.understood = true;
                return Some((Channel::Tool, batch.text(name)));
            }
            EventKind::Timings(index) => {
                let timings = self.timings.unwrap_or_default();
                self.timings = Some(timings.updated_by(batch.timings(index)));
            }
            EventKind::Unknown { .. } => {}
            EventKind::Finish(reason) => {
                self.understood = true;
                self.finish.get_or_insert(reason);
            }
            EventKind::Done => {
                self.done_at.get_or_insert(event.at);
            }
            EventKind::Failed { kind, message, retry_after } => {
                let kind = if has_text { FailureKind::ErrorInStream } else { kind };
                self.fail(kind, batch.text(message), retry_after);
            }
            EventKind::Anomaly(anomaly) => self.anomalies.add(anomaly),
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
        let has_items = self.results.as_ref().is_some_and(|results| results.items.is_some());
        let has_text = has_text || has_items || self.needs_no_text;
        if self.failure.is_none() {
            self.failure = self.verdict(ending, has_text);
        }
        let missing = self.failure.is_none() && self.done_at.is_none();
        if missing && self.anomalies.count(Anomaly::MissingDone) == 0 {
            self.anomalies.add(Anomaly::MissingDone);
        }
    }

    fn verdict(&self, ending: Ending, has_text: bool) -> Option<Failure> {
        let done = self.done_at.is_some();
        let of = |kind, message: &str| Some(Failure { kind, message: message.to_owned(), retry_after: None });
        match ending {
            Ending::Failed { kind, message, retry_after } if !(done && has_text) => {
                Some(Failure { kind, message, retry_after })
            }
            Ending::Unsealed { message } if !(done || self.finish.is_some()) => {
                Some(Failure { kind: FailureKind::Truncated, message, retry_after: None })
            }
            _ if has_text && (done || self.finish.is_some()) => None,
            _ if has_text => {
                of(FailureKind::Truncated, "the body ended without a finish reason and without an end mark")
            }
            _ if self.anomalies.count(Anomaly::UnfinishedEvent) > 0 => {
                of(FailureKind::Truncated, "the body ended in the middle of an event")
            }
            _ if self.anomalies.count(Anomaly::EventTooLarge) > 0 => {
                of(FailureKind::TooLarge, "an event, or all of the answer, was too large to be read")
            }
            _ if self.anomalies.count(Anomaly::Unreadable) > 0
                || !self.understood && self.anomalies.count(Anomaly::Malformed) > 0 =>
            {
                of(FailureKind::NotJson, "the body is not what the dialect prescribes")
            }
            _ => of(FailureKind::Empty, "the answer holds no output text"),
        }
    }
}
