//! What comes back from a lane: bytes ready for the client, events for the race, numbers for the log.
//!
//! It refuses to decide what is done with any of it. Invariant: in the same dialect the bytes are the lane's own, in order,
//! once; what came in one read lies there together, so that it can go out in one write.

use crate::heading::useful;
use bytes::Bytes;
use serde::Deserialize;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokrate_core::{EventBatch, FailureKind, Oddity, StreamEvent, TextRange, Tick, Usage, What, one_line};
use tokrate_meter::{Ending, Failure, LiveMeter, LiveNumbers, TEXT_BYTES_MOST, Timing};
use tokrate_net::server::{ByteBudget, ByteShare};
use tokrate_net::{Departure, ExchangeFailure, Head, Redactor, Sink};
use tokrate_wire::{AnswerTranslator, Decoder, Dialect, Passage, Shape, UsageFilter, error_event};

/// Largest part of an error answer that is kept to be understood and handed on.
pub(crate) const REFUSAL_BYTES_MOST: usize = 64 * 1024;

/// Longest message of a provider that is kept (bytes): one that is longer was made to be read by nobody.
const MESSAGE_BYTES_MOST: usize = 500;

/// With so many bytes ready for the client nothing further is read of a stream before they were taken: one read's.
const READY_BYTES_MOST: usize = 64 * 1024;

/// So much an answer may hold without being counted: what a stream holds that is handed on as it comes.
const UNCOUNTED_BYTES_MOST: usize = 2 * READY_BYTES_MOST;

/// How the body of an answer is read.
pub(crate) enum Reader {
    /// Handed on as it comes, and decoded beside; some of the gateway's own asking may be taken out.
    Same { decoder: Box<Decoder>, filter: Option<Box<UsageFilter>> },
    /// Written anew in the client's dialect.
    Translated(Box<AnswerTranslator>),
    /// Handed on, and not understood.
    Opaque,
}

/// What lay ready, on its way to the client.
struct Taken {
    ready: Vec<u8>,
    _share: ByteShare,
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        &self.ready
    }
}

/// An answer that broke off, as its client is told.
pub(crate) struct Broken<'a> {
    pub dialect: Dialect,
    pub shape: Shape,
    pub kind: FailureKind,
    pub message: &'a str,
}

/// What has come of one attempt.
pub(crate) struct Inbox {
    /// The head of the answer.
    pub head: Option<Head>,
    /// When the request's last byte had been handed to the socket.
    departure: Option<Departure>,
    /// When the first byte of the body came, and the last.
    pub first_byte_at: Option<Tick>,
    pub last_byte_at: Option<Tick>,
    /// The numbers.
    pub meter: LiveMeter,
    /// The body of an answer with an error status.
    pub refused: Vec<u8>,
    /// Events since the race was told: the first one with content, every end and failure, and the latest of each read.
    news: Vec<StreamEvent>,
    has_content: bool,
    /// Whether further answers came beside the first, which alone is measured.
    pub has_further_answers: bool,
    ready: Vec<u8>,
    /// Of what all answers may hold, this one's part; none for one that nobody limits.
    share: Option<ByteShare>,
    /// Whether it was to hold more than there was room for; it takes nothing more.
    pub has_no_room: bool,
    /// Whether somebody takes what lies ready as it comes.
    pub is_handed_on: bool,
    /// Whether the race was told that the answer cannot be translated.
    has_told_fault: bool,
    text: Option<String>,
    reader: Reader,
    /// Through it goes every byte of the lane before anything else is done with it.
    redactor: Redactor,
    batch: Rc<RefCell<EventBatch>>,
}

impl Inbox {
    /// An empty one; `batch` is lent by the worker, which reads one piece at a time.
    pub fn new(reader: Reader, batch: Rc<RefCell<EventBatch>>) -> Inbox {
        Inbox {
            head: None,
            departure: None,
            first_byte_at: None,
            last_byte_at: None,
            meter: LiveMeter::new(),
            refused: Vec::new(),
            news: Vec::new(),
            has_content: false,
            has_further_answers: false,
            ready: Vec::new(),
            share: None,
            has_no_room: false,
            is_handed_on: false,
            has_told_fault: false,
            text: None,
            reader,
            redactor: Redactor::default(),
            batch,
        }
    }

    /// The same, taking out of what comes what may never be shown.
    pub fn guarded(self, redactor: Redactor) -> Inbox {
        Inbox { redactor, ..self }
    }

    /// The same, holding no more of its answer than there is room for.
    pub fn within(self, answers: &Arc<ByteBudget>) -> Inbox {
        Inbox { share: Some(answers.share()), ..self }
    }

    /// When the request's last byte had been handed to the socket; of a request that was sent again, the last time.
    pub fn sent_at(&self) -> Option<Tick> {
        self.departure.as_ref().and_then(|departure| departure.get())
    }

