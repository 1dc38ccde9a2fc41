//! One direction of a connection, from server to client, with latency, jitter, splits and resets.
//!
//! Invariant: bytes arrive in order, never before they were written plus the latency; only bytes after a reset are lost.

use std::collections::VecDeque;
use tokrate_core::{Rng, Span, Tick};

/// Properties of a link. Random values are drawn per request, from the request's own generator.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkLaw {
    /// One-way latency.
    pub latency: Span,
    /// Additional delay of a write, uniform from zero to this.
    pub jitter: Span,
    /// Bandwidth; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Reads happen only at multiples of this interval and return everything available; zero for immediately.
    pub coalesce: Span,
    /// Probability that a write is split at a random byte; repeated for the remainder.
    pub split: f64,
    /// Additional delay of the part after a split, uniform from zero to this.
    pub split_delay: Span,
    /// Probability that a write and everything after it is stalled.
    pub stall: f64,
    /// Duration of a stall.
    pub stall_for: Span,
    /// Probability, per request, that the connection is reset within the body.
    pub reset: f64,
    /// The earliest byte of the body before which the reset may come.
    pub reset_from: u64,
    /// Range of the position of the reset, uniform.
    pub reset_within: u64,
    /// Probability, per write, of a reset at its end or up to three bytes before.
    pub reset_late: f64,
    /// Probability, per request, that the connection is refused.
    pub refused: f64,
}

impl LinkLaw {
    /// No delay and no faults.
    pub fn ideal() -> LinkLaw {
        LinkLaw {
            latency: Span::ZERO,
            jitter: Span::ZERO,
            bytes_per_second: None,
            coalesce: Span::ZERO,
            split: 0.0,
            split_delay: Span::ZERO,
            stall: 0.0,
            stall_for: Span::ZERO,
            reset: 0.0,
            reset_from: 0,
            reset_within: 0,
            reset_late: 0.0,
            refused: 0.0,
        }
    }

    /// Like [`LinkLaw::ideal`], with a latency each way.
    pub fn with_latency(latency: Span) -> LinkLaw {
        LinkLaw { latency, ..LinkLaw::ideal() }
    }
}

/// One read at `now`, if anything has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Read {
    /// Bytes of the body, at least one.
    Bytes(Vec<u8>),
    /// The body is over.
    End,
    /// The connection broke.
    Reset,
}

/// The link of one response.
#[derive(Clone, Debug)]
pub struct Link {
    law: LinkLaw,
    rng: Rng,
    /// In flight, in order; ticks never decrease.
    packets: VecDeque<Packet>,
    /// When the link is free again.
    busy_until: Tick,
    last_at: Tick,
    written: u64,
    reset_at: Option<u64>,
    over: bool,
    stalls: u32,
}

#[derive(Clone, Debug)]
struct Packet {
    at: Tick,
    what: Read,
    /// Whether it is returned by the same read as the packet before it.
    coalesced: bool,
}

impl Link {
    /// A fresh link; `None` if the connection is refused.
    pub fn open(law: &LinkLaw, mut rng: Rng) -> Option<Link> {
        let (refused, reset, reset_at) =
            (rng.chance(law.refused), rng.chance(law.reset), rng.below(law.reset_within.saturating_add(1)));
        (!refused).then(|| Link {
            law: law.clone(),
            rng,
            packets: VecDeque::new(),
            busy_until: Tick::ZERO,
            last_at: Tick::ZERO,
            written: 0,
            reset_at: reset.then_some(law.reset_from + reset_at),
            over: false,
            stalls: 0,
        })
    }

    /// The server writes bytes at `now`.
    pub fn write(&mut self, now: Tick, bytes: &[u8]) {
        if self.over || bytes.is_empty() {
            return;
        }
        if self.rng.chance(self.law.reset_late) {
            let late = self.written + bytes.len().saturating_sub(self.rng.below(4) as usize) as u64;
            self.reset_at = Some(self.reset_at.map_or(late, |reset_at| reset_at.min(late)));
        }
        let left = self.reset_at.map_or(u64::MAX, |reset_at| reset_at - self.written);
        let through = &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        self.written += through.len() as u64;
        let mut at = self.arrival(now, through.len() as u64);
        let (mut rest, mut coalesced) = (through, true);
        while rest.len() > 1 && self.rng.chance(self.law.split) {
            let cut = 1 + self.rng.below(rest.len() as u64 - 1) as usize;
            self.send(at, Read::Bytes(rest[..cut].to_vec()), coalesced);
            rest = &rest[cut..];
            coalesced = false;
            at += uniform(&mut self.rng, self.law.split_delay);
        }
        if !rest.is_empty() {
            self.send(at, Read::Bytes(rest.to_vec()), coalesced);
        }
        if through.len() < bytes.len() {
            self.finish(at, Read::Reset);
        }
    }

    /// The server ends the body at `now`.
    pub fn close(&mut self, now: Tick) {
        let at = self.arrival(now, 0);
        let how = if self.reset_at == Some(self.written) { Read::Reset } else { Read::End };
        self.finish(at, how);
    }

    /// The server resets the connection at `now`; earlier writes still arrive.
    pub fn abort(&mut self, now: Tick) {
        let at = self.arrival(now, 0);
        self.finish(at, Read::Reset);
    }

