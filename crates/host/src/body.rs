//! Response bodies: what the engine emits, encoded in the dialect and cut into frames.
//!
//! Invariant: everything that is due when an answer wakes goes into one frame, up to [`FRAME_BYTES`], and every frame is marked for the
//! truth log before it is handed out.

use crate::asked::Content;
use crate::driver::AnswerHandle;
use crate::pictures::PictureWriter;
use crate::sound::SoundWriter;
use crate::transcript::TranscriptWriter;
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
use tokrate_wire::{Answer, Dialect, Encoder, Framing, Piece, Shape, ToolCall};

/// A frame of this size takes no further emission.
const FRAME_BYTES: usize = 64 * 1024;
/// Malformed events for the fault of that name, by framing.
const MALFORMED_EVENT: &[u8] = b"data: {\"id\":\"broken\",\"choices\":[{\"index\":0,\"delta\":{\"content\": \"\n\n";
/// A message of AWS's event stream that holds nothing; its last checksum is wrong.
const MALFORMED_MESSAGE: &[u8] = b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\x00";
const MALFORMED_LINE: &[u8] = b"{\"model\":\"broken\",\"message\":{\"content\": \"\n";
const MALFORMED_ELEMENT: &[u8] = b",\n{\"candidates\": broken}";

/// Body of any response of the host.
pub(crate) enum AnswerBody {
    /// Known from the start.
    Plain(Option<Bytes>),
    /// An unstreamed answer of the engine.
    FullBody(Option<FullBody>),
    /// A streamed answer of the engine.
    Stream(Box<Stream>),
    /// Aborts the connection.
    Broken,
}

/// An unstreamed answer whose write is logged.
pub(crate) struct FullBody {
    pub bytes: Bytes,
    pub write: WriteTruth,
    pub handle: AnswerHandle,
    pub tap: Rc<ConnectionTap>,
}

/// A streamed answer.
pub(crate) struct Stream {
    handle: AnswerHandle,
    tap: Rc<ConnectionTap>,
    writer: BodyWriter,
    scratch: Rc<Scratch>,
    sequence: u32,
    outcome: Option<Outcome>,
    /// Kinds of emissions that the dialect merges into a later event.
    held_kinds: Kinds,
}

/// Makes bytes of emissions.
pub(crate) enum BodyWriter {
    /// Text in a dialect.
    Dialect(DialectWriter),
    /// Images.
    Pictures(PictureWriter),
    /// Sound.
    Sound(SoundWriter),
    /// What was heard.
    Transcript(TranscriptWriter),
}

impl BodyWriter {
    /// Appends an emission, possibly nothing.
    fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>, text: &mut String) {
        match self {
            BodyWriter::Dialect(writer) => writer.write(what, bytes, text),
            BodyWriter::Pictures(writer) => writer.write(what, bytes),
            BodyWriter::Sound(writer) => writer.write(what, bytes),
            BodyWriter::Transcript(writer) => writer.write(what, bytes),
        }
    }

    fn writes_timings(&self) -> bool {
        matches!(self, BodyWriter::Dialect(writer) if writer.timings)
    }
}

/// Encodes emissions in a dialect.
pub(crate) struct DialectWriter {
    pub encoder: Encoder,
    /// Written for a malformed event.
    pub malformed: &'static [u8],
    /// Whether server timings are written.
    pub timings: bool,
    /// What is written in place of words.
    content: Option<Content>,
}

impl DialectWriter {
    /// For a dialect and shape; `timings` where the dialect or the engine sends them.
    pub fn new(dialect: Dialect, shape: Shape, encoder: Encoder, timings: bool) -> DialectWriter {
        let malformed = match dialect.framing(shape) {
            Some(Framing::Lines) => MALFORMED_LINE,
            Some(Framing::Array) => MALFORMED_ELEMENT,
            Some(Framing::EventStream) => MALFORMED_MESSAGE,
            Some(Framing::Sse) | None => MALFORMED_EVENT,
        };
        DialectWriter { encoder, malformed, timings, content: None }
    }

    /// With content in place of words.
    pub fn with_content(self, content: Option<Content>) -> DialectWriter {
        DialectWriter { content, ..self }
    }

