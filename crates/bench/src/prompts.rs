//! Prompts of a run: synthetic text of exact length, lengths from a trace, or prompts from a file.
//!
//! Invariant: the n-th prompt is a function of source, seed and n.

mod file;

pub use file::{FileKind, PromptFile};
pub use tokrate_probe::synthetic::PromptSpec;

use crate::trace::{BLOCK_TOKENS, Trace};
use std::sync::Arc;

use tokrate_core::{Message, Rng, Role};
use tokrate_probe::synthetic::{Synthetic, append_words};

/// Where prompts come from.
#[derive(Clone, Debug)]
pub enum PromptSource {
    /// Words in no order, of an exact length.
    Synthetic(PromptSpec),
    /// A file of prompts, in an order of their own for each seed.
    File(Arc<PromptFile>),
    /// Made-up words of the lengths of a trace, with the blocks that its requests share.
    Trace(Arc<Trace>),
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
    Synthetic { words: Synthetic, spec: PromptSpec },
    File { file: Arc<PromptFile>, order: Vec<u32> },
    Trace { trace: Arc<Trace>, words: &'static [&'static str], rng: Rng },
}

impl PromptSource {
    /// Mean prompt length in o200k tokens, rounded.
    pub fn input_tokens(&self) -> u32 {
        match self {
            PromptSource::Synthetic(spec) => spec.input_tokens,
            PromptSource::File(file) => mean(file.prompts().iter().map(|prompt| prompt.input_tokens)),
            PromptSource::Trace(trace) => mean(trace.requests.iter().map(|request| u64::from(request.input_tokens))),
        }
    }

    /// Mean requested output tokens, rounded, if the source specifies them.
    pub fn output_tokens(&self) -> Option<u32> {
        match self {
            PromptSource::Synthetic(_) | PromptSource::File(_) => None,
            PromptSource::Trace(trace) => {
                Some(mean(trace.requests.iter().map(|request| u64::from(request.output_tokens))))
            }
        }
    }

    /// Leading tokens that all prompts share.
    pub fn shared_prefix_tokens(&self) -> u32 {
        match self {
            PromptSource::Synthetic(spec) => spec.shared_prefix_tokens,
            PromptSource::File(_) | PromptSource::Trace(_) => 0,
        }
    }

    /// How many different prompts there are; `None` for as many as are asked for.
    pub fn len(&self) -> Option<u64> {
        match self {
            PromptSource::Synthetic(_) => None,
            PromptSource::File(file) => Some(file.prompts().len() as u64),
            PromptSource::Trace(trace) => Some(trace.requests.len() as u64),
        }
    }

    /// Whether there is no prompt at all.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The source as listed in the conditions: kind, lengths, and a hash of its content.
    pub fn text(&self) -> String {
        match self {
            PromptSource::Synthetic(_) => "synthetic".to_owned(),
            PromptSource::File(file) => {
                let lengths = || file.prompts().iter().map(|prompt| prompt.input_tokens);
                let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
                let pictures = match file.with_images() {
                    0 => String::new(),
                    n => format!(" ({n} with pictures, which are not counted)"),
                };
                format!(
                    "{} prompts of {least} to {most} tokens{pictures} from a {} file, hash {:016x}",
                    file.prompts().len(),
                    file.kind().name(),
                    file.hash()
                )
            }
            PromptSource::Trace(trace) => {
                let lengths = || trace.requests.iter().map(|request| request.input_tokens);
                let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
                format!(
                    "words of {least} to {most} tokens as in a trace ({}), hash {:016x}",
                    trace.format.name(),
                    trace.hash
                )
            }
        }
    }
}

impl Prompts {
    /// Prompts of a source. Synthetic ones are drawn from `words`, each of which is one o200k token with its leading space;
    /// `rng` also shuffles the prompts of a file.
    pub fn new(source: &PromptSource, words: &'static [&'static str], rng: Rng) -> Prompts {
        Prompts(match source {
            PromptSource::Synthetic(spec) => Maker::Synthetic { words: Synthetic::new(*spec, words, rng), spec: *spec },
            PromptSource::File(file) => {
                let order = shuffled(file.prompts().len() as u32, &mut rng.child("order"));
                Maker::File { file: Arc::clone(file), order }
            }
            PromptSource::Trace(trace) => Maker::Trace { trace: Arc::clone(trace), words, rng: rng.child("trace") },
        })
    }

    /// The `number`-th prompt of a run, deterministic. After the last prompt of a source the first follows again.
    pub fn prompt(&self, number: u64) -> Prompt {
        match &self.0 {
            Maker::Synthetic { words, spec } => Prompt::of(words.content(number), spec.input_tokens, None),
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
        }
    }

    /// Requested output tokens of the `number`-th prompt, if the source specifies them.
    pub fn output_tokens(&self, number: u64) -> Option<u32> {
        match &self.0 {
            Maker::Synthetic { .. } | Maker::File { .. } => None,
            Maker::Trace { trace, .. } => {
                Some(trace.requests[(number % trace.requests.len() as u64) as usize].output_tokens)
            }
        }
    }

    /// The length of the `number`-th prompt in o200k tokens.
    pub fn input_tokens(&self, number: u64) -> u64 {
        match &self.0 {
            Maker::Synthetic { spec, .. } => u64::from(spec.input_tokens),
            Maker::File { file, order } => {
                file.prompts()[order[(number % order.len() as u64) as usize] as usize].input_tokens
            }
            Maker::Trace { trace, .. } => {
                u64::from(trace.requests[(number % trace.requests.len() as u64) as usize].input_tokens)
            }
        }
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
        let prompts = Prompts::new(&PromptSource::Trace(trace), WORDS, Rng::root(1));
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
    fn prompts_of_a_file_come_in_an_order_of_the_seed_and_each_once() {
        let lines: String = (0..50).map(|n| format!("prompt number {n}\n")).collect();
        let file = Arc::new(PromptFile::parse(&lines, FileKind::Lines).expect("prompts"));
        let order = |seed| -> Vec<String> {
            let prompts = Prompts::new(&PromptSource::File(Arc::clone(&file)), WORDS, Rng::root(seed));
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
