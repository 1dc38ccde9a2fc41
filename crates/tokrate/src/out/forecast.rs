//! What a run will ask for, said before it asks: a line, and the table of `--dry-run`.
//!
//! It refuses to reckon. Invariant: what is not known is said to be so.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, presets};
use tokrate_bench::Config;
use tokrate_bench::forecast::{Forecast, Level};
use tokrate_charts::format;

/// The plan of one target in a line.
pub fn line(forecast: &Forecast) -> String {
    let total = forecast.total();
    let levels = match (forecast.levels.len(), forecast.additional) {
        (0, further) => further.to_owned(),
        (1, "") => "1 level".to_owned(),
        (n, "") => format!("{n} levels"),
        (n, further) => format!("{n} levels {further}"),
    };
    let mut parts = vec![levels];
    parts.extend(total.requests.map(|n| format!("{} requests", format::count(n.ceil() as u64))));
    parts.extend(total.input_tokens.zip(total.output_tokens).map(|(input, output)| {
        format!(
            "{} tokens in and up to {} out",
            format::count(input.ceil() as u64),
            format::count(output.ceil() as u64)
        )
    }));
    parts.extend(total.usd.map(|usd| format!("up to ${usd:.4}")));
    parts.extend(total.seconds.map(|seconds| format!("about {}", time(seconds))));
    parts.join(", ")
}

/// What every target will be asked for, level by level.
pub fn text(names: &[String], configs: &[Config]) -> String {
    let mut text = String::new();
    for (name, config) in names.iter().zip(configs) {
        let forecast = Forecast::of(config, None);
        text += &format!("{name} at {}\n", place(config));
        if !forecast.levels.is_empty() {
            text += &format!("{}\n", table(&forecast));
        }
        if !forecast.additional.is_empty() {
            text += &format!("{}\n", forecast.additional);
        }
        if config.probe && config.target.remote().is_some() {
            text += "One request of 16 tokens or less goes before them (--no-probe leaves it out).\n";
        }
        text += "\n";
    }
    text + "Nothing was sent. Output tokens and dollars are the most that can be used; times that hang on the server's speed are \
            not known before the first answer (-).\n"
}

fn place(config: &Config) -> String {
    config.target.remote().map_or_else(|| "an embedded engine".to_owned(), |remote| remote.base.to_string())
}

fn table(forecast: &Forecast) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()));
    table.set_header(["level", "requests", "tokens in", "tokens out", "USD", "time"]);
    let total = (forecast.levels.len() > 1 && forecast.additional.is_empty()).then(|| forecast.total());
    for level in forecast.levels.iter().chain(&total) {
        let [name, numbers @ ..] = row(level);
        let numbers = numbers.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(name)).chain(numbers));
    }
    table
}

fn row(level: &Level) -> [String; 6] {
    let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let count = |n: Option<f64>| known(n.map(|n| format::count(n.ceil() as u64)));
    [
        level.name.clone(),
        count(level.requests),
        count(level.input_tokens),
        count(level.output_tokens),
        known(level.usd.map(|usd| format!("{usd:.4}"))),
        known(level.seconds.map(time)),
    ]
}

/// A time in the largest unit that leaves two digits.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{:.0} s", s.ceil()),
        s if s < 7_200.0 => format!("{:.0} min", (s / 60.0).ceil()),
        s => format!("{:.1} h", s / 3_600.0),
    }
}
