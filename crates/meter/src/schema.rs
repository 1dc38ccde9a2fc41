//! The JSON Schemas in docs, made from the types that are written.
//!
//! It is built for tests only: deriving schemas takes longer than all else in this crate, and everybody waits for it.
//! Invariant: the files in docs are what the types say; `cargo xtask docs` writes them anew.

use crate::names::Named;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The JSON Schema of a name.
pub(crate) fn name<T: Named>(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = T::ALL.iter().map(|value| value.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The JSON Schema of a name that may be missing.
pub(crate) fn name_or_null<T: Named>(_: &mut SchemaGenerator) -> Schema {
    let mut names: Vec<Option<&str>> = T::ALL.iter().map(|value| Some(value.name())).collect();
    names.push(None);
    json_schema!({ "type": ["string", "null"], "enum": names })
}

mod tests;
