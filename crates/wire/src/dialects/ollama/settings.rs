//! Settings of a translated request as fields of Ollama's requests, those of the sampler in `options`.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::translate::setting::{Effort, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => fields.set("format", quoted("json")),
        Setting::JsonSchema(schema) => fields.set("format", schema.schema.clone()),
        Setting::ReasoningEffort(Effort::None) => fields.set("think", "false".to_owned()),
        // `think` is a flag or one of three levels.
        Setting::ReasoningEffort(effort) => {
            fields.set("think", quoted((*effort).clamp(Effort::Low, Effort::High).name()));
        }
        // The level is more exact than the flag.
        Setting::IncludeReasoning if fields.has_effort => {}
        Setting::ReasoningBudget(_) | Setting::IncludeReasoning => fields.set("think", "true".to_owned()),
        // For the provider's records only.
        Setting::User(_) | Setting::Metadata(_) => {}
        Setting::Sampling(parameter, json) => fields.set_in("options", parameter.name(), json.clone()),
        Setting::NoParallelToolCalls | Setting::Verbosity(_) | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}
