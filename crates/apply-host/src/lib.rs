//! The merge engine behind HTTP: OpenAI's chat completions, and the structured routes of services that merge edits; and the
//! messages of the Model Context Protocol ([`mcp`]).
//!
//! It refuses to know files and the command line. A request becomes an answer in [`Service`], which knows no sockets;
//! [`run`] puts it behind a server.
//!
//! Architecture Invariant: an answer with a status of success holds a whole file, and says in a header whether it was merged
//! or is the original; nothing is left unsaid when an edit was refused.

mod answer;
mod ask;
mod beside;
mod config;
mod diff;
mod error;
mod fallback;
pub mod mcp;
mod memory;
mod pages;
mod reply;
mod server;
mod service;
mod settled;
mod work;

pub use answer::Stamp;
pub use config::{HostConfig, OnRefuse};
pub use diff::unified_diff;
pub use error::ApplyHostError;
pub use fallback::{Fallback, FallbackConfig};
pub use reply::Reply;
pub use server::{Summary, run};
pub use service::{MODELS, Service};
pub use settled::{By, Edit, Settled};
