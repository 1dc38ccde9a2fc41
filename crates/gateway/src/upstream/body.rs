//! The response of a lane as it arrives: bytes for the client, events for the race, numbers for the log.
//!
//! Invariant: in the client's own dialect the bytes are the lane's own, in order, once; the bytes of one read stay
//! together, so that they can leave in one write.

use crate::respond::headers::forwarded_headers;
use bytes::Bytes;
use http::header::{
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FailureKind, StreamEvent, TextRange, Tick, Usage};
use tokrate_meter::{Ending, Failure, LiveMeter, StreamNumbers, Timing};
use tokrate_net::server::{ByteBudget, ByteShare};
use tokrate_net::{ConnectionUse, Departure, ExchangeFailure, Head, Redactor, Secrets, Sink, Upgraded};
use tokrate_probe::{Answer, Recipient};
use tokrate_wire::websocket::websocket_accept;
use tokrate_wire::{AnswerAssembler, AnswerTranslator, Decoder, Dialect, Passage, Shape, UsageFilter, error_event};

/// Reading from a streaming lane pauses while this much waits for the client: the size of one read (bytes).
const MAX_READY_BYTES: usize = 64 * 1024;

/// What an answer may buffer before it counts against the budget of all answers: about what a stream buffers that is
/// forwarded without delay (bytes).
const MAX_UNCOUNTED_BYTES: usize = 2 * MAX_READY_BYTES;

const UNASSEMBLED: &str = "the stream holds no answer that could be put into one piece";

/// How the body is processed.
pub(crate) enum BodyReader {
    /// Forwarded unchanged and decoded alongside. The filter removes usage that only the gateway asked for.
    PassThrough { decoder: Box<Decoder>, filter: Option<Box<UsageFilter>> },
    /// A stream that is put back into one piece, and decoded alongside.
    Assembled { decoder: Box<Decoder>, assembler: Box<AnswerAssembler> },
    /// Re-encoded in the client's dialect.
    Translated(Box<AnswerTranslator>),
    /// Forwarded without being decoded, as the table of paths says; `streamed` as it comes, and every read is progress.
    Opaque { streamed: bool },
    /// Of a WebSocket: nothing but a 101 with that `sec-websocket-accept` is one.
    Upgrade { accept: String, is_accepted: bool },
}

impl BodyReader {
    /// Of a body that nobody reads.
    pub fn opaque() -> BodyReader {
        BodyReader::Opaque { streamed: false }
    }

    /// Of a WebSocket that is asked for by these headers.
    pub fn upgrade(handshake: &HeaderMap) -> BodyReader {
        let key = handshake.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok()).unwrap_or_default();
        BodyReader::Upgrade { accept: websocket_accept(key), is_accepted: false }
    }
}

/// Bytes on their way to the client, which count against the budget until they are dropped.
struct CountedBytes {
    ready: Vec<u8>,
    _share: ByteShare,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.ready
    }
}

/// A stream that broke off, as its client is told.
pub(crate) struct StreamFailure<'a> {
    pub dialect: Dialect,
    pub shape: Shape,
    pub kind: FailureKind,
    pub message: &'a str,
}

/// The response of one attempt so far.
pub(crate) struct UpstreamBody {
    /// Its timing and head, and the body of a refusal.
    pub answer: Answer,
    /// Measures the decoded events.
    pub meter: LiveMeter,
    /// Events that the race has not seen yet: the first content, every end and failure, and the last event of each
    /// read.
    race_events: Vec<StreamEvent>,
    has_content: bool,
    /// Whether there were further choices; only the first is measured.
    pub has_further_answers: bool,
    ready: Vec<u8>,
    /// Its share of the bytes that all answers may buffer; `None` where that is not limited.
    share: Option<ByteShare>,
    /// Whether there was no room for it, so that it takes no more bytes.
    pub is_over_budget: bool,
    /// Whether bytes are forwarded as they arrive.
    pub is_forwarded: bool,
    /// Whether the race knows that the response cannot be translated.
    has_reported_failure: bool,
    /// Whether a stream could not be put back into one piece.
    is_unassembled: bool,
    /// Whether the client gets something else than what comes.
    is_replaced: bool,
    text: Option<String>,
    /// The WebSocket that it has opened, until the session takes it.
    connection: Option<(Upgraded, ConnectionUse)>,
    /// Whether that holds the answer alone, without reasoning and arguments of tools.
    keeps_answer_only: bool,
    reader: BodyReader,
    batch: Rc<RefCell<EventBatch>>,
}

