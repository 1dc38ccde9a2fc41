//! Coefficients of one device and engine from a trace that was measured there.
//!
//! Invariant: only the coefficients of the device's group change; a trace without measured times is refused.

use crate::asked::Facts;
use crate::coefficients::{COUNT, Coefficients, OF_GROUP, group};
use crate::least_squares;
use crate::replay::{EngineSettings, Outcome, Replay, TraceRequest, parse_trace};

/// A run of vLLM 0.19.0 request by request: Llama 3.1 8B in bf16 on one RTX PRO 6000, 300 conversations of ShareGPT at ten
/// requests a second (github casys-kaist/LLMServingSim@5daddb2, bench/examples/RTXPRO6000/Llama-3.1-8B/vllm; measured
/// 2026-04-25).
const TRACE: &str = include_str!("../data/trace-rtx-pro-6000-llama-3.1-8b.csv");

/// The embedded trace with the settings it ran with.
///
/// # Errors
/// Never, as a test checks.
pub fn embedded_trace() -> Result<(Vec<TraceRequest>, EngineSettings), String> {
    let settings = EngineSettings {
        model: Some("meta-llama/Llama-3.1-8B".to_owned()),
        hardware: Some("RTX-PRO-6000-Blackwell-96GB".to_owned()),
        dtype: Some("bfloat16".to_owned()),
        max_num_seqs: Some(128),
        max_num_batched_tokens: Some(2_048),
        ..EngineSettings::default()
    };
    Ok((parse_trace(TRACE)?, settings))
}

/// A coefficient as it was fitted.
#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    /// Its name, such as `e_w.consumer-server`.
    pub name: String,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Standard error of its logarithm.
    pub error: f64,
}

/// How much one trace counts: as so many independent requests. Requests of one run share their steps, so that hundreds say
/// little more than tens.
const INDEPENDENT: f64 = 30.0;
/// Scatter of the logarithm of a time a token, and of a time to the first token, which hangs on who came a step earlier.
const SCATTER: (f64, f64) = (0.05, 0.40);
/// Change of a logarithm by which derivatives are taken: large enough that it outweighs whole steps by which a schedule jumps.
const NUDGE: f64 = 0.03;

/// Fits the coefficients of the group of a device and engine to a measured trace; returns all coefficients and what changed.
///
/// # Errors
/// A trace without measured times, or settings that cannot be replayed.
pub fn calibrate(
    trace: &[TraceRequest],
    settings: &EngineSettings,
    facts: &Facts,
    coefficients: &Coefficients,
) -> Result<(Coefficients, Vec<Calibration>), String> {
    let measured = trace.iter().filter(|request| request.real.is_some()).count();
    if measured < 10 {
        return Err(format!("{measured} requests of the trace have measured times; 10 are needed"));
    }
    let replay = Replay::new(settings, facts, coefficients)?;
    let first = group(replay.class, replay.engine) * OF_GROUP.len();
    let own = first..first + OF_GROUP.len();
    let with = |values: &[f64; OF_GROUP.len()]| {
        let mut all = coefficients.clone();
        all.0[own.clone()].copy_from_slice(values);
        all
    };
    let of_group = |all: &[f64; COUNT]| std::array::from_fn(|place| all[own.start + place]);
    let widened = (measured as f64 / INDEPENDENT).sqrt().max(1.0);
    let residuals = |values: &[f64; OF_GROUP.len()]| match Replay::new(settings, facts, &with(values)) {
        Ok(replay) => of_outcomes(trace, &replay.run(trace).outcomes, widened),
        Err(_) => Vec::new(),
    };
    let (before, spread) = (of_group(&coefficients.0), of_group(&Coefficients::prior_sd()));
    let fitted = least_squares::fit(&before, &spread, NUDGE, residuals);
    let names = Coefficients::names();
    let changed =
        own.clone().zip(fitted.values.iter().zip(&fitted.errors)).map(|(place, (value, error))| Calibration {
            name: names[place].clone(),
            before: coefficients.0[place].exp(),
            after: value.exp(),
            error: *error,
        });
    Ok((with(&fitted.values), changed.collect()))
}

