//! Which lanes and aliases suit the providers whose keys were found.
//!
//! Invariant: an alias that chooses by speed holds one model only; different models follow each other in a fixed order.

use tokrate_catalog::{ListedPrice, PRICES, Provider, Role};

/// A provider, and the environment variable that holds its key.
pub type Found = (&'static Provider, &'static str);

/// The lane of tokrate's own merge engine.
pub const MERGE: &str = "merge";

/// What is to be written.
#[derive(Default, Debug)]
pub struct Plan {
    pub lanes: Vec<Lane>,
    pub aliases: Vec<Alias>,
    /// Whether nobody answers questions but the two simulated lanes.
    pub is_simulated: bool,
}

#[derive(Debug)]
pub struct Lane {
    pub name: String,
    pub found: Found,
    /// `None` if no model of the provider is known.
    pub model: Option<&'static str>,
}

#[derive(Debug)]
pub struct Alias {
    pub name: &'static str,
    pub lanes: Vec<String>,
    pub models: Models,
    /// What it is for, and why it has these lanes; may be empty.
    pub why: String,
}

/// What the lanes of an alias have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Models {
    /// All serve this model.
    Same(&'static str),
    /// Each serves another.
    Different,
    /// The merge engine, then models that merge.
    Merging,
}

/// A model, and the providers that serve it.
struct Model {
    row: &'static ListedPrice,
    lanes: Vec<String>,
}

/// The plan for these providers, in their order.
pub fn plan(found: &[Found]) -> Plan {
    let mut plan = Plan::default();
    let main = shared(found);
    let mut models: Vec<Model> = main.into_iter().map(|row| model(row, found, &mut plan)).collect();
    let default = |one: Found| rows(one).find(|row| row.role.is_some());
    // Last, because a provider that answers questions may host their models too.
    let (merging, answering): (Vec<Found>, Vec<Found>) = found.iter().partition(|one| merges(one.0.name));
    for one in answering.into_iter().chain(merging) {
        if plan.lanes.iter().any(|lane| lane.found.0.name == one.0.name) {
            continue;
        }
        match default(one) {
            Some(row) => models.push(model(row, found, &mut plan)),
            None => plan.lanes.push(Lane { name: one.0.name.to_owned(), found: one, model: None }),
        }
    }
    plan.aliases = aliases(&models);
    plan.is_simulated = plan.aliases.is_empty();
    plan
}

/// The models of a provider whose prices are listed.
pub fn rows(found: Found) -> impl Iterator<Item = &'static ListedPrice> {
    PRICES.iter().filter(move |row| row.provider == found.0.name)
}

/// Whether a provider's models merge edits instead of answering questions.
pub fn merges(provider: &str) -> bool {
    PRICES.iter().any(|row| row.provider == provider && row.role == Some(Role::Apply))
}

/// The model that answers questions which most of the providers serve, if at least two do; of several that which most of
/// them have a role for, then the first of the catalog.
fn shared(found: &[Found]) -> Option<&'static ListedPrice> {
    let same = |row: &'static ListedPrice| {
        found.iter().flat_map(|one| rows(*one)).filter(move |other| other.common_name == row.common_name)
    };
    let chats =
        |row: &&'static ListedPrice| row.common_name.is_some() && !same(row).any(|other| merges(other.provider));
    let candidates = found.iter().flat_map(|one| rows(*one)).filter(chats);
    let rated = candidates.map(|row| (same(row).count(), same(row).filter(|other| other.role.is_some()).count(), row));
    // `max_by_key` takes the last of equals.
    let all: Vec<_> = rated.filter(|(count, _, _)| *count > 1).collect();
    all.into_iter().rev().max_by_key(|(count, with_role, _)| (*count, *with_role)).map(|(_, _, row)| row)
}

/// Lanes of all providers that serve the model of this row.
fn model(row: &'static ListedPrice, found: &[Found], plan: &mut Plan) -> Model {
    let is_same = |other: &&ListedPrice| {
        (other.provider == row.provider && other.model == row.model)
            || (row.common_name.is_some() && other.common_name == row.common_name)
    };
    let mut lanes = Vec::new();
    for one in found {
        let Some(row) = rows(*one).find(is_same) else { continue };
        let is_first = !plan.lanes.iter().any(|lane| lane.found.0.name == one.0.name);
        let name = match is_first {
            true => one.0.name.to_owned(),
            false => format!("{}-{}", one.0.name, row.common_name.unwrap_or(row.model).replace('.', "-")),
        };
        lanes.push(name.clone());
        plan.lanes.push(Lane { name, found: *one, model: Some(row.model) });
    }
    Model { row, lanes }
}

