//! `tokrate init`: writes a commented settings file for the providers whose keys the environment holds, or from that of another
//! gateway, and a key for clients.

pub mod key;
mod litellm;
mod plan;
mod roles;

use super::Verdict;
use crate::config::environment;
use crate::flags::gateway::InitFlags;
use anyhow::{Context, Result, ensure};
use plan::{Alias, Found, Lane, Models, Plan};
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use tokrate_catalog::{Kind, PROVIDERS};
use tokrate_targets::key_variable;
use tokrate_targets::trust::{self, DEFAULT_NAME};

/// Writes the file; over another only with `--force`.
pub fn run(flags: &InitFlags) -> Result<Verdict> {
    let path = &flags.file;
    let exists = path.exists();
    ensure!(
        !exists || flags.force,
        "write {}: it is there already; add --force to replace it, or name another with --file",
        path.display()
    );
    if let Some(from) = &flags.from {
        return take_over(from, path);
    }
    let found: Vec<Found> = PROVIDERS
        .iter()
        .filter(|row| row.kind == Kind::Hosted)
        .filter_map(|row| Some((row, key_variable(row, &environment::variable)?)))
        .collect();
    let key = key::make(path)?;
    let plan = if flags.agents { roles::with_roles(&found) } else { plan::plan(&found) };
    let text = settings(&plan, &key.path);
    std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    let named: Vec<&str> = found.iter().map(|(row, _)| row.title).collect();
    match named.is_empty() {
        true => {
            anstream::println!("wrote {} with simulated lanes: no key of a known provider was found", path.display())
        }
        false => anstream::println!("wrote {} for {}", path.display(), listed(&named)),
    }
    tell_key(&key);
    if !plan.aliases.is_empty() {
        let asked_for: Vec<&str> = plan.aliases.iter().map(|alias| alias.name).collect();
        anstream::println!("and name as their model: {}", listed(&asked_for));
    }
    trust_own(path, &text);
    anstream::println!("next: tokrate gateway --check, then tokrate gateway");
    Ok(Verdict::Good)
}

/// Writes the settings of another gateway as ours, and says what of them was not taken over.
fn take_over(from: &Path, path: &Path) -> Result<Verdict> {
    let migrated = litellm::read(from, &environment::variable)?;
    let key = if migrated.has_key() { None } else { Some(key::make(path)?) };
    let text = migrated.text(HEAD, key.as_ref().map_or(Path::new(""), |key| &key.path));
    std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    let (lanes, aliases) = migrated.counts();
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (lanes, names) = (counted(lanes, "lane"), counted(aliases, "name"));
    anstream::println!("wrote {} from {}: {lanes}, {names} for clients", path.display(), from.display());
    match &key {
        Some(key) => tell_key(key),
        None => anstream::println!("clients go on with the key that they have"),
    }
    if aliases > 0 {
        anstream::println!("and name as their model: {}", listed(&migrated.names().collect::<Vec<&str>>()));
    }
    let left = migrated.left_out();
    if !left.is_empty() {
        anstream::println!("not taken over (the file says it too):");
    }
    for note in left {
        anstream::println!("- {note}");
    }
    // Its addresses and variables of keys are those of the other file: somebody has to look through them once.
    anstream::println!("next: look it through, then tokrate trust, tokrate gateway --check and tokrate gateway");
    Ok(Verdict::Good)
}

/// Where the key for clients is, and how they show it.
fn tell_key(key: &key::KeyFile) {
    let made = if key.is_new { "made a key for clients" } else { "kept the key for clients that was there" };
    let file = key.path.display();
    anstream::println!(
        "{made}: {file}\nclients show it as their API key, in a shell that is not the gateway's: export OPENAI_API_KEY=\"$(cat '{file}')\""
    );
}

/// Nobody has to look through what tokrate has written itself; what is changed in it later has to be trusted.
pub fn trust_own(path: &Path, text: &str) {
    if path.file_name() != Some(OsStr::new(DEFAULT_NAME)) {
        return;
    }
    match trust::add_own(environment::data_folder().as_deref(), path, text) {
        Ok(()) => anstream::println!("it is trusted as it is; when you have changed it: tokrate trust"),
        Err(error) => anstream::eprintln!("tokrate: name it with --config {DEFAULT_NAME}: failed to {error:#}"),
    }
}

/// The text of the file.
fn settings(plan: &Plan, key_file: &Path) -> String {
    let mut text = String::from(HEAD);
    for lane in &plan.lanes {
        text.push_str(&lane_text(lane));
    }
    if plan.aliases.iter().any(|alias| alias.models == Models::Merging) {
        text.push_str(MERGE_LANE);
    }
    match plan.is_simulated {
        true => text.push_str(SIMULATED),
        false => text.push_str("\n# What clients ask for as `model`.\n"),
    }
    if plan.is_simulated && !plan.aliases.is_empty() {
        text.push('\n');
    }
    let aliases: Vec<String> = plan.aliases.iter().map(alias_text).collect();
    text.push_str(&aliases.join("\n"));
    let key_file = toml::Value::String(key_file.display().to_string());
    // Writing to a String cannot fail.
    let _ = write!(text, "{KEY}key_file = {key_file}\n{TAIL}");
    text
}

fn lane_text(lane: &Lane) -> String {
    let (row, variable) = lane.found;
    let (off, hint) = match lane.model {
        Some(_) => ("", "another model: see `tokrate targets`"),
        None => ("# ", "write the model that you use, and the lane into an alias"),
    };
    let model = lane.model.unwrap_or("MODEL");
    format!(
        "\n# {}: key from {variable}; {hint}\n{off}[gateway.lanes.{}]\n{off}target = \"{}/{model}\"\n\
         {off}key_env = \"{variable}\"\n",
        row.title, lane.name, row.name
    )
}

