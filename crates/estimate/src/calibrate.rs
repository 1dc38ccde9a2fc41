//! Coefficients of one device and engine from a trace that was measured there.
//!
//! Invariant: only the coefficients of the device's group change; a trace without measured times is refused.

use crate::asked::Facts;
use crate::coefficients::{Coefficients, OF_GROUP, group};
use crate::least_squares;
use crate::replay::{EngineSettings, Outcome, Replay, TraceRequest};

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
    let with = |values: &[f64]| {
        let mut all = coefficients.clone();
        all.0[own.clone()].copy_from_slice(values);
        all
    };
    let widened = (measured as f64 / INDEPENDENT).sqrt().max(1.0);
    let residuals = |values: &[f64]| match Replay::new(settings, facts, &with(values)) {
        Ok(replay) => of_outcomes(trace, &replay.run(trace).outcomes, widened),
        Err(_) => Vec::new(),
    };
    let spread = Coefficients::prior_sd();
    let fitted = least_squares::fit(&coefficients.0[own.clone()], &spread[own.clone()], NUDGE, residuals);
    let names = Coefficients::names();
    let changed = own.clone().zip(fitted.values.iter().zip(&fitted.errors)).map(|(place, (value, error))| Calibration {
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
