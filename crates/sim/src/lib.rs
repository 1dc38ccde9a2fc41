//! A simulated inference engine whose every emission is known to the nanosecond before it happens.
//!
//! It refuses to know sockets, wire formats and real time: requests come in with a tick, emissions go out with one.
//!
//! Architecture Invariant: a pure state machine. Law, faults, seed and the ticks of submissions and cancellations
//! determine the whole trace; how often the engine is polled does not.

mod emission;
mod engine;
mod faults;
mod law;
mod schedule;
mod script;
mod words;

pub use emission::{Emission, Emitted, Outcome, Refusal, RequestId, SimRequest};
pub use engine::{Engine, Stats};
pub use faults::{AtToken, Faults};
pub use law::{Law, LawError};
pub use schedule::Scheduler;
pub use words::{WORDS, Words};
