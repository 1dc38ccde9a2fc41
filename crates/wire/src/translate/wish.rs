//! What a client wishes beyond a conversation and a limit, and what every dialect says differently or not at all.
//!
//! It refuses to know how a wish is granted. Invariant: a value that is not understood is an error, and a value that asks
//! for what happens anyway is no wish.

use super::schema::in_json_schema;
use crate::dialect::Dialect;
use crate::object::{Object, read_array, read_text};

/// A wish, and where the request says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    pub(super) wish: Wish,
    pub(super) path: String,
}

/// One wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    /// The answer is to be a JSON object.
    Json,
    /// The answer is to follow a JSON Schema.
    Schema(Schema),
    /// How hard the model is to think, in OpenAI's words; `none` for not at all.
    Effort(String),
    /// How many tokens it may think.
    Budget(u64),
    /// Its thoughts are to be shown.
    ShowThoughts,
    /// Tools are to be called one by one.
    OneCallAtATime,
    /// Who the user is, for the provider's watch over abuse.
    User(String),
    /// Notes for the provider's records, as JSON.
    Metadata(String),
    /// A knob of the sampler and its value as JSON.
    Knob(Knob, String),
    /// How long the answer is to be, in OpenAI's words.
    Verbosity(String),
    /// A class of service other than the usual one.
    Tier(String),
}

/// Knobs of a sampler that not every server has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Knob {
    TopK,
    MinP,
    FrequencyPenalty,
    PresencePenalty,
    RepeatPenalty,
}

/// A JSON Schema for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Schema {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) schema: String,
    pub(super) strict: Option<bool>,
}

impl Schema {
    /// A schema of a dialect that gives it no name.
    fn nameless(schema: &str, strict: Option<bool>) -> Wish {
        Wish::Schema(Schema { name: "answer".to_owned(), description: None, schema: schema.to_owned(), strict })
    }
}

type Read = Result<Vec<Wish>, String>;

/// Reads the field at that path, whose value is not `null`; none if it asks for what happens anyway.
///
/// # Errors
/// What is wrong with the value, as half a sentence.
pub(super) fn read_wish(from: Dialect, path: &str, json: &str) -> Read {
    let name = path.rsplit('.').next().unwrap_or(path);
    match name {
        "response_format" => read_response_format(json),
        "format" if from == Dialect::OpenAiResponses => read_text_format(json),
        "format" if from == Dialect::Anthropic => read_output_format(json),
        "format" => read_ollama_format(json),
        "responseMimeType" | "response_mime_type" => match &*text(json)? {
            "text/plain" => Ok(Vec::new()),
            "application/json" => Ok(vec![Wish::Json]),
            _ => Err("only text/plain and application/json can be translated".to_owned()),
        },
        "responseSchema" | "response_schema" => Ok(vec![Schema::nameless(&in_json_schema(json), None)]),
        "responseJsonSchema" | "response_json_schema" | "json_schema" => Ok(vec![Schema::nameless(json, None)]),
        "reasoning_effort" | "effort" => Ok(vec![Wish::Effort(text(json)?)]),
        "thinkingLevel" | "thinking_level" => Ok(vec![Wish::Effort(text(json)?.to_ascii_lowercase())]),
        "thinking" => read_thinking(json),
        "thinkingBudget" | "thinking_budget" => read_budget(json),
        "think" => read_think(json),
        "includeThoughts" | "include_thoughts" => Ok(if flag(json)? { vec![Wish::ShowThoughts] } else { Vec::new() }),
        "summary" | "generate_summary" => Ok(vec![Wish::ShowThoughts]),
        "parallel_tool_calls" => Ok(if flag(json)? { Vec::new() } else { vec![Wish::OneCallAtATime] }),
        "disable_parallel_tool_use" => Ok(if flag(json)? { vec![Wish::OneCallAtATime] } else { Vec::new() }),
        "user" | "safety_identifier" | "user_id" => Ok(vec![Wish::User(text(json)?)]),
        "metadata" => Ok(vec![Wish::Metadata(json.to_owned())]),
        "verbosity" => Ok(unless(&["medium"], text(json)?).map(Wish::Verbosity).into_iter().collect()),
        "service_tier" => {
            let usual = ["auto", "default", "standard", "standard_only"];
            Ok(unless(&usual, text(json)?).map(Wish::Tier).into_iter().collect())
        }
        "context_management" => read_context_management(json),
        _ => read_knob(name, json),
    }
}

fn read_knob(name: &str, json: &str) -> Read {
    let (knob, nothing) = match name {
        "top_k" | "topK" => (Knob::TopK, "-1"),
        "min_p" => (Knob::MinP, "0"),
        "frequency_penalty" | "frequencyPenalty" => (Knob::FrequencyPenalty, "0"),
        "presence_penalty" | "presencePenalty" => (Knob::PresencePenalty, "0"),
        "repetition_penalty" | "repeat_penalty" => (Knob::RepeatPenalty, "1"),
        _ => return Err("it is not known what it means".to_owned()),
    };
    let number: f64 = json.parse().map_err(|_| "it must be a number".to_owned())?;
    let idle = nothing.parse().is_ok_and(|nothing: f64| nothing == number);
    Ok(if idle { Vec::new() } else { vec![Wish::Knob(knob, json.to_owned())] })
}

