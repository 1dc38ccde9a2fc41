//! The board: what endpoints did for days, who is ahead and how sure that is, what changed.
//!
//! A store fills [`BoardData`]; everything else is worked out of it here.
//!
//! Architecture Invariant: everything here is a pure function of the data: no clock, no I/O; the same data give the same
//! bytes. Every text from outside is bounded and escaped before it is shown.

#![forbid(unsafe_code)]

mod data;

pub use data::{BoardData, Change, ChangeKind, Claim, EndpointPrice, Metric, Point, Prober, Series, Source};