    /// When [`Link::read`] returns something next.
    pub fn wake_at(&self) -> Option<Tick> {
        self.packets.front().map(|packet| packet.at)
    }

    /// What one read at `now` returns, if anything is there.
    pub fn read(&mut self, now: Tick) -> Option<Read> {
        let mut first = self.packets.pop_front_if(|packet| packet.at <= now)?.what;
        if let Read::Bytes(bytes) = &mut first {
            let more =
                |packet: &mut Packet| packet.at <= now && packet.coalesced && matches!(packet.what, Read::Bytes(_));
            while let Some(packet) = self.packets.pop_front_if(more) {
                if let Read::Bytes(further) = packet.what {
                    bytes.extend_from_slice(&further);
                }
            }
        }
        Some(first)
    }

    /// Number of stalls.
    pub fn stalls(&self) -> u32 {
        self.stalls
    }

    fn arrival(&mut self, now: Tick, bytes: u64) -> Tick {
        let mut free = now.max(self.busy_until);
        if let Some(speed) = self.law.bytes_per_second {
            free += Span::from_nanos((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(speed.max(1))) as u64);
        }
        self.busy_until = free;
        let mut at = free + self.law.latency + uniform(&mut self.rng, self.law.jitter);
        if bytes > 0 && self.rng.chance(self.law.stall) {
            self.stalls += 1;
            at += self.law.stall_for;
        }
        at
    }

    fn send(&mut self, at: Tick, what: Read, coalesced: bool) {
        let at = match self.law.coalesce.as_nanos() {
            0 => at,
            span => at.as_nanos().checked_next_multiple_of(span).map_or(Tick::MAX, Tick::from_nanos),
        };
        self.last_at = self.last_at.max(at);
        self.packets.push_back(Packet { at: self.last_at, what, coalesced });
    }

    fn finish(&mut self, at: Tick, how: Read) {
        if !self.over {
            self.over = true;
            self.send(at, how, false);
        }
    }
}

fn uniform(rng: &mut Rng, max: Span) -> Span {
    if max.is_zero() { max } else { Span::from_nanos(rng.below(max.as_nanos() + 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(link: &mut Link) -> Vec<(u64, Read)> {
        let mut reads = Vec::new();
        while let Some(at) = link.wake_at() {
            reads.extend(link.read(at).map(|read| (at.as_nanos(), read)));
        }
        reads
    }

    #[test]
    fn bytes_take_latency_and_bandwidth_and_queue_behind_each_other() {
        let law = LinkLaw { bytes_per_second: Some(1_000_000_000), ..LinkLaw::with_latency(Span::from_nanos(100)) };
        let mut link = Link::open(&law, Rng::root(1)).expect("not refused");
        link.write(Tick::from_nanos(0), b"0123456789");
        link.write(Tick::from_nanos(4), b"ab");
        link.close(Tick::from_nanos(50));
        let expected =
            [(110, Read::Bytes(b"0123456789".to_vec())), (112, Read::Bytes(b"ab".to_vec())), (150, Read::End)];
        assert_eq!(drain(&mut link), expected);
    }

    #[test]
    fn writes_are_joined_at_multiples_and_split_anywhere_without_loss() {
        for seed in 0..50 {
            let law = LinkLaw {
                coalesce: Span::from_nanos(64),
                split: 0.5,
                split_delay: Span::from_nanos(90),
                jitter: Span::from_nanos(30),
                ..LinkLaw::with_latency(Span::from_nanos(7))
            };
            let mut link = Link::open(&law, Rng::root(seed)).expect("not refused");
            let mut written = Vec::new();
            for write in 0_u8..40 {
                let bytes = vec![write; usize::from(write % 7)];
                written.extend_from_slice(&bytes);
                link.write(Tick::from_nanos(u64::from(write) * 10), &bytes);
            }
            link.close(Tick::from_nanos(400));
            let reads = drain(&mut link);
            assert!(reads.is_sorted_by_key(|(at, _)| *at) && reads.iter().all(|(at, _)| at % 64 == 0));
            assert_eq!(reads.last().map(|(_, read)| read), Some(&Read::End));
            let read: Vec<u8> = reads
                .into_iter()
                .flat_map(|(_, read)| if let Read::Bytes(bytes) = read { bytes } else { Vec::new() })
                .collect();
            assert_eq!(read, written);
        }
    }

    #[test]
    fn a_reset_comes_at_its_byte_and_nothing_after_it() {
        let law = LinkLaw { reset: 1.0, reset_within: 20, ..LinkLaw::ideal() };
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut link = Link::open(&law, Rng::root(seed)).expect("not refused");
            link.write(Tick::ZERO, &[1; 15]);
            link.write(Tick::ZERO, &[2; 15]);
            link.close(Tick::ZERO);
            let reads = drain(&mut link);
            let length = |read: &Read| if let Read::Bytes(bytes) = read { bytes.len() } else { 0 };
            let bytes: usize = reads.iter().map(|(_, read)| length(read)).sum();
            assert_eq!(reads.last().map(|(_, read)| read), Some(&Read::Reset));
            lengths.insert(bytes);
        }
        assert_eq!(lengths, (0..=20).collect());
    }
}
