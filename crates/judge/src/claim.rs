//! A published speed claim: its possible meanings, the conditions it leaves out, and what follows from it.
//!
//! Invariant: a number never gets a meaning that its words do not support; where several are possible, all are listed.

mod conditions;
mod figure;
mod parser;
mod vocabulary;

use std::fmt;
use tokrate_core::format;
use tokrate_meter::Comfort;
use tokrate_record::Record;
use tokrate_record::run::{Load, PhaseResult};

/// A parsed claim.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Claim {
    /// Speeds, in tokens per second, in the order of the text.
    pub speeds: Vec<StatedValue>,
    /// Times to the first token, in milliseconds.
    pub first_tokens: Vec<StatedValue>,
    /// The stated conditions, each with its text.
    pub conditions: Vec<(Condition, String)>,
    /// Pieces with a number that were not understood.
    pub not_understood: Vec<String>,
}

/// A number that a text states, or a range of them.
#[derive(Clone, PartialEq, Debug)]
pub struct StatedValue {
    /// The number, or the lower end of the range.
    pub low: f64,
    /// The number, or the upper end of the range.
    pub high: f64,
    /// Whether it is an upper or a lower bound.
    pub bound: Bound,
    /// Which speed the words name, if they do.
    pub meaning: Option<Meaning>,
}

/// How a number is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Bound {
    /// The exact number.
    #[default]
    Plain,
    /// "Up to": the best there is.
    AtMost,
    /// "More than".
    AtLeast,
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
    /// In how many bits.
    Precision,
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

/// Why a text cannot be parsed as a claim.
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
}

impl Condition {
    /// Everything that a speed depends on.
    pub const ALL: [Condition; 10] = [
        Condition::Model,
        Condition::Precision,
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
            Condition::Precision => "precision",
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
            Condition::Model => "Which model?",
            Condition::Precision => "At which precision?",
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
}

impl Claim {
    /// Reads a claim such as `800 tok/s on llama-70b at batch 32, fp8`, as press releases, model cards and benchmarks write them.
    /// A speed needs a unit of tokens per time (`tok/s`, `t/s`, `TPS`, `tokens per second`, `tokens/min`) or of time per token
    /// (`12 ms/token`, `TPOT 12 ms`); a time to first token is named so (`TTFT 200 ms`, `first token in 0.2 s`).
    ///
    /// # Errors
    /// When there is neither, and when such a number can be read in two ways (`10.500 tok/s`).
    pub fn parse(text: &str) -> Result<Claim, ClaimError> {
        let claim = parser::read(text)?;
        if claim.speeds.is_empty() && claim.first_tokens.is_empty() {
            let message = format!(
                "`{text}` holds no number with a unit of tokens per second, nor a time to first token; write for example \
                 \"800 tok/s\", \"12 ms/token\" or \"TTFT 200 ms\""
            );
            return Err(ClaimError { message });
        }
        Ok(claim)
    }

    /// The conditions that the claim leaves out.
    pub fn missing(&self) -> impl Iterator<Item = Condition> + '_ {
        Condition::ALL.into_iter().filter(|condition| !self.conditions.iter().any(|(named, _)| named == condition))
    }
}

impl StatedValue {
    /// The meanings that the words allow.
    pub fn meanings(&self) -> Vec<Meaning> {
        self.meaning.map_or_else(|| Meaning::ALL.to_vec(), |meaning| vec![meaning])
    }

    /// The number or range in `unit`, with its bound.
    pub fn shown(&self, unit: &str) -> String {
        let before = match self.bound {
            Bound::Plain => "",
            Bound::AtMost => "at most ",
            Bound::AtLeast => "at least ",
        };
        match self.low < self.high {
            true => format!("{before}{} to {} {unit}", format::exact(self.low), format::exact(self.high)),
            false => format!("{before}{} {unit}", format::exact(self.low)),
        }
    }

    /// The ends of a range, or the number alone.
    pub fn ends(&self) -> Vec<f64> {
        if self.low < self.high { vec![self.low, self.high] } else { vec![self.low] }
    }
}

