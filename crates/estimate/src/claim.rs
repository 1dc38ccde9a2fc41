//! Whether a claimed speed can be: what the bandwidth and the arithmetic of the devices allow, and what the claim would need.
//!
//! Invariant: what was measured is never called impossible, as the bounds are peaks without any overhead.

use crate::question::Question;

/// What the peaks allow a request among `concurrency` that decode at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Steps/s that streaming the weights and the cache once a step allows. Of experts as few as one token uses.
    pub steps: f64,
    /// Tokens/s of one request that arithmetic allows, however many tokens of a step are accepted.
    pub tokens: f64,
}

/// What a claim comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the interval of the estimate, or slower.
    Plausible,
    /// Faster than the interval, within what the peaks allow without speculation.
    AboveEstimate,
    /// Faster than the weights can be streamed: several tokens have to be accepted a step.
    NeedsSpeculation,
    /// Faster than the arithmetic, or more tokens a step than any draft gets.
    Impossible,
}

impl Verdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Plausible => "plausible",
            Verdict::AboveEstimate => "above the estimate",
            Verdict::NeedsSpeculation => "needs speculation",
            Verdict::Impossible => "impossible",
        }
    }
}

/// Most tokens a step that drafts are accepted with: copies of long passages (prompt lookup of code edits) reach tens; no
/// published mean is higher (from memory).
pub const MOST_ACCEPTED: f64 = 64.0;

/// The bounds of a question's devices: BW n / bytes a step, and F n / (2 A B) tokens (roofline without
/// overhead; also where layers stand on several devices after one another, which only raises the bound). `context`
/// tokens of cache a request are read each step; 0 leaves the cache out, which only raises the bound.
pub fn bounds(question: &Question, concurrency: f64, context: f64) -> Bounds {
    let (model, device) = (&question.model, &question.device);
    let devices = question.devices;
    let batch = (concurrency / question.copies()).max(1.0);
    let streamed = model.dense_streamed() + model.expert_params() * model.experts_touched(1.0, 1.0) / question.sharing;
    let weights = streamed.min(model.active) * question.bytes_a_weight();
    let cache = if context > 0.0 { batch * model.cache_bytes(context, question.bytes_a_cache_value()) } else { 0.0 };
    let copy = devices / question.copies();
    let peak = device.peak(question.precision.arithmetic);
    // Unlike a prompt's, each token of an answer has its logits computed.
    let each = model.prompt_flops(1.0) + 2.0 * model.vocab * model.hidden;
    Bounds { steps: device.bandwidth * copy / (weights + cache).max(1.0), tokens: peak * copy / (each * batch) }
}

/// Judges a claimed speed of one request, tokens/s: `fastest` is the high end of the estimate's interval, `speculates` whether
/// the claim may rest on accepted drafts.
pub fn verdict(claimed: f64, bounds: &Bounds, fastest: f64, speculates: bool) -> Verdict {
    match claimed {
        claimed if claimed > bounds.tokens => Verdict::Impossible,
        claimed if claimed <= fastest.min(bounds.steps) => Verdict::Plausible,
        claimed if claimed <= bounds.steps => Verdict::AboveEstimate,
        claimed if speculates && claimed / bounds.steps <= MOST_ACCEPTED => Verdict::NeedsSpeculation,
        _ => Verdict::Impossible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Estimator;
    use crate::asked::{Asked, Facts};
    use crate::measured;

    fn judged(model: &str, hardware: &str, gpus: f64, precision: &str, users: f64, claimed: f64) -> Verdict {
        let estimator = Estimator::embedded();
        let asked = Asked {
            model: model.to_owned(),
            hardware: hardware.to_owned(),
            n_gpus: Some(gpus),
            weight_precision: Some(precision.to_owned()),
            concurrency: Some(users),
            isl: Some(100.0),
            osl: Some(300.0),
            ..Asked::default()
        };
        let resolved = asked.resolve(&estimator.facts).expect("in the tables");
        let answer = estimator.answer_resolved(&resolved).expect("an answer");
        let fastest = answer.tok_s_user.map_or(0.0, |speed| speed.high);
        verdict(claimed, &bounds(&resolved.question, users, 0.0), fastest, false)
    }

    #[test]
    fn what_no_device_can_do_is_called_impossible() {
        // Streaming alone forbids each of these by more than a tenth; none says that it speculates.
        for (model, hardware, gpus, precision, users, claimed) in [
            ("llama-3.1-70b", "h100-sxm", 2.0, "fp8", 1.0, 150.0),
            ("llama-3.1-70b", "rtx-4090", 2.0, "Q4_K_M", 1.0, 60.0),
            ("llama-3.1-8b", "rtx-4090", 1.0, "bf16", 1.0, 90.0),
            ("llama-3.1-8b", "m4-max", 1.0, "bf16", 1.0, 60.0),
            ("llama-3.1-8b", "h100-sxm", 1.0, "fp8", 1.0, 1000.0),
            ("llama-3.1-8b", "h100-sxm", 1.0, "bf16", 1.0, 10_500.0),
            ("llama-3.1-405b", "h200", 8.0, "fp8", 1.0, 200.0),
            ("deepseek-r1", "h200", 8.0, "fp8", 1.0, 2000.0),
            ("qwen3-32b", "a100-80gb", 1.0, "bf16", 1.0, 60.0),
            ("llama-3.1-70b", "b200", 1.0, "fp8", 1.0, 300.0),
        ] {
            let verdict = judged(model, hardware, gpus, precision, users, claimed);
            assert_eq!(verdict, Verdict::Impossible, "{model} on {gpus} x {hardware}, {claimed} tok/s");
        }
    }

    #[test]
    fn no_measured_row_is_called_impossible() {
        let (rows, _) = measured::rows(&Facts::embedded());
        let mut judged = 0;
        for row in rows.iter().filter(|row| row.question.concurrency.is_some()) {
            let Some(tpot) = row.tpot else { continue };
            let concurrency = row.question.concurrency.unwrap_or(1.0);
            let verdict = verdict(1.0 / tpot, &bounds(&row.question, concurrency, 0.0), f64::MAX, false);
            assert_ne!(verdict, Verdict::Impossible, "{}", row.id);
            judged += 1;
        }
        assert!(judged > 60, "{judged}");
    }

    #[test]
    fn a_claim_beyond_streaming_needs_accepted_drafts_and_beyond_arithmetic_nothing_helps() {
        let bounds = Bounds { steps: 400.0, tokens: 100_000.0 };
        let judge = |claimed, speculates| verdict(claimed, &bounds, 300.0, speculates);
        assert_eq!(judge(250.0, true), Verdict::Plausible);
        assert_eq!(judge(350.0, true), Verdict::AboveEstimate);
        assert_eq!(judge(10_500.0, true), Verdict::NeedsSpeculation);
        assert_eq!(judge(10_500.0, false), Verdict::Impossible);
        assert_eq!(judge(30_000.0, true), Verdict::Impossible, "75 tokens a step");
        assert_eq!(judge(200_000.0, true), Verdict::Impossible);
        assert_eq!(judge(f64::NAN, true), Verdict::Impossible);
    }
}
