//! The state of each alias: which lanes the next call would go to, and how many extra attempts it had.
//!
//! The router is queried without being changed. Invariant: a lane without an address is listed last.

use crate::settle::stats::{StatsSnapshot, first_minute_of_hour};
use crate::state::lock::locked;
use crate::state::plan::{Alias, Plan};
use crate::state::shared::Shared;
use tokrate_core::Tick;
use tokrate_route::{CallShape, LaneSnapshot, Mode, Policy, Ranked, WinRule};

/// Output tokens of an answer before the first has ended.
const DEFAULT_OUTPUT_TOKENS: f64 = 256.0;

/// The state of an alias.
#[derive(Clone, Debug)]
pub struct AliasStatus {
    /// Its name.
    pub name: String,
    /// Which lane a call goes to first.
    pub policy: Policy,
    /// When further attempts are started.
    pub mode: Mode,
    /// By which rule one of several attempts wins.
    pub win: WinRule,
    /// Mean output tokens of its answers.
    pub output_tokens: f64,
    /// In the order in which the next call would try them: the lane's index in the configuration, and the expected time
    /// to the end of the answer (s).
    pub lanes: Vec<(usize, Option<f64>)>,
    /// Calls of the last hour.
    pub calls: u64,
    /// Hedges and races of the last hour.
    pub extra: u64,
    /// Extra attempts that the budget allows, as a share of calls.
    pub max_extra_share: f64,
}

/// The configured aliases, and names of lanes that were called within the last hour.
pub(crate) fn aliases(shared: &Shared, plan: &Plan, now: Tick, stats: &StatsSnapshot) -> Vec<AliasStatus> {
    let since = first_minute_of_hour(shared.clock.wall_seconds() / 60);
    let views = plan.aliases.values().map(|alias| snapshot(plan, alias, now, stats, since));
    views.filter(|(alias, is_configured)| *is_configured || alias.calls > 0).map(|(alias, _)| alias).collect()
}

fn snapshot(plan: &Plan, alias: &Alias, now: Tick, stats: &StatsSnapshot, since: u64) -> (AliasStatus, bool) {
    let output_tokens = locked(&alias.output_length).expected(None).unwrap_or(DEFAULT_OUTPUT_TOKENS);
    let shape = CallShape { prompt_tokens: LaneSnapshot::PROMPT_TOKENS, output_tokens };
    let order = locked(&plan.router).preview(now, &shape, &alias.lanes, &alias.policy);
    let (askable, others): (Vec<Ranked>, Vec<Ranked>) =
        order.into_iter().partition(|ranked| plan.lane(ranked.lane).unresolved().is_none());
    let seconds = |ranked: &Ranked| Some(ranked.expectation?.completion_seconds(output_tokens));
    let lanes = askable.iter().chain(&others).map(|ranked| (ranked.lane.0 as usize, seconds(ranked))).collect();
    let (calls, extra) = stats.alias(&alias.name).map_or((0, 0), |stats| stats.since(since));
    let snapshot = AliasStatus {
        name: alias.name.clone(),
        policy: alias.policy,
        mode: alias.mode,
        win: alias.win,
        output_tokens,
        lanes,
        calls,
        extra,
        max_extra_share: alias.budget_config.extra_share,
    };
    (snapshot, alias.is_configured)
}
