//! `tokrate trust`: shows what the settings file of a folder would do, and records that its user trusts it.
//!
//! Nothing that the file names is run or fetched. Invariant: what was shown is what is trusted, to the byte.

use super::Verdict;
use crate::config::environment::data_folder;
use crate::config::file::File;
use crate::flags::trust::Flags;
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use tokrate_targets::trust::{DEFAULT_NAME, SensitiveSetting, SettingsFile, TrustStore};

/// Trusts, takes back, or lists.
pub fn run(flags: &Flags) -> Result<Verdict> {
    if flags.list {
        return list(&TrustStore::open(data_folder().as_deref())?);
    }
    let is_default = flags.file.file_name() == Some(OsStr::new(DEFAULT_NAME));
    ensure!(is_default, "trust {}: only {DEFAULT_NAME} is looked for; --config names others", flags.file.display());
    if flags.remove {
        let path = place(&flags.file)?;
        let was = TrustStore::open(data_folder().as_deref())?.remove(&path)?;
        let outcome = if was { "is trusted no more" } else { "was not trusted" };
        anstream::println!("{} {outcome}", path.display());
        return Ok(Verdict::Good);
    }
    let found = SettingsFile::read(&flags.file)?;
    // What is not understood would be refused anyway, and could not be shown.
    File::parse(&flags.file, &found.text)?;
    let needing = found.sensitive_settings()?;
    anstream::print!("{}", review_text(&found, &needing));
    if !needing.is_empty() {
        TrustStore::open(data_folder().as_deref())?.add(&found)?;
        anstream::println!("trusted as it is now; after a change it has to be trusted again");
    }
    Ok(Verdict::Good)
}

/// What the file would do, a line a setting.
fn review_text(found: &SettingsFile, needing: &[SensitiveSetting]) -> String {
    let path = found.path().display();
    if needing.is_empty() {
        return format!("{path} names no address, key, command or file: it needs no trust\n");
    }
    let line = |it: &SensitiveSetting| format!("  line {}: {} = {}   {}\n", it.line, it.key, it.value, it.what());
    let warnings: String = found.warnings().iter().map(|warning| format!("  note: {warning}\n")).collect();
    format!("{path}:\n{}{warnings}", needing.iter().map(line).collect::<String>())
}

fn list(store: &TrustStore) -> Result<Verdict> {
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
