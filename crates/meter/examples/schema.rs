//! Writes the JSON Schemas of what `tokrate bench` and `tokrate gateway` keep:
//! `cargo run -p tokrate-meter --example schema -- docs`.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs".to_owned()));
    std::fs::write(folder.join("attempt.schema.json"), tokrate_meter::attempt_schema())?;
    std::fs::write(folder.join("record.schema.json"), tokrate_meter::record_schema())?;
    std::fs::write(folder.join("comparison.schema.json"), tokrate_meter::comparison_schema())?;
    std::fs::write(folder.join("request.schema.json"), tokrate_meter::request_schema())
}
