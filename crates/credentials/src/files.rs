//! Files of credentials, which may have been put there by anybody.
//!
//! Invariant: a file is read up to its limit, and only a regular file is read: a pipe would be waited for without end.

use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The longest file of credentials (bytes). Tokens of workload identities have a few KiB, shared configurations of large companies some
/// hundred.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a file; `None` if there is none. An error is fit to stand behind the file's name.
pub(crate) fn read(path: &Path) -> Result<Option<String>, String> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    match read {
        Err(error) => Err(format!("cannot be read: {error}")),
        Ok(_) if bytes.len() as u64 > MAX_FILE_BYTES => Err(format!("has more than {MAX_FILE_BYTES} bytes")),
        Ok(_) => String::from_utf8(bytes).map(Some).map_err(|_| "is not UTF-8".to_owned()),
    }
}

/// The text of a file that must be there, such as a token.
pub(crate) fn read_required(path: &Path) -> Result<String, String> {
    let found = read(path).and_then(|text| text.ok_or_else(|| "is not there".to_owned()));
    found.map_err(|reason| format!("{} {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_a_folder_and_a_file_without_an_end_are_refused_and_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("tokrate-credentials-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let pipe = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
        assert!(made.success());
        assert_eq!(read(&pipe), Err("is no regular file".to_owned()));
        assert_eq!(read(&folder), Err("is no regular file".to_owned()));
        assert_eq!(read(Path::new("/dev/zero")), Err("is no regular file".to_owned()));
        let long = folder.join("long");
        std::fs::write(&long, vec![b'x'; 1 + (1 << 20)]).expect("a file");
        assert_eq!(read(&long), Err("has more than 1048576 bytes".to_owned()));
        assert_eq!(read(&folder.join("none")), Ok(None));
        assert!(read_required(&folder.join("none")).expect_err("none").ends_with("none is not there"));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
