//! The roles of an agent as aliases: `reason`, `apply`, `compact`, `search`.
//!
//! Invariant: which lane a role gets follows from the keys that were found and the catalogue's prices, and the file says why.

use super::plan::{Alias, Found, Lane, MERGE, Models, Plan, merges, plan, rows};
use tokrate_catalog::{ListedPrice, Role};

/// The simulated lanes.
const QUICK: &str = "quick";
const STRONG: &str = "strong";

/// A provider's small model, as a lane of the plan.
struct Small {
    lane: String,
    row: &'static ListedPrice,
}

/// The plan for these providers with a role for each part of an agent's work.
pub fn with_roles(found: &[Found]) -> Plan {
    let mut plan = plan(found);
    let auto = plan.aliases.iter().position(|alias| alias.name == "auto").map(|at| plan.aliases.swap_remove(at));
    let apply = plan.aliases.iter().position(|alias| alias.name == "apply").map(|at| plan.aliases.swap_remove(at));
    plan.is_simulated = auto.is_none();
    let small: Vec<Small> = found.iter().filter_map(|one| small_lane(*one, &mut plan)).collect();
    let roles =
        [reason(&plan, auto.as_ref()), apply_role(apply, &small), compact(&small), search(&small, auto.as_ref())];
    plan.aliases = auto.into_iter().chain(roles).collect();
    plan
}

fn alias(name: &'static str, lanes: Vec<String>, models: Models, why: &str) -> Alias {
    Alias { name, lanes, models, why: why.to_owned() }
}

/// The large models, else whatever answers.
fn reason(plan: &Plan, auto: Option<&Alias>) -> Alias {
    let is_large = |lane: &&Lane| {
        let row = lane.model.and_then(|model| tokrate_catalog::price(lane.found.0.name, model));
        row.is_some_and(|row| row.role == Some(Role::Reason))
    };
    let large: Vec<String> = plan.lanes.iter().filter(is_large).map(|lane| lane.name.clone()).collect();
    let why = "# To plan and to write code: the large model of each provider.\n";
    match (large.len(), auto) {
        (0, None) => alias("reason", vec![STRONG.to_owned()], Models::Different, "# To plan and to write code.\n"),
        (0, Some(auto)) => {
            let why = "# To plan and to write code: no provider of these has a large model in the catalogue.\n";
            alias("reason", auto.lanes.clone(), auto.models, why)
        }
        _ => alias("reason", large, Models::Different, why),
    }
}

/// General models behind the merge engine: more of them cost time, and what two cannot merge a third seldom can.
const GENERAL_MODELS: usize = 2;

/// The merge engine, then the models that merge; where there are none, small models that are told how to write an edit.
fn apply_role(found: Option<Alias>, small: &[Small]) -> Alias {
    if let Some(found) = found {
        return found;
    }
    let mut small: Vec<&Small> = small.iter().collect();
    small.sort_by_key(|one| one.row.price.output);
    small.truncate(GENERAL_MODELS);
    let why = match small.is_empty() {
        true => {
            "# Edits of code: the merge engine. No key of a provider with a model for it was found: what the engine refuses comes back\n\
             # as 422 with the reason, and the agent writes the edit anew.\n"
        }
        false => {
            "# Edits of code: the merge engine; what it refuses goes to a small model, which is told to write an edit that merges. What the\n\
             # engine makes of that is held against the edit that was asked for. A key of Morph's puts a model here that was made for it.\n"
        }
    };
    let lanes = std::iter::once(MERGE.to_owned()).chain(small.iter().map(|one| one.lane.clone())).collect();
    alias("apply", lanes, Models::Merging, why)
}

/// The cheapest to read with first.
fn compact(small: &[Small]) -> Alias {
    let mut small: Vec<&Small> = small.iter().collect();
    small.sort_by_key(|one| one.row.price.input);
    let why = "# To sum up a long conversation, which is nearly all input: the small model of each provider, the cheapest to read first.\n";
    in_order("compact", &small, why)
}

/// Many short questions: whichever is fastest now where several serve one model, else the cheapest to write first.
fn search(small: &[Small], auto: Option<&Alias>) -> Alias {
    if let Some(auto) = auto.filter(|auto| matches!(auto.models, Models::Same(_)) && auto.lanes.len() > 1) {
        let why = "# To look for files and lines, many short questions at once.\n";
        return alias("search", auto.lanes.clone(), auto.models, why);
    }
    let mut small: Vec<&Small> = small.iter().collect();
    small.sort_by_key(|one| one.row.price.output);
    let why = "# To look for files and lines, many short questions at once: the small model of each provider, the cheapest first.\n";
    in_order("search", &small, why)
}

