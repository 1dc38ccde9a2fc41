//! A folder for one test, empty at its beginning and removed at its end.
//!
//! Invariant: no two tests share one.

use std::path::{Path, PathBuf};

/// The folder; removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// `name` is unique among the tests.
    pub fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    /// Where its log lies.
    pub fn log(&self) -> PathBuf {
        self.0.join("tokrate-log.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
