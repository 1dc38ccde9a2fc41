//! Client of paced streams, with the arrival of each event, and of single calls.
//!
//! Invariant: an event is stamped with the tick at which the read that completed its line returned.

use super::answer::AnswerReader;
use super::endpoint::{Call, Endpoint};
use crate::bench::clock::now;
use crate::bench::sockets::{Readiness, Ready, is_transient};
use crate::bench::stream::Stream;
use anyhow::{Context, Result, bail, ensure};
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// Marks an event with text, in any gateway's JSON: all words of the bench's answers begin with a space.
const TEXT: &[u8] = br#""content":" "#;
/// Longer lines are no events of the bench, and are not kept.
const MAX_LINE_BYTES: usize = 64 << 10;

/// More streams than this are polled once in a `POLL_INTERVAL` only, to leave the machine's cores to the gateway.
const MANY_STREAMS: usize = 100;
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The streams to run.
pub struct StreamLoad<'a> {
    pub endpoint: &'a Endpoint,
    /// The first call; the others have the numbers that follow.
    pub call: Call,
    /// Streams at a time, each on a connection of its own.
    pub streams: usize,
    /// Calls one after the other on each.
    pub calls_each: usize,
    /// From the start of one stream to that of the next (ns).
    pub start_gap_ns: u64,
    /// The expected body, if the endpoint forwards bytes unchanged.
    pub expected: Option<&'a [u8]>,
    /// Time after which open streams count as failed (ns).
    pub timeout_ns: u64,
}

/// One stream as the client saw it.
#[derive(Clone, Debug, Default)]
pub struct StreamResult {
    pub id: u64,
    /// When its call was about to be sent.
    pub sent_at: u64,
    /// When each text arrived.
    pub arrivals: Vec<u64>,
    /// Whether the answer was complete.
    pub complete: bool,
    /// Whether the body differs from what was sent, if that is checked.
    pub altered: bool,
    /// Why it is not complete.
    pub failure: Option<String>,
}

struct Connection {
    stream: Stream,
    reader: AnswerReader,
    lines: Lines,
    seen: StreamResult,
    matched: usize,
    calls_left: usize,
}

/// Counts texts in a body, line by line.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// How many lines with a text these bytes complete.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let mut texts = 0;
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let line = &bytes[start..end];
            start = end + 1;
            if self.begun.is_empty() {
                texts += usize::from(is_text(line));
            } else {
                self.begun.extend_from_slice(line);
                texts += usize::from(is_text(&self.begun));
                self.begun.clear();
            }
        }
        if self.begun.len() < MAX_LINE_BYTES {
            self.begun.extend_from_slice(&bytes[start..]);
        }
        texts
    }
}

fn is_text(line: &[u8]) -> bool {
    line.starts_with(b"data:") && memchr::memmem::find(line, TEXT).is_some()
}

/// Sends a call and reads its whole answer; its status.
pub fn one_call(stream: &mut Stream, request: &[u8]) -> Result<u16> {
    stream.write_all(request).context("send a call")?;
    let (mut reader, mut buffer) = (AnswerReader::default(), vec![0; 16 << 10]);
    loop {
        let length = stream.read(&mut buffer).context("read an answer")?;
        ensure!(length > 0, "read an answer: it broke off");
        if reader.push(&buffer[..length], &mut |_| {})? {
            return Ok(reader.status);
        }
    }
}

/// Reads until the first text of an answer has come.
pub fn first_text(stream: &mut Stream) -> Result<()> {
    let (mut reader, mut lines, mut buffer) = (AnswerReader::default(), Lines::default(), vec![0; 4 << 10]);
    let mut texts = 0;
    while texts == 0 {
        let length = stream.read(&mut buffer).context("read an answer")?;
        ensure!(length > 0, "read an answer: it broke off");
        let whole = reader.push(&buffer[..length], &mut |bytes| texts += lines.push(bytes))?;
        ensure!(!whole || texts > 0, "read an answer: it has no text, status {}", reader.status);
    }
    Ok(())
}

