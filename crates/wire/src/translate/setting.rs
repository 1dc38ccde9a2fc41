//! Settings of a request beyond the conversation and the output limit: every dialect spells them differently or lacks them.
//!
//! Read here, written by each dialect. Invariant: a value that is not understood is an error, and a value that asks for the
//! default is no setting.

use super::schema::in_json_schema;
use crate::object::{Object, read_array, read_text};
use crate::remainder::Members;

/// A setting, and where the request has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LocatedSetting {
    pub(super) setting: Setting,
    pub(super) path: String,
}

/// One setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    /// The answer is to be a JSON object.
    JsonObject,
    /// The answer is to follow a JSON Schema.
    JsonSchema(JsonSchema),
    /// How hard the model is to reason.
    ReasoningEffort(Effort),
    /// How many tokens of reasoning it may write.
    ReasoningBudget(u64),
    /// The reasoning is to be sent as well.
    IncludeReasoning,
    /// Tools are to be called one by one.
    NoParallelToolCalls,
    /// Who the user is, for the provider's watch over abuse.
    User(String),
    /// Notes for the provider's records, as JSON.
    Metadata(String),
    /// A parameter of the sampler and its value as JSON.
    Sampling(SamplingParameter, String),
    /// How long the answer is to be: `low` or `high`.
    Verbosity(String),
    /// A service tier other than the default.
    ServiceTier(String),
}

/// How hard a model is to reason, by OpenAI's names, from the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    ExtraHigh,
    Max,
}

/// The efforts by their names, in order.
const EFFORTS: [(&str, Effort); 7] = [
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::ExtraHigh),
    ("max", Effort::Max),
];

impl Effort {
    fn parse(name: &str) -> Result<Effort, String> {
        let known = EFFORTS.iter().find(|(known, _)| *known == name).map(|(_, effort)| *effort);
        known.ok_or_else(|| format!("`{name}` is not one of {}", EFFORTS.map(|(known, _)| known).join(", ")))
    }

    /// The effort that corresponds to a budget of tokens, for dialects without budgets.
    pub(crate) fn of_budget(tokens: u64) -> Effort {
        match tokens {
            0..=4096 => Effort::Low,
            4097..=16_384 => Effort::Medium,
            _ => Effort::High,
        }
    }

    /// Its name in OpenAI's dialects.
    pub(crate) fn name(self) -> &'static str {
        EFFORTS[self as usize].0
    }
}

/// Parameters of a sampler that not every server has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SamplingParameter {
    TopK,
    MinP,
    FrequencyPenalty,
    PresencePenalty,
    RepeatPenalty,
}

impl SamplingParameter {
    /// The name that it has nearly everywhere.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SamplingParameter::TopK => "top_k",
            SamplingParameter::MinP => "min_p",
            SamplingParameter::FrequencyPenalty => "frequency_penalty",
            SamplingParameter::PresencePenalty => "presence_penalty",
            SamplingParameter::RepeatPenalty => "repeat_penalty",
        }
    }
}

/// A JSON Schema for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JsonSchema {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: String,
    pub(crate) strict: Option<bool>,
}

impl JsonSchema {
    /// A schema of a dialect that gives it no name.
    fn unnamed(schema: &str, strict: Option<bool>) -> Setting {
        Setting::JsonSchema(JsonSchema {
            name: "answer".to_owned(),
            description: None,
            schema: schema.to_owned(),
            strict,
        })
    }
}

impl JsonSchema {
    /// The schema as an object, as OpenAI has it, behind the members that are there already.
    pub(crate) fn push_members(&self, members: &mut Members) {
        members.text("name", &self.name);
        if let Some(description) = &self.description {
            members.text("description", description);
        }
        if let Some(strict) = self.strict {
            members.json("strict", if strict { "true" } else { "false" });
        }
        members.json("schema", &self.schema);
    }
}

