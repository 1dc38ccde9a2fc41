//! A folder by its path, where the system's library has no names relative to an open folder.
//!
//! What is exchanged above a file between two looks at it is not noticed here.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A folder.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder(path.to_path_buf()))
    }

    /// A folder in it that is no link.
    pub fn inner(&self, name: &OsStr) -> io::Result<Folder> {
        let path = self.0.join(name);
        match path.symlink_metadata()?.is_dir() {
            true => Ok(Folder(path)),
            false => Err(io::Error::other("it is no folder")),
        }
    }

    /// Makes a folder in it; false if something stands there already.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<bool> {
        match std::fs::create_dir(self.0.join(name)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_dir(self.0.join(name))
    }

    fn unlinked(&self, name: &OsStr) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        match path.symlink_metadata()?.is_symlink() {
            true => Err(io::Error::other("it is a symbolic link")),
            false => Ok(path),
        }
    }

    pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.unlinked(name)?)
    }

    pub fn open_to_write(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.unlinked(name)?)
    }

    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.0.join(name))
    }

    /// Nothing is locked here.
    pub fn lock(&self, _: &OsStr, _: &File) -> bool {
        true
    }

    /// The same: two processes that write one file at the same time are kept apart by the comparison alone.
    pub fn lock_named(&self, _: &OsStr, _: &mut Vec<File>) -> io::Result<bool> {
        Ok(true)
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::rename(self.0.join(from), self.0.join(to))
    }

    pub fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        std::fs::hard_link(self.0.join(from), self.0.join(to))
    }

    /// Whether something stands there, if only a link.
    pub fn holds(&self, name: &OsStr) -> bool {
        self.0.join(name).symlink_metadata().is_ok()
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        std::fs::remove_file(self.0.join(name))
    }

    /// Nothing tells here whether somebody still works on a file.
    pub fn remove_abandoned(&self, _: impl Fn(&str) -> bool) {}

    pub fn sync(&self) {
        if let Ok(folder) = File::open(&self.0) {
            let _ = folder.sync_all();
        }
    }
}
