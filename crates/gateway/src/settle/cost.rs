//! The cost of an attempt that has ended: from the usage that the provider reports, else estimated from counted tokens.
//!
//! Invariant: what no provider bills (an attempt that was never sent, a refusal, a loser where losers are free) costs
//! nothing.

use super::account::Account;
use super::attempt_cost::AttemptCost;
use crate::api::Meter;
use crate::upstream::attempt::Attempt;
use tokrate_core::{BilledTokens, Money};
use tokrate_meter::StreamNumbers;
use tokrate_record::{AttemptEnd, CostBasis};
use tokrate_route::LoserPolicy;
use tokrate_tokens::Encoding;

/// OpenAI's largest `n`, which is the most of all providers.
const MAX_ANSWERS: u64 = 128;
/// Prompts up to this size are counted exactly if the provider reports no usage (bytes).
const MAX_COUNTED_BYTES: usize = 256 * 1024;

impl Account {
    /// The cost of an attempt, and how it is known.
    pub(super) fn cost_of(&self, attempt: &Attempt, numbers: &StreamNumbers, end: AttemptEnd) -> AttemptCost {
        if let Some(input) = numbers.usage.input {
            self.reported_input.set(Some(input));
        }
        let meter = self.request.api().map(|api| (api.meter, api.service));
        if matches!(meter, Some((Meter::Session, _))) {
            return self.cost_of_session(attempt);
        }
        let fee = match meter {
            Some((Meter::Free, _)) => Some(Money::ZERO),
            Some((Meter::Fee, service)) => attempt.lane.config.services.fee(service),
            Some((Meter::Input | Meter::Session, _)) | None => None,
        };
        if let Some(fee) = fee {
            let body = attempt.body.borrow();
            let is_refused = body.answer.head().is_some() && !body.is_good();
            let is_free = fee == Money::ZERO || body.sent_at().is_none() || is_refused;
            return match is_free {
                true => AttemptCost { amount: Some(Money::ZERO), basis: CostBasis::Free },
                false => AttemptCost { amount: Some(fee), basis: CostBasis::Estimated },
            };
        }
        if matches!(meter, Some((Meter::Fee, _))) {
            return AttemptCost { amount: None, basis: CostBasis::Unknown };
        }
        let Some(price) = attempt.lane.config.full_price() else {
            return AttemptCost { amount: None, basis: CostBasis::Unknown };
        };
        if let Some(tokens) = numbers.usage.billed() {
            return AttemptCost { amount: Some(price.cost(tokens)), basis: CostBasis::Reported };
        }
        // Nobody bills what was not sent, or was refused. What was sent and not responded to may have been worked on.
        let body = attempt.body.borrow();
        let is_refused = end == AttemptEnd::Failed && body.answer.head().is_some() && !body.is_good();
        let is_unsent = body.sent_at().is_none();
        drop(body);
        let is_free = end == AttemptEnd::Lost && attempt.lane.config.loser == LoserPolicy::Free;
        if is_free || is_unsent || is_refused {
            return AttemptCost { amount: Some(Money::ZERO), basis: CostBasis::Free };
        }
        let input = numbers.usage.input.unwrap_or_else(|| self.input_tokens());
        // Only the first choice's tokens are counted.
        let answers = match attempt.body.borrow().has_further_answers {
            true => self.request.answers().min(MAX_ANSWERS),
            false => 1,
        };
        let counted = || numbers.tokens_std.saturating_mul(answers);
        let output = numbers.usage.output.unwrap_or_else(counted);
        let or_zero = |count: Option<u64>| count.unwrap_or(0);
        let (cached_input, cache_write) =
            (or_zero(numbers.usage.cached_input), or_zero(numbers.usage.cache_write_input));
        let tokens = BilledTokens { input, output, cached_input, cache_write };
        AttemptCost { amount: Some(price.cost(tokens)), basis: CostBasis::Estimated }
    }

    /// Tokens of the prompt, if the provider does not report them.
    fn input_tokens(&self) -> u64 {
        if let Some(known) = self.reported_input.get().or(self.counted_input.get()) {
            return known;
        }
        let body = &self.request.body;
        let counted = self.request.routed.as_ref().filter(|_| body.len() <= MAX_COUNTED_BYTES).and_then(|routed| {
            let request = tokrate_wire::decode_request(routed, body).ok()?;
            let texts = request.messages.iter().flat_map(|message| message.texts());
            Some(texts.map(|text| tokrate_tokens::count(Encoding::O200kBase, text) as u64).sum())
        });
        let tokens = counted.unwrap_or(self.prompt_tokens);
        self.counted_input.set(Some(tokens));
        tokens
    }
}
