//! A speed that somebody states: what it could mean, what is missing to know it, and what would follow.
//!
//! It refuses to believe or to doubt: it does arithmetic on what was said. Invariant: a number is never given a meaning that
//! the words beside it do not have; where several are possible, all of them are listed.

use crate::Comfort;
use crate::record::Record;
use crate::run::{Load, PhaseResult};
use std::fmt;

/// A stated speed, as far as its words tell.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Tokens per second.
    pub tokens_per_second: f64,
    /// Which speed the words name, if they do.
    pub meaning: Option<Meaning>,
    /// The conditions that the words name: name and what was said.
    pub conditions: Vec<(Condition, String)>,
}

/// The speeds that people call "tokens per second".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Meaning {
    /// Of one request after its first chunk.
    OutputSpeed,
    /// Of one request over its whole time.
    EndToEndSpeed,
    /// Of all requests together.
    Throughput,
    /// Of reading the prompt.
    PrefillSpeed,
}

/// What a speed depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Condition {
    /// Which model.
    Model,
    /// Which provider, or which engine on which hardware.
    Provider,
    /// How many requests in flight, or at which rate.
    Load,
    /// Length of the prompt.
    InputTokens,
    /// Length of the answer.
    OutputTokens,
    /// Mean, median, or of the slowest requests.
    Statistic,
    /// How many requests.
    Sample,
    /// Whose tokens were counted, and whether hidden reasoning is among them.
    Tokens,
    /// When and from where.
    Place,
}

/// Why a text is not a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimError {
    /// What is wrong with it.
    pub message: String,
}

impl Meaning {
    /// All of them, the one that is meant most often first.
    pub const ALL: [Meaning; 4] =
        [Meaning::OutputSpeed, Meaning::EndToEndSpeed, Meaning::Throughput, Meaning::PrefillSpeed];

    /// The glossary's word.
    pub const fn name(self) -> &'static str {
        match self {
            Meaning::OutputSpeed => "output speed",
            Meaning::EndToEndSpeed => "end-to-end speed",
            Meaning::Throughput => "throughput",
            Meaning::PrefillSpeed => "prefill speed",
        }
    }

    /// Words in a claim that name it, in lower case.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Meaning::OutputSpeed => &["output speed", "per user", "/user", "per request", "single stream", "decode"],
            Meaning::EndToEndSpeed => &["end-to-end", "end to end", "e2e"],
            Meaning::Throughput => &["throughput", "aggregate", "in total", "system", "per gpu", "all users"],
            Meaning::PrefillSpeed => &["prefill", "prompt processing", "input tokens per second"],
        }
    }
}

impl Condition {
    /// Everything that a speed depends on.
    pub const ALL: [Condition; 9] = [
        Condition::Model,
        Condition::Provider,
        Condition::Load,
        Condition::InputTokens,
        Condition::OutputTokens,
        Condition::Statistic,
        Condition::Sample,
        Condition::Tokens,
        Condition::Place,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::Model => "model",
            Condition::Provider => "provider or hardware",
            Condition::Load => "load",
            Condition::InputTokens => "prompt length",
            Condition::OutputTokens => "answer length",
            Condition::Statistic => "statistic",
            Condition::Sample => "sample",
            Condition::Tokens => "tokens",
            Condition::Place => "time and place",
        }
    }

    /// The question to ask when it is missing.
    pub const fn question(self) -> &'static str {
        match self {
            Condition::Model => "Which model, and at which precision?",
            Condition::Provider => "Which provider, or which engine on which hardware?",
            Condition::Load => {
                "At how many requests in flight, or at which rate? Alone on the machine, or among others?"
            }
            Condition::InputTokens => "How long were the prompts, and were they unique or from a cache?",
            Condition::OutputTokens => "How long were the answers?",
            Condition::Statistic => "The mean, the median, the best run, or what the slowest 5 % got?",
            Condition::Sample => "Over how many requests and how much time?",
            Condition::Tokens => "Whose tokens? Are reasoning tokens counted that nobody saw?",
            Condition::Place => "When, and measured from where?",
        }
    }

    /// Words before or after which it is named, in lower case.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Condition::Model => &[
                "llama", "gpt", "qwen", "gemini", "claude", "mistral", "deepseek", "kimi", "glm", "gemma", "phi-",
                "grok", "model",
            ],
            Condition::Provider => &[
                "h100",
                "h200",
                "b200",
                "b300",
                "gb200",
                "mi300",
                "mi355",
                "a100",
                "l40",
                "rtx",
                "tpu",
                "groq",
                "cerebras",
                "vllm",
                "sglang",
                "tensorrt",
                "ollama",
                "llama.cpp",
                "azure",
                "bedrock",
                "gpu",
                "m4 ",
                "m3 ",
            ],
            Condition::Load => &[
                "concurren",
                "batch",
                "in flight",
                "users",
                "streams",
                "req/s",
                "rps",
                "qps",
                "single stream",
                "per second load",
            ],
            Condition::InputTokens => &["input", "prompt", "context", "isl"],
            Condition::OutputTokens => &["output tok", "out tok", "osl", "tokens out", "answers of"],
            Condition::Statistic => &["median", "mean", "average", "p50", "p95", "p99", "peak", "best", "slowest"],
            Condition::Sample => &["requests", "runs", "n =", "n=", "samples", "over 1", "for 1"],
            Condition::Tokens => &["o200k", "cl100k", "tokenizer", "native tokens", "reasoning"],
            Condition::Place => &["2024", "2025", "2026", "2027", "region", "us-", "eu-", "from "],
        }
    }
}

