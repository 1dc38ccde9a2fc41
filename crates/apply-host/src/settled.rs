//! An edit, and what it came to in the end: merged by the engine, merged by a model and checked, or refused.
//!
//! It refuses to know how a model is asked. Invariant: a model's text counts only after the engine has accepted it.

use serde::Serialize;
use tokrate_apply::{Ahead, Code, Merged, Options, Outcome, Refused, accept, merge_beside};

/// A file and what is to be merged into it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edit {
    /// The file as it is.
    pub original: String,
    /// What is to change.
    pub update: String,
    /// What else is known.
    pub options: Options,
}

/// Who merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The engine.
    Deterministic,
    /// A model, whose text the engine has accepted.
    Model,
}

impl By {
    /// The name used in answers.
    pub const fn name(self) -> &'static str {
        match self {
            By::Deterministic => "deterministic",
            By::Model => "model",
        }
    }
}

/// What an edit came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Settled {
    /// The whole file with the edit in it.
    Merged {
        /// Text, edits and checks.
        merged: Merged,
        /// Who merged.
        by: By,
    },
    /// Nothing changes.
    Refused {
        /// Why.
        refused: Refused,
        /// Why the model that was asked did not help; `None` if none was asked.
        fallback: Option<String>,
    },
}

impl Settled {
    /// Lets the engine merge.
    pub fn by_engine(original: &[u8], update: &[u8], options: &Options) -> Settled {
        Settled::by_engine_beside(original, update, options, &mut |_| None)
    }

    /// The same, with the tree of the original from elsewhere.
    pub(crate) fn by_engine_beside(original: &[u8], update: &[u8], options: &Options, ahead: Ahead<'_>) -> Settled {
        match merge_beside(original, update, options, ahead) {
            Outcome::Merged(merged) => Settled::Merged { merged, by: By::Deterministic },
            Outcome::Refused(refused) => Settled::Refused { refused, fallback: None },
        }
    }

    /// What a refusal comes to after a model was asked: its text if that is accepted, else the refusal as it was.
    pub fn by_model(
        refused: Refused,
        answer: Result<String, String>,
        original: &[u8],
        update: &[u8],
        options: &Options,
    ) -> Settled {
        let accepted = answer.and_then(|text| {
            accept(original, update, &text, options)
                .map_err(|why| format!("the model's answer was not accepted: {}: {}", why.code.name(), why.message))
        });
        match accepted {
            Ok(merged) => Settled::Merged { merged, by: By::Model },
            Err(why) => Settled::Refused { refused, fallback: Some(why) },
        }
    }

    /// The word that every answer carries: who merged, or that nobody did.
    pub fn word(&self) -> &'static str {
        match self {
            Settled::Merged { by, .. } => by.name(),
            Settled::Refused { .. } => "refused",
        }
    }
}

/// Whether a model could do better than the engine.
pub(crate) fn worth_asking(code: Code) -> bool {
    !matches!(code, Code::NotText | Code::TooLarge | Code::NotAnEdit)
}
