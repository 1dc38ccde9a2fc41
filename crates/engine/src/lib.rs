//! A scheduler as inference engines have it, in virtual time: which requests run in a step, which wait, what the key-value
//! cache holds. How long a step takes is asked of a [`StepTime`]; no clock is read.
//!
//! Invariant: the same requests in the same order give the same steps; cache blocks are taken and given back one by one, and
//! none is lost.

#![forbid(unsafe_code)]

mod args;
mod blocks;
mod cluster;
mod engine;
mod prefix;
mod request;
mod scheduler;
mod speculation;
mod step;

pub use args::{ArgsError, EngineArgs, Policy, Speculation};
pub use cluster::{Cluster, Transfer};
pub use engine::{Engine, EngineStats};
pub use prefix::Part;
pub use request::{Request, TooLarge};
pub use step::{Chunk, Emission, SharedTime, StepReport, StepTime, Work};
