//! Settings of a translated request as fields of Cohere's chat, and those of its fields that are read in its own way.

use crate::codec::{NO_PLACE, Unsupported};
use crate::object::Object;
use crate::translate::setting::{Effort, JsonSchema, SamplingParameter, Setting, SettingsRead};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => fields.set_in("response_format", "type", "\"json_object\"".to_owned()),
        Setting::JsonSchema(schema) => {
            fields.set_in("response_format", "type", "\"json_object\"".to_owned());
            fields.set_in("response_format", "json_schema", schema.schema.clone());
        }
        Setting::ReasoningEffort(Effort::None) => fields.set("thinking", r#"{"type":"disabled"}"#.to_owned()),
        Setting::ReasoningBudget(tokens) => {
            fields.set("thinking", format!("{{\"type\":\"enabled\",\"token_budget\":{tokens}}}"));
        }
        // What the server shows, it shows unasked. The others are for the provider's records only.
        Setting::IncludeReasoning | Setting::User(_) | Setting::Metadata(_) => {}
        Setting::Sampling(parameter, json) => {
            let name = match parameter {
                SamplingParameter::TopK => "k",
                SamplingParameter::FrequencyPenalty => "frequency_penalty",
                SamplingParameter::PresencePenalty => "presence_penalty",
                SamplingParameter::MinP | SamplingParameter::RepeatPenalty => return NO_PLACE,
            };
            fields.set(name, json.clone());
        }
        Setting::ReasoningEffort(_)
        | Setting::NoParallelToolCalls
        | Setting::Verbosity(_)
        | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}

/// `response_format`, whose schema stands beside its type.
pub(super) fn read_format(json: &str) -> SettingsRead {
    let format = object(json)?;
    match (format.get("type"), format.get("json_schema")) {
        (Some("\"text\""), None) => Ok(Vec::new()),
        (Some("\"json_object\""), None) => Ok(vec![Setting::JsonObject]),
        (Some("\"json_object\""), Some(schema)) => Ok(vec![Setting::JsonSchema(JsonSchema {
            name: "answer".to_owned(),
            description: None,
            schema: schema.to_owned(),
            strict: Some(true),
        })]),
        _ => Err("its type must be text or json_object".to_owned()),
    }
}

/// `k`, which is off at 0.
pub(super) fn read_k(json: &str) -> SettingsRead {
    match json.parse::<u32>() {
        Ok(0) => Ok(Vec::new()),
        Ok(_) => Ok(vec![Setting::Sampling(SamplingParameter::TopK, json.to_owned())]),
        Err(_) => Err("it must be a whole number".to_owned()),
    }
}

/// `thinking`, which is on by default.
pub(super) fn read_thinking(json: &str) -> SettingsRead {
    let thinking = object(json)?;
    let budget = thinking.get("token_budget").map(str::parse).transpose();
    let budget = budget.map_err(|_| "its token_budget must be a whole number".to_owned())?;
    match (thinking.get("type"), budget) {
        (Some("\"disabled\""), _) => Ok(vec![Setting::ReasoningEffort(Effort::None)]),
        (Some("\"enabled\""), None) => Ok(vec![Setting::IncludeReasoning]),
        (Some("\"enabled\""), Some(tokens)) => Ok(vec![Setting::ReasoningBudget(tokens), Setting::IncludeReasoning]),
        _ => Err("its type must be enabled or disabled".to_owned()),
    }
}

fn object(json: &str) -> Result<Object<'_>, String> {
    Object::read(json).ok().flatten().ok_or_else(|| "it must be an object".to_owned())
}
