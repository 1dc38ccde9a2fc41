//! Settings of a translated request as fields of Gemini's requests, most of them in `generationConfig`.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::translate::setting::{Effort, SamplingParameter, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

const GENERATION: &str = "generationConfig";
const THINKING: &str = "thinkingConfig";

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => fields.set_in(GENERATION, "responseMimeType", quoted("application/json")),
        Setting::JsonSchema(schema) => {
            fields.set_in(GENERATION, "responseMimeType", quoted("application/json"));
            fields.set_in(GENERATION, "responseJsonSchema", schema.schema.clone());
        }
        Setting::ReasoningEffort(effort) => {
            fields.set_nested(GENERATION, THINKING, "thinkingBudget", budget_of(*effort).to_string());
        }
        Setting::ReasoningBudget(tokens) => {
            fields.set_nested(GENERATION, THINKING, "thinkingBudget", tokens.to_string());
        }
        Setting::IncludeReasoning => fields.set_nested(GENERATION, THINKING, "includeThoughts", "true".to_owned()),
        // For the provider's records only.
        Setting::User(_) | Setting::Metadata(_) => {}
        Setting::Sampling(parameter, json) => {
            let name = match parameter {
                SamplingParameter::TopK => "topK",
                SamplingParameter::FrequencyPenalty => "frequencyPenalty",
                SamplingParameter::PresencePenalty => "presencePenalty",
                SamplingParameter::MinP | SamplingParameter::RepeatPenalty => return NO_PLACE,
            };
            fields.set_in(GENERATION, name, json.clone());
        }
        Setting::NoParallelToolCalls | Setting::Verbosity(_) | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}

/// Google's own table for requests in OpenAI's words: https://ai.google.dev/gemini-api/docs/openai#thinking.
fn budget_of(effort: Effort) -> u32 {
    match effort {
        Effort::None => 0,
        Effort::Minimal | Effort::Low => 1024,
        Effort::Medium => 8192,
        Effort::High | Effort::ExtraHigh | Effort::Max => 24_576,
    }
}
