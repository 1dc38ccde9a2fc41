//! Wishes in the words of the target.
//!
//! It refuses to know how they were said. Invariant: a wish is granted, or shown in `docs/dialects.md` not to change the
//! answer, or it is an error.

use super::wish::{Knob, Schema, Wanted, Wish};
use crate::dialect::Dialect;
use crate::remainder::Members;
use std::collections::BTreeMap;
use tokrate_core::{ChatRequest, ToolChoice};

/// Fields of the target, beside those that [`ChatRequest`] has a place for.
#[derive(Debug)]
pub(super) struct Grants {
    to: Dialect,
    top: Vec<(String, String)>,
    /// Fields that are objects of which several wishes write a part.
    groups: BTreeMap<&'static str, Vec<(&'static str, String)>>,
}

/// Grants what is wished.
///
/// # Errors
/// The wish that the target has no words for, and why.
pub(super) fn grant(
    to: Dialect,
    wishes: &[Wanted],
    request: &mut ChatRequest,
) -> Result<Vec<(String, String)>, (String, String)> {
    let has = |wanted: fn(&Wish) -> bool| wishes.iter().any(|other| wanted(&other.wish));
    let (schema, effort) = (has(|wish| matches!(wish, Wish::Schema(_))), has(|wish| matches!(wish, Wish::Effort(_))));
    let mut grants = Grants { to, top: Vec::new(), groups: BTreeMap::new() };
    for Wanted { wish, path } in wishes {
        match wish {
            // The narrower wish includes the wider one.
            Wish::Json if schema => {}
            Wish::Budget(_) if effort && to != Dialect::Anthropic => {}
            Wish::ShowThoughts if effort && matches!(to, Dialect::OllamaChat | Dialect::OllamaGenerate) => {}
            _ => grants.take(wish, request).map_err(|why| {
                let why = if why.is_empty() { format!("{} has no place for it", to.name()) } else { why };
                (path.clone(), why)
            })?,
        }
    }
    Ok(grants.end())
}

/// No place at all; the caller names the target.
const NOWHERE: Result<(), String> = Err(String::new());

impl Grants {
    fn top(&mut self, name: &str, json: String) {
        if !self.top.iter().any(|(other, _)| other == name) {
            self.top.push((name.to_owned(), json));
        }
    }

    fn within(&mut self, group: &'static str, name: &'static str, json: String) {
        let fields = self.groups.entry(group).or_default();
        if !fields.iter().any(|(other, _)| *other == name) {
            fields.push((name, json));
        }
    }

    fn end(self) -> Vec<(String, String)> {
        // Gemini's thinking stands within another group.
        let groups = self.groups.into_iter().filter(|(group, _)| *group != THINKING).map(|(group, fields)| {
            let mut members = Members::new();
            fields.iter().for_each(|(name, json)| members.json(name, json));
            (group.to_owned(), members.end())
        });
        self.top.into_iter().chain(groups).collect()
    }