fn alias_text(alias: &Alias) -> String {
    let quoted: Vec<String> = alias.lanes.iter().map(|lane| format!("\"{lane}\"")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    let (note, mode) = match alias.models {
        Models::Different | Models::Merging if !alias.why.is_empty() => (String::new(), IN_ORDER),
        Models::Same(model) if alias.lanes.len() > 1 => {
            (format!("# {model} of {} providers: whichever is fastest now.\n", alias.lanes.len()), BY_SPEED)
        }
        Models::Same(_) => (String::new(), BY_SPEED),
        Models::Different => (DIFFERENT.to_owned(), IN_ORDER),
        Models::Merging => (MERGING.to_owned(), IN_ORDER),
    };
    format!("{}{note}[gateway.aliases.{}]\nlanes = [{}]\n{mode}", alias.why, alias.name, listed(&quoted))
}

const HEAD: &str = "\
# Settings of tokrate. `tokrate gateway --check` says what they come to; docs/gateway.md explains every key.

[gateway]
listen = \"127.0.0.1:8411\"     # for clients; elsewhere than on loopback only with [gateway.keys]
admin = \"127.0.0.1:8412\"      # page and metrics; \"off\" for none
log = \"tokrate-log.db\"        # throughput log; no prompt and no answer is in it
";

const SIMULATED: &str = "
# Two simulated providers, to try things: the environment has no key of a provider whose models are known.
[gateway.lanes.quick]
local = \"sim:prompt\"

[gateway.lanes.strong]
local = \"sim:swift\"

# What clients ask for as `model`.
[gateway.aliases.auto]
lanes = [\"quick\", \"strong\"]
objective = \"completion\"      # least expected time to the end; also cheapest, weighted, fixed, ...
mode = \"hedge\"                # off, hedge (another lane when one is slow), race, race=N
";

const MERGE_LANE: &str = "
# tokrate's own merge engine: merges edits in this process, without a model.
[gateway.lanes.merge]
local = \"apply\"
";

const BY_SPEED: &str = "\
objective = \"completion\"      # least expected time to the end; also cheapest, weighted, fixed, ...
mode = \"hedge\"                # off, hedge (another lane when one is slow), race, race=N
";

const IN_ORDER: &str = "\
objective = \"fixed\"           # in this order
mode = \"off\"
";

const DIFFERENT: &str = "\
# Different models: the first answers, the next only if it fails. Put them in your order.
";

const MERGING: &str = "\
# Edits of code: the merge engine, and a model for what it refuses, whose file is held against the engine's law (docs/agents.md).
";

const KEY: &str = "
# Every client shows a key: without one, any program of this machine could spend your money.
[gateway.keys.local]
";

const TAIL: &str = "
# [gateway.keys.team-a]         # another one, with limits
# key_env = \"TEAM_A_KEY\"
# requests_per_minute = 600
# usd_per_month = 100.0
";

/// What is written without any key, with one, and with several.
#[cfg(test)]
pub fn written() -> Vec<String> {
    let key = Path::new("/data/tokrate/gateway.key");
    let keys = [
        &[][..],
        &[("openai", "OPENAI_API_KEY")],
        &[
            ("openai", "OPENAI_API_KEY"),
            ("anthropic", "ANTHROPIC_API_KEY"),
            ("cerebras", "CEREBRAS_API_KEY"),
            ("groq", "GROQ_API_KEY"),
            ("morph", "MORPH_API_KEY"),
            ("azure", "AZURE_OPENAI_API_KEY"),
        ],
    ];
    let found = |(name, variable)| (tokrate_catalog::provider(name).expect("a row"), variable);
    keys.iter().map(|keys| settings(&plan::plan(&keys.iter().copied().map(found).collect::<Vec<_>>()), key)).collect()
}

/// What `--agents` writes without any key, and with several.
#[cfg(test)]
pub fn written_for_agents() -> Vec<String> {
    let key = Path::new("/data/tokrate/gateway.key");
    let found = |name: &&str| (tokrate_catalog::provider(name).expect("a row"), "A_KEY");
    let keys: [&[&str]; 3] = [&[], &["openai", "anthropic"], &["cerebras", "groq", "anthropic", "morph"]];
    keys.iter().map(|keys| settings(&roles::with_roles(&keys.iter().map(found).collect::<Vec<_>>()), key)).collect()
}

/// Not inlined: see `names.rs` of meter.
#[inline(never)]
fn listed(names: &[&str]) -> String {
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_agents_is_understood() {
        let texts = written_for_agents();
        for text in &texts {
            let read: Result<crate::config::file::File, _> = toml::from_str(text);
            assert!(read.is_ok(), "{read:?}\n{text}");
        }
        insta::assert_snapshot!("init_agents", texts.join("\n########\n"));
    }

    #[test]
    fn what_is_written_is_understood() {
        let texts = written();
        for text in &texts {
            let read: Result<crate::config::file::File, _> = toml::from_str(text);
            assert!(read.is_ok(), "{read:?}\n{text}");
        }
        assert!(MERGE_LANE.contains(&format!("[gateway.lanes.{}]", plan::MERGE)));
        insta::assert_snapshot!("init_simulated", texts[0]);
        insta::assert_snapshot!("init_openai", texts[1]);
        insta::assert_snapshot!("init_several_keys", texts[2]);
    }
}
