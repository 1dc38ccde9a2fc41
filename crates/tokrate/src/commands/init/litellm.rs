//! Settings of a LiteLLM proxy (its `config.yaml`) as settings of tokrate.
//!
//! Invariant: every setting of the file is either taken over or named among those that are not, with its line; a key that stands in the
//! file is never written anywhere. The settings are those of docs.litellm.ai/docs/proxy/config_settings (read on 2026-11-26).

mod deployments;
mod routing;

use anyhow::{Context, Result, bail, ensure};
use deployments::Lane;
use routing::Routing;
use saphyr::{LoadableYamlNode, MarkedYaml};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// A larger file is no list of models.
const MAX_BYTES: u64 = 4 << 20;

/// What a file comes to.
#[derive(Debug)]
pub struct Migrated {
    lanes: Vec<Lane>,
    routing: Routing,
    /// What was not taken over, and why: one sentence each.
    notes: Vec<String>,
}

/// A mapping or value of the file, with where it stands.
type Node<'y> = &'y MarkedYaml<'y>;

/// What was not taken over.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, at: Node<'_>, text: impl std::fmt::Display) {
        self.0.push(format!("line {}: {text}", line(at)));
    }
}

/// Reads a file of LiteLLM. `variable` looks into the environment, for addresses that are named by a variable.
///
/// # Errors
/// Where it cannot be read, is no YAML or has no `model_list`.
pub fn read(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Migrated> {
    let size = std::fs::metadata(path).with_context(|| format!("read {}", path.display()))?.len();
    ensure!(size <= MAX_BYTES, "read {}: it has {size} bytes, and settings have at most {MAX_BYTES}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    migrate(&text, variable).with_context(|| format!("understand {} as settings of LiteLLM", path.display()))
}

fn migrate(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Migrated> {
    let documents = MarkedYaml::load_from_str(text).map_err(|error| anyhow::anyhow!("{error}"))?;
    let Some(root) = documents.first() else { bail!("it is empty") };
    ensure!(documents.len() == 1, "it holds {} documents; one is expected", documents.len());
    ensure!(root.data.as_mapping().is_some(), "it is no mapping with model_list");
    let mut notes = Notes::default();
    let (mut lanes, mut routing) = (Vec::new(), Routing::default());
    let mut has_models = false;
    for (name, node) in entries(root) {
        match name {
            "model_list" => {
                has_models = true;
                let list = node.data.as_vec().with_context(|| format!("line {}: model_list is no list", line(node)))?;
                for entry in list {
                    deployments::read(entry, variable, &mut lanes, &mut notes);
                }
            }
            "router_settings" | "litellm_settings" | "general_settings" => routing.read(name, node, &mut notes),
            "environment_variables" => {
                let names: Vec<&str> = entries(node).map(|(name, _)| name).collect();
                notes.add(
                    node,
                    format_args!("environment_variables: set them where the gateway starts: {}", names.join(", ")),
                );
            }
            _ => notes.add(node, format_args!("{name}: tokrate has nothing like it")),
        }
    }
    ensure!(has_models, "it has no model_list");
    routing.finish(&lanes, &mut notes);
    Ok(Migrated { lanes, routing, notes: notes.0 })
}

impl Migrated {
    /// How many lanes and aliases there are.
    pub fn counts(&self) -> (usize, usize) {
        (self.lanes.iter().filter(|lane| lane.refused.is_none()).count(), self.routing.aliases.len())
    }

    /// Whether clients go on with the key that they have.
    pub fn has_key(&self) -> bool {
        self.routing.key.is_some()
    }

    /// The names that clients ask for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routing.aliases.iter().map(|alias| alias.name.as_str())
    }

    /// Lanes that cannot be and settings that were not taken over, a sentence each.
    pub fn left_out(&self) -> Vec<String> {
        let lanes = self.lanes.iter().filter_map(|lane| Some(format!("{}: {}", lane.name, lane.refused.as_ref()?)));
        lanes.chain(self.notes.iter().cloned()).map(|note| on_a_line(&note)).collect()
    }

    /// The text of the settings, behind a head; `key_file` is that of the key for clients, where the file has none.
    pub fn text(&self, head: &str, key_file: &Path) -> String {
        let mut text = head.to_owned();
        for lane in &self.lanes {
            text.push_str(&lane.text());
        }
        text.push_str("\n# What clients ask for as `model`.\n");
        let aliases: Vec<String> = self.routing.aliases.iter().map(routing::Alias::text).collect();
        text.push_str(&aliases.join("\n"));
        text.push_str(&self.routing.limits());
        text.push_str(&self.routing.key_text(key_file));
        if !self.notes.is_empty() {
            text.push_str("\n# Not taken over:\n");
        }
        for note in &self.notes {
            // Writing to a String cannot fail. Nothing of the file can begin a line of its own.
            let _ = writeln!(text, "# - {}", on_a_line(note));
        }
        text
    }
}

/// The entries of a mapping whose keys are text; none of anything else.
fn entries<'y>(node: Node<'y>) -> impl Iterator<Item = (&'y str, Node<'y>)> {
    let mapping = node.data.as_mapping().into_iter().flatten();
    mapping.filter_map(|(key, value)| Some((key.data.as_str()?, value)))
}

fn line(node: Node<'_>) -> usize {
    node.span.start.line()
}

/// A value as text; numbers and truths as they are usually written.
fn text_of(node: Node<'_>) -> Option<String> {
    let data = &node.data;
    let number = || number_of(node).map(|number| number.to_string());
    data.as_str().map(str::to_owned).or_else(number).or_else(|| data.as_bool().map(|truth| truth.to_string()))
}

/// A finite number, written as one or as text.
fn number_of(node: Node<'_>) -> Option<f64> {
    let data = &node.data;
    let plain = data.as_integer().map(|whole| whole as f64).or_else(|| data.as_floating_point());
    plain.or_else(|| data.as_str()?.trim().parse().ok()).filter(|number: &f64| number.is_finite())
}

/// Text on one line.
fn on_a_line(text: &str) -> String {
    text.replace(|symbol: char| symbol.is_control(), " ")
}

/// The environment variable of `os.environ/NAME`.
fn environment_name(text: &str) -> Option<&str> {
    text.strip_prefix("os.environ/").filter(|name| !name.is_empty())
}

/// Names that occur several times, each with a number behind it from the second on.
fn unique(wanted: String, taken: &mut BTreeMap<String, usize>) -> String {
    let count = taken.entry(wanted.clone()).or_default();
    *count += 1;
    let (count, base) = (*count, wanted.clone());
    if count == 1 { wanted } else { unique(format!("{base}-{count}"), taken) }
}

#[cfg(test)]
mod tests;