impl Claim {
    /// Reads a claim such as `800 tok/s on llama-70b at batch 32, fp8`. The number needs a unit of tokens per second
    /// (`tok/s`, `t/s`, `tps`, `tokens/s`, `tokens per second`) or of time per token (`12 ms/token`, `tpot 12 ms`).
    ///
    /// # Errors
    /// When there is no number with such a unit.
    pub fn parse(text: &str) -> Result<Claim, ClaimError> {
        let lower = text.to_lowercase();
        let tokens_per_second = speed_in(&lower).ok_or_else(|| ClaimError {
            message: format!(
                "`{text}` holds no number with a unit of tokens per second; write for example \"800 tok/s\" or \"12 ms/token\""
            ),
        })?;
        let meaning = Meaning::ALL.into_iter().find(|meaning| meaning.words().iter().any(|word| lower.contains(word)));
        let named = |condition: &Condition| condition.words().iter().find(|word| lower.contains(**word)).copied();
        let conditions = Condition::ALL
            .into_iter()
            .filter_map(|condition| Some((condition, around(&lower, named(&condition)?).to_owned())))
            .collect();
        Ok(Claim { tokens_per_second, meaning, conditions })
    }

    /// What would have to be asked.
    pub fn missing(&self) -> impl Iterator<Item = Condition> + '_ {
        Condition::ALL.into_iter().filter(|condition| !self.conditions.iter().any(|(named, _)| named == condition))
    }

    /// The meanings that the words allow.
    pub fn meanings(&self) -> Vec<Meaning> {
        self.meaning.map_or_else(|| Meaning::ALL.to_vec(), |meaning| vec![meaning])
    }

    /// What follows if the number has this meaning, in sentences.
    pub fn follows(&self, meaning: Meaning) -> Vec<String> {
        let speed = self.tokens_per_second;
        match meaning {
            Meaning::OutputSpeed => vec![
                format!(
                    "{:.2} ms per token after the first; an answer of 500 tokens takes {:.1} s and the wait for its first token.",
                    1e3 / speed,
                    499.0 / speed
                ),
                format!("For a reader: {} ({} tok/s).", Comfort::of(speed).name(), Comfort::of(speed).range()),
                "It says nothing about the wait for the first token, nor about what others get at the same time."
                    .to_owned(),
            ],
            Meaning::EndToEndSpeed => vec![
                format!("An answer of 500 tokens takes {:.1} s from asking to its end, waiting included.", 500.0 / speed),
                "It depends on the length: a short answer is nearly all waiting. Without the length it cannot be compared."
                    .to_owned(),
            ],
            Meaning::Throughput => {
                let each = |users: f64| format!("{:.1} tok/s each for {users:.0}", speed / users);
                vec![
                    format!("Shared evenly: {}, {}, {}.", each(10.0), each(64.0), each(256.0)),
                    "It is what the machine does, not what anybody sees; how fast one request is depends on how many there were."
                        .to_owned(),
                ]
            }
            Meaning::PrefillSpeed => vec![
                format!(
                    "A prompt of 1,000 tokens is read in {:.0} ms, one of 100,000 in {:.1} s, if the speed holds (it falls with length).",
                    1e6 / speed,
                    1e5 / speed
                ),
                "It says nothing about how fast the answer is written.".to_owned(),
            ],
        }
    }

    /// Holds the claim against what was measured: a sentence for each load level and each meaning that a record can judge.
    pub fn against(&self, record: &Record) -> Vec<String> {
        record
            .phases
            .iter()
            .flat_map(|phase| self.meanings().into_iter().filter_map(|meaning| self.judge(meaning, phase)))
            .collect()
    }

    fn judge(&self, meaning: Meaning, phase: &PhaseResult) -> Option<String> {
        let (value, low, high) = match meaning {
            Meaning::OutputSpeed => {
                let median = &phase.output_speed.median;
                (median.value.or(median.descriptive)?, median.low, median.high)
            }
            Meaning::EndToEndSpeed => {
                let median = &phase.e2e_speed.median;
                (median.value.or(median.descriptive)?, median.low, median.high)
            }
            Meaning::Throughput => {
                let seen = phase.throughput.as_ref()?;
                let interval = seen.interval;
                (seen.tokens_per_second, interval.map(|ends| ends.low), interval.map(|ends| ends.high))
            }
            Meaning::PrefillSpeed => return None,
        };
        let claimed = self.tokens_per_second;
        let ratio = claimed / value;
        let inside = low.zip(high).is_some_and(|(low, high)| low <= claimed && claimed <= high);
        let verdict = if inside {
            "the claim lies within the interval".to_owned()
        } else if low.is_none() {
            format!("the claim is {ratio:.2} times that; too few samples for an interval")
        } else {
            format!("the claim is {ratio:.2} times that, outside the interval")
        };
        let interval = low.zip(high).map_or_else(String::new, |(low, high)| format!(" [{low:.1}..{high:.1}]"));
        let valid = if phase.is_valid() { "" } else { " (not valid)" };
        let load = match phase.load {
            Load::Closed { concurrency: 1 } => "alone".to_owned(),
            _ => format!("at {}", phase.name),
        };
        Some(format!("As {} {load}: measured {value:.1} tok/s{interval}{valid}; {verdict}.", meaning.name()))
    }
}

