//! The files in `docs` are those that the code makes, every key has a meaning, and what the reference lists is understood.

use super::page::page;
use super::{properties, schema, unknown};
use crate::config::file::File;
use crate::config::gateway::aliases::{self, PolicyWords};
use crate::config::{bench, environment::Environment, quantity};
use crate::flags::bench::Flags;
use serde_json::Value;
use std::path::PathBuf;
use tokrate_route::Policy;
use tokrate_targets::trust::{HARMLESS, is_harmless};

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Compares a file of `docs` with what the code makes, or writes it if `TOKRATE_WRITE_DOCS` is set.
fn check(name: &str, made: &str) {
    if std::env::var_os("TOKRATE_WRITE_DOCS").is_some() {
        std::fs::write(docs(name), made).expect("docs can be written");
        return;
    }
    let written = std::fs::read_to_string(docs(name)).unwrap_or_default();
    assert!(written == made, "docs/{name} is out of date; write it anew with `cargo xtask docs`");
}

#[test]
fn the_files_in_docs_are_those_of_the_code() {
    let schema = schema();
    check("configuration.md", &page(&schema));
    let written = serde_json::to_string_pretty(&schema).expect("a schema is plain data");
    check("tokrate.schema.json", &format!("{written}\n"));
}

/// Every key with its place.
fn settings<'a>(place: &str, table: &'a Value, out: &mut Vec<(String, &'a Value)>) {
    let keys = properties(table).or(properties(&table["additionalProperties"]));
    for (key, setting) in keys.into_iter().flatten() {
        let place = format!("{place}.{key}");
        settings(&place, setting, out);
        out.push((place, setting));
    }
}

#[test]
fn every_key_has_a_meaning_and_a_type() {
    let schema = schema();
    let mut all = Vec::new();
    settings("", &schema, &mut all);
    assert!(all.len() > 80, "the file has more keys than {}", all.len());
    for (place, setting) in all {
        let meaning = setting["description"].as_str().unwrap_or_default();
        assert!(meaning.len() > 8, "{place} has no meaning: write a doc comment, or for [bench] the help of its flag");
        assert!(!meaning.contains("[default"), "{place}: its default is not at the end of its meaning: {meaning}");
        // A share is a number, or a text in per cent; a list may be its only item.
        let title = setting["title"].as_str().unwrap_or_default();
        let is_either = ["share", "length", "tokens, or a share"].iter().any(|either| title.starts_with(either))
            || title.contains(" or a list of ");
        assert!(setting["type"].is_string() || is_either, "{place} has no single type: {setting}");
    }
}

#[test]
fn every_name_that_is_listed_is_understood() {
    for name in Policy::NAMES {
        let usd_per_second = (name == "weighted").then_some(0.001);
        let words = PolicyWords { name, max_ttft: None, min_speed: None, usd_per_second };
        let policy = aliases::policy(&words).expect("a listed objective");
        assert!(policy.to_string().starts_with(name), "{policy:?}");
    }
    let schema = schema();
    let lane = &schema["properties"]["gateway"]["properties"]["lanes"]["additionalProperties"]["properties"];
    for name in lane["local"]["enum"].as_array().expect("names") {
        let name = name.as_str().expect("a text");
        let row = Default::default();
        crate::config::gateway::simulated::local("lane", name, &row).expect("a listed engine");
    }
}

#[test]
fn defaults_are_those_of_the_code() {
    let schema = schema();
    let gateway = &schema["properties"]["gateway"]["properties"];
    let usual = tokrate_gateway::LimitsConfig::default();
    let time = |value: &Value| quantity::span(value.as_str().expect("a time")).expect("a time");
    assert_eq!(time(&gateway["limits"]["properties"]["total"]["default"]), usual.total);
    assert_eq!(gateway["limits"]["properties"]["request_bytes"]["default"], usual.request_bytes);
    assert_eq!(time(&gateway["log_retention"]["default"]), tokrate_core::Span::from_secs(90 * 86_400));
    let alias = &gateway["aliases"]["additionalProperties"]["properties"];
    assert_eq!((&alias["mode"]["default"], &alias["objective"]["default"]), (&"off".into(), &"completion".into()));
    // Those of [bench] come from the help of the flags; here are the ones that hold.
    let (configs, outputs) =
        bench::resolve(&Flags::default(), &Environment::default(), &File::default()).expect("the embedded engine");
    let bench = &schema["properties"]["bench"]["properties"];
    let default_of = |key: &str| bench[key]["x-default"].as_str().expect("a default").to_owned();
    for (key, held) in [
        ("connect_timeout", configs[0].limits.connect),
        ("idle_timeout", configs[0].limits.idle),
        ("timeout", configs[0].limits.total),
        ("max_wait", configs[0].limits.wait),
    ] {
        assert_eq!(quantity::span(&default_of(key)).expect("a time"), held, "{key}");
    }
    assert_eq!(quantity::share(&default_of("max_failures")).expect("a share"), outputs.max_failures);
    assert_eq!(default_of("seed").split(',').next().map(str::parse), Some(Ok(configs[0].seed)));
}

