//! A server that keeps time: every answer's first text and every later one is written at its due tick, and the tick of
//! every write is kept as the truth.
//!
//! Invariant: the ground truth is when a write was begun, not when it was due; its lateness is reported, too.

use super::clock::{now, set_timer};
use super::events::{HEAD, framed, last_write, text, text_event};
use super::request::RequestReader;
use super::sockets::{LISTENER, Readiness, Ready, TIMER, accept, listen};
use super::stream::{Stream, Tls, accepted};
use anyhow::{Context, Result, anyhow};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Closer than this to a due tick the server spins: timers of a virtual machine are that late.
const SPIN_NS: u64 = 40_000;
/// Due writes between two looks at the connections, so that requests are read in time under load.
const WRITES_PER_LOOK: usize = 4;

/// How every answer runs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Request read to first text (ns).
    pub ttft_ns: u64,
    /// One event to the next (ns).
    pub gap_ns: u64,
    /// Events of an answer, at least; its number decides how many more.
    pub events: u32,
    /// Up to so many events more, so that answers do not all end together.
    pub spread: u32,
    /// Tokens of an event.
    pub tokens_per_event: u32,
}

impl Pace {
    /// How many events the answer with that number has.
    pub fn events_of(&self, index: u64) -> u32 {
        // Multiplication by an odd constant scatters neighbouring numbers.
        self.events + ((index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % u64::from(self.spread + 1)) as u32
    }
}

/// What truly happened to one request.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Number at the end of its id.
    pub index: Option<u64>,
    /// When its last byte had been read.
    pub read_at: u64,
    /// When the write of each event was begun.
    pub writes: Vec<u64>,
    /// How late the writes were against their due ticks, added up (ns), and the latest.
    pub late_sum: u64,
    /// The latest write's lateness (ns).
    pub late_most: u64,
    /// Whether all of it was written.
    pub complete: bool,
}

/// The server while it runs.
pub struct Paced {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Truth>>>>,
}

impl Paced {
    /// Starts it.
    pub fn start(pace: Pace, tls: Option<&Tls>) -> Result<Paced> {
        let listener = listen()?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, tls) = (Arc::clone(&stop), tls.cloned());
        let thread = std::thread::Builder::new()
            .name("paced".to_owned())
            .spawn(move || Server::new(listener, pace, tls)?.run(&stopped))
            .context("start the server")?;
        Ok(Paced { address, stop, thread: Some(thread) })
    }

    /// Ends it and hands over the truth.
    pub fn finish(mut self) -> Result<Vec<Truth>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("end the server: it has ended already")?;
        thread.join().map_err(|_| anyhow!("end the server: it panicked"))?
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Connection {
    stream: Stream,
    reader: RequestReader,
    answer: Option<Answer>,
}

struct Answer {
    truth: Truth,
    events: u32,
    first_due: u64,
}

struct Server {
    pace: Pace,
    tls: Option<Tls>,
    listener: TcpListener,
    readiness: Readiness,
    timer: OwnedFd,
    connections: HashMap<u64, Connection>,
    next_key: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    truths: Vec<Truth>,
    scratch: Vec<u8>,
    /// Events ahead of time: the n-th middle event, and the n-th last write.
    middle: Vec<String>,
    last: Vec<String>,
}