impl UpstreamBody {
    /// An empty body; `batch` is shared by all bodies of a worker, which decodes one read at a time.
    pub fn new(reader: BodyReader, batch: Rc<RefCell<EventBatch>>) -> UpstreamBody {
        UpstreamBody {
            answer: Answer::default(),
            meter: LiveMeter::new(),
            race_events: Vec::new(),
            has_content: false,
            has_further_answers: false,
            ready: Vec::new(),
            share: None,
            is_over_budget: false,
            is_forwarded: false,
            has_reported_failure: false,
            is_unassembled: false,
            is_replaced: false,
            text: None,
            connection: None,
            keeps_answer_only: false,
            reader,
            batch,
        }
    }

    /// Removes secrets from what arrives.
    pub fn with_redactor(self, redactor: Redactor) -> UpstreamBody {
        UpstreamBody { answer: Answer::new(redactor), ..self }
    }

    /// Counts what is buffered against a budget.
    pub fn with_byte_budget(self, answers: &Arc<ByteBudget>) -> UpstreamBody {
        UpstreamBody { share: Some(answers.share()), ..self }
    }

    /// When the last byte of the request was handed to the socket, the first time if the request was sent again.
    pub fn sent_at(&self) -> Option<Tick> {
        self.answer.sent_at()
    }

    /// Whether the status is 2xx.
    pub fn is_good(&self) -> bool {
        self.answer.is_good()
    }

    /// Whether a WebSocket was opened; its exchange used that connection.
    pub fn has_connection(&mut self, used: ConnectionUse) -> bool {
        self.connection.as_mut().map(|connection| connection.1 = used).is_some()
    }

    /// Takes the WebSocket that it has opened.
    pub fn take_connection(&mut self) -> Option<(Upgraded, ConnectionUse)> {
        self.connection.take()
    }

    /// Why an exchange that ended well opened no WebSocket, if it was to.
    pub fn unopened(&self) -> Option<Ending> {
        if !matches!(self.reader, BodyReader::Upgrade { .. }) {
            return None;
        }
        let (kind, message) = match self.answer.head()?.status {
            StatusCode::SWITCHING_PROTOCOLS => {
                (FailureKind::Protocol, "its 101 is not that of the WebSocket that was asked for".to_owned())
            }
            status if status.is_success() => {
                (FailureKind::UnexpectedStatus, format!("it answered {status} in place of opening a WebSocket"))
            }
            _ => return None,
        };
        Some(Ending::Failed { kind, message, retry_after: None })
    }

    /// Holds the head of a 101 against what was asked for; what the client needs of it is kept.
    fn check_upgrade(&mut self, head: &Head, kept: &mut HeaderMap) {
        let BodyReader::Upgrade { accept, is_accepted } = &mut self.reader else { return };
        let mut accepted = head.headers.get_all(SEC_WEBSOCKET_ACCEPT).iter();
        let is_ours = accepted.next().is_some_and(|value| value.as_bytes() == accept.as_bytes());
        // None was asked for: with one, frames would not mean what they say.
        let has_extension = head.headers.contains_key(SEC_WEBSOCKET_EXTENSIONS);
        *is_accepted = is_ours && accepted.next().is_none() && !has_extension;
        for name in [SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL] {
            for value in head.headers.get_all(&name) {
                kept.append(name.clone(), value.clone());
            }
        }
        kept.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }

    /// Puts these bytes in the place of all that came and comes for the client.
    pub fn replace(&mut self, bytes: Vec<u8>) {
        (self.ready, self.is_replaced) = (bytes, true);
        self.enforce_budget();
    }

