//! A folder by its descriptor: names in it are looked up in this folder and in no other that has come to its path.

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// To look names up in a folder takes no right to list it.
#[cfg(target_os = "linux")]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A pipe or a device that has come to a file's name neither holds up who opens it nor becomes its terminal.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    pub fn open(path: &Path) -> io::Result<Folder> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Folder(openat(CWD, here, FOLDER, Mode::empty())?))
    }

    /// A folder in it that is no link.
    pub fn inner(&self, name: &OsStr) -> io::Result<Folder> {
        Ok(Folder(openat(&self.0, name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty())?))
    }

    /// Makes a folder in it; false if something stands there already.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<bool> {
        match mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
        Ok(openat(&self.0, name, FILE.union(OFlags::RDONLY), Mode::empty())?.into())
    }

    pub fn open_to_write(&self, name: &OsStr) -> io::Result<File> {
        Ok(openat(&self.0, name, FILE.union(OFlags::WRONLY), Mode::empty())?.into())
    }

    /// A new file, locked as long as it is open.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = FILE.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::EXCL);
        let file: File = openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?.into();
        // Without locks nothing is cleared away either.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(file)
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    pub fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(linkat(&self.0, from, &self.0, to, AtFlags::empty())?)
    }

    /// Whether something stands there, if only a link.
    pub fn holds(&self, name: &OsStr) -> bool {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub fn remove_abandoned(&self, fits: impl Fn(&str) -> bool) {
        let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
        // A folder that cannot be listed keeps its clutter.
        let Ok(listed) = openat(&self.0, ".", flags, Mode::empty()).and_then(Dir::new) else { return };
        for entry in listed.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !fits(name) {
                continue;
            }
            let Ok(file) = self.open_to_read(OsStr::new(name)) else { continue };
            // Whoever works on one holds its lock, which ends with the process.
            if file.metadata().is_ok_and(|metadata| metadata.is_file())
                && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            {
                let _ = self.remove(OsStr::new(name));
            }
        }
    }

    pub fn sync(&self) {
        let flags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
        if let Ok(folder) = openat(&self.0, ".", flags, Mode::empty()) {
            let _ = File::from(folder).sync_all();
        }
    }
}
