//! Prompts of a run: synthetic text of exact or drawn lengths, lengths from a trace, or prompts from a file.
//!
//! Invariant: the n-th prompt is a function of source, seeds and n.

mod agents;
mod file;
mod lengths;
mod prefix;

pub use file::{Columns, FileKind, PromptFile};
pub use lengths::{Empirical, Lengths};
pub use prefix::{MAX_GROUPS, PrefixLength, PrefixPool};

use crate::agents::AgentTrace;
use crate::trace::{BLOCK_TOKENS, Trace};
use agents::AgentPrompts;
pub(crate) use agents::AgentStep;
use prefix::Groups;
use std::sync::Arc;
use tokrate_core::{Message, Rng, Role};
use tokrate_probe::synthetic::{PromptSpec, Synthetic, append_words};

/// Where prompts come from.
#[derive(Clone, Debug)]
pub enum PromptSource {
    /// Words in no order.
    Synthetic(SyntheticPrompts),
    /// A file of prompts, in an order of their own for each seed.
    File(Arc<PromptFile>),
    /// Made-up words of the lengths of a trace, with the blocks that its requests share.
    Trace(Arc<Trace>),
    /// The same of the steps of agents.
    Agents(Arc<AgentTrace>),
}

/// What made-up prompts look like.
#[derive(Clone, PartialEq, Debug)]
pub struct SyntheticPrompts {
    /// How long they are in o200k tokens, exactly.
    pub input: Lengths,
    /// What they share at their beginning.
    pub prefix: PrefixPool,
}

/// One prompt.
#[derive(Clone, PartialEq, Debug)]
pub struct Prompt {
    /// Messages.
    pub messages: Vec<Message>,
    /// Its length in o200k tokens.
    pub input_tokens: u64,
    /// Requested output tokens, if the source specifies them.
    pub output_tokens: Option<u32>,
}

/// Makes the prompts of a run.
#[derive(Debug)]
pub struct Prompts(Maker);

#[derive(Debug)]
enum Maker {
    Synthetic(Box<MadeUp>),
    File { file: Arc<PromptFile>, order: Vec<u32> },
    Trace { trace: Arc<Trace>, words: &'static [&'static str], rng: Rng },
    Agents(AgentPrompts),
}

/// Makes prompts of words.
#[derive(Debug)]
struct MadeUp {
    words: Synthetic,
    prompts: SyntheticPrompts,
    lengths: Rng,
    groups: Groups,
}

impl MadeUp {
    fn input_tokens(&self, number: u64) -> u32 {
        self.prompts.input.draw(&mut self.lengths.nth(number))
    }
}

impl PromptSource {
    /// Made-up prompts of that length each, of which so many leading tokens are the same for all.
    pub fn synthetic(input_tokens: u32, shared_prefix_tokens: u32) -> PromptSource {
        let prefix = PrefixPool::one(shared_prefix_tokens);
        PromptSource::Synthetic(SyntheticPrompts { input: Lengths::Fixed(input_tokens), prefix })
    }

    /// Mean prompt length in o200k tokens, rounded.
    pub fn input_tokens(&self) -> u32 {
        match self {
            PromptSource::Synthetic(prompts) => prompts.input.rounded_mean(),
            PromptSource::File(file) => mean(file.prompts().iter().map(|prompt| prompt.input_tokens)),
            PromptSource::Trace(trace) => mean(trace.requests.iter().map(|request| u64::from(request.input_tokens))),
            PromptSource::Agents(trace) => mean(trace.steps.iter().map(|step| u64::from(step.input_tokens))),
        }
    }

    /// Mean requested output tokens, rounded; `otherwise` is asked for where a prompt does not say.
    pub fn output_tokens(&self, otherwise: &Lengths) -> u32 {
        match self {
            PromptSource::Synthetic(_) => otherwise.rounded_mean(),
            PromptSource::File(file) => {
                let plain = otherwise.rounded_mean();
                mean(file.prompts().iter().map(|prompt| u64::from(prompt.output_tokens.unwrap_or(plain))))
            }
            PromptSource::Trace(trace) => mean(trace.requests.iter().map(|request| u64::from(request.output_tokens))),
            PromptSource::Agents(trace) => mean(trace.steps.iter().map(|step| u64::from(step.output_tokens))),
        }
    }