/// Logarithms of measured over computed, with the scatter expected of each; two of every measured request.
fn of_outcomes(trace: &[TraceRequest], outcomes: &[Outcome], widened: f64) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for (request, outcome) in trace.iter().zip(outcomes) {
        let Some(real) = request.real else { continue };
        let (tpot, ttft) = match outcome {
            Outcome::Answered { times, .. } => (times.tpot_ms, times.ttft_ms),
            Outcome::Refused(_) => (real.tpot_ms, real.ttft_ms),
        };
        let log = |measured: f64, computed: f64| match measured > 0.0 && computed > 0.0 {
            true => (measured / computed).ln(),
            false => 0.0,
        };
        all.push((log(real.tpot_ms, tpot), SCATTER.0 * widened));
        all.push((log(real.ttft_ms, ttft), SCATTER.1 * widened));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Times;

    /// Mean of a time of all measured requests, computed over measured.
    fn over(trace: &[TraceRequest], outcomes: &[Outcome], of: fn(&Times) -> f64) -> f64 {
        let pairs = trace.iter().zip(outcomes).filter_map(|(request, outcome)| match (outcome, &request.real) {
            (Outcome::Answered { times, .. }, Some(real)) => Some((of(times), of(real))),
            _ => None,
        });
        let (computed, measured) = pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        computed / measured
    }

    #[test]
    fn the_embedded_coefficients_replay_the_embedded_trace() {
        let (trace, settings) = embedded_trace().expect("can be read");
        let replay =
            Replay::new(&settings, &Facts::embedded(), &Coefficients::fitted()).expect("settings that can run");
        let outcomes = replay.run(&trace).outcomes;
        let means = [
            over(&trace, &outcomes, |times| times.tpot_ms),
            over(&trace, &outcomes, |times| times.ttft_ms),
            over(&trace, &outcomes, |times| times.latency_ms),
        ];
        assert!(
            means.iter().all(|over| (over - 1.0).abs() < 0.05),
            "run the example `validate` with --write: {means:?}"
        );
    }

    #[test]
    fn a_trace_of_known_coefficients_gives_them_back() {
        let (trace, settings) = embedded_trace().expect("can be read");
        let (facts, mut truth) = (Facts::embedded(), Coefficients::fitted());
        let names = Coefficients::names();
        let place = |name: &str| names.iter().position(|known| known == name).expect("a coefficient");
        // A device whose prompts are a fifth slower and whose steps cost half as much again.
        truth.0[place("mfu_p.consumer-server")] -= 0.2;
        truth.0[place("t_req_us.consumer-server")] += 0.4;
        let ran = Replay::new(&settings, &facts, &truth).expect("settings that can run").run(&trace).outcomes;
        let measured: Vec<TraceRequest> = trace
            .iter()
            .zip(&ran)
            .map(|(request, outcome)| match outcome {
                Outcome::Answered { times, .. } => TraceRequest { real: Some(*times), ..request.clone() },
                Outcome::Refused(_) => request.clone(),
            })
            .collect();
        let start = Coefficients::fitted();
        let (found, changed) = calibrate(&measured, &settings, &facts, &start).expect("enough requests");
        let again = Replay::new(&settings, &facts, &found).expect("settings that can run").run(&measured).outcomes;
        let off = over(&measured, &again, |times| times.tpot_ms);
        assert!((off - 1.0).abs() < 0.01, "{off}");
        let prefill = changed.iter().find(|one| one.name.starts_with("mfu_p")).expect("one of the group");
        assert!((prefill.after / prefill.before - (-0.2f64).exp()).abs() < 0.06, "{prefill:?}");
        assert!(found.0.iter().zip(&start.0).filter(|(one, other)| one != other).count() <= OF_GROUP.len());
    }

    #[test]
    fn a_trace_without_measurements_is_refused() {
        let trace = parse_trace("arrival_ms,input_tokens,output_tokens\n0,10,10\n").expect("a trace");
        let (_, settings) = embedded_trace().expect("can be read");
        let error =
            calibrate(&trace, &settings, &Facts::embedded(), &Coefficients::fitted()).expect_err("nothing to fit");
        assert!(error.starts_with("0 requests of the trace have measured times"), "{error}");
    }
}
