//! The faults that can be injected: what goes wrong, how often, and where in the answer.
//!
//! Invariant: the faults of a request depend on the seed and its number alone, not on other requests.

use crate::law::LawError;
use tokrate_core::Span;

/// The faults of an engine. All are off by default; each is drawn independently for every request.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    /// Probability that a request is refused with 429.
    pub rate_limited: f64,
    /// Retry-after time of a 429.
    pub retry_after: Span,
    /// Probability that a request is refused with a server error.
    pub server_error: f64,
    /// The status of a server error, 500 to 599.
    pub server_error_status: u16,
    /// The stream stops after this many tokens and never continues; it keeps its slot until it is cancelled.
    pub stall: AtToken,
    /// The connection breaks after this many tokens, when the next chunk is due.
    pub disconnect: AtToken,
    /// An event with invalid JSON comes after this many tokens; the stream continues.
    pub malformed: AtToken,
    /// An error event comes after this many tokens instead of the next chunk, then the end marker.
    pub error_event: AtToken,
    /// Probability that requested usage is not reported.
    pub missing_usage: f64,
    /// Probability of an answer without any text.
    pub empty: f64,
    /// Probability that the end marker is missing.
    pub no_done: f64,
    /// Probability that the answer is generated at normal speed but delivered at once at the end ("fake streaming").
    pub burst: f64,
    /// Probability that the text is the same for every request, whatever the prompt.
    pub replay: f64,
    /// Probability that the text begins with the same [`Words::START`](crate::Words::START) words, whatever the prompt.
    pub same_start: f64,
    /// Probability that the text repeats the same [`Words::LOOP`](crate::Words::LOOP) words over and over.
    pub repeat: f64,
    /// Probability that the answer names another model.
    pub other_model: f64,
    /// Probability that the answer stops by itself after a quarter to three quarters of the requested tokens.
    pub short: f64,
    /// Probability that 1.5 times the generated output tokens are reported.
    pub usage_inflated: f64,
    /// Probability that reasoning is generated and reported but never sent: the reasoning tokens of the law, or half of
    /// the answer if it has none.
    pub hidden_reasoning: f64,
}

/// A fault at a position in the answer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AtToken {
    /// Probability, per request.
    pub probability: f64,
    /// Output tokens before it; `None` to draw a position between the first token and the last. A number beyond the
    /// length of the answer means after the last token.
    pub token: Option<u32>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            rate_limited: 0.0,
            retry_after: Span::from_secs(1),
            server_error: 0.0,
            server_error_status: 500,
            stall: AtToken::default(),
            disconnect: AtToken::default(),
            malformed: AtToken::default(),
            error_event: AtToken::default(),
            missing_usage: 0.0,
            empty: 0.0,
            no_done: 0.0,
            burst: 0.0,
            replay: 0.0,
            same_start: 0.0,
            repeat: 0.0,
            other_model: 0.0,
            short: 0.0,
            usage_inflated: 0.0,
            hidden_reasoning: 0.0,
        }
    }
}

impl Faults {
    /// Names of all faults, as [`Faults::set`] parses them.
    pub const KINDS: [&'static str; 17] = [
        "rate_limited",
        "server_error",
        "stall",
        "disconnect",
        "malformed",
        "error_event",
        "missing_usage",
        "empty",
        "no_done",
        "burst",
        "replay",
        "repeat",
        "other_model",
        "short",
        "usage_inflated",
        "hidden_reasoning",
        "same_start",
    ];

    /// Parses one fault from `KIND=P`, `KIND@TOKEN=P`, or without `=P` for a probability of 1.
    ///
    /// # Errors
    /// [`LawError::Fault`] for an unknown kind, a position for a kind that has none, or an invalid number;
    /// [`LawError::Probability`] for one outside of 0 to 1.
    pub fn set(&mut self, text: &str) -> Result<(), LawError> {
        let wrong = |reason: &'static str| LawError::Fault { text: text.to_owned(), reason, kinds: &Self::KINDS };
        let (fault, probability) = match text.split_once('=') {
            None => (text, 1.0),
            Some((fault, number)) => {
                (fault, number.trim().parse().map_err(|_| wrong("the probability is not a number"))?)
            }
        };
        let (kind, token) = match fault.split_once('@') {
            None => (fault.trim(), None),
            Some((kind, token)) => {
                let token = token.trim().parse().map_err(|_| wrong("the token is not a whole number"))?;
                (kind.trim(), Some(token))
            }
        };
        let mut changed = self.clone();
        if let Some(placed) = changed.at_token_mut(kind) {
            *placed = AtToken { probability, token };
        } else {
            *changed.per_request_mut(kind).ok_or_else(|| wrong("there is no such kind"))? = probability;
            if token.is_some() {
                return Err(wrong("this kind has no place in the answer"));
            }
        }
        changed.check().map(|()| *self = changed)
    }

