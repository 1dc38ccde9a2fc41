//! The settings in force, for the gateway's page: each with its value and where it is from, down to the line of the file.
//!
//! Invariant: secrets are marks, as `--check` shows them; what a second reading of the file leaves as it was is shown as it was.

use crate::config::gateway::{EffectiveValue, Resolved};
use tokrate_gateway::telemetry::Setting;

/// Settings that hold from the start on, whatever the file says later: a name, or a table with a dot behind it.
const FROM_THE_START: [&str; 13] = [
    "gateway.listen",
    "gateway.admin",
    "gateway.hosts",
    "gateway.origins",
    "gateway.workers",
    "gateway.log",
    "gateway.log_retention",
    "gateway.store",
    "gateway.limits.connections",
    "gateway.limits.connections_by_peer",
    "gateway.limits.bodies_bytes",
    "gateway.limits.answers_bytes",
    "gateway.otel.",
];

/// What holds after the start.
pub(super) fn of_start(resolved: &Resolved) -> Vec<Setting> {
    resolved.effective.iter().map(|value| setting(value, resolved)).collect()
}

/// What holds after the file was read again.
pub(super) fn of_reload(resolved: &Resolved, before: &[Setting]) -> Vec<Setting> {
    let mut settings = of_start(resolved);
    settings.retain(|setting| !holds_from_the_start(&setting.key));
    let kept = before.iter().filter(|setting| holds_from_the_start(&setting.key));
    settings.extend(kept.map(|kept| {
        let now: Vec<&EffectiveValue> = resolved.effective.iter().filter(|value| value.key == kept.key).collect();
        let is_same = now.iter().any(|value| value.value == kept.value);
        let note = "; changed since, and in force when it is started anew";
        let origin =
            if is_same || kept.origin.ends_with(note) { kept.origin.clone() } else { format!("{}{note}", kept.origin) };
        Setting { origin, ..kept.clone() }
    }));
    settings
}

fn holds_from_the_start(key: &str) -> bool {
    FROM_THE_START.iter().any(|known| *known == key || (known.ends_with('.') && key.starts_with(known)))
}

fn setting(value: &EffectiveValue, resolved: &Resolved) -> Setting {
    let is_of_file = value.origin == resolved.file.display().to_string();
    let line = is_of_file.then(|| line_of(&resolved.text, &value.key)).flatten();
    let origin = line.map_or_else(|| value.origin.clone(), |line| format!("{}, line {line}", value.origin));
    Setting { key: value.key.clone(), value: value.value.clone(), origin }
}

/// The line on which a key stands in a settings file, or its table begins. `None` where it is written in a way that is not looked for.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut table = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = plain(head);
            if table == key {
                return Some(number);
            }
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with('#')) else { continue };
        let name = plain(name);
        let is_within = value.trim_start().starts_with('{') && key.starts_with(&format!("{table}.{name}."));
        // Of an inline table all keys stand on its line, and those that it leaves out are not of the file.
        if is_within {
            return Some(number);
        }
        // A secret stands under the name of its source: `admin_key_env` is `admin_key`.
        let sources = ["", "_env", "_file", "_cmd"];
        if sources.iter().any(|source| format!("{table}.{name}") == format!("{key}{source}")) {
            return Some(number);
        }
    }
    None
}

/// A name or a dotted one, without spaces and quotation marks.
fn plain(name: &str) -> String {
    name.chars().filter(|character| !matches!(character, ' ' | '\t' | '"' | '\'')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# listen = \"no\"\n[gateway]\nlisten = \"127.0.0.1:1\"\nadmin_key_env = \"K\"\n\n[gateway.limits]\ntotal = \"9s\"\n\
                        [gateway.lanes.\"a b\"]\nurl = \"http://x\"\n[gateway.lanes.own]\n[gateway]\nbreaker = { failures = 3 }\n";

    #[test]
    fn a_setting_is_found_on_its_line_or_that_of_its_table() {
        let keys = ["listen", "admin_key", "limits.total", "lanes.own", "breaker.failures", "drain"];
        let lines = keys.map(|key| line_of(TEXT, &format!("gateway.{key}")));
        assert_eq!(lines, [Some(3), Some(4), Some(7), Some(10), Some(12), None]);
    }

    #[test]
    fn what_a_second_reading_leaves_as_it_was_is_shown_as_it_was() {
        let value = |key: &str, value: &str| EffectiveValue {
            key: format!("gateway.{key}"),
            value: value.to_owned(),
            origin: "tokrate.toml".to_owned(),
        };
        let resolved = |values: Vec<EffectiveValue>| Resolved {
            config: tokrate_gateway::Config::default(),
            locals: Vec::new(),
            is_trial: false,
            effective: values,
            file: "tokrate.toml".into(),
            text: TEXT.to_owned(),
        };
        let before = of_start(&resolved(vec![value("listen", "127.0.0.1:1"), value("limits.total", "9.00 s")]));
        assert_eq!(before[0].origin, "tokrate.toml, line 3");
        let after =
            of_reload(&resolved(vec![value("listen", "127.0.0.1:2"), value("limits.total", "5.00 s")]), &before);
        let shown: Vec<(&str, &str)> = after.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
        assert_eq!(shown, [("gateway.limits.total", "5.00 s"), ("gateway.listen", "127.0.0.1:1")]);
        assert!(after[1].origin.contains("started anew"), "{}", after[1].origin);
        assert_eq!(of_reload(&resolved(vec![value("listen", "127.0.0.1:2")]), &after)[0].origin, after[1].origin);
    }
}
