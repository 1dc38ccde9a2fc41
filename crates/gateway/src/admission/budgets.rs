//! Checks that the monthly budgets of a configuration can be enforced, and warns of what may surprise the users of such
//! keys.
//!
//! Invariant: a budget that a restart would forget is refused. Spending itself is counted in `route`.

use crate::config::{Config, KeyConfig, LaneConfig};
use crate::error::GatewayError;
use tokrate_core::{Money, Span};

/// Output tokens reserved for an answer without a limit on a lane without `max_output_tokens`: the longest output of
/// any hosted model in the catalog (2026).
pub(crate) const MAX_OUTPUT_TOKENS: u64 = 131_072;
/// The longest calendar month.
const MONTH: Span = Span::from_secs(31 * 86_400);

/// Refuses budgets that could not be enforced, and returns warnings for the others.
///
/// # Errors
///
/// If spending is not recorded, or recorded for less than a month.
pub fn check_budgets(config: &Config) -> Result<Vec<String>, GatewayError> {
    let mut warnings = Vec::new();
    for key in &config.keys {
        let Some(budget) = key.limits.usd_per_month else { continue };
        let Some(log) = &config.log else { return Err(GatewayError::BudgetWithoutLog(key.name.clone())) };
        if let Some(retention) = log.retention.filter(|retention| *retention < MONTH) {
            return Err(GatewayError::BudgetRetention { key: key.name.clone(), retention });
        }
        warn_of(config, key, budget, &mut warnings);
    }
    Ok(warnings)
}

fn warn_of(config: &Config, key: &KeyConfig, budget: Money, warnings: &mut Vec<String>) {
    let name = &key.name;
    let reached = config.lanes.iter().enumerate().filter(|(index, _)| may_reach(config, key, *index));
    for (_, lane) in reached {
        let lane_name = &lane.name;
        match longest_answer_usd(lane) {
            None => warnings.push(format!(
                "key `{name}` has a budget and cannot use lane `{lane_name}`, whose price is not known; set \
                 `price` under [gateway.lanes.{lane_name}], with zeros if it is free"
            )),
            Some(highest) if highest > budget => warnings.push(format!(
                "key `{name}`: an answer of lane `{lane_name}` without an output limit may cost up to {highest} USD, more than \
                 its budget of {budget} USD a month, so such calls run one at a time; set `max_output_tokens` under \
                 [gateway.lanes.{lane_name}], or have clients send a limit"
            )),
            Some(_) => {}
        }
    }
}

/// Whether a key may use an alias that leads to the lane at that index.
fn may_reach(config: &Config, key: &KeyConfig, index: usize) -> bool {
    let lane = &config.lanes[index];
    let own = [lane.name.clone(), format!("{}/{}", lane.provider, lane.model)];
    let aliases = config.aliases.iter().filter(|alias| alias.lanes.contains(&index)).map(|alias| &alias.name);
    key.aliases.is_empty() || own.iter().chain(aliases).any(|name| key.aliases.contains(name))
}

/// Highest cost of an answer without a limit on a lane, prompt excluded; `None` without a price.
fn longest_answer_usd(lane: &LaneConfig) -> Option<Money> {
    Some(lane.full_price()?.cost_at_most(0, lane.token_limits.output.unwrap_or(MAX_OUTPUT_TOKENS)))
}
