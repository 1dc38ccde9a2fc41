//! Tests of the catalog: valid rows are accepted, invalid ones are rejected with their position.

use crate::rows::{Source, compile};
use crate::*;
use proptest::prelude::*;

const PROVIDER: &str = r#"
[[provider]]
name = "acme"
title = "Acme"
kind = "hosted"
key_env = ["ACME_API_KEY"]
source = "https://acme.example/docs"
date = "2026-11-21"

[[provider.endpoint]]
dialect = "openai-chat"
base = "https://api.acme.example/v1"
"#;

const PRICE: &str = r#"
[[price]]
provider = "acme"
model = "m"
input = 1.0
output = 2.0
source = "https://acme.example/pricing"
date = "2026-11-21"
"#;

fn findings(providers: &str, prices: &str) -> Vec<String> {
    let providers = Source { name: "providers.toml", text: providers };
    compile(providers, Source { name: "prices.toml", text: prices }).err().unwrap_or_default()
}

/// What is found when each line is put in the place of that which begins alike.
fn shown(row: &str, lines: &[&str], compile: impl Fn(&str) -> Vec<String>) -> String {
    let mut shown = String::new();
    for line in lines {
        let key = line.split('=').next().unwrap_or_default();
        let text: String = match row.lines().any(|other| !key.is_empty() && other.starts_with(key)) {
            true => row
                .lines()
                .map(|other| if other.starts_with(key) { format!("{line}\n") } else { format!("{other}\n") })
                .collect(),
            false => row.replacen("date =", &format!("{line}\ndate ="), 1),
        };
        let found = compile(&text);
        assert!(!found.is_empty(), "{line} was taken");
        shown.push_str(&format!("{line}\n    {}\n", found.join("\n    ")));
    }
    shown
}

#[test]
fn good_rows_are_taken() {
    assert_eq!(findings(PROVIDER, PRICE), [""; 0]);
    assert_eq!(findings(PROVIDER, "price = []"), [""; 0]);
}

#[test]
fn a_bad_provider_is_refused_with_its_line() {
    let lines = [
        "name = \"Acme Inc\"",
        "name = \"\"",
        "title = \"\"",
        "kind = \"cloud\"",
        "kind = \"local\"",
        "key_env = []",
        "key_env = [\"acme_key\"]",
        "usual_ports = [8000]",
        "usual_ports = [80000]",
        "metrics = { family = \"vllm\" }",
        "probes = [{ path = \"x\", pointer = \"y\" }]",
        "probes = [{ path = \"/x\" }]",
        "probes = [{ path = \"/x\", header = \"Server: \" }]",
        "source = \"a colleague\"",
        "source = \"http://acme.example\"",
        "date = \"2026-02-30\"",
        "date = \"21.11.2026\"",
        "date = 2026-11-21",
        "colour = \"red\"",
        "variables = [{ name = \"x\", meaning = \"\" }]",
        "dialect = \"OpenAI\"",
        "base = \"api.acme.example\"",
        "base = \"http://api.acme.example/v1\"",
        "base = \"https://api.acme.example/v1/\"",
        "base = \"https://api.acme.example/v1?x=1\"",
        "base = \"https://{ACME}.example/v1\"",
        "base = \"https://{ACME\"",
        "base =",
    ];
    insta::assert_snapshot!("bad_providers", shown(PROVIDER, &lines, |text| findings(text, "price = []")));
    let lines = [
        "auth = \"basic\"",
        "auth = \"header \"",
        "headers = [\"anthropic-version\"]",
        "quirks = [\"slow\"]",
        "path = \"/v2\"",
    ];
    let found = lines.map(|line| findings(&format!("{PROVIDER}{line}\n"), "price = []").join("\n    "));
    insta::assert_snapshot!("bad_endpoints", found.join("\n"));
}

