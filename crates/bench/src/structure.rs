//! Answers that a program reads: calls of tools, and JSON by a schema. What requests ask for, and whether the answer is that.
//!
//! Invariant: an answer is valid only if it was not cut off, and every call, or all of its text, was read and held against the whole schema.

use crate::bad_input::hash;
use serde_json::{Value, json};
use tokrate_core::{ChatRequest, FinishReason, Span, Tool};
use tokrate_meter::{Called, RequestNumbers, RequestTrace};
use tokrate_wire::{Dialect, JsonSchema, translate_request};

/// Tools where nobody names others: of the kinds that agents have, with arguments of a few to some dozen tokens.
const TOOLS: &str = include_str!("structure/tools.json");
/// A schema where nobody names another: an extraction from a text, with a list of records.
const SCHEMA: &str = include_str!("structure/schema.json");
/// Why an answer is invalid that met its limit, whatever it holds.
const CUT_OFF: &str = "the answer was cut off at its limit of tokens";
/// Longest reason of an invalid answer (bytes): places in a value are the model's own words.
const MAX_REASON_BYTES: usize = 120;

/// What answers are to be in place of free text, in the dialect of an endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Structure {
    kind: Kind,
    /// Name of the schemas: equal ones have equal names.
    name: String,
    /// The request of the endpoint's dialect that asks for it, without model and messages.
    request: Box<ChatRequest>,
}

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    /// At least one call of one of these, by name and schema.
    Tools(Vec<(String, JsonSchema)>),
    /// One text that is JSON.
    Json(JsonSchema),
}

impl Structure {
    /// Calls of tools, which are declared as in OpenAI's dialect (a JSON list); `None` for those of this program.
    ///
    /// # Errors
    /// What is wrong with them, or that the dialect cannot demand a call, as a sentence.
    pub fn tools(declared: Option<&str>, dialect: Dialect) -> Result<Structure, String> {
        let declared: Value =
            serde_json::from_str(declared.unwrap_or(TOOLS)).map_err(|error| format!("it is no JSON: {error}"))?;
        let list = declared.as_array().filter(|list| !list.is_empty()).ok_or("it is no list of tools")?;
        let tools = list.iter().map(tool_of).collect::<Result<Vec<_>, String>>()?;
        let request = in_dialect(dialect, json!({"tools": declared, "tool_choice": "required"}))?;
        let known = tools.into_iter().map(|(tool, schema)| (tool.name, schema)).collect();
        Ok(Structure { kind: Kind::Tools(known), name: name_of(&declared), request })
    }

    /// JSON by a schema; `None` for that of this program.
    ///
    /// # Errors
    /// What is wrong with it, or that the dialect cannot demand it, as a sentence.
    pub fn json(schema: Option<&str>, dialect: Dialect) -> Result<Structure, String> {
        let schema: Value =
            serde_json::from_str(schema.unwrap_or(SCHEMA)).map_err(|error| format!("it is no JSON: {error}"))?;
        let named = json!({"name": "answer", "strict": true, "schema": schema});
        let format = json!({"response_format": {"type": "json_schema", "json_schema": named}});
        let request = in_dialect(dialect, format)?;
        Ok(Structure { kind: Kind::Json(JsonSchema::new(schema.clone())?), name: name_of(&schema), request })
    }

    /// The task's name.
    pub fn task(&self) -> &'static str {
        match self.kind {
            Kind::Tools(_) => "tools",
            Kind::Json(_) => "json",
        }
    }

    /// Name of its schemas, as a condition of the result.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds to a request what asks for it.
    pub(crate) fn put_in(&self, request: &mut ChatRequest) {
        request.tools.clone_from(&self.request.tools);
        request.tool_choice.clone_from(&self.request.tool_choice);
        // A field that is given by hand counts.
        let given = |name: &str| request.extra.iter().any(|(known, _)| known == name);
        let more: Vec<_> = self.request.extra.iter().filter(|(name, _)| !given(name)).cloned().collect();
        request.extra.extend(more);
    }

    /// Sets of a request whether its answer is what was asked for, and when the last of it had come.
    pub(crate) fn judge(&self, trace: &RequestTrace, row: &mut RequestNumbers) {
        if !row.is_answered() {
            return;
        }
        let found = match &self.kind {
            // Nobody can know whether a further call was to come.
            _ if row.finish == Some(FinishReason::Length) => Err(CUT_OFF.to_owned()),
            Kind::Tools(tools) => judge_calls(tools, &trace.called()),
            Kind::Json(schema) => judge_json(schema, &trace.answer(), "the answer"),
        };
        match found {
            Ok(()) => {
                let since = |at: u64| row.sent_at_ns.map(|sent| Span::from_nanos(at.saturating_sub(sent)).as_nanos());
                let streamed = row.ttft_ns.and(row.last_text_at_ns).and_then(since);
                row.valid_ns = streamed.or(row.e2e_ns);
            }
            Err(why) => row.invalid = Some(tokrate_core::one_line(&why, MAX_REASON_BYTES)),
        }
    }
}

/// A declaration in OpenAI's form, with the schema of its arguments.
fn tool_of(declared: &Value) -> Result<(Tool, JsonSchema), String> {
    let function = &declared["function"];
    let name = function["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("a tool has no `function.name`; declare tools as OpenAI's chat completions do")?;
    let parameters = function.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let schema = JsonSchema::new(parameters.clone()).map_err(|error| format!("the tool `{name}`: {error}"))?;
    let tool = Tool {
        name: name.to_owned(),
        description: function["description"].as_str().map(str::to_owned),
        parameters: Some(parameters.to_string()),
    };
    Ok((tool, schema))
}

/// The same request in another dialect, as the gateway translates it.
fn in_dialect(dialect: Dialect, mut asked: Value) -> Result<Box<ChatRequest>, String> {
    asked["model"] = json!("m");
    asked["messages"] = json!([{"role": "user", "content": "x"}]);
    let body = asked.to_string();
    let translated = translate_request(&Dialect::OpenAiChat.into(), dialect, "m", body.as_bytes());
    translated.map(|translated| Box::new(translated.request)).map_err(|error| {
        format!("servers that speak {} cannot be asked for it: `{}`: {}", dialect.name(), error.field, error.why)
    })
}

/// A short name that equal values share.
fn name_of(value: &Value) -> String {
    format!("{:08x}", hash(&value.to_string()) >> 32)
}

fn judge_calls(tools: &[(String, JsonSchema)], calls: &[Called]) -> Result<(), String> {
    if calls.is_empty() {
        return Err("no tool was called".to_owned());
    }
    calls.iter().try_for_each(|call| {
        let known = tools.iter().find(|(name, _)| *name == call.name);
        let (name, schema) = known.ok_or_else(|| format!("a tool `{}` was called that was not offered", call.name))?;
        // A call without arguments is one with none.
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        judge_json(schema, arguments, &format!("the arguments of `{name}`"))
    })
}

fn judge_json(schema: &JsonSchema, text: &str, what: &str) -> Result<(), String> {
    let value: Value = serde_json::from_str(text).map_err(|_| match text.trim().is_empty() {
        true => format!("{what} is empty"),
        false => format!("{what} is no JSON"),
    })?;
    schema.check(&value).map_err(|violation| format!("{what}: {violation}"))
}

#[cfg(test)]
mod tests;
