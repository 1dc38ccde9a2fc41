//! Renders the rows as the Markdown tables of docs/targets.md.
//!
//! `examples/presets.rs` rewrites the page, and a test compares it. Invariant: every row is in a table, in the order of the
//! file.

use crate::{Kind, PRICES, PROVIDERS, Provider};

/// Marker before the tables.
pub const BEGIN: &str =
    "<!-- presets: begin; written by `cargo run -p tokrate-catalog --example presets -- docs/targets.md` -->\n";
/// Marker after the tables.
pub const END: &str = "<!-- presets: end -->\n";

/// The page with updated tables; `None` without the markers.
pub fn with_presets(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n{END}{after}", presets()))
}

/// Both tables.
fn presets() -> String {
    let mut text =
        String::from("| name | provider | dialects (the first is the default) | base | key | prices | checked |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for row in PROVIDERS.iter().filter(|row| row.kind == Kind::Hosted) {
        let prices = PRICES.iter().filter(|price| price.provider == row.name).count();
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | [{}]({}) |\n",
            row.name,
            row.title,
            dialects(row),
            base(row),
            codes(row.key_env.iter().map(|name| (*name).to_owned())),
            match prices {
                0 => "-".to_owned(),
                1 => "1 model".to_owned(),
                n => format!("{n} models"),
            },
            row.date,
            row.source,
        ));
    }
    text.push_str("\n| name | engine | dialects (the first is the default) | base | ports | key, if one is set | metrics | checked |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for row in PROVIDERS.iter().filter(|row| row.kind == Kind::Local) {
        let ports: Vec<String> = row.usual_ports.iter().map(u16::to_string).collect();
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | [{}]({}) |\n",
            row.name,
            row.title,
            dialects(row),
            base(row),
            ports.join(", "),
            codes(row.key_env.iter().map(|name| (*name).to_owned())),
            row.metrics.map_or_else(|| "-".to_owned(), |metrics| format!("`{}`", metrics.path)),
            row.date,
            row.source,
        ));
    }
    let notes: Vec<&Provider> = PROVIDERS.iter().filter(|row| !row.notes.is_empty()).collect();
    text.push('\n');
    for row in notes {
        text.push_str(&format!("- **{}**: {}\n", row.title, row.notes));
    }
    text
}

fn dialects(row: &Provider) -> String {
    codes(row.endpoints.iter().map(|endpoint| endpoint.dialect.to_owned()))
}

fn base(row: &Provider) -> String {
    codes(row.endpoints.first().map(|endpoint| endpoint.base.to_owned()).into_iter())
}

#[inline(never)]
fn codes(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}
