//! The merge engine behind HTTP: OpenAI chat completions and the structured routes of merge services; and the messages of the Model
//! Context Protocol ([`mcp`]).
//!
//! [`Service`] turns a request into a response without sockets; [`run`] puts it behind a server.
//!
//! Architecture Invariant: a success response holds a whole file, and a header says whether it was merged or is the original; a refused
//! edit is always reported.

mod answer;
mod check;
mod config;
mod diff;
mod error;
mod fallback;
mod hash;
mod instructed;
pub mod mcp;
mod merge_result;
mod offload;
mod pages;
mod reply;
mod request;
mod server;
mod service;
mod summary;
mod text_cache;
mod work;

pub use answer::Stamp;
pub use check::check_answer;
pub use config::{HostConfig, OnRefuse};
pub use diff::unified_diff;
pub use error::ApplyHostError;
pub use fallback::{Fallback, FallbackConfig};
pub use hash::sha256;
pub use instructed::{INSTRUCTIONS, merge_answer, needs_instructions};
pub use merge_result::{Edit, MergeResult, MergedBy};
pub use reply::Reply;
pub use server::run;
pub use service::{MODELS, Service};
pub use summary::Summary;
