//! `tokrate estimate what-if`: one thing changed at a time.

use super::{profile, subject};
use crate::commands::Verdict;
use crate::flags::estimate::WhatIfFlags;
use crate::out::estimate::what_if::{Row, Shown, json, text};
use anyhow::{Result, anyhow, ensure};
use tokrate_estimate::Estimator;
use tokrate_estimate::what_if::{Change, Scenario, effect, usual};

/// Runs the base and every change, and prints.
pub fn run(flags: &WhatIfFlags) -> Result<Verdict> {
    let shown = changed(&profile::estimator(&flags.subject)?, flags)?;
    let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
    crate::out::stdout::write(&written)?;
    Ok(Verdict::Good)
}

/// Every change.
pub(super) fn changed(estimator: &Estimator, flags: &WhatIfFlags) -> Result<Shown> {
    ensure!((1..=20_000).contains(&flags.users), "estimate: {} users; give 1 to 20,000 with --users", flags.users);
    let base = Scenario {
        asked: subject::asked(&flags.subject)?,
        tuning: subject::tuning(&flags.load)?,
        lengths: subject::lengths(&flags.load)?,
        users: flags.users,
    };
    let refused = |error: String| anyhow!("estimate: {error}");
    let changes = match flags.change.is_empty() {
        true => usual(&base),
        false => flags.change.iter().map(|text| Change::parse(text)).collect::<Result<Vec<_>, _>>().map_err(refused)?,
    };
    let of_base = effect(estimator, &base).map_err(refused)?;
    let row = |change: &Change| Row { name: change.words(), effect: effect(estimator, &change.apply(&base)) };
    Ok(Shown { rows: changes.iter().map(row).collect(), base: of_base, scenario: base, price: flags.subject.price })
}
