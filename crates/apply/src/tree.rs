//! Syntax trees: a bounded parse, and what a text declares.
//!
//! Invariant: without a grammar, or when the parse is too much work, there is no tree rather than half of one.

mod outline;
mod parse;
mod rules;

pub(crate) use outline::{Declaration, Outline, errors, head_without_block};
pub(crate) use parse::{parse, parse_again};
pub(crate) use rules::Kind;
