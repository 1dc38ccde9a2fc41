//! How long an agent takes: calls and tools that follow each other or run side by side, drawn many times.
//!
//! Percentiles of the whole are those of the drawn runs and never a sum of percentiles: of 20 calls the chance that at least
//! one is slower than its p99 is 18.2 %. Invariant: the same chain gives the same runs; a chain with a cycle is refused.

mod draw;
mod order;

pub use draw::{Bar, Outcome, Run, draw, drawn};

use crate::cost::ApiPrice;

/// Times that scatter: log-normal by the median and the 95th percentile (of a speed: the 5th, so the slow end).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Median, seconds or tokens/s.
    pub median: f64,
    /// The slow end: 95 % of the calls are better.
    pub slow: f64,
}

/// How fast calls are.
#[derive(Clone, PartialEq, Debug)]
pub enum Times {
    /// As stated: time to the first token, tokens/s of new prompt tokens on top of that, tokens/s of the answer.
    Stated {
        /// Seconds to the first token of a short prompt.
        ttft: Spread,
        /// New prompt tokens/s; `None`: the prompt's length does not count.
        prefill: Option<f64>,
        /// Tokens/s of the answer.
        speed: Spread,
    },
    /// Drawn from measured or simulated calls: seconds to the first token, seconds a token after it.
    Drawn {
        /// Seconds to the first token.
        ttft: Vec<f64>,
        /// Seconds a token.
        tpot: Vec<f64>,
    },
    /// A program that needs so long whatever the tokens, such as a merge engine.
    Fixed(Spread),
}

/// What answers the calls of a role.
#[derive(Clone, PartialEq, Debug)]
pub struct Speed {
    /// Its name in the chain.
    pub name: String,
    /// How fast; one for each step of the chain, as simulated times depend on its lengths.
    pub times: Vec<Times>,
    /// Dollars a million tokens; free where it is absent and `is_free`, else unknown.
    pub price: Option<ApiPrice>,
    /// Whether calls cost nothing by themselves.
    pub is_free: bool,
    /// Share of calls that fail and are made again.
    pub failures: f64,
}

/// A step of a chain.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Which role answers its call; `None` of a step that only runs a tool.
    pub role: Option<String>,
    /// Places of the steps that have to end before it begins.
    pub after: Vec<usize>,
    /// Tokens of the prompt, those that the cache holds among them.
    pub input: f64,
    /// Of these, tokens that were in the prompt before and are found in the cache.
    pub cached: f64,
    /// Tokens by which the prompt grows with each repetition; they are new then and cached later.
    pub grows: f64,
    /// Tokens of the answer.
    pub output: f64,
    /// Seconds of the tool that runs after the answer.
    pub tool: Option<Spread>,
    /// How often it is done, one after another.
    pub repeat: u32,
    /// How many of it run side by side; the slowest counts.
    pub fan_out: u32,
    /// Lanes that are asked at once; the first to end counts, all are paid.
    pub race: u32,
    /// Share of the repetitions whose result is not good and that are done again, call and tool, and how often at most.
    pub again: (f64, u32),
}

/// A chain.
#[derive(Clone, PartialEq, Debug)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Who answers which role.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Speed of each step; `None` of those without a call.
    pub speeds: Vec<Option<Speed>>,
}

/// Most calls of one run of a chain.
const MOST_CALLS: f64 = 100_000.0;

impl Chain {
    /// Checks it.
    ///
    /// # Errors
    /// What is impossible: a cycle, no step, numbers below zero or too many calls.
    pub fn check(&self) -> Result<(), String> {
        if self.steps.is_empty() {
            return Err("the chain has no step".to_owned());
        }
        for step in &self.steps {
            let numbers = [step.input, step.cached, step.output, step.grows, step.again.0];
            if numbers.iter().any(|value| !(value.is_finite() && *value >= 0.0)) {
                return Err(format!("step {:?}: tokens and shares are numbers of at least 0", step.name));
            }
            if step.cached > step.input {
                return Err(format!(
                    "step {:?}: {} cached tokens of a prompt of {}",
                    step.name, step.cached, step.input
                ));
            }
            if step.repeat == 0 || step.fan_out == 0 || step.race == 0 {
                return Err(format!("step {:?}: repeat, fan_out and race are at least 1", step.name));
            }
            if step.again.0 >= 1.0 {
                return Err(format!(
                    "step {:?}: {} of the results are not good: it never ends",
                    step.name, step.again.0
                ));
            }
            if step.role.is_none() && step.tool.is_none() {
                return Err(format!("step {:?} has neither a role nor a tool", step.name));
            }
        }
        let calls: f64 = self.steps.iter().map(calls).sum();
        if calls > MOST_CALLS {
            return Err(format!("the chain has {calls:.0} calls; at most {MOST_CALLS:.0} are drawn"));
        }
        order::order(&self.steps).map(|_| ())
    }

    /// Calls of one run without repetitions of failed ones.
    pub fn calls(&self) -> f64 {
        self.steps.iter().filter(|step| step.role.is_some()).map(calls).sum()
    }
}

fn calls(step: &Step) -> f64 {
    f64::from(step.repeat) * f64::from(step.fan_out) * f64::from(step.race)
}

#[cfg(test)]
mod tests;
