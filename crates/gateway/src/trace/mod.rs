//! Traces of calls: what is known of a call and its attempts until it has ended, and the queue to the thread that exports it.
//!
//! Spans are made where attempts are settled anyway, so nothing is recorded while an answer runs. Invariant: no call waits for an
//! export or for another call's trace; where traces are off, a call costs the look at one field; a trace holds names of the
//! configuration, numbers and identifiers, never a prompt, an answer or a key.

pub(crate) mod active;
pub(crate) mod context;
pub(crate) mod finished;
mod identity;
pub(crate) mod queue;
