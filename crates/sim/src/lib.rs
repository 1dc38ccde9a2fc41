//! A simulated inference engine whose every emission is known to the nanosecond before it happens.
//!
//! It refuses to know sockets, wire formats and real time: requests come in with a tick, emissions go out with one.
//!
//! Architecture Invariant: a pure state machine. Law, faults, seed and the ticks of submissions and cancellations
//! determine the whole trace; how often the engine is polled does not.

mod background;
mod emission;
mod engine;
mod faults;
mod law;
mod limits;
mod persona;
mod schedule;
mod script;
mod timetable;
mod words;

pub use background::Background;
pub use emission::{Emission, Emitted, Outcome, Refusal, RequestId, SimRequest, Timings};
pub use engine::{Engine, Stats};
pub use faults::{AtToken, Faults};
pub use law::{Law, LawError, Scheduler};
pub use limits::{Allowance, Left, Limits};
pub use persona::{Moment, Persona, Price};
pub use timetable::{Change, Curve, Timetable};
pub use words::{WORDS, Words};
