//! `tokrate init`: writes a commented settings file for the providers whose keys the environment holds, and a key for clients.

mod key;

use super::Verdict;
use crate::config::environment;
use crate::flags::gateway::InitFlags;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use tokrate_catalog::{Kind, PRICES, PROVIDERS, Provider};
use tokrate_targets::key_variable;
use tokrate_targets::trust::{self, DEFAULT_NAME};

/// Writes the file; over another only with `--force`.
pub fn run(flags: &InitFlags) -> Result<Verdict> {
    let path = &flags.file;
    let found: Vec<(&Provider, &str)> = PROVIDERS
        .iter()
        .filter(|row| row.kind == Kind::Hosted)
        .filter_map(|row| Some((row, key_variable(row, &environment::variable)?)))
        .collect();
    let exists = path.exists();
    ensure!(
        !exists || flags.force,
        "write {}: it is there already; add --force to replace it, or name another with --file",
        path.display()
    );
    let key = key::make(path)?;
    let text = settings(&found, &key.path);
    std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    let named: Vec<&str> = found.iter().map(|(row, _)| row.title).collect();
    match named.is_empty() {
        true => {
            anstream::println!("wrote {} with simulated lanes: no key of a known provider was found", path.display())
        }
        false => anstream::println!("wrote {} for {}", path.display(), listed(&named)),
    }
    let made = if key.is_new { "made a key for clients" } else { "kept the key for clients that was there" };
    let file = key.path.display();
    anstream::println!("{made}: {file}\nclients show it as their API key: export OPENAI_API_KEY=\"$(cat '{file}')\"");
    trust_own(path, &text);
    anstream::println!("next: tokrate gateway --check, then tokrate gateway");
    Ok(Verdict::Good)
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
fn settings(found: &[(&Provider, &str)], key_file: &Path) -> String {
    let mut text = String::from(HEAD);
    let mut lanes = Vec::new();
    for (row, variable) in found {
        let model = PRICES.iter().find(|price| price.provider == row.name).map(|price| price.model);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n# {}: key from {variable}", row.title);
        let _ = match model {
            Some(_) => writeln!(text, "; another model: see `tokrate targets`"),
            None => writeln!(text, "; write the model that you use"),
        };
        let off = if model.is_some() { "" } else { "# " };
        let _ = writeln!(text, "{off}[gateway.lanes.{}]", row.name);
        let _ = writeln!(text, "{off}target = \"{}/{}\"", row.name, model.unwrap_or("MODEL"));
        let _ = writeln!(text, "{off}key_env = \"{variable}\"");
        lanes.extend(model.map(|_| row.name));
    }
    if lanes.is_empty() {
        text.push_str(SIMULATED);
        lanes.extend(["quick", "strong"]);
    }
    let quoted: Vec<String> = lanes.iter().map(|lane| format!("\"{lane}\"")).collect();
    let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
    let key_file = toml::Value::String(key_file.display().to_string());
    let _ = write!(text, "{ALIAS}lanes = [{}]\n{MODE}{KEY}key_file = {key_file}\n{TAIL}", listed(&quoted));
    text
}

const HEAD: &str = "\
# Settings of tokrate. `tokrate gateway --check` says what they come to; docs/gateway.md explains every key.

[gateway]
listen = \"127.0.0.1:8411\"     # for clients; elsewhere than on loopback only with [gateway.keys]
admin = \"127.0.0.1:8412\"      # page and metrics; \"off\" for none
log = \"tokrate-log.db\"        # throughput log; no prompt and no answer is in it
";

const SIMULATED: &str = "
# No key of a known provider was found in the environment: two simulated providers, to try things.
[gateway.lanes.quick]
local = \"sim:prompt\"

[gateway.lanes.strong]
local = \"sim:swift\"
";

const ALIAS: &str = "
# What clients ask for as `model`.
[gateway.aliases.auto]
";

const MODE: &str = "\
objective = \"completion\"      # least expected time to the end; also cheapest, weighted, fixed, ...
mode = \"hedge\"                # off, hedge (another lane when one is slow), race, race=N
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

/// What is written without any key, and with one.
#[cfg(test)]
pub fn written() -> Vec<String> {
    let openai = tokrate_catalog::provider("openai").expect("a row");
    let key = Path::new("/data/tokrate/gateway.key");
    vec![settings(&[], key), settings(&[(openai, "OPENAI_API_KEY")], key)]
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
    fn what_is_written_is_understood() {
        let texts = written();
        for text in &texts {
            let read: Result<crate::config::file::File, _> = toml::from_str(text);
            assert!(read.is_ok(), "{read:?}\n{text}");
        }
        insta::assert_snapshot!("init_simulated", texts[0]);
        insta::assert_snapshot!("init_openai", texts[1]);
    }
}
