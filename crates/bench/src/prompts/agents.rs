//! Prompts of the steps of agents.
//!
//! A step with block ids has the words of its blocks. One without has the first words of its role's text in its session, so that a longer
//! prompt goes on where a shorter one ended, as an agent's context grows. A session that runs again has words of its own.
//!
//! Invariant: the n-th prompt is a function of trace, seed and n.

use crate::agents::{AgentTrace, Step};
use std::sync::Arc;
use tokrate_core::Rng;
use tokrate_probe::synthetic::append_words;

/// Makes the prompts of a trace.
#[derive(Debug)]
pub(super) struct AgentPrompts {
    trace: Arc<AgentTrace>,
    words: &'static [&'static str],
    rng: Rng,
}

/// What a row says of its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AgentStep<'a> {
    /// Its role.
    pub role: &'a str,
    /// Steps of its session.
    pub of: u32,
}

impl AgentPrompts {
    pub(super) fn new(trace: &Arc<AgentTrace>, words: &'static [&'static str], rng: Rng) -> AgentPrompts {
        AgentPrompts { trace: Arc::clone(trace), words, rng }
    }

    /// The step that a number stands for.
    pub(super) fn step(&self, number: u64) -> &Step {
        &self.trace.steps[self.place(number)]
    }

    pub(super) fn described(&self, number: u64) -> AgentStep<'_> {
        let step = self.step(number);
        let session = &self.trace.sessions[self.session(number)];
        AgentStep { role: &self.trace.roles[step.role as usize], of: session.steps.end - session.steps.start }
    }

    pub(super) fn content(&self, number: u64) -> String {
        let step = self.step(number);
        let round = number / self.trace.steps.len() as u64;
        let mut content = String::with_capacity(step.input_tokens as usize * 6);
        if step.blocks.is_empty() {
            let session = self.rng.child("session").nth(round).nth(self.session(number) as u64);
            append_words(&mut content, self.words, step.input_tokens, &mut session.nth(u64::from(step.role)));
            return content;
        }
        let mut left = step.input_tokens;
        let shared = self.rng.child("block").nth(round);
        for &block in &step.blocks {
            let tokens = left.min(step.block_tokens);
            append_words(&mut content, self.words, tokens, &mut shared.nth(block));
            left -= tokens;
        }
        append_words(&mut content, self.words, left, &mut self.rng.child("own").nth(number));
        content
    }

    fn place(&self, number: u64) -> usize {
        (number % self.trace.steps.len() as u64) as usize
    }

    fn session(&self, number: u64) -> usize {
        let place = self.place(number) as u32;
        self.trace.sessions.partition_point(|session| session.steps.end <= place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_sim::WORDS;
    use tokrate_tokens::{Encoding, count};

    #[test]
    fn a_context_grows_within_its_role_and_session_and_is_another_when_it_runs_again() {
        let text = "{\"session\":\"a\",\"role\":\"main\",\"input_tokens\":40,\"output_tokens\":5}\n\
                    {\"session\":\"a\",\"role\":\"main\",\"input_tokens\":90,\"output_tokens\":6,\"wait_ms\":20}\n\
                    {\"session\":\"a\",\"role\":\"help\",\"input_tokens\":90,\"output_tokens\":6}\n\
                    {\"session\":\"b\",\"role\":\"main\",\"input_tokens\":90,\"output_tokens\":6,\"hash_ids\":[1,2],\"block_size\":64}\n";
        let trace = Arc::new(AgentTrace::parse(text).expect("a trace"));
        let prompts = AgentPrompts::new(&trace, WORDS, Rng::root(1));
        let texts: Vec<String> = (0..8).map(|number| prompts.content(number)).collect();
        let tokens: Vec<usize> = texts.iter().map(|text| count(Encoding::O200kBase, text)).collect();
        assert_eq!(tokens, [40, 90, 90, 90, 40, 90, 90, 90]);
        assert!(texts[1].starts_with(&texts[0]));
        for other in [2, 3, 4, 5] {
            assert_ne!(texts[0][..60], texts[other][..60], "{other}");
        }
        let step = prompts.described(5);
        assert_eq!((step.role, step.of), ("main", 3));
    }
}