impl Server {
    fn new(listener: TcpListener, pace: Pace, tls: Option<Tls>) -> Result<Server> {
        let readiness = Readiness::new()?;
        readiness.add_source(&listener, LISTENER)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .context("create a timer")?;
        readiness.add_source(&timer, TIMER)?;
        let event = |word: u64| text_event(&text(word, pace.tokens_per_event));
        Ok(Server {
            pace,
            tls,
            listener,
            readiness,
            timer,
            connections: HashMap::new(),
            next_key: 0,
            due: BinaryHeap::new(),
            truths: Vec::new(),
            scratch: vec![0; 64 << 10],
            middle: (0..16).map(|word| framed(&event(word))).collect(),
            last: (0..16).map(|word| last_write(&event(word))).collect(),
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<Vec<Truth>> {
        let mut ready: Vec<Ready> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let patience = self.arm()?;
            self.readiness.wait(patience, &mut ready)?;
            for ready in &ready {
                match ready.key {
                    LISTENER => self.accept_all()?,
                    TIMER => {}
                    key if ready.readable => self.read(key),
                    _ => {}
                }
            }
            for _ in 0..WRITES_PER_LOOK {
                match self.due.peek() {
                    Some(Reverse((due, _))) if *due <= now() => self.fire(),
                    _ => break,
                }
            }
        }
        let unfinished = self.connections.drain().filter_map(|(_, connection)| connection.answer);
        self.truths.extend(unfinished.map(|answer| answer.truth));
        Ok(self.truths)
    }

    /// Sets the timer to the next due tick; the time to wait for connections (ms).
    fn arm(&mut self) -> Result<u32> {
        // Without anything due the timer is set to zero, which disarms it.
        let due = self.due.peek().map(|Reverse((due, _))| *due);
        if due.is_some_and(|due| due <= now() + SPIN_NS) {
            return Ok(0);
        }
        let at = due.map_or(0, |due| due - SPIN_NS);
        set_timer(&self.timer, at)?;
        Ok(20)
    }

    fn accept_all(&mut self) -> Result<()> {
        while let Some(stream) = accept(&self.listener, true)? {
            self.readiness.add_connection(&stream, self.next_key)?;
            let stream = accepted(stream, self.tls.as_ref())?;
            let connection = Connection { stream, reader: RequestReader::default(), answer: None };
            self.connections.insert(self.next_key, connection);
            self.next_key += 1;
        }
        Ok(())
    }

    fn read(&mut self, key: u64) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let alive = connection.reader.read_all(&mut connection.stream, &mut self.scratch);
        let read_at = now();
        if alive
            && connection.answer.is_none()
            && let Ok(Some(request)) = connection.reader.next()
        {
            let events = self.pace.events_of(request.index.unwrap_or(0));
            let truth = Truth {
                index: request.index,
                read_at,
                writes: Vec::with_capacity(events as usize),
                late_sum: 0,
                late_most: 0,
                complete: false,
            };
            let first_due = read_at + self.pace.ttft_ns;
            connection.answer = Some(Answer { truth, events, first_due });
            self.due.push(Reverse((first_due, key)));
            // The head goes out at once, as servers do that have accepted a request.
            let _ = connection.stream.write(HEAD.as_bytes());
        }
        if !alive {
            self.close(key);
        }
    }

    /// Carries out the write that is due first.
    fn fire(&mut self) {
        let Some(Reverse((due, key))) = self.due.pop() else { return };
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let Some(answer) = &mut connection.answer else { return };
        let index = answer.truth.writes.len() as u32;
        let is_last = index + 1 == answer.events;
        let pieces = if is_last { &self.last } else { &self.middle };
        let bytes = pieces[index as usize % pieces.len()].as_bytes();
        let at = now();
        let written = connection.stream.write(bytes);
        answer.truth.writes.push(at);
        answer.truth.late_sum += at - due;
        answer.truth.late_most = answer.truth.late_most.max(at - due);
        // Answers are far smaller than socket buffers: a short write means that the client has given up.
        if !written.is_ok_and(|length| length == bytes.len()) {
            self.close(key);
        } else if is_last {
            answer.truth.complete = true;
            self.truths.extend(connection.answer.take().map(|answer| answer.truth));
        } else {
            let next = answer.first_due + u64::from(index + 1) * self.pace.gap_ns;
            self.due.push(Reverse((next, key)));
        }
    }

    fn close(&mut self, key: u64) {
        let answer = self.connections.remove(&key).and_then(|connection| connection.answer);
        self.truths.extend(answer.map(|answer| answer.truth));
    }
}
