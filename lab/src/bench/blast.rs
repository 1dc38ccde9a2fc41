//! A server that writes its answers as fast as the client takes them.
//!
//! Invariant: each piece of a script is handed to the socket by a write of its own, in turn over all connections, so no
//! connection starves another.

use super::events::Script;
use super::request::RequestReader;
use super::sockets::{LISTENER, Readiness, Ready, accept, is_transient, listen};
use super::stream::{Stream, Tls, accepted};
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Writes on one connection before it is the next one's turn.
const WRITES_PER_TURN: usize = 16;

/// The server while it runs; dropping it ends it.
pub struct Blast {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Blast {
    /// Starts it. The request with number i is answered with script i mod n. With `at_once` every write is a segment of its
    /// own (TCP_NODELAY); without it the kernel joins small writes while the client has not taken the last ones.
    pub fn start(scripts: Vec<Script>, threads: usize, at_once: bool, tls: Option<&Tls>) -> Result<Blast> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let scripts = Arc::new(scripts);
        let threads = (0..threads)
            .map(|_| {
                let (listener, scripts, stop) = (listener.try_clone()?, Arc::clone(&scripts), Arc::clone(&stop));
                let tls = tls.cloned();
                let thread = std::thread::Builder::new()
                    .name("blast".to_owned())
                    .spawn(move || Writer::new(listener, scripts, at_once, tls)?.run(&stop))?;
                Ok(thread)
            })
            .collect::<std::io::Result<_>>()
            .context("start the server")?;
        Ok(Blast { address, stop, threads })
    }
}

impl Drop for Blast {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("lab: the server ended early: {error:#}"),
                Err(_) => eprintln!("lab: the server panicked"),
            }
        }
    }
}

struct Connection {
    stream: Stream,
    reader: RequestReader,
    sending: Option<Sending>,
    /// Whether it stands in the queue of connections that may be written to.
    queued: bool,
}

/// How far an answer is written.
struct Sending {
    script: usize,
    write: usize,
    /// Bytes of that write that are gone.
    offset: usize,
}

enum Turn {
    More,
    Blocked,
    Answered,
    Closed,
}

struct Writer {
    listener: TcpListener,
    at_once: bool,
    tls: Option<Tls>,
    scripts: Arc<Vec<Script>>,
    readiness: Readiness,
    connections: HashMap<u64, Connection>,
    next_key: u64,
    queue: Vec<u64>,
    scratch: Vec<u8>,
}

impl Writer {
    fn new(listener: TcpListener, scripts: Arc<Vec<Script>>, at_once: bool, tls: Option<Tls>) -> Result<Writer> {
        let readiness = Readiness::new()?;
        readiness.add_source(&listener, LISTENER)?;
        Ok(Writer {
            listener,
            at_once,
            tls,
            scripts,
            readiness,
            connections: HashMap::new(),
            next_key: 0,
            queue: Vec::new(),
            scratch: vec![0; 64 << 10],
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let patience = if self.queue.is_empty() { 20 } else { 0 };
            self.readiness.wait(patience, &mut ready)?;
            for ready in &ready {
                if ready.key == LISTENER {
                    self.accept_all()?;
                } else {
                    self.attend(*ready);
                }
            }
            for key in std::mem::take(&mut self.queue) {
                self.take_turn(key);
            }
        }
        Ok(())
    }

    fn accept_all(&mut self) -> Result<()> {
        while let Some(stream) = accept(&self.listener, self.at_once)? {
            self.readiness.add_connection(&stream, self.next_key)?;
            let stream = accepted(stream, self.tls.as_ref())?;
            let connection = Connection { stream, reader: RequestReader::default(), sending: None, queued: false };
            self.connections.insert(self.next_key, connection);
            self.next_key += 1;
        }
        Ok(())
    }

    fn attend(&mut self, ready: Ready) {
        let Some(connection) = self.connections.get_mut(&ready.key) else { return };
        if ready.readable && !connection.reader.read_all(&mut connection.stream, &mut self.scratch) {
            self.connections.remove(&ready.key);
            return;
        }
        connection.begin(self.scripts.len());
        if connection.sending.is_some() && !connection.queued {
            connection.queued = true;
            self.queue.push(ready.key);
        }
    }

    fn take_turn(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        connection.queued = false;
        let turn = connection.send(&self.scripts);
        if matches!(turn, Turn::Answered) {
            connection.begin(self.scripts.len());
        }
        let more = match turn {
            Turn::More => true,
            Turn::Answered => connection.sending.is_some(),
            Turn::Blocked => false,
            Turn::Closed => {
                self.connections.remove(&key);
                return;
            }
        };
        if more {
            connection.queued = true;
            self.queue.push(key);
        }
    }
}

impl Connection {
    /// Begins to answer the next request, unless one is being answered.
    fn begin(&mut self, scripts: usize) {
        if self.sending.is_none()
            && let Ok(Some(request)) = self.reader.next()
        {
            let script = request.index.unwrap_or(0) as usize % scripts;
            self.sending = Some(Sending { script, write: 0, offset: 0 });
        }
    }

    fn send(&mut self, scripts: &[Script]) -> Turn {
        let Some(sending) = &mut self.sending else { return Turn::Blocked };
        let script = &scripts[sending.script];
        for _ in 0..WRITES_PER_TURN {
            let Some(bytes) = script.write(sending.write) else {
                // Of TLS the last records may still be here.
                return match self.stream.flush() {
                    Err(error) if is_transient(&error) => Turn::Blocked,
                    Ok(()) if script.complete => {
                        self.sending = None;
                        Turn::Answered
                    }
                    _ => Turn::Closed,
                };
            };
            match self.stream.write(&bytes[sending.offset..]) {
                Ok(length) if sending.offset + length == bytes.len() => {
                    sending.write += 1;
                    sending.offset = 0;
                }
                Ok(length) => sending.offset += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => return Turn::Blocked,
                Err(_) => return Turn::Closed,
            }
        }
        Turn::More
    }
}
