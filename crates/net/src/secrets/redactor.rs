//! Masks secrets in the body of an answer while it streams.
//!
//! Invariant: a body without a secret passes byte for byte, and nothing of it is held back but what may be the beginning of a secret at
//! the end of a read; a secret is found however the body is split.

use super::escapes::{cut_match, mask_all};
use super::{MASK, Secrets};
use bytes::Bytes;
use std::borrow::Cow;

/// Fewer letters of a key at the end of a body reveal nothing: common prefixes of keys are public.
const MIN_CUT_LETTERS: usize = 8;

/// Masks secrets in one body.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: Secrets,
    /// Body of the request. A secret in it is known to the client, and masking it would corrupt a file that a model edits.
    request: Bytes,
    /// Whether `request` was searched, which happens once the answer contains a secret.
    request_searched: bool,
    is_known: bool,
    /// End of the last read, which may be the beginning of a secret.
    held: Vec<u8>,
}

impl Redactor {
    /// For the answer to a request with this body.
    pub fn new(secrets: Secrets, request: Bytes) -> Redactor {
        Redactor { secrets, request, ..Redactor::default() }
    }

    /// Masks these as well, from now on.
    pub fn add(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.with(secrets);
    }

    /// The secrets.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The part of these and the held bytes that can be forwarded, masked.
    #[inline]
    pub fn push<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.secrets.0.in_bodies.is_empty() || self.is_known {
            return Cow::Borrowed(bytes);
        }
        self.redact(bytes)
    }

    fn redact<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let mut text = match self.held.is_empty() {
            true => Cow::Borrowed(bytes),
            false => {
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(bytes);
                Cow::Owned(held)
            }
        };
        if let Some(clean) = mask_all(&text, &self.secrets.0.in_bodies) {
            if self.is_in_request() {
                return text;
            }
            text = Cow::Owned(clean);
        }
        if let Some(at) = cut_match(&text, &self.secrets.0.in_bodies, 0) {
            self.held.extend_from_slice(&text[at..]);
            match &mut text {
                Cow::Borrowed(text) => *text = &text[..at],
                Cow::Owned(text) => text.truncate(at),
            }
        }
        text
    }

    /// The body ended: what was held back, masked.
    pub fn end(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        match cut_match(&held, &self.secrets.0.in_bodies, MIN_CUT_LETTERS) {
            Some(at) if !self.is_in_request() => [&held[..at], MASK].concat(),
            _ => held,
        }
    }

    fn is_in_request(&mut self) -> bool {
        if !std::mem::replace(&mut self.request_searched, true) {
            self.is_known = self.secrets.0.in_bodies.iter().any(|pattern| pattern.find(&self.request).is_some());
        }
        self.is_known
    }
}
