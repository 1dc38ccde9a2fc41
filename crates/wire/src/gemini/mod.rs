//! Gemini's generateContent and streamGenerateContent, both ways.
//!
//! It refuses to know framing and paths. Invariant: nothing in here returns an error for a broken answer; what does not fit
//! is counted and the rest is kept.

mod encode;
mod parts;
mod request;
mod said;
mod usage;

pub(crate) use encode::{CandidateWriter, refusal};
pub(crate) use request::{decode, encode};
pub(crate) use said::Candidates;
