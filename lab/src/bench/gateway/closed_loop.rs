//! A closed loop: each connection sends its next call as soon as it has its answer, for a fixed time.
//!
//! Invariant: counted calls began and ended within the window, counted events came within it; every byte of an answer is
//! compared with what was sent, if the endpoint forwards bytes unchanged.

use super::answer::AnswerReader;
use super::endpoint::Endpoint;
use crate::bench::clock::now;
use crate::bench::sockets::{Readiness, Ready, is_transient};
use crate::bench::stream::Stream;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};

/// Failed calls after which the run is aborted: the endpoint is broken.
const MAX_FAILED_CALLS: u64 = 200;

/// The settings of a closed loop.
pub struct ClosedLoop<'a> {
    pub endpoint: &'a Endpoint,
    /// The bytes of every call.
    pub request: &'a [u8],
    /// The expected body, byte for byte; `None` if the endpoint may rewrite it.
    pub expected: Option<&'a [u8]>,
    pub connections: usize,
    /// Warm-up (ns).
    pub warmup_ns: u64,
    /// Measured window (ns).
    pub window_ns: u64,
}

/// The result of a closed loop.
#[derive(Default, Debug)]
pub struct LoopResult {
    /// Calls whose answer was complete.
    pub calls: u64,
    /// Their durations (ns), sorted.
    pub times: Vec<u64>,
    /// Line ends of the bodies: two an event.
    pub line_ends: u64,
    /// Answers that differ from what was sent.
    pub altered: u64,
    /// Calls that broke off or were refused.
    pub failed: u64,
    /// The error of the first of them.
    pub error_text: Option<String>,
    /// The actual window (ns).
    pub window_ns: u64,
    /// CPU time of the gateway within it (ns).
    pub cpu_ns: u64,
}

impl LoopResult {
    pub fn calls_per_second(&self) -> f64 {
        self.calls as f64 / (self.window_ns as f64 / 1e9)
    }

    pub fn events(&self) -> f64 {
        self.line_ends as f64 / 2.0
    }

    pub fn events_per_second(&self) -> f64 {
        self.events() / (self.window_ns as f64 / 1e9)
    }
}

struct Connection {
    stream: Stream,
    reader: AnswerReader,
    sent_at: u64,
    /// How much of the expected body has come, while nothing else has.
    matched: Option<usize>,
}

struct Run<'a> {
    closed_loop: &'a ClosedLoop<'a>,
    connections: Vec<Connection>,
    readiness: Readiness,
    buffer: Vec<u8>,
    done: LoopResult,
}

impl ClosedLoop<'_> {
    /// Runs the loop.
    ///
    /// # Errors
    /// When the endpoint cannot be reached, or too many calls fail.
    pub fn run(&self) -> Result<LoopResult> {
        let readiness = Readiness::new()?;
        let mut connections = Vec::new();
        for key in 0..self.connections {
            connections.push(Connection::open(self.endpoint, &readiness, key)?);
        }
        let buffer = vec![0; 256 << 10];
        let mut run = Run { closed_loop: self, connections, readiness, buffer, done: LoopResult::default() };
        for key in 0..self.connections {
            run.send(key)?;
        }
        run.go_on_until(now() + self.warmup_ns)?;
        run.done = LoopResult::default();
        let (from, cpu_before) = (now(), self.endpoint.cpu_ns());
        run.go_on_until(from + self.window_ns)?;
        run.done.window_ns = now() - from;
        run.done.cpu_ns = self.endpoint.cpu_ns() - cpu_before;
        run.done.times.sort_unstable();
        Ok(run.done)
    }
}

impl Connection {
    fn open(endpoint: &Endpoint, readiness: &Readiness, key: usize) -> Result<Connection> {
        let stream = endpoint.connect()?;
        stream.socket().set_nonblocking(true)?;
        readiness.add_connection(stream.socket(), key as u64)?;
        Ok(Connection { stream, reader: AnswerReader::default(), sent_at: 0, matched: None })
    }
}

impl Run<'_> {
    fn go_on_until(&mut self, end: u64) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            let at = now();
            if at >= end {
                return Ok(());
            }
            self.readiness.wait(((end - at) / 1_000_000).clamp(1, 50) as u32, &mut ready)?;
            for ready in ready.iter().filter(|ready| ready.readable) {
                self.read(ready.key as usize, ready.closed)?;
            }
        }
    }

    fn send(&mut self, key: usize) -> Result<()> {
        let connection = &mut self.connections[key];
        connection.sent_at = now();
        connection.matched = Some(0);
        match connection.stream.write(self.closed_loop.request) {
            Ok(length) if length == self.closed_loop.request.len() => Ok(()),
            Ok(_) => bail!("send a call: the socket took only a part of it"),
            Err(error) => self.fail(key, format!("send a call: {error}")),
        }
    }

    fn read(&mut self, key: usize, closed: bool) -> Result<()> {
        loop {
            let connection = &mut self.connections[key];
            let length = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return self.fail(key, "the answer broke off".to_owned()),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return self.fail(key, format!("read an answer: {error}")),
            };
            let Connection { reader, matched, .. } = connection;
            let line_ends = &mut self.done.line_ends;
            let expected = self.closed_loop.expected;
            let result = reader.push(&self.buffer[..length], &mut |bytes| {
                *line_ends += memchr::memchr_iter(b'\n', bytes).count() as u64;
                if let Some(expected) = expected {
                    *matched = matched.filter(|from| expected.get(*from..from + bytes.len()) == Some(bytes));
                    *matched = matched.map(|from| from + bytes.len());
                }
            });
            match result {
                Err(error) => return self.fail(key, format!("{error:#}")),
                Ok(true) => self.complete(key)?,
                Ok(false) => {}
            }
            let is_empty = self.connections[key].stream.is_empty_after_short_read();
            if length < self.buffer.len() && !closed && is_empty {
                return Ok(());
            }
        }
    }

    fn complete(&mut self, key: usize) -> Result<()> {
        let connection = &mut self.connections[key];
        let status = connection.reader.status;
        if status != 200 {
            return self.fail(key, format!("status {status}"));
        }
        self.done.calls += 1;
        self.done.times.push(now() - connection.sent_at);
        if let Some(expected) = self.closed_loop.expected {
            self.done.altered += u64::from(connection.matched != Some(expected.len()));
        }
        self.send(key)
    }

    /// Counts a failure and begins anew with another connection.
    fn fail(&mut self, key: usize, error_text: String) -> Result<()> {
        self.done.failed += 1;
        if self.done.failed > MAX_FAILED_CALLS {
            bail!("get answers: {MAX_FAILED_CALLS} calls failed, the last with: {error_text}");
        }
        self.done.error_text.get_or_insert(error_text);
        self.connections[key] =
            Connection::open(self.closed_loop.endpoint, &self.readiness, key).context("connect anew")?;
        self.send(key)
    }
}
