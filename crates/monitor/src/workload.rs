//! What a probe asks for: built-in workloads, and a user's own with prompts.
//!
//! Invariant: no two requests have the same prompt, so that no cache answers them, except for a prefix that a workload shares on
//! purpose.

use crate::canary::{CANARIES, Canary, INPUT_TOKENS};
use std::sync::Arc;
use tokrate_core::{Message, Rng, Role};
use tokrate_probe::synthetic::{PromptSpec, Synthetic};
use tokrate_tokens::{Encoding, count};

/// How often a workload is part of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cadence {
    /// In each cycle.
    EveryCycle,
    /// In one cycle a day.
    Daily,
    /// In one cycle a week.
    Weekly,
}

/// What is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Where prompts come from.
    pub prompts: PromptSource,
    /// Most output tokens of a request.
    pub output_tokens: u32,
    /// Requests that are sent at once.
    pub requests: u32,
    /// How often.
    pub cadence: Cadence,
}

/// Where prompts come from.
#[derive(Clone, PartialEq, Debug)]
pub enum PromptSource {
    /// Words in no order, of an exact length.
    Words {
        /// Tokens of the prompt (o200k_base).
        input_tokens: u32,
        /// Leading tokens that all prompts of the workload share.
        shared_prefix_tokens: u32,
    },
    /// A user's prompts, one after the other; a line before each makes it unique.
    Own {
        /// Each a conversation.
        prompts: Arc<[Vec<Message>]>,
        /// Hash of all of them, for the conditions.
        hash: u64,
    },
    /// Tasks with one right answer.
    Canary(Canary),
}

/// A built-in workload: name, tokens of prompt, shared prefix and answer, requests at once, how often.
struct BuiltIn(&'static str, u32, u32, u32, u32, Cadence);

const BUILT_IN: [BuiltIn; 8] = [
    // Lengths and cadence as Artificial Analysis publishes them.
    BuiltIn("100-300", 100, 0, 300, 1, Cadence::EveryCycle),
    BuiltIn("1k-1k", 1_000, 0, 1_000, 1, Cadence::EveryCycle),
    BuiltIn("10k-1.5k", 10_000, 0, 1_500, 1, Cadence::EveryCycle),
    BuiltIn("100k-2k", 100_000, 0, 2_000, 1, Cadence::Weekly),
    BuiltIn("burst-10", 1_000, 0, 1_000, 10, Cadence::Daily),
    // A short prompt and a long answer, and the other way round: what decoding and reading alone do.
    BuiltIn("decode", 64, 0, 1_024, 1, Cadence::EveryCycle),
    BuiltIn("prefill", 16_000, 0, 16, 1, Cadence::EveryCycle),
    // A step of an agent: a long conversation that was sent before but for its end, and a tool call's length of answer.
    BuiltIn("agent-step", 8_000, 7_000, 200, 1, Cadence::EveryCycle),
];

/// The workloads that Artificial Analysis measures, by the name of the suite.
pub const SUITE: (&str, [&str; 5]) = ("artificial-analysis", ["100-300", "1k-1k", "10k-1.5k", "100k-2k", "burst-10"]);
/// What is probed when nothing is named.
pub const DEFAULT_WORKLOAD: &str = "1k-1k";

/// The names of all built-in workloads.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|row| row.0).chain(CANARIES.map(|(name, ..)| name))
}

/// The built-in workload of this name.
pub fn built_in(name: &str) -> Option<Workload> {
    let words = BUILT_IN.iter().find(|row| row.0 == name).map(|row| Workload {
        name: row.0.to_owned(),
        prompts: PromptSource::Words { input_tokens: row.1, shared_prefix_tokens: row.2 },
        output_tokens: row.3,
        requests: row.4,
        cadence: row.5,
    });
    let canary = |(_, canary, output_tokens)| Workload {
        name: name.to_owned(),
        prompts: PromptSource::Canary(canary),
        output_tokens,
        requests: 1,
        cadence: Cadence::EveryCycle,
    };
    words.or_else(|| CANARIES.into_iter().find(|(known, ..)| *known == name).map(canary))
}

impl PromptSource {
    /// Tokens of the longest prompt.
    pub fn input_tokens(&self) -> u32 {
        match self {
            PromptSource::Words { input_tokens, .. } => *input_tokens,
            PromptSource::Own { prompts, .. } => {
                let tokens = |prompt: &Vec<Message>| prompt.iter().flat_map(Message::texts).map(tokens_of).sum();
                prompts.iter().map(tokens).max().unwrap_or(0)
            }
            PromptSource::Canary(_) => INPUT_TOKENS,
        }
    }

