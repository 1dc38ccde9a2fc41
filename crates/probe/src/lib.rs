//! One request carried out, and what came of it: the same for every part that asks a model.
//!
//! It does not decode answers and does not decide when a request is sent: bench, gateway and race do. Invariant: a request reaches
//! a server that read it once; sent again is only what went into a connection that its server had closed before.

mod answer;
mod deliver;

pub use answer::{Answer, REFUSAL_BYTES_MOST};
pub use deliver::{Recipient, STALE_WITHIN, deliver};
