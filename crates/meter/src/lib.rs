//! From stream events to numbers: requests, runs, curves, records.

pub mod stats;
