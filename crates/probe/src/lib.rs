//! Sends one request and records what came of it; shared by all parts that call a model.
//!
//! Scheduling and decoding are left to bench, gateway and race. Invariant: a request is processed by a server at most once; it is resent
//! only if its pooled connection had been closed before.

mod answer;
mod deliver;

pub use answer::{Answer, MAX_ERROR_BODY_BYTES};
pub use deliver::{Recipient, STALE_WITHIN, deliver};
