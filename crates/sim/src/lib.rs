//! A simulated inference engine: a pure state machine that knows the time of every emission to the nanosecond.
//!
//! There are no sockets, wire formats or clocks here: requests come in with a tick, emissions go out with one.
//!
//! Architecture Invariant: law, faults, seed and the ticks of submissions and cancellations determine the whole trace; how
//! often the engine is polled does not.

mod background;
mod emission;
mod encoder;
mod engine;
mod faults;
mod law;
mod limits;
mod persona;
mod schedule;
mod scheduled;
mod script;
mod timetable;
mod words;

pub use background::Background;
pub use emission::{Emission, Emitted, Outcome, Refusal, RequestId, SimRequest, Timings};
pub use encoder::{Encoder, picture_tokens, sound_tokens};
pub use engine::{Engine, Stats};
pub use faults::{AtToken, Faults};
pub use law::{Law, LawError, Scheduler};
pub use limits::{Allowance, LimitStatus, Limits};
pub use persona::{Deviation, Persona};
pub use scheduled::Scheduled;
pub use timetable::{Change, Curve, Timetable};
pub use tokrate_engine::Part;
pub use words::{WORDS, Words};
