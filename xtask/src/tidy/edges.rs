//! The dependency table of ARCHITECTURE.md, checked against `cargo metadata`. An edge that is not in the table is a
//! finding. Dependencies of tests are free, except for crates that are banned altogether.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// One row: crate folder, workspace crates it may use, third-party crates it may use.
struct Row {
    name: &'static str,
    internal: &'static [&'static str],
    external: &'static [&'static str],
}

const TABLE: &[Row] = &[
    Row { name: "core", internal: &[], external: &[] },
    Row { name: "tokens", internal: &[], external: &[] },
    Row { name: "wire", internal: &["core"], external: &["serde", "serde_json", "memchr", "httpdate", "crc32fast"] },
    Row { name: "stats", internal: &["core"], external: &["serde", "schemars"] },
    // schemars with the feature `schema` only, here and in record.
    Row { name: "meter", internal: &["core", "stats", "tokens"], external: &["serde", "serde_json", "schemars"] },
    Row { name: "record", internal: &["core", "stats", "meter"], external: &["serde", "serde_json", "schemars"] },
    Row { name: "judge", internal: &["core", "stats", "meter", "record"], external: &["serde", "serde_json"] },
    Row { name: "detect", internal: &["core", "stats"], external: &["serde", "serde_json"] },
    Row { name: "prober", internal: &["core"], external: &[] },
    Row { name: "charts", internal: &["core"], external: &[] },
    Row { name: "live", internal: &["core", "charts"], external: &["ratatui-core"] },
    Row { name: "columns", internal: &[], external: &[] },
    Row { name: "board", internal: &["core", "stats", "detect", "charts"], external: &["serde", "serde_json"] },
    // Its build script reads the rows.
    Row { name: "catalog", internal: &["core"], external: &["serde", "toml"] },
    Row { name: "alert", internal: &["core"], external: &["serde", "serde_json"] },
    Row { name: "engine", internal: &["core"], external: &[] },
    Row { name: "estimate", internal: &["core", "stats", "engine"], external: &["serde"] },
    Row {
        name: "apply",
        internal: &["core", "tokens"],
        external: &[
            "serde",
            "serde_json",
            "foldhash",
            "imara-diff",
            "memchr",
            "tree-sitter",
            "tree-sitter-bash",
            "tree-sitter-c",
            "tree-sitter-c-sharp",
            "tree-sitter-containerfile",
            "tree-sitter-cpp",
            "tree-sitter-css",
            "tree-sitter-dart",
            "tree-sitter-elixir",
            "tree-sitter-go",
            "tree-sitter-haskell",
            "tree-sitter-hcl",
            "tree-sitter-html",
            "tree-sitter-java",
            "tree-sitter-javascript",
            "tree-sitter-json",
            "tree-sitter-kotlin-ng",
            "tree-sitter-lua",
            "tree-sitter-php",
            "tree-sitter-proto",
            "tree-sitter-python",
            "tree-sitter-ruby",
            "tree-sitter-rust",
            "tree-sitter-scala",
            "tree-sitter-svelte-ng",
            "tree-sitter-swift",
            "tree-sitter-toml-ng",
            "tree-sitter-typescript",
            "tree-sitter-yaml",
            "tree-sitter-zig",
        ],
    },
    Row { name: "sim", internal: &["core", "tokens", "engine"], external: &[] },
    Row {
        name: "net",
        internal: &["core"],
        external: &[
            "tokio",
            "hyper",
            "hyper-util",
            "http",
            "http-body",
            "http-body-util",
            "h2",
            "httparse",
            "httpdate",
            "bytes",
            "memchr",
            "rustls",
            "tokio-rustls",
            "rustls-native-certs",
            "rustls-webpki",
            "webpki-roots",
            "nix",
            "rustix",
            "thiserror",
        ],
    },
    Row {
        name: "host",
        internal: &["core", "tokens", "wire", "sim", "net"],
        external: &[
            "tokio",
            "bytes",
            "http",
            "http-body",
            "base64",
            "regex-syntax",
            "serde",
            "serde_json",
            "thiserror",
        ],
    },
    Row {
        name: "apply-host",
        internal: &["core", "tokens", "wire", "apply", "net"],
        external: &["tokio", "bytes", "http", "http-body", "imara-diff", "serde", "serde_json", "sha2", "thiserror"],
    },
    Row { name: "probe", internal: &["core", "tokens", "wire", "meter", "net"], external: &["bytes", "http", "tokio"] },
    // Its errors are only shown, never branched on: anyhow's chain of causes is all that they need.
    Row {
        name: "credentials",
        internal: &["core", "net"],
        external: &["aws-lc-rs", "base64", "bytes", "http", "rustix", "serde_json", "tokio"],
    },
    Row {
        name: "targets",
        internal: &["core", "wire", "catalog", "credentials", "net"],
        external: &["bytes", "http", "rustix", "serde_json", "sha2", "thiserror", "tokio", "toml"],
    },
    Row {
        name: "notify",
        internal: &["core", "alert", "net"],
        external: &["aws-lc-rs", "base64", "bytes", "http", "lettre", "serde_json", "tokio"],
    },
    Row { name: "route", internal: &["core"], external: &[] },
    Row {
        name: "store",
        internal: &["core", "stats", "meter", "record", "net"],
        external: &["crc32fast", "http", "rusqlite", "rustix", "serde_json", "thiserror"],
    },
    Row {
        name: "gateway",
        internal: &["core", "tokens", "wire", "meter", "record", "route", "net", "probe", "store"],
        external: &[
            "tokio",
            "bytes",
            "http",
            "http-body",
            "memchr",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "tracing",
        ],
    },
    Row {
        name: "admin",
        internal: &["core", "stats", "record", "charts", "route", "net", "store", "gateway"],
        external: &["tokio", "base64", "bytes", "http", "http-body", "prometheus-client", "serde_json", "sha2"],
    },
    Row {
        name: "bench",
        internal: &[
            "core", "tokens", "wire", "stats", "meter", "record", "judge", "charts", "sim", "net", "probe", "host",
        ],
        external: &["tokio", "bytes", "http", "serde", "serde_json", "thiserror"],
    },
    Row {
        name: "monitor",
        internal: &[
            "core", "tokens", "wire", "meter", "record", "judge", "detect", "prober", "alert", "board", "sim", "net",
            "probe", "host", "notify", "store",
        ],
        external: &["tokio", "aws-lc-rs", "base64", "bytes", "http", "serde", "serde_json", "thiserror"],
    },
    Row {
        name: "tokrate",
        internal: &[
            "core",
            "tokens",
            "wire",
            "stats",
            "meter",
            "record",
            "judge",
            "detect",
            "prober",
            "charts",
            "live",
            "columns",
            "board",
            "catalog",
            "engine",
            "estimate",
            "apply",
            "sim",
            "net",
            "targets",
            "host",
            "apply-host",
            "bench",
            "route",
            "store",
            "gateway",
            "admin",
            "monitor",
        ],
        external: &[
            "tokio",
            "http",
            "serde",
            "serde_json",
            "clap",
            "anyhow",
            "anstream",
            "comfy-table",
            "saphyr",
            "toml",
            "rustix",
            "tracing",
            "tracing-subscriber",
            // Only with the feature `jemalloc`, which is on unless it is left out.
            "tikv-jemallocator",
            // Only with the feature `nvml`.
            "nvml-wrapper",
        ],
    },
    Row {
        name: "dst",
        internal: &[
            "core", "tokens", "wire", "stats", "meter", "record", "judge", "detect", "prober", "alert", "engine",
            "sim", "net", "route", "store", "bench", "gateway", "monitor",
        ],
        external: &["http", "tokio"],
    },
    Row {
        name: "fuzz",
        internal: &[
            "core",
            "tokens",
            "wire",
            "meter",
            "record",
            "judge",
            "detect",
            "catalog",
            "apply",
            "net",
            "apply-host",
            "bench",
            "store",
            "gateway",
            "admin",
            "monitor",
            "estimate",
        ],
        external: &[
            "bytes",
            "http",
            "http-body",
            "http-body-util",
            "hyper",
            "hyper-util",
            "libfuzzer-sys",
            "serde",
            "serde_json",
            "tokio",
        ],
    },
    Row {
        name: "lab",
        internal: &["apply", "core", "record", "sim", "stats", "store"],
        external: &[
            "xtask",
            "serde_json",
            "anyhow",
            "rustix",
            "memchr",
            "nix",
            "imara-diff",
            "rcgen",
            "rustls",
            "crc32fast",
        ],
    },
    Row { name: "xtask", internal: &[], external: &["serde_json", "anyhow", "toml"] },
];

