//! `tokrate estimate calibrate`: coefficients of one's own devices and engine from a trace that was measured there.

use super::profile::{Profile, coefficients};
use super::replay;
use crate::commands::Verdict;
use crate::flags::estimate::CalibrateFlags;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::fmt::Write;
use tokrate_estimate::calibrate::{Calibration, calibrate};
use tokrate_estimate::replay::{EngineSettings, TraceRequest};
use tokrate_estimate::{Facts, coefficients::Coefficients};

/// Fits, prints what changed, and writes the profile.
pub fn run(flags: &CalibrateFlags) -> Result<Verdict> {
    if let Some(path) = &flags.write {
        crate::out::files::check_writable(path)?;
    }
    let trace = replay::trace(&flags.replay.trace)?;
    let settings = replay::settings(&flags.replay)?;
    let start = coefficients(flags.replay.profile.as_deref())?;
    let (changed, after) = fitted(&trace, &settings, &start)?;
    let to = format!("{} ({} requests)", flags.replay.trace.display(), trace.len());
    if let Some(path) = &flags.write {
        let profile = serde_json::to_string_pretty(&Profile::of(&changed, to.clone())).context("write the profile")?;
        crate::out::files::write(path, &format!("{profile}\n"))?;
    }
    let printed = if flags.replay.json {
        let row = |one: &Calibration| json!({ "name": one.name, "before": one.before, "after": one.after, "standard_error_log": one.error });
        format!("{}\n", json!({ "fitted_to": to, "coefficients": changed.iter().map(row).collect::<Vec<_>>() }))
    } else {
        let mut text = table(&changed, &to);
        let replayed = replay::replayed(&trace, &settings, &after, false)?;
        let _ = write!(text, "\nThe trace with them:\n{}", replayed.summary);
        text
    };
    crate::out::stdout::write(&printed)?;
    Ok(Verdict::Good)
}

/// What changed, and all coefficients.
pub(super) fn fitted(
    trace: &[TraceRequest],
    settings: &EngineSettings,
    start: &Coefficients,
) -> Result<(Vec<Calibration>, Coefficients)> {
    let found = calibrate(trace, settings, &Facts::embedded(), start);
    let (after, changed) = found.map_err(|error| anyhow!("calibrate: {error}"))?;
    Ok((changed, after))
}

/// The coefficients before and after.
pub(super) fn table(changed: &[Calibration], to: &str) -> String {
    let mut text = format!("Fitted to {to}; the standard error is that of the logarithm, as a factor.\n\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{:<32} {:>10} {:>10} {:>16}", "coefficient", "before", "after", "standard error");
    for one in changed {
        let error = format!("x/÷ {:.2}", one.error.exp());
        let _ = writeln!(text, "{:<32} {:>10.3} {:>10.3} {error:>16}", one.name, one.before, one.after);
    }
    text
}
