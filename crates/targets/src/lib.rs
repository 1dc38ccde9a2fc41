//! From what a user named to where requests go: a target's name or URL becomes dialect, base URL, headers, key and model; and which
//! settings files may say so.
//!
//! Files and the environment are read on demand only. Invariant: the environment comes in as [`Variables`], and no key is ever printed.

#![forbid(unsafe_code)]

mod error;
mod headers;
mod hosted;
mod key;
mod key_reference;
mod models;
pub mod reading;
mod resolve;
pub mod trust;

pub use error::TargetError;
pub use headers::{HeaderError, header, key_header};
pub use key::{Secret, Variables};
pub use key_reference::KeyReference;
pub use models::find_only_model;
pub use resolve::{
    Endpoint, ResolvedTarget, TargetSettings, TargetSource, key_variable, parse_dialect, parse_url, split_address,
};
