//! The JSON Schemas in docs, of the rows and documents of all crates below, match the types; `cargo xtask docs` writes them.

use crate::Comparison;
use schemars::schema_for;
use std::path::Path;
use tokrate_meter::RequestNumbers;
use tokrate_record::{Attempt, Probe, Record, Refusal, lay_out};

#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, schema) in [
        ("attempt.schema.json", schema_for!(Attempt)),
        ("refusal.schema.json", schema_for!(Refusal)),
        ("probe.schema.json", schema_for!(Probe)),
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