    /// Takes the bytes that are ready for the client.
    pub fn take_ready(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            return None;
        }
        let ready = std::mem::take(&mut self.ready);
        let Some(share) = self.share.as_mut().filter(|share| share.bytes() > 0) else {
            return Some(Bytes::from(ready));
        };
        // They stay counted until the client has taken them.
        let taken = share.split(ready.len());
        Some(Bytes::from_owner(CountedBytes { ready, _share: taken }))
    }

    /// Whether all that came was taken for the client.
    pub fn is_forwarded_whole(&self) -> bool {
        self.is_forwarded && self.ready.is_empty()
    }

    /// The bytes that end a stream that broke off; `tail` is the end of what was sent before.
    pub fn break_off(&mut self, failure: &StreamFailure<'_>, tail: &[u8]) -> Vec<u8> {
        match &mut self.reader {
            BodyReader::Translated(translator) => {
                let mut out = Vec::new();
                translator.break_off(failure.kind, failure.message, &mut out);
                out
            }
            _ => error_event(failure.dialect, failure.shape, failure.kind, failure.message, tail),
        }
    }

    /// Takes the events that the race has not seen yet.
    pub fn take_race_events(&mut self) -> impl Iterator<Item = StreamEvent> {
        self.race_events.drain(..)
    }

    /// The measurements of a response that has ended. To be called once.
    pub fn measure(&mut self, timing: &Timing, ending: Ending) -> StreamNumbers {
        let is_opaque_and_whole = matches!((&self.reader, &ending), (BodyReader::Opaque { .. }, Ending::Complete));
        let mut measured = std::mem::replace(&mut self.meter, LiveMeter::without_tokens()).finish(timing, ending);
        if is_opaque_and_whole {
            // A response that is not decoded is complete if HTTP says so; its usage is read all the same.
            measured.failure = None;
            (measured.usage, measured.model) = opaque_usage(&self.ready);
        }
        if measured.failure.is_none()
            && let Some(Ending::Failed { kind, message, retry_after }) = self.translation_failure()
        {
            // The lane's stream was sound, but not its translation.
            measured.failure = Some(Failure { kind, message, retry_after });
        }
        self.answer.clean(measured.failure.as_mut(), &mut measured.model);
        measured
    }

    /// Why the response could not be translated, or put back into one piece, if so.
    pub fn translation_failure(&self) -> Option<Ending> {
        let (kind, message) = self.reader_failure()?;
        Some(Ending::Failed { kind, message: message.to_owned(), retry_after: None })
    }

    fn reader_failure(&self) -> Option<(FailureKind, &str)> {
        match &self.reader {
            BodyReader::Translated(translator) => translator.failure(),
            BodyReader::Assembled { .. } if self.is_unassembled => Some((FailureKind::Untranslatable, UNASSEMBLED)),
            _ => None,
        }
    }

    /// Whether the answer came in one piece, whatever it was asked for in.
    pub fn is_whole(&self) -> bool {
        match &self.reader {
            BodyReader::PassThrough { decoder, .. } | BodyReader::Assembled { decoder, .. } => decoder.is_whole(),
            BodyReader::Translated(translator) => translator.is_whole(),
            BodyReader::Opaque { .. } => true,
            BodyReader::Upgrade { .. } => false,
        }
    }

    /// Whether the client gets it in another dialect.
    pub fn is_translated(&self) -> bool {
        matches!(self.reader, BodyReader::Translated(_))
    }

    /// Whether a stream held what cannot be put back into one piece for certain.
    pub fn is_inexact(&self) -> bool {
        matches!(&self.reader, BodyReader::Assembled { assembler, .. } if !assembler.is_exact())
    }

    /// Keeps the text, reasoning included.
    pub fn with_text(mut self) -> UpstreamBody {
        self.text = Some(String::new());
        self
    }

    /// Keeps the answer's text, without reasoning and arguments of tools.
    pub fn with_answer_text(self) -> UpstreamBody {
        UpstreamBody { keeps_answer_only: true, ..self }.with_text()
    }

    /// The text so far, if it is kept.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// How an exchange ended, for the meter.
    pub fn ending_of(&self, outcome: Result<(), ExchangeFailure>) -> Ending {
        match self.answer.ending(outcome) {
            whole @ (Ending::Complete | Ending::Unsealed { .. })
                if matches!(self.reader, BodyReader::Translated(_)) =>
            {
                self.translation_failure().unwrap_or(whole)
            }
            failed => failed,
        }
    }

    /// The exchange ended, well or not: flushes the decoder. To be called once.
    pub fn end(&mut self, at: Tick) {
        let at = self.answer.last_byte_at().unwrap_or(at);
        let held = self.answer.end();
        self.take(at, &held);
        if self.answer.first_byte_at().is_none() || !self.is_good() {
            return;
        }
        let batch = Rc::clone(&self.batch);
        let mut batch = batch.borrow_mut();
        let ready = self.ready.len();
        match &mut self.reader {
            BodyReader::PassThrough { decoder, filter } => {
                decoder.end(at, &mut batch);
                if let Some(filter) = filter {
                    filter.end(&mut self.ready);
                }
            }
            BodyReader::Assembled { decoder, assembler } => {
                decoder.end(at, &mut batch);
                self.is_unassembled |= !assembler.finish(&mut self.ready);
            }
            BodyReader::Translated(translator) => {
                translator.end(at, &mut self.ready, &mut batch);
            }
            BodyReader::Opaque { .. } | BodyReader::Upgrade { .. } => {}
        }
        if self.is_replaced {
            self.ready.truncate(ready);
        }
        self.observe(&mut batch);
    }

    fn read(&mut self, at: Tick, bytes: &[u8]) {
        let clean = self.answer.push(at, bytes);
        self.take(at, &clean);
    }

    /// Processes redacted bytes of a successful response.
    fn take(&mut self, at: Tick, bytes: &[u8]) {
        if bytes.is_empty() || self.is_over_budget {
            return;
        }
        let batch = Rc::clone(&self.batch);
        let mut batch = batch.borrow_mut();
        let ready = self.ready.len();
        match &mut self.reader {
            BodyReader::PassThrough { decoder, filter } => {
                decoder.push(at, bytes, &mut batch);
                let passage = filter.as_mut().map_or(Passage::AsItCame, |filter| filter.push(bytes, &mut self.ready));
                if passage == Passage::AsItCame {
                    self.ready.extend_from_slice(bytes);
                }
            }
            BodyReader::Assembled { decoder, assembler } => {
                decoder.push(at, bytes, &mut batch);
                assembler.push(bytes);
                // The server may hold its connection open behind the end mark.
                if batch.events().iter().any(|event| event.kind == EventKind::Done) {
                    self.is_unassembled |= !assembler.finish(&mut self.ready);
                }
            }
            BodyReader::Translated(translator) => translator.push(at, bytes, &mut self.ready, &mut batch),
            BodyReader::Opaque { streamed } => {
                self.ready.extend_from_slice(bytes);
                if *streamed {
                    self.race_events.push(StreamEvent { at, kind: EventKind::Opaque });
                }
            }
            // The answer of a lane that opened none.
            BodyReader::Upgrade { .. } => {}
        }
        if self.is_replaced {
            self.ready.truncate(ready);
        }
        self.observe(&mut batch);
        self.report_translation_failure(at);
        self.enforce_budget();
    }

    /// Counts what is buffered; drops all of it if there is no room.
    fn enforce_budget(&mut self) {
        let Some(share) = &mut self.share else { return };
        let held = self.ready.len()
            + match &self.reader {
                BodyReader::PassThrough { decoder, .. } => decoder.held_bytes(),
                BodyReader::Assembled { decoder, assembler } => decoder.held_bytes() + assembler.held_bytes(),
                BodyReader::Translated(translator) => translator.held_bytes(),
                BodyReader::Opaque { .. } | BodyReader::Upgrade { .. } => 0,
            };
        let counted = if held > MAX_UNCOUNTED_BYTES { held } else { 0 };
        if counted != share.bytes() && !share.resize(counted) {
            self.is_over_budget = true;
            self.ready = Vec::new();
            self.reader = BodyReader::opaque();
            let _ = share.resize(0);
        }
    }

    /// Reports to the race that the response cannot be translated; no later end mark makes up for that.
    pub fn report_translation_failure(&mut self, at: Tick) {
        if self.has_reported_failure {
            return;
        }
        // What is no answer at all is so for its own reason, which the meter finds.
        let is_answer = self.has_content || matches!(self.reader, BodyReader::Translated(_));
        let Some((kind, _)) = self.reader_failure().filter(|_| is_answer) else { return };
        self.has_reported_failure = true;
        let event = EventKind::Failed { kind, message: TextRange::default(), retry_after: None };
        self.race_events.push(StreamEvent { at, kind: event });
    }

    fn observe(&mut self, batch: &mut EventBatch) {
        self.meter.on(batch);
        let last = batch.events().len().saturating_sub(1);
        for (index, event) in batch.events().iter().enumerate() {
            let is_race_event = match event.kind {
                EventKind::Text { .. } | EventKind::ToolCall { .. } | EventKind::Opaque => {
                    !std::mem::replace(&mut self.has_content, true)
                }
                EventKind::Finish(_) | EventKind::Failed { .. } => true,
                _ => false,
            };
            self.has_further_answers |= event.kind == EventKind::Anomaly(Anomaly::ExtraChoice);
            if is_race_event || index == last {
                self.race_events.push(*event);
            }
        }
        if let Some(kept) = &mut self.text {
            for event in batch.events() {
                if let EventKind::Text { text, channel } = event.kind
                    && (!self.keeps_answer_only || channel == Channel::Answer)
                {
                    kept.push_str(batch.text(text));
                }
            }
        }
        batch.clear();
    }
}

