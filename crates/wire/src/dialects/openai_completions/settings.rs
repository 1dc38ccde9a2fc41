//! Settings of a translated request as fields of text completions.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::translate::setting::{SamplingParameter, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::User(user) => fields.set("user", quoted(user)),
        // For the provider's records only.
        Setting::Metadata(_) => {}
        Setting::Sampling(SamplingParameter::FrequencyPenalty, json) => fields.set("frequency_penalty", json.clone()),
        Setting::Sampling(SamplingParameter::PresencePenalty, json) => fields.set("presence_penalty", json.clone()),
        Setting::Sampling(_, _)
        | Setting::JsonObject
        | Setting::JsonSchema(_)
        | Setting::ReasoningEffort(_)
        | Setting::ReasoningBudget(_)
        | Setting::IncludeReasoning
        | Setting::NoParallelToolCalls
        | Setting::Verbosity(_)
        | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}
