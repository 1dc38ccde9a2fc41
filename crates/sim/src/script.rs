//! The script of one answer: its length, its parts and what goes wrong in it, drawn when the request comes in.
//!
//! It refuses to know time and other requests. Invariant: the chunks of a script add up to its tokens, and no chunk
//! reaches over the end of the reasoning or the place of a fault.

use crate::Words;
use crate::emission::{RequestId, SimRequest};
use crate::faults::{AtToken, Faults};
use crate::law::Law;
use tokrate_core::{Channel, FinishReason, Rng};

/// What will be said, if nobody cancels.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Script {
    pub input_tokens: u32,
    /// Output tokens, reasoning included.
    pub tokens: u32,
    /// Those of `tokens` that are reasoning; they come first.
    pub reasoning: u32,
    /// Whether the reasoning is made and not sent.
    pub hides_reasoning: bool,
    pub finish: FinishReason,
    pub report_usage: bool,
    /// Whether half as many tokens again are reported.
    pub inflates_usage: bool,
    pub report_timings: bool,
    /// Whether the answer names another model.
    pub poses: bool,
    pub done: bool,
    pub burst: bool,
    /// A broken event after so many tokens.
    pub malformed: Option<u32>,
    /// Where and how the answer breaks off.
    pub break_off: Option<(u32, BreakOff)>,
    /// Seed of the words.
    text_seed: u64,
    /// Seed of the words that the answer begins with, if these are not its own.
    start_seed: Option<u64>,
    /// Whether they go round and round.
    pub looped: bool,
}

/// How an answer breaks off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BreakOff {
    Stall,
    Disconnect,
    ErrorEvent,
}

/// What happens to a request before any answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    RateLimited,
    ServerError,
}

impl Script {
    /// Draws the script of the `id`-th request, or why it is refused.
    pub fn draw(
        law: &Law,
        faults: &Faults,
        root: &Rng,
        id: RequestId,
        request: &SimRequest,
    ) -> Result<Script, Refused> {
        let mut rng = root.child("faults").nth(id.0);
        // Each fault takes two numbers whether it happens or not, so that none changes what the others draw.
        let mut drawn = |probability: f64| (rng.chance(probability), rng.next_u64());
        let rate_limited = drawn(faults.rate_limited).0;
        let server_error = drawn(faults.server_error).0;
        if rate_limited {
            return Err(Refused::RateLimited);
        }
        if server_error {
            return Err(Refused::ServerError);
        }
        let limit = request.output_tokens.unwrap_or(law.default_output_tokens);
        let tokens = limit.min(law.output_tokens_most);
        let mut place = |fault: AtToken| {
            let (happens, random) = drawn(fault.probability);
            let between = 1 + (random % u64::from(tokens.saturating_sub(1).max(1))) as u32;
            happens.then(|| fault.token.unwrap_or(between).min(tokens))
        };
        let breaks = [
            (place(faults.stall), BreakOff::Stall),
            (place(faults.disconnect), BreakOff::Disconnect),
            (place(faults.error_event), BreakOff::ErrorEvent),
        ];
        let malformed = place(faults.malformed);
        let missing_usage = drawn(faults.missing_usage).0;
        let empty = drawn(faults.empty).0;
        let no_done = drawn(faults.no_done).0;
        let burst = drawn(faults.burst).0;
        // What is new comes last: the numbers that the others draw stay what they were.
        let replay = drawn(faults.replay).0;
        let looped = drawn(faults.repeat).0;
        let poses = drawn(faults.other_model).0;
        let short = drawn(faults.short);
        let inflates_usage = drawn(faults.usage_inflated).0;
        let hides_reasoning = drawn(faults.hidden_reasoning).0;
        let same_start = drawn(faults.same_start).0;
        let tokens = match short {
            _ if empty => 0,
            (true, random) => shortened(tokens, random),
            (false, _) => tokens,
        };
        let cut_short = !short.0 && (request.output_tokens.is_some() || tokens < limit);
        let reasoning = if hides_reasoning && law.reasoning_tokens == 0 { tokens / 2 } else { law.reasoning_tokens };
        Ok(Script {
            input_tokens: request.input_tokens,
            tokens,
            reasoning: reasoning.min(tokens),
            hides_reasoning,
            finish: if cut_short && !empty { FinishReason::Length } else { FinishReason::Stop },
            report_usage: request.include_usage && !missing_usage,
            inflates_usage,
            report_timings: request.include_timings,
            poses,
            done: !no_done,
            burst,
            malformed: malformed.map(|at| at.min(tokens)),
            break_off: first_of(breaks, tokens),
            text_seed: if replay { root.child("replay").next_u64() } else { root.child("text").nth(id.0).next_u64() },
            start_seed: same_start.then(|| root.child("start").next_u64()),
            looped,
        })
    }

    /// Output tokens to report when `sent` were made.
    pub fn reported(&self, sent: u32) -> u64 {
        let sent = u64::from(sent);
        if self.inflates_usage { (3 * sent).div_ceil(2) } else { sent }
    }

    /// Tokens of the chunk that follows `sent` tokens; 0 when none does.
    pub fn next_chunk(&self, sent: u32, tokens_per_chunk: u32) -> u32 {
        let start = self.start_seed.map(|_| Words::START);
        let borders =
            [Some(self.tokens), Some(self.reasoning), self.malformed, self.break_off.map(|(at, _)| at), start];
        let next = borders.into_iter().flatten().filter(|&border| sent < border && border <= self.tokens).min();
        next.map_or(0, |border| (border - sent).min(tokens_per_chunk))
    }

    /// The words of the `tokens` after `sent` tokens; none of them may reach over a border ([`Script::next_chunk`]).
    pub fn words(&self, sent: u32, tokens: u32) -> Words {
        let start = self.start_seed.filter(|_| sent < Words::START);
        let words = Words::new(start.unwrap_or(self.text_seed), sent, tokens);
        if self.looped { words.looped() } else { words }
    }

    /// Which text the token after `sent` tokens belongs to.
    pub fn channel_after(&self, sent: u32) -> Channel {
        if sent < self.reasoning { Channel::Reasoning } else { Channel::Answer }
    }

    /// How the answer breaks off right after `sent` tokens, if it does.
    pub fn breaks_after(&self, sent: u32) -> Option<BreakOff> {
        self.break_off.filter(|&(at, _)| at == sent).map(|(_, how)| how)
    }
}

/// The earliest break, none of them behind the last token.
fn first_of(breaks: [(Option<u32>, BreakOff); 3], tokens: u32) -> Option<(u32, BreakOff)> {
    let placed = breaks.into_iter().filter_map(|(at, how)| at.map(|at| (at.min(tokens), how)));
    placed.min_by_key(|&(at, _)| at)
}

/// A quarter to three quarters of the tokens, at least one of them.
fn shortened(tokens: u32, random: u64) -> u32 {
    let quarter = tokens / 4;
    let more = random % (u64::from(tokens / 2) + 1);
    (quarter + more as u32).max(tokens.min(1))
}
