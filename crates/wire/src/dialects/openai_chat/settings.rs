//! Settings of a translated request as fields of chat completions.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::remainder::Members;
use crate::translate::setting::{Effort, SamplingParameter, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => fields.set("response_format", r#"{"type":"json_object"}"#.to_owned()),
        Setting::JsonSchema(schema) => {
            let mut own = Members::new();
            schema.push_members(&mut own);
            fields.set("response_format", format!("{{\"type\":\"json_schema\",\"json_schema\":{}}}", own.end()));
        }
        Setting::ReasoningEffort(effort) => set_effort(*effort, fields),
        Setting::ReasoningBudget(tokens) => set_effort(Effort::of_budget(*tokens), fields),
        // What the server shows, it shows unasked. The metadata are for the provider's records only.
        Setting::IncludeReasoning | Setting::Metadata(_) => {}
        Setting::NoParallelToolCalls => fields.set("parallel_tool_calls", "false".to_owned()),
        Setting::User(user) => fields.set("user", quoted(user)),
        Setting::Sampling(SamplingParameter::FrequencyPenalty, json) => fields.set("frequency_penalty", json.clone()),
        Setting::Sampling(SamplingParameter::PresencePenalty, json) => fields.set("presence_penalty", json.clone()),
        Setting::Sampling(_, _) => return NO_PLACE,
        Setting::Verbosity(word) => fields.set("verbosity", quoted(word)),
        Setting::ServiceTier(tier) => fields.set("service_tier", quoted(tier)),
    }
    Ok(())
}

/// OpenAI's efforts end at `xhigh`.
fn set_effort(effort: Effort, fields: &mut SettingFields) {
    fields.set("reasoning_effort", quoted(effort.min(Effort::ExtraHigh).name()));
}