fn in_order(name: &'static str, small: &[&Small], why: &str) -> Alias {
    if small.is_empty() {
        return alias(name, vec![QUICK.to_owned()], Models::Different, SIMULATED_WHY);
    }
    let price = |one: &&Small| {
        let (input, output) = (one.row.price.input.as_usd(), one.row.price.output.as_usd());
        format!("# {}: ${input} in, ${output} out per million tokens ({})\n", one.lane, one.row.date)
    };
    let prices: String = small.iter().map(price).collect();
    alias(name, small.iter().map(|one| one.lane.clone()).collect(), Models::Different, &format!("{why}{prices}"))
}

const SIMULATED_WHY: &str = "# A small, quick model.\n";

/// The lane of a provider's small model, added to the plan if it is not there.
fn small_lane(one: Found, plan: &mut Plan) -> Option<Small> {
    let row = small_model(one)?;
    let is_it = |lane: &&Lane| lane.found.0.name == one.0.name && lane.model == Some(row.model);
    let lane = match plan.lanes.iter().find(is_it) {
        Some(lane) => lane.name.clone(),
        None => {
            let name = format!("{}-small", one.0.name);
            plan.lanes.push(Lane { name: name.clone(), found: one, model: Some(row.model) });
            name
        }
    };
    Some(Small { lane, row })
}

/// The model of a provider that the catalogue marks as fast, else the last that it lists (older ones come first) of those that cost
/// half as much to read with as its large one.
fn small_model(one: Found) -> Option<&'static ListedPrice> {
    if merges(one.0.name) {
        return None;
    }
    let marked = |role: Role| rows(one).find(move |row| row.role == Some(role));
    let large = || marked(Role::Reason);
    let half = || {
        let most = large()?.price.input.as_usd() / 2.0;
        rows(one).filter(|row| row.price.input.as_usd() <= most).last()
    };
    marked(Role::Fast).or_else(half).or_else(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(providers: &[&str]) -> String {
        let found: Vec<Found> =
            providers.iter().map(|name| (tokrate_catalog::provider(name).expect("a row"), "A_KEY")).collect();
        let plan = with_roles(&found);
        let lanes = plan.lanes.iter().map(|lane| format!("{} = {}", lane.name, lane.model.unwrap_or("?")));
        let aliases =
            plan.aliases.iter().map(|alias| format!("{}: {} ({:?})", alias.name, alias.lanes.join(" "), alias.models));
        lanes.chain(aliases).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_role_has_a_lane_whatever_the_keys() {
        let found = [
            vec!["openai"],
            vec!["anthropic"],
            vec!["openai", "anthropic", "gemini", "cerebras", "groq", "morph"],
            vec!["groq", "cerebras"],
            vec!["morph"],
            vec!["azure"],
            vec![],
        ];
        let plans: Vec<String> =
            found.iter().map(|names| format!("# {}\n{}\n", names.join(" "), shown(names))).collect();
        insta::assert_snapshot!("roles", plans.join("\n"));
    }

    proptest::proptest! {
        #[test]
        fn all_four_are_there_once_and_name_lanes_that_are(bits in proptest::prelude::any::<u32>()) {
            let hosted = tokrate_catalog::PROVIDERS.iter().filter(|row| row.kind == tokrate_catalog::Kind::Hosted);
            let found: Vec<Found> =
                hosted.enumerate().filter(|(at, _)| bits >> (at % 32) & 1 == 1).map(|(_, row)| (row, "A_KEY")).collect();
            let plan = with_roles(&found);
            let mut names: Vec<&str> = plan.lanes.iter().map(|lane| lane.name.as_str()).collect();
            names.push(MERGE);
            if plan.is_simulated {
                names.extend([QUICK, STRONG]);
            }
            for role in ["reason", "apply", "compact", "search"] {
                let of_role: Vec<&Alias> = plan.aliases.iter().filter(|alias| alias.name == role).collect();
                let [alias] = of_role[..] else { panic!("{role}: {of_role:?}") };
                proptest::prop_assert!(!alias.lanes.is_empty());
                proptest::prop_assert!(alias.lanes.iter().all(|lane| names.contains(&lane.as_str())), "{alias:?}");
            }
        }
    }
}
