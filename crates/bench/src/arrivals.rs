//! Every arrival of a request, for whoever keeps raw data.
//!
//! Invariant: handed on when the level is over and tokens are counted, so that keeping them disturbs nothing that is measured.

use tokrate_core::{Channel, Tick};
use tokrate_meter::Arrival;

/// The arrivals of one request.
#[derive(Clone, Copy, Debug)]
pub struct RequestArrivals<'a> {
    /// Number of the phase, from 0; with the request's number it is the request's id.
    pub phase: usize,
    /// The level, such as `concurrency 8`.
    pub level: &'a str,
    /// Which round of the level, from 1.
    pub round: usize,
    /// The request's number in the phase.
    pub request: u64,
    /// Whether it belongs to the warm-up.
    pub warmup: bool,
    /// When the run began.
    pub began_at: Tick,
    /// Its arrivals, in order.
    pub arrivals: &'a [Arrival],
    /// The tokens that end in each of them.
    pub tokens: &'a [u32],
}

/// Text that came in one read on one channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrivalRow {
    /// Place in the request, from 0.
    pub index: usize,
    /// Since the run began (ns).
    pub at_ns: u64,
    /// Bytes of text.
    pub bytes: u32,
    /// Tokens that end in it.
    pub tokens: u32,
    /// Text events that it joins.
    pub events: u16,
    /// Channel of the text.
    pub channel: Channel,
}

impl<'a> RequestArrivals<'a> {
    /// The arrivals as rows.
    pub fn rows(self) -> impl Iterator<Item = ArrivalRow> + 'a {
        let mut begin = 0;
        self.arrivals.iter().zip(self.tokens).enumerate().map(move |(index, (arrival, &tokens))| {
            let bytes = arrival.text_end - begin;
            begin = arrival.text_end;
            let at_ns = (arrival.at - self.began_at).as_nanos();
            ArrivalRow { index, at_ns, bytes, tokens, events: arrival.events, channel: arrival.channel }
        })
    }
}
