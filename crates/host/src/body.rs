//! Bodies of answers: what the engine says, spelled in the dialect and cut into frames.
//!
//! It refuses to know time: emissions come when they are due. Invariant: everything due at one wake of an answer goes into
//! one frame, up to [`FRAME_BYTES`], and every frame is marked for the truth log before it is handed out.

use crate::driver::Ticket;
use crate::truth::{AnswerEnd, Kinds, WriteTruth};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokrate_core::{Channel, FinishReason, ServerTimings, Tick, Usage};
use tokrate_net::server::ConnectionTap;
use tokrate_sim::{Emission, Emitted, Outcome, Timings};
use tokrate_wire::{Answer, Dialect, Encoder, Framing, Piece, Shape};

/// A frame that has reached this size takes nothing more.
const FRAME_BYTES: usize = 64 * 1024;
/// What is written in place of an event, for each framing.
const MALFORMED_EVENT: &[u8] = b"data: {\"id\":\"broken\",\"choices\":[{\"index\":0,\"delta\":{\"content\": \"\n\n";
const MALFORMED_LINE: &[u8] = b"{\"model\":\"broken\",\"message\":{\"content\": \"\n";
const MALFORMED_ELEMENT: &[u8] = b",\n{\"candidates\": broken}";

/// The body of any answer of the host.
pub(crate) enum AnswerBody {
    /// Known from the start.
    Plain(Option<Bytes>),
    /// A whole answer of the engine.
    Whole(Option<Whole>),
    /// A streamed answer of the engine.
    Stream(Box<Stream>),
    /// Breaks the connection.
    Broken,
}

/// A whole answer whose write is logged.
pub(crate) struct Whole {
    pub bytes: Bytes,
    pub write: WriteTruth,
    pub ticket: Ticket,
    pub tap: Rc<ConnectionTap>,
}

/// A streamed answer.
pub(crate) struct Stream {
    ticket: Ticket,
    tap: Rc<ConnectionTap>,
    scribe: Scribe,
    scratch: Rc<Scratch>,
    sequence: u32,
    outcome: Option<Outcome>,
    /// What the dialect holds back until a later event.
    held: Kinds,
}

/// Spells what an engine says.
pub(crate) struct Scribe {
    pub encoder: Encoder,
    /// Written for an event that is broken.
    pub malformed: &'static [u8],
    /// Whether the engine's times are written.
    pub timings: bool,
}

impl Scribe {
    /// For a dialect and shape; `timings` where the dialect or the engine sends them.
    pub fn new(dialect: Dialect, shape: Shape, encoder: Encoder, timings: bool) -> Scribe {
        let malformed = match dialect.framing(shape) {
            Some(Framing::Lines) => MALFORMED_LINE,
            Some(Framing::Array) => MALFORMED_ELEMENT,
            Some(Framing::Sse) | None => MALFORMED_EVENT,
        };
        Scribe { encoder, malformed, timings }
    }

    /// Appends what an emission is in the dialect, which may be nothing.
    fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>, text: &mut String) {
        let piece = match what {
            Emitted::Role => Piece::Role,
            Emitted::Text { channel, words } => {
                text.clear();
                words.push_to(text);
                Piece::Text { channel, text }
            }
            Emitted::Malformed => return bytes.extend_from_slice(self.malformed),
            Emitted::Finish(finish) => Piece::Finish(finish),
            Emitted::Usage(usage) => Piece::Usage(usage),
            Emitted::Timings(timings) if self.timings => Piece::Timings(reported(timings)),
            Emitted::Done => Piece::Done,
            Emitted::Failed { message } => Piece::Failed { message },
            Emitted::Timings(_) | Emitted::End(_) => return,
        };
        self.encoder.encode_event(&piece, bytes);
    }
}

/// Buffers that all streams of a host share.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    bytes: RefCell<Vec<u8>>,
    text: RefCell<String>,
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            AnswerBody::Plain(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            AnswerBody::Whole(whole) => Poll::Ready(whole.take().map(|whole| Ok(Frame::data(whole.hand_out())))),
            AnswerBody::Stream(stream) => stream.poll_frame(context),
            AnswerBody::Broken => Poll::Ready(Some(Err(broken()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Plain(bytes) => bytes.is_none(),
            AnswerBody::Whole(whole) => whole.is_none(),
            AnswerBody::Stream(stream) => stream.outcome == Some(Outcome::Complete),
            AnswerBody::Broken => false,
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            AnswerBody::Plain(Some(bytes)) => http_body::SizeHint::with_exact(bytes.len() as u64),
            AnswerBody::Whole(Some(whole)) => http_body::SizeHint::with_exact(whole.bytes.len() as u64),
            _ => http_body::SizeHint::default(),
        }
    }
}

impl Whole {
    fn hand_out(self) -> Bytes {
        let answer = self.ticket.frame(self.write);
        self.tap.mark(answer, u64::from(self.write.sequence));
        self.ticket.end(AnswerEnd::Complete);
        self.bytes
    }
}

impl Stream {
    pub fn new(ticket: Ticket, tap: Rc<ConnectionTap>, scribe: Scribe, scratch: Rc<Scratch>) -> Stream {
        Stream { ticket, tap, scribe, scratch, sequence: 0, outcome: None, held: Kinds::default() }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let scratch = Rc::clone(&self.scratch);
        let (mut bytes, mut text) = (scratch.bytes.borrow_mut(), scratch.text.borrow_mut());
        bytes.clear();
        let mut write = WriteTruth {
            sequence: self.sequence,
            due_at: Tick::MAX,
            written_at: Tick::ZERO,
            tokens: 0,
            events: 0,
            kinds: Kinds::default(),
            bytes: 0,
        };
        // What a dialect has no bytes for makes no frame.
        while bytes.is_empty() {
            match self.outcome {
                Some(Outcome::Complete) => {
                    self.ticket.end(AnswerEnd::Complete);
                    return Poll::Ready(None);
                }
                Some(Outcome::Disconnected) => return self.poll_break(context),
                None if self.ticket.is_waiting(context) => return Poll::Pending,
                None => self.gather(&mut write, &mut bytes, &mut text),
            }
        }
        if self.outcome == Some(Outcome::Complete) {
            self.ticket.end(AnswerEnd::Complete);
        }
        write.bytes = bytes.len() as u32;
        self.sequence += 1;
        let answer = self.ticket.frame(write);
        self.tap.mark(answer, u64::from(write.sequence));
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&bytes)))))
    }

    /// Spells what is there, up to the size of a frame.
    fn gather(&mut self, write: &mut WriteTruth, bytes: &mut Vec<u8>, text: &mut String) {
        let Stream { ticket, scribe, outcome, held, .. } = self;
        ticket.take(|emission| {
            if let Emitted::End(end) = emission.what {
                *outcome = Some(end);
                return false;
            }
            let before = bytes.len();
            scribe.write(emission.what, bytes, text);
            let kind = kind_of(emission.what, scribe.timings);
            if bytes.len() == before {
                *held = held.with(kind);
            } else {
                tally(write, emission, kind.with(std::mem::take(held)));
            }
            bytes.len() < FRAME_BYTES
        });
    }

    /// Breaks the connection once everything before is on its way: an error of the body discards what is buffered.
    fn poll_break(&self, context: &Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.ticket.is_writing(context) {
            return Poll::Pending;
        }
        self.ticket.end(AnswerEnd::Disconnected);
        Poll::Ready(Some(Err(broken())))
    }
}

