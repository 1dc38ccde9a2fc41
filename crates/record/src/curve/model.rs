//! Models of throughput against load: a scaling law, a hard limit, and both.
//!
//! Invariant: a fitted model is finite, positive and never falls beyond its limit.
//!
//! An engine that batches has slots: up to them throughput follows a law of scaling, beyond them requests wait and throughput
//! stands. Every model here is X(n) = usl(min(n, limit)) with some parameters left out: lambda alone (perfect scaling),
//! lambda and alpha (contention), the whole law, each with and without a limit.

use super::{LoadAxis, UslParameters, usl};
use serde::{Deserialize, Serialize};
use tokrate_stats::usl::{Form, Observation, fit};

/// Bisection steps: 60 halvings exhaust the 53 bits of an f64.
const BISECTION_STEPS: u32 = 60;

/// The models that are tried.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Throughput grows with the load without limit.
    Proportional,
    /// It grows with the load up to a limit (slots, or a rate), and is constant beyond it.
    Limit,
    /// Each further request slows all of them a little (Amdahl 1967).
    Contention,
    /// The Universal Scalability Law (Gunther 1993): throughput may fall.
    ScalingLaw,
    /// Contention up to a limit.
    ContentionLimit,
    /// The scaling law up to a limit.
    ScalingLawLimit,
}

impl ModelKind {
    /// Those that are tried. Requests that arrive at a rate do not slow one another down by being asked.
    pub(super) fn of(axis: LoadAxis) -> &'static [ModelKind] {
        match axis {
            LoadAxis::Rate => &[ModelKind::Proportional, ModelKind::Limit],
            LoadAxis::Concurrency => &[
                ModelKind::Proportional,
                ModelKind::Limit,
                ModelKind::Contention,
                ModelKind::ContentionLimit,
                ModelKind::ScalingLaw,
                ModelKind::ScalingLawLimit,
            ],
        }
    }

    fn form(self) -> Form {
        match self {
            ModelKind::Proportional | ModelKind::Limit => Form::Proportional,
            ModelKind::Contention | ModelKind::ContentionLimit => Form::Contention,
            ModelKind::ScalingLaw | ModelKind::ScalingLawLimit => Form::Whole,
        }
    }

    fn has_limit(self) -> bool {
        matches!(self, ModelKind::Limit | ModelKind::ContentionLimit | ModelKind::ScalingLawLimit)
    }

    /// How many numbers are fitted.
    pub(super) fn parameters(self) -> usize {
        self.form().parameters() + usize::from(self.has_limit())
    }

    /// The name for people.
    pub const fn text(self) -> &'static str {
        match self {
            ModelKind::Proportional => "proportional to the load",
            ModelKind::Limit => "proportional up to a limit",
            ModelKind::Contention => "contention",
            ModelKind::ScalingLaw => "the scaling law",
            ModelKind::ContentionLimit => "contention up to a limit",
            ModelKind::ScalingLawLimit => "the scaling law up to a limit",
        }
    }
}

/// A fitted model. Throughput in tok/s against load.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThroughputModel {
    /// Which one.
    pub kind: ModelKind,
    /// lambda, alpha and beta; those that the model does not have are 0. For offered rates lambda is tokens a request.
    #[serde(flatten)]
    pub parameters: UslParameters,
    /// The load beyond which throughput is constant, if the model has one.
    pub limit: Option<f64>,
}

impl ThroughputModel {
    /// Throughput at a load, in tok/s.
    pub fn at(&self, load: f64) -> f64 {
        usl(self.limit.map_or(load, |limit| load.min(limit)), &self.parameters)
    }

    /// The load from which on throughput does not grow: the limit, or the peak of the law before it; `None` when it grows for
    /// ever.
    pub(super) fn top(&self) -> Option<f64> {
        match (self.parameters.peak(), self.limit) {
            (Some(peak), Some(limit)) => Some(peak.min(limit)),
            (peak, limit) => peak.or(limit),
        }
    }

    /// The throughput that no load exceeds, in tok/s; `None` without a bound.
    pub(super) fn ceiling(&self) -> Option<f64> {
        self.top().map(|top| self.at(top)).or_else(|| self.parameters.ceiling())
    }
}