    fn take(&mut self, wish: &Wish, request: &mut ChatRequest) -> Result<(), String> {
        use Dialect::*;
        match (wish, self.to) {
            (Wish::Json, _) => return self.json(),
            (Wish::Schema(schema), _) => return self.schema(schema),
            (Wish::Effort(effort), _) => return self.effort(effort),
            (Wish::Budget(budget), _) => return self.budget(*budget, request),
            (Wish::Knob(knob, json), _) => return self.knob(*knob, json),
            (Wish::ShowThoughts, Gemini) => self.thinking("includeThoughts", "true".to_owned()),
            (Wish::ShowThoughts, OllamaChat | OllamaGenerate) => self.top("think", "true".to_owned()),
            (Wish::ShowThoughts, OpenAiCompletions | LlamaCompletion) => return NOWHERE,
            // Nothing to be said: what the server shows, it shows unasked.
            (Wish::ShowThoughts, OpenAiChat | OpenAiResponses | Anthropic) => {}
            (Wish::OneCallAtATime, _) if request.tools.is_empty() => {}
            (Wish::OneCallAtATime, OpenAiChat | OpenAiResponses) => {
                self.top("parallel_tool_calls", "false".to_owned());
            }
            (Wish::OneCallAtATime, Anthropic) => self.one_call(request.tool_choice.as_ref()),
            (Wish::User(user), OpenAiChat | OpenAiResponses | OpenAiCompletions) => self.top("user", quoted(user)),
            (Wish::User(user), Anthropic) => self.within("metadata", "user_id", quoted(user)),
            // For records only.
            (Wish::User(_), _) => {}
            (Wish::Metadata(json), OpenAiResponses) => self.top("metadata", json.clone()),
            (Wish::Metadata(_), _) => {}
            (Wish::Verbosity(word), OpenAiChat) => self.top("verbosity", quoted(word)),
            (Wish::Verbosity(word), OpenAiResponses) => self.within("text", "verbosity", quoted(word)),
            (Wish::Tier(tier), OpenAiChat | OpenAiResponses) => self.top("service_tier", quoted(tier)),
            (Wish::OneCallAtATime | Wish::Verbosity(_) | Wish::Tier(_), _) => return NOWHERE,
        }
        Ok(())
    }

    fn json(&mut self) -> Result<(), String> {
        let object = r#"{"type":"json_object"}"#.to_owned();
        match self.to {
            Dialect::OpenAiChat => self.top("response_format", object),
            Dialect::OpenAiResponses => self.within("text", "format", object),
            Dialect::Gemini => self.within("generationConfig", "responseMimeType", quoted("application/json")),
            Dialect::OllamaChat | Dialect::OllamaGenerate => self.top("format", quoted("json")),
            Dialect::Anthropic => return Err("anthropic wants a schema for an answer in JSON".to_owned()),
            Dialect::OpenAiCompletions | Dialect::LlamaCompletion => return NOWHERE,
        }
        Ok(())
    }

    fn schema(&mut self, schema: &Schema) -> Result<(), String> {
        let mut own = Members::new();
        if matches!(self.to, Dialect::OpenAiResponses | Dialect::Anthropic) {
            own.text("type", "json_schema");
        }
        if self.to != Dialect::Anthropic {
            own.text("name", &schema.name);
            if let Some(description) = &schema.description {
                own.text("description", description);
            }
            if let Some(strict) = schema.strict {
                own.json("strict", if strict { "true" } else { "false" });
            }
        }
        own.json("schema", &schema.schema);
        let own = own.end();
        match self.to {
            Dialect::OpenAiChat => {
                self.top("response_format", format!("{{\"type\":\"json_schema\",\"json_schema\":{own}}}"));
            }
            Dialect::OpenAiResponses => self.within("text", "format", own),
            Dialect::Anthropic => self.within("output_config", "format", own),
            Dialect::Gemini => {
                self.within("generationConfig", "responseMimeType", quoted("application/json"));
                self.within("generationConfig", "responseJsonSchema", schema.schema.clone());
            }
            Dialect::OllamaChat | Dialect::OllamaGenerate => self.top("format", schema.schema.clone()),
            Dialect::LlamaCompletion => self.top("json_schema", schema.schema.clone()),
            Dialect::OpenAiCompletions => return NOWHERE,
        }
        Ok(())
    }