/// A whole answer while it is collected.
#[derive(Default)]
pub(crate) struct Collected {
    reasoning: String,
    answer: String,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    timings: Option<ServerTimings>,
    malformed: bool,
    /// The error that took the answer's place.
    pub failed: Option<&'static str>,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    tally: Option<WriteTruth>,
}

impl Collected {
    /// Takes one emission.
    pub fn add(&mut self, emission: &Emission) {
        let tally = self.tally.get_or_insert(WriteTruth {
            sequence: 0,
            due_at: emission.due,
            written_at: Tick::ZERO,
            tokens: 0,
            events: 0,
            kinds: Kinds::default(),
            bytes: 0,
        });
        tally_whole(tally, emission);
        match emission.what {
            Emitted::Text { channel: Channel::Reasoning, words } => words.push_to(&mut self.reasoning),
            Emitted::Text { words, .. } => words.push_to(&mut self.answer),
            Emitted::Malformed => self.malformed = true,
            Emitted::Finish(finish) => self.finish = Some(finish),
            Emitted::Usage(usage) => self.usage = Some(usage),
            Emitted::Failed { message } => self.failed = Some(message),
            Emitted::End(outcome) => self.outcome = Some(outcome),
            Emitted::Timings(timings) => self.timings = Some(reported(timings)),
            Emitted::Role | Emitted::Done => {}
        }
    }

    /// The answer's body and its write.
    pub fn finish(self, scribe: &Scribe) -> (Bytes, Option<WriteTruth>) {
        let finish = self.finish.unwrap_or(FinishReason::Stop);
        let answer = Answer {
            reasoning: &self.reasoning,
            answer: &self.answer,
            tools: &[],
            finish,
            usage: self.usage,
            timings: self.timings.filter(|_| scribe.timings),
        };
        let mut bytes = scribe.encoder.encode_whole(&answer);
        if self.malformed {
            bytes.truncate(bytes.len() / 2);
        }
        let write = self.tally.map(|tally| WriteTruth { bytes: bytes.len() as u32, events: 1, ..tally });
        (Bytes::from(bytes), write)
    }
}

fn tally(write: &mut WriteTruth, emission: &Emission, kinds: Kinds) {
    write.due_at = write.due_at.min(emission.due);
    write.events += 1;
    write.kinds = write.kinds.with(kinds);
    if let Emitted::Text { words, .. } = emission.what {
        write.tokens += words.count();
    }
}

/// A whole answer is due when its last part is.
fn tally_whole(write: &mut WriteTruth, emission: &Emission) {
    // Which times are written is for the scribe to say; here they are nothing of their own.
    tally(write, emission, kind_of(emission.what, false));
    write.due_at = emission.due;
}

fn kind_of(what: Emitted, timings: bool) -> Kinds {
    match what {
        Emitted::Timings(_) if timings => Kinds::TIMINGS,
        Emitted::Role => Kinds::ROLE,
        Emitted::Text { channel: Channel::Reasoning, .. } => Kinds::REASONING,
        Emitted::Text { .. } => Kinds::TEXT,
        Emitted::Malformed => Kinds::MALFORMED,
        Emitted::Finish(_) => Kinds::FINISH,
        Emitted::Usage(_) => Kinds::USAGE,
        Emitted::Done => Kinds::DONE,
        Emitted::Failed { .. } => Kinds::FAILED,
        Emitted::Timings(_) | Emitted::End(_) => Kinds::default(),
    }
}

/// The engine's times as a server tells them.
fn reported(timings: Timings) -> ServerTimings {
    ServerTimings {
        queue: Some(timings.queue),
        load: None,
        prefill: Some(timings.prefill),
        decode: Some(timings.decode),
        total: Some(timings.total()),
        prefill_tokens: Some(u64::from(timings.input_tokens)),
        decode_tokens: Some(u64::from(timings.output_tokens)),
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "a fault breaks the connection")
}
