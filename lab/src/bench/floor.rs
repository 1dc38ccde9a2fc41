//! The floor: a bare reader that finds line ends, counts `data:` lines and stamps reads. What it needs, every client needs.
//!
//! Invariant: one thread, one read buffer, no allocation per read; a line is counted once wherever reads cut it.

use super::clock::{now, thread_cpu};
use super::sockets::{Readiness, Ready, is_transient};
use super::stream::{Stream, Tls, connect};
use super::summary::nearest_rank;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

/// What the floor is asked to do.
#[derive(Clone)]
pub struct FloorTask {
    /// The server.
    pub address: SocketAddr,
    /// Requests in flight.
    pub connections: usize,
    /// Measured requests.
    pub requests: u64,
    /// Requests before them, whose gaps do not count.
    pub warmup: u64,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// The certificates, if the server speaks TLS.
    pub tls: Option<Tls>,
}

/// One request as the floor saw it; ticks in ns.
#[derive(Clone, Debug, Default)]
struct FloorRow {
    index: u64,
    sent_at: u64,
    first_text_at: Option<u64>,
    last_text_at: Option<u64>,
    finished_at: u64,
    lines: u64,
    complete: bool,
}

/// Counts `data:` lines and finds the end of an HTTP/1.1 body in chunks, looking at line ends only.
#[derive(Default)]
struct LineScanner {
    /// The beginning of the line that the last read left unfinished.
    begun: [u8; 8],
    begun_length: usize,
    /// Whether the last line was the empty chunk's.
    ending: bool,
    lines: u64,
    ended: bool,
}

impl LineScanner {
    fn push(&mut self, bytes: &[u8]) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            if self.begun_length == 0 {
                self.line(&bytes[start..end]);
            } else {
                self.keep(&bytes[start..end]);
                let line = self.begun;
                self.line(&line[..self.begun_length]);
                self.begun_length = 0;
            }
            start = end + 1;
        }
        self.keep(&bytes[start..]);
    }

    fn keep(&mut self, part: &[u8]) {
        let length = part.len().min(self.begun.len() - self.begun_length);
        self.begun[self.begun_length..self.begun_length + length].copy_from_slice(&part[..length]);
        self.begun_length += length;
    }

    /// Takes in one line, or the first bytes of a long one.
    fn line(&mut self, line: &[u8]) {
        if line.starts_with(b"data:") {
            self.lines += 1;
        } else if self.ending && line == b"\r" {
            self.ended = true;
        }
        self.ending = line == b"0\r";
    }
}

struct Connection {
    stream: Stream,
    scanner: LineScanner,
    row: FloorRow,
}

/// Runs the task; the result is JSON: `rows`, the 99th percentile of the gaps between reads that brought text, CPU time.
pub fn measure(task: &FloorTask) -> Result<Value> {
    let mut floor = Floor::connect(task)?;
    let cpu_before = thread_cpu();
    floor.run()?;
    let cpu = thread_cpu() - cpu_before;
    floor.gaps.sort_unstable();
    let rows: Vec<Value> = floor
        .rows
        .iter()
        .map(|row| {
            json!({
                "index": row.index, "sent_at_ns": row.sent_at, "first_text_at_ns": row.first_text_at,
                "last_text_at_ns": row.last_text_at, "finished_at_ns": row.finished_at, "text_events": row.lines,
                "failure": if row.complete { Value::Null } else { json!({"kind": "truncated"}) },
            })
        })
        .collect();
    Ok(json!({"rows": rows, "cpu_ns": cpu, "gap_p99_ns": nearest_rank(&floor.gaps, 0.99)}))
}

struct Floor<'a> {
    task: &'a FloorTask,
    connections: Vec<Connection>,
    next_index: u64,
    rows: Vec<FloorRow>,
    gaps: Vec<u64>,
    buffer: Vec<u8>,
    readiness: Readiness,
}

