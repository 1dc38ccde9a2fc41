//! Holds a finished answer against a rule of the configuration before its client gets any of it; of a model that was told how to write,
//! the client gets what is made of its answer.
//!
//! The rule itself comes from outside: the gateway knows for which aliases it is and what it says of an answer. Invariant: of an
//! alias with a rule no byte of an unchecked answer reaches a client.

use super::call::Entry;
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

    /// What the client gets in place of the answer of an attempt that ended well, if not the answer itself.
    ///
    /// # Errors
    /// Why the answer must not reach the client.
    pub fn checked(&self, attempt: &Attempt) -> Result<Option<Vec<u8>>, String> {
        let Some(check) = self.answer_check_of(&attempt.lane.config.name) else { return Ok(None) };
        if attempt.failure().is_some() {
            return Ok(None);
        }
        let routed = self.request.routed.as_ref().ok_or("what was asked for is no edit")?;
        let request = translate_request(routed, Dialect::OpenAiChat, MODEL, &self.request.body)
            .map_err(|error| format!("its answer cannot be checked: {error}"))?
            .body;
        let body = attempt.body.borrow();
        let Some(instructed) = self.request.instructed_for(&attempt.lane) else {
            return (check.check)(&request, body.text()).map(|()| None);
        };
        let text = (instructed.finish)(&request, body.text())?;
        let usage = attempt.measured().map(|measured| measured.usage).or(body.meter.usage());
        Ok(Some(self.request.encoded_answer(&text, usage, &attempt.lane.config.model)))
    }
}

impl Entry {
    /// Holds a whole answer against the rule of its alias, once; true if that was the end of the attempt.
    pub(super) fn check(&mut self, account: &Account) -> bool {
        if std::mem::replace(&mut self.is_checked, true) {
            return false;
        }
        match account.checked(&self.attempt) {
            Ok(None) => false,
            Ok(Some(bytes)) => {
                self.attempt.body.borrow_mut().replace(bytes);
                false
            }
            Err(why) => {
                self.attempt.cancel(account.shared.clock.now());
                self.attempt.reject(why);
                true
            }
        }
    }
}
