//! What batches left at servers: said before a run, of the runs before it, and after it, of its own.
//!
//! Invariant: each is said once a run, on standard error, until its note is taken away.

use anyhow::{Context, Result};
use std::path::PathBuf;
use tokrate_bench::{Config, check_notes, left_by_batches};

/// Folder of the notes, below that for what is to stay.
const FOLDER: &str = "batches";

/// The notes of a run and of those before it.
pub(super) struct BatchNotes {
    folder: Option<PathBuf>,
    told: Vec<String>,
}

impl BatchNotes {
    /// Has the batches of a run keep notes, given the folder for what is to stay, and says what earlier ones left.
    ///
    /// # Errors
    /// When a batch is to be sent and no note of it could be kept: killed, the run would leave it unseen.
    pub(super) fn begin(configs: &mut [Config], data_folder: Option<PathBuf>) -> Result<BatchNotes> {
        let folder = data_folder.map(|folder| folder.join(FOLDER));
        let mut notes = BatchNotes { folder, told: Vec::new() };
        notes.tell("an earlier run");
        let Some(folder) = &notes.folder else { return Ok(notes) };
        let mut batches = configs.iter_mut().filter_map(|config| config.request.batches.as_mut()).peekable();
        if batches.peek().is_some() {
            check_notes(folder).with_context(|| {
                let folder = folder.display();
                format!(
                    "write a note of the batch in {folder}, by which a later run finds what is left of it; free some space there, or name \
                     another folder with XDG_DATA_HOME"
                )
            })?;
        }
        batches.for_each(|options| options.notes = Some(folder.as_path().into()));
        Ok(notes)
    }

    /// Says what was left and has not been said yet.
    pub(super) fn tell(&mut self, by: &str) {
        let left = self.folder.as_deref().map(left_by_batches).unwrap_or_default();
        for text in left {
            if !self.told.contains(&text) {
                anstream::eprint!("tokrate: {by} left something at a server; be rid of it and its note with\n{text}");
                self.told.push(text);
            }
        }
    }
}
