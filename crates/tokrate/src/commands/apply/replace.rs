//! A file's contents replaced, whole or not at all.
//!
//! It refuses to write into the file itself. Invariant: whenever the process ends, the file is the old one or the new one;
//! its mode and owner stay.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Writes a neighbour and renames it over the file that a path leads to, symbolic links followed.
pub fn contents(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = || format!("write {}", path.display());
    let file = fs::canonicalize(path).with_context(failed)?;
    let folder = file.parent().with_context(failed)?;
    let name = file.file_name().with_context(failed)?.to_string_lossy().into_owned();
    let part = folder.join(format!(".{name}.tokrate-{}", std::process::id()));
    let written = write(&file, &part, bytes);
    if written.is_err() {
        // What is left of the neighbour serves nobody.
        let _ = fs::remove_file(&part);
    }
    written.with_context(failed)
}

fn write(file: &Path, part: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let metadata = fs::metadata(file)?;
    let mut neighbour = File::create_new(part)?;
    neighbour.write_all(bytes)?;
    neighbour.set_permissions(metadata.permissions())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = neighbour.metadata()?;
        if (own.uid(), own.gid()) != (metadata.uid(), metadata.gid()) {
            fchown(&neighbour, Some(metadata.uid()), Some(metadata.gid()))?;
        }
    }
    neighbour.sync_all()?;
    fs::rename(part, file)
}
