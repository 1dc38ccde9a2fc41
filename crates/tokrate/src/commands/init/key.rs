//! The key of the gateway that `tokrate init` sets up: made once for each user, in a file that nobody else can read.
//!
//! It is not printed. Invariant: a key that is there already is kept, so that clients which have it go on.

use crate::config::environment;
use anyhow::{Context, Result};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file's name in the user's folder; without such a folder it lies beside the settings.
const NAME: &str = "gateway.key";
const NAME_BESIDE: &str = "tokrate-gateway.key";

/// Where the key is, and whether it was made just now.
pub struct KeyFile {
    pub path: PathBuf,
    pub is_new: bool,
}

/// Makes the user's key unless there is one; `settings` is the file that is to name it.
pub fn make(settings: &Path) -> Result<KeyFile> {
    let path = match environment::data_folder() {
        Some(folder) => folder.join(NAME),
        None => std::path::absolute(settings.with_file_name(NAME_BESIDE)).context("find the current folder")?,
    };
    let is_new = write(&path).with_context(|| format!("write the gateway's key to {}", path.display()))?;
    Ok(KeyFile { path, is_new })
}

/// Writes a key; tells whether there was none before.
fn write(path: &Path) -> Result<bool> {
    let random: [u8; 32] = tokrate_net::random_bytes()?;
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    write_secret(path, &format!("tokrate-{digits}"))
}

/// Writes a line to a new file that its user alone can read; tells whether there was none before.
pub fn write_secret(path: &Path, text: &str) -> Result<bool> {
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    writeln!(file, "{text}")?;
    file.sync_all()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_nobody_elses() {
        let folder = std::env::temp_dir().join(format!("tokrate-init-key-{}", std::process::id()));
        let path = folder.join("deep/gateway.key");
        assert!(write(&path).expect("a key"));
        let first = std::fs::read_to_string(&path).expect("it is there");
        assert!(first.starts_with("tokrate-") && first.trim().len() == 8 + 64, "256 bits");
        assert!(!write(&path).expect("it stays"));
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), first);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&folder.join("deep"))), (0o600, 0o700));
        }
        let other = folder.join("other.key");
        assert!(write(&other).expect("a key"));
        assert_ne!(std::fs::read_to_string(&other).expect("it is there"), first);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
