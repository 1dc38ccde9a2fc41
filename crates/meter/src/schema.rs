//! The JSON Schemas in docs, made from the types that are written.
//!
//! It is built for tests only: deriving schemas takes longer than all else in this crate, and everybody waits for it.
//! Invariant: the files in docs are what the types say; `cargo xtask docs` writes them anew.

use crate::names::Named;
use crate::record::json::lay_out;
use crate::{Attempt, Comparison, Record, RequestNumbers};
use schemars::{Schema, SchemaGenerator, json_schema, schema_for};
use std::path::Path;

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

#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, schema) in [
        ("attempt.schema.json", schema_for!(Attempt)),
        ("record.schema.json", schema_for!(Record)),
        ("request.schema.json", schema_for!(RequestNumbers)),
        ("comparison.schema.json", schema_for!(Comparison)),
    ] {
        let path = docs.join(name);
        let expected = lay_out(&schema);
        if std::env::var_os("TOKRATE_WRITE_DOCS").is_some() {
            std::fs::write(&path, &expected).expect("docs can be written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == expected, "docs/{name} is out of date; write it anew with `cargo xtask docs`");
    }
}
