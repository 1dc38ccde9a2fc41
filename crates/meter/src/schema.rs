//! JSON Schemas of names. With the feature `schema` alone: deriving schemas dominates the build time of rows.

use crate::names::Named;
use schemars::{Schema, SchemaGenerator, json_schema};

/// The JSON Schema of a name.
pub fn name<T: Named>(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = T::ALL.iter().map(|value| value.name()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// The JSON Schema of a name that may be missing.
pub fn name_or_null<T: Named>(_: &mut SchemaGenerator) -> Schema {
    let mut names: Vec<Option<&str>> = T::ALL.iter().map(|value| Some(value.name())).collect();
    names.push(None);
    json_schema!({ "type": ["string", "null"], "enum": names })
}