#[test]
fn a_local_engine_needs_ports_probes_and_a_loopback_base() {
    let local = PROVIDER
        .replace(
            "kind = \"hosted\"",
            "kind = \"local\"\nusual_ports = [9000]\nprobes = [{ path = \"/v\", pointer = \"/v\" }]",
        )
        .replace("https://api.acme.example/v1", "http://127.0.0.1:9000/v1");
    assert_eq!(findings(&local, "price = []"), [""; 0]);
    let elsewhere = findings(&local.replace("127.0.0.1:9000/v1", "127.0.0.1:90001/v1"), "price = []");
    assert!(elsewhere[0].starts_with("providers.toml:14: found"), "{elsewhere:?}");
    let unknown = findings(&local.replace("date =", "metrics = { family = \"acme\" }\ndate ="), "price = []");
    assert!(unknown[0].contains("llama-cpp"), "{unknown:?}");
}

#[test]
fn duplicate_names_and_missing_endpoints_are_rejected() {
    let twice = format!("{PROVIDER}{PROVIDER}");
    let found = findings(&twice, "price = []");
    assert_eq!(found, ["providers.toml:15: found \"acme\", expected a name that no other row has"]);
    let found = findings(PROVIDER.split("[[provider.endpoint]]").next().unwrap_or_default(), "price = []");
    assert!(found[0].contains("missing field `endpoint`"), "{found:?}");
    let found =
        findings(&format!("{PROVIDER}{}", &PROVIDER[PROVIDER.find("[[provider.").unwrap_or(0)..]), "price = []");
    assert_eq!(found, ["providers.toml:14: found \"openai-chat\", expected one endpoint for each dialect"]);
}

#[test]
fn a_bad_price_is_refused_with_its_line() {
    let lines = [
        "provider = \"nobody\"",
        "model = \"\"",
        "input = -1.0",
        "input = nan",
        "input = \"1\"",
        "output = 1e9",
        "cached = 1.5",
        "source = \"\"",
        "date = \"2026-13-01\"",
        "currency = \"EUR\"",
        "common_name = \"Model M\"",
        "common_name = \"m\"",
        "role = \"chat\"",
    ];
    insta::assert_snapshot!("bad_prices", shown(PRICE, &lines, |text| findings(PROVIDER, text)));
    let found = findings(PROVIDER, &format!("{PRICE}{PRICE}"));
    assert_eq!(found, ["prices.toml:12: found \"m\", expected one price for a model of a provider"]);
}

#[test]
fn rows_with_a_common_name_are_one_model_of_several_providers() {
    let other = PROVIDER.replace("acme", "other");
    let named = PRICE.replace("input", "common_name = \"m\"\nrole = \"fast\"\ninput");
    let both = format!("{PROVIDER}{other}");
    assert_eq!(findings(&both, &format!("{named}{}", named.replace("acme", "other"))), [""; 0]);
    let twice = findings(&both, &format!("{named}{}", named.replace("model = \"m\"", "model = \"n\"")));
    assert_eq!(
        twice,
        [
            "prices.toml:5: found \"m\", expected a name that no other model of the provider has",
            "prices.toml:6: found \"fast\", expected one model of a provider with a role",
            "prices.toml:15: found \"m\", expected a name that no other model of the provider has",
            "prices.toml:16: found \"fast\", expected one model of a provider with a role",
        ]
    );
}

#[test]
fn every_hosted_provider_with_prices_has_one_model_with_a_role() {
    for row in PROVIDERS.iter().filter(|row| row.kind == Kind::Hosted) {
        let rows: Vec<_> = PRICES.iter().filter(|price| price.provider == row.name).collect();
        let with_role = rows.iter().filter(|price| price.role.is_some()).count();
        assert_eq!(with_role, usize::from(!rows.is_empty()), "{}", row.name);
    }
}

