//! Notes of what batches leave at a server: a file for each that is under way, so that one which outlives its run is found by the next.
//!
//! Invariant: a note is there before the server knows of the batch, and is gone only once nothing of it is left there. Its run holds a lock on
//! it: a note without one is of a run that has ended.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use tokrate_core::{one_line, shell_word};
use tokrate_wire::batch_api::BatchForm;

/// What is read of a note: ids of a few hundred bytes each, of a batch and its files.
const MAX_NOTE_BYTES: u64 = 64 << 10;

/// What is shown of a name in a note.
const NAME_BYTES: usize = 200;

/// What a batch leaves at a server when its run ends now.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LeftAtServer {
    /// Scheme, host and port.
    origin: String,
    /// Whose API.
    is_anthropic: bool,
    /// When it was begun, as RFC 3339 in UTC.
    begun_at: String,
    /// Path that cancels it, while it goes on.
    pub(super) cancel: Option<String>,
    /// Paths of what is to be deleted.
    pub(super) delete: Vec<String>,
    /// Something was asked for, and no answer said what became of it.
    pub(super) is_unsure: bool,
}

impl LeftAtServer {
    pub(super) fn nothing(origin: &str, form: BatchForm, begun_at: String) -> LeftAtServer {
        let is_anthropic = form == BatchForm::Anthropic;
        LeftAtServer { origin: origin.to_owned(), is_anthropic, begun_at, ..LeftAtServer::default() }
    }

    fn is_nothing(&self) -> bool {
        self.cancel.is_none() && self.delete.is_empty() && !self.is_unsure
    }

    /// What is left and how to be rid of it, several lines.
    fn text(&self) -> String {
        let what = match (&self.cancel, self.delete.is_empty()) {
            (Some(_), _) => "a batch was left there that may go on, and cost money",
            (None, false) => "files of a batch were left there",
            (None, true) => {
                "a batch may have been left there: what was last asked for had no answer; look at the list of its batches"
            }
        };
        let key = if self.is_anthropic {
            "-H \"x-api-key: $KEY\" -H \"anthropic-version: 2023-06-01\""
        } else {
            "-H \"Authorization: Bearer $KEY\""
        };
        // Ids are the server's own words, and notes may be anybody's.
        let call = |method: &str, path: &String| {
            let url = shell_word(&format!("{}{path}", self.origin));
            format!("  curl -X {method} {key} {url}\n")
        };
        let cancel = self.cancel.iter().map(|path| call("POST", path));
        let calls: String = cancel.chain(self.delete.iter().map(|path| call("DELETE", path))).collect();
        format!("{} ({}): {what}\n{calls}", one_line(&self.origin, NAME_BYTES), one_line(&self.begun_at, NAME_BYTES))
    }
}

/// The note of a batch that is under way.
#[derive(Debug)]
pub(super) struct OpenNote {
    file: File,
    path: PathBuf,
}

impl OpenNote {
    /// Writes the first note of a batch.
    ///
    /// # Errors
    /// When the folder or the file cannot be made or written.
    pub(super) fn create(folder: &Path, left: &LeftAtServer) -> io::Result<OpenNote> {
        fs::create_dir_all(folder)?;
        let process = std::process::id();
        let free = |number: u32| {
            let path = folder.join(format!("{process}-{number}.json"));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|file| OpenNote { file, path })),
            }
        };
        let mut note = (0..).find_map(free).unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        let written = note.file.lock().and_then(|()| note.update(left));
        if let Err(error) = written {
            let _ = fs::remove_file(&note.path);
            return Err(error);
        }
        Ok(note)
    }

    /// Writes what is left now.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn update(&mut self, left: &LeftAtServer) -> io::Result<()> {
        let text = serde_json::to_vec(left)?;
        self.file.rewind()?;
        self.file.write_all(&text)?;
        self.file.set_len(text.len() as u64)
    }

    /// Takes the note away if nothing is left.
    pub(super) fn close(mut self, left: &LeftAtServer) {
        if left.is_nothing() {
            let _ = fs::remove_file(&self.path);
        } else {
            // What stands there says at least as much.
            let _ = self.update(left);
        }
    }
}

/// Looks whether notes can be kept in a folder.
///
/// # Errors
/// When the folder or a file in it cannot be made or written.
pub fn check_notes(folder: &Path) -> io::Result<()> {
    let nothing = LeftAtServer::default();
    OpenNote::create(folder, &nothing).map(|note| note.close(&nothing))
}

/// What batches of runs that have ended left at servers, a text for each: what it is and how to be rid of it, and of the note.
pub fn left_by_batches(folder: &Path) -> Vec<String> {
    let mut notes: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    notes.sort();
    notes.iter().filter_map(|path| left_by(path)).collect()
}

fn left_by(path: &Path) -> Option<String> {
    // Opening a pipe would wait for its other end.
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    let mut text = Vec::new();
    file.take(MAX_NOTE_BYTES).read_to_end(&mut text).ok()?;
    // A run that was killed before its first note was written had begun nothing.
    if text.is_empty() {
        return None;
    }
    // Killed while it wrote a shorter one, it leaves the end of the last behind it.
    let left = serde_json::Deserializer::from_slice(&text).into_iter::<LeftAtServer>().next();
    let what = match left {
        Some(Ok(left)) => left.text(),
        _ => {
            "a batch, of which the note cannot be read: look at the list of batches of the servers that were measured\n"
                .to_owned()
        }
    };
    Some(format!("{what}  rm {}\n", shell_word(&path.to_string_lossy())))
}
