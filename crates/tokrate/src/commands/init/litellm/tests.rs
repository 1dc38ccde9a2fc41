//! Files of LiteLLM as settings of tokrate.

use super::*;
use crate::config::file::File;
use proptest::prelude::{prop_assert, proptest};

const HEAD: &str = "[gateway]\nlisten = \"127.0.0.1:8411\"\n";

fn taken(yaml: &str) -> String {
    let variable = |name: &str| (name == "GPU_URL").then(|| "http://gpu.lan:8000/v1/".to_owned());
    match migrate(yaml, &variable) {
        Ok(migrated) => migrated.text(HEAD, Path::new("/data/tokrate/gateway.key")),
        Err(error) => format!("refused: {error:#}"),
    }
}

/// The settings, which tokrate has to understand.
fn understood(yaml: &str) -> String {
    let text = taken(yaml);
    let read: Result<File, _> = toml::from_str(&text);
    assert!(read.is_ok(), "{read:?}\n{text}");
    text
}

const USUAL: &str = r#"
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://eu.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY_EU
      api_version: "2024-02-01"
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/OPENAI_API_KEY
      max_parallel_requests: 40
    model_info: {mode: chat, input_cost_per_token: 0.0000025, output_cost_per_token: 1e-05}
  - model_name: claude
    litellm_params: {model: claude-sonnet-4-5, api_key: sk-ant-secret}
  - model_name: own
    litellm_params: {model: hosted_vllm/meta/llama, api_base: os.environ/GPU_URL, api_key: none}
  - model_name: nova
    litellm_params: {model: bedrock/amazon.nova-pro, aws_region_name: us-east-1}
router_settings:
  routing_strategy: latency-based-routing
  num_retries: 2
  timeout: 30
  allowed_fails: 3
  cooldown_time: 60
  fallbacks: [{claude: [gpt-4o, absent]}]
  model_group_alias: {gpt-4: gpt-4o}
  redis_host: localhost
litellm_settings:
  drop_params: true
  success_callback: [langfuse]
general_settings:
  master_key: sk-1234-secret
  database_url: postgresql://user:secret@host/db
environment_variables:
  REDIS_PASSWORD: very-secret
mcp_servers: {}
"#;

#[test]
fn the_usual_file_becomes_lanes_aliases_limits_and_a_key() {
    let text = understood(USUAL);
    assert!(!text.contains("secret"), "{text}");
    insta::assert_snapshot!("usual", text);
}

#[test]
fn every_way_to_a_provider_is_taken() {
    let models = [
        "groq/llama-3.3-70b",
        "together_ai/meta-llama/Llama-3.3",
        "openrouter/anthropic/claude",
        "ollama/llama3",
        "gpt-4o-mini",
        "azure/deployment",
        "bedrock/us.anthropic.claude-x-v1:0",
        "bedrock/invoke/us.anthropic.claude-x-v1:0",
        "bedrock/invoke/amazon.nova-pro-v1:0",
        "vertex_ai/gemini-2.5-flash",
        "vertex_ai/claude-sonnet-4-5@20250929",
        "vertex_ai/meta/llama-4",
        "cohere_chat/command-a",
        "nvidia_nim/meta/llama",
        "perplexity/sonar",
        "nobody/x",
    ];
    let entries = models.map(|model| format!("  - {{model_name: {model}, litellm_params: {{model: {model}}}}}"));
    let further = [
        "  - {model_name: a, litellm_params: {model: anthropic/c, api_base: 'https://proxy.lan', api_key: os.environ/K}}",
        "  - {model_name: b, litellm_params: {model: ollama_chat/l, api_base: 'http://gpu.lan:11434'}}",
        "  - {model_name: c, litellm_params: {model: openai/x, api_base: 'http://gpu.lan:8000/v1'}}",
        "  - {model_name: d, litellm_params: {model: text-completion-openai/x, api_base: 'http://gpu.lan:8000/v1', api_key: EMPTY}}",
        "  - {model_name: e, litellm_params: {model: mistral-large}}",
        "  - {model_name: f, litellm_params: {model: openai/x, api_base: 'http://user:secret@gpu.lan/v1'}}",
        "  - {model_name: g, litellm_params: {model: openai/x, api_base: os.environ/UNSET}}",
        "  - {model_name: '*', litellm_params: {model: 'openai/*'}}",
        "  - {model_name: h}",
        "  - {model_name: i, litellm_params: {model: bedrock/converse/eu.amazon.nova, aws_region_name: eu-west-1, aws_secret_access_key: hunter2}}",
        "  - {model_name: j, litellm_params: {model: bedrock/amazon.nova, aws_region_name: 'evil.example/x?'}}",
        "  - {model_name: k, litellm_params: {model: azure_ai/grok, api_base: 'https://r.services.ai.azure.com/models', api_key: os.environ/K}}",
        "  - {model_name: l, litellm_params: {model: vertex_ai/gemini-x, vertex_project: p-1, vertex_location: us-east5}}",
    ];
    let yaml = format!("model_list:\n{}\n{}\n", entries.join("\n"), further.join("\n"));
    let text = understood(&yaml);
    assert!(!text.contains(":secret") && !text.contains("hunter2"), "{text}");
    insta::assert_snapshot!("ways", text);
}