#[test]
fn all_findings_are_reported_at_once() {
    let found = findings(&PROVIDER.replace("Acme", "").replace("2026-11-21", "today"), &PRICE.replace("1.0", "-1.0"));
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn the_documented_providers_exist() {
    let hosted = "openai anthropic gemini xai deepseek mistral cerebras sambanova groq together fireworks deepinfra \
                  inception morph openrouter azure";
    let local = "vllm sglang trtllm llama-cpp ollama mlx lm-studio tgi";
    for (names, kind) in [(hosted, Kind::Hosted), (local, Kind::Local)] {
        for name in names.split_whitespace() {
            let row = provider(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!((row.kind, row.endpoint(None).is_some()), (kind, true));
            let priced = PRICES.iter().any(|price| price.provider == name);
            assert!(priced || kind == Kind::Local || name == "azure", "{name} has no price");
        }
    }
}

#[test]
fn an_endpoint_is_found_by_its_dialect() {
    let ollama = provider("ollama").expect("a row");
    assert_eq!(ollama.endpoint(None).map(|endpoint| endpoint.dialect), Some("ollama-chat"));
    let openai = ollama.endpoint(Some("openai-chat")).expect("an endpoint");
    assert_eq!(openai.base, "http://127.0.0.1:11434/v1");
    assert_eq!(ollama.endpoint(Some("gemini")), None);
    let anthropic = provider("anthropic").and_then(|row| row.endpoint(None)).expect("an endpoint");
    assert_eq!(anthropic.auth, Auth::Header("x-api-key"));
    assert_eq!(anthropic.headers, [("anthropic-version", "2023-06-01")]);
}

#[test]
fn a_price_is_that_of_the_model_or_of_the_model_with_a_date() {
    let input = |provider, model| price(provider, model).map(|price| price.price.input.as_usd());
    assert_eq!(input("groq", "llama-3.3-70b-versatile"), Some(0.59));
    assert_eq!(input("anthropic", "claude-haiku-4-5-20251001"), Some(1.0));
    assert_eq!(input("openai", "gpt-5.6-terra-2026-07-09"), Some(2.0));
    // Names that begin like another model's are not that model.
    assert_eq!(input("openai", "gpt-4.1-mini"), Some(0.4));
    assert_eq!(input("openai", "gpt-5-turbo"), None);
    assert_eq!(input("openai", "gpt-4.1-4"), None);
    assert_eq!(input("cerebras", "llama-3.3-70b-versatile"), None);
}

#[test]
fn a_misspelt_name_is_recognised() {
    assert_eq!(nearest("gorq")[0], "groq");
    assert_eq!(nearest("OpenAi")[0], "openai");
    assert_eq!(nearest("llamacpp")[0], "llama-cpp");
    assert_eq!(nearest("lmstudio")[0], "lm-studio");
    assert_eq!(nearest("google-gemini")[0], "gemini");
    assert_eq!(nearest("grok")[..2], ["groq", "xai"], "who hosts the model of that name, beside what is spelt alike");
    assert_eq!(nearest("my-own-server"), [""; 0]);
}

proptest! {
    #[test]
    fn no_text_makes_the_checks_panic(providers in ".{0,200}", prices in ".{0,200}") {
        let _ = findings(&providers, &prices);
    }

    #[test]
    fn no_row_makes_the_checks_panic(at in 0..PROVIDER.len(), with in "[a-z0-9 =\"\\[\\]{}/:.\n-]{0,8}") {
        let text = format!("{}{with}{}", &PROVIDER[..at], &PROVIDER[at..]);
        for finding in findings(&text, PRICE) {
            let place = finding.split(": ").next().unwrap_or_default();
            let line = place.rsplit(':').next().and_then(|line| line.parse::<usize>().ok());
            prop_assert!(line.is_some_and(|line| line <= text.lines().count() + 1), "{}", finding);
        }
    }

    #[test]
    fn no_name_makes_the_suggestions_panic(name in ".{0,300}") {
        prop_assert!(nearest(&name).len() <= 3);
    }
}

#[test]
fn the_tables_in_docs_are_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/targets.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    let fresh = markdown::with_presets(&page);
    assert!(
        fresh.as_deref() == Some(page.as_str()),
        "docs/targets.md is out of date; write it anew with `cargo run -p tokrate-catalog --example presets -- docs/targets.md`"
    );
}
