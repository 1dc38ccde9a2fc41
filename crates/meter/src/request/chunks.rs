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

/// Joins arrivals of one tick, and counts the tokens that end in each chunk.
pub(super) fn chunks_of(trace: &RequestTrace, encoding: Encoding) -> (Vec<Chunk>, ChannelTokens) {
    let mut chunks = join(&trace.arrivals);
    let mut ends = Vec::new();
    let mut count = |channel: Channel| {
        let Some(text) = text_of(trace, channel) else { return 0 };
        ends.clear();
        token_ends(encoding, &text, &mut ends);
        share(trace, channel, &ends, &mut chunks);
        ends.len() as u64
    };
    let tokens = ChannelTokens {
        reasoning: count(Channel::Reasoning),
        answer: count(Channel::Answer),
        tool: count(Channel::Tool),
    };
    (chunks, tokens)
}

fn join(arrivals: &[Arrival]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        let events = u32::from(arrival.events);
        match chunks.last_mut() {
            Some(last) if last.at == arrival.at => last.events = last.events.saturating_add(events),
            _ => chunks.push(Chunk { at: arrival.at, tokens: 0, events }),
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

/// Assigns each token of one channel to the chunk with its last byte.
fn share(trace: &RequestTrace, channel: Channel, ends: &[usize], chunks: &mut [Chunk]) {
    let (mut chunk, mut start, mut seen, mut given) = (0, 0, 0, 0);
    for arrival in &trace.arrivals {
        while chunks[chunk].at < arrival.at {
            chunk += 1;
        }
        let end = arrival.text_end as usize;
        if arrival.channel == channel {
            seen += end - start;
            let complete = given + ends[given..].iter().take_while(|&&end| end <= seen).count();
            chunks[chunk].tokens += u32::try_from(complete - given).expect("a text of at most 4 GiB has fewer tokens");
            given = complete;
        }
        start = end;
    }
}
