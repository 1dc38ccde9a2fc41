//! Settings of a translated request as fields of llama.cpp's completion.

use crate::codec::{NO_PLACE, Unsupported};
use crate::translate::setting::Setting;
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonSchema(schema) => fields.set("json_schema", schema.schema.clone()),
        // For the provider's records only, and there is no provider.
        Setting::User(_) | Setting::Metadata(_) => {}
        Setting::Sampling(parameter, json) => fields.set(parameter.name(), json.clone()),
        Setting::JsonObject
        | Setting::ReasoningEffort(_)
        | Setting::ReasoningBudget(_)
        | Setting::IncludeReasoning
        | Setting::NoParallelToolCalls
        | Setting::Verbosity(_)
        | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}