/// `auto` for any question, then the roles that differ from it.
fn aliases(models: &[Model]) -> Vec<Alias> {
    let (merging, answering): (Vec<&Model>, Vec<&Model>) = models.iter().partition(|model| merges(model.row.provider));
    let is_shared = answering.first().is_some_and(|model| model.lanes.len() > 1);
    let (auto, others) = if is_shared { answering.split_at(1) } else { (&answering[..], &answering[..]) };
    let mut aliases: Vec<Alias> = alias("auto", auto).into_iter().collect();
    for (name, role) in [("reason", Role::Reason), ("fast", Role::Fast)] {
        let of_role: Vec<&Model> = others.iter().copied().filter(|model| model.row.role == Some(role)).collect();
        let role = alias(name, &of_role).filter(|role| aliases.iter().all(|alias| alias.lanes != role.lanes));
        aliases.extend(role);
    }
    if !merging.is_empty() {
        let lanes = merging.iter().flat_map(|model| model.lanes.iter().cloned());
        let lanes = std::iter::once(MERGE.to_owned()).chain(lanes).collect();
        aliases.push(Alias { name: "apply", lanes, models: Models::Merging, why: String::new() });
    }
    aliases
}

fn alias(name: &'static str, models: &[&Model]) -> Option<Alias> {
    let lanes = models.iter().flat_map(|model| model.lanes.iter().cloned()).collect();
    let models = match models {
        [] => return None,
        [one] => Models::Same(one.row.common_name.unwrap_or(one.row.model)),
        _ => Models::Different,
    };
    Some(Alias { name, lanes, models, why: String::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes as `name=model`, aliases as `name: lanes (models)`.
    fn shown(providers: &[&str]) -> String {
        let found: Vec<Found> =
            providers.iter().map(|name| (tokrate_catalog::provider(name).expect("a row"), "A_KEY")).collect();
        let plan = plan(&found);
        let lanes = plan.lanes.iter().map(|lane| format!("{} = {}", lane.name, lane.model.unwrap_or("?")));
        let aliases =
            plan.aliases.iter().map(|alias| format!("{}: {} ({:?})", alias.name, alias.lanes.join(" "), alias.models));
        lanes.chain(aliases).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn one_model_of_several_providers_is_chosen_by_speed_and_others_have_roles() {
        let found = [
            vec!["openai"],
            vec!["groq", "cerebras"],
            vec!["openai", "anthropic", "gemini", "cerebras", "groq", "morph"],
            vec!["openai", "anthropic"],
            vec!["anthropic", "openrouter"],
            vec!["gemini", "groq", "cerebras", "together", "openrouter", "deepinfra"],
            vec!["openai", "gemini", "azure"],
            vec!["morph"],
            vec!["morph", "openrouter"],
            vec!["azure"],
            vec![],
        ];
        let plans: Vec<String> =
            found.iter().map(|names| format!("# {}\n{}\n", names.join(" "), shown(names))).collect();
        insta::assert_snapshot!("init_plans", plans.join("\n"));
    }

    proptest::proptest! {
        /// Whatever the keys: names are unique, every lane with a model is in an alias, and speed chooses among one model.
        #[test]
        fn every_lane_is_reached_and_speed_chooses_within_one_model(bits in proptest::prelude::any::<u128>()) {
            let hosted = tokrate_catalog::PROVIDERS.iter().filter(|row| row.kind == tokrate_catalog::Kind::Hosted);
            let found: Vec<Found> =
                hosted.enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, row)| (row, "A_KEY")).collect();
            let plan = plan(&found);
            let mut names: Vec<&str> = plan.lanes.iter().map(|lane| lane.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            proptest::prop_assert_eq!(names.len(), plan.lanes.len());
            for provider in &found {
                proptest::prop_assert!(plan.lanes.iter().any(|lane| lane.found.0.name == provider.0.name));
            }
            for lane in plan.lanes.iter().filter(|lane| lane.model.is_some()) {
                proptest::prop_assert!(plan.aliases.iter().any(|alias| alias.lanes.contains(&lane.name)), "{}", lane.name);
            }
            for alias in &plan.aliases {
                let served = plan.lanes.iter().filter(|lane| alias.lanes.contains(&lane.name));
                let mut models: Vec<&str> = served
                    .filter_map(|lane| tokrate_catalog::price(lane.found.0.name, lane.model?))
                    .map(|row| row.common_name.unwrap_or(row.model))
                    .collect();
                models.sort_unstable();
                models.dedup();
                proptest::prop_assert!(models.len() == 1 || !matches!(alias.models, Models::Same(_)), "{models:?}");
            }
        }
    }
}
