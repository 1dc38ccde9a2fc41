//! What the tests of several modules need.
//!
//! Invariant: nothing of it is left behind on the disk.

use std::path::PathBuf;

/// A folder for one test; removed when dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// `name` is that of the test, the same in no other.
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tokrate-monitor-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
