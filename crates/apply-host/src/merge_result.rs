//! An edit and its final result: merged by the engine, merged by a model and checked, or refused.
//!
//! Invariant: a model's text counts only after the engine has accepted it.

use serde::Serialize;
use tokrate_apply::{Code, Merged, Options, Outcome, ParseProvider, Refused, accept, merge_with_parse};

/// A file and the edit to merge into it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edit {
    /// The original file.
    pub original: String,
    /// The edit.
    pub update: String,
    /// Options of the merge.
    pub options: Options,
}

/// Who merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MergedBy {
    /// The engine.
    Deterministic,
    /// A model, whose text the engine has accepted.
    Model,
}

impl MergedBy {
    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            MergedBy::Deterministic => "deterministic",
            MergedBy::Model => "model",
        }
    }
}

/// Result of an edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergeResult {
    /// The whole file with the edit in it.
    Merged {
        /// Text, edits and checks.
        merged: Merged,
        /// Who merged.
        by: MergedBy,
    },
    /// Refused; nothing changes.
    Refused {
        /// Why.
        refused: Refused,
        /// Why the fallback model did not help; `None` if none was asked.
        fallback: Option<String>,
    },
}

impl MergeResult {
    /// Merges with the engine.
    pub fn by_engine(original: &[u8], update: &[u8], options: &Options) -> MergeResult {
        MergeResult::by_engine_with_tree(original, update, options, &mut |_| None)
    }

    /// The same, with the syntax tree of the original supplied.
    pub(crate) fn by_engine_with_tree(
        original: &[u8],
        update: &[u8],
        options: &Options,
        ahead: ParseProvider<'_>,
    ) -> MergeResult {
        match merge_with_parse(original, update, options, ahead) {
            Outcome::Merged(merged) => MergeResult::Merged { merged, by: MergedBy::Deterministic },
            Outcome::Refused(refused) => MergeResult::Refused { refused, fallback: None },
        }
    }

    /// The result after a model was asked: its text if accepted, else the original refusal.
    pub fn by_model(
        refused: Refused,
        answer: Result<String, String>,
        original: &[u8],
        update: &[u8],
        options: &Options,
    ) -> MergeResult {
        let accepted = answer.and_then(|text| {
            accept(original, update, &text, options)
                .map_err(|why| format!("the model's answer was not accepted: {}: {}", why.code.name(), why.message))
        });
        match accepted {
            Ok(merged) => MergeResult::Merged { merged, by: MergedBy::Model },
            Err(why) => MergeResult::Refused { refused, fallback: Some(why) },
        }
    }

    /// The status in every response: `deterministic`, `model`, `no_change` or `refused`.
    pub fn word(&self) -> &'static str {
        match self {
            MergeResult::Merged { merged, .. } if merged.is_unchanged() => "no_change",
            MergeResult::Merged { by, .. } => by.name(),
            MergeResult::Refused { .. } => "refused",
        }
    }
}

/// Whether a model may succeed where the engine refused.
pub(crate) fn model_may_help(code: Code) -> bool {
    !matches!(code, Code::NotText | Code::TooLarge | Code::NotAnEdit)
}
