//! The reference of `tokrate.toml`, made from the code that reads it: `docs/tokrate.schema.json` for editors and
//! `docs/configuration.md` for people. It is built with the tests only, which compare both with what lies in `docs`.
//!
//! Invariant: what is read has a meaning here, or a test fails.

pub mod forms;
mod page;

use crate::config::{gateway, quantity};
use crate::flags;
use clap::Args;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use tokrate_core::Span;

/// The schema of the whole file, in the draft that editors know, without references.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<crate::config::file::File>().to_value();
    tidy(&mut schema);
    schema["title"] = "tokrate.toml".into();
    add_flags(&mut schema["properties"]["bench"]);
    add_defaults(&mut schema);
    split_defaults(&mut schema);
    schema
}

/// Drops what TOML does not have (null) and what carries no information (formats of integers, empty defaults).
fn tidy(value: &mut Value) {
    let Value::Object(object) = value else {
        if let Value::Array(items) = value {
            items.iter_mut().for_each(tidy);
        }
        return;
    };
    object.remove("format");
    let says_nothing =
        |default: &Value| default.is_null() || default.is_object() || *default == Value::Array(Vec::new());
    if object.get("default").is_some_and(says_nothing) {
        object.remove("default");
    }
    for choice in ["anyOf", "allOf"] {
        let Some(Value::Array(choices)) = object.get_mut(choice) else { continue };
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = &mut choices[..] {
            let only = std::mem::take(only);
            object.remove(choice);
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            object["type"] = only.clone();
        }
    }
    if let Some(Value::Array(names)) = object.get_mut("enum") {
        names.retain(|name| !name.is_null());
    }
    object.values_mut().for_each(tidy);
}

/// Gives the keys of `[bench]` what the flags of the same names say.
fn add_flags(bench: &mut Value) {
    let command = flags::bench::Flags::augment_args(clap::Command::new("bench"));
    let Some(keys) = bench["properties"].as_object_mut() else { return };
    for (key, setting) in keys {
        let named =
            |flag: &&clap::Arg| *flag.get_id() == key.as_str() || flag.get_long() == Some(&key.replace('_', "-"));
        let Some(flag) = command.get_arguments().find(named) else { continue };
        if let Some(help) = flag.get_help() {
            let meaning = help.to_string().replace("; repeatable", "");
            setting["description"] = meaning.split_whitespace().collect::<Vec<_>>().join(" ").into();
        }
        let names: Vec<String> = flag.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let is_text = setting["type"] == "string";
        if is_text && !names.is_empty() {
            setting["enum"] = names.into();
        }
        match flag.get_value_names().and_then(|names| names.first()).map(clap::builder::Str::as_str) {
            Some("TIME") if is_text => {
                let form = schemars::schema_for!(forms::Time).to_value();
                setting["pattern"] = form["pattern"].clone();
                setting["title"] = form["title"].clone();
            }
            Some("FILE" | "PATH") if is_text => setting["title"] = "file".into(),
            _ => {}
        }
    }
}

/// What an empty file comes to.
fn add_defaults(schema: &mut Value) {
    for shown in gateway::defaults() {
        let mut place = &mut *schema;
        for key in shown.key.split('.') {
            place = &mut place["properties"][key];
        }
        place["default"] = match place["type"].as_str() {
            Some("integer") => shown.value.parse::<u64>().expect("a whole number is shown as one").into(),
            _ if place["title"] == "time" => {
                let span = quantity::span(&shown.value).expect("times are shown as they are read");
                written(span).into()
            }
            _ => shown.value.into(),
        };
    }
}

/// A span as it is typed, in the largest unit that fits.
fn written(span: Span) -> String {
    let milliseconds = span.as_nanos() / 1_000_000;
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fits = units.iter().find(|(length, _)| milliseconds.is_multiple_of(*length));
    fits.map(|(length, unit)| format!("{}{unit}", milliseconds / length)).expect("every number is a multiple of one")
}

/// A meaning can end with `[default: …]`, in words: they stand in place of a value.
fn split_defaults(value: &mut Value) {
    let Value::Object(object) = value else { return };
    if let Some((meaning, default)) = object.get("description").and_then(Value::as_str).and_then(split_default) {
        object.remove("default");
        object.insert("description".to_owned(), meaning.into());
        object.insert(IN_WORDS.to_owned(), default.into());
    }
    object.values_mut().for_each(split_defaults);
}

/// The key of a default that is no value, such as "one a core".
const IN_WORDS: &str = "x-default";

fn split_default(text: &str) -> Option<(String, String)> {
    let (meaning, default) = text.rsplit_once(" [default: ")?;
    Some((meaning.to_owned(), default.strip_suffix(']')?.to_owned()))
}

/// The keys of a table of the schema.
fn properties(table: &Value) -> Option<&Map<String, Value>> {
    table["properties"].as_object()
}

/// The keys of a file that the schema does not know, by their places.
pub fn unknown(schema: &Value, file: &toml::Table) -> Vec<String> {
    let mut found = Vec::new();
    for (key, value) in file {
        let known = properties(schema).and_then(|keys| keys.get(key)).unwrap_or(&schema["additionalProperties"]);
        match value {
            _ if !known.is_object() => found.push(key.clone()),
            toml::Value::Table(table) => {
                found.extend(unknown(known, table).into_iter().map(|inner| format!("{key}.{inner}")));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
