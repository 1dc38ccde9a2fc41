//! `tokrate monitor init`: writes [monitor] for the providers whose keys the environment holds.

use crate::commands::Verdict;
use crate::commands::init::trust_own;
use crate::config::file::File;
use crate::config::monitor::variable;
use crate::flags::monitor::InitFlags;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use tokrate_catalog::{Kind, PRICES, PROVIDERS};
use tokrate_targets::key_variable;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// Writes the table, at the end of a file that has none.
pub fn run(flags: &InitFlags) -> Result<Verdict> {
    let path = &flags.file;
    let before = match path.exists() {
        true => reading::text_of(path, MAX_SETTINGS_BYTES).with_context(|| format!("read {}", path.display()))?,
        false => String::new(),
    };
    let has_one = File::parse(path, &before)?.monitor.is_some();
    ensure!(!has_one, "write [monitor] to {}: it has one already; name another file with --file", path.display());
    let found = PROVIDERS.iter().filter(|row| row.kind == Kind::Hosted && key_variable(row, &variable).is_some());
    let priced = found.filter_map(|row| {
        let model = PRICES.iter().find(|price| price.provider == row.name)?.model;
        Some(format!("{}/{model}", row.name))
    });
    let endpoints: Vec<String> = priced.collect();
    let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
    let text = format!("{before}{gap}{}", settings(&endpoints));
    std::fs::write(path, &text).with_context(|| format!("write {}", path.display()))?;
    match endpoints.is_empty() {
        true => anstream::println!(
            "wrote [monitor] to {} for a simulated endpoint: no key of a known provider was found\nstart it: tokrate sim",
            path.display()
        ),
        false => anstream::println!("wrote [monitor] to {} for {}", path.display(), endpoints.join(", ")),
    }
    trust_own(path, &text);
    anstream::println!("next: tokrate monitor --check, then tokrate monitor");
    Ok(Verdict::Good)
}

/// The table for these endpoints; without any, for the engine of `tokrate sim`.
fn settings(endpoints: &[String]) -> String {
    let mut text =
        String::from("# `tokrate monitor --check` says what it comes to; docs/monitor.md has more.\n[monitor]\n");
    let names: Vec<String> = endpoints.iter().map(|name| format!("\"{name}\"")).collect();
    let names = if names.is_empty() { "\"sim\"".to_owned() } else { names.join(", ") };
    // Writing to a String cannot fail.
    let _ =
        writeln!(text, "endpoints = [{names}]        # targets as in `tokrate bench`; `tokrate targets` lists them");
    text.push_str(TAIL);
    if endpoints.is_empty() {
        text.push_str(SIMULATED);
    }
    text
}

const TAIL: &str = "\
workloads = [\"1k-1k\"]      # also 100-300, 10k-1.5k, 100k-2k, burst-10, decode, prefill, agent-step, canary-echo, canary-tool, artificial-analysis
slots = 8                  # cycles a day, each at a random time
usd_per_month = 10.0       # probed less often where that does not suffice
place = \"here\"             # where this machine stands, such as \"fra\"
# tokens_per_day = 500000
# database = \"tokrate-monitor.db\"
# retention = \"9600h\"
";

const SIMULATED: &str = "
[monitor.targets.sim]
url = \"http://127.0.0.1:8400/v1\"
model = \"sim\"
price = { input = 0.0, output = 0.0 }
";

/// What is written with keys, and without any.
#[cfg(test)]
pub fn written() -> Vec<String> {
    vec![settings(&[]), settings(&["openai/gpt-5".to_owned()])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_understood() {
        for text in written() {
            let file = File::parse(std::path::Path::new("t.toml"), &text).expect("TOML");
            assert!(file.monitor.is_some(), "{text}");
        }
        insta::assert_snapshot!("monitor_init", written().join("\n---\n"));
    }
}
