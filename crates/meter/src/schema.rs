//! JSON Schemas in docs, generated from the types. Tests only: deriving schemas dominates the build time of this crate.
//!
//! Invariant: the files in docs match the types; `cargo xtask docs` writes them.

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
