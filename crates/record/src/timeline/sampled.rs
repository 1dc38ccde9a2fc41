//! What engine and processors said during one level.
//!
//! Invariant: joules are stated only if the power of every counted processor is known over all of the window.

use super::curve::Curve;
use super::samples::{Samples, Together};
use serde::{Deserialize, Serialize};
use tokrate_meter::server_metrics::EngineSample;

/// A window has at least so many readings of its own of a source of power.
const MIN_READINGS: u64 = 5;

/// A quantity during a level.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gauge {
    /// Its mean over the time.
    pub mean: f64,
    /// The least reading.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// What was read of engine and processors in the steady window of a level, or in all of it if it has none.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sampled {
    /// Length of the time (s).
    pub seconds: f64,
    /// Readings of the engine in it.
    pub engine_readings: u64,
    /// Requests in the engine's batch.
    pub running: Option<Gauge>,
    /// Requests in its queue.
    pub waiting: Option<Gauge>,
    /// Share of its key-value cache in use.
    pub kv_cache_use: Option<Gauge>,
    /// Requests that lost their place in the batch.
    pub preemptions: Option<f64>,
    /// Prompt tokens found in the prefix cache, as a share of those looked up.
    pub prefix_cache_hits: Option<f64>,
    /// Tokens of a draft that were accepted, as a share of those proposed.
    pub speculation_accepted: Option<f64>,
    /// Processors that are counted.
    pub gpus: u64,
    /// Power of all of them together (W).
    pub power: Option<Gauge>,
    /// Power that all of them together may draw (W).
    pub power_limit: Option<f64>,
    /// Clock of their processing units, the mean of all (MHz).
    pub clock: Option<Gauge>,
    /// Share of the time in which they worked, the mean of all.
    pub busy: Option<Gauge>,
    /// Energy of the window (J).
    pub joules: Option<f64>,
    /// `joules` shared among the output tokens of the window.
    pub joules_per_token: Option<f64>,
    /// Why there are no joules although there is power.
    pub joules_missing: Option<String>,
}

impl Sampled {
    /// What was read between two ticks (ns), in which so many output tokens came. `None` if nothing was.
    pub fn of(samples: &Samples, (from, to): (u64, u64), tokens: Option<u64>) -> Option<Sampled> {
        let engine = |of: fn(&EngineSample) -> Option<f64>| samples.engine_curve(of);
        let share = |part: fn(&EngineSample) -> Option<f64>, whole: fn(&EngineSample) -> Option<f64>| {
            let whole = engine(whole).rise(from, to).filter(|whole| *whole > 0.0)?;
            Some((engine(part).rise(from, to)? / whole).clamp(0.0, 1.0))
        };
        let readings = samples.engine.iter().filter(|sample| (from..=to).contains(&sample.at.as_nanos())).count();
        let power = samples.gpu_curves(Together::Sum, |gpu| gpu.power_w);
        let mean_of = |of: fn(&tokrate_meter::server_metrics::GpuReading) -> Option<f64>| {
            gauge(&samples.gpu_curves(Together::Mean, of), Together::Mean, from, to)
        };
        let mut sampled = Sampled {
            seconds: to.saturating_sub(from) as f64 / 1e9,
            engine_readings: readings as u64,
            running: gauge(&[engine(|sample| sample.running)], Together::Sum, from, to),
            waiting: gauge(&[engine(|sample| sample.waiting)], Together::Sum, from, to),
            kv_cache_use: gauge(&[engine(|sample| sample.cache_use)], Together::Sum, from, to),
            preemptions: engine(|sample| sample.preemptions).rise(from, to),
            prefix_cache_hits: share(|sample| sample.cache_hits, |sample| sample.cache_queries),
            speculation_accepted: share(|sample| sample.accepted_tokens, |sample| sample.draft_tokens),
            gpus: samples.gpu_names().len() as u64,
            power: gauge(&power, Together::Sum, from, to),
            power_limit: limit(samples, from, to),
            clock: mean_of(|gpu| gpu.clock_mhz),
            busy: mean_of(|gpu| gpu.busy),
            ..Sampled::default()
        };
        if sampled.gpus > 0 {
            match joules(samples, &power, from, to) {
                Ok(joules) => {
                    sampled.joules = Some(joules);
                    sampled.joules_per_token = tokens.filter(|tokens| *tokens > 0).map(|tokens| joules / tokens as f64);
                }
                Err(why) => sampled.joules_missing = Some(why),
            }
        }
        let is_empty = samples.engine.is_empty() && sampled.gpus == 0;
        (!is_empty).then_some(sampled)
    }
}

/// Mean, least and largest of curves that are put together; the extremes are those of readings.
fn gauge(curves: &[Curve], together: Together, from: u64, to: u64) -> Option<Gauge> {
    let share = match together {
        Together::Sum => 1.0,
        Together::Mean => 1.0 / curves.len().max(1) as f64,
    };
    let mut all = Gauge { mean: 0.0, min: 0.0, max: 0.0 };
    for curve in curves {
        let mean = curve.within(from, to).mean(from, to)?;
        let (min, max) =
            curve.readings(from, to).fold((mean, mean), |(low, high), value| (low.min(value), high.max(value)));
        (all.mean, all.min, all.max) = (all.mean + mean * share, all.min + min * share, all.max + max * share);
    }
    (!curves.is_empty()).then_some(all)
}

/// The limits of all processors together, if each has one.
fn limit(samples: &Samples, from: u64, to: u64) -> Option<f64> {
    Some(gauge(&samples.gpu_curves(Together::Sum, |gpu| gpu.power_limit_w), Together::Sum, from, to)?.min)
}

/// The energy of a window, or why it is not known.
fn joules(samples: &Samples, power: &[Curve], from: u64, to: u64) -> Result<f64, String> {
    let (areas, covered): (Vec<f64>, Vec<u64>) =
        power.iter().map(|curve| curve.within(from, to).area(from, to)).unzip();
    let window = to.saturating_sub(from);
    let least = covered.into_iter().min().unwrap_or(0);
    if window == 0 || least < window {
        let share = least as f64 / window.max(1) as f64 * 100.0;
        return Err(format!("the power of every processor is known for {share:.0} % of the window only"));
    }
    let seldom = samples.longest_standstill(from, to).unwrap_or(0) + samples.every.as_nanos();
    if seldom * MIN_READINGS > window {
        return Err(format!(
            "power was read anew every {:.1} s, too seldom for a window of {:.1} s",
            seldom as f64 / 1e9,
            window as f64 / 1e9
        ));
    }
    Ok(areas.into_iter().sum::<f64>() / 1e9)
}
