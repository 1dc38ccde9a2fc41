//! `tokrate trust`: shows what the settings file of a folder would do, and records that its user trusts it.
//!
//! It does not run or fetch anything that the file names. Invariant: what was shown is what is trusted, to the byte.

use super::Verdict;
use crate::config::file::File;
use crate::config::trust::DEFAULT_NAME;
use crate::config::trust::settings::Sensitive;
use crate::config::trust::{Found, Store};
use crate::flags::trust::Flags;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Trusts, takes back, or lists.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if flags.list {
        return list(&Store::open()?);
    }
    let is_default = flags.file.file_name() == Some(OsStr::new(DEFAULT_NAME));
    ensure!(is_default, "trust {}: only {DEFAULT_NAME} is looked for; --config names others", flags.file.display());
    if flags.remove {
        let path = place(&flags.file)?;
        let was = Store::open()?.remove(&path)?;
        let said = if was { "is trusted no more" } else { "was not trusted" };
        anstream::println!("{} {said}", path.display());
        return Ok(Verdict::Good);
    }
    let found = Found::read(&flags.file)?;
    // What is not understood would be refused anyway, and could not be shown.
    File::parse(&flags.file, &found.text)?;
    let needing = found.needing()?;
    anstream::print!("{}", shown(&found, &needing));
    if !needing.is_empty() {
        Store::open()?.add(&found)?;
        anstream::println!("trusted as it is now; after a change it has to be trusted again");
    }
    Ok(Verdict::Good)
}

/// What the file would do, a line a setting.
fn shown(found: &Found, needing: &[Sensitive]) -> String {
    let path = found.path().display();
    if needing.is_empty() {
        return format!("{path} names no address, key, command or file: it needs no trust\n");
    }
    let line = |it: &Sensitive| format!("  line {}: {} = {}   {}\n", it.line, it.key, it.value, it.what());
    let concerns: String = found.concerns().iter().map(|concern| format!("  note: {concern}\n")).collect();
    format!("{path}:\n{}{concerns}", needing.iter().map(line).collect::<String>())
}

fn list(store: &Store) -> Result<Verdict> {
    for path in store.paths()? {
        let state = match (path.exists(), store.is_current(&path)) {
            (false, _) => "   (gone)",
            (true, false) => "   (has changed since)",
            (true, true) => "",
        };
        anstream::println!("{}{state}", path.display());
    }
    Ok(Verdict::Good)
}

/// The absolute path of a file that may be gone.
fn place(file: &Path) -> Result<PathBuf> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().with_context(|| format!("find the folder of {}", file.display()))?;
    Ok(folder.join(DEFAULT_NAME))
}
