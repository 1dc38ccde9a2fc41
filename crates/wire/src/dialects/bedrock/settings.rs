//! Settings of a translated request as fields of Converse.
//!
//! What only some models have goes into the fields that Bedrock hands on to the model's own API, for models of Anthropic.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::remainder::Members;
use crate::translate::setting::{Effort, SamplingParameter, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

const ADDITIONAL: &str = "additionalModelRequestFields";
const OUTPUT: &str = "outputConfig";

pub(super) fn write(
    setting: &Setting,
    request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    let is_anthropic = request.model.contains("anthropic.");
    match setting {
        Setting::JsonObject => return Err("bedrock-converse wants a schema for an answer in JSON".to_owned()),
        Setting::JsonSchema(schema) => {
            let mut inside = Members::new();
            // Here the schema is a text.
            inside.text("schema", &schema.schema);
            inside.text("name", &schema.name);
            if let Some(description) = &schema.description {
                inside.text("description", description);
            }
            let format = format!(r#"{{"type":"json_schema","structure":{{"jsonSchema":{}}}}}"#, inside.end());
            fields.set_in(OUTPUT, "textFormat", format);
        }
        Setting::ReasoningEffort(Effort::None) if is_anthropic => {}
        Setting::ReasoningEffort(Effort::None) => return NO_PLACE,
        Setting::ReasoningEffort(effort) => {
            if is_anthropic {
                fields.set_in(ADDITIONAL, "thinking", r#"{"type":"adaptive"}"#.to_owned());
            }
            fields.set_in(OUTPUT, "effort", quoted((*effort).max(Effort::Low).name()));
        }
        Setting::ReasoningBudget(tokens) if is_anthropic => {
            fields.set_in(ADDITIONAL, "thinking", format!("{{\"type\":\"enabled\",\"budget_tokens\":{tokens}}}"));
        }
        // What the server shows, it shows unasked. The others are for the provider's records only.
        Setting::IncludeReasoning | Setting::Metadata(_) | Setting::User(_) => {}
        Setting::Sampling(SamplingParameter::TopK, json) if is_anthropic => {
            fields.set_in(ADDITIONAL, "top_k", json.clone());
        }
        Setting::ReasoningBudget(_)
        | Setting::Sampling(_, _)
        | Setting::NoParallelToolCalls
        | Setting::Verbosity(_)
        | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}