impl Meaning {
    /// What follows if a speed (tok/s) has this meaning, in sentences.
    pub fn implications(self, speed: f64) -> Vec<String> {
        match self {
            Meaning::OutputSpeed => vec![
                format!(
                    "{} per token after the first; an answer of 500 tokens takes {} and the wait for its first token.",
                    format::seconds(1.0 / speed),
                    format::seconds(499.0 / speed)
                ),
                format!("For a reader: {} ({} tok/s).", Comfort::of(speed).name(), Comfort::of(speed).range()),
                "It says nothing about the wait for the first token, nor about what others get at the same time."
                    .to_owned(),
            ],
            Meaning::EndToEndSpeed => vec![
                format!(
                    "An answer of 500 tokens takes {} from asking to its end, waiting included.",
                    format::seconds(500.0 / speed)
                ),
                "It depends on the length: a short answer is nearly all waiting. Without the length it cannot be compared."
                    .to_owned(),
            ],
            Meaning::Throughput => {
                let each = |users: f64| format!("{} tok/s each for {users:.0}", format::number(speed / users));
                vec![
                    format!("Shared evenly: {}, {}, {}.", each(10.0), each(64.0), each(256.0)),
                    "It is what the machine does, not what anybody sees; how fast one request is depends on how many there were."
                        .to_owned(),
                ]
            }
            Meaning::PrefillSpeed => vec![
                format!(
                    "A prompt of 1,000 tokens is read in {}, one of 100,000 in {}, if the speed holds (it falls with length).",
                    format::seconds(1e3 / speed),
                    format::seconds(1e5 / speed)
                ),
                "It says nothing about how fast the answer is written.".to_owned(),
            ],
        }
    }
}

impl Claim {
    /// Compares the claim with a measurement: a sentence for each number, load level and meaning that a record can
    /// judge.
    pub fn compare_with(&self, record: &Record) -> Vec<String> {
        let mut sentences = Vec::new();
        for phase in &record.phases {
            for stated in &self.speeds {
                sentences.extend(stated.meanings().into_iter().filter_map(|meaning| stated.judge(meaning, phase)));
            }
            sentences.extend(self.first_tokens.iter().filter_map(|stated| stated.judge_first_token(phase)));
        }
        sentences
    }
}

/// What was measured: the value and the ends of its interval.
type Measured = (f64, Option<f64>, Option<f64>);

impl StatedValue {
    fn judge_first_token(&self, phase: &PhaseResult) -> Option<String> {
        let p50 = &phase.ttft.p50;
        Some(self.comparison_sentence("the median TTFT", "ms", (p50.nearest_rank()?, p50.low, p50.high), phase))
    }

    fn judge(&self, meaning: Meaning, phase: &PhaseResult) -> Option<String> {
        let seen: Measured = match meaning {
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
        Some(self.comparison_sentence(meaning.name(), "tok/s", seen, phase))
    }

    fn comparison_sentence(&self, name: &str, unit: &str, (value, low, high): Measured, phase: &PhaseResult) -> String {
        let verdict = match low.zip(high) {
            Some((low, high)) if self.low <= high && low <= self.high => {
                "the claim lies within the interval".to_owned()
            }
            interval => {
                let ratios: Vec<String> = self.ends().iter().map(|end| format!("{:.2}", end / value)).collect();
                let why =
                    if interval.is_some() { ", outside the interval" } else { "; too few samples for an interval" };
                format!("the claim is {} times that{why}", ratios.join(" to "))
            }
        };
        let interval = low
            .zip(high)
            .map_or_else(String::new, |(low, high)| format!(" [{}..{}]", format::number(low), format::number(high)));
        let valid = if phase.is_valid() { "" } else { " (not valid)" };
        let load = match phase.load {
            Load::Closed { concurrency: 1 } => "alone".to_owned(),
            _ => format!("at {}", phase.name),
        };
        format!("As {name} {load}: measured {} {unit}{interval}{valid}; {verdict}.", format::number(value))
    }
}

impl fmt::Display for ClaimError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "read the claim: {}", self.message)
    }
}

impl std::error::Error for ClaimError {}

#[cfg(test)]
mod tests;
