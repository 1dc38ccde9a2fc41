//! What one change does: a question with one thing changed, run under the same load in virtual time.
//!
//! Invariant: every variant differs from the base in what it names and in nothing else.

use crate::answer::Estimator;
use crate::asked::Asked;
use crate::serving::{Serving, Tuning};
use crate::traffic::{Arrivals, Lengths, Samples, mean, quantile, run};
use tokrate_engine::{Policy, Speculation};

/// A question with its load.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Model, devices, precision, engine.
    pub asked: Asked,
    /// Settings of the scheduler.
    pub tuning: Tuning,
    /// What requests look like.
    pub lengths: Lengths,
    /// Users who ask again at once.
    pub users: u32,
}

/// One thing to change.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Storage of the weights.
    Precision(String),
    /// Device.
    Hardware(String),
    /// Devices in all.
    Gpus(u32),
    /// Devices a copy.
    Tp(u32),
    /// Engine.
    Engine(String),
    /// Users.
    Users(u32),
    /// Tokens of a prompt.
    Isl(u32),
    /// Tokens of an answer.
    Osl(u32),
    /// Tokens that a draft proposes, and the chance that each is accepted.
    Speculation(u32, f64),
    /// First tokens of prompts that all share.
    Shared(u32),
    /// Most requests of a copy at once.
    Seqs(u32),
    /// Most tokens of a step.
    BatchedTokens(u32),
}

/// The keys of changes, as they are typed.
pub const KEYS: [&str; 12] = [
    "precision",
    "hardware",
    "gpus",
    "tp",
    "engine",
    "users",
    "isl",
    "osl",
    "speculation",
    "shared",
    "max-num-seqs",
    "max-num-batched-tokens",
];

impl Change {
    /// Reads `KEY=VALUE`; of speculation `speculation=TOKENS:ACCEPTANCE`.
    ///
    /// # Errors
    /// The key or value that is wrong, and what is possible.
    pub fn parse(text: &str) -> Result<Change, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is no change; write KEY=VALUE"))?;
        let number = || {
            let wrong = || format!("{key} is {value:?}; give a whole number of at least 1");
            value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(wrong)
        };
        Ok(match key {
            "precision" => Change::Precision(value.to_owned()),
            "hardware" => Change::Hardware(value.to_owned()),
            "engine" => Change::Engine(value.to_owned()),
            "gpus" => Change::Gpus(number()?),
            "tp" => Change::Tp(number()?),
            "users" => Change::Users(number()?),
            "isl" => Change::Isl(number()?),
            "osl" => Change::Osl(number()?),
            "shared" => Change::Shared(number()?),
            "max-num-seqs" => Change::Seqs(number()?),
            "max-num-batched-tokens" => Change::BatchedTokens(number()?),
            "speculation" => {
                let parts = value.split_once(':').and_then(|(tokens, chance)| {
                    let chance = chance.parse::<f64>().ok().filter(|chance| (0.0..=1.0).contains(chance))?;
                    Some((tokens.parse::<u32>().ok().filter(|tokens| (1..=128).contains(tokens))?, chance))
                });
                let (tokens, chance) = parts.ok_or_else(|| {
                    format!("speculation is {value:?}; give TOKENS:ACCEPTANCE, such as 3:0.7 (1 to 128, and 0 to 1)")
                })?;
                Change::Speculation(tokens, chance)
            }
            _ => return Err(format!("{key:?} cannot be changed; one of {}", KEYS.join(", "))),
        })
    }

    /// The change in words.
    pub fn words(&self) -> String {
        match self {
            Change::Precision(name) => format!("weights as {name}"),
            Change::Hardware(name) => format!("on {name}"),
            Change::Gpus(count) => counted(*count, "device"),
            Change::Tp(count) => format!("{} a copy", counted(*count, "device")),
            Change::Engine(name) => format!("engine {name}"),
            Change::Users(users) => counted(*users, "user"),
            Change::Isl(tokens) => format!("prompts of {tokens} tokens"),
            Change::Osl(tokens) => format!("answers of {tokens} tokens"),
            Change::Speculation(tokens, chance) => format!("draft of {tokens}, {:.0} % accepted", chance * 100.0),
            Change::Shared(tokens) => format!("{tokens} prompt tokens shared by all"),
            Change::Seqs(count) => format!("at most {count} requests at once"),
            Change::BatchedTokens(count) => format!("at most {count} tokens a step"),
        }
    }

    /// The scenario with this one thing changed.
    pub fn apply(&self, base: &Scenario) -> Scenario {
        let mut scenario = base.clone();
        let asked = &mut scenario.asked;
        match self {
            Change::Precision(name) => {
                asked.weight_precision = Some(name.clone());
                asked.weight_size_gib = None;
            }
            Change::Hardware(name) => asked.hardware.clone_from(name),
            Change::Gpus(count) => {
                // A copy stays on as many devices as it was on, where there are enough.
                asked.tp = asked.tp.map(|tp| tp.min(f64::from(*count)));
                asked.n_gpus = Some(f64::from(*count));
            }
            Change::Tp(count) => asked.tp = Some(f64::from(*count)),
            Change::Engine(name) => {
                asked.engine = Some(name.clone());
                scenario.tuning.policy = None;
            }
            Change::Users(users) => scenario.users = *users,
            Change::Isl(tokens) => {
                scenario.lengths.isl = *tokens;
                scenario.lengths.shared = scenario.lengths.shared.min(tokens.saturating_sub(1));
            }
            Change::Osl(tokens) => scenario.lengths.osl = *tokens,
            Change::Speculation(draft_tokens, acceptance) => {
                scenario.tuning.speculation =
                    Some(Speculation { draft_tokens: *draft_tokens, acceptance: *acceptance });
            }
            Change::Shared(tokens) => scenario.lengths.shared = (*tokens).min(scenario.lengths.isl.saturating_sub(1)),
            Change::Seqs(count) => scenario.tuning.max_num_seqs = Some(*count),
            Change::BatchedTokens(count) => scenario.tuning.max_num_batched_tokens = Some(*count),
        }
        scenario
    }
}

