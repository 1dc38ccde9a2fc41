//! Sends one request and records what came of it, and makes the prompts that are made up; shared by all parts that call a model.
//!
//! Scheduling is left to bench, gateway, monitor and race. Invariant: a request is processed by a server at most once; it is resent
//! only if its pooled connection had been closed before.

mod answer;
mod deliver;
mod foreign;
mod measure;
mod realtime;
pub mod synthetic;

pub use answer::{Answer, MAX_ERROR_BODY_BYTES};
pub use deliver::{Recipient, STALE_WITHIN, deliver};
pub use measure::{AudioDecoder, Call, Measured};
pub use realtime::{RealtimeSession, RealtimeTurn};