impl Floor<'_> {
    fn connect(task: &FloorTask) -> Result<Floor<'_>> {
        let readiness = Readiness::new()?;
        let mut connections = Vec::new();
        for key in 0..task.connections {
            let stream = connect(task.address, task.tls.as_ref()).context("connect to the bench server")?;
            stream.socket().set_nonblocking(true)?;
            readiness.add_connection(stream.socket(), key as u64)?;
            connections.push(Connection { stream, scanner: LineScanner::default(), row: FloorRow::default() });
        }
        let buffer = vec![0; 256 << 10];
        Ok(Floor { task, connections, next_index: 0, rows: Vec::new(), gaps: Vec::new(), buffer, readiness })
    }

    fn run(&mut self) -> Result<()> {
        for key in 0..self.connections.len() {
            self.send(key)?;
        }
        let mut ready: Vec<Ready> = Vec::new();
        let mut quiet = 0;
        while (self.rows.len() as u64) < self.task.requests + self.task.warmup {
            self.readiness.wait(1000, &mut ready)?;
            quiet = if ready.is_empty() { quiet + 1 } else { 0 };
            if quiet > 60 {
                bail!("measure the floor: the server has been silent for a minute");
            }
            for ready in ready.iter().filter(|ready| ready.readable) {
                self.read(ready.key as usize, ready.closed)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, key: usize) -> Result<()> {
        if self.next_index >= self.task.requests + self.task.warmup {
            return Ok(());
        }
        let connection = &mut self.connections[key];
        let index = self.next_index;
        self.next_index += 1;
        let length = self.task.body_bytes;
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nx-request-id: floor-{index}\r\ncontent-length: {length}\r\n\r\n",
            self.task.address
        );
        let request = [head.into_bytes(), vec![b'x'; length]].concat();
        connection.scanner = LineScanner::default();
        if connection.stream.write(&request).context("send a request")? != request.len() {
            bail!("send a request: the socket took only a part of it");
        }
        connection.row = FloorRow { index, sent_at: now(), ..FloorRow::default() };
        Ok(())
    }

    fn read(&mut self, key: usize, closed: bool) -> Result<()> {
        loop {
            let connection = &mut self.connections[key];
            let empties = connection.stream.is_empty_after_short_read();
            let read = connection.stream.read(&mut self.buffer);
            let at = now();
            match read {
                Ok(0) => return self.end(key, at, false),
                Ok(length) => {
                    let Connection { scanner, row, .. } = connection;
                    let before = scanner.lines;
                    scanner.push(&self.buffer[..length]);
                    if scanner.lines > before {
                        if row.index >= self.task.warmup {
                            self.gaps.extend(row.last_text_at.map(|last| at - last));
                        }
                        row.first_text_at.get_or_insert(at);
                        row.last_text_at = Some(at);
                    }
                    if scanner.ended {
                        self.end(key, at, true)?;
                    }
                    // A read that left room has emptied the socket; another would only say so.
                    if empties && length < self.buffer.len() && !closed {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return self.end(key, at, false),
                Err(error) => return Err(error).context("read an answer"),
            }
        }
    }

    fn end(&mut self, key: usize, at: u64, complete: bool) -> Result<()> {
        let connection = &mut self.connections[key];
        let mut row = std::mem::take(&mut connection.row);
        if row.sent_at == 0 {
            return Ok(());
        }
        row.finished_at = at;
        row.lines = connection.scanner.lines;
        row.complete = complete;
        self.rows.push(row);
        if complete { self.send(key) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once_wherever_reads_cut_them() {
        let answer = "HTTP/1.1 200 OK\r\n\r\n12\r\ndata: a\n\ndata: b\n\n\r\n8\r\ndata: 0\n\r\n0\r\n\r\n";
        for cut in 0..answer.len() {
            let mut scanner = LineScanner::default();
            scanner.push(&answer.as_bytes()[..cut]);
            assert!(!scanner.ended, "cut at {cut}");
            scanner.push(&answer.as_bytes()[cut..]);
            assert!(scanner.ended, "cut at {cut}");
            assert_eq!(scanner.lines, 3, "cut at {cut}");
        }
    }
}
