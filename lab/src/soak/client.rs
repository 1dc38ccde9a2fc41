//! One client: sends its request, reads the response as its task says, and reports the outcome.
//!
//! Invariant: an answer that ended in any other way than whole or with one clear error in the client's dialect is a
//! violation, and so is one that did not end in time.

use super::gateway::CALL_TIMEOUT;
use super::plan::{ClientDialect, InvalidRequest, Purpose, ReadMode, Task};
use super::response::{DecodedResponse, decode_body, decode_stream};
use crate::bench::AnswerReader;
use crate::bench::clock::now;
use crate::bench::stream::{Stream, Tls, connect};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// An answer that has not ended this long after the gateway's own limit hangs.
const HANG_TIMEOUT: Duration = Duration::from_secs(CALL_TIMEOUT.as_secs() + 10);
/// Connections idle for longer are not reused: the gateway may be about to close them (ns).
const MAX_IDLE_NS: u64 = 1_000_000_000;
/// A slow reader reads this much at a time, with these pauses, into a receive buffer of this size.
const SLOW_READ_BYTES: usize = 512;
const SLOW_READ_PAUSE: Duration = Duration::from_millis(15);
const SLOW_READ_BUFFER: usize = 4096;

/// Where the gateway is, and how it is spoken to.
#[derive(Clone)]
pub struct Door {
    pub address: SocketAddr,
    pub tls: Option<Tls>,
}

/// The outcome of a task.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// A whole answer, with the number of events that were no JSON.
    Whole { text: String, has_end_marker: bool, malformed: usize },
    /// Its beginning, and one error.
    Broken { text: String, error: String },
    /// One error in place of an answer.
    Refused { status: u16, message: String },
    /// The client disconnected after this much text.
    Disconnected { text: String },
    /// The client disconnected before the response head.
    DisconnectedBeforeHead,
    /// A form was taken, byte for byte.
    Stored { bytes: u64 },
    /// An invalid request or a list of models, answered as expected.
    AsExpected,
}

/// The result of a task.
#[derive(Clone, Debug)]
pub struct ClientResult {
    pub task: Task,
    /// The call's name from the response head.
    pub call: Option<String>,
    /// The lane that the head named.
    pub winner: Option<String>,
    /// The outcome, or how the promise was broken.
    pub outcome: Result<Outcome, String>,
}

/// Connections that can be used again.
#[derive(Default)]
pub struct Connections(Mutex<Vec<(Stream, u64)>>);

impl Connections {
    fn take(&self) -> Option<Stream> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, since) = idle.pop()?;
        if now() - since > MAX_IDLE_NS {
            // The others are older still.
            idle.clear();
            return None;
        }
        Some(stream)
    }

    fn keep(&self, stream: Stream) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((stream, now()));
    }
}

/// How reading ended.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Whole,
    Truncated,
    Disconnected,
    TimedOut,
}

