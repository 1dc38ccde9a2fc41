//! Reads the rows of `data/`, checks them and turns them into statics. An invalid row fails the build with its file, line
//! and what was expected.
//!
//! Parsing and checking are in `src/rows`, which the tests use too. Invariant: the result depends only on the files of
//! `data/`.

#[path = "src/rows/mod.rs"]
mod rows;

use std::path::Path;

fn main() {
    let folder = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("data");
    let read = |name: &str| {
        println!("cargo::rerun-if-changed=data/{name}");
        std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| fail(&format!("data/{name}: {error}")))
    };
    let source = rows::compile(
        rows::Source { name: "crates/catalog/data/providers.toml", text: &read("providers.toml") },
        rows::Source { name: "crates/catalog/data/prices.toml", text: &read("prices.toml") },
    )
    .unwrap_or_else(|findings| fail(&findings.join("\n")));
    let out = Path::new(&std::env::var_os("OUT_DIR").expect("cargo sets it")).join("catalog.rs");
    std::fs::write(&out, source).unwrap_or_else(|error| fail(&format!("{}: {error}", out.display())));
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    std::process::exit(1);
}
