//! The types that every part of tokrate shares: time, units, money, stream events, requests, failures, conditions, sketches
//! and random numbers.
//!
//! Architecture Invariant: this crate depends on nothing but `std`, does no I/O, reads no clock and holds no global state.

mod buckets;
mod conditions;
mod date;
mod event;
mod failure;
pub mod format;
mod money;
mod request;
mod rng;
mod sketch;
mod text;
mod time;
mod units;

pub use buckets::{Buckets, Count};
pub use conditions::{Conditions, Fingerprint};
pub use date::{Date, parse_rfc3339, rfc3339};
pub use event::{
    Anomaly, Channel, EventBatch, EventKind, FinishReason, ServerTimings, SoundFormat, SoundPiece, StreamEvent,
    TextRange, TextRun, Usage,
};
pub use failure::FailureKind;
pub use money::{AudioTokens, BilledTokens, Money, Price};
pub use request::{ChatRequest, Content, Image, Message, Role, Tool, ToolChoice};
pub use rng::Rng;
pub use sketch::Sketch;
pub use text::{edit_distance, is_one_line, one_line, shell_word};
pub use time::{Span, Tick};
pub use units::{RequestsPerSecond, TokensPerSecond};
