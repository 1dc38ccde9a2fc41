//! The page for people: a table for each table of the file.
//!
//! Invariant: every key of the schema stands on the page once, under the table that it belongs to.

use super::{IN_WORDS, properties};
use serde_json::Value;
use std::fmt::Write;
use tokrate_targets::trust::HARMLESS;

const HEAD: &str = "\
# Settings

<!-- Made from the code by `cargo xtask docs`. What is changed here by hand is lost. -->

Everything that `tokrate.toml` can say. It is read from the folder that a command is started in, or from where `--config` points;
[gateway.md](gateway.md) says what the gateway does with it, `tokrate gateway --check` what a file comes to and where each value is
from, `tokrate init` writes one to begin with. Flags win over environment variables, those over the file, and that over what is said
here to hold by default. A key that is not listed here is refused, with its line.

**Trust.** A `tokrate.toml` that merely lies in the folder may be a stranger's: in a cloned repository it would say where your keys
are sent and which commands are run. Settings that name addresses, keys, commands or files count only after `tokrate trust` has
shown them and recorded that you trust this text at this place (under `$XDG_DATA_HOME/tokrate/trusted`, or
`~/.local/share/tokrate/trusted`). A file that has changed has to be trusted again; until then every command that reads it ends
with exit code 2 and names the lines, and a running gateway keeps its old settings. `--config tokrate.toml` takes the file without
that, as you have named it. What `tokrate init` writes is trusted. `tokrate trust --list` and `--remove` show and take back. The
keys that need no trust stand [at the end](#what-needs-no-trust).

- *time*: a number with `us`, `ms`, `s`, `m` or `h` (`\"500ms\"`, `\"30s\"`); seconds without a unit
- *address*: an address with its port, such as `\"127.0.0.1:8411\"`
- *file*: a path; one that does not begin at the root is looked for from the folder that the command is started in
- **needed** in place of a default: the table is refused without it

Editors that know TOML schemas (Even Better TOML, taplo) check the file while it is written if its first line names
[tokrate.schema.json](tokrate.schema.json): `#:schema PATH/tokrate.schema.json`.
";

/// The page.
pub fn page(schema: &Value) -> String {
    let mut text = HEAD.to_owned();
    for (key, table) in properties(schema).into_iter().flatten() {
        section(&mut text, key, table, 2);
    }
    text.push_str("\n## What needs no trust\n\nA file with none but these counts in any folder.\n\n");
    for key in HARMLESS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- `{}`", key.replace('*', "NAME"));
    }
    text
}

/// A table of the file, then the tables in it.
fn section(text: &mut String, name: &str, table: &Value, depth: usize) {
    let (name, keys) = match properties(table) {
        Some(keys) => (name.to_owned(), keys),
        None => match properties(&table["additionalProperties"]) {
            Some(keys) => (format!("{name}.NAME"), keys),
            None => return,
        },
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n{} `[{name}]`\n\n{}.\n", "#".repeat(depth), description(table));
    let needed = |key: &str| {
        let holder = if table["required"].is_array() { table } else { &table["additionalProperties"] };
        holder["required"].as_array().is_some_and(|all| all.iter().any(|other| other == key))
    };
    let _ = writeln!(text, "| key | value | default | meaning |\n|---|---|---|---|");
    for (key, setting) in keys.iter().filter(|(_, setting)| !is_section(setting)) {
        let default = if needed(key) { "**needed**".to_owned() } else { default(setting) };
        let _ = writeln!(text, "| `{key}` | {} | {default} | {} |", cell(&form(setting)), cell(description(setting)));
    }
    for (key, setting) in keys.iter().filter(|(_, setting)| is_section(setting)) {
        section(text, &format!("{name}.{key}"), setting, (depth + 1).min(4));
    }
}

/// Whether it is a table with keys of its own.
fn is_section(setting: &Value) -> bool {
    properties(setting).or(properties(&setting["additionalProperties"])).is_some()
}

fn description(setting: &Value) -> &str {
    setting["description"].as_str().unwrap_or_default().trim_end_matches('.')
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn default(setting: &Value) -> String {
    match (&setting[IN_WORDS], &setting["default"]) {
        (Value::String(words), _) => cell(words),
        (_, Value::Null) => String::new(),
        (_, Value::String(value)) => format!("`\"{value}\"`"),
        (_, value) => format!("`{value}`"),
    }
}

/// How a value is written.
fn form(setting: &Value) -> String {
    if let Some(title) = setting["title"].as_str() {
        return title.to_owned();
    }
    if let Some(names) = setting["enum"].as_array() {
        let names: Vec<String> = names.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
        return names.join(", ");
    }
    match setting["type"].as_str() {
        Some("array") => format!("list of {}", form(&setting["items"])),
        Some("object") => format!("table of {}", form(&setting["additionalProperties"])),
        Some("boolean") => "`true` or `false`".to_owned(),
        Some("integer") => "whole number".to_owned(),
        Some("number") => "number".to_owned(),
        _ => "text".to_owned(),
    }
}
