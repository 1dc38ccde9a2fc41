//! Holds a finished answer against a rule of the configuration before its client gets any of it.
//!
//! The rule itself comes from outside: the gateway knows for which aliases it is and what it says of an answer. Invariant: of an
//! alias with a rule no byte of an unchecked answer reaches a client.

use crate::config::AnswerCheck;
use crate::settle::account::Account;
use crate::upstream::attempt::Attempt;
use tokrate_wire::{Dialect, translate_request};

/// The model in requests as the rule gets them; it knows none of the lanes'.
const MODEL: &str = "apply";

impl Account {
    /// The rule that answers of this call are held against.
    pub fn answer_check(&self) -> Option<&AnswerCheck> {
        self.plan.answer_check.as_ref().filter(|check| check.aliases.contains(&self.alias.name))
    }

    /// The rule that answers of a lane are held against.
    pub fn answer_check_of(&self, lane: &str) -> Option<&AnswerCheck> {
        self.answer_check().filter(|check| !check.exempt.iter().any(|exempt| exempt == lane))
    }

    /// Why the answer of an attempt that ended well must not reach the client.
    pub fn rejection(&self, attempt: &Attempt) -> Option<String> {
        let check = self.answer_check_of(&attempt.lane.config.name)?;
        if attempt.failure().is_some() {
            return None;
        }
        let Some(routed) = &self.request.routed else { return Some("what was asked for is no edit".to_owned()) };
        let request = match translate_request(routed, Dialect::OpenAiChat, MODEL, &self.request.body) {
            Ok(translated) => translated.body,
            Err(error) => return Some(format!("its answer cannot be checked: {error}")),
        };
        let body = attempt.body.borrow();
        (check.check)(&request, body.text()).err()
    }
}
