//! A model's code edit merged into a file: exactly, or not at all.
//!
//! An edit that names one place is applied byte for byte; one that names none or several is refused with the candidate
//! lines. Invariant: every line of a merged
//! text is a line of the original, in order, or one of the update.
//!
//! [`edit`] is the way in. [`merge`] takes bytes and further options; [`Patch`] reads patches of several files; the rest is for
//! servers, which parse ahead, check what a model has merged ([`accept`]) and keep protected names ([`protected`]).
//!
//! Architecture Invariant: this crate depends on no other of the workspace, reads no file and no clock, and keeps no state.

#![forbid(unsafe_code)]

mod accept;
mod edit;
mod encoding;
mod evidence;
mod format;
mod language;
mod lazy;
mod line_hash;
mod merge;
#[cfg(feature = "tree")]
mod named;
mod numbered;
mod options;
mod outcome;
mod parsed;
mod protected;
pub mod request;
mod source;
mod splice;
#[cfg(feature = "tree")]
mod tree;
mod verify;
mod view;

pub use accept::accept;
pub use edit::edit;
pub use encoding::Encoding;
#[doc(hidden)]
pub use evidence::Evidence;
pub use format::{Patch, PatchAction, PatchedFile};
pub use language::Language;
pub use line_hash::line_hash;
#[doc(hidden)]
pub use merge::likeliest;
pub use merge::{merge, merge_with_parse};
pub use options::Options;
pub use outcome::{Check, Checks, Code, Edit, Format, How, Merged, Outcome, Refused, Stage};
pub use parsed::{ParseProvider, Parsed};
pub use protected::{Kind as ProtectedKind, Protected, protected};
pub use view::{ViewedLine, view};