/// The settings that a field holds, or what is wrong with its value, as half a sentence.
pub(crate) type SettingsRead = Result<Vec<Setting>, String>;

/// Reads the settings in the JSON of a field.
pub(crate) type ReadSetting = fn(json: &str) -> SettingsRead;

/// Reads the field at that path, whose value is not `null`; none if it asks for the default.
///
/// # Errors
/// What is wrong with the value, as half a sentence.
pub(super) fn read_setting(path: &str, json: &str) -> SettingsRead {
    let name = path.rsplit('.').next().unwrap_or(path);
    match name {
        "response_format" => read_response_format(json),
        "responseMimeType" | "response_mime_type" => match &*text(json)? {
            "text/plain" => Ok(Vec::new()),
            "application/json" => Ok(vec![Setting::JsonObject]),
            _ => Err("only text/plain and application/json can be translated".to_owned()),
        },
        "responseSchema" | "response_schema" => Ok(vec![JsonSchema::unnamed(&in_json_schema(json), None)]),
        "responseJsonSchema" | "response_json_schema" | "json_schema" => Ok(vec![JsonSchema::unnamed(json, None)]),
        "reasoning_effort" | "effort" => Ok(vec![Setting::ReasoningEffort(Effort::parse(&text(json)?)?)]),
        "thinkingLevel" | "thinking_level" => {
            Ok(vec![Setting::ReasoningEffort(Effort::parse(&text(json)?.to_ascii_lowercase())?)])
        }
        "thinking" => read_thinking(json),
        "thinkingBudget" | "thinking_budget" => read_budget(json),
        "think" => read_think(json),
        "includeThoughts" | "include_thoughts" => {
            Ok(if flag(json)? { vec![Setting::IncludeReasoning] } else { Vec::new() })
        }
        "summary" | "generate_summary" => Ok(vec![Setting::IncludeReasoning]),
        "parallel_tool_calls" => Ok(if flag(json)? { Vec::new() } else { vec![Setting::NoParallelToolCalls] }),
        "disable_parallel_tool_use" => Ok(if flag(json)? { vec![Setting::NoParallelToolCalls] } else { Vec::new() }),
        "user" | "safety_identifier" | "user_id" => Ok(vec![Setting::User(text(json)?)]),
        "metadata" => Ok(vec![Setting::Metadata(json.to_owned())]),
        "verbosity" => Ok(unless_default(&["medium"], text(json)?).map(Setting::Verbosity).into_iter().collect()),
        "service_tier" => {
            let defaults = ["auto", "default", "standard", "standard_only"];
            Ok(unless_default(&defaults, text(json)?).map(Setting::ServiceTier).into_iter().collect())
        }
        "context_management" => read_context_management(json),
        _ => read_sampling_parameter(name, json),
    }
}

fn read_sampling_parameter(name: &str, json: &str) -> SettingsRead {
    let (parameter, default) = match name {
        "top_k" | "topK" => (SamplingParameter::TopK, "-1"),
        "min_p" => (SamplingParameter::MinP, "0"),
        "frequency_penalty" | "frequencyPenalty" => (SamplingParameter::FrequencyPenalty, "0"),
        "presence_penalty" | "presencePenalty" => (SamplingParameter::PresencePenalty, "0"),
        "repetition_penalty" | "repeat_penalty" => (SamplingParameter::RepeatPenalty, "1"),
        _ => return Err("it is not known what it means".to_owned()),
    };
    let number: f64 = json.parse().map_err(|_| "it must be a number".to_owned())?;
    let is_default = default.parse().is_ok_and(|default: f64| default == number);
    Ok(if is_default { Vec::new() } else { vec![Setting::Sampling(parameter, json.to_owned())] })
}

