//! Steps of agents as JSON Lines: an object a step.
//!
//! Invariant: a step that does not say what it waits for waits for the step of its session that stands before it.

use super::{Builder, NewStep, seconds};
use crate::trace::BLOCK_TOKENS;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    session: Text,
    step: Option<Text>,
    after: Option<Vec<Text>>,
    role: Option<String>,
    input_tokens: u64,
    output_tokens: u64,
    /// Tools and the agent's own time before it.
    #[serde(default)]
    wait_ms: f64,
    /// When the session begins; of its first step.
    #[serde(default)]
    at_ms: f64,
    #[serde(default)]
    hash_ids: Box<[u64]>,
    block_size: Option<u32>,
}

/// A name, which may be a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Name(String),
    Number(u64),
}

impl Text {
    fn into_name(self) -> String {
        match self {
            Text::Name(name) => name,
            Text::Number(number) => number.to_string(),
        }
    }
}

pub(super) fn read(value: Value, builder: &mut Builder) -> Result<(), String> {
    let line: Line = serde_json::from_value(value).map_err(|error| format!("an agent's step: {error}"))?;
    let session = builder.session(&line.session.into_name(), (line.at_ms * 1e6).round() as i128);
    let draft = &builder.sessions[session];
    let after = match line.after {
        None => (draft.steps.len() as u32).checked_sub(1).into_iter().collect(),
        Some(names) => {
            let place = |name: Text| {
                let name = name.into_name();
                draft.names.get(&name).copied().ok_or_else(|| {
                    format!("`after` to name steps of the session that stand before it, and `{name}` is none")
                })
            };
            names.into_iter().map(place).collect::<Result<Vec<u32>, String>>()?
        }
    };
    let name = line.step.map(Text::into_name);
    if let Some(name) = name.as_ref().filter(|name| draft.names.contains_key(*name)) {
        return Err(format!("a `step` of its own in its session, and `{name}` was there before"));
    }
    let step = NewStep {
        role: line.role.as_deref().unwrap_or("agent"),
        after,
        wait: seconds(line.wait_ms / 1e3),
        input_tokens: line.input_tokens,
        output_tokens: line.output_tokens,
        blocks: line.hash_ids,
        block_tokens: line.block_size.unwrap_or(BLOCK_TOKENS),
    };
    match builder.add(session, step)? {
        Some(place) => {
            builder.sessions[session].names.extend(name.map(|name| (name, place)));
            Ok(())
        }
        None => Err("an agent's step with at least one token of its prompt and its answer".to_owned()),
    }
}
