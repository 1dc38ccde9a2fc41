//! The merge engine as an npm package: built for WebAssembly, packed, installed as users do, and tested in Node and in a browser.
//!
//! Invariant: whatever is not built or not tested is said in a line that begins with `xtask: SKIPPED`.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::tools::{self, WASM};

/// The package's sources, below the workspace.
const PACKAGE: &str = "packages/node";
/// What of them users get as it is.
const FILES: [&str; 6] = ["package.json", "README.md", "index.d.ts", "engine.js", "node.js", "browser.js"];
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// What grammars are compiled with besides.
const LIBC: [&str; 4] = ["scanners.h", "stdio.c", "stdlib.c", "string.c"];
const MODULE: &str = "tokrate_apply.wasm";
/// How the types are checked: as Node resolves packages, with all that strictness finds.
const TYPES: [&str; 7] = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "tests/types.ts"];

/// Installs what builds and checks the package, as far as it can be had.
pub fn ensure() -> Result<()> {
    tools::ensure_browser()?;
    tools::ensure_wasm()
}

/// Builds in one folder, with flags for rustc; packs, installs and tests in another.
pub fn check(root: &Path, target: &Path, folder: &Path, flags: &[String]) -> Result<()> {
    if !tools::wasm_target() {
        println!(
            "xtask: SKIPPED {PACKAGE}: the package for Node and browsers is neither built nor tested, as the Rust target {WASM} is \
             not there and `rustup target add {WASM}` does not bring it"
        );
        return Ok(());
    }
    let clang = tools::wasm_clang();
    if clang.is_none() {
        println!(
            "xtask: SKIPPED the grammars of {PACKAGE}: there is no clang for WebAssembly and apt-get does not bring it, so the package is \
             built and tested without syntax trees"
        );
    }
    println!("xtask: {PACKAGE}: building for {WASM}");
    let module = build(root, target, clang.as_deref(), flags)?;
    let archive = pack(root, &module, &emptied(&folder.join("package"))?, folder)?;
    test(root, &archive, &emptied(&folder.join("trial"))?, clang.is_some())?;
    println!("xtask: {} is built and does what the library does", archive.display());
    Ok(())
}

/// Builds the WebAssembly module; without a C compiler it has no grammars.
fn build(root: &Path, target: &Path, clang: Option<&Path>, flags: &[String]) -> Result<PathBuf> {
    let package = root.join(PACKAGE);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "--target", WASM]).current_dir(&package);
    match clang {
        None => {
            cargo.arg("--no-default-features");
        }
        Some(clang) => {
            let (own, headers) = (libc(&package, target)?, headers(&package)?);
            // In place of that crate's build script, which names sources that no longer compile.
            for (name, value) in [("headers", &headers), ("src", &own)] {
                let value = value.to_str().context("name a folder in UTF-8")?;
                let setting = format!("target.{WASM}.tree-sitter-language.wasm-{name}={value:?}");
                cargo.arg("--config").arg(setting);
            }
            let scanners = own.join("scanners.h");
            let flags = format!("-I'{}' -include '{}' -DNDEBUG", headers.display(), scanners.display());
            cargo.env("CC_wasm32_unknown_unknown", clang).env("CFLAGS_wasm32_unknown_unknown", flags);
            cargo.env("CC_SHELL_ESCAPED_FLAGS", "1");
        }
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    tools::run(cargo.env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0"))?;
    Ok(target.join(WASM).join("release").join(MODULE))
}

/// Flags that keep the folders of this machine out of what is built. Tests do without: where a checkout is would count for every crate.
pub fn nameless(root: &Path) -> Result<Vec<String>> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home).context("find Cargo's folder")?;
    let remap = |folder: &Path, name: &str| format!("--remap-path-prefix={}={name}", folder.display());
    Ok(vec![remap(root, "tokrate"), remap(&cargo, "cargo")])
}

/// The package's C files, in a folder named after what is in them: grammars are compiled again when its name is another one, so it is
/// the same for every checkout.
fn libc(package: &Path, target: &Path) -> Result<PathBuf> {
    let mut all = std::hash::DefaultHasher::new();
    let files = LIBC.map(|name| (name, package.join("libc").join(name)));
    for (name, file) in &files {
        fs::read(file).with_context(|| format!("read {}", file.display()))?.hash(&mut all);
        name.hash(&mut all);
    }
    let folder = target.join(format!("libc-{:016x}", all.finish()));
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    for (name, file) in files {
        copy(&file, &folder.join(name))?;
    }
    Ok(folder)
}

/// The C headers that the crate of tree-sitter's languages brings for WebAssembly.
fn headers(package: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", WASM]).current_dir(package);
    let output = cargo.output().context("run cargo metadata")?;
    ensure!(output.status.success(), "list the package's crates: {}", String::from_utf8_lossy(&output.stderr).trim());
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    let crates = listed["packages"].as_array().context("read cargo metadata")?;
    let language = crates.iter().find(|it| it["name"] == "tree-sitter-language");
    let manifest = language.and_then(|it| it["manifest_path"].as_str()).context("find tree-sitter-language")?;
    Ok(Path::new(manifest).with_file_name("wasm").join("include"))
}

/// Packs what users get; the archive.
fn pack(root: &Path, module: &Path, package: &Path, folder: &Path) -> Result<PathBuf> {
    for name in FILES {
        copy(&root.join(PACKAGE).join(name), &package.join(name))?;
    }
    for name in LICENCES {
        copy(&root.join(name), &package.join(name))?;
    }
    copy(module, &package.join(MODULE))?;
    let description: serde_json::Value = serde_json::from_slice(&fs::read(package.join("package.json"))?)?;
    let (name, version) = (&description["name"], &description["version"]);
    let archive = [name, version].map(|it| it.as_str().unwrap_or_default()).join("-") + ".tgz";
    tools::run(Command::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(folder).current_dir(package))?;
    Ok(folder.join(archive))
}

/// Installs the archive in an empty folder, and runs the tests on it.
fn test(root: &Path, archive: &Path, trial: &Path, has_grammars: bool) -> Result<()> {
    fs::write(trial.join("package.json"), "{ \"private\": true, \"type\": \"module\" }\n")?;
    let install = ["install", "--offline", "--no-audit", "--no-fund", "--silent"];
    tools::run(Command::new("npm").args(install).arg(archive).current_dir(trial))?;
    let tests = trial.join("tests");
    fs::create_dir(&tests).with_context(|| format!("make {}", tests.display()))?;
    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter", "spec"]).current_dir(trial);
    for entry in fs::read_dir(root.join(PACKAGE).join("tests"))? {
        let name = entry?.file_name();
        copy(&root.join(PACKAGE).join("tests").join(&name), &tests.join(&name))?;
        if name.to_string_lossy().ends_with(".test.js") {
            node.arg(Path::new("tests").join(&name));
        }
    }
    let browser = tools::browser().context("find a Chromium, which the package is tried in")?;
    node.env("TOKRATE_ROOT", root).env("TOKRATE_BROWSER", browser);
    tools::run(node.env("TOKRATE_GRAMMARS", if has_grammars { "yes" } else { "no" }))?;
    tools::run(Command::new(tools::type_checker()?).args(TYPES).current_dir(trial))
}

/// A folder with nothing in it.
fn emptied(folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("empty {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder.to_owned())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("copy {} to {}", from.display(), to.display()))
}
