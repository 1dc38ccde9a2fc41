//! The trait with which a dialect decodes the documents of an answer (the data of an event, a line, a whole body), and what
//! it gives back for the fast path.
//!
//! Invariant: a document with broken syntax emits no event at all.

use crate::error_response::ErrorBody;
use crate::object::{Object, read_count};
use std::fmt::Debug;
use std::ops::Range;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FailureKind, Tick, Usage};

/// How much of an answer a document is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// One event of a stream.
    Event,
    /// The event in which the body ended; it may break off anywhere.
    Unfinished,
    /// The whole body.
    Whole,
}

/// Where a document comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'n> {
    /// When the read that completed it returned.
    pub(crate) at: Tick,
    /// The name of its event; empty if it has none.
    pub(crate) name: &'n [u8],
    /// The event in which it stands, in one line and with its line ends; empty if it is not known whole.
    pub(crate) whole: &'n [u8],
    /// How much of an answer it is.
    pub(crate) part: Part,
}

/// Emits the model of an answer if it has changed from the one that is known; whether it has.
pub(crate) fn emit_model(known: &mut String, at: Tick, model: Option<&str>, out: &mut EventBatch) -> bool {
    let Some(model) = model.filter(|model| !model.is_empty() && model != known) else { return false };
    known.clear();
    known.push_str(model);
    let range = out.store(model);
    out.push(at, EventKind::Model(range));
    true
}

/// Decodes the documents of one answer; remembers what later documents refer to.
pub(crate) trait DocumentDecoder: Debug + Send + Sync + BoxedClone {
    /// Decodes a document into events. Everything is read before anything is emitted, so that an error emits nothing. A value
    /// of a wrong type costs its field only and is counted as malformed.
    ///
    /// Gives the pattern of a document that is one text, perhaps with token counts, and nothing else of note; its events must
    /// not depend on the documents before it, those with a tool call or a model excepted.
    ///
    /// # Errors
    /// On broken syntax only.
    fn decode(
        &mut self,
        source: Source<'_>,
        json: &str,
        out: &mut EventBatch,
    ) -> Result<Option<Pattern>, serde_json::Error>;

    /// Reads the block of token counts at the place that a pattern names; `None` if it must be looked at in full.
    fn decode_usage(&self, _json: &str) -> Option<UsageReading> {
        None
    }

    /// Emits what only the end of the body decides.
    fn end(&mut self, _at: Tick, _out: &mut EventBatch) {}

    /// Whether the dialect has a field of that name at the top of its documents.
    fn is_known_field(&self, field: &str) -> bool;
}

/// A copy of a decoder whose type is not known.
pub(crate) trait BoxedClone {
    fn boxed_clone(&self) -> Box<dyn DocumentDecoder>;
}

impl<D: DocumentDecoder + Clone + 'static> BoxedClone for D {
    fn boxed_clone(&self) -> Box<dyn DocumentDecoder> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn DocumentDecoder> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

/// Byte ranges of a document that may differ in the next one of its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern {
    /// Which of the answer's texts it carries.
    pub(crate) channel: Channel,
    /// Where the text stands, between its quotes.
    pub(crate) text: Range<usize>,
    /// Values without meaning: counters, times, padding. An empty range, or one of white space only, stands for any amount of
    /// white space between two values.
    pub(crate) skips: Vec<Range<usize>>,
    /// The block of token counts, if there is one.
    pub(crate) usage: Option<Range<usize>>,
}

/// Token counts as read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsageReading {
    /// The counts.
    pub(crate) usage: Usage,
    /// Whether they fit together.
    pub(crate) plausible: bool,
}

impl UsageReading {
    /// Of a block that counts the tokens of a cache beside the input, by the names of its counts: input without the cache, read from it,
    /// written to it, output. `None` for one without any known count. Invariant: [`Usage::input`] is the sum of the three.
    pub(crate) fn beside_cache(object: &Object<'_>, names: [&str; 4]) -> Option<UsageReading> {
        let mut plausible = true;
        let mut count = |name: &str| {
            let json = object.get(name)?;
            let count = read_count(json);
            plausible &= count.is_some();
            count
        };
        let [uncached, cached, written, output] = names.map(&mut count);
        let sum = |first: u64| first.checked_add(cached.unwrap_or(0))?.checked_add(written.unwrap_or(0));
        let input = uncached.and_then(sum);
        plausible &= input.is_some() == uncached.is_some();
        if plausible && uncached.or(cached).or(written).or(output).is_none() {
            return None;
        }
        let usage = Usage { input, output, reasoning: None, cached_input: cached, cache_write_input: written };
        Some(UsageReading { usage, plausible })
    }
}

/// Emits token counts; one that is impossible is left out, as if it were absent.
pub(crate) fn emit_usage(at: Tick, reading: UsageReading, out: &mut EventBatch) {
    let possible = reading.usage.plausible();
    if !reading.plausible || possible != reading.usage {
        out.push(at, EventKind::Anomaly(Anomaly::ImplausibleUsage));
    }
    out.push(at, EventKind::Usage(possible));
}

/// Emits that the answer failed, for the reason that the JSON gives.
pub(crate) fn emit_failure(at: Tick, json: &str, out: &mut EventBatch) {
    let error = ErrorBody::read(json);
    let message = out.store(&error.message);
    let kind = error.kind().unwrap_or(FailureKind::ErrorInStream);
    out.push(at, EventKind::Failed { kind, message, retry_after: error.retry_after });
}
