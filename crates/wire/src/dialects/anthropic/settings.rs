//! Settings of a translated request as fields of Anthropic's messages.

use super::request::DEFAULT_MAX_TOKENS;
use crate::codec::{NO_PLACE, Unsupported, quoted};
use crate::remainder::Members;
use crate::translate::setting::{Effort, SamplingParameter, Setting};
use crate::translate::setting_fields::SettingFields;
use tokrate_core::{ChatRequest, ToolChoice};

pub(super) fn write(
    setting: &Setting,
    request: &mut ChatRequest,
    fields: &mut SettingFields,
) -> Result<(), Unsupported> {
    match setting {
        Setting::JsonObject => return Err("anthropic wants a schema for an answer in JSON".to_owned()),
        Setting::JsonSchema(schema) => {
            let mut own = Members::new();
            own.text("type", "json_schema");
            own.json("schema", &schema.schema);
            fields.set_in("output_config", "format", own.end());
        }
        Setting::ReasoningEffort(Effort::None) => fields.set("thinking", r#"{"type":"disabled"}"#.to_owned()),
        Setting::ReasoningEffort(effort) => {
            fields.set("thinking", r#"{"type":"adaptive"}"#.to_owned());
            // Anthropic's efforts begin at `low`.
            fields.set_in("output_config", "effort", quoted((*effort).max(Effort::Low).name()));
        }
        Setting::ReasoningBudget(tokens) => {
            // The limit must be above the budget, and leave room for an answer where none was set.
            let room = tokens.saturating_add(u64::from(DEFAULT_MAX_TOKENS));
            let room = u32::try_from(room).unwrap_or(u32::MAX);
            request.max_output_tokens = request.max_output_tokens.or(Some(room));
            fields.set("thinking", format!("{{\"type\":\"enabled\",\"budget_tokens\":{tokens}}}"));
        }
        // What the server shows, it shows unasked. The metadata are for the provider's records only.
        Setting::IncludeReasoning | Setting::Metadata(_) => {}
        Setting::NoParallelToolCalls => set_tool_choice(request.tool_choice.as_ref(), fields),
        Setting::User(user) => fields.set_in("metadata", "user_id", quoted(user)),
        Setting::Sampling(SamplingParameter::TopK, json) => fields.set("top_k", json.clone()),
        Setting::Sampling(_, _) | Setting::Verbosity(_) | Setting::ServiceTier(_) => return NO_PLACE,
    }
    Ok(())
}

/// The choice of a tool, with no more than one call.
fn set_tool_choice(choice: Option<&ToolChoice>, fields: &mut SettingFields) {
    let mut own = Members::new();
    let (kind, name) = match choice {
        None | Some(ToolChoice::Auto) => ("auto", None),
        Some(ToolChoice::Never) => return,
        Some(ToolChoice::Required) => ("any", None),
        Some(ToolChoice::Named(name)) => ("tool", Some(name)),
    };
    own.text("type", kind);
    if let Some(name) = name {
        own.text("name", name);
    }
    own.json("disable_parallel_tool_use", "true");
    fields.set("tool_choice", own.end());
}