impl StreamLoad<'_> {
    /// Runs all streams to their end; the results, also of failed ones.
    pub fn run(&self) -> Result<Vec<StreamResult>> {
        let mut readiness = Readiness::new()?;
        let mut connections: Vec<Option<Connection>> = Vec::new();
        let mut all = Vec::new();
        let mut ready: Vec<Ready> = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        let from = now();
        let mut open = 0;
        while connections.len() < self.streams || open > 0 {
            let elapsed = now() - from;
            if elapsed > self.timeout_ns {
                let timed_out = connections.iter_mut().filter_map(Option::take);
                all.extend(timed_out.map(|connection| connection.failed("timed out")));
                return Ok(all);
            }
            while connections.len() < self.streams && connections.len() as u64 * self.start_gap_ns <= elapsed {
                let key = connections.len();
                connections.push(Some(self.start(key, &readiness)?));
                open += 1;
            }
            if self.streams > MANY_STREAMS {
                std::thread::sleep(POLL_INTERVAL);
            }
            readiness.wait(if connections.len() < self.streams { 1 } else { 50 }, &mut ready)?;
            for ready in ready.iter().filter(|ready| ready.readable) {
                let place = &mut connections[ready.key as usize];
                let Some(connection) = place else { continue };
                if let Err(error) = connection.read(self, &mut buffer, ready.closed, &mut all) {
                    all.extend(place.take().map(|connection| connection.failed(&format!("{error:#}"))));
                    open -= 1;
                } else if connection.calls_left == 0 {
                    *place = None;
                    open -= 1;
                }
            }
        }
        Ok(all)
    }

    fn start(&self, key: usize, readiness: &Readiness) -> Result<Connection> {
        let stream = self.endpoint.connect()?;
        stream.socket().set_nonblocking(true)?;
        readiness.add_connection(stream.socket(), key as u64)?;
        let mut connection = Connection {
            stream,
            reader: AnswerReader::default(),
            lines: Lines::default(),
            seen: StreamResult { id: self.call.id + (key * self.calls_each) as u64, ..StreamResult::default() },
            matched: 0,
            calls_left: self.calls_each,
        };
        connection.send(self)?;
        Ok(connection)
    }
}

impl Connection {
    fn send(&mut self, watch: &StreamLoad<'_>) -> Result<()> {
        let request = watch.endpoint.request(Call { id: self.seen.id, ..watch.call });
        self.seen.sent_at = now();
        let length = self.stream.write(&request).context("send a call")?;
        ensure!(length == request.len(), "send a call: the socket took only a part of it");
        Ok(())
    }

    /// Reads what is there; answers that are complete go to `all`, and the next call is sent.
    fn read(
        &mut self,
        watch: &StreamLoad<'_>,
        buffer: &mut [u8],
        closed: bool,
        all: &mut Vec<StreamResult>,
    ) -> Result<()> {
        loop {
            let length = match self.stream.read(buffer) {
                Ok(0) => bail!("read an answer: it broke off"),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error).context("read an answer"),
            };
            let at = now();
            let Connection { reader, lines, seen, matched, .. } = self;
            let complete = reader.push(&buffer[..length], &mut |bytes| {
                seen.arrivals.extend(std::iter::repeat_n(at, lines.push(bytes)));
                if let Some(expected) = watch.expected {
                    seen.altered |= expected.get(*matched..*matched + bytes.len()) != Some(bytes);
                    *matched += bytes.len();
                }
            })?;
            if complete {
                ensure!(self.reader.status == 200, "read an answer: status {}", self.reader.status);
                self.seen.complete = true;
                self.seen.altered |= watch.expected.is_some_and(|expected| expected.len() != self.matched);
                let next = StreamResult { id: self.seen.id + 1, ..StreamResult::default() };
                all.push(std::mem::replace(&mut self.seen, next));
                self.matched = 0;
                self.calls_left -= 1;
                if self.calls_left == 0 {
                    return Ok(());
                }
                self.send(watch)?;
            }
            if length < buffer.len() && !closed && self.stream.is_empty_after_short_read() {
                return Ok(());
            }
        }
    }

    fn failed(mut self, why: &str) -> StreamResult {
        self.seen.failure = Some(why.to_owned());
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::gateway::script::{CROWD_EVENTS, ScriptName};

    #[test]
    fn every_text_is_counted_once_wherever_reads_cut_it() {
        let body = ScriptName::Crowd.true_body();
        for step in [1, 7, 280, 281, 4096] {
            let mut lines = Lines::default();
            let texts: usize = body.chunks(step).map(|part| lines.push(part)).sum();
            assert_eq!(texts, CROWD_EVENTS as usize, "in pieces of {step}");
        }
    }
}
