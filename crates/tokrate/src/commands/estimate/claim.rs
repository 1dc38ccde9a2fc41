//! `tokrate estimate claim`: a claimed speed against the peaks and the estimate.

use super::{profile, subject};
use crate::commands::Verdict;
use crate::flags::estimate::ClaimFlags;
use crate::out::estimate::claim::{Judged, Shown, Speedup, json, text};
use anyhow::{Result, anyhow, bail, ensure};
use tokrate_estimate::claim::{self, bounds, verdict};
use tokrate_estimate::{Asked, Estimator};

/// Judges and prints. Below the bar when the claim is not plausible as it stands.
pub fn run(flags: &ClaimFlags) -> Result<Verdict> {
    let shown = judged(&profile::estimator(&flags.subject)?, flags)?;
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    crate::out::stdout::write(&written)?;
    Ok(if shown.verdict() == claim::Verdict::Plausible { Verdict::Good } else { Verdict::BelowBar })
}

/// The claim with what the devices allow.
pub(super) fn judged(estimator: &Estimator, flags: &ClaimFlags) -> Result<Shown> {
    ensure!(flags.concurrency > 0, "estimate: 0 requests at once; check --concurrency");
    for (name, value) in [("--speed", flags.speed), ("--speedup", flags.speedup)] {
        if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
            bail!("estimate: {name} is {value}; give a number above 0");
        }
    }
    let asked = Asked {
        concurrency: Some(f64::from(flags.concurrency)),
        isl: Some(f64::from(flags.isl)),
        osl: Some(f64::from(flags.osl)),
        ..subject::asked(&flags.subject)?
    };
    let (own, assumed, nearest) = side(estimator, &asked, flags)?;
    let speedup = match (flags.speedup, &flags.from) {
        (Some(factor), Some(from)) => {
            let before = Asked { weight_precision: Some(from.clone()), ..asked.clone() };
            Some(Speedup { factor, from: from.clone(), before: side(estimator, &before, flags)?.0 })
        }
        _ => None,
    };
    let claimed = flags.speed.or(speedup.as_ref().map(|speedup| speedup.factor * speedup.before.expected.value));
    let claimed = claimed.ok_or_else(|| anyhow!("estimate: no claim; give --speed or --speedup"))?;
    let judged = verdict(claimed, &own.bounds, own.expected.high, !flags.no_speculation && speedup.is_none());
    Ok(Shown {
        asked_model: flags.subject.model.clone(),
        precision: flags.subject.precision.clone(),
        concurrency: flags.concurrency,
        claimed,
        judged,
        speculates: !flags.no_speculation,
        own,
        speedup,
        assumed,
        nearest,
    })
}

/// What devices allow, what was assumed, and the nearest measured rows.
fn side(estimator: &Estimator, asked: &Asked, flags: &ClaimFlags) -> Result<(Judged, Vec<String>, Vec<String>)> {
    let refused = |error: String| anyhow!("estimate: {error}");
    let resolved = asked.resolve(&estimator.facts).map_err(refused)?;
    let answer = estimator.answer_resolved(&resolved).map_err(refused)?;
    let expected = answer.tok_s_user.ok_or_else(|| anyhow!("estimate: this question has no speed of one request"))?;
    let question = &resolved.question;
    let judged = Judged {
        device: question.device.name.clone(),
        devices: question.devices,
        // Without the cache: the bound of a short context, the most generous to whoever claims.
        bounds: bounds(question, f64::from(flags.concurrency), 0.0),
        expected,
        mbu: answer.mbu,
        is_fitted_latency: question.device.layer_latency.is_some(),
    };
    Ok((judged, answer.assumed, answer.nearest))
}
