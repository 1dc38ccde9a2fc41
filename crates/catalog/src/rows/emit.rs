//! Turns checked rows into Rust source, to be included where the types of the crate are in scope.
//!
//! Invariant: equal rows give equal source.

use super::{EndpointRow, PriceFile, PriceRow, ProviderFile, ProviderRow};
use std::fmt::Write;
use toml::Spanned;

pub(super) fn source(providers: &ProviderFile, prices: &PriceFile) -> String {
    let mut out = String::new();
    out.push_str("pub static PROVIDERS: &[Provider] = &[\n");
    for row in &providers.provider {
        provider(&mut out, row.get_ref());
    }
    out.push_str("];\n\npub static PRICES: &[ListedPrice] = &[\n");
    for row in &prices.price {
        price(&mut out, row.get_ref());
    }
    out.push_str("];\n");
    out
}

fn provider(out: &mut String, row: &ProviderRow) {
    let kind = if row.kind.get_ref() == "local" { "Local" } else { "Hosted" };
    let keys: Vec<&str> = row.key_env.iter().map(|name| name.get_ref().as_str()).collect();
    let metrics = row.metrics.as_ref().map_or_else(
        || "None".to_owned(),
        |metrics| {
            format!("Some(Metrics {{ family: {:?}, path: {:?} }})", metrics.family.get_ref(), metrics.path.get_ref())
        },
    );
    line(out, format_args!("    Provider {{"));
    line(
        out,
        format_args!("        name: {:?}, title: {:?}, kind: Kind::{kind},", row.name.get_ref(), row.title.get_ref()),
    );
    line(out, format_args!("        key_env: &{keys:?}, usual_ports: &{:?}, metrics: {metrics},", row.usual_ports));
    line(out, format_args!("        source: {:?}, date: {:?},", row.source.get_ref(), row.date.get_ref()));
    line(out, format_args!("        notes: {:?},", row.notes.as_deref().unwrap_or_default()));
    line(out, format_args!("        variables: &["));
    for variable in &row.variables {
        let (name, meaning) = (variable.name.get_ref(), variable.meaning.get_ref());
        let also: Vec<&String> = variable.also.iter().map(|name| name.get_ref()).collect();
        let default = variable.default.as_deref().unwrap_or_default();
        line(
            out,
            format_args!(
                "            Variable {{ name: {name:?}, meaning: {meaning:?}, also: &{also:?}, default: {default:?} }},"
            ),
        );
    }
    line(out, format_args!("        ],\n        probes: &["));
    for probe in &row.probes {
        let path = probe.path.get_ref();
        let at = match (&probe.pointer, &probe.header) {
            (Some(pointer), _) => format!("At::Json({:?})", pointer.get_ref()),
            (None, header) => format!("At::Header({:?})", header.as_ref().map_or("", |header| header.get_ref())),
        };
        line(out, format_args!("            Probe {{ path: {path:?}, at: {at}, value: {:?} }},", probe.value));
    }
    line(out, format_args!("        ],\n        endpoints: &["));
    for row in &row.endpoint {
        endpoint(out, row.get_ref());
    }
    line(out, format_args!("        ],\n    }},"));
}

fn endpoint(out: &mut String, row: &EndpointRow) {
    let auth = match row.auth.get_ref().as_str() {
        "bearer" => "Bearer".to_owned(),
        "none" => "None".to_owned(),
        header => format!("Header({:?})", header.trim_start_matches("header ")),
    };
    let has = |name: &str| row.quirks.iter().any(|quirk| quirk.get_ref() == name);
    let headers: Vec<(&str, &str)> = row.headers.iter().filter_map(|line| line.get_ref().split_once(": ")).collect();
    line(out, format_args!("            Endpoint {{"));
    line(out, format_args!("                dialect: {:?}, base: {:?},", row.dialect.get_ref(), row.base.get_ref()));
    let query = row.query.as_ref().map_or("", |query| query.get_ref());
    let credentials = match row.credentials.as_ref().map(|named| named.get_ref().as_str()) {
        None => "None",
        Some("aws") => "Some(Credentials::Aws)",
        Some("entra") => "Some(Credentials::Entra)",
        Some(_) => "Some(Credentials::Google)",
    };
    line(out, format_args!("                query: {query:?}, credentials: {credentials},"));
    line(out, format_args!("                auth: Auth::{auth}, headers: &{headers:?},"));
    line(
        out,
        format_args!(
            "                quirks: Quirks {{ max_tokens_field: {}, no_stream_options: {}, ignore_eos: {}, half_price_batches: {}, on_vertex: {}, on_bedrock: {} }},",
            has("max_tokens_field"),
            has("no_stream_options"),
            has("ignore_eos"),
            has("half_price_batches"),
            has("on_vertex"),
            has("on_bedrock")
        ),
    );
    line(out, format_args!("            }},"));
}

fn price(out: &mut String, row: &PriceRow) {
    // To the nearest pico-dollar, as `Money::from_usd` does it.
    let money = |usd: f64| format!("Money::from_pico_usd({})", (usd * 1e12).round() as u128);
    let optional = |price: &Option<Spanned<f64>>| {
        price.as_ref().map_or("None".to_owned(), |price| format!("Some({})", money(*price.get_ref())))
    };
    let [cached, audio_input, audio_cached, audio_output] =
        [&row.cached, &row.audio_input, &row.audio_cached, &row.audio_output].map(optional);
    let role = match row.role.as_ref().map(|role| role.get_ref().as_str()) {
        Some("reason") => "Some(Role::Reason)",
        Some("fast") => "Some(Role::Fast)",
        Some("apply") => "Some(Role::Apply)",
        _ => "None",
    };
    line(
        out,
        format_args!(
            "    ListedPrice {{ provider: {:?}, model: {:?}, common_name: {:?}, role: {role}, price: Price {{ input: {}, \
             output: {}, cached_input: {cached}, cache_write: None, audio_input: {audio_input}, audio_cached: {audio_cached}, \
             audio_output: {audio_output} }}, source: {:?}, date: {:?}, notes: {:?} }},",
            row.provider.get_ref(),
            row.model.get_ref(),
            row.common_name.as_ref().map(Spanned::get_ref),
            money(*row.input.get_ref()),
            money(*row.output.get_ref()),
            row.source.get_ref(),
            row.date.get_ref(),
            row.notes.as_deref().unwrap_or_default(),
        ),
    );
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}
