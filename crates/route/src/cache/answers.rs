//! What of an answer is found again when its conversation goes on: engines keep what they wrote as well as what they read.
//!
//! Invariant: nothing is expected before a provider has reported it, and never more than the answer was long.

use tokrate_core::BilledTokens;

/// Answers that are remembered: those of an hour of a busy lane.
const PLACES: usize = 4_096;
/// What a new report leaves of the weight of those before it.
const KEPT: f64 = 0.97;
/// Reports of nothing that are assumed beforehand.
const PRIOR_WEIGHT: f64 = 1.0;

/// The latest answers of a lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// Hash of the last block of a prompt, and the tokens of the prompt with its answer.
    places: Vec<(u64, f64)>,
    found: f64,
    weight: f64,
}

impl Answers {
    /// Tokens of the prompt that ended with this block, its answer included.
    pub fn end_of(&self, last_block: u64) -> Option<f64> {
        let place = self.places.get(last_block as usize % PLACES)?;
        (place.0 == last_block).then_some(place.1)
    }

    /// The share of an answer that is found.
    pub fn share(&self) -> f64 {
        self.found / (self.weight + PRIOR_WEIGHT)
    }

    /// A prompt was answered.
    pub fn note(&mut self, last_block: u64, prompt_tokens: f64, billed: &BilledTokens) {
        if self.places.is_empty() {
            self.places = vec![(0, 0.0); PLACES];
        }
        self.places[last_block as usize % PLACES] = (last_block, prompt_tokens + billed.output as f64);
    }

    /// Of a prompt that went on after an answer this share of the answer was found.
    pub fn observe(&mut self, share: f64) {
        self.found = self.found * KEPT + share.clamp(0.0, 1.0);
        self.weight = self.weight * KEPT + 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_of_answers_is_found_is_learned_and_nothing_is_expected_before() {
        let mut answers = Answers::default();
        answers.note(9, 1_000.0, &BilledTokens { output: 200, ..BilledTokens::default() });
        assert_eq!((answers.end_of(9), answers.end_of(8), answers.share()), (Some(1_200.0), None, 0.0));
        (0..100).for_each(|_| answers.observe(1.2));
        assert!((0.95..=1.0).contains(&answers.share()), "{}", answers.share());
    }
}
