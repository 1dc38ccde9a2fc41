//! The lower bound for any gateway: a relay that copies bytes both ways without parsing them.
//!
//! Invariant: bytes go on in the order in which they came, each read by a write of its own, and a side that takes
//! nothing is not read for. No gateway on the same machine can add or cost less.

use crate::bench::sockets::{LISTENER, Readiness, Ready, accept, is_transient};
use crate::bench::stream::{Stream, Tls, accepted, connect};
use anyhow::{Context, Result};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;

/// The hidden command of the relay.
pub const RELAY: &str = "__relay";
/// What is read at most at a time (bytes).
const READ_BYTES: usize = 64 * 1024;

/// Relays from a port of the loopback interface to an address, a thread a core, until it is ended.
pub fn relay(arguments: &[String]) -> Result<ExitCode> {
    let [port, upstream, certificates @ ..] = arguments else { anyhow::bail!("read where to relay from and to") };
    let tls = certificates.first().map(|folder| Tls::read(Path::new(folder))).transpose()?;
    let port: u16 = port.parse().context("read the port")?;
    let upstream: SocketAddr = upstream.parse().context("read the upstream's address")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("listen")?;
    rustix::net::listen(&listener, 4096).context("lengthen the backlog")?;
    listener.set_nonblocking(true)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: Vec<_> = (0..cores)
        .map(|_| {
            let (listener, tls) = (listener.try_clone().context("share the listener")?, tls.clone());
            Ok(std::thread::spawn(move || Relay::new(listener, upstream, tls)?.run()))
        })
        .collect::<Result<_>>()?;
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("relay: a thread panicked"))??;
    }
    Ok(ExitCode::SUCCESS)
}

/// One thread's connections.
struct Relay {
    listener: TcpListener,
    upstream: SocketAddr,
    tls: Option<Tls>,
    readiness: Readiness,
    pairs: Vec<Option<Pair>>,
    read: Vec<u8>,
}

/// A client's connection and the upstream's for it.
struct Pair {
    sides: [Stream; 2],
    /// What came from each side and the other has not taken yet.
    held: [Vec<u8>; 2],
    /// Whether each side's end has been signalled, which happens once; it is still to be read.
    closed: [bool; 2],
    /// Whether it was read.
    ended: [bool; 2],
}

impl Relay {
    fn new(listener: TcpListener, upstream: SocketAddr, tls: Option<Tls>) -> Result<Relay> {
        let readiness = Readiness::new()?;
        readiness.add_source(&listener, LISTENER)?;
        Ok(Relay { listener, upstream, tls, readiness, pairs: Vec::new(), read: vec![0; READ_BYTES] })
    }

    fn run(&mut self) -> Result<()> {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            self.readiness.wait(60_000, &mut ready)?;
            for one in &ready {
                if one.key == LISTENER {
                    self.accept()?;
                    continue;
                }
                let place = (one.key / 2) as usize;
                let Some(pair) = self.pairs[place].as_mut() else { continue };
                // Free space on one side unblocks the other.
                pair.closed[(one.key % 2) as usize] |= one.closed;
                let goes_on = (0..2).all(|from| pair.copy(from, &mut self.read).is_ok());
                if !goes_on || pair.ended == [true, true] {
                    self.pairs[place] = None;
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        let Some(client) = accept(&self.listener, true)? else { return Ok(()) };
        let Ok(upstream) = connect(self.upstream, self.tls.as_ref()) else { return Ok(()) };
        upstream.socket().set_nonblocking(true)?;
        let client = accepted(client, self.tls.as_ref())?;
        let place = self.pairs.iter().position(Option::is_none).unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        for (side, stream) in [&client, &upstream].into_iter().enumerate() {
            self.readiness.add_connection(stream.socket(), (2 * place + side) as u64)?;
        }
        self.pairs[place] = Some(Pair {
            sides: [client, upstream],
            held: [Vec::new(), Vec::new()],
            closed: [false; 2],
            ended: [false; 2],
        });
        Ok(())
    }
}

impl Pair {
    /// Copies from a side until it has nothing or the other takes nothing.
    fn copy(&mut self, from: usize, read: &mut [u8]) -> std::io::Result<()> {
        let to = 1 - from;
        while !self.ended[from] {
            if !self.held[from].is_empty() {
                let count = write(&mut self.sides[to], &self.held[from])?;
                self.held[from].drain(..count);
                if !self.held[from].is_empty() {
                    return Ok(());
                }
            }
            // What TLS still holds for the other goes first.
            match self.sides[to].flush().and_then(|()| self.sides[from].read(read)) {
                Ok(0) => {
                    self.ended[from] = true;
                    self.sides[to].end();
                }
                Ok(count) => {
                    let taken = write(&mut self.sides[to], &read[..count])?;
                    self.held[from].extend_from_slice(&read[taken..count]);
                    let is_all = count < read.len() && self.sides[from].is_empty_after_short_read();
                    if is_all && taken == count && !self.closed[from] {
                        // Readiness is signalled when more comes.
                        return Ok(());
                    }
                }
                Err(error) if is_transient(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes what there is room for.
fn write(to: &mut Stream, bytes: &[u8]) -> std::io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if is_transient(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sockets::listen;
    use std::net::{Shutdown, TcpStream};

    #[test]
    fn bytes_come_out_as_they_went_in_and_the_end_is_told() {
        let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (endpoint, target) = (listen().expect("a port"), upstream.local_addr().expect("an address"));
        let address = endpoint.local_addr().expect("an address");
        // It relays until the process ends.
        std::thread::spawn(move || Relay::new(endpoint, target, None).and_then(|mut relay| relay.run()));
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = upstream.accept().expect("a connection");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("the end arrives");
            // More than sockets hold, so that the relay has to keep some of it.
            stream.write_all(&all).expect("it is taken");
        });
        let sent: Vec<u8> = (0..8 << 20).map(|number: u32| (number / 7) as u8).collect();
        let mut client = TcpStream::connect(address).expect("a connection");
        client.write_all(&sent).expect("it is taken");
        client.shutdown(Shutdown::Write).expect("it is open");
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("the end arrives");
        assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
        echo.join().expect("it ended");
    }
}