    /// Leading tokens that all prompts share.
    pub fn shared_prefix_tokens(&self) -> u32 {
        match self {
            PromptSource::Words { shared_prefix_tokens, .. } => *shared_prefix_tokens,
            PromptSource::Own { .. } | PromptSource::Canary(_) => 0,
        }
    }

    /// The source as conditions list it.
    pub fn text(&self) -> String {
        match self {
            PromptSource::Words { .. } => "synthetic".to_owned(),
            PromptSource::Own { prompts, hash } => format!("{} prompts, hash {hash:016x}", prompts.len()),
            PromptSource::Canary(canary) => format!("{canary:?} canary"),
        }
    }

    /// The prompt of a request. `run` differs from start to start of a prober, `number` from request to request.
    pub fn prompt(&self, run: u64, number: u64) -> Vec<Message> {
        match self {
            PromptSource::Words { input_tokens, shared_prefix_tokens } => {
                let (input_tokens, shared_prefix_tokens) = (*input_tokens, *shared_prefix_tokens);
                let spec = PromptSpec { input_tokens, shared_prefix_tokens, group: 0 };
                // The shared prefix comes from the root, what is unique from the run.
                let words = Synthetic::new(tokrate_sim::WORDS, Rng::root(0));
                vec![Message::text(Role::User, words.content(spec, draw(run, number)))]
            }
            PromptSource::Own { prompts, .. } => {
                let mut prompt = prompts[(number % prompts.len().max(1) as u64) as usize].clone();
                let mark = format!("[{:016x}]\n", draw(run, number));
                prompt.insert(0, Message::text(Role::User, mark));
                join_first(&mut prompt);
                prompt
            }
            PromptSource::Canary(canary) => canary.prompt(draw(run, number)),
        }
    }

    /// The task of a request, if it has a right answer.
    pub(crate) fn task(&self, run: u64, number: u64) -> Option<(Canary, u64)> {
        if let PromptSource::Canary(canary) = self { Some((*canary, draw(run, number))) } else { None }
    }
}

fn draw(run: u64, number: u64) -> u64 {
    Rng::root(run).nth(number).next_u64()
}

/// Joins the first message to the one after it where both are the user's: some providers want roles to alternate.
fn join_first(prompt: &mut Vec<Message>) {
    if let [first, second, ..] = &mut prompt[..] {
        if second.role == Role::User {
            let mark = std::mem::take(&mut first.content);
            second.content.splice(0..0, mark);
            prompt.remove(0);
        } else {
            // Behind the instructions.
            prompt.swap(0, 1);
            if prompt.len() > 2 && prompt[2].role == Role::User {
                let mark = std::mem::take(&mut prompt[1].content);
                prompt[2].content.splice(0..0, mark);
                prompt.remove(1);
            }
        }
    }
}

fn tokens_of(text: &str) -> u32 {
    u32::try_from(count(Encoding::O200kBase, text)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_prompts_have_their_length_and_never_recur() {
        for name in built_in_names().filter(|name| *name != "100k-2k" && !crate::canary::is_canary(name)) {
            let workload = built_in(name).expect("it is built in");
            let text = |run, number| {
                let prompt = workload.prompts.prompt(run, number);
                prompt[0].texts().collect::<String>()
            };
            let (one, two, other_run) = (text(1, 0), text(1, 1), text(2, 0));
            assert_eq!(count(Encoding::O200kBase, &one) as u32, workload.prompts.input_tokens(), "{name}");
            assert!(one != two && one != other_run, "{name}");
            let shared = one.bytes().zip(other_run.bytes()).take_while(|(a, b)| a == b).count();
            let shared = count(Encoding::O200kBase, &one[..shared]) as u32;
            assert!(shared.abs_diff(workload.prompts.shared_prefix_tokens()) < 6, "{name}: {shared}");
        }
        assert!(SUITE.1.iter().all(|name| built_in(name).is_some()) && built_in(DEFAULT_WORKLOAD).is_some());
    }

    #[test]
    fn own_prompts_are_made_unique_and_keep_their_roles() {
        let instructed = vec![Message::text(Role::System, "be brief"), Message::text(Role::User, "why?")];
        let prompts: Arc<[Vec<Message>]> = [vec![Message::text(Role::User, "hello")], instructed].into();
        let source = PromptSource::Own { prompts, hash: 7 };
        let first = source.prompt(1, 0);
        assert_eq!((first.len(), first[0].role), (1, Role::User));
        assert_ne!(source.prompt(1, 0), source.prompt(1, 2), "the same prompt again has another mark");
        let second = source.prompt(1, 1);
        let roles: Vec<Role> = second.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User]);
        assert!(second[1].texts().collect::<String>().ends_with("]\nwhy?"));
    }
}