fn unless(usual: &[&str], word: String) -> Option<String> {
    (!usual.contains(&word.as_str())).then_some(word)
}

fn text(json: &str) -> Result<String, String> {
    let text = read_text(json).ok().flatten();
    text.map(String::from).ok_or_else(|| "it must be a string".to_owned())
}

fn flag(json: &str) -> Result<bool, String> {
    json.parse().map_err(|_| "it must be true or false".to_owned())
}

fn object(json: &str) -> Result<Object<'_>, String> {
    Object::read(json).ok().flatten().ok_or_else(|| "it must be an object".to_owned())
}

/// A field that is a text.
fn field(object: &Object<'_>, name: &str) -> Option<String> {
    object.text(name, &mut false).ok().flatten().map(String::from)
}

/// All fields of the object must be among these.
fn only(object: &Object<'_>, known: &[&str]) -> Result<(), String> {
    let other = object.fields().find(|(name, json)| !known.contains(name) && *json != "null");
    other.map_or(Ok(()), |(name, _)| Err(format!("its field `{name}` has no place elsewhere")))
}

fn read_response_format(json: &str) -> Read {
    let format = object(json)?;
    match field(&format, "type").as_deref() {
        Some("text") => Ok(Vec::new()),
        Some("json_object") => Ok(vec![Wish::Json]),
        Some("json_schema") => {
            only(&format, &["type", "json_schema"])?;
            read_schema(&object(format.get("json_schema").unwrap_or("{}"))?)
        }
        _ => Err("its type must be text, json_object or json_schema".to_owned()),
    }
}

fn read_text_format(json: &str) -> Read {
    let format = object(json)?;
    match field(&format, "type").as_deref() {
        Some("text") => Ok(Vec::new()),
        Some("json_object") => Ok(vec![Wish::Json]),
        Some("json_schema") => read_schema(&format),
        _ => Err("its type must be text, json_object or json_schema".to_owned()),
    }
}

fn read_schema(schema: &Object<'_>) -> Read {
    only(schema, &["type", "name", "description", "schema", "strict"])?;
    Ok(vec![Wish::Schema(Schema {
        name: field(schema, "name").unwrap_or_else(|| "answer".to_owned()),
        description: field(schema, "description"),
        schema: schema.get("schema").ok_or("it needs a schema")?.to_owned(),
        strict: schema.get("strict").map(flag).transpose()?,
    })])
}

/// The provider holds the model to the schema, as `strict` does elsewhere.
fn read_output_format(json: &str) -> Read {
    let format = object(json)?;
    only(&format, &["type", "schema"])?;
    match (field(&format, "type").as_deref(), format.get("schema")) {
        (Some("json_schema"), Some(schema)) => Ok(vec![Schema::nameless(schema, Some(true))]),
        _ => Err("its type must be json_schema, with a schema".to_owned()),
    }
}

fn read_ollama_format(json: &str) -> Read {
    match read_text(json).ok().flatten().as_deref() {
        Some("") => Ok(Vec::new()),
        Some("json") => Ok(vec![Wish::Json]),
        Some(_) => Err("it must be json or a schema".to_owned()),
        None => object(json).map(|_| vec![Schema::nameless(json, None)]),
    }
}

fn read_thinking(json: &str) -> Read {
    let thinking = object(json)?;
    only(&thinking, &["type", "budget_tokens", "display"])?;
    match field(&thinking, "type").as_deref() {
        // What happens anyway, in the dialect that says so.
        Some("disabled") => Ok(Vec::new()),
        Some("adaptive") => Ok(vec![Wish::ShowThoughts]),
        Some("enabled") => {
            let budget = thinking.get("budget_tokens").and_then(|json| json.parse().ok());
            Ok(vec![Wish::Budget(budget.ok_or("its budget_tokens must be a whole number")?), Wish::ShowThoughts])
        }
        _ => Err("its type must be enabled, adaptive or disabled".to_owned()),
    }
}

fn read_budget(json: &str) -> Read {
    match json {
        // As much as the model likes, which is what it does unasked.
        "-1" => Ok(Vec::new()),
        "0" => Ok(vec![Wish::Effort("none".to_owned())]),
        _ => Ok(vec![Wish::Budget(json.parse().map_err(|_| "it must be a whole number from -1".to_owned())?)]),
    }
}

fn read_think(json: &str) -> Read {
    match json {
        "true" => Ok(vec![Wish::ShowThoughts]),
        "false" => Ok(vec![Wish::Effort("none".to_owned())]),
        _ => Ok(vec![Wish::Effort(text(json)?)]),
    }
}

/// Earlier thoughts do not go to another dialect, so that clearing them is no wish there; anything else is.
fn read_context_management(json: &str) -> Read {
    let management = object(json)?;
    only(&management, &["edits"])?;
    for json in management.get("edits").map_or(Ok(None), read_array).ok().flatten().unwrap_or_default() {
        let kind = field(&object(json)?, "type").unwrap_or_default();
        if !kind.starts_with("clear_thinking") {
            return Err(format!("`{kind}` cannot be translated"));
        }
    }
    Ok(Vec::new())
}