    /// The most output tokens that a prompt asks for; `otherwise` where it does not say.
    pub fn most_output_tokens(&self, otherwise: &Lengths) -> u32 {
        let most = match self {
            PromptSource::Synthetic(_) => None,
            PromptSource::File(file) => {
                file.prompts().iter().map(|prompt| prompt.output_tokens.unwrap_or(otherwise.most())).max()
            }
            PromptSource::Trace(trace) => trace.requests.iter().map(|request| request.output_tokens).max(),
            PromptSource::Agents(trace) => trace.steps.iter().map(|step| step.output_tokens).max(),
        };
        most.unwrap_or(otherwise.most())
    }

    /// Whether lengths of prompts or answers are drawn, so that a few requests may be far from the mean; `otherwise` is asked for where
    /// a prompt does not say.
    pub fn draws_lengths(&self, otherwise: &Lengths) -> bool {
        match self {
            PromptSource::Synthetic(prompts) => !prompts.input.is_fixed() || !otherwise.is_fixed(),
            PromptSource::File(file) => {
                !otherwise.is_fixed() || file.prompts().iter().any(|prompt| prompt.output_tokens.is_some())
            }
            PromptSource::Trace(_) | PromptSource::Agents(_) => false,
        }
    }

    /// Leading tokens that all prompts share, or those of a group; of prompts that differ in length those of the mean.
    pub fn shared_prefix_tokens(&self) -> u32 {
        match self {
            PromptSource::Synthetic(prompts) => prompts.prefix.tokens(self.input_tokens()),
            PromptSource::File(_) | PromptSource::Trace(_) | PromptSource::Agents(_) => 0,
        }
    }

    /// How many different prompts there are; `None` for as many as are asked for.
    pub fn len(&self) -> Option<u64> {
        match self {
            PromptSource::Synthetic(_) => None,
            PromptSource::File(file) => Some(file.prompts().len() as u64),
            PromptSource::Trace(trace) => Some(trace.requests.len() as u64),
            // A session that runs again has words of its own.
            PromptSource::Agents(_) => None,
        }
    }

    /// The first number from `number` on at which the source begins anew, where its prompts belong to the times of a trace.
    pub(crate) fn aligned(&self, number: u64) -> u64 {
        match self {
            PromptSource::Synthetic(_) | PromptSource::File(_) => number,
            PromptSource::Trace(trace) => number.next_multiple_of(trace.requests.len().max(1) as u64),
            PromptSource::Agents(trace) => number.next_multiple_of(trace.steps.len().max(1) as u64),
        }
    }

