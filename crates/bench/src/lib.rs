//! `tokrate bench`: plans load, carries it out, calibrates the client and reports.
//!
//! It refuses to know the command line, the terminal and the settings file: those belong to the binary.
//!
//! Architecture Invariant: no other part is known here; numbers are made by `meter`, bytes by `wire` and `net`.

mod bad_input;
mod bodies;
mod calibrate;
mod config;
mod drive;
mod endpoint;
mod error;
mod exchange;
pub mod forecast;
mod history;
mod job;
mod levels;
mod money;
mod patience;
pub mod plan;
mod probe;
mod progress;
pub mod prompts;
pub mod report;
mod run;
pub mod schedule;
mod scrape;
mod stop;
pub mod trace;
pub mod truth;
mod verdict;

pub use bad_input::BadInput;
pub use config::{Calibration, Config, Embedded, Limits, Remote, RequestOptions, ServerMetrics, Target};
pub use error::BenchError;
pub use levels::curve_of;
pub use progress::{Progress, Snapshot};
pub use run::{Observer, Place, run};
pub use stop::Stop;