/// Crates that may not appear anywhere, tests included: a second TLS provider, a second HTTP client.
const BANNED: &[&str] =
    &["ring", "openssl", "native-tls", "reqwest", "async-openai", "eventsource-stream", "chrono", "rand"];

/// Findings about the edges between packages.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    if !output.status.success() {
        bail!("run cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let packages = metadata["packages"].as_array().context("read cargo metadata: no packages")?;
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let folder = name.strip_prefix("tokrate-").unwrap_or(name);
        let Some(row) = TABLE.iter().find(|row| row.name == folder) else {
            findings.push(format!("package {name} has no row in the dependency table (xtask/src/tidy/edges.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            findings.extend(check_edge(row, dependency));
        }
    }
    Ok(findings)
}

/// The page that shows the table, and the head of it there.
const PAGE: &str = "ARCHITECTURE.md";
const HEAD: &str = "| crate | internal edges | external crates |\n|---|---|---|\n";

/// The table as the page has it.
fn table() -> String {
    let listed = |names: &[&str], none: &str| if names.is_empty() { none.to_owned() } else { names.join(", ") };
    let row =
        |row: &Row| format!("| {} | {} | {} |\n", row.name, listed(row.internal, "-"), listed(row.external, "none"));
    TABLE.iter().map(row).collect()
}

/// The page with the table that is enforced.
fn page(root: &Path) -> Result<(String, String)> {
    let text = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let (before, rest) = text.split_once(HEAD).with_context(|| format!("find the table of edges in {PAGE}"))?;
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    let written = format!("{before}{HEAD}{}\n{after}", table());
    Ok((text, written))
}

/// Whether the page shows the table that is enforced.
pub fn documented(root: &Path) -> Result<Vec<String>> {
    let (text, written) = page(root)?;
    let finding =
        format!("{PAGE}: its table of edges is not the one of xtask/src/tidy/edges.rs; `cargo xtask docs` writes it");
    Ok(if text == written { Vec::new() } else { vec![finding] })
}

/// Writes the table into the page.
pub fn write(root: &Path) -> Result<()> {
    let (_, written) = page(root)?;
    std::fs::write(root.join(PAGE), written).with_context(|| format!("write {PAGE}"))
}

fn check_edge(row: &Row, dependency: &Value) -> Option<String> {
    let name = dependency["name"].as_str().unwrap_or_default();
    if BANNED.contains(&name) {
        return Some(format!("{} depends on {name}, which is banned", row.name));
    }
    // Only normal and build dependencies make edges.
    if dependency["kind"].as_str() == Some("dev") {
        return None;
    }
    let allowed = match name.strip_prefix("tokrate-") {
        Some(internal) => row.internal.contains(&internal),
        None => row.external.contains(&name),
    };
    (!allowed).then(|| format!("{} may not depend on {name}: the edge is not in the dependency table", row.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: &str) -> &'static Row {
        TABLE.iter().find(|row| row.name == name).expect("in the table")
    }

    #[test]
    fn an_edge_outside_the_table_is_found() {
        assert!(check_edge(row("meter"), &json!({"name": "tokrate-net", "kind": null})).is_some());
        assert!(check_edge(row("core"), &json!({"name": "serde", "kind": null})).is_some());
        assert!(check_edge(row("core"), &json!({"name": "proptest", "kind": "dev"})).is_none());
        assert!(check_edge(row("core"), &json!({"name": "ring", "kind": "dev"})).is_some());
        assert!(check_edge(row("net"), &json!({"name": "hyper", "kind": null})).is_none());
    }

    #[test]
    fn the_table_has_no_cycle() {
        // Rows are listed in topological order: a row may only use rows above it.
        for (position, row) in TABLE.iter().enumerate() {
            for internal in row.internal {
                let known = TABLE.iter().position(|other| other.name == *internal).expect("in the table");
                assert!(known < position, "{} uses {internal}, which comes later", row.name);
            }
        }
    }
}
