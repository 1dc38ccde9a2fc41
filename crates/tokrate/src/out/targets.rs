//! What `tokrate targets` prints: a table of presets, and the engines of this machine with the command that measures each.
//!
//! It does not show a key. Invariant: names that a server gave are shown without control characters, and quoted where a
//! shell would take them apart.

use super::paragraph::wrapped;
use comfy_table::{LineStyle, Table, presets};
use serde_json::{Value, json};
use std::fmt::Write;
use tokrate_catalog::{Kind, PRICES, Provider};
use tokrate_core::{Money, shell_word};

/// Models of one server that are shown; the others are counted.
const MODELS_SHOWN: usize = 5;
/// Width of a list of dialects, which leaves both columns within 80.
const MAX_DIALECTS_WIDTH: usize = 48;

/// Something that answers at a port.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The port of 127.0.0.1.
    pub port: u16,
    /// What it turned out to be.
    pub what: Answering,
}

/// What answers.
#[derive(Clone, PartialEq, Debug)]
pub enum Answering {
    /// An engine of the catalog, and the models it serves.
    Engine(&'static Provider, Vec<String>),
    /// A server of the OpenAI dialect that is none of the engines.
    OpenAiLike(Vec<String>),
    /// Something that wants a key before it tells what it is.
    Locked,
    /// Something else.
    Unknown,
    /// Something that takes connections and says nothing.
    Silent,
}

/// A row of the catalog, and which of its keys are set.
pub struct Listed {
    /// The row.
    pub row: &'static Provider,
    /// Variables that may hold its key, and whether each is set.
    pub keys: Vec<(&'static str, bool)>,
}

/// For people.
pub fn text(listed: &[Listed], ports: &[u16], found: &[Found]) -> String {
    let mut text = String::new();
    for (kind, title) in [(Kind::Hosted, "Providers"), (Kind::Local, "Engines of your own")] {
        let _ = writeln!(text, "{title}\n{}\n", table(listed, kind));
    }
    let _ = writeln!(
        text,
        "Measure one with `tokrate bench NAME/MODEL`; its first dialect is spoken unless --dialect says otherwise.\n"
    );
    if ports.is_empty() {
        return text;
    }
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    if found.is_empty() {
        let _ = writeln!(text, "Nothing answers on this machine (127.0.0.1, ports {list}).");
        return text;
    }
    let _ = writeln!(text, "On this machine (127.0.0.1, ports {list}):");
    for found in found {
        let _ = writeln!(text, "  {}", described(found));
        for command in commands(found).iter().take(MODELS_SHOWN) {
            let _ = writeln!(text, "      {command}");
        }
    }
    text
}

fn table(listed: &[Listed], kind: Kind) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(["name, key", "base, dialects"]);
    for Listed { row, keys } in listed.iter().filter(|listed| listed.row.kind == kind) {
        let base = row.endpoints.first().map_or("", |endpoint| endpoint.base);
        let left = [row.name.to_owned(), row.title.to_owned()].into_iter().chain(keys.iter().map(variable));
        let right = std::iter::once(base.to_owned()).chain(wrapped(&dialects(row), MAX_DIALECTS_WIDTH));
        // An empty line parts it from the next row.
        let cell = |lines: Vec<String>| lines.join("\n") + "\n ";
        table.add_row([cell(left.collect()), cell(right.collect())]);
    }
    table.to_string()
}

fn variable((name, is_set): &(&'static str, bool)) -> String {
    format!("{name}{}", if *is_set { " (set)" } else { "" })
}

#[inline(never)]
fn dialects(row: &Provider) -> String {
    row.endpoints.iter().map(|endpoint| endpoint.dialect).collect::<Vec<_>>().join(", ")
}

fn described(found: &Found) -> String {
    let port = found.port;
    match &found.what {
        Answering::Engine(row, models) => format!("{port}: {}{}", row.title, listing(models)),
        Answering::OpenAiLike(models) => {
            format!("{port}: a server of the OpenAI dialect that is none of the engines above{}", listing(models))
        }
        Answering::Locked => format!("{port}: something that wants a key before it says what it is"),
        Answering::Unknown => format!("{port}: something that is no engine known here"),
        Answering::Silent => format!("{port}: something that takes connections and does not answer"),
    }
}

fn listing(models: &[String]) -> String {
    match models.len() {
        0 => ", which lists no model".to_owned(),
        1 => String::new(),
        n if n > MODELS_SHOWN => format!(", {n} models; the first {MODELS_SHOWN}:"),
        n => format!(", {n} models:"),
    }
}

/// A command for each model that was found.
fn commands(found: &Found) -> Vec<String> {
    let port = found.port;
    match &found.what {
        Answering::Engine(row, models) => {
            let usual = row.usual_ports.first() == Some(&port);
            let place = if usual { String::new() } else { format!("@127.0.0.1:{port}") };
            let name = |model| shell_word(&format!("{}{place}/{model}", row.name));
            models.iter().map(|model| format!("tokrate bench {}", name(model))).collect()
        }
        Answering::OpenAiLike(models) => {
            let command =
                |model| format!("tokrate bench --url http://127.0.0.1:{port}/v1 --model {}", shell_word(model));
            models.iter().map(|model| command(model)).collect()
        }
        Answering::Locked | Answering::Unknown | Answering::Silent => Vec::new(),
    }
}

/// For programs.
pub fn json(listed: &[Listed], ports: &[u16], found: &[Found]) -> serde_json::Result<String> {
    let value = json!({
        "schema": "tokrate.targets.v1",
        "providers": listed.iter().map(provider).collect::<Vec<_>>(),
        "searched": { "host": "127.0.0.1", "ports": ports },
        "found": found.iter().map(found_row).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&value).map(|text| text + "\n")
}

fn provider(listed: &Listed) -> Value {
    let row = listed.row;
    let key = |(name, set): &(&str, bool)| json!({ "variable": name, "set": set });
    let price = |listed: &&tokrate_catalog::ListedPrice| {
        json!({
            "model": listed.model,
            "input_usd_per_million": listed.price.input.as_usd(),
            "output_usd_per_million": listed.price.output.as_usd(),
            "cached_input_usd_per_million": listed.price.cached_input.map(Money::as_usd),
            "source": listed.source,
            "date": listed.date,
            "notes": listed.notes,
        })
    };
    json!({
        "name": row.name,
        "title": row.title,
        "kind": if row.kind == Kind::Local { "local" } else { "hosted" },
        "endpoints": row.endpoints.iter().map(|endpoint| json!({ "dialect": endpoint.dialect, "base": endpoint.base })).collect::<Vec<_>>(),
        "keys": listed.keys.iter().map(key).collect::<Vec<_>>(),
        "usual_ports": row.usual_ports,
        "prices": PRICES.iter().filter(|price| price.provider == row.name).map(|row| price(&row)).collect::<Vec<_>>(),
        "source": row.source,
        "date": row.date,
        "notes": row.notes,
    })
}

fn found_row(found: &Found) -> Value {
    let (what, engine, models): (&str, Option<&str>, &[String]) = match &found.what {
        Answering::Engine(row, models) => ("engine", Some(row.name), models),
        Answering::OpenAiLike(models) => ("openai-like", None, models),
        Answering::Locked => ("locked", None, &[]),
        Answering::Unknown => ("unknown", None, &[]),
        Answering::Silent => ("silent", None, &[]),
    };
    json!({ "port": found.port, "what": what, "engine": engine, "models": models, "commands": commands(found) })
}
