//! The shared cache of builds and tools: a fresh clone on the same machine builds only the workspace's own crates.
//!
//! Invariant: one checkout at a time builds in the shared folder, and never runs what was built from another one's sources.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The default folder, within the user's cache.
const FOLDER: &str = "tokrate";
/// Names another folder, for machines whose home is small or shared.
const VARIABLE: &str = "TOKRATE_CACHE";
/// What is built there: workspaces below the root, and flags that name where.
const WORKSPACES: [(&str, &[&str]); 2] = [("", &[]), ("packages/node", &["--release", "--target", crate::tools::WASM])];
/// Cargo's own variable; if it is set, this cache is not used.
const TARGET_VARIABLE: &str = "CARGO_TARGET_DIR";

/// The folder of the cache: `$TOKRATE_CACHE`, else `tokrate` in `$XDG_CACHE_HOME` or `~/.cache`.
pub fn folder() -> Result<PathBuf> {
    let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path(VARIABLE)
        .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join(FOLDER)))
        .or_else(|| path("HOME").map(|home| home.join(".cache").join(FOLDER)))
        .with_context(|| format!("find a folder for what checks build: set {VARIABLE} or HOME"))
}

/// The folder of an installed tool.
pub fn tool(name: &str) -> Result<PathBuf> {
    Ok(folder()?.join("tools").join(name))
}

/// The build folder of the checks, held by one checkout at a time.
pub struct BuildFolder {
    /// The value of `CARGO_TARGET_DIR`.
    pub path: PathBuf,
    /// Locked as long as it is open.
    _lock: Option<File>,
}

impl BuildFolder {
    /// Waits for the folder, and takes it over from another checkout if need be.
    ///
    /// # Errors
    /// When it cannot be made, locked or cleaned.
    pub fn claim(root: &Path) -> Result<BuildFolder> {
        if let Some(chosen) = std::env::var_os(TARGET_VARIABLE) {
            return Ok(BuildFolder { path: std::path::absolute(chosen)?, _lock: None });
        }
        let path = folder()?.join("target");
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        let lock = lock(&path.join("checkout.lock"))?;
        take_over(root, &path)?;
        Ok(BuildFolder { path, _lock: Some(lock) })
    }
}

/// Waits until no other checkout uses a folder.
fn lock(file: &Path) -> Result<File> {
    let lock = File::create(file).with_context(|| format!("open {}", file.display()))?;
    if lock.try_lock().is_err() {
        println!("xtask: another checkout is being checked; waiting for it ({})", file.display());
        lock.lock().with_context(|| format!("lock {}", file.display()))?;
    }
    Ok(lock)
}

/// Cargo detects outdated builds by file times and by paths below the workspace, so it would take another checkout's newer build
/// for this one's. When the checkout changes, builds of the workspace's crates are removed; third-party builds are kept.
fn take_over(root: &Path, target: &Path) -> Result<()> {
    let note = target.join("checkout");
    let root_text = root.to_string_lossy();
    if fs::read_to_string(&note).is_ok_and(|last| last == root_text) {
        return Ok(());
    }
    // Before the cleaning, so that an interrupted one is repeated.
    let _ = fs::remove_file(&note);
    for (workspace, flags) in WORKSPACES {
        let mut clean = Command::new(env!("CARGO"));
        clean.args(["clean", "--quiet", "--workspace"]).args(flags).env(TARGET_VARIABLE, target);
        crate::tools::run(clean.current_dir(root.join(workspace)))?;
    }
    fs::write(&note, root_text.as_bytes()).with_context(|| format!("write {}", note.display()))
}
