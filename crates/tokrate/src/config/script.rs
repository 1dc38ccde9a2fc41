//! The script of `tokrate sim --script`: what requests are answered with, by rules. Unknown keys are refused, and errors name line
//! and column.

use super::personas::placed;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::Path;
use tokrate_host::{AnswerScript, ScriptRule, ScriptedCall};
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    answer: Vec<Spanned<AnswerRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerRow {
    turn: Option<Spanned<u32>>,
    last: Option<String>,
    contains: Option<String>,
    offers: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<CallRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallRow {
    tool: Spanned<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
}

/// Reads a script.
pub fn read(path: &Path) -> Result<AnswerScript> {
    let text = reading::text_of(path, MAX_SETTINGS_BYTES)
        .with_context(|| format!("read the script {}; check --script", path.display()))?;
    parse(&text).with_context(|| format!("understand the script {}", path.display()))
}

fn parse(text: &str) -> Result<AnswerScript> {
    // toml's message names line and column and shows the line.
    let file: File = toml::from_str(text)?;
    if file.answer.is_empty() {
        return Err(placed(text, 0..0, "there is no [[answer]]; write one for each answer".to_owned()));
    }
    let rules = file.answer.into_iter().map(|row| rule(text, row)).collect::<Result<_>>()?;
    Ok(AnswerScript { rules })
}

fn rule(text: &str, row: Spanned<AnswerRow>) -> Result<ScriptRule> {
    let place = row.span();
    let AnswerRow { turn, last, contains, offers, text: said, calls } = row.into_inner();
    if said.is_empty() && calls.is_empty() {
        let message = "this [[answer]] says nothing; give it `text`, `calls` or both".to_owned();
        return Err(placed(text, place, message));
    }
    if let Some(turn) = turn.as_ref().filter(|turn| *turn.get_ref() == 0) {
        let message = "`turn` is 1 for the first answer of a conversation".to_owned();
        return Err(placed(text, turn.span(), message));
    }
    let mut scripted = Vec::with_capacity(calls.len());
    for CallRow { tool, arguments } in calls {
        if tool.get_ref().is_empty() {
            return Err(placed(text, tool.span(), "the tool has no name".to_owned()));
        }
        scripted.push(ScriptedCall { tool: tool.into_inner(), arguments: Value::Object(arguments).to_string() });
    }
    Ok(ScriptRule { turn: turn.map(Spanned::into_inner), last, contains, offers, text: said, calls: scripted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_is_understood() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agent-script.toml");
        let script = read(path.as_ref()).expect("it is an example");
        let calls: Vec<&ScriptedCall> = script.rules.iter().flat_map(|rule| &rule.calls).collect();
        assert!(calls.iter().any(|call| call.tool == "write" && call.arguments.contains("\"filePath\":")), "{calls:?}");
        assert!(
            script.rules.iter().any(|rule| rule.turn == Some(1)) && script.rules.iter().any(|rule| rule.last.is_some())
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        let refused = |text: &str| format!("{:#}", parse(text).expect_err(text));
        assert!(refused("").contains("no [[answer]]"));
        assert!(refused("\n[[answer]]\nturn = 1\n").starts_with("line 2, column 1: this [[answer]] says nothing"));
        assert!(refused("[[answer]]\ntext = \"a\"\nturn = 0\n").starts_with("line 3, column 8: `turn` is 1"));
        assert!(refused("[[answer]]\ncalls = [{ tool = \"\" }]\n").contains("line 2"));
        let unknown = refused("[[answer]]\ntxet = \"a\"\n");
        assert!(unknown.contains("line 2") && unknown.contains("txet"), "{unknown}");
        assert!(refused("[[answer]]\ntext = 1\n").contains("line 2"));
    }
}