/// An answer as its bytes came.
#[derive(Default)]
struct Answer {
    reader: AnswerReader,
    /// Bytes up to the end of the head, and a few more.
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Answer {
    /// Takes in bytes; true when the answer is complete.
    fn push(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        if !self.has_head() {
            self.head.extend_from_slice(bytes);
        }
        let body = &mut self.body;
        self.reader.push(bytes, &mut |bytes| body.extend_from_slice(bytes))
    }

    fn has_head(&self) -> bool {
        memchr::memmem::find(&self.head, b"\r\n\r\n").is_some()
    }

    fn header(&self, name: &str) -> Option<String> {
        let end = memchr::memmem::find(&self.head, b"\r\n\r\n")?;
        let head = std::str::from_utf8(&self.head[..end]).ok()?;
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

/// Runs a task.
pub fn run(task: Task, door: &Door, connections: &Connections) -> ClientResult {
    let mut answer = Answer::default();
    let end = exchange(&task, door, connections, &mut answer);
    let outcome = end.and_then(|end| judge(&task, end, &answer));
    let (call, winner) = (answer.header("x-tokrate-call"), answer.header("x-tokrate-winner"));
    let mut seen = ClientResult { task, call, winner, outcome };
    // The request's bytes are not needed any more; an hour of results should stay small.
    seen.task.bytes = Vec::new();
    seen
}

fn exchange(task: &Task, door: &Door, connections: &Connections, answer: &mut Answer) -> Result<End, String> {
    let failed = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    let is_slow = task.purpose == Purpose::Call(ReadMode::Slow);
    let kept = if task.has_own_connection || is_slow { None } else { connections.take() };
    let mut stream = match kept {
        Some(stream) => stream,
        None => connect(door.address, door.tls.as_ref()).map_err(|error| format!("could not connect: {error:#}"))?,
    };
    if is_slow {
        // If it fails, the gateway only waits less for the client.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream.socket(), SLOW_READ_BUFFER);
    }
    match stream.write_all(&task.bytes).and_then(|()| stream.flush()) {
        Ok(()) => {}
        // A form whose lane has broken off is answered before all of it was sent.
        Err(_) if task.is_upload() => {}
        Err(error) => return Err(failed("could not send its request")(error)),
    }
    let end = read(task, &mut stream, answer)?;
    // A request refused before it was read in full leaves its rest on the connection, which the gateway then closes.
    let is_unread = task.purpose == Purpose::Invalid(InvalidRequest::TooLarge) || task.is_upload();
    let is_kept = end == End::Whole && answer.header("connection").is_none_or(|value| value != "close");
    if is_kept && !is_slow && !is_unread {
        connections.keep(stream);
    }
    Ok(end)
}

/// Reads until the answer ends, the client leaves, or it hangs.
fn read(task: &Task, stream: &mut Stream, answer: &mut Answer) -> Result<End, String> {
    let from = now();
    let timeout = match task.purpose {
        Purpose::Call(ReadMode::DisconnectsAfter(milliseconds)) => Duration::from_millis(milliseconds.max(1)),
        Purpose::Invalid(InvalidRequest::Truncated) => Duration::from_millis(20),
        _ => HANG_TIMEOUT,
    };
    let leaves = timeout != HANG_TIMEOUT;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Some(left) = timeout.checked_sub(Duration::from_nanos(now() - from)).filter(|left| !left.is_zero()) else {
            return Ok(if leaves { End::Disconnected } else { End::TimedOut });
        };
        stream.socket().set_read_timeout(Some(left)).map_err(|error| format!("could not read: {error}"))?;
        let room = if task.purpose == Purpose::Call(ReadMode::Slow) { SLOW_READ_BYTES } else { buffer.len() };
        let length = match stream.read(&mut buffer[..room]) {
            Ok(0) => return Ok(End::Truncated),
            Ok(length) => length,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                continue;
            }
            // A connection over TLS that ends without a word.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(End::Truncated),
            Err(error) => return Err(format!("could not read its answer: {error}")),
        };
        if answer.push(&buffer[..length]).map_err(|error| format!("{error:#}"))? {
            return Ok(End::Whole);
        }
        match task.purpose {
            Purpose::Call(ReadMode::DisconnectsWithin(bytes)) if answer.has_head() && answer.body.len() >= bytes => {
                return Ok(End::Disconnected);
            }
            Purpose::Call(ReadMode::Slow) => std::thread::sleep(SLOW_READ_PAUSE),
            _ => {}
        }
    }
}

fn judge(task: &Task, end: End, answer: &Answer) -> Result<Outcome, String> {
    let (status, bytes) = (answer.reader.status, answer.body.len());
    match (&task.purpose, end) {
        (Purpose::Invalid(InvalidRequest::Truncated), _) => return Ok(Outcome::AsExpected),
        (_, End::TimedOut) => {
            return Err(format!("hung: no end after {} s, status {status}, {bytes} bytes", HANG_TIMEOUT.as_secs()));
        }
        (_, End::Truncated) => return Err(format!("cut silently: status {status}, {bytes} bytes of body, no end")),
        (Purpose::Invalid(invalid), _) => return judge_invalid(task, *invalid, answer),
        (Purpose::ListModels, _) if status == 200 && decode_body(ClientDialect::Chat, &answer.body).malformed == 0 => {
            return Ok(Outcome::AsExpected);
        }
        (Purpose::ListModels, _) => return Err(format!("the list of models: status {status}")),
        (Purpose::Upload(upload), _) => return judge_upload(task, upload.digest(), answer),
        (Purpose::Call(_), End::Disconnected) if !answer.has_head() => return Ok(Outcome::DisconnectedBeforeHead),
        (Purpose::Call(_), End::Disconnected | End::Whole) => {}
    }
    if status != 200 {
        return match end {
            End::Disconnected => Ok(Outcome::DisconnectedBeforeHead),
            _ => judge_refusal(task, answer),
        };
    }
    if answer.header("x-tokrate-call").is_none() {
        return Err("an answer without the name of its call".to_owned());
    }
    let decoded =
        if task.stream { decode_stream(task.dialect, &answer.body) } else { decode_body(task.dialect, &answer.body) };
    match end {
        End::Disconnected => Ok(Outcome::Disconnected { text: decoded.text }),
        _ => judge_answer(task, decoded),
    }
}

fn judge_answer(task: &Task, decoded: DecodedResponse) -> Result<Outcome, String> {
    let DecodedResponse { text, has_finish_reason, has_end_marker, errors, error, malformed, has_text_after_end } =
        decoded;
    match errors {
        _ if has_text_after_end => Err("text after the end of its answer".to_owned()),
        0 if has_finish_reason => Ok(Outcome::Whole { text, has_end_marker, malformed }),
        0 => Err(format!("cut silently: neither an end nor an error after {} bytes of text", text.len())),
        1 if !task.stream => Err(format!("an error with status 200: {error}")),
        1 if has_finish_reason => Err(format!("an error after the finish reason: {error}")),
        1 if error.is_empty() => Err("an error without a message".to_owned()),
        1 => Ok(Outcome::Broken { text, error }),
        _ => Err(format!("{errors} errors, the first: {error}")),
    }
}

fn judge_refusal(task: &Task, answer: &Answer) -> Result<Outcome, String> {
    let status = answer.reader.status;
    let decoded = decode_body(task.dialect, &answer.body);
    if decoded.errors != 1 || decoded.malformed > 0 || decoded.error.is_empty() {
        let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
        return Err(format!("status {status} without a clear error in its dialect: {body}"));
    }
    match status {
        429 | 502 | 503 | 504 => {}
        _ => return Err(format!("status {status} for a good request: {}", decoded.error)),
    }
    let is_limit = decoded.error.contains("has reached its limit of");
    if is_limit && status == 429 && decoded.error.contains("per minute") && answer.header("retry-after").is_none() {
        return Err("a rate limit without retry-after".to_owned());
    }
    Ok(Outcome::Refused { status, message: decoded.error })
}

/// A form was taken byte for byte, or is one clear error: its lane breaks off now and then, and there is no other.
fn judge_upload(task: &Task, digest: u64, answer: &Answer) -> Result<Outcome, String> {
    if answer.reader.status != 200 {
        return judge_refusal(task, answer);
    }
    let body: serde_json::Value = serde_json::from_slice(&answer.body).map_err(|_| "an answer that is no JSON")?;
    match body["text"].as_str() == Some(&format!("{digest:016x}")) {
        true => Ok(Outcome::Stored { bytes: body["bytes"].as_u64().unwrap_or_default() }),
        false => Err(format!("its form arrived as another: {body}")),
    }
}

fn judge_invalid(task: &Task, invalid: InvalidRequest, answer: &Answer) -> Result<Outcome, String> {
    // A path that does not exist has no dialect: such errors are in the default one.
    let dialect = if invalid == InvalidRequest::UnknownPath { ClientDialect::Chat } else { task.dialect };
    let decoded = decode_body(dialect, &answer.body);
    let status = answer.reader.status;
    if Some(status) == invalid.status() && decoded.errors == 1 && decoded.malformed == 0 && !decoded.error.is_empty() {
        return Ok(Outcome::AsExpected);
    }
    let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
    Err(format!("{invalid:?} was answered with status {status}: {body}"))
}