    /// Whether the answer is handed on without being understood: embeddings.
    pub fn is_opaque(&self) -> bool {
        matches!(self.reader, Reader::Opaque)
    }

    /// Whether the lane said 2xx.
    pub fn is_good(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.status.is_success())
    }

    /// Takes the bytes that lie ready.
    pub fn take_ready(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            return None;
        }
        let ready = std::mem::take(&mut self.ready);
        let Some(share) = self.share.as_mut().filter(|share| share.bytes() > 0) else {
            return Some(Bytes::from(ready));
        };
        // They are held until the client has taken them.
        let taken = share.split(ready.len());
        Some(Bytes::from_owner(Taken { ready, _share: taken }))
    }

    /// What a client that had seen the beginning of the answer is to be told of its end; `tail` is the end of what it got.
    pub fn break_off(&mut self, told: &Broken<'_>, tail: &[u8]) -> Vec<u8> {
        match &mut self.reader {
            Reader::Translated(translator) => {
                let mut out = Vec::new();
                translator.break_off(told.kind, told.message, &mut out);
                out
            }
            _ => error_event(told.dialect, told.shape, told.kind, told.message, tail),
        }
    }

    /// Takes the events that the race has to hear of.
    pub fn take_news(&mut self) -> impl Iterator<Item = StreamEvent> {
        self.news.drain(..)
    }

    /// The numbers of an answer that has ended; `timing` is completed with what is known here. To be called once.
    pub fn measure(&mut self, timing: Timing, ending: Ending) -> LiveNumbers {
        let timing = Timing { sent_at: self.sent_at(), first_byte_at: self.first_byte_at, ..timing };
        let is_opaque_and_whole = matches!((&self.reader, &ending), (Reader::Opaque, Ending::Complete));
        let mut measured = std::mem::replace(&mut self.meter, LiveMeter::without_tokens()).finish(&timing, ending);
        if is_opaque_and_whole {
            // What is not understood is whole if HTTP says so; its token counts are looked for all the same.
            measured.failure = None;
            (measured.usage, measured.model) = self.embedding_usage();
        }
        if measured.failure.is_none()
            && let Some(Ending::Failed { kind, message, retry_after }) = self.fault()
        {
            // The lane's stream was well; what the client was to get of it is not.
            measured.failure = Some(Failure { kind, message, retry_after });
        }
        // Here words of the lane become ours: of the log, of messages, of the page.
        let secrets = self.redactor.secrets();
        measured.model = measured.model.map(|model| one_line(&secrets.redacted(model), TEXT_BYTES_MOST));
        if let Some(failure) = &mut measured.failure {
            let said = std::mem::take(&mut failure.message);
            failure.message = one_line(&secrets.redacted(said), MESSAGE_BYTES_MOST);
        }
        measured
    }

    /// How the answer turned out to be one that the client's dialect cannot say, or that nobody can read.
    pub fn fault(&self) -> Option<Ending> {
        let Reader::Translated(translator) = &self.reader else { return None };
        let (kind, message) = translator.fault()?;
        Some(Ending::Failed { kind, message: message.to_owned(), retry_after: None })
    }

    /// What a whole answer with embeddings says of its tokens and its model.
    fn embedding_usage(&self) -> (Usage, Option<String>) {
        #[derive(Default, Deserialize)]
        struct Counts {
            prompt_tokens: Option<u64>,
        }
        #[derive(Default, Deserialize)]
        struct Embeddings {
            model: Option<String>,
            #[serde(default)]
            usage: Counts,
        }
        let said: Embeddings = serde_json::from_slice(&self.ready).unwrap_or_default();
        let input = said.usage.prompt_tokens;
        // Embeddings have no output tokens, which is known as soon as the input is.
        let usage = Usage { input, ..Usage::default() }.possible();
        (Usage { output: usage.input.map(|_| 0), ..usage }, said.model)
    }

    /// Keeps the answer's text, thinking included, for somebody who wants to see it.
    pub fn keeping_text(mut self) -> Inbox {
        self.text = Some(String::new());
        self
    }

    /// The text so far, if it is kept.
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// How an exchange ended, as the meter wants to know it.
    pub fn ending_of(&self, outcome: Result<(), ExchangeFailure>) -> Ending {
        let refused = self.head.as_ref().filter(|head| !head.status.is_success());
        match (outcome, refused) {
            (_, Some(head)) => {
                let headers = head.headers.iter();
                let headers: Vec<(&str, &str)> =
                    headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
                let refusal = tokrate_wire::refusal(head.status.as_u16(), &headers, &self.refused);
                Ending::Failed { kind: refusal.kind, message: refusal.message, retry_after: refusal.retry_after }
            }
            (Err(failure), None) => Ending::Failed { kind: failure.kind, message: failure.detail, retry_after: None },
            (Ok(()), None) => self.fault().unwrap_or(Ending::Complete),
        }
    }

    /// The answer ended, well or not: what the decoder still holds is said. To be called once.
    pub fn end(&mut self, at: Tick) {
        let at = self.last_byte_at.unwrap_or(at);
        let held = self.redactor.end();
        if !held.is_empty() {
            self.take(at, &held);
        }
        if self.first_byte_at.is_none() || !self.is_good() {
            return;
        }
        let batch = Rc::clone(&self.batch);
        let mut batch = batch.borrow_mut();
        match &mut self.reader {
            Reader::Same { decoder, filter } => {
                decoder.end(at, &mut batch);
                if let Some(filter) = filter {
                    filter.end(&mut self.ready);
                }
            }
            Reader::Translated(translator) => {
                translator.end(at, &mut self.ready, &mut batch);
            }
            Reader::Opaque => {}
        }
        self.hear(&mut batch);
    }

    fn read(&mut self, at: Tick, bytes: &[u8]) {
        self.first_byte_at.get_or_insert(at);
        self.last_byte_at = Some(at);
        if self.has_no_room {
            return;
        }
        let clean = self.redactor.push(bytes);
        self.take(at, &clean);
    }

    /// Takes bytes without any secret.
    fn take(&mut self, at: Tick, bytes: &[u8]) {
        if !self.is_good() {
            let room = REFUSAL_BYTES_MOST - self.refused.len();
            return self.refused.extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
        let batch = Rc::clone(&self.batch);
        let mut batch = batch.borrow_mut();
        match &mut self.reader {
            Reader::Same { decoder, filter } => {
                decoder.push(at, bytes, &mut batch);
                let passage = filter.as_mut().map_or(Passage::AsItCame, |filter| filter.push(bytes, &mut self.ready));
                if passage == Passage::AsItCame {
                    self.ready.extend_from_slice(bytes);
                }
            }
            Reader::Translated(translator) => translator.push(at, bytes, &mut self.ready, &mut batch),
            Reader::Opaque => self.ready.extend_from_slice(bytes),
        }
        self.hear(&mut batch);
        self.tell_fault(at);
        self.keep_within();
    }

    /// Counts what is held; gives it all up when there is no room for it.
    fn keep_within(&mut self) {
        let Some(share) = &mut self.share else { return };
        let held = self.ready.len()
            + match &self.reader {
                Reader::Same { decoder, .. } => decoder.held_bytes(),
                Reader::Translated(translator) => translator.held_bytes(),
                Reader::Opaque => 0,
            };
        let counted = if held > UNCOUNTED_BYTES_MOST { held } else { 0 };
        if counted != share.bytes() && !share.resize(counted) {
            self.has_no_room = true;
            self.ready = Vec::new();
            self.reader = Reader::Opaque;
            let _ = share.resize(0);
        }
    }

    /// Lets the race hear of an answer that cannot be translated: no end mark makes that good.
    pub fn tell_fault(&mut self, at: Tick) {
        let Reader::Translated(translator) = &self.reader else { return };
        let Some((kind, _)) = translator.fault().filter(|_| !self.has_told_fault) else { return };
        self.has_told_fault = true;
        let what = What::Failed { kind, message: TextRange::default(), retry_after: None };
        self.news.push(StreamEvent { at, what });
    }

    fn hear(&mut self, batch: &mut EventBatch) {
        self.meter.on(batch);
        let last = batch.events().len().saturating_sub(1);
        for (place, event) in batch.events().iter().enumerate() {
            let is_news = match event.what {
                What::Text { .. } | What::ToolCall { .. } | What::Opaque => {
                    !std::mem::replace(&mut self.has_content, true)
                }
                What::Finish(_) | What::Failed { .. } => true,
                _ => false,
            };
            self.has_further_answers |= event.what == What::Odd(Oddity::ExtraChoice);
            if is_news || place == last {
                self.news.push(*event);
            }
        }
        if let Some(kept) = &mut self.text {
            for event in batch.events() {
                if let What::Text { text, .. } = event.what {
                    kept.push_str(batch.text(text));
                }
            }
        }
        batch.clear();
    }
}

/// The sink of one exchange.
pub(crate) struct Receiving(pub Rc<RefCell<Inbox>>);

impl Sink for Receiving {
    fn begin(&mut self, departure: &Departure) {
        self.0.borrow_mut().departure = Some(Rc::clone(departure));
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        // Copies of what is of use, without the buffer that they came in: a stream stays open for long.
        let Head { status, version, .. } = *head;
        let mut inbox = self.0.borrow_mut();
        let headers = useful(&head.headers, inbox.redactor.secrets());
        inbox.head = Some(Head { status, version, headers });
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        self.0.borrow_mut().read(at, bytes);
    }

    fn is_full(&self) -> bool {
        let inbox = self.0.borrow();
        inbox.is_handed_on && inbox.ready.len() >= READY_BYTES_MOST
    }
}
