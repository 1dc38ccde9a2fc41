//! Deterministic simulation tests of the whole measuring path, in virtual nanoseconds.
//!
//! It refuses to know sockets, threads and real clocks: a [`world`] joins the machines that carry a number (plan, engine,
//! encoder, [`link`], decoder, meter) and jumps from one wake-up to the next. Invariant: a [`Scenario`] determines the
//! [`History`] in every nanosecond, and the [`checkers`] hold it against what the engine emitted, not against itself.

#![forbid(unsafe_code)]

pub mod capacity;
pub mod checkers;
pub mod fleet;
pub mod fooling;
pub mod gateway;
pub mod link;
pub mod scenarios;
pub mod seeds;
pub mod situations;
pub mod voice;
pub mod world;

pub use link::{Link, LinkLaw, Read};
pub use scenarios::{Limits, Scenario};
pub use situations::{Situation, Situations};
pub use voice::Voice;
pub use world::{Closing, Exchange, History, ReadMark, Written, run};
