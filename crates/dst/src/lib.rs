//! Deterministic simulation tests of the whole measuring path, in virtual nanoseconds.
//!
//! A [`world`] connects the state machines that a measurement passes through (plan, engine, encoder, [`link`], decoder,
//! meter) and jumps from one wake-up to the next; there are no sockets, threads or real clocks. Invariant: a [`Scenario`]
//! determines the [`History`] to the nanosecond, and the [`checkers`] compare it with what the engine emitted, not with
//! itself.

#![forbid(unsafe_code)]

pub mod caching;
pub mod capacity;
pub mod checkers;
pub mod fleet;
pub mod gateway;
pub mod integrity;
pub mod link;
pub mod monitor;
pub mod ranks;
pub mod scenarios;
pub mod seeds;
pub mod situations;
pub mod text_style;
pub mod until;
pub mod world;

pub use link::{Link, LinkLaw, Read};
pub use scenarios::{Limits, Scenario};
pub use situations::{Situation, Situations};
pub use text_style::TextStyle;
pub use world::{Closing, Exchange, History, ReadMark, Written, run};
