//! One stream measured in bounded memory, for whoever passes it on.
//!
//! It refuses to know clocks, sockets and dialects, and keeps no text. Invariant: what it says of a stream is what
//! [`crate::RequestMeter`] and [`crate::RequestNumbers`] would say; gap quantiles within a stated error.

mod gaps;

pub use gaps::GapSketch;