fn counted(count: u32, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The changes that are tried where none is named.
pub fn usual(base: &Scenario) -> Vec<Change> {
    let mut changes = Vec::new();
    let own = base.asked.weight_precision.as_deref().unwrap_or_default().to_lowercase();
    let local = base.tuning.policy == Some(Policy::Serial);
    let formats: &[&str] = if local { &["Q8_0", "Q4_K_M"] } else { &["bf16", "fp8", "nvfp4", "int4"] };
    let others = formats.iter().filter(|name| !name.eq_ignore_ascii_case(&own));
    changes.extend(others.map(|name| Change::Precision((*name).to_owned())));
    let gpus = base.asked.n_gpus.unwrap_or(1.0) as u32;
    changes.push(Change::Gpus(gpus * 2));
    if gpus > 1 {
        changes.push(Change::Gpus(gpus / 2));
        changes.push(Change::Tp((base.asked.tp.unwrap_or(f64::from(gpus)) as u32 / 2).max(1)));
    }
    for name in ["h100-sxm", "h200", "b200"] {
        changes.push(Change::Hardware(name.to_owned()));
    }
    changes.push(Change::Users(base.users * 2));
    if base.users > 1 {
        changes.push(Change::Users(base.users / 2));
    }
    changes.push(Change::Isl(base.lengths.isl * 2));
    changes.push(Change::Speculation(3, 0.7));
    if base.lengths.isl > 100 {
        changes.push(Change::Shared(base.lengths.isl / 5 * 4));
    }
    if !local {
        // Without a name it is one like vLLM.
        let own = base.asked.engine.as_deref().unwrap_or("vllm");
        let others = ["vllm", "sglang", "trtllm"].into_iter().filter(|name| *name != own);
        changes.extend(others.map(|name| Change::Engine(name.to_owned())));
    }
    changes.retain(|change| change.apply(base) != *base);
    changes
}

/// What a scenario does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effect {
    /// Tokens/s of one user after the first (mean of requests).
    pub user: f64,
    /// Seconds to the first token, median.
    pub ttft: f64,
    /// Seconds of a request, median.
    pub e2e: f64,
    /// Output tokens/s of all.
    pub total: f64,
    /// Devices.
    pub devices: f64,
    /// Dollars an hour of one device, as a range, where known.
    pub dollars_hour: Option<(f64, f64)>,
    /// Largest share of the cache in use.
    pub cache_use: f64,
}

