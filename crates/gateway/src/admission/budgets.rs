//! Whether the limits in dollars of a configuration can be kept, and what whoever wrote it should know of them.
//!
//! It does not count anything: see `cost` and `route`. Invariant: a limit that a restart would forget is refused.

use crate::config::{Config, KeyConfig, LaneConfig};
use crate::error::GatewayError;
use tokrate_core::{Money, Span};

/// Output tokens of the longest answer, of a call without a limit on a lane whose settings do not say it: no hosted model of
/// 2026 that is listed in the catalog writes more at once.
pub(crate) const MAX_OUTPUT_TOKENS: u64 = 131_072;
/// A calendar month is no longer than that.
const MONTH: Span = Span::from_secs(31 * 86_400);

/// Refuses limits in dollars that could not be kept, and gives a sentence for everything that users of such a key may stumble over.
///
/// # Errors
/// When nothing, or not for a whole month, is kept of what a key has spent.
pub fn check_budgets(config: &Config) -> Result<Vec<String>, GatewayError> {
    let mut warnings = Vec::new();
    for key in &config.keys {
        let Some(budget) = key.limits.usd_per_month else { continue };
        let Some(log) = &config.log else { return Err(GatewayError::BudgetWithoutLog(key.name.clone())) };
        if let Some(retention) = log.retention.filter(|retention| *retention < MONTH) {
            return Err(GatewayError::BudgetForgotten { key: key.name.clone(), retention });
        }
        warn_of(config, key, budget, &mut warnings);
    }
    Ok(warnings)
}

fn warn_of(config: &Config, key: &KeyConfig, budget: Money, warnings: &mut Vec<String>) {
    let name = &key.name;
    let reached = config.lanes.iter().enumerate().filter(|(place, _)| may_reach(config, key, *place));
    for (_, lane) in reached {
        let lane_name = &lane.name;
        match longest_answer_usd(lane) {
            None => warnings.push(format!(
                "key `{name}` has a limit in dollars and is not let to lane `{lane_name}`, whose price is not known; set \
                 `price` under [gateway.lanes.{lane_name}], with zeros where nobody bills"
            )),
            Some(most) if most > budget => warnings.push(format!(
                "key `{name}`: an answer of lane `{lane_name}` without an output limit is reckoned at up to {most} USD, more than \
                 its {budget} USD a month: such calls go one at a time; set `max_output_tokens` under \
                 [gateway.lanes.{lane_name}], or have clients send a limit"
            )),
            Some(_) => {}
        }
    }
}

/// Whether a key may ask for a name that leads to the lane at that place.
fn may_reach(config: &Config, key: &KeyConfig, place: usize) -> bool {
    let lane = &config.lanes[place];
    let own = [lane.name.clone(), format!("{}/{}", lane.provider, lane.model)];
    let aliases = config.aliases.iter().filter(|alias| alias.lanes.contains(&place)).map(|alias| &alias.name);
    key.aliases.is_empty() || own.iter().chain(aliases).any(|name| key.aliases.contains(name))
}

/// What an answer without a limit may cost at most on a lane, beside its prompt; `None` without a price.
fn longest_answer_usd(lane: &LaneConfig) -> Option<Money> {
    Some(lane.token_price()?.cost_at_most(0, lane.token_limits.output.unwrap_or(MAX_OUTPUT_TOKENS)))
}
