//! The script of one answer (length, parts, faults), drawn when the request is submitted.
//!
//! Invariant: the chunks of a script add up to its tokens, and no chunk crosses the end of the reasoning or the position of
//! a fault.

use crate::Words;
use crate::emission::{MediaTimes, RequestId, SimRequest};
use crate::faults::{AtToken, Faults};
use crate::law::Law;
use tokrate_core::{Channel, FinishReason, Rng};

/// The planned answer, if it is not cancelled.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Script {
    pub input_tokens: u32,
    /// Output tokens, reasoning included.
    pub tokens: u32,
    /// Reasoning tokens among them; they come first.
    pub reasoning: u32,
    /// Whether the reasoning is generated but not sent.
    pub hides_reasoning: bool,
    /// What pictures and sound add to its times.
    pub media: MediaTimes,
    pub finish: FinishReason,
    pub report_usage: bool,
    /// Whether usage is reported 1.5 times too high.
    pub inflates_usage: bool,
    pub report_timings: bool,
    /// Whether the answer names another model.
    pub claims_other_model: bool,
    pub done: bool,
    pub burst: bool,
    /// An event with invalid JSON after this many tokens.
    pub malformed: Option<u32>,
    /// Where and how the answer is interrupted.
    pub interruption: Option<(u32, Interruption)>,
    /// Seed of the words.
    text_seed: u64,
    /// Seed of the first words, if they are shared with other answers.
    start_seed: Option<u64>,
    /// Whether the words repeat.
    pub looped: bool,
}

/// How an answer is interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interruption {
    Stall,
    Disconnect,
    ErrorEvent,
}

/// How a request fails before any answer.
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
        // Each fault draws two numbers whether it happens or not, so that no fault changes the draws of another.
        let mut drawn = |probability: f64| (rng.chance(probability), rng.next_u64());
        let rate_limited = drawn(faults.rate_limited).0;
        let server_error = drawn(faults.server_error).0;
        if rate_limited {
            return Err(Refused::RateLimited);
        }
        if server_error {
            return Err(Refused::ServerError);
        }
        let (tokens, is_limited) = request.answer_tokens(law);
        let mut position = |fault: AtToken| {
            let (happens, random) = drawn(fault.probability);
            let between = 1 + (random % u64::from(tokens.saturating_sub(1).max(1))) as u32;
            happens.then(|| fault.token.unwrap_or(between).min(tokens))
        };
        let breaks = [
            (position(faults.stall), Interruption::Stall),
            (position(faults.disconnect), Interruption::Disconnect),
            (position(faults.error_event), Interruption::ErrorEvent),
        ];
        let malformed = position(faults.malformed);
        let missing_usage = drawn(faults.missing_usage).0;
        let empty = drawn(faults.empty).0;
        let no_done = drawn(faults.no_done).0;
        let burst = drawn(faults.burst).0;
        // New faults are appended so that the draws of existing ones stay the same.
        let replay = drawn(faults.replay).0;
        let looped = drawn(faults.repeat).0;
        let claims_other_model = drawn(faults.other_model).0;
        let short = drawn(faults.short);
        let inflates_usage = drawn(faults.usage_inflated).0;
        let hides_reasoning = drawn(faults.hidden_reasoning).0;
        let same_start = drawn(faults.same_start).0;
        let tokens = match short {
            _ if empty => 0,
            (true, random) => shortened(tokens, random),
            (false, _) => tokens,
        };
        let cut_short = !short.0 && is_limited;
        let draws_reasoning = hides_reasoning && law.reasoning_tokens == 0 && request.content_tokens.is_none();
        let reasoning = if draws_reasoning { tokens / 2 } else { law.reasoning_tokens };
        Ok(Script {
            input_tokens: request.input_tokens,
            media: request.media_times(law),
            tokens,
            reasoning: reasoning.min(tokens),
            hides_reasoning,
            finish: if cut_short && !empty { FinishReason::Length } else { FinishReason::Stop },
            report_usage: request.include_usage && !missing_usage,
            inflates_usage,
            report_timings: request.include_timings,
            claims_other_model,
            done: !no_done,
            burst,
            malformed: malformed.map(|at| at.min(tokens)),
            interruption: earliest(breaks, tokens),
            text_seed: if replay { root.child("replay").next_u64() } else { root.child("text").nth(id.0).next_u64() },
            start_seed: same_start.then(|| root.child("start").next_u64()),
            looped,
        })
    }

    /// Output tokens to report after `sent`.
    pub fn reported(&self, sent: u32) -> u64 {
        let sent = u64::from(sent);
        if self.inflates_usage { (3 * sent).div_ceil(2) } else { sent }
    }

    /// Tokens of the chunk after `sent` tokens; 0 at the end.
    pub fn next_chunk(&self, sent: u32, tokens_per_chunk: u32) -> u32 {
        let start = self.start_seed.map(|_| Words::START);
        let boundaries =
            [Some(self.tokens), Some(self.reasoning), self.malformed, self.interruption.map(|(at, _)| at), start];
        let next =
            boundaries.into_iter().flatten().filter(|&boundary| sent < boundary && boundary <= self.tokens).min();
        next.map_or(0, |boundary| (boundary - sent).min(tokens_per_chunk))
    }

    /// The words of `tokens` tokens after `sent`; they must not cross a boundary ([`Script::next_chunk`]).
    pub fn words(&self, sent: u32, tokens: u32) -> Words {
        let start = self.start_seed.filter(|_| sent < Words::START);
        let words = Words::new(start.unwrap_or(self.text_seed), sent, tokens);
        if self.looped { words.looped() } else { words }
    }

    /// The channel of the token after `sent` tokens.
    pub fn channel_after(&self, sent: u32) -> Channel {
        if sent < self.reasoning { Channel::Reasoning } else { Channel::Answer }
    }

    /// The interruption right after `sent` tokens, if any.
    pub fn interruption_after(&self, sent: u32) -> Option<Interruption> {
        self.interruption.filter(|&(at, _)| at == sent).map(|(_, how)| how)
    }
}

/// The earliest interruption, not after the last token.
fn earliest(breaks: [(Option<u32>, Interruption); 3], tokens: u32) -> Option<(u32, Interruption)> {
    let placed = breaks.into_iter().filter_map(|(at, how)| at.map(|at| (at.min(tokens), how)));
    placed.min_by_key(|&(at, _)| at)
}

/// A random length from a quarter to three quarters of the tokens, at least one.
fn shortened(tokens: u32, random: u64) -> u32 {
    let quarter = tokens / 4;
    let more = random % (u64::from(tokens / 2) + 1);
    (quarter + more as u32).max(tokens.min(1))
}
