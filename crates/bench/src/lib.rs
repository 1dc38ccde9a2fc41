//! `tokrate bench`: plans load, runs it, calibrates the client and builds reports. Command line, terminal and settings file
//! belong to the binary.
//!
//! Architecture Invariant: nothing here measures or speaks HTTP by itself; numbers come from `meter`, bytes from `wire` and
//! `net`.
//!
//! Architecture Invariant: no other part is known here; numbers are made by `meter`, bytes by `wire` and `net`.

mod abort;
mod adapters;
mod advice;
pub mod agents;
mod arrivals;
mod attachments;
mod audio;
mod bad_input;
mod batch;
mod bodies;
mod calibrate;
pub mod clients;
mod config;
mod cost_limit;
mod drive;
mod endpoint;
mod error;
mod exchange;
pub mod forecast;
mod gpu_source;
pub mod ground_truth;
mod history;
mod job;
mod levels;
mod page_reader;
pub mod plan;
mod probe;
mod probe_request;
mod progress;
pub mod prompts;
mod readings;
mod realtime;
pub mod report;
mod run;
mod sampler;
pub mod schedule;
mod scrape;
mod shown_figures;
mod stop;
mod structure;
mod tool_turns;
pub mod trace;
mod warnings;
mod watched;

pub use adapters::Adapters;
pub use arrivals::{ArrivalRow, RequestArrivals};
pub use attachments::{Attachments, ImagesAsked, PictureFiles, Pictures, SizeShare};
pub use audio::{AudioTask, Clip, Clips, Realtime, Speech, Transcription};
pub use bad_input::BadInput;
pub use batch::{check_notes, left_by_batches};
pub use config::{
    BatchOptions, Calibration, Config, Embedded, Items, Limits, Remote, RequestOptions, Sampling, ServerMetrics, Target,
};
pub use cost_limit::check_cost_limit;
pub use endpoint::planned_conditions;
pub use error::BenchError;
pub use gpu_source::GpuSource;
pub use levels::curve_of;
pub use progress::{Progress, Snapshot};
pub use readings::LatestReadings;
pub use run::{Observer, PhasePosition, run};
pub use stop::Stop;
pub use structure::Structure;
pub use tool_turns::ToolTurns;
pub use warnings::is_unchecked;
pub use watched::{FigureCounts, Figures, WorkerLoad};
