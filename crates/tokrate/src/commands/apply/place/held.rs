//! A folder by its descriptor: names in it are looked up in this folder and in no other that has come to its path.

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fstat, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
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
            Err(Errno::EXIST) => Ok(false),
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

    /// A new file.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = FILE.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::EXCL);
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Locks an open file as long as it is open; false if someone else holds it, or if its name leads to it no more. A file
    /// system without locks keeps nobody out.
    pub fn lock(&self, name: &OsStr, file: &File) -> bool {
        let is_held = flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
        !is_held && self.leads_to(name, file)
    }

    /// Locks the file of a name as long as what is added to `held` is open; false if someone else holds it, or another file
    /// has just come to its name.
    pub fn lock_named(&self, name: &OsStr, held: &mut Vec<File>) -> io::Result<bool> {
        let mut file = self.open_to_read(name)?;
        // Some network file systems lock only what is open to be written.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::BADF)
            && let Ok(writable) = self.open_to_write(name)
        {
            file = writable;
        }
        let is_locked = self.lock(name, &file);
        held.extend(is_locked.then_some(file));
        Ok(is_locked)
    }

    fn leads_to(&self, name: &OsStr, file: &File) -> bool {
        let (Ok(named), Ok(open)) = (statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW), fstat(file)) else {
            return false;
        };
        (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
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
            // Whoever works on one holds its lock, which ends with the process. One that was just made may not be locked yet:
            // who made it sees that it went. By now the name may stand for another file.
            if file.metadata().is_ok_and(|metadata| metadata.is_file())
                && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && self.leads_to(OsStr::new(name), &file)
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
