//! `tokrate gateway --init-roles`: the lanes and aliases that the best plan of a chain asks for, as a piece of tokrate.toml.
//!
//! Invariant: what is printed is read by the gateway as it stands, but for what its comments say has to be filled in; no key is in it.

use super::chain::{planned, text_of};
use crate::config::chain::{Source, SpeedRow, read};
use crate::out::toml_text::{key, quoted};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use tokrate_estimate::Estimator;
use tokrate_estimate::traffic::quantile;

/// The piece of settings for the plan that is quickest at its 95th percentile.
pub fn settings(chain: &Path) -> Result<String> {
    let text = text_of(Some(chain), None)?;
    let shown = planned(&Estimator::embedded(), &text)?;
    let file = read(&text)?;
    let slow = |outcome: &tokrate_estimate::chain::Outcome| quantile(&outcome.seconds, 0.95);
    let best = shown.plans.iter().min_by(|a, b| slow(&a.outcome).total_cmp(&slow(&b.outcome)));
    let best = best.context("the chain has no plan")?;
    let plans = file.plans(&shown.chain)?;
    let roles = plans.into_iter().find(|(name, _)| *name == best.plan.name).map(|(_, roles)| roles).unwrap_or_default();
    // Roles that no step has are of no use.
    let used = shown.chain.steps.iter().filter_map(|step| step.role.clone());
    let roles: BTreeMap<String, String> =
        used.filter_map(|role| Some((role.clone(), roles.get(&role)?.clone()))).collect();
    let mut out = format!(
        "# Roles of {:?} by its plan {:?}: p50 {:.1} s, p95 {:.1} s, computed by `tokrate estimate chain`.\n\
         # Send the name of a role as `model`, and x-tokrate-session with each call: `tokrate log --session NAME` then shows\n\
         # the chain as it was, beside the plan.\n",
        shown.chain.name,
        best.plan.name,
        quantile(&best.outcome.seconds, 0.5),
        slow(&best.outcome)
    );
    // Writing to a String cannot fail.
    let _ = lanes(&mut out, &roles, &file.speeds);
    let _ = aliases(&mut out, &roles);
    Ok(out)
}

/// Whether calls of a speed are asked of a model: those of a program are the merge engine's, which a gateway has in its process.
fn is_model(row: &SpeedRow) -> bool {
    !matches!(row.source(), Ok(Source::Program(_)))
}

fn lanes(out: &mut String, roles: &BTreeMap<String, String>, speeds: &BTreeMap<String, SpeedRow>) -> std::fmt::Result {
    for (name, row) in speeds.iter().filter(|(name, _)| roles.values().any(|used| used == *name)) {
        writeln!(out, "\n[gateway.lanes.{}]", key(name))?;
        if !is_model(row) {
            writeln!(out, "local = \"apply\"   # edits are merged here, by no model")?;
            continue;
        }
        match (&row.listed, &row.model) {
            (Some(listed), _) => writeln!(out, "target = {}", quoted(listed))?,
            (None, Some(model)) => {
                let on = row.hardware.as_deref().unwrap_or("own devices");
                writeln!(out, "url = \"http://127.0.0.1:8000/v1\"   # where your server on {on} listens")?;
                writeln!(out, "model = {}", quoted(model))?;
            }
            (None, None) => {
                writeln!(out, "url = \"http://127.0.0.1:8000/v1\"   # the endpoint that was measured as {name}")?;
                writeln!(out, "model = \"name-of-the-model\"   # as it is called there")?;
            }
        }
        match row.source() {
            Ok(Source::Record(path)) => writeln!(out, "curve = {}", quoted(&path.display().to_string()))?,
            Ok(Source::Estimate) => writeln!(
                out,
                "# curve = \"estimate.json\"   # of `tokrate estimate speed --json`, until it is measured"
            )?,
            _ => {}
        }
    }
    Ok(())
}

fn aliases(out: &mut String, roles: &BTreeMap<String, String>) -> std::fmt::Result {
    roles
        .iter()
        .try_for_each(|(role, speed)| writeln!(out, "\n[gateway.aliases.{}]\nlanes = [{}]", key(role), quoted(speed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_of_the_best_plan_are_settings_that_a_gateway_reads() {
        let path = std::env::temp_dir().join(format!("tokrate-roles-{}.toml", std::process::id()));
        std::fs::write(&path, include_str!("chains/coding.toml")).expect("written");
        let text = settings(&path).expect("a plan");
        std::fs::remove_file(&path).expect("removed");
        insta::assert_snapshot!("roles", text);
        let read: toml::Table = text.parse().expect("TOML");
        let aliases = read["gateway"]["aliases"].as_table().expect("aliases");
        let lanes = read["gateway"]["lanes"].as_table().expect("lanes");
        for alias in aliases.values() {
            let lane = alias["lanes"][0].as_str().expect("a name");
            assert!(lanes.contains_key(lane), "{lane}");
        }
        assert_eq!(lanes["merge"]["local"].as_str(), Some("apply"), "a program is no model");
    }
}