/// The first number with a unit of speed, in tokens per second.
fn speed_in(lower: &str) -> Option<f64> {
    let mut from = 0;
    while let Some(start) = lower[from..].find(|character: char| character.is_ascii_digit()) {
        let start = from + start;
        let digits = lower[start..].find(|character: char| !(character.is_ascii_digit() || ".,_".contains(character)));
        let end = digits.map_or(lower.len(), |length| start + length);
        let number = lower[start..end].trim_end_matches(['.', ',']).replace([',', '_'], "");
        let rest = lower[end..].trim_start();
        let (scale, rest) = match rest.strip_prefix('k') {
            Some(behind) if !behind.starts_with(|character: char| character.is_alphabetic() && character != 't') => {
                (1e3, behind.trim_start())
            }
            _ => (1.0, rest),
        };
        if let Ok(number) = number.parse::<f64>()
            && number > 0.0
        {
            if PER_SECOND.iter().any(|unit| rest.starts_with(unit)) {
                return Some(number * scale);
            }
            let milliseconds = ["ms/tok", "ms / tok", "ms per tok", "ms/t "].iter().any(|unit| rest.starts_with(unit));
            let named = rest.starts_with("ms") && lower[..start].contains("tpot");
            if milliseconds || named {
                return Some(1e3 / number);
            }
        }
        from = end;
    }
    None
}

const PER_SECOND: [&str; 10] = [
    "tok/s",
    "toks/s",
    "tokens/s",
    "token/s",
    "tps",
    "t/s",
    "tokens per second",
    "tok per second",
    "tok / s",
    "tokens / s",
];

/// The part of the text between commas that holds a word.
fn around<'t>(text: &'t str, word: &str) -> &'t str {
    text.split([',', ';']).find(|part| part.contains(word)).unwrap_or(word_in(text, word)).trim()
}

/// The word itself, where a comma stands within it.
fn word_in<'t>(text: &'t str, word: &str) -> &'t str {
    text.find(word).map_or("", |at| &text[at..at + word.len()])
}

impl fmt::Display for ClaimError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "read the claim: {}", self.message)
    }
}

impl std::error::Error for ClaimError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_needs_a_unit_of_speed() {
        for (text, speed) in [
            ("800 tok/s", 800.0),
            ("up to 10,500 tokens per second", 10_500.0),
            ("1.2k tok/s on 8 x H100", 1_200.0),
            ("2 users at 3.5 t/s", 3.5),
            ("tpot 12.5 ms", 80.0),
            ("20 ms/token", 50.0),
            ("100 TPS", 100.0),
        ] {
            assert_eq!(Claim::parse(text).expect(text).tokens_per_second, speed, "{text}");
        }
        for text in ["", "fast", "800", "800 requests/s", "0 tok/s", "70b at 32"] {
            assert!(Claim::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_said_is_not_asked_again() {
        let claim = Claim::parse("800 tok/s throughput on llama-3.3-70b, 8 x H100, batch 64, median, 1k input")
            .expect("a claim");
        assert_eq!(claim.meaning, Some(Meaning::Throughput));
        let missing: Vec<Condition> = claim.missing().collect();
        assert_eq!(missing, [Condition::OutputTokens, Condition::Sample, Condition::Tokens, Condition::Place]);
        assert_eq!(Claim::parse("800 tok/s").expect("a claim").missing().count(), Condition::ALL.len());
    }

    #[test]
    fn the_arithmetic_is_right() {
        let claim = Claim::parse("800 tok/s").expect("a claim");
        assert_eq!(claim.meanings().len(), 4);
        assert!(
            claim.follows(Meaning::OutputSpeed)[0]
                .starts_with("1.25 ms per token after the first; an answer of 500 tokens takes 0.6 s")
        );
        assert_eq!(
            claim.follows(Meaning::Throughput)[0],
            "Shared evenly: 80.0 tok/s each for 10, 12.5 tok/s each for 64, 3.1 tok/s each for 256."
        );
        assert!(
            claim.follows(Meaning::PrefillSpeed)[0]
                .starts_with("A prompt of 1,000 tokens is read in 1250 ms, one of 100,000 in 125.0 s")
        );
    }
}
