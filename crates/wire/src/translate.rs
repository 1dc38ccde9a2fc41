//! From one dialect into another: a client's request for a server that speaks differently, and the server's answer
//! back.
//!
//! Invariant: nothing is dropped silently. What the other dialect has no place for is an error that names the field,
//! unless its absence cannot change the answer; those fields are listed with their reasons in `docs/dialects.md`. An
//! answer that breaks off never ends like one that is complete.

mod answer;
mod call_order;
mod clean;
mod collected;
mod conversation;
mod error_event;
mod request;
pub(crate) mod schema;
pub(crate) mod setting;
pub(crate) mod setting_fields;
mod settings;
pub(crate) mod table;

pub use answer::{AnswerTranslator, Progress};
pub use error_event::{error_event, status_of};
pub use request::{TranslateError, TranslatedRequest, translate_request};
