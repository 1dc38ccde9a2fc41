//! The response to the client: its head, its body, and errors in the client's dialect.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod error;
pub(crate) mod head;
pub(crate) mod headers;
