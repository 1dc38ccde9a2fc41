//! The provider behind every gateway: a server that runs the script named by each prompt and records what happened.
//!
//! Invariant: the ground truth is when a write was begun and when the end of a connection was read, in ticks of the
//! machine's clock; a single thread does both, so ticks are in order.

mod connection;

use super::script::{Pacing, ResponseScript, scripts};
use crate::bench::clock::{now, set_timer};
use crate::bench::sockets::{LISTENER, Readiness, Ready, TIMER, accept, listen};
use crate::bench::stream::{Tls, accepted};
use anyhow::{Context, Result};
use connection::{Connection, Turn};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// This close to a due tick the server spins while it has few streams: timers of a virtual machine fire that late.
const SPIN_NS: u64 = 40_000;
/// With more streams it does not spin and checks due ticks at most once in `GRAIN_NS`, to leave the machine's cores to the
/// gateway; the recorded time is that of the write, not of the due tick.
const MAX_SPIN_STREAMS: usize = 4;
const GRAIN_NS: u64 = 1_000_000;

/// The server while it runs; dropping it ends it.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    close_all: AtomicBool,
    /// Answers that have begun and have not ended.
    open: AtomicUsize,
    ended: Mutex<Vec<Ended>>,
    errors: Mutex<Vec<String>>,
}

/// The record of a paced or held response.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The number in its prompt.
    pub id: u64,
    /// When the write of each text was begun.
    pub writes: Vec<u64>,
    /// When the client's close was read, if it came before the answer was complete.
    pub closed_at: Option<u64>,
}

