//! A claimed speed and what it would need, as text and as JSON.
//!
//! Invariant: the bound, the estimate and the claim are shown together, so that a reader can check the verdict.

use super::short;
use serde_json::{Value as Json, json as object};
use std::fmt::Write;
use tokrate_estimate::Value;
use tokrate_estimate::claim::{Bounds, MOST_ACCEPTED, Verdict};

/// What devices allow.
pub struct Judged {
    /// Device.
    pub device: String,
    /// How many.
    pub devices: f64,
    /// What the peaks allow.
    pub bounds: Bounds,
    /// What is estimated, tokens/s of one request.
    pub expected: Value,
    /// Share of the bandwidth that is used then.
    pub mbu: f64,
    /// Whether its speed is a fitted latency and not one of bandwidth.
    pub is_fitted_latency: bool,
}

/// A claimed factor.
pub struct Speedup {
    /// The factor.
    pub factor: f64,
    /// Storage of the weights before.
    pub from: String,
    /// What the devices allow with that.
    pub before: Judged,
}

/// A claim.
pub struct Shown {
    /// Model, as it was asked for.
    pub asked_model: String,
    /// Storage of the weights, where it was given.
    pub precision: Option<String>,
    /// Requests at once.
    pub concurrency: u32,
    /// Claimed tokens/s of one request.
    pub claimed: f64,
    /// What it comes to, of a speed.
    pub judged: Verdict,
    /// Whether it may rest on accepted drafts.
    pub speculates: bool,
    /// What the devices allow.
    pub own: Judged,
    /// Where a factor is claimed.
    pub speedup: Option<Speedup>,
    /// What was assumed.
    pub assumed: Vec<String>,
    /// The nearest measured rows.
    pub nearest: Vec<String>,
}

impl Shown {
    /// What the claim comes to.
    pub fn verdict(&self) -> Verdict {
        match &self.speedup {
            // Both speeds have the same coefficients, so that their quotient is surer than either.
            Some(speedup) if speedup.factor <= self.expected_factor(speedup) => Verdict::Plausible,
            Some(speedup) if speedup.factor <= self.own.bounds.steps / speedup.before.bounds.steps => {
                Verdict::AboveEstimate
            }
            Some(_) => Verdict::Impossible,
            None => self.judged,
        }
    }

    fn expected_factor(&self, speedup: &Speedup) -> f64 {
        self.own.expected.value / speedup.before.expected.value
    }
}

/// The result for people.
pub fn text(shown: &Shown) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = written(&mut text, shown);
    text
}

fn written(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let own = &shown.own;
    let precision = shown.precision.as_ref().map_or(String::new(), |name| format!(" in {name}"));
    let at_once =
        if shown.concurrency > 1 { format!(", {} requests at once", shown.concurrency) } else { String::new() };
    writeln!(text, "{}{precision} on {} x {}{at_once}", shown.asked_model, own.devices, own.device)?;
    match &shown.speedup {
        Some(speedup) => writeln!(text, "claimed: {} times the speed with {}", short(speedup.factor), speedup.from)?,
        None => writeln!(text, "claimed: {} tok/s of one request", short(shown.claimed))?,
    }
    writeln!(text, "verdict: {}", shown.verdict().name())?;
    writeln!(text)?;
    if let Some(speedup) = &shown.speedup {
        let factor = shown.expected_factor(speedup);
        let most = own.bounds.steps / speedup.before.bounds.steps;
        writeln!(
            text,
            "estimated:            x{factor:.2} ({} to {} tok/s)",
            short(speedup.before.expected.value),
            short(own.expected.value)
        )?;
        writeln!(text, "bytes of the weights: x{most:.2}, were streaming them all that a step takes")?;
        writeln!(
            text,
            "The rest of a step (cache, overhead, unpacking of the weights, communication) is as long as before."
        )?;
    } else {
        speeds(text, shown)?;
    }
    for assumed in &shown.assumed {
        writeln!(text, "assumed: {assumed}")?;
    }
    writeln!(text, "nearest measured: {}", shown.nearest.join(", "))
}

fn speeds(text: &mut String, shown: &Shown) -> std::fmt::Result {
    let own = &shown.own;
    let Value { value, low, high } = own.expected;
    writeln!(text, "estimated without a draft:  {} tok/s ({} to {})", short(value), short(low), short(high))?;
    if own.is_fitted_latency {
        writeln!(text, "                            of on-chip memory: a latency a layer, fitted to published speeds")?;
    }
    writeln!(
        text,
        "streaming the weights:      at most {} steps/s at peak bandwidth, without any overhead",
        short(own.bounds.steps)
    )?;
    writeln!(
        text,
        "arithmetic:                 at most {} tok/s, however many tokens a step are accepted",
        short(own.bounds.tokens)
    )?;
    let at_peak = shown.claimed / own.bounds.steps;
    let expected = shown.claimed / value;
    writeln!(text, "the claim is {} % of the bandwidth at one token a step", short(at_peak * 100.0))?;
    let needs = |tokens: f64| short(tokens.max(1.0));
    match shown.verdict() {
        Verdict::Plausible => writeln!(text, "It needs nothing beyond what such devices have been measured to do."),
        Verdict::AboveEstimate => writeln!(
            text,
            "It needs {:.0} % of the peak bandwidth where {:.0} % is estimated, or {} accepted tokens a step.",
            at_peak * 100.0,
            own.mbu * 100.0,
            needs(expected)
        ),
        Verdict::NeedsSpeculation => writeln!(
            text,
            "It needs {} accepted tokens a step at the estimated step time ({} at the peaks), or {} times the devices at the peaks.\n\
             Ask what draft it uses, on which texts, how many tokens a step are accepted there, and at how many requests at once.",
            needs(expected),
            needs(at_peak),
            at_peak.ceil()
        ),
        Verdict::Impossible if shown.claimed > own.bounds.tokens => {
            writeln!(
                text,
                "It needs {:.1} times the arithmetic of these devices at their peak.",
                shown.claimed / own.bounds.tokens
            )
        }
        Verdict::Impossible if !shown.speculates => writeln!(
            text,
            "Without a draft each token streams the weights: it needs {} times the bandwidth of these devices at their peak.",
            short(at_peak)
        ),
        Verdict::Impossible => writeln!(
            text,
            "It needs {} accepted tokens a step at the peaks; more than {MOST_ACCEPTED:.0} are taken for impossible.",
            short(at_peak)
        ),
    }
}

/// The result as JSON.
pub fn json(shown: &Shown) -> Json {
    let own = &shown.own;
    object!({
        "computed": true,
        "model": shown.asked_model,
        "hardware": own.device,
        "n_gpus": own.devices,
        "concurrency": shown.concurrency,
        "claimed_tok_s": shown.claimed,
        "verdict": shown.verdict().name(),
        "expected_tok_s": own.expected,
        "most_steps_s": own.bounds.steps,
        "most_tok_s_by_arithmetic": own.bounds.tokens,
        "accepted_tokens_a_step": {
            "at_the_peaks": shown.claimed / own.bounds.steps,
            "as_estimated": shown.claimed / own.expected.value,
        },
        "speedup": shown.speedup.as_ref().map(|speedup| object!({
            "claimed": speedup.factor,
            "from": speedup.from,
            "expected": shown.expected_factor(speedup),
            "most": own.bounds.steps / speedup.before.bounds.steps,
        })),
        "assumed": shown.assumed,
        "nearest": shown.nearest,
    })
}
