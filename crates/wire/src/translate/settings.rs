//! The settings of a request in the fields of the target.
//!
//! Invariant: a setting is written, or shown in `docs/dialects.md` not to change the answer, or it is an error.

use super::setting::{LocatedSetting, Setting};
use super::setting_fields::SettingFields;
use crate::dialect::Dialect;
use tokrate_core::ChatRequest;

/// Writes the settings as fields of the target.
///
/// # Errors
/// The path of the setting that the target has no field for, and why.
pub(super) fn write_settings(
    to: Dialect,
    settings: &[LocatedSetting],
    request: &mut ChatRequest,
) -> Result<Vec<(String, String)>, (String, String)> {
    let has = |wanted: fn(&Setting) -> bool| settings.iter().any(|other| wanted(&other.setting));
    let has_schema = has(|setting| matches!(setting, Setting::JsonSchema(_)));
    let has_effort = has(|setting| matches!(setting, Setting::ReasoningEffort(_)));
    let takes_both = to.descriptor().request.reasoning_effort_and_budget;
    let mut fields = SettingFields::new(has_effort);
    for LocatedSetting { setting, path } in settings {
        match setting {
            // The narrower setting includes the wider one.
            Setting::JsonObject if has_schema => {}
            Setting::ReasoningBudget(_) if has_effort && !takes_both => {}
            Setting::NoParallelToolCalls if request.tools.is_empty() => {}
            _ => (to.codec().write_setting)(setting, request, &mut fields).map_err(|why| {
                let why = if why.is_empty() { format!("{} has no place for it", to.name()) } else { why };
                (path.clone(), why)
            })?,
        }
    }
    Ok(fields.into_fields())
}