/// Usage and model of a response that is not decoded, by whatever names providers have for them.
fn opaque_usage(body: &[u8]) -> (Usage, Option<String>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Counts {
        #[serde(alias = "input_tokens", alias = "promptTokenCount")]
        prompt_tokens: Option<u64>,
        total_tokens: Option<u64>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Billed {
        billed_units: Counts,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Answer {
        model: Option<String>,
        #[serde(alias = "usageMetadata")]
        usage: Counts,
        meta: Billed,
        prompt_eval_count: Option<u64>,
    }
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    let Counts { prompt_tokens, total_tokens } = answer.usage;
    // Nothing but input is billed by these: a sum is that.
    let input = prompt_tokens.or(total_tokens).or(answer.meta.billed_units.prompt_tokens).or(answer.prompt_eval_count);
    let usage = Usage { input, ..Usage::default() }.plausible();
    (Usage { output: usage.input.map(|_| 0), ..usage }, answer.model)
}

/// Receives the exchange's bytes.
pub(crate) struct BodySink(pub Rc<RefCell<UpstreamBody>>);

impl Sink for BodySink {
    fn begin(&mut self, departure: &Departure) {
        self.0.borrow_mut().answer.begin(departure);
    }

    fn authorized(&mut self, secrets: &Secrets) {
        self.0.borrow_mut().answer.authorized(secrets);
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        // Only the useful ones; they are gone once the client's head was written, so that a stream holds none.
        let Head { status, version, .. } = *head;
        let mut body = self.0.borrow_mut();
        let mut headers = forwarded_headers(&head.headers, body.answer.redactor().secrets());
        if status == StatusCode::SWITCHING_PROTOCOLS {
            body.check_upgrade(head, &mut headers);
        }
        body.answer.set_head(Head { status, version, headers });
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        self.0.borrow_mut().read(at, bytes);
    }

    fn unsealed(&mut self) {
        self.0.borrow_mut().answer.set_unsealed();
    }

    fn upgraded(&mut self, connection: Upgraded) {
        let mut body = self.0.borrow_mut();
        if matches!(body.reader, BodyReader::Upgrade { is_accepted: true, .. }) {
            body.race_events.push(StreamEvent { at: connection.read_at(), kind: EventKind::Opaque });
            body.connection = Some((connection, ConnectionUse::default()));
        }
    }

    fn is_full(&self) -> bool {
        let body = self.0.borrow();
        body.is_forwarded && body.ready.len() >= MAX_READY_BYTES
    }
}

impl Recipient for BodySink {
    fn last_sent_at(&self) -> Option<Tick> {
        self.0.borrow().answer.last_sent_at()
    }

    fn has_head(&self) -> bool {
        self.0.borrow().answer.head().is_some()
    }

    fn sent_into_closed_connection(&mut self) {
        self.0.borrow_mut().answer.begin_again();
    }
}
