//! The JSON Schemas in docs match the types; `cargo xtask docs` writes them.

use super::*;
use schemars::schema_for;
use std::path::Path;

#[test]
fn the_schemas_in_docs_are_those_of_the_types() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, schema) in [
        ("board-index.schema.json", schema_for!(ApiIndex)),
        ("board-leaderboard.schema.json", schema_for!(ApiLeaderboard)),
        ("board-endpoint.schema.json", schema_for!(ApiEndpoint)),
        ("board-changes.schema.json", schema_for!(ApiChanges)),
    ] {
        let path = docs.join(name);
        let expected = serde_json::to_string_pretty(&schema).expect("plain data") + "\n";
        if std::env::var_os("TOKRATE_WRITE_DOCS").is_some() {
            std::fs::write(&path, &expected).expect("docs can be written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == expected, "docs/{name} is out of date; write it anew with `cargo xtask docs`");
    }
}
