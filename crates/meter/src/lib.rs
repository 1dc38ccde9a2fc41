//! From the events of one request to its numbers: the request itself, live counting of a stream that is passed on, the
//! client's own error, and what a server says of itself. Events and ticks come in, figures go out; no sockets, clocks or files.
//!
//! Invariant: names mean what the glossary says, times stay whole nanoseconds until the last quotient, and what could not
//! be measured is absent with a reason, never 0.
//!
//! [`RequestMeter`] gathers one stream into a [`RequestTrace`] while the clock runs; [`RequestNumbers`] are worked out
//! afterwards, tokens counted over the whole text. [`LiveMeter`] keeps no text.

#![forbid(unsafe_code)]

mod client_bias;
mod client_error;
mod comfort;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod gaps;
mod live;
pub mod names;
mod pooled;
pub mod request;
#[cfg(feature = "schema")]
pub mod schema;
pub mod server_metrics;
mod stream;

pub use client_bias::{ClientBias, mean};
pub use client_error::{ClientError, ClientErrorSource, FigureValidity};
pub use comfort::Comfort;
pub use gaps::GapSketch;
pub use live::LiveMeter;
pub use pooled::Pool;
pub use request::{
    Anomalies, Arrival, AudioNumbers, BatchNumbers, CallMark, Called, Chunk, Ending, Failure, FailureRow, GivenUpBatch,
    GivenUpEnd, ImageTrace, MAX_TEXT_BYTES, Media, NOT_STREAMED, RequestMeter, RequestNumbers, RequestTrace,
    SoundTrace, Timing,
};
pub use stream::StreamNumbers;