#[test]
fn a_key_that_is_not_in_the_schema_is_found() {
    let file =
        toml::from_str("[bench]\nmodel = \"m\"\n[gateway]\nhttps = 1\n[gateway.lanes.a]\nurl = \"u\"\nurls = 2\n");
    assert_eq!(unknown(&schema(), &file.expect("TOML")), ["gateway.https", "gateway.lanes.a.urls"]);
}

/// The example in the documentation, and the file that `tokrate init` writes, lines that are commented out included.
#[test]
fn every_key_of_the_examples_is_in_the_reference() {
    let schema = schema();
    let mut texts = crate::commands::init::written();
    let text = std::fs::read_to_string(docs("gateway.md")).expect("a page");
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    texts.extend(blocks.map(str::to_owned));
    assert!(texts.len() > 2, "the page has an example");
    for text in texts {
        let is_setting =
            |line: &str| line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        let plain: Vec<&str> = text
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|inner| is_setting(inner)).unwrap_or(line))
            .collect();
        let file: toml::Table = toml::from_str(&plain.join("\n")).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(unknown(&schema, &file), Vec::<String>::new(), "{text}");
    }
}

/// Every key of the reference, `*` for names.
fn known(above: &str, table: &Value, out: &mut Vec<String>) {
    let inner = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}.{name}") };
    match (table["properties"].as_object(), &table["additionalProperties"]) {
        (Some(keys), _) => keys.iter().for_each(|(name, setting)| known(&inner(name), setting, out)),
        (None, named) if named["properties"].is_object() => known(&inner("*"), named, out),
        _ => out.push(above.to_owned()),
    }
}

#[test]
fn every_key_that_is_called_harmless_is_one_of_the_file() {
    let mut all = Vec::new();
    known("", &schema(), &mut all);
    let unknown: Vec<&&str> = HARMLESS.iter().filter(|key| !all.contains(&(**key).to_owned())).collect();
    assert!(unknown.is_empty(), "{unknown:?} of {all:?}");
}

#[test]
fn what_names_an_address_a_key_a_command_or_a_file_is_not_called_harmless() {
    let mut all = Vec::new();
    known("", &schema(), &mut all);
    let bad = [
        "url",
        "target",
        "endpoint",
        "listen",
        "admin",
        "key_env",
        "key_file",
        "key_cmd",
        "headers",
        "_file",
        "log",
        "prompts",
        "bench.tools",
        "bench.schema",
        "bench.images_from",
        "bench.audio",
        "bench.baseline",
        "bench.body",
        "curve",
        "server_metrics",
        "gpu_metrics",
        "bench.chunks",
        "sha256",
        "host",
        "otel",
        "insecure",
        "bench.json",
        "bench.html",
        "bench.csv",
        "bench.markdown",
        "bench.vllm_json",
        "bench.junit",
        "bench.badge",
        "bench.save_baseline",
        "unix_socket",
        "proxy",
    ];
    let named = |key: &&String| bad.iter().any(|word| key.contains(word));
    let sensitive: Vec<&String> = all.iter().filter(named).collect();
    assert!(sensitive.len() > 25 && sensitive.iter().any(|key| *key == "bench.insecure"), "{sensitive:?}");
    let harmless: Vec<&&String> = sensitive.iter().filter(|key| is_harmless(key)).collect();
    assert!(harmless.is_empty(), "{harmless:?}");
}
