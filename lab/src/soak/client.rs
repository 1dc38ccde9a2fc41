//! One client: sends its request, takes the answer in its own manner, and says what it saw.
//!
//! Invariant: an answer that ended in any other way than whole or with one clear error in the client's dialect is a
//! violation, and so is one that did not end in time.

use super::house::TOTAL;
use super::plan::{Errand, Manner, Mistake, Purpose, Spoken};
use super::said::{Heard, hear_stream, hear_whole};
use crate::bench::AnswerReader;
use crate::bench::clock::now;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Beyond the gateway's own limit, an answer that has not ended hangs.
const HANG: Duration = Duration::from_secs(TOTAL.as_secs() + 10);
/// A connection that was left alone for longer is not used again (ns).
const IDLE_NS: u64 = 1_000_000_000;
/// How a slow reader reads.
const SIP_BYTES: usize = 512;
const SIP_PAUSE: Duration = Duration::from_millis(15);
const SIP_BUFFER: usize = 4096;

/// What came of an errand.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// A whole answer; `marked` if the mark of its end came, and so many events that were no JSON.
    Whole { text: String, marked: bool, garbled: usize },
    /// Its beginning, and one error.
    Broken { text: String, error: String },
    /// One error in place of an answer.
    Refused { status: u16, said: String },
    /// The client left after this much.
    Left { text: String },
    /// The client left before it had heard anything.
    LeftUnheard,
    /// A mistake that was answered as it must be, or a look at a page.
    Handled,
}

/// An errand that is over.
#[derive(Clone, Debug)]
pub struct Seen {
    pub errand: Errand,
    /// The call's name, once the head said it.
    pub call: Option<String>,
    /// The lane that the head named.
    pub winner: Option<String>,
    /// What came of it, or in which way the promise was broken.
    pub outcome: Result<Outcome, String>,
}

/// Connections that can be used again.
#[derive(Default)]
pub struct Connections(Mutex<Vec<(TcpStream, u64)>>);

impl Connections {
    fn take(&self) -> Option<TcpStream> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (stream, since) = idle.pop()?;
        if now() - since > IDLE_NS {
            // The others are older still.
            idle.clear();
            return None;
        }
        Some(stream)
    }

    fn keep(&self, stream: TcpStream) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((stream, now()));
    }
}

/// How reading came to its end.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Whole,
    BrokeOff,
    Left,
    Late,
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

/// Carries out an errand.
pub fn carry_out(errand: Errand, address: SocketAddr, connections: &Connections) -> Seen {
    let mut answer = Answer::default();
    let end = exchange(&errand, address, connections, &mut answer);
    let outcome = end.and_then(|end| judge(&errand, end, &answer));
    let (call, winner) = (answer.header("x-tokrate-call"), answer.header("x-tokrate-winner"));
    let mut seen = Seen { errand, call, winner, outcome };
    // The bytes have done their work; what is kept of an hour should be small.
    seen.errand.bytes = Vec::new();
    seen
}

fn exchange(
    errand: &Errand,
    address: SocketAddr,
    connections: &Connections,
    answer: &mut Answer,
) -> Result<End, String> {
    let said = |what: &'static str| move |error: std::io::Error| format!("{what}: {error}");
    let is_slow = errand.purpose == Purpose::Call(Manner::ReadsSlowly);
    let kept = if errand.is_apart || is_slow { None } else { connections.take() };
    let mut stream = match kept {
        Some(stream) => stream,
        None => TcpStream::connect(address).map_err(said("could not connect"))?,
    };
    stream.set_nodelay(true).map_err(said("could not connect"))?;
    if is_slow {
        // Without effect on what it sees: it only makes the gateway wait for room.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&stream, SIP_BUFFER);
    }
    stream.write_all(&errand.bytes).map_err(said("could not send its request"))?;
    let end = read(errand, &mut stream, answer)?;
    // What is refused unread leaves the rest of the request on its connection, which is then closed.
    let is_unread = errand.purpose == Purpose::Mistake(Mistake::TooLarge);
    let is_kept = end == End::Whole && answer.header("connection").is_none_or(|value| value != "close");
    if is_kept && !is_slow && !is_unread {
        connections.keep(stream);
    }
    Ok(end)
}

