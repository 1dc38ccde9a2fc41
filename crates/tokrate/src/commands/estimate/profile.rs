//! Coefficients that a user's own trace gave: a file that takes the place of the embedded ones, one by one.
//!
//! Invariant: what is read is positive and finite and has the name of a coefficient; others stay as they are embedded.

use crate::flags::estimate::Subject;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use tokrate_estimate::Estimator;
use tokrate_estimate::calibrate::Calibration;
use tokrate_estimate::coefficients::Coefficients;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// The form of the file.
const FORM: &str = "tokrate.profile.v1";

/// A file of coefficients.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    form: String,
    /// What it was fitted to, in words.
    pub fitted_to: String,
    coefficients: BTreeMap<String, Fitted>,
}

#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Fitted {
    value: f64,
    standard_error_log: f64,
}

impl Profile {
    /// Of a calibration.
    pub fn of(calibrations: &[Calibration], fitted_to: String) -> Profile {
        let row = |one: &Calibration| (one.name.clone(), Fitted { value: one.after, standard_error_log: one.error });
        Profile { form: FORM.to_owned(), fitted_to, coefficients: calibrations.iter().map(row).collect() }
    }

    /// The embedded coefficients with these in their place.
    pub fn apply(&self) -> Result<Coefficients> {
        ensure!(self.form == FORM, "it has the form {:?}, and {FORM:?} is read", self.form);
        let (names, mut all) = (Coefficients::names(), Coefficients::fitted());
        for (name, fitted) in &self.coefficients {
            let Some(place) = names.iter().position(|known| known == name) else {
                bail!("{name:?} is no coefficient; write the file anew with `tokrate estimate calibrate`");
            };
            let value = fitted.value;
            ensure!(value.is_finite() && value > 0.0, "{name} is {value}; a coefficient is above 0");
            all.0[place] = value.ln();
        }
        Ok(all)
    }
}

/// Reads a profile's coefficients; the embedded ones without one.
pub fn coefficients(path: Option<&Path>) -> Result<Coefficients> {
    let Some(path) = path else { return Ok(Coefficients::fitted()) };
    let shown = path.display();
    let text = reading::text_of(path, MAX_SETTINGS_BYTES).with_context(|| format!("read the profile {shown}"))?;
    let profile: Profile = serde_json::from_str(&text).with_context(|| format!("understand the profile {shown}"))?;
    profile.apply().with_context(|| format!("use the profile {shown}"))
}

/// An estimator with the subject's profile, if it has one.
pub fn estimator(subject: &Subject) -> Result<Estimator> {
    Ok(Estimator::embedded().with_coefficients(coefficients(subject.profile.as_deref())?))
}