impl Upstream {
    /// Starts it, over TLS if it is given.
    pub fn start(tls: Option<Tls>) -> Result<Upstream> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("upstream".to_owned())
            .spawn(move || Server::new(listener, tls, its)?.run())
            .context("start the upstream")?;
        Ok(Upstream { address, shared, thread: Some(thread) })
    }

    /// Answers that have begun and have not ended.
    pub fn open(&self) -> usize {
        self.shared.open.load(Acquire)
    }

    /// Waits until `count` answers are open, or for the timeout; whether they are.
    pub fn wait_for_open(&self, count: usize, timeout: Duration) -> bool {
        let from = now();
        while self.open() != count {
            if now() - from > timeout.as_nanos() as u64 {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Asks the server to close every open answer, without waiting for it.
    pub fn close_all(&self) {
        self.shared.close_all.store(true, Relaxed);
    }

    /// Records of the responses that have ended since the last call.
    pub fn take_ended(&self) -> Vec<Ended> {
        std::mem::take(&mut self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Errors since the last call.
    pub fn take_errors(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => eprintln!("lab: the upstream ended early: {error:#}"),
            Some(Err(_)) => eprintln!("lab: the upstream panicked"),
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

impl Shared {
    fn record_error(&self, text: String) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        // One of each kind is enough.
        if errors.len() < 20 && !errors.contains(&text) {
            errors.push(text);
        }
    }
}

struct Server {
    listener: TcpListener,
    tls: Option<Tls>,
    shared: Arc<Shared>,
    scripts: Vec<ResponseScript>,
    readiness: Readiness,
    timer: OwnedFd,
    /// By their keys; a key is never used twice.
    connections: Vec<Option<Box<Connection>>>,
    /// Those that can be written to.
    queue: Vec<u64>,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    scratch: Vec<u8>,
}

impl Server {
    fn new(listener: TcpListener, tls: Option<Tls>, shared: Arc<Shared>) -> Result<Server> {
        let readiness = Readiness::new()?;
        readiness.add_source(&listener, LISTENER)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .context("create a timer")?;
        readiness.add_source(&timer, TIMER)?;
        Ok(Server {
            listener,
            tls,
            shared,
            scripts: scripts(),
            readiness,
            timer,
            connections: Vec::new(),
            queue: Vec::new(),
            due: BinaryHeap::new(),
            scratch: vec![0; 64 << 10],
        })
    }

    fn run(&mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        while !self.shared.stop.load(Relaxed) {
            let timeout = if self.queue.is_empty() { self.arm()? } else { 0 };
            self.readiness.wait(timeout, &mut ready)?;
            for ready in &ready {
                match ready.key {
                    LISTENER => self.accept_all()?,
                    TIMER => {}
                    _ => self.attend(*ready),
                }
            }
            for key in std::mem::take(&mut self.queue) {
                self.take_turn(key);
            }
            self.fire_due();
            if self.shared.close_all.swap(false, Relaxed) {
                self.close_all();
            }
        }
        Ok(())
    }

    fn close_all(&mut self) {
        for key in 0..self.connections.len() {
            if self.connections[key].as_ref().is_some_and(|connection| connection.answer.is_some()) {
                self.close(key as u64, now());
            }
        }
    }

    /// Sets the timer to the next due tick; the time to wait for connections (ms).
    fn arm(&mut self) -> Result<u32> {
        // Without anything due the timer is set to zero, which disarms it.
        let at = match self.due.peek() {
            None => 0,
            Some(Reverse((due, _))) if self.due.len() <= MAX_SPIN_STREAMS => {
                if *due <= now() + SPIN_NS {
                    return Ok(0);
                }
                *due - SPIN_NS
            }
            Some(Reverse((due, _))) => (*due).max(now() + GRAIN_NS),
        };
        set_timer(&self.timer, at)?;
        Ok(20)
    }

    fn accept_all(&mut self) -> Result<()> {
        while let Some(stream) = accept(&self.listener, true)? {
            self.readiness.add_connection(&stream, self.connections.len() as u64)?;
            let stream = accepted(stream, self.tls.as_ref())?;
            self.connections.push(Some(Box::new(Connection::new(stream))));
        }
        Ok(())
    }

    fn attend(&mut self, ready: Ready) {
        let Some(connection) = self.connections.get_mut(ready.key as usize).and_then(Option::as_mut) else { return };
        if ready.readable && !connection.read_all(&mut self.scratch, ready.closed) {
            return self.close(ready.key, now());
        }
        self.begin(ready.key);
    }

    /// Begins to answer the next request of a connection, unless one is being answered.
    fn begin(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(key as usize).and_then(Option::as_mut) else { return };
        if connection.answer.is_none() {
            match connection.next_call() {
                Ok(None) => return,
                Ok(Some((number, id))) => {
                    let read_at = now();
                    connection.begin(number, id);
                    self.shared.open.fetch_add(1, Relaxed);
                    if let Pacing::Paced { ttft_ns, .. } = self.scripts[number].pacing {
                        self.due.push(Reverse((read_at + ttft_ns, key)));
                    }
                }
                Err(error) => {
                    self.shared.record_error(format!("{error:#}"));
                    return self.close(key, now());
                }
            }
        }
        if !connection.queued && connection.wants_turn(&self.scripts) {
            connection.queued = true;
            self.queue.push(key);
        }
    }

    fn take_turn(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(key as usize).and_then(Option::as_mut) else { return };
        connection.queued = false;
        match connection.send(&self.scripts) {
            Turn::Blocked => {}
            Turn::More => {
                connection.queued = true;
                self.queue.push(key);
            }
            Turn::Answered => {
                self.end_answer(key, None);
                self.begin(key);
            }
            Turn::Closed => self.close(key, now()),
        }
    }

    /// Carries out the writes that are due now. What falls due meanwhile waits until connections were looked at.
    fn fire_due(&mut self) {
        let until = if self.due.is_empty() { return } else { now() };
        while let Some(Reverse((due, key))) = self.due.peek().copied().filter(|Reverse((due, _))| *due <= until) {
            self.due.pop();
            let Some(connection) = self.connections.get_mut(key as usize).and_then(Option::as_mut) else { continue };
            match connection.write_due(&self.scripts, due) {
                Ok(Some(next)) => self.due.push(Reverse((next, key))),
                Ok(None) => {
                    self.end_answer(key, None);
                    self.begin(key);
                }
                Err(error) => {
                    self.shared.record_error(format!("{error:#}"));
                    self.close(key, now());
                }
            }
        }
    }

    fn close(&mut self, key: u64, at: u64) {
        self.end_answer(key, Some(at));
        self.connections[key as usize] = None;
    }

    fn end_answer(&mut self, key: u64, closed_at: Option<u64>) {
        let connection = self.connections[key as usize].as_mut();
        let Some(answer) = connection.and_then(|connection| connection.answer.take()) else { return };
        // Of answers that are as fast as they can be there are millions, and nobody asks for them.
        if self.scripts[answer.play].pacing != Pacing::AtOnce {
            let ended = Ended { id: answer.id, writes: answer.ticks, closed_at };
            self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        }
        // Last: who sees that nothing is open finds all that has ended.
        self.shared.open.fetch_sub(1, Release);
    }
}

#[cfg(test)]
mod tests;