/// Reads until the answer ends, the client leaves, or it hangs.
fn read(errand: &Errand, stream: &mut TcpStream, answer: &mut Answer) -> Result<End, String> {
    let from = now();
    let patience = match errand.purpose {
        Purpose::Call(Manner::LeavesAfter(milliseconds)) => Duration::from_millis(milliseconds.max(1)),
        Purpose::Mistake(Mistake::BreaksOff) => Duration::from_millis(20),
        _ => HANG,
    };
    let leaves = patience != HANG;
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Some(left) = patience.checked_sub(Duration::from_nanos(now() - from)).filter(|left| !left.is_zero()) else {
            return Ok(if leaves { End::Left } else { End::Late });
        };
        stream.set_read_timeout(Some(left)).map_err(|error| format!("could not read: {error}"))?;
        let room = if errand.purpose == Purpose::Call(Manner::ReadsSlowly) { SIP_BYTES } else { buffer.len() };
        let length = match stream.read(&mut buffer[..room]) {
            Ok(0) => return Ok(End::BrokeOff),
            Ok(length) => length,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                continue;
            }
            Err(error) => return Err(format!("could not read its answer: {error}")),
        };
        if answer.push(&buffer[..length]).map_err(|error| format!("{error:#}"))? {
            return Ok(End::Whole);
        }
        match errand.purpose {
            Purpose::Call(Manner::LeavesWithin(bytes)) if answer.has_head() && answer.body.len() >= bytes => {
                return Ok(End::Left);
            }
            Purpose::Call(Manner::ReadsSlowly) => std::thread::sleep(SIP_PAUSE),
            _ => {}
        }
    }
}

fn judge(errand: &Errand, end: End, answer: &Answer) -> Result<Outcome, String> {
    let (status, bytes) = (answer.reader.status, answer.body.len());
    match (&errand.purpose, end) {
        (Purpose::Mistake(Mistake::BreaksOff), _) => return Ok(Outcome::Handled),
        (_, End::Late) => {
            return Err(format!("hung: no end after {} s, status {status}, {bytes} bytes", HANG.as_secs()));
        }
        (_, End::BrokeOff) => return Err(format!("cut silently: status {status}, {bytes} bytes of body, no end")),
        (Purpose::Mistake(mistake), _) => return judge_mistake(errand, *mistake, answer),
        (Purpose::Look, _) if status == 200 && hear_whole(Spoken::Chat, &answer.body).garbled == 0 => {
            return Ok(Outcome::Handled);
        }
        (Purpose::Look, _) => return Err(format!("the list of models: status {status}")),
        (Purpose::Call(_), End::Left) if !answer.has_head() => return Ok(Outcome::LeftUnheard),
        (Purpose::Call(_), End::Left | End::Whole) => {}
    }
    if status != 200 {
        return match end {
            End::Left => Ok(Outcome::LeftUnheard),
            _ => judge_refusal(errand, answer),
        };
    }
    if answer.header("x-tokrate-call").is_none() {
        return Err("an answer without the name of its call".to_owned());
    }
    let heard =
        if errand.stream { hear_stream(errand.spoken, &answer.body) } else { hear_whole(errand.spoken, &answer.body) };
    match end {
        End::Left => Ok(Outcome::Left { text: heard.text }),
        _ => judge_answer(errand, heard),
    }
}

fn judge_answer(errand: &Errand, heard: Heard) -> Result<Outcome, String> {
    let Heard { text, finished, marked, errors, error, garbled, behind } = heard;
    match errors {
        _ if behind => Err("text behind the end of its answer".to_owned()),
        0 if finished => Ok(Outcome::Whole { text, marked, garbled }),
        0 => Err(format!("cut silently: neither an end nor an error behind {} bytes of text", text.len())),
        1 if !errand.stream => Err(format!("an error with status 200: {error}")),
        1 if finished => Err(format!("an error behind the reason for which the model stopped: {error}")),
        1 if error.is_empty() => Err("an error that says nothing".to_owned()),
        1 => Ok(Outcome::Broken { text, error }),
        _ => Err(format!("{errors} errors, the first: {error}")),
    }
}

fn judge_refusal(errand: &Errand, answer: &Answer) -> Result<Outcome, String> {
    let status = answer.reader.status;
    let heard = hear_whole(errand.spoken, &answer.body);
    if heard.errors != 1 || heard.garbled > 0 || heard.error.is_empty() {
        let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
        return Err(format!("status {status} without a clear error in its dialect: {body}"));
    }
    match status {
        429 | 502 | 503 | 504 => {}
        _ => return Err(format!("status {status} for a good request: {}", heard.error)),
    }
    let is_limit = heard.error.contains("has reached its limit of");
    if is_limit && status == 429 && heard.error.contains("per minute") && answer.header("retry-after").is_none() {
        return Err("a limit that does not say when to come again".to_owned());
    }
    Ok(Outcome::Refused { status, said: heard.error })
}

fn judge_mistake(errand: &Errand, mistake: Mistake, answer: &Answer) -> Result<Outcome, String> {
    // Nobody knows the dialect of a path that does not exist.
    let spoken = if mistake == Mistake::UnknownPath { Spoken::Chat } else { errand.spoken };
    let heard = hear_whole(spoken, &answer.body);
    let status = answer.reader.status;
    if Some(status) == mistake.status() && heard.errors == 1 && heard.garbled == 0 && !heard.error.is_empty() {
        return Ok(Outcome::Handled);
    }
    let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]).into_owned();
    Err(format!("{mistake:?} was answered with status {status}: {body}"))
}