    /// Whether there is no prompt at all.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The source as listed in the conditions: kind, lengths, and a hash of its content; `otherwise` is asked for where a prompt does
    /// not say how long its answer is to be.
    pub fn text(&self, otherwise: &Lengths) -> String {
        let drawn = if otherwise.is_fixed() { None } else { Some(format!("answers {}", range(otherwise))) };
        match self {
            PromptSource::Synthetic(prompts) => {
                let lengths = (!prompts.input.is_fixed()).then(|| format!("lengths {}", range(&prompts.input)));
                let prefix = prompts.prefix.is_pool().then(|| prompts.prefix.to_string());
                let parts = lengths.into_iter().chain(prefix).chain(drawn);
                std::iter::once("synthetic".to_owned()).chain(parts).collect::<Vec<String>>().join("; ")
            }
            PromptSource::File(file) => {
                let (least, most) = ends(file.prompts().iter().map(|prompt| prompt.input_tokens));
                let pictures = match file.with_images() {
                    0 => String::new(),
                    n => format!(" ({n} with pictures, which are not counted)"),
                };
                let own = file.prompts().iter().filter_map(|prompt| prompt.output_tokens);
                let answers = match own.clone().count() {
                    0 => drawn.map(|drawn| format!(" ({drawn})")).unwrap_or_default(),
                    n => {
                        let (least, most) = ends(own.map(u64::from));
                        format!(" and answers of {least} to {most} ({n} of its own)")
                    }
                };
                format!(
                    "{} prompts of {least} to {most} tokens{pictures}{answers} from a {} file, hash {:016x}",
                    file.prompts().len(),
                    file.kind().name(),
                    file.hash()
                )
            }
            PromptSource::Trace(trace) => {
                let (least, most) = ends(trace.requests.iter().map(|request| u64::from(request.input_tokens)));
                let (name, hash) = (trace.format.name(), trace.hash);
                match &trace.drawn {
                    None => format!("words of {least} to {most} tokens as in a trace ({name}), hash {hash:016x}"),
                    Some(from) => {
                        format!("words of {least} to {most} tokens as drawn from {from} ({name}), hash {hash:016x}")
                    }
                }
            }
            PromptSource::Agents(trace) => {
                let (least, most) = ends(trace.steps.iter().map(|step| u64::from(step.input_tokens)));
                format!(
                    "words of {least} to {most} tokens as in {} sessions of agents with {} steps ({}), hash {:016x}",
                    trace.sessions.len(),
                    trace.steps.len(),
                    trace.format.name(),
                    trace.hash
                )
            }
        }
    }
}

/// A distribution with what it comes to.
fn range(lengths: &Lengths) -> String {
    format!("{lengths} ({} to {}, mean {})", lengths.least(), lengths.most(), lengths.rounded_mean())
}

/// The least and the most of some lengths.
fn ends(lengths: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    (lengths.clone().min().unwrap_or(0), lengths.max().unwrap_or(0))
}

