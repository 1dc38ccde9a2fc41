//! What changed in series of measurements: since when, by how much and how sure that is.
//!
//! Samples in, events out; time is that of the samples.

#![forbid(unsafe_code)]

mod baseline;
mod cycle;
mod detector;
mod errors;
mod event;
mod level;
mod sample;
mod series;
mod shift;
mod stream;
mod tracker;

pub use detector::Detector;
pub use event::{ChangeKind, Event};
pub use level::FalseAlarms;
pub use sample::{Sample, Source};
pub use stream::{StreamChange, StreamWatch};