#[test]
fn an_order_and_fallbacks_are_an_order_of_lanes() {
    let entry = |name: &str, model: &str, order: &str| {
        format!("  - {{model_name: {name}, litellm_params: {{model: openai/{model}{order}}}}}\n")
    };
    let list = entry("a", "two", ", order: 2") + &entry("a", "one", ", order: 1") + &entry("b", "three", "");
    let text = understood(&format!("model_list:\n{list}litellm_settings: {{default_fallbacks: [b]}}\n"));
    assert!(
        text.contains(
            "[gateway.aliases.a]\nlanes = [\"a-openai-2\", \"a-openai\", \"b-openai\"]\nobjective = \"fixed\""
        ),
        "{text}"
    );
    assert!(text.contains("attempts = 3\n") && text.contains("[gateway.aliases.b]\nlanes = [\"b-openai\"]"), "{text}");
}

#[test]
fn what_is_no_file_of_litellm_is_refused() {
    let bad = ["", "- a\n- b\n", "a: b\n", "model_list: 3\n", "model_list: [\n", "a: 1\n---\nb: 2\n", "a: &x [*x]\n"];
    insta::assert_snapshot!("refused", bad.map(|yaml| format!("{yaml:?}\n    {}", taken(yaml))).join("\n"));
}

#[test]
fn a_name_cannot_write_settings_of_its_own() {
    let yaml = "model_list:\n  - model_name: \"x]\\n[gateway.keys.evil]\\nsha256 = 1\"\n    litellm_params: {model: \"openai/y\\\"\\nlisten = 1\"}\n  - model_name: z\n    litellm_params: {model: \"nowhere\\n[gateway]/y\"}\n";
    let text = understood(yaml);
    let read: toml::Table = toml::from_str(&text).expect("TOML");
    let gateway = read["gateway"].as_table().expect("a table");
    assert_eq!(gateway["keys"].as_table().expect("a table").keys().collect::<Vec<_>>(), ["master"]);
    assert_eq!(gateway["listen"].as_str(), Some("127.0.0.1:8411"));
}

proptest! {
    /// Whatever stands in the places of names, models, addresses and numbers: what is written is understood.
    #[test]
    fn whatever_is_written_is_toml(texts in proptest::collection::vec(proptest::prelude::any::<String>(), 8), number in proptest::prelude::any::<f64>()) {
        let json = serde_json::json!({
            "model_list": [
                {"model_name": texts[0], "litellm_params": {"model": format!("openai/{}", texts[1]), "api_base": texts[2], "api_key": texts[3]}},
                {"model_name": texts[4], "litellm_params": {"model": texts[5], "order": 3, texts[6].clone(): texts[7], "max_parallel_requests": number}},
            ],
            "router_settings": {"timeout": number, "num_retries": number, "fallbacks": [{texts[0].clone(): [texts[4]]}]},
        });
        // JSON is YAML.
        let text = taken(&json.to_string());
        let read: Result<toml::Table, _> = toml::from_str(&text);
        prop_assert!(text.starts_with("refused") || read.is_ok(), "{read:?}\n{text}");
    }
}
