//! Writes the truth log while the host runs, without waiting: a row that finds the queue full is dropped and counted.

use super::{AnswerEnd, RequestTruth, Truth, TruthLog, TruthRow, WriteTruth};
use crate::error::HostError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use tokrate_core::Sketch;

/// Most writes of a log in memory, about 160 MB.
const MAX_MEMORY_WRITES: usize = 4_000_000;
/// Capacity of the queue to the disk.
const MAX_QUEUED_ROWS: usize = 1 << 16;

/// Takes rows and keeps the lateness of writes.
#[derive(Debug)]
pub(crate) struct Log {
    destination: Destination,
    /// Written minus due, in nanoseconds.
    pub lateness: Sketch,
    pub dropped: u64,
    requests: u64,
}

#[derive(Debug)]
enum Destination {
    Off,
    Memory { finished: Vec<Arc<RequestTruth>>, writes: usize },
    File { rows: SyncSender<TruthRow>, writer: JoinHandle<std::io::Result<()>> },
}

impl Log {
    /// Opens the log.
    ///
    /// # Errors
    /// When the file cannot be created or there is no thread to write it.
    pub fn open(log: &TruthLog) -> Result<Log, HostError> {
        let destination = match log {
            TruthLog::Off => Destination::Off,
            TruthLog::Memory => Destination::Memory { finished: Vec::new(), writes: 0 },
            TruthLog::File(path) => open_file(path)?,
        };
        Ok(Log { destination, lateness: Sketch::new(), dropped: 0, requests: 0 })
    }

    /// The number of the next request.
    pub fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests - 1
    }

    /// A request was handed to the engine.
    pub fn request(&mut self, truth: &RequestTruth) {
        if matches!(self.destination, Destination::File { .. }) {
            self.send(TruthRow::Request {
                request: truth.request,
                persona: truth.persona.to_string(),
                dialect: truth.dialect.name().to_owned(),
                id: truth.id.clone(),
                received_ns: truth.received_at.as_nanos(),
                submitted_ns: truth.submitted_at.as_nanos(),
                input_tokens: truth.input_tokens,
                output_limit: truth.output_limit,
                stream: truth.stream,
                pictures: truth.pictures,
                pixels: truth.pixels,
                sound_ns: truth.sound.as_nanos(),
            });
        }
    }

    /// A frame was handed to the socket. In memory it is kept in `truth`.
    pub fn write(&mut self, truth: &mut RequestTruth, write: WriteTruth) {
        self.lateness.record((write.written_at - write.due_at).as_nanos());
        match &mut self.destination {
            Destination::Off => {}
            Destination::Memory { writes, .. } if *writes < MAX_MEMORY_WRITES => {
                *writes += 1;
                truth.writes.push(write);
            }
            Destination::Memory { .. } => self.dropped += 1,
            Destination::File { .. } => self.send(TruthRow::Write {
                request: truth.request,
                sequence: write.sequence,
                due_ns: write.due_at.as_nanos(),
                written_ns: write.written_at.as_nanos(),
                tokens: write.tokens,
                events: write.events,
                kinds: write.kinds,
                bytes: write.bytes,
            }),
        }
    }

    /// An answer ended.
    pub fn end(&mut self, truth: RequestTruth) {
        match &mut self.destination {
            Destination::Off => {}
            Destination::Memory { finished, .. } => finished.push(Arc::new(truth)),
            Destination::File { .. } => {
                let end = truth.end.unwrap_or(AnswerEnd::Cancelled);
                self.send(TruthRow::End { request: truth.request, end });
            }
        }
    }

    /// The log so far; `open` adds the requests that have not ended.
    pub fn snapshot(&self, open: impl Iterator<Item = RequestTruth>) -> Truth {
        let Destination::Memory { finished, .. } = &self.destination else { return Truth::default() };
        let requests = finished.iter().cloned().chain(open.map(Arc::new)).collect();
        Truth::new(requests, self.dropped)
    }

    /// Closes the log; waits until its file is written. Returns the error if that failed.
    pub fn close(self) -> (Sketch, u64, Option<std::io::Error>) {
        let error = match self.destination {
            Destination::Off | Destination::Memory { .. } => None,
            Destination::File { rows, writer } => {
                if self.dropped > 0 {
                    // The writer may be behind; this row is worth waiting for. It fails only if the writer has ended.
                    let _ = rows.send(TruthRow::Dropped { rows: self.dropped });
                }
                drop(rows);
                writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the writer panicked"))).err()
            }
        };
        (self.lateness, self.dropped, error)
    }

    fn send(&mut self, row: TruthRow) {
        if let Destination::File { rows, .. } = &self.destination
            && rows.try_send(row).is_err()
        {
            self.dropped += 1;
        }
    }
}

fn open_file(path: &Path) -> Result<Destination, HostError> {
    let file = File::create(path).map_err(|source| HostError::TruthLog { path: path.to_owned(), source })?;
    let (rows, waiting) = sync_channel(MAX_QUEUED_ROWS);
    let writer = std::thread::Builder::new()
        .name("truth-log".to_owned())
        .spawn(move || write_rows(file, &waiting))
        .map_err(HostError::Thread)?;
    Ok(Destination::File { rows, writer })
}

/// Writes rows until the log is closed; flushes whenever none waits.
fn write_rows(file: File, rows: &Receiver<TruthRow>) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, file);
    loop {
        let row = match rows.try_recv() {
            Ok(row) => row,
            Err(TryRecvError::Empty) => {
                file.flush()?;
                match rows.recv() {
                    Ok(row) => row,
                    Err(_) => return Ok(()),
                }
            }
            Err(TryRecvError::Disconnected) => return file.flush(),
        };
        serde_json::to_writer(&mut file, &row)?;
        file.write_all(b"\n")?;
    }
}
