//! Whether the settings file of a folder may name addresses, keys, commands and files: only if its user has trusted this text at this
//! path, as direnv does it.
//!
//! Invariant: what was compared is what is read; a file is trusted by its bytes and its absolute path, and a change of
//! either ends that.

mod settings;

pub use settings::{HARMLESS, SensitiveSetting, is_harmless};

use crate::error::TargetError;
use crate::reading::{MAX_SETTINGS_BYTES, bytes_from};
use settings::sensitive;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file that is read when none is named and it exists.
pub const DEFAULT_NAME: &str = "tokrate.toml";

/// Settings that a refusal lists at most: what fits on a screen.
const MAX_LISTED: usize = 20;

/// A settings file as it was read.
#[derive(Debug)]
pub struct SettingsFile {
    /// Its absolute path; the last name may be a link, as the folder is what settings hold for.
    path: PathBuf,
    /// Its text.
    pub text: String,
    metadata: Metadata,
}

impl SettingsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is too long or no text.
    pub fn read(path: &Path) -> Result<SettingsFile, TargetError> {
        let unread = TargetError::io("read the settings file", path);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().ok_or_else(|| TargetError::NoSettings(path.to_owned()))?;
        let absolute = folder.canonicalize().map_err(&unread)?.join(name);
        let file = std::fs::File::open(path).map_err(&unread)?;
        let metadata = file.metadata().map_err(&unread)?;
        let bytes = bytes_from(file, MAX_SETTINGS_BYTES).map_err(&unread)?;
        let text = String::from_utf8(bytes).map_err(|_| TargetError::SettingsNoText(path.to_owned()))?;
        Ok(SettingsFile { path: absolute, text, metadata })
    }

    /// Fails unless it needs no trust or has it. The store is below `data_folder`; `instead` is what else can be typed.
    ///
    /// # Errors
    /// Lists the settings that need trust, or says what is no TOML.
    pub fn ensure_trusted(&self, data_folder: Option<&Path>, instead: &str) -> Result<(), TargetError> {
        let needing = sensitive(&self.text)?;
        if needing.is_empty() {
            return Ok(());
        }
        let store = TrustStore::open(data_folder);
        if store.as_ref().is_ok_and(|store| store.trusts(self)) {
            return Ok(());
        }
        let known = store.as_ref().is_ok_and(|store| store.has_path(&self.path));
        let why = if known { "it has changed since it was trusted" } else { "it was never trusted" };
        let mut text = format!("use {} of this folder: {why}", DEFAULT_NAME);
        for setting in needing.iter().take(MAX_LISTED) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  line {}: {} {}", setting.line, setting.key, setting.what());
        }
        if needing.len() > MAX_LISTED {
            let _ = write!(text, "\n  and {} more", needing.len() - MAX_LISTED);
        }
        for warning in self.warnings() {
            let _ = write!(text, "\n  {warning}");
        }
        if let Err(error) = store {
            let _ = write!(text, "\n  what is trusted cannot be looked up: failed to {}", error.with_causes());
        }
        let _ = write!(text, "\nread it; if you trust it, run `tokrate trust`, or {instead}");
        Err(TargetError::Untrusted(text))
    }

    /// The settings that need trust, in the order of the file.
    ///
    /// # Errors
    /// When it is no TOML.
    pub fn sensitive_settings(&self) -> Result<Vec<SensitiveSetting>, TargetError> {
        sensitive(&self.text)
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who else can change it.
    pub fn warnings(&self) -> Vec<String> {
        others(&self.metadata, 0o002).into_iter().map(|who| format!("{who} can change this file")).collect()
    }

    /// The hash by which it is trusted: of its path and its bytes, with the length of the path so that one cannot be taken for the
    /// other.
    fn hash(&self) -> String {
        let path = bytes(&self.path);
        let mut hash = Sha256::new();
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(&path);
        hash.update(self.text.as_bytes());
        let mut digits = String::new();
        for byte in hash.finalize() {
            // Writing to a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }
}

/// What a user has trusted: a file for each text, named by its hash, with the path in it.
#[derive(Debug)]
pub struct TrustStore(PathBuf);

impl TrustStore {
    /// The store below a user's folder for data.
    ///
    /// # Errors
    /// When there is no such folder, or others can write there.
    pub fn open(data_folder: Option<&Path>) -> Result<TrustStore, TargetError> {
        let data = data_folder.ok_or(TargetError::NoDataFolder)?;
        let folder = data.join("trusted");
        match folder.metadata() {
            Ok(metadata) => {
                let who = others(&metadata, 0o022).join(" and ");
                if !who.is_empty() {
                    return Err(TargetError::SharedStore { folder, who });
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(TargetError::io("look into", &folder)(error)),
        }
        Ok(TrustStore(folder))
    }

    /// Whether this file is trusted with this text.
    fn trusts(&self, file: &SettingsFile) -> bool {
        std::fs::read(self.0.join(file.hash())).is_ok_and(|path| path == bytes(&file.path))
    }

    /// Whether any text was trusted at this path.
    fn has_path(&self, path: &Path) -> bool {
        self.entries().is_ok_and(|entries| entries.iter().any(|(_, known)| known == path))
    }

    /// Whether the file that lies there now is trusted.
    pub fn is_current(&self, path: &Path) -> bool {
        SettingsFile::read(path).is_ok_and(|file| self.trusts(&file))
    }

    /// Trusts a file as it was read.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn add(&self, file: &SettingsFile) -> Result<(), TargetError> {
        let unwritten = TargetError::io("write into", &self.0);
        make_private(&self.0).map_err(&unwritten)?;
        // Written beside it first: half a path is no trust, but it would be listed.
        let hash = file.hash();
        let part = self.0.join(format!(".{hash}.{}.part", std::process::id()));
        std::fs::write(&part, bytes(&file.path)).map_err(&unwritten)?;
        std::fs::rename(&part, self.0.join(hash)).map_err(unwritten)
    }

    /// Removes every text of a path; returns whether there was one.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn remove(&self, path: &Path) -> Result<bool, TargetError> {
        let known: Vec<PathBuf> =
            self.entries()?.into_iter().filter(|(_, known)| known == path).map(|(entry, _)| entry).collect();
        for entry in &known {
            std::fs::remove_file(entry).map_err(TargetError::io("remove", entry))?;
        }
        Ok(!known.is_empty())
    }

    /// Every path of which a text is trusted, once.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn paths(&self) -> Result<Vec<PathBuf>, TargetError> {
        let mut paths: Vec<PathBuf> = self.entries()?.into_iter().map(|(_, path)| path).collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// The entries with their paths.
    fn entries(&self) -> Result<Vec<(PathBuf, PathBuf)>, TargetError> {
        let unread = TargetError::io("look into", &self.0);
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(&unread)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(&unread)?.path();
            let is_complete = entry.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'));
            if is_complete && let Ok(path) = std::fs::read(&entry) {
                found.push((entry, path_of(path)));
            }
        }
        Ok(found)
    }
}

/// Trusts a file that tokrate itself has just written with this text.
///
/// # Errors
/// When somebody else has changed it meanwhile, or the store cannot be opened or written.
pub fn add_own(data_folder: Option<&Path>, path: &Path, text: &str) -> Result<(), TargetError> {
    let file = SettingsFile::read(path)?;
    if file.text != text {
        return Err(TargetError::Changed(path.to_owned()));
    }
    TrustStore::open(data_folder)?.add(&file)
}

#[cfg(unix)]
fn bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(not(unix))]
fn bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// Users other than this one and root who can change a file, or what lies in a folder, by its owner and these bits of its mode.
#[cfg(unix)]
fn others(metadata: &Metadata, bits: u32) -> Vec<&'static str> {
    use std::os::unix::fs::MetadataExt;
    let mine = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    let shared = metadata.mode() & bits != 0;
    [(!mine).then_some("another user"), shared.then_some(if bits & 0o020 == 0 { "every user" } else { "other users" })]
        .into_iter()
        .flatten()
        .collect()
}

#[cfg(not(unix))]
fn others(_: &Metadata, _: u32) -> Vec<&'static str> {
    Vec::new()
}

/// A folder that only its user can look into, and those above it.
fn make_private(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
