//! What a file has besides its text: owner, mode, extended attributes. New text that takes its place takes them over.
//!
//! Invariant: an attribute that belongs to the file's user is kept, or the new text is not put in its place.

use std::fs::{File, Metadata, Permissions};
use std::io;

/// The attributes of a file.
#[derive(Clone, Debug)]
pub struct Attributes {
    metadata: Metadata,
    permissions: Permissions,
    extended: Vec<extended::Attribute>,
}

impl Attributes {
    /// Those of an open file.
    pub fn of(file: &File) -> io::Result<Attributes> {
        let metadata = file.metadata()?;
        Ok(Attributes { permissions: metadata.permissions(), metadata, extended: extended::of(file)? })
    }

    /// Those of the file with another text, and what is to be said of that: as after any write, a program no longer runs as another user
    /// or group, nor with capabilities of its own.
    pub fn of_other_text(mut self) -> (Attributes, Option<&'static str>) {
        let mut lost = extended::take_capabilities(&mut self.extended);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            const SET_USER: u32 = 0o4000;
            const SET_GROUP: u32 = 0o2000;
            const GROUP_RUNS: u32 = 0o0010;
            let mode = self.permissions.mode();
            // Without the right to run it, the second bit is of another meaning, and stays.
            let group = if mode & GROUP_RUNS == 0 { 0 } else { SET_GROUP };
            lost |= mode & (SET_USER | group) != 0;
            self.permissions.set_mode(mode & !(SET_USER | group));
        }
        (self, lost.then_some("it no longer runs as another user or group: its set-ID bits and capabilities are off, as after any write"))
    }

    /// What tells a file from all others, whatever it is called.
    pub fn identity(&self) -> Option<(u64, u64)> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Some((self.metadata.dev(), self.metadata.ino()))
        }
        #[cfg(not(unix))]
        None
    }

    /// The file's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Gives them to another file. The owner first: changing it may take bits of the mode away.
    pub fn give(&self, file: &File) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            let (own, like) = (file.metadata()?, &self.metadata);
            if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
                fchown(file, Some(like.uid()), Some(like.gid()))?;
            }
        }
        file.set_permissions(self.permissions.clone())?;
        extended::give(&self.extended, file)
    }

    /// Says that the file had further names, which keep the old text.
    pub fn other_names(&self) -> Option<String> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let others = self.metadata.nlink().saturating_sub(1);
            (others > 0).then(|| format!("the file has other hard links ({others}), which keep the old text"))
        }
        #[cfg(not(unix))]
        None
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod extended {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
    use rustix::io::Errno;
    use std::fs::File;
    use std::io;

    /// A name and its value.
    pub type Attribute = (Vec<u8>, Vec<u8>);

    /// Most bytes of the names of a file, and of a value: Linux' own limits.
    const MAX_BYTES: usize = 64 << 10;

    pub fn of(file: &File) -> io::Result<Vec<Attribute>> {
        let mut names = vec![0_u8; MAX_BYTES];
        let length = match flistxattr(file, &mut names[..]) {
            Ok(length) => length,
            // A file system without any.
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut found = Vec::new();
        for name in names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0_u8; MAX_BYTES];
            match fgetxattr(file, name, &mut value[..]) {
                Ok(length) => {
                    value.truncate(length);
                    found.push((name.to_vec(), value));
                }
                Err(_) if !is_of_user(name) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// Takes away what lets a program do more than its user may; whether there was any.
    pub fn take_capabilities(attributes: &mut Vec<Attribute>) -> bool {
        let before = attributes.len();
        attributes.retain(|(name, _)| name != b"security.capability");
        attributes.len() < before
    }

    pub fn give(attributes: &[Attribute], file: &File) -> io::Result<()> {
        for (name, value) in attributes {
            match fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                // The system gives a new file its own labels, and lets only some set others.
                Err(error) if is_of_user(name) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether an attribute is the user's own matter, or says who may read the file.
    fn is_of_user(name: &[u8]) -> bool {
        name.starts_with(b"user.") || name.starts_with(b"system.posix_acl") || cfg!(target_vendor = "apple")
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod extended {
    use std::fs::File;
    use std::io;

    pub type Attribute = ();

    pub fn of(_: &File) -> io::Result<Vec<Attribute>> {
        Ok(Vec::new())
    }

    pub fn take_capabilities(_: &mut Vec<Attribute>) -> bool {
        false
    }

    pub fn give(_: &[Attribute], _: &File) -> io::Result<()> {
        Ok(())
    }
}