/// The least-squares fit of a model, errors taken as relative; `None` when the loads are too few for it. Observations rise by
/// load.
pub(super) fn fit_model(kind: ModelKind, observations: &[Observation]) -> Option<ThroughputModel> {
    if !kind.has_limit() {
        let parameters = fit(observations, kind.form())?;
        return Some(ThroughputModel { kind, parameters, limit: None });
    }
    let mut loads: Vec<f64> = observations.iter().map(|o| o.n).collect();
    loads.dedup();
    // Where the limit is cut off the fit splits in two, so that every gap between levels is tried exactly.
    let tried = loads.windows(2).flat_map(|gap| {
        let below = observations.partition_point(|o| o.n <= gap[0]);
        [within_gap(kind, observations, below, gap[0], gap[1]), at_level(kind, observations, gap[0])]
    });
    // A limit at the highest load has no effect, so that data without a limit gets none.
    let highest = loads.last().and_then(|&last| at_level(kind, observations, last));
    let tried = tried.flatten().chain(highest).map(|model| (model_loss(observations, &model), model));
    tried.filter(|(loss, _)| loss.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, model)| model)
}

/// The weighted sum of squares of ln(measured / model).
pub(super) fn model_loss(observations: &[Observation], model: &ThroughputModel) -> f64 {
    observations.iter().map(|o| o.weight * (o.throughput / model.at(o.n)).ln().powi(2)).sum()
}

/// The limit between two loads that were run: the law is that of the levels below it, the throughput that of those above.
fn within_gap(
    kind: ModelKind,
    observations: &[Observation],
    below: usize,
    low: f64,
    high: f64,
) -> Option<ThroughputModel> {
    let (rising, flat) = observations.split_at(below);
    let parameters = fit(rising, kind.form())?;
    let weight: f64 = flat.iter().map(|o| o.weight).sum();
    let plateau = (flat.iter().map(|o| o.weight * o.throughput.ln()).sum::<f64>() / weight).exp();
    let limit = met(&parameters, plateau, low, high)?;
    Some(ThroughputModel { kind, parameters, limit: Some(limit) })
}

/// The limit at a load that was run: all levels from it on are one.
fn at_level(kind: ModelKind, observations: &[Observation], limit: f64) -> Option<ThroughputModel> {
    let cut = observations.iter().map(|o| Observation { n: o.n.min(limit), ..*o });
    let parameters = fit(&cut.collect::<Vec<_>>(), kind.form())?;
    Some(ThroughputModel { kind, parameters, limit: Some(limit) })
}

/// The load in a range at which a law reaches a throughput, before or beyond its peak; `None` if there is none.
fn met(parameters: &UslParameters, throughput: f64, low: f64, high: f64) -> Option<f64> {
    let peak = parameters.peak().unwrap_or(f64::INFINITY);
    if low < peak
        && let Some(limit) = reached(parameters, throughput, low, high.min(peak))
    {
        return Some(limit);
    }
    let (mut near, mut far) = (low.max(peak), high);
    if !(usl(far, parameters)..=usl(near, parameters)).contains(&throughput) || near >= far {
        return None;
    }
    for _ in 0..BISECTION_STEPS {
        let middle = f64::midpoint(near, far);
        if usl(middle, parameters) > throughput { near = middle } else { far = middle }
    }
    Some(f64::midpoint(near, far))
}

/// The load between two at which a law that grows between them reaches a throughput; `None` if it does so elsewhere.
pub(super) fn reached(parameters: &UslParameters, throughput: f64, low: f64, high: f64) -> Option<f64> {
    if !(usl(low, parameters)..=usl(high, parameters)).contains(&throughput) {
        return None;
    }
    let (mut low, mut high) = (low, high);
    for _ in 0..BISECTION_STEPS {
        let middle = f64::midpoint(low, high);
        if usl(middle, parameters) < throughput { low = middle } else { high = middle }
    }
    Some(f64::midpoint(low, high))
}

#[cfg(test)]
mod tests;
