//! Entries of `model_list`: each becomes a lane, or is named with the reason why it cannot.

use super::{Node, Notes, entries, environment_name, line, number_of, on_a_line, text_of, unique};
use crate::out::toml_text::{key, quoted};
use std::collections::BTreeMap;
use std::fmt::Write;
use tokrate_catalog::{Kind, provider};

/// How a provider of LiteLLM is reached from here.
#[derive(Clone, Copy)]
enum Way {
    /// A provider of the catalog.
    Target(&'static str),
    /// An engine of the catalog, at an address of its own.
    Engine(&'static str),
    /// Azure's own addresses.
    Azure,
    /// Models that Azure's foundry serves, at an address of the user.
    AzureFoundry,
    /// AWS Bedrock: which of its paths follows from the model.
    Bedrock,
    /// Vertex AI, likewise.
    Vertex,
    /// Any address, in this dialect.
    Address(&'static str),
}

/// Providers by the names that LiteLLM puts before the slash of a model (docs.litellm.ai/docs/providers).
const WAYS: &[(&str, Way)] = &[
    ("openai", Way::Target("openai")),
    ("anthropic", Way::Target("anthropic")),
    ("gemini", Way::Target("gemini")),
    ("xai", Way::Target("xai")),
    ("deepseek", Way::Target("deepseek")),
    ("mistral", Way::Target("mistral")),
    ("cerebras", Way::Target("cerebras")),
    ("sambanova", Way::Target("sambanova")),
    ("groq", Way::Target("groq")),
    ("together_ai", Way::Target("together")),
    ("fireworks_ai", Way::Target("fireworks")),
    ("deepinfra", Way::Target("deepinfra")),
    ("morph", Way::Target("morph")),
    ("openrouter", Way::Target("openrouter")),
    ("azure", Way::Azure),
    ("azure_ai", Way::AzureFoundry),
    ("bedrock", Way::Bedrock),
    ("bedrock_converse", Way::Bedrock),
    ("vertex_ai", Way::Vertex),
    ("vertex_ai_beta", Way::Vertex),
    ("cohere", Way::Target("cohere")),
    ("cohere_chat", Way::Target("cohere")),
    // Names that are others in the catalog; those that are the same need no row.
    ("nvidia_nim", Way::Target("nvidia")),
    ("featherless_ai", Way::Target("featherless")),
    ("friendliai", Way::Target("friendli")),
    ("github", Way::Target("github-models")),
    ("dashscope", Way::Target("alibaba")),
    ("lambda_ai", Way::Target("lambda")),
    ("meta_llama", Way::Target("llama-api")),
    ("nano_gpt", Way::Target("nano-gpt")),
    ("io_net", Way::Target("io-net")),
    ("z_ai", Way::Target("zai")),
    ("inference_net", Way::Target("inference-net")),
    ("vercel_ai_gateway", Way::Target("vercel")),
    ("amazon_nova", Way::Target("nova")),
    ("gradient_ai", Way::Target("digitalocean")),
    ("ollama", Way::Engine("ollama")),
    ("ollama_chat", Way::Engine("ollama")),
    ("hosted_vllm", Way::Engine("vllm")),
    ("lm_studio", Way::Engine("lm-studio")),
    ("custom_openai", Way::Address("openai-chat")),
    ("openai_like", Way::Address("openai-chat")),
    ("litellm_proxy", Way::Address("openai-chat")),
    ("text-completion-openai", Way::Address("openai-completions")),
];

/// How the names of models begin that LiteLLM knows without a provider before them.
const BARE: &[(&str, &str)] = &[
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("text-embedding-", "openai"),
    ("claude-", "anthropic"),
];

/// Keys that stand for none: engines that want none are given one of these.
const NO_KEYS: [&str; 6] = ["", "none", "empty", "dummy", "fake", "no-key"];

/// A way to an answer.
#[derive(Debug)]
pub(super) struct Lane {
    pub name: String,
    /// The alias whose lane it is.
    pub alias: String,
    /// Where the entry stands.
    line: usize,
    /// Settings and their values in TOML.
    settings: Vec<(&'static str, String)>,
    /// Dollars per million tokens, by setting.
    price: Vec<(&'static str, f64)>,
    /// LiteLLM's `order`: lanes with a lower one come first.
    pub order: Option<i64>,
    /// Why it cannot be a lane.
    pub refused: Option<String>,
}

impl Lane {
    /// The lane in TOML; one that cannot be is a remark.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        if let Some(reason) = &self.refused {
            let remark = on_a_line(&format!("{} (line {}): {reason}", self.name, self.line));
            let _ = writeln!(text, "\n# {remark}");
            return text;
        }
        let _ = writeln!(text, "\n[gateway.lanes.{}]", key(&self.name));
        for (setting, value) in &self.settings {
            let _ = writeln!(text, "{setting} = {value}");
        }
        if !self.price.is_empty() {
            let prices: Vec<String> = self.price.iter().map(|(kind, usd)| format!("{kind} = {usd:?}")).collect();
            let _ = writeln!(text, "price = {{ {} }}", prices.join(", "));
        }
        text
    }
}

/// What an entry says of itself.
#[derive(Default)]
struct Entry<'y> {
    alias: Option<String>,
    model: Option<String>,
    api_base: Option<Node<'y>>,
    api_key: Option<Node<'y>>,
    in_flight: Option<f64>,
    order: Option<i64>,
    /// The region of AWS.
    region: Option<String>,
    /// Dollars a token, by the setting of a lane's price.
    price: BTreeMap<&'static str, f64>,
}

/// Reads an entry of `model_list`.
pub(super) fn read(
    entry: Node<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
    lanes: &mut Vec<Lane>,
    notes: &mut Notes,
) {
    let mut found = Entry::default();
    for (name, node) in entries(entry) {
        match name {
            "model_name" => found.alias = text_of(node),
            "litellm_params" => entries(node).for_each(|(name, node)| parameter(name, node, &mut found, notes)),
            "model_info" => entries(node).for_each(|(name, node)| information(name, node, &mut found, notes)),
            // Older files have these beside `litellm_params`.
            _ => parameter(name, node, &mut found, notes),
        }
    }
    let Some(model) = found.model.clone() else {
        notes.add(entry, "an entry of model_list without litellm_params.model");
        return;
    };
    let alias = found.alias.clone().unwrap_or_else(|| model.clone());
    if alias.contains('*') || model.contains('*') {
        notes.add(entry, format_args!("{alias}: tokrate has no wildcards; write a lane for each model"));
        return;
    }
    lanes.push(lane(alias, &model, entry, &found, variable, lanes, notes));
}

/// A setting of `litellm_params`.
fn parameter<'y>(name: &str, node: Node<'y>, found: &mut Entry<'y>, notes: &mut Notes) {
    match name {
        "model" => found.model = text_of(node),
        "api_base" | "base_url" => found.api_base = Some(node),
        "api_key" => found.api_key = Some(node),
        "max_parallel_requests" => found.in_flight = number_of(node).filter(|count| *count >= 1.0),
        "order" => found.order = node.data.as_integer(),
        "input_cost_per_token" | "output_cost_per_token" | "cache_read_input_token_cost"
        | "cache_creation_input_token_cost" => information(name, node, found, notes),
        // Azure's v1 addresses need none.
        "api_version" => {}
        "aws_region_name" => found.region = text_of(node),
        "aws_access_key_id" | "aws_secret_access_key" | "aws_session_token" | "aws_profile_name" | "aws_role_name"
        | "aws_session_name" | "aws_web_identity_token" => notes.add(
            node,
            format_args!("{name}: export it as AWS's own tools read it; AWS's usual chain of credentials is used, one for all lanes"),
        ),
        "vertex_project" | "vertex_location" | "vertex_credentials" => notes.add(
            node,
            format_args!(
                "{name}: export it as {}",
                match name {
                    "vertex_project" => "GOOGLE_CLOUD_PROJECT",
                    "vertex_location" => "GOOGLE_CLOUD_LOCATION",
                    _ => "GOOGLE_APPLICATION_CREDENTIALS (the name of the file)",
                }
            ),
        ),
        "rpm" | "tpm" | "weight" => notes.add(
            node,
            format_args!("{name} of a deployment: lanes are chosen by how they answer; limits are those of [gateway.keys], and max_in_flight of a lane"),
        ),
        "timeout" | "stream_timeout" | "max_retries" | "num_retries" => notes.add(
            node,
            format_args!("{name} of a deployment: time limits are those of [gateway.limits], attempts those of an alias"),
        ),
        "extra_headers" | "default_headers" | "organization" => notes.add(
            node,
            format_args!("{name}: write `headers = {{ NAME = \"VALUE\" }}` into the lane, or `forward_headers` for those of clients"),
        ),
        "temperature" | "top_p" | "top_k" | "max_tokens" | "max_completion_tokens" | "stop" | "seed" | "n" | "tools"
        | "reasoning_effort" | "thinking" | "drop_params" | "additional_drop_params" => {
            notes.add(node, format_args!("{name} of a deployment: what clients ask for is passed on as it is"));
        }
        _ => notes.add(node, format_args!("{name} of a deployment: a lane has nothing like it")),
    }
}

/// A setting of `model_info`.
fn information(name: &str, node: Node<'_>, found: &mut Entry<'_>, notes: &mut Notes) {
    let kind = match name {
        "input_cost_per_token" => "input",
        "output_cost_per_token" => "output",
        "cache_read_input_token_cost" => "cached",
        "cache_creation_input_token_cost" => "cache_write",
        // They describe the model, or name the entry; nothing of the gateway's work changes by them.
        "id" | "mode" | "base_model" | "description" | "metadata" | "max_tokens" | "max_input_tokens"
        | "max_output_tokens" | "litellm_provider" => return,
        _ if name.starts_with("supports_") => return,
        _ => {
            notes.add(node, format_args!("{name} of model_info: tokrate has nothing like it"));
            return;
        }
    };
    match number_of(node).filter(|usd| *usd >= 0.0) {
        Some(usd) => {
            found.price.insert(kind, usd);
        }
        None => notes.add(node, format_args!("{name}: it is no price")),
    }
}

fn lane(
    alias: String,
    model: &str,
    entry: Node<'_>,
    found: &Entry<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
    lanes: &[Lane],
    notes: &mut Notes,
) -> Lane {
    let (named, rest) = split(model);
    let mut taken = lanes.iter().map(|lane| (lane.name.clone(), 1)).collect();
    let short = alias.rsplit('/').next().unwrap_or(&alias).replace(' ', "-");
    let name = unique(format!("{short}-{}", named.unwrap_or("other").replace('_', "-")), &mut taken);
    let (settings, refused) = match settings(named, rest, &name, found, variable, notes) {
        Ok(settings) => (settings, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let has_price = found.price.contains_key("input") && found.price.contains_key("output");
    // Millionths of a dollar a token are dollars a million; rounded to what a price list says.
    let price = found.price.iter().map(|(kind, usd)| (*kind, (usd * 1e12).round() / 1e6));
    Lane {
        name,
        alias,
        line: line(entry),
        settings,
        price: if has_price { price.collect() } else { Vec::new() },
        order: found.order,
        refused,
    }
}

/// The provider and its name for the model.
fn split(model: &str) -> (Option<&str>, &str) {
    let of_list = model.split_once('/').filter(|(provider, rest)| !provider.is_empty() && !rest.is_empty());
    match of_list {
        Some((provider, rest)) => (Some(provider), rest),
        None => (BARE.iter().find(|(start, _)| model.starts_with(start)).map(|(_, provider)| *provider), model),
    }
}

/// How a provider is reached: one of another name here, or one of the catalog.
fn way_of(named: &str) -> Option<Way> {
    let known = WAYS.iter().find(|(name, _)| *name == named).map(|(_, way)| *way);
    known.or_else(|| {
        let row = provider(named).or_else(|| provider(&named.replace('_', "-")))?;
        Some(if row.kind == Kind::Hosted { Way::Target(row.name) } else { Way::Engine(row.name) })
    })
}

/// The provider of the catalog that serves a model of Bedrock's, and the model's name there.
fn on_bedrock(model: &str) -> (&'static str, &str) {
    let invoked = model.strip_prefix("invoke/");
    let name = invoked.or_else(|| model.strip_prefix("converse/")).unwrap_or(model);
    // What stands before the name of an inference profile is a region.
    let is_anthropic = name.split('.').take(2).any(|part| part == "anthropic");
    (if invoked.is_some() && is_anthropic { "bedrock-anthropic" } else { "bedrock" }, name)
}

/// The same of Vertex AI.
fn on_vertex(model: &str) -> (&'static str, String) {
    match model {
        _ if model.starts_with("claude") => ("vertex-anthropic", model.to_owned()),
        _ if model.starts_with("gemini") => ("vertex", model.to_owned()),
        // Of other makers the name says whose it is.
        _ => ("vertex-openai", model.strip_prefix("openai/").unwrap_or(model).to_owned()),
    }
}

/// The settings of a lane, or why there can be none.
fn settings(
    named: Option<&str>,
    model: &str,
    lane: &str,
    found: &Entry<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
    notes: &mut Notes,
) -> Result<Vec<(&'static str, String)>, String> {
    let Some(named) = named else {
        return Err(format!(
            "no provider is named before the slash of `{model}`; write [gateway.lanes.{lane}] with a target"
        ));
    };
    let Some(way) = way_of(named) else {
        return Err(format!(
            "tokrate has no provider `{named}`; where it has an OpenAI-compatible address, write a lane with url, model and key_env"
        ));
    };
    let base = match found.api_base.and_then(text_of) {
        Some(text) => Some(address(&text, variable)?),
        None => None,
    };
    let mut settings = place(way, named, model, base.as_deref(), notes, found)?;
    if let Some(key) = key_variable(way, lane, found, base.is_some(), notes) {
        settings.push(("key_env", quoted(&key)));
    }
    if let Some(most) = found.in_flight {
        settings.push(("max_in_flight", (most as u64).to_string()));
    }
    Ok(settings)
}

/// The address, read from the environment where a variable is named.
fn address(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let text = match environment_name(text) {
        Some(name) => variable(name).ok_or_else(|| {
            format!("its api_base is in the environment variable {name}, which is not set; set it and run this again")
        })?,
        None => text.to_owned(),
    };
    let text = text.trim().trim_end_matches('/');
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if rest.is_some_and(|rest| rest.split('/').next().is_some_and(|host| host.contains('@'))) {
        return Err("its api_base holds a password; write the address alone, and the key into a variable".to_owned());
    }
    if rest.is_some() { Ok(text.to_owned()) } else { Err("its api_base is no http:// or https:// address".to_owned()) }
}

/// Where the lane's requests go.
fn place(
    way: Way,
    named: &str,
    model: &str,
    base: Option<&str>,
    notes: &mut Notes,
    found: &Entry<'_>,
) -> Result<Vec<(&'static str, String)>, String> {
    let at = |url: String, dialect: &str| {
        let provider = match way {
            Way::Target(name) | Way::Engine(name) => name,
            Way::Azure | Way::AzureFoundry | Way::Bedrock | Way::Vertex | Way::Address(_) => named,
        };
        let mut settings = vec![("url", quoted(&url)), ("model", quoted(model)), ("provider", quoted(provider))];
        if dialect != "openai-chat" {
            settings.push(("dialect", quoted(dialect)));
        }
        settings
    };
    let ending = |base: &str, end: &str| if base.ends_with(end) { base.to_owned() } else { format!("{base}{end}") };
    Ok(match (way, base) {
        (Way::Target(name), None) => vec![("target", quoted(&format!("{name}/{model}")))],
        (Way::Target("anthropic"), Some(base)) => at(ending(base, "/v1"), "anthropic"),
        (Way::Target("gemini"), Some(base)) => at(ending(base, "/v1beta"), "gemini"),
        (Way::Target(_), Some(base)) => at(base.to_owned(), "openai-chat"),
        (Way::Engine(name), None) => vec![("target", quoted(&format!("{name}/{model}")))],
        (Way::Engine("ollama"), Some(base)) => at(base.to_owned(), "ollama-chat"),
        (Way::Engine(_), Some(base)) => at(base.to_owned(), "openai-chat"),
        (Way::Azure, Some(base)) => at(ending(base, "/openai/v1"), "openai-chat"),
        (Way::Azure, None) => {
            let at = found.api_base.or(found.api_key);
            if let Some(at) = at {
                notes.add(at, "azure: export AZURE_OPENAI_ENDPOINT with the address of the resource");
            }
            vec![("target", quoted(&format!("azure/{model}")))]
        }
        (Way::AzureFoundry, Some(base)) => at(ending(base.trim_end_matches("/models"), "/openai/v1"), "openai-chat"),
        (Way::AzureFoundry, None) => return Err(format!("`{named}` needs an api_base")),
        (Way::Bedrock, _) => bedrock(model, base, found, notes),
        (Way::Vertex, None) => {
            let (target, model) = on_vertex(model);
            vec![("target", quoted(&format!("{target}/{model}")))]
        }
        (Way::Vertex, Some(_)) => {
            return Err("an address of its own for Vertex AI; write a lane with url, model and dialect".to_owned());
        }
        (Way::Address(dialect), Some(base)) => at(base.to_owned(), dialect),
        (Way::Address(_), None) => return Err(format!("`{named}` needs an api_base")),
    })
}

/// A lane of Bedrock's. One in a region of its own is an address of AWS's, whose credentials go with it.
fn bedrock(model: &str, base: Option<&str>, found: &Entry<'_>, notes: &mut Notes) -> Vec<(&'static str, String)> {
    let (target, model) = on_bedrock(model);
    // A region is part of a host's name.
    let is_plain = |region: &&str| region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let region = found.region.as_deref().filter(|region| !region.is_empty()).filter(is_plain);
    let url = base.map(str::to_owned).or_else(|| Some(format!("https://bedrock-runtime.{}.amazonaws.com", region?)));
    match url {
        Some(url) if target == "bedrock" => vec![
            ("url", quoted(&url)),
            ("model", quoted(model)),
            ("provider", quoted("bedrock")),
            ("dialect", quoted("bedrock-converse")),
        ],
        Some(_) => {
            if let Some(at) = found.api_base.or(found.api_key) {
                notes.add(at, "bedrock-anthropic is asked in the region of AWS_REGION");
            }
            vec![("target", quoted(&format!("{target}/{model}")))]
        }
        None => vec![("target", quoted(&format!("{target}/{model}")))],
    }
}

/// The environment variable that holds the lane's key, where it is not the usual one of its target.
fn key_variable(way: Way, lane: &str, found: &Entry<'_>, has_base: bool, notes: &mut Notes) -> Option<String> {
    let catalog = match way {
        Way::Target(name) | Way::Engine(name) => provider(name),
        Way::Azure | Way::AzureFoundry => provider("azure"),
        // Their credentials are those of the environment; a key of Bedrock's is found by its usual name.
        Way::Bedrock | Way::Vertex | Way::Address(_) => None,
    };
    let usual = catalog.and_then(|row| row.key_env.first()).map(|name| (*name).to_owned());
    let is_engine = matches!(way, Way::Engine(_) | Way::Address(_));
    let given = found.api_key.and_then(|node| Some((node, text_of(node)?)));
    match given {
        Some((_, text)) if environment_name(&text).is_some() => environment_name(&text).map(str::to_owned),
        Some((_, text)) if NO_KEYS.contains(&text.to_lowercase().as_str()) => None,
        Some((node, _)) => {
            let own = lane.to_uppercase().replace(|symbol: char| !symbol.is_ascii_alphanumeric(), "_");
            let name = format!("{own}_KEY");
            notes.add(node, format_args!("the key of {lane} stands in the file itself: export it as {name}"));
            Some(name)
        }
        // At an address of its own the usual key has to be named.
        None => usual.filter(|_| has_base && !is_engine),
    }
}