    /// These faults with every probability multiplied by `factor`, up to 1.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Faults {
        let mut faults = self.clone();
        for kind in Faults::KINDS {
            let probability = match faults.at_token_mut(kind) {
                Some(placed) => Some(&mut placed.probability),
                None => faults.per_request_mut(kind),
            };
            if let Some(probability) = probability {
                *probability = (*probability * factor).min(1.0);
            }
        }
        faults
    }

    /// Checks probabilities and the server error status.
    ///
    /// # Errors
    /// The first probability outside of 0 to 1, or a status outside of 500 to 599.
    pub fn check(&self) -> Result<(), LawError> {
        let probabilities = [
            self.rate_limited,
            self.server_error,
            self.stall.probability,
            self.disconnect.probability,
            self.malformed.probability,
            self.error_event.probability,
            self.missing_usage,
            self.empty,
            self.no_done,
            self.burst,
            self.replay,
            self.repeat,
            self.other_model,
            self.short,
            self.usage_inflated,
            self.hidden_reasoning,
            self.same_start,
        ];
        if let Some((name, value)) =
            Self::KINDS.into_iter().zip(probabilities).find(|(_, value)| !(0.0..=1.0).contains(value))
        {
            return Err(LawError::Probability { name, value });
        }
        match self.server_error_status {
            500..=599 => Ok(()),
            value => Err(LawError::Status { value }),
        }
    }

    fn at_token_mut(&mut self, kind: &str) -> Option<&mut AtToken> {
        match kind {
            "stall" => Some(&mut self.stall),
            "disconnect" => Some(&mut self.disconnect),
            "malformed" => Some(&mut self.malformed),
            "error_event" => Some(&mut self.error_event),
            _ => None,
        }
    }

    fn per_request_mut(&mut self, kind: &str) -> Option<&mut f64> {
        match kind {
            "rate_limited" => Some(&mut self.rate_limited),
            "server_error" => Some(&mut self.server_error),
            "missing_usage" => Some(&mut self.missing_usage),
            "empty" => Some(&mut self.empty),
            "no_done" => Some(&mut self.no_done),
            "burst" => Some(&mut self.burst),
            "replay" => Some(&mut self.replay),
            "repeat" => Some(&mut self.repeat),
            "other_model" => Some(&mut self.other_model),
            "short" => Some(&mut self.short),
            "usage_inflated" => Some(&mut self.usage_inflated),
            "hidden_reasoning" => Some(&mut self.hidden_reasoning),
            "same_start" => Some(&mut self.same_start),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_parsed_from_text() {
        let mut faults = Faults::default();
        for text in ["rate_limited=0.05", "disconnect@20=0.01", "stall", "no_done = 1", "malformed@0"] {
            faults.set(text).expect("well written");
        }
        let expected = Faults {
            rate_limited: 0.05,
            disconnect: AtToken { probability: 0.01, token: Some(20) },
            stall: AtToken { probability: 1.0, token: None },
            no_done: 1.0,
            malformed: AtToken { probability: 1.0, token: Some(0) },
            ..Faults::default()
        };
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_factor_scales_probabilities_up_to_one() {
        let mut faults = Faults::default();
        Faults::KINDS.iter().for_each(|kind| faults.set(&format!("{kind}=0.25")).expect("a kind"));
        let mut half = Faults::default();
        Faults::KINDS.iter().for_each(|kind| half.set(&format!("{kind}=0.5")).expect("a kind"));
        assert_eq!(faults.scaled(2.0), half);
        assert_eq!(faults.scaled(9.0).short, 1.0);
        assert_eq!(faults.scaled(0.0), Faults::default());
    }

    #[test]
    fn every_kind_can_be_set_and_nothing_else() {
        let mut faults = Faults::default();
        for kind in Faults::KINDS {
            let before = faults.clone();
            faults.set(&format!("{kind}=0.25")).expect("a kind");
            assert_ne!(faults, before, "{kind} changed nothing");
        }
        let before = faults.clone();
        for text in ["", "fire=0.1", "stall@x=0.1", "stall=", "burst@3=0.1", "burst=2", "stall=NaN", "stall@1=-1"] {
            assert!(faults.set(text).is_err(), "{text}");
        }
        assert_eq!(faults, before, "a refused fault changes nothing");
        assert!(Faults { server_error_status: 404, ..Faults::default() }.check().is_err());
        let message = faults.set("fire=0.1").expect_err("refused").to_string();
        assert!(message.starts_with("read the fault `fire=0.1`: there is no such kind; write KIND=P"), "{message}");
    }
}
