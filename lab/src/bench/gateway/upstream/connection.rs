//! One connection of the upstream: the calls that come in on it and the answer that goes out.
//!
//! Invariant: one answer at a time, in the order of the calls.

use super::super::script::{Pacing, ResponseScript, ScriptName};
use crate::bench::clock::now;
use crate::bench::sockets::is_transient;
use crate::bench::stream::Stream;
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};

/// Writes on one connection before it is the next one's turn.
const WRITES_PER_TURN: usize = 16;
const MAX_REQUEST_BYTES: usize = 1 << 20;

pub struct Connection {
    stream: Stream,
    /// Bytes read and not yet answered.
    buffer: Vec<u8>,
    pub answer: Option<Answer>,
    /// Whether it is in the queue of writable connections.
    pub queued: bool,
}

/// How far an answer is written.
pub struct Answer {
    pub play: usize,
    pub id: u64,
    /// When the write of each text was begun, where they are paced.
    pub ticks: Vec<u64>,
    /// The next write.
    write: usize,
    /// Bytes of that write that have been sent.
    offset: usize,
}

/// How a turn ended.
pub enum Turn {
    More,
    Blocked,
    Answered,
    Closed,
}

impl Connection {
    pub fn new(stream: Stream) -> Connection {
        Connection { stream, buffer: Vec::new(), answer: None, queued: false }
    }

    /// Reads what is there; false when the other end is gone.
    pub fn read_all(&mut self, scratch: &mut [u8], closed: bool) -> bool {
        loop {
            match self.stream.read(scratch) {
                Ok(0) => return false,
                Ok(length) => {
                    self.buffer.extend_from_slice(&scratch[..length]);
                    if length < scratch.len() && !closed && self.stream.is_empty_after_short_read() {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return is_transient(&error),
            }
        }
    }

    /// The play and the number of the next whole call, if there is one.
    pub fn next_call(&mut self) -> Result<Option<(usize, u64)>> {
        let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n").map(|at| at + 4) else { return Ok(None) };
        let head = str::from_utf8(&self.buffer[..end]).context("read a call: its head is not text")?;
        // A peer requests the list of models; any answer will do.
        if head.starts_with("GET ") {
            self.buffer.drain(..end);
            return Ok(Some((ScriptName::Instant as usize, 0)));
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let Some(Ok(length)) = length.filter(|length| length.as_ref().is_ok_and(|bytes| *bytes < MAX_REQUEST_BYTES))
        else {
            bail!("read a call: no length, or one too long: {}", head.lines().next().unwrap_or_default());
        };
        if self.buffer.len() < end + length {
            return Ok(None);
        }
        let asked = ScriptName::read(&self.buffer[end..end + length]);
        self.buffer.drain(..end + length);
        asked.map(Some).context("read a call: its prompt asks for nothing that is known")
    }

    pub fn begin(&mut self, play: usize, id: u64) {
        self.answer = Some(Answer { play, id, ticks: Vec::new(), write: 0, offset: 0 });
    }

    /// Whether something can be written without waiting for a tick.
    pub fn wants_turn(&self, scripts: &[ResponseScript]) -> bool {
        self.answer.as_ref().is_some_and(|answer| match scripts[answer.play].pacing {
            Pacing::Paced { .. } => answer.write == 0,
            Pacing::AtOnce | Pacing::Hold => true,
        })
    }

    /// Writes what need not wait, until the socket is full, its turn is over or nothing is left.
    pub fn send(&mut self, scripts: &[ResponseScript]) -> Turn {
        let Some(answer) = &mut self.answer else { return Turn::Blocked };
        let play = &scripts[answer.play];
        for _ in 0..WRITES_PER_TURN {
            if answer.write > 0 && matches!(play.pacing, Pacing::Paced { .. }) {
                return Turn::Blocked;
            }
            let Some(bytes) = play.writes.get(answer.write) else {
                return match self.stream.flush() {
                    // What TLS still holds goes out when there is room.
                    Err(error) if is_transient(&error) => Turn::Blocked,
                    Err(_) => Turn::Closed,
                    Ok(()) if play.pacing == Pacing::Hold => Turn::Blocked,
                    Ok(()) => Turn::Answered,
                };
            };
            match self.stream.write(&bytes[answer.offset..]) {
                Ok(length) if answer.offset + length == bytes.len() => {
                    answer.write += 1;
                    answer.offset = 0;
                }
                Ok(length) => answer.offset += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return Turn::Blocked,
                Err(_) => return Turn::Closed,
            }
        }
        Turn::More
    }

    /// Writes the text that is due, and with the last one the end; the next due tick, if there is one.
    pub fn write_due(&mut self, scripts: &[ResponseScript], due: u64) -> Result<Option<u64>> {
        let Some(answer) = &mut self.answer else { return Ok(None) };
        let play = &scripts[answer.play];
        let Pacing::Paced { gap_ns, .. } = play.pacing else { return Ok(None) };
        let ending = play.writes.len() - 1;
        answer.ticks.push(now());
        let is_last = answer.write + 1 == ending;
        let last = is_last.then(|| [&play.writes[answer.write][..], &play.writes[ending][..]].concat());
        let bytes = last.as_ref().unwrap_or(&play.writes[answer.write]);
        // An answer is far smaller than socket buffers, so a partial write means a client stalled for seconds.
        match self.stream.write(bytes) {
            Ok(length) if length == bytes.len() => {}
            Ok(_) => bail!("write a text of a paced stream: the other end takes no more"),
            Err(error) if is_transient(&error) => bail!("write a text of a paced stream: the other end takes no more"),
            // A closed connection is detected elsewhere, and is no error here.
            Err(_) => return Ok(Some(due + gap_ns)),
        }
        answer.write += 1;
        Ok((!is_last).then_some(due + gap_ns))
    }
}
