//! Settings of a translated request as fields of the Responses API.

use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::remainder::Members;
use crate::translate::setting::{Effort, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::ChatRequest;

pub(super) fn write(
    setting: &Setting,
    _request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => fields.set_in("text", "format", r#"{"type":"json_object"}"#.to_owned()),
        Setting::JsonSchema(schema) => {
            let mut own = Members::new();
            own.text("type", "json_schema");
            schema.push_members(&mut own);
            fields.set_in("text", "format", own.end());
        }
        Setting::ReasoningEffort(effort) => set_effort(*effort, fields),
        Setting::ReasoningBudget(tokens) => set_effort(Effort::of_budget(*tokens), fields),
        // What the server shows, it shows unasked.
        Setting::IncludeReasoning => {}
        Setting::NoParallelToolCalls => fields.set("parallel_tool_calls", "false".to_owned()),
        Setting::User(user) => fields.set("user", quoted(user)),
        Setting::Metadata(json) => fields.set("metadata", json.clone()),
        Setting::Sampling(_, _) => return NO_PLACE,
        Setting::Verbosity(word) => fields.set_in("text", "verbosity", quoted(word)),
        Setting::ServiceTier(tier) => fields.set("service_tier", quoted(tier)),
    }
    Ok(())
}

/// OpenAI's efforts end at `xhigh`.
fn set_effort(effort: Effort, fields: &mut SettingFields) {
    fields.set_in("reasoning", "effort", quoted(effort.min(Effort::ExtraHigh).name()));
}