    fn effort(&mut self, effort: &str) -> Result<(), String> {
        let levels = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        let level = levels.iter().position(|level| *level == effort);
        let level = level.ok_or_else(|| format!("`{effort}` is not one of {}", levels.join(", ")))?;
        match self.to {
            Dialect::OpenAiChat => self.top("reasoning_effort", quoted(levels[level.min(5)])),
            Dialect::OpenAiResponses => self.within("reasoning", "effort", quoted(levels[level.min(5)])),
            Dialect::Anthropic if level == 0 => self.top("thinking", r#"{"type":"disabled"}"#.to_owned()),
            Dialect::Anthropic => {
                self.top("thinking", r#"{"type":"adaptive"}"#.to_owned());
                self.within("output_config", "effort", quoted(levels[level.max(2)]));
            }
            Dialect::Gemini => {
                // Google's own table for requests in OpenAI's words.
                let budget = [0, 1024, 1024, 8192, 24_576, 24_576, 24_576][level];
                self.thinking("thinkingBudget", budget.to_string());
            }
            Dialect::OllamaChat | Dialect::OllamaGenerate => {
                let think = if level == 0 { "false".to_owned() } else { quoted(levels[level.clamp(2, 4)]) };
                self.top("think", think);
            }
            Dialect::OpenAiCompletions | Dialect::LlamaCompletion => return NOWHERE,
        }
        Ok(())
    }

    fn budget(&mut self, budget: u64, request: &mut ChatRequest) -> Result<(), String> {
        let effort = match budget {
            0..=4096 => "low",
            4097..=16_384 => "medium",
            _ => "high",
        };
        match self.to {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => return self.effort(effort),
            Dialect::Anthropic => {
                // The limit must be above the budget, and leave room for an answer where none was set.
                let room = budget.saturating_add(u64::from(crate::anthropic::DEFAULT_MAX_TOKENS));
                let room = u32::try_from(room).unwrap_or(u32::MAX);
                request.max_output_tokens = request.max_output_tokens.or(Some(room));
                self.top("thinking", format!("{{\"type\":\"enabled\",\"budget_tokens\":{budget}}}"));
            }
            Dialect::Gemini => self.thinking("thinkingBudget", budget.to_string()),
            Dialect::OllamaChat | Dialect::OllamaGenerate => self.top("think", "true".to_owned()),
            Dialect::OpenAiCompletions | Dialect::LlamaCompletion => return NOWHERE,
        }
        Ok(())
    }

    /// A field of Gemini's `thinkingConfig`, which stands within another object.
    fn thinking(&mut self, name: &'static str, json: String) {
        self.within(THINKING, name, json);
        let mut config = Members::new();
        self.groups[THINKING].iter().for_each(|(name, json)| config.json(name, json));
        let generation = self.groups.entry("generationConfig").or_default();
        generation.retain(|(name, _)| *name != THINKING);
        generation.push((THINKING, config.end()));
    }

    fn one_call(&mut self, choice: Option<&ToolChoice>) {
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
        self.top("tool_choice", own.end());
    }

    fn knob(&mut self, knob: Knob, json: &str) -> Result<(), String> {
        use Dialect::*;
        let name = match (knob, self.to) {
            (Knob::TopK, Gemini) => "topK",
            (Knob::TopK, Anthropic | OllamaChat | OllamaGenerate | LlamaCompletion) => "top_k",
            (Knob::MinP, OllamaChat | OllamaGenerate | LlamaCompletion) => "min_p",
            (Knob::RepeatPenalty, OllamaChat | OllamaGenerate | LlamaCompletion) => "repeat_penalty",
            (Knob::FrequencyPenalty, Gemini) => "frequencyPenalty",
            (Knob::PresencePenalty, Gemini) => "presencePenalty",
            (Knob::FrequencyPenalty | Knob::PresencePenalty, Anthropic | OpenAiResponses) => return NOWHERE,
            (Knob::FrequencyPenalty, _) => "frequency_penalty",
            (Knob::PresencePenalty, _) => "presence_penalty",
            _ => return NOWHERE,
        };
        match self.to {
            Gemini => self.within("generationConfig", name, json.to_owned()),
            OllamaChat | OllamaGenerate => self.within("options", name, json.to_owned()),
            _ => self.top(name, json.to_owned()),
        }
        Ok(())
    }
}

const THINKING: &str = "thinkingConfig";

/// A text as JSON.
fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    crate::json_text::push_string(text, &mut json);
    String::from_utf8(json).expect("it was put together from a text")
}
