//! Readiness of the connections of one thread, on epoll.
//!
//! Invariant: connections are edge-triggered and never block.

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

/// The key under which listeners are registered.
pub const LISTENER: u64 = u64::MAX;
/// The key under which timers are registered.
pub const TIMER: u64 = u64::MAX - 1;

/// Waits for connections that can be read or written.
pub struct Readiness {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// One thing that became ready.
#[derive(Clone, Copy)]
pub struct Ready {
    /// The key it was registered under.
    pub key: u64,
    /// Whether there may be something to read (a closed end counts); else there is room to write.
    pub readable: bool,
    /// Whether the other end has closed, so that reading must go on to the end.
    pub closed: bool,
}

impl Readiness {
    /// Nothing registered.
    pub fn new() -> Result<Readiness> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll")?;
        Ok(Readiness { epoll, events: Vec::with_capacity(256) })
    }

    /// Registers a connection, edge-triggered in both directions.
    pub fn add_connection(&self, stream: &TcpStream, key: u64) -> Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&self.epoll, stream, epoll::EventData::new_u64(key), flags).context("watch a connection")
    }

    /// Registers something to read from, level-triggered.
    pub fn add_source(&self, source: impl AsFd, key: u64) -> Result<()> {
        epoll::add(&self.epoll, source, epoll::EventData::new_u64(key), epoll::EventFlags::IN).context("watch a source")
    }

    /// Waits at most so many milliseconds; hands over what became ready.
    pub fn wait(&mut self, milliseconds: u32, ready: &mut Vec<Ready>) -> Result<()> {
        let timeout =
            Timespec { tv_sec: i64::from(milliseconds / 1000), tv_nsec: i64::from(milliseconds % 1000) * 1_000_000 };
        ready.clear();
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error).context("wait for connections"),
        }
        let end = epoll::EventFlags::HUP | epoll::EventFlags::ERR | epoll::EventFlags::RDHUP;
        ready.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            let data = event.data;
            Ready {
                key: data.u64(),
                readable: flags.intersects(epoll::EventFlags::IN | end),
                closed: flags.intersects(end),
            }
        }));
        Ok(())
    }
}

/// A listener on a free port of the loopback interface.
pub fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("listen on loopback")?;
    // The standard library's backlog is short; 800 clients may knock at once.
    rustix::net::listen(&listener, 4096).context("lengthen the backlog")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The next waiting connection, if there is one. With `at_once` every write is sent on its own (TCP_NODELAY).
pub fn accept(listener: &TcpListener, at_once: bool) -> Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(at_once)?;
            Ok(Some(stream))
        }
        Err(error) if is_transient(&error) => Ok(None),
        Err(error) => Err(error).context("accept a connection"),
    }
}

/// Whether an I/O error is transient.
pub fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted)
}