fn unless_default(defaults: &[&str], word: String) -> Option<String> {
    (!defaults.contains(&word.as_str())).then_some(word)
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

fn read_response_format(json: &str) -> SettingsRead {
    let format = object(json)?;
    match field(&format, "type").as_deref() {
        Some("text") => Ok(Vec::new()),
        Some("json_object") => Ok(vec![Setting::JsonObject]),
        Some("json_schema") => {
            only(&format, &["type", "json_schema"])?;
            read_schema(&object(format.get("json_schema").unwrap_or("{}"))?)
        }
        _ => Err("its type must be text, json_object or json_schema".to_owned()),
    }
}

pub(crate) fn read_text_format(json: &str) -> SettingsRead {
    let format = object(json)?;
    match field(&format, "type").as_deref() {
        Some("text") => Ok(Vec::new()),
        Some("json_object") => Ok(vec![Setting::JsonObject]),
        Some("json_schema") => read_schema(&format),
        _ => Err("its type must be text, json_object or json_schema".to_owned()),
    }
}

fn read_schema(schema: &Object<'_>) -> SettingsRead {
    only(schema, &["type", "name", "description", "schema", "strict"])?;
    Ok(vec![Setting::JsonSchema(JsonSchema {
        name: field(schema, "name").unwrap_or_else(|| "answer".to_owned()),
        description: field(schema, "description"),
        schema: schema.get("schema").ok_or("it needs a schema")?.to_owned(),
        strict: schema.get("strict").map(flag).transpose()?,
    })])
}

/// The provider holds the model to the schema, as `strict` does elsewhere.
pub(crate) fn read_output_format(json: &str) -> SettingsRead {
    let format = object(json)?;
    only(&format, &["type", "schema"])?;
    match (field(&format, "type").as_deref(), format.get("schema")) {
        (Some("json_schema"), Some(schema)) => Ok(vec![JsonSchema::unnamed(schema, Some(true))]),
        _ => Err("its type must be json_schema, with a schema".to_owned()),
    }
}

pub(crate) fn read_ollama_format(json: &str) -> SettingsRead {
    match read_text(json).ok().flatten().as_deref() {
        Some("") => Ok(Vec::new()),
        Some("json") => Ok(vec![Setting::JsonObject]),
        Some(_) => Err("it must be json or a schema".to_owned()),
        None => object(json).map(|_| vec![JsonSchema::unnamed(json, None)]),
    }
}

fn read_thinking(json: &str) -> SettingsRead {
    let thinking = object(json)?;
    only(&thinking, &["type", "budget_tokens", "display"])?;
    match field(&thinking, "type").as_deref() {
        // The default of the dialect.
        Some("disabled") => Ok(Vec::new()),
        Some("adaptive") => Ok(vec![Setting::IncludeReasoning]),
        Some("enabled") => {
            let budget = thinking.get("budget_tokens").and_then(|json| json.parse().ok());
            Ok(vec![
                Setting::ReasoningBudget(budget.ok_or("its budget_tokens must be a whole number")?),
                Setting::IncludeReasoning,
            ])
        }
        _ => Err("its type must be enabled, adaptive or disabled".to_owned()),
    }
}

fn read_budget(json: &str) -> SettingsRead {
    match json {
        // As much as the model likes, which is what it does unasked.
        "-1" => Ok(Vec::new()),
        "0" => Ok(vec![Setting::ReasoningEffort(Effort::None)]),
        _ => Ok(vec![Setting::ReasoningBudget(
            json.parse().map_err(|_| "it must be a whole number from -1".to_owned())?,
        )]),
    }
}

fn read_think(json: &str) -> SettingsRead {
    match json {
        "true" => Ok(vec![Setting::IncludeReasoning]),
        "false" => Ok(vec![Setting::ReasoningEffort(Effort::None)]),
        _ => Ok(vec![Setting::ReasoningEffort(Effort::parse(&text(json)?)?)]),
    }
}

/// Earlier reasoning does not go to another dialect, so that clearing them is no setting there; anything else is.
fn read_context_management(json: &str) -> SettingsRead {
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