impl Prompts {
    /// Prompts of a source. Lengths, groups and the order of a file are drawn by `plan`. The text of synthetic ones is drawn by `text`
    /// from `words`, each of which is one o200k token with its leading space.
    pub fn new(source: &PromptSource, words: &'static [&'static str], plan: &Rng, text: Rng) -> Prompts {
        Prompts(match source {
            PromptSource::Synthetic(prompts) => Maker::Synthetic(Box::new(MadeUp {
                lengths: plan.child("input lengths"),
                groups: Groups::new(&prompts.prefix, plan.child("groups")),
                words: Synthetic::new(words, text),
                prompts: prompts.clone(),
            })),
            PromptSource::File(file) => {
                let order = shuffled(file.prompts().len() as u32, &mut plan.child("order"));
                Maker::File { file: Arc::clone(file), order }
            }
            PromptSource::Trace(trace) => Maker::Trace { trace: Arc::clone(trace), words, rng: text.child("trace") },
            PromptSource::Agents(trace) => Maker::Agents(AgentPrompts::new(trace, words, text.child("agents"))),
        })
    }

    /// The `number`-th prompt of a run, deterministic. After the last prompt of a source the first follows again.
    pub fn prompt(&self, number: u64) -> Prompt {
        match &self.0 {
            Maker::Synthetic(made) => {
                let input_tokens = made.input_tokens(number);
                let shared_prefix_tokens = made.prompts.prefix.tokens(input_tokens);
                let spec = PromptSpec { input_tokens, shared_prefix_tokens, group: made.groups.of(number) };
                Prompt::of(made.words.content(spec, number), input_tokens, None)
            }
            Maker::File { file, order } => {
                let place = order[(number % order.len() as u64) as usize];
                file.prompts()[place as usize].clone()
            }
            Maker::Trace { trace, words, rng } => {
                let row = number % trace.requests.len() as u64;
                let request = &trace.requests[row as usize];
                let content = traced(request.input_tokens, &request.blocks, words, rng, number);
                Prompt::of(content, request.input_tokens, Some(request.output_tokens))
            }
            Maker::Agents(agents) => {
                let step = agents.step(number);
                Prompt::of(agents.content(number), step.input_tokens, Some(step.output_tokens))
            }
        }
    }

    /// Requested output tokens of the `number`-th prompt, if the source specifies them.
    pub fn output_tokens(&self, number: u64) -> Option<u32> {
        match &self.0 {
            Maker::Synthetic(_) => None,
            Maker::File { file, order } => {
                file.prompts()[order[(number % order.len() as u64) as usize] as usize].output_tokens
            }
            Maker::Trace { trace, .. } => {
                Some(trace.requests[(number % trace.requests.len() as u64) as usize].output_tokens)
            }
            Maker::Agents(agents) => Some(agents.step(number).output_tokens),
        }
    }

    /// The length of the `number`-th prompt in o200k tokens.
    pub fn input_tokens(&self, number: u64) -> u64 {
        match &self.0 {
            Maker::Synthetic(made) => u64::from(made.input_tokens(number)),
            Maker::File { file, order } => {
                file.prompts()[order[(number % order.len() as u64) as usize] as usize].input_tokens
            }
            Maker::Trace { trace, .. } => {
                u64::from(trace.requests[(number % trace.requests.len() as u64) as usize].input_tokens)
            }
            Maker::Agents(agents) => u64::from(agents.step(number).input_tokens),
        }
    }

    /// The same of texts that ask for nothing.
    pub(crate) fn without_instruction(self) -> Prompts {
        Prompts(match self.0 {
            Maker::Synthetic(made) => {
                Maker::Synthetic(Box::new(MadeUp { words: made.words.without_instruction(), ..*made }))
            }
            other => other,
        })
    }

    /// The same in sentences.
    pub(crate) fn in_sentences(self) -> Prompts {
        Prompts(match self.without_instruction().0 {
            Maker::Synthetic(made) => Maker::Synthetic(Box::new(MadeUp { words: made.words.in_sentences(), ..*made })),
            other => other,
        })
    }

    /// Whether each prompt holds all that is sent with it, although it belongs to a session.
    pub(crate) fn are_whole(&self) -> bool {
        matches!(self.0, Maker::Agents(_))
    }

    /// The step of an agent that a prompt is of.
    pub(crate) fn agent_step(&self, number: u64) -> Option<AgentStep<'_>> {
        if let Maker::Agents(agents) = &self.0 { Some(agents.described(number)) } else { None }
    }
}

impl Prompt {
    fn of(content: String, input_tokens: u32, output_tokens: Option<u32>) -> Prompt {
        let messages = vec![Message::text(Role::User, content)];
        Prompt { messages, input_tokens: u64::from(input_tokens), output_tokens }
    }
}

/// Words for a request of a trace: a block with the same id has the same words in every request, and a request's last block
/// is cut to its length. What no block covers is the request's own.
fn traced(input_tokens: u32, blocks: &[u64], words: &[&str], rng: &Rng, number: u64) -> String {
    let mut content = String::with_capacity(input_tokens as usize * 6);
    let mut left = input_tokens;
    let shared = rng.child("block");
    for &block in blocks {
        let tokens = left.min(BLOCK_TOKENS);
        append_words(&mut content, words, tokens, &mut shared.nth(block));
        left -= tokens;
    }
    append_words(&mut content, words, left, &mut rng.child("own").nth(number));
    content
}

/// 0..n in an order that `rng` decides (Fisher and Yates).
fn shuffled(n: u32, rng: &mut Rng) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last as u64 + 1) as usize);
    }
    order
}

