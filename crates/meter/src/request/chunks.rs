//! From arrivals to chunks: all text of one tick, with the tokens that end in it.
//!
//! Invariant: every token belongs to exactly one chunk, the one with its last byte; tokens are counted over the whole text
//! of a channel, never per chunk.

use super::{Arrival, RequestTrace};
use std::borrow::Cow;
use tokrate_core::{Channel, Tick};
use tokrate_tokens::{Encoding, token_ends};

/// All output text that arrived at one tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// When the read that completed it returned.
    pub at: Tick,
    /// How many tokens end in it; none if it only continues a token.
    pub tokens: u32,
    /// How many text events it joins.
    pub events: u32,
}

/// Tokens per channel, in `tokens_std`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ChannelTokens {
    pub reasoning: u64,
    pub answer: u64,
    pub tool: u64,
}

impl ChannelTokens {
    pub fn total(self) -> u64 {
        self.reasoning + self.answer + self.tool
    }
}

/// The tokens that end in each arrival, and their sums by channel.
pub(super) fn arrival_tokens(trace: &RequestTrace, encoding: Encoding) -> (Vec<u32>, ChannelTokens) {
    let mut tokens = vec![0; trace.arrivals.len()];
    let mut ends = Vec::new();
    let mut count = |channel: Channel| {
        let Some(text) = text_of(trace, channel) else { return 0 };
        ends.clear();
        token_ends(encoding, &text, &mut ends);
        share(trace, channel, &ends, &mut tokens);
        ends.len() as u64
    };
    let all = ChannelTokens {
        reasoning: count(Channel::Reasoning),
        answer: count(Channel::Answer),
        tool: count(Channel::Tool),
    };
    (tokens, all)
}

/// Joins arrivals of one tick.
pub(super) fn join(arrivals: &[Arrival], tokens: &[u32]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::with_capacity(arrivals.len());
    for (arrival, &tokens) in arrivals.iter().zip(tokens) {
        let events = u32::from(arrival.events);
        match chunks.last_mut() {
            Some(last) if last.at == arrival.at => {
                last.events = last.events.saturating_add(events);
                last.tokens += tokens;
            }
            _ => chunks.push(Chunk { at: arrival.at, tokens, events }),
        }
    }
    chunks
}

/// The whole text of one channel; borrowed when it is the only one, `None` when it has none.
fn text_of(trace: &RequestTrace, channel: Channel) -> Option<Cow<'_, str>> {
    let mine = trace.arrivals.iter().filter(|arrival| arrival.channel == channel).count();
    if mine == 0 {
        return None;
    }
    if mine == trace.arrivals.len() {
        return Some(Cow::Borrowed(&trace.text));
    }
    let mut text = String::new();
    let mut start = 0;
    for arrival in &trace.arrivals {
        let end = arrival.text_end as usize;
        if arrival.channel == channel {
            text.push_str(&trace.text[start..end]);
        }
        start = end;
    }
    Some(Cow::Owned(text))
}

/// Assigns each token of one channel to the arrival with its last byte.
fn share(trace: &RequestTrace, channel: Channel, ends: &[usize], tokens: &mut [u32]) {
    let (mut start, mut seen, mut given) = (0, 0, 0);
    for (arrival, tokens) in trace.arrivals.iter().zip(tokens) {
        let end = arrival.text_end as usize;
        if arrival.channel == channel {
            seen += end - start;
            let complete = given + ends[given..].iter().take_while(|&&end| end <= seen).count();
            *tokens = u32::try_from(complete - given).expect("a text of at most 4 GiB has fewer tokens");
            given = complete;
        }
        start = end;
    }
}