    /// Appends an emission in the dialect, possibly nothing.
    fn write(&mut self, what: Emitted, bytes: &mut Vec<u8>, text: &mut String) {
        let piece = match what {
            Emitted::Role => Piece::Role,
            Emitted::Text { channel: Channel::Answer, words } if self.content.is_some() => {
                let (content, encoder) = (self.content.as_mut().expect("there is some"), &mut self.encoder);
                return content.take(words.count(), |piece| encoder.encode_event(piece, bytes));
            }
            Emitted::Text { channel, words } => {
                text.clear();
                words.push_to(text);
                Piece::Text { channel, text }
            }
            Emitted::Malformed => return bytes.extend_from_slice(self.malformed),
            Emitted::Finish(finish) => {
                Piece::Finish(self.content.as_ref().map_or(finish, |content| content.finish(finish)))
            }
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
            AnswerBody::FullBody(whole) => Poll::Ready(whole.take().map(|whole| Ok(Frame::data(whole.dispatch())))),
            AnswerBody::Stream(stream) => stream.poll_frame(context),
            AnswerBody::Broken => Poll::Ready(Some(Err(broken()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Plain(bytes) => bytes.is_none(),
            AnswerBody::FullBody(whole) => whole.is_none(),
            AnswerBody::Stream(stream) => stream.outcome == Some(Outcome::Complete),
            AnswerBody::Broken => false,
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            AnswerBody::Plain(Some(bytes)) => http_body::SizeHint::with_exact(bytes.len() as u64),
            AnswerBody::FullBody(Some(whole)) => http_body::SizeHint::with_exact(whole.bytes.len() as u64),
            _ => http_body::SizeHint::default(),
        }
    }
}

impl FullBody {
    fn dispatch(self) -> Bytes {
        let answer = self.handle.frame(self.write);
        self.tap.mark(answer, u64::from(self.write.sequence));
        self.handle.end(AnswerEnd::Complete);
        self.bytes
    }
}

impl Stream {
    pub fn new(handle: AnswerHandle, tap: Rc<ConnectionTap>, writer: BodyWriter, scratch: Rc<Scratch>) -> Stream {
        Stream { handle, tap, writer, scratch, sequence: 0, outcome: None, held_kinds: Kinds::default() }
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
        // Emissions without bytes in the dialect make no frame.
        while bytes.is_empty() {
            match self.outcome {
                Some(Outcome::Complete) => {
                    self.handle.end(AnswerEnd::Complete);
                    return Poll::Ready(None);
                }
                Some(Outcome::Disconnected) => return self.poll_break(context),
                None if self.handle.is_waiting(context) => return Poll::Pending,
                None => self.fill(&mut write, &mut bytes, &mut text),
            }
        }
        if self.outcome == Some(Outcome::Complete) {
            self.handle.end(AnswerEnd::Complete);
        }
        write.bytes = bytes.len() as u32;
        self.sequence += 1;
        let answer = self.handle.frame(write);
        self.tap.mark(answer, u64::from(write.sequence));
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&bytes)))))
    }

    /// Encodes pending emissions, up to the size of a frame.
    fn fill(&mut self, write: &mut WriteTruth, bytes: &mut Vec<u8>, text: &mut String) {
        let Stream { handle, writer, outcome, held_kinds, .. } = self;
        handle.take(|emission| {
            if let Emitted::End(end) = emission.what {
                *outcome = Some(end);
                return false;
            }
            let before = bytes.len();
            writer.write(emission.what, bytes, text);
            let kind = kind_of(emission.what, writer.writes_timings());
            if bytes.len() == before {
                *held_kinds = held_kinds.with(kind);
            } else {
                tally(write, emission, kind.with(std::mem::take(held_kinds)));
            }
            bytes.len() < FRAME_BYTES
        });
    }

    /// Aborts the connection after all earlier frames were written: an error of the body discards what is buffered.
    fn poll_break(&self, context: &Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.handle.is_writing(context) {
            return Poll::Pending;
        }
        self.handle.end(AnswerEnd::Disconnected);
        Poll::Ready(Some(Err(broken())))
    }
}

/// An unstreamed answer while it is collected.
#[derive(Default)]
pub(crate) struct Collected {
    reasoning: String,
    answer: String,
    answer_tokens: u32,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    timings: Option<ServerTimings>,
    malformed: bool,
    /// The error that replaced the answer.
    pub failed: Option<&'static str>,
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
    tally: Option<WriteTruth>,
}

impl Collected {
    /// Adds an emission.
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
        tally_full(tally, emission);
        match emission.what {
            Emitted::Text { channel: Channel::Reasoning, words } => words.push_to(&mut self.reasoning),
            Emitted::Text { words, .. } => {
                self.answer_tokens += words.count();
                words.push_to(&mut self.answer);
            }
            Emitted::Malformed => self.malformed = true,
            Emitted::Finish(finish) => self.finish = Some(finish),
            Emitted::Usage(usage) => self.usage = Some(usage),
            Emitted::Failed { message } => self.failed = Some(message),
            Emitted::End(outcome) => self.outcome = Some(outcome),
            Emitted::Timings(timings) => self.timings = Some(reported(timings)),
            Emitted::Role | Emitted::Done => {}
        }
    }

    /// The write of a body of that many bytes that was made elsewhere.
    pub fn write(self, bytes: usize) -> Option<WriteTruth> {
        self.tally.map(|tally| WriteTruth { bytes: bytes as u32, events: 1, ..tally })
    }

    /// What was answered, without reasoning.
    pub fn text(&self) -> &str {
        &self.answer
    }

    /// Token counts.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The answer's body and its write.
    pub fn finish(mut self, mut writer: DialectWriter) -> (Bytes, Option<WriteTruth>) {
        let mut finish = self.finish.unwrap_or(FinishReason::Stop);
        let mut calls = Vec::new();
        if let Some(content) = &mut writer.content {
            content.take(self.answer_tokens, |_| {});
            (self.answer, calls) = content.written();
            finish = content.finish(finish);
        }
        let tools: Vec<ToolCall<'_>> =
            calls.iter().map(|call| ToolCall { id: &call.id, name: &call.name, arguments: &call.arguments }).collect();
        let answer = Answer {
            reasoning: &self.reasoning,
            answer: &self.answer,
            tools: &tools,
            finish,
            usage: self.usage,
            timings: self.timings.filter(|_| writer.timings),
        };
        let mut bytes = writer.encoder.encode_whole(&answer);
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

/// An unstreamed answer is due when its last part is.
fn tally_full(write: &mut WriteTruth, emission: &Emission) {
    // Timings are part of the document here, not an event of their own.
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

/// Engine timings as a server reports them.
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
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was aborted by a fault")
}
