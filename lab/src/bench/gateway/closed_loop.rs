//! Many calls, each connection asking again as soon as it has its answer, for a while.
//!
//! Invariant: what is counted began and ended within the window or, for events, came within it; every byte of an answer
//! is held against what was sent, where the door passes bytes on.

use super::answer::AnswerReader;
use super::door::Door;
use super::watch::reach;
use crate::bench::clock::now;
use crate::bench::sockets::{Readiness, Ready, is_transient};
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Failed calls after which nothing more is asked.
const FAILED_MOST: u64 = 200;

/// What is to be done.
pub struct Flood<'a> {
    pub door: &'a Door,
    /// The bytes of every call.
    pub request: &'a [u8],
    /// The body that must come, byte for byte; `None` where it may be written anew.
    pub expected: Option<&'a [u8]>,
    pub connections: usize,
    /// Before anything counts (ns).
    pub warmup_ns: u64,
    /// How long it counts (ns).
    pub window_ns: u64,
}

/// What came of it.
#[derive(Default, Debug)]
pub struct Flooded {
    /// Calls whose answer was complete.
    pub calls: u64,
    /// How long each of them took (ns), rising.
    pub times: Vec<u64>,
    /// Line ends of the bodies: two an event.
    pub line_ends: u64,
    /// Answers that were not what was sent.
    pub altered: u64,
    /// Calls that broke off or were refused.
    pub failed: u64,
    /// What the first of them was.
    pub complaint: Option<String>,
    /// Length of the window as it was (ns).
    pub window_ns: u64,
    /// CPU time of the gateway within it (ns).
    pub cpu_ns: u64,
}

impl Flooded {
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
    stream: TcpStream,
    reader: AnswerReader,
    sent_at: u64,
    /// How much of the expected body has come, while nothing else has.
    matched: Option<usize>,
}

struct Run<'a> {
    flood: &'a Flood<'a>,
    connections: Vec<Connection>,
    readiness: Readiness,
    buffer: Vec<u8>,
    done: Flooded,
}

impl Flood<'_> {
    /// Does it.
    ///
    /// # Errors
    /// When the door cannot be reached, or nearly nothing gets through.
    pub fn run(&self) -> Result<Flooded> {
        let readiness = Readiness::new()?;
        let mut connections = Vec::new();
        for key in 0..self.connections {
            connections.push(Connection::open(self.door, &readiness, key)?);
        }
        let buffer = vec![0; 256 << 10];
        let mut run = Run { flood: self, connections, readiness, buffer, done: Flooded::default() };
        for key in 0..self.connections {
            run.send(key)?;
        }
        run.go_on_until(now() + self.warmup_ns)?;
        run.done = Flooded::default();
        let (from, cpu_before) = (now(), self.door.cpu_ns());
        run.go_on_until(from + self.window_ns)?;
        run.done.window_ns = now() - from;
        run.done.cpu_ns = self.door.cpu_ns() - cpu_before;
        run.done.times.sort_unstable();
        Ok(run.done)
    }
}

impl Connection {
    fn open(door: &Door, readiness: &Readiness, key: usize) -> Result<Connection> {
        let stream = reach(door.address)?;
        stream.set_nonblocking(true)?;
        readiness.add_connection(&stream, key as u64)?;
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
        match connection.stream.write(self.flood.request) {
            Ok(length) if length == self.flood.request.len() => Ok(()),
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
            let expected = self.flood.expected;
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
            // A read that left room has emptied the socket; another would only say so.
            if length < self.buffer.len() && !closed {
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
        if let Some(expected) = self.flood.expected {
            self.done.altered += u64::from(connection.matched != Some(expected.len()));
        }
        self.send(key)
    }

    /// Counts a failure and begins anew with another connection.
    fn fail(&mut self, key: usize, complaint: String) -> Result<()> {
        self.done.failed += 1;
        if self.done.failed > FAILED_MOST {
            bail!("get answers: {FAILED_MOST} calls failed, the last with: {complaint}");
        }
        self.done.complaint.get_or_insert(complaint);
        self.connections[key] = Connection::open(self.flood.door, &self.readiness, key).context("connect anew")?;
        self.send(key)
    }
}
