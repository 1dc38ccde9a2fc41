//! Secrets taken out of the body of an answer while it comes.
//!
//! It does not know what the body is. Invariant: a body without a secret passes byte for byte, and nothing of it is held back
//! but what may be the beginning of one at the end of a read; a secret is found however the body was cut.

use super::spelling::{beginning, masked};
use super::{MASK, Secrets};
use bytes::Bytes;
use std::borrow::Cow;

/// Fewer letters of a key at the end of a body tell nothing: what many keys begin with is known to everybody.
const LETTERS_LEAST: usize = 8;

/// Takes secrets out of one body.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: Secrets,
    /// What was sent for the answer. A secret that stands in there is no secret to whoever sent it, and taking it out of a
    /// file that a model was asked to change would spoil the file.
    request: Bytes,
    /// Whether `request` was looked through: only if the answer holds a secret.
    has_looked: bool,
    is_known: bool,
    /// The end of what came, which may be the beginning of a secret.
    held: Vec<u8>,
}

impl Redactor {
    /// For the answer to a request with this body.
    pub fn new(secrets: Secrets, request: Bytes) -> Redactor {
        Redactor { secrets, request, ..Redactor::default() }
    }

    /// The secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// What of the bytes that came last, and of those held back before, can go on.
    #[inline]
    pub fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.secrets.0.in_bodies.is_empty() || self.is_known {
            return Cow::Borrowed(bytes);
        }
        self.pass(bytes)
    }

    fn pass<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let mut text = match self.held.is_empty() {
            true => Cow::Borrowed(bytes),
            false => {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(bytes);
                Cow::Owned(held)
            }
        };
        if let Some(clean) = masked(&text, &self.secrets.0.in_bodies) {
            if self.knows_already() {
                return text;
            }
            text = Cow::Owned(clean);
        }
        if let Some(at) = beginning(&text, &self.secrets.0.in_bodies, 0) {
            self.held.extend_from_slice(&text[at..]);
            match &mut text {
                Cow::Borrowed(text) => *text = &text[..at],
                Cow::Owned(text) => text.truncate(at),
            }
        }
        text
    }

    /// The body ended: what was held back of it.
    pub fn end(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        match beginning(&held, &self.secrets.0.in_bodies, LETTERS_LEAST) {
            Some(at) if !self.knows_already() => [&held[..at], MASK].concat(),
            _ => held,
        }
    }

    fn knows_already(&mut self) -> bool {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.is_known = self.secrets.0.in_bodies.iter().any(|needle| needle.find(&self.request).is_some());
        }
        self.is_known
    }
}
