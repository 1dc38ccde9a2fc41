//! A file by its name in a folder that is held open: it is read and written where it was found, whatever becomes of the path above
//! it meanwhile.
//!
//! Which files may be touched is decided in `confine`. Invariant: no symbolic link is followed below the folder that a place
//! is looked for from, and nothing but a regular file is read or written.

#[cfg(not(unix))]
mod by_path;
#[cfg(unix)]
mod held;

#[cfg(not(unix))]
use by_path as system;
#[cfg(unix)]
use held as system;

use super::attributes::Attributes;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use system::Folder;

/// A file that is there, or is to be.
#[derive(Clone, Debug)]
pub struct Place {
    folder: Arc<Folder>,
    name: OsString,
    /// What it is called in messages, and compared by.
    path: PathBuf,
}

/// Folders that were made for a file. Those that are empty in the end go again.
#[derive(Debug, Default)]
pub struct MadeFolders(Vec<(Arc<Folder>, OsString)>);

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for (above, name) in self.0.drain(..).rev() {
            // One that holds something stays.
            let _ = above.remove_folder(&name);
        }
    }
}

impl Place {
    /// The file that a person has named; `real` has no links.
    pub fn of(real: &Path) -> io::Result<Place> {
        let (folder, name) = split(real)?;
        Ok(Place { folder: Arc::new(Folder::open(folder)?), name: name.to_owned(), path: real.to_path_buf() })
    }

    /// A file below a folder; there may be no link on the way.
    pub fn below(root: &Path, relative: &Path) -> io::Result<Place> {
        Place::walk(root, relative, None)
    }

    /// The same; folders that are missing are made.
    pub fn below_made(root: &Path, relative: &Path, made: &mut MadeFolders) -> io::Result<Place> {
        Place::walk(root, relative, Some(made))
    }

    fn walk(root: &Path, relative: &Path, mut made: Option<&mut MadeFolders>) -> io::Result<Place> {
        let (above, name) = split(relative)?;
        let mut folder = Arc::new(Folder::open(root)?);
        for part in above.components() {
            let Component::Normal(part) = part else { return Err(io::Error::other("the path has detours")) };
            if let Some(made) = made.as_mut()
                && folder.make_folder(part)?
            {
                made.0.push((Arc::clone(&folder), part.to_owned()));
            }
            folder = Arc::new(folder.inner(part)?);
        }
        Ok(Place { folder, name: name.to_owned(), path: root.join(relative) })
    }

    /// What it is called.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, up to `most` and one more, and its attributes.
    pub fn read(&self, most: u64) -> io::Result<(Vec<u8>, Attributes)> {
        let file = self.regular(self.folder.open_to_read(&self.name)?)?;
        let attributes = Attributes::of(&file)?;
        let mut bytes = Vec::new();
        file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok((bytes, attributes))
    }

    /// Its attributes, if it can be written: a rename would go through although it is protected.
    pub fn writable(&self) -> io::Result<Attributes> {
        Attributes::of(&self.regular(self.folder.open_to_write(&self.name)?)?)
    }

    /// Removes files beside it whose names fit and that nobody holds locked: what killed processes have left.
    pub fn remove_abandoned(&self, fits: impl Fn(&str) -> bool) {
        self.folder.remove_abandoned(fits);
    }

    fn regular(&self, file: File) -> io::Result<File> {
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no regular file")),
        }
    }

    /// A new file beside it.
    pub fn create_beside(&self, name: &OsStr) -> io::Result<File> {
        self.folder.create(name)
    }

    /// Locks a file beside it as long as it is open; false if someone else holds it or has removed it.
    pub fn lock_beside(&self, name: &OsStr, file: &File) -> bool {
        self.folder.lock(name, file)
    }

    /// Locks it as long as what is added to `held` is open; false if someone else holds it, or another file has just come to
    /// its name.
    pub fn lock(&self, held: &mut Vec<File>) -> io::Result<bool> {
        self.folder.lock_named(&self.name, held)
    }

    /// Puts the file beside it in its place, whatever is there.
    pub fn replace_by(&self, name: &OsStr) -> io::Result<()> {
        self.folder.rename(name, &self.name)
    }

    /// Puts the file beside it in its place, where nothing may be.
    pub fn fill_by(&self, name: &OsStr) -> io::Result<()> {
        match self.folder.link(name, &self.name) {
            // Some file systems know no second names.
            Err(error) if error.kind() != ErrorKind::AlreadyExists && !self.folder.holds(&self.name) => {
                self.folder.rename(name, &self.name)
            }
            linked => {
                linked?;
                self.folder.remove(name)
            }
        }
    }

    /// Removes it.
    pub fn remove(&self) -> io::Result<()> {
        self.folder.remove(&self.name)
    }

    /// Removes a file beside it.
    pub fn remove_beside(&self, name: &OsStr) -> io::Result<()> {
        self.folder.remove(name)
    }

    /// Brings the names of its folder to the disk; a file system that cannot has done what it can.
    pub fn sync_folder(&self) {
        self.folder.sync();
    }
}

/// The folder of a file and its name there.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| io::Error::other("it lies in no folder"))
}

#[cfg(test)]
mod tests;