fn mean(lengths: impl Iterator<Item = u64>) -> u32 {
    let (mut sum, mut n) = (0_u128, 0_u128);
    for length in lengths {
        sum += u128::from(length);
        n += 1;
    }
    (sum + n / 2).checked_div(n).unwrap_or(0).min(u128::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_sim::WORDS;
    use tokrate_tokens::{Encoding, count};

    fn text(prompts: &Prompts, number: u64) -> String {
        prompts.prompt(number).messages[0].texts().collect()
    }

    #[test]
    fn blocks_of_a_trace_are_shared_and_lengths_are_exact() {
        let lines = "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 7, \"hash_ids\": [5, 6, 7]}\n\
                     {\"timestamp\": 3, \"input_length\": 1030, \"output_length\": 9, \"hash_ids\": [5, 6, 8]}\n\
                     {\"timestamp\": 4, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [9, 6]}\n";
        let trace = Arc::new(Trace::parse(lines, None).expect("a trace"));
        let prompts = Prompts::new(&PromptSource::Trace(trace), WORDS, &Rng::root(1), Rng::root(1));
        let texts: Vec<String> = (0..3).map(|number| text(&prompts, number)).collect();
        let tokens: Vec<usize> = texts.iter().map(|text| count(Encoding::O200kBase, text)).collect();
        assert_eq!(tokens, [1100, 1030, 600]);
        let shared = texts[0].bytes().zip(texts[1].bytes()).take_while(|(a, b)| a == b).count();
        let shared = count(Encoding::O200kBase, &texts[0][..shared]);
        assert!((1024..1030).contains(&shared), "two blocks, and a coincidence at most: {shared}");
        assert_ne!(texts[0].as_bytes()[..40], texts[2].as_bytes()[..40]);
        assert_eq!(prompts.prompt(4).output_tokens, Some(9), "it begins anew");
        assert_eq!((prompts.input_tokens(0), prompts.input_tokens(2)), (1100, 600));
    }

    #[test]
    fn made_up_prompts_have_the_lengths_that_were_drawn_and_share_what_their_group_does() {
        let input = Lengths::Uniform { from: 40, to: 400 };
        let prefix = PrefixPool { length: PrefixLength::Share(0.5), groups: 2, skew: 0.0 };
        let source = PromptSource::Synthetic(SyntheticPrompts { input, prefix });
        let prompts = Prompts::new(&source, WORDS, &Rng::root(1), Rng::root(1));
        let texts: Vec<String> = (0..40).map(|number| text(&prompts, number)).collect();
        for (number, text) in texts.iter().enumerate() {
            assert_eq!(count(Encoding::O200kBase, text) as u64, prompts.input_tokens(number as u64));
        }
        let mut beginnings: Vec<&str> = texts.iter().map(|text| &text[..60]).collect();
        beginnings.sort_unstable();
        beginnings.dedup();
        assert_eq!(beginnings.len(), 2, "20 tokens of each are its group's");
        let answers = Lengths::Normal { mean: 100.0, deviation: 20.0, limit: None };
        assert_eq!(
            source.text(&answers),
            "synthetic; lengths uniform:40..400 (40 to 400, mean 220); 2 shared prefixes of 50 % of the prompt, equally often; \
             answers normal:100,20 (1 to 162, mean 100)"
        );
        assert_eq!(PromptSource::synthetic(100, 20).text(&Lengths::Fixed(7)), "synthetic");
        assert_eq!((source.shared_prefix_tokens(), source.draws_lengths(&Lengths::Fixed(7))), (110, true));
    }

    #[test]
    fn prompts_of_a_file_come_in_an_order_of_the_seed_and_each_once() {
        let lines: String = (0..50).map(|n| format!("prompt number {n}\n")).collect();
        let file = Arc::new(PromptFile::parse(&lines, FileKind::Lines).expect("prompts"));
        let order = |seed| -> Vec<String> {
            let prompts = Prompts::new(&PromptSource::File(Arc::clone(&file)), WORDS, &Rng::root(seed), Rng::root(1));
            (0..50).map(|number| text(&prompts, number)).collect()
        };
        let (one, two) = (order(1), order(2));
        assert_eq!(one, order(1));
        assert_ne!(one, two);
        let mut sorted = one.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), 50);
    }
}