/// Runs a scenario.
///
/// # Errors
/// Why it cannot run: a model that does not fit, an unknown name.
pub fn effect(estimator: &Estimator, scenario: &Scenario) -> Result<Effect, String> {
    let asked = Asked {
        isl: Some(f64::from(scenario.lengths.isl)),
        osl: Some(f64::from(scenario.lengths.osl)),
        concurrency: Some(f64::from(scenario.users)),
        ..scenario.asked.clone()
    };
    let serving = Serving::new(estimator, &asked, &scenario.tuning)?;
    let arrivals = Arrivals::Users { users: scenario.users, think: 0.0 };
    let samples = run(&serving, &scenario.lengths, arrivals, 1.0)?;
    Ok(of_samples(&samples, &serving))
}

fn of_samples(samples: &Samples, serving: &Serving) -> Effect {
    let tpot = mean(&samples.tpot);
    Effect {
        user: if tpot > 0.0 { 1.0 / tpot } else { 0.0 },
        ttft: quantile(&samples.ttft, 0.5),
        e2e: quantile(&samples.e2e, 0.5),
        total: samples.tokens_a_second,
        devices: serving.question.devices,
        dollars_hour: serving.question.device.dollars_hour,
        cache_use: samples.cache_use,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Scenario {
        Scenario {
            asked: Asked {
                model: "llama-3.1-8b".to_owned(),
                hardware: "h100-sxm".to_owned(),
                n_gpus: Some(2.0),
                engine: Some("vllm".to_owned()),
                weight_precision: Some("bf16".to_owned()),
                ..Asked::default()
            },
            tuning: Tuning::default(),
            lengths: Lengths { isl: 400, osl: 30, shared: 0, variation: 0.0 },
            users: 8,
        }
    }

    fn changed(text: &str) -> Effect {
        let change = Change::parse(text).expect("a change");
        effect(&Estimator::embedded(), &change.apply(&base())).expect("can run")
    }

    #[test]
    fn changes_move_what_they_should() {
        let was = effect(&Estimator::embedded(), &base()).expect("can run");
        assert!(changed("precision=fp8").user > was.user * 1.1, "half the bytes");
        assert!(changed("precision=fp8").user < was.user * 2.0, "not all of a step is bytes");
        assert!(changed("users=1").user > was.user && changed("users=32").total > was.total);
        assert!(changed("gpus=1").user < was.user);
        assert!(changed("shared=320").ttft < was.ttft, "most of the prompt is in the cache");
        assert!(changed("speculation=3:0.8").user > was.user && changed("speculation=3:0").user < was.user);
        assert!(changed("osl=60").e2e > was.e2e);
    }

    #[test]
    fn every_key_can_be_read_and_changes_something() {
        for (key, value) in
            KEYS.iter().zip(["fp8", "h200", "4", "1", "sglang", "3", "100", "7", "2:0.5", "200", "16", "1024"])
        {
            let change = Change::parse(&format!("{key}={value}")).expect("a change");
            assert_ne!(change.apply(&base()), base(), "{key}");
        }
        for wrong in ["fp8", "isl=0", "isl=x", "speculation=3", "speculation=3:1.5", "speculation=0:0.5", "colour=red"]
        {
            assert!(Change::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_usual_changes_leave_out_what_is_so_already() {
        let changes = usual(&base());
        assert!(!changes.contains(&Change::Precision("bf16".to_owned())), "{changes:?}");
        assert!(changes.contains(&Change::Gpus(4)) && changes.contains(&Change::Tp(1)));
    }
}
