//! Links and folders that come to a path after it was looked at.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static NEXT: AtomicU32 = AtomicU32::new(0);

struct Scratch(PathBuf);

impl Scratch {
    /// A folder with `src/a.txt` and `other/a.txt`.
    fn new() -> Scratch {
        let name = format!("tokrate-place-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().canonicalize().expect("a folder for files").join(name);
        for (folder, text) in [("src", "mine"), ("other", "theirs")] {
            std::fs::create_dir_all(path.join(folder)).expect("made");
            std::fs::write(path.join(folder).join("a.txt"), text).expect("written");
        }
        Scratch(path)
    }

    fn place(&self, path: &str) -> io::Result<Place> {
        Place::below(&self.0, Path::new(path))
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.join(path)).expect("it is there")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(unix)]
#[test]
fn a_link_that_comes_to_the_path_of_a_folder_is_not_followed() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let held = scratch.place("src/a.txt").expect("it is there");
    std::fs::rename(scratch.0.join("src"), scratch.0.join("moved")).expect("moved");
    symlink("other", scratch.0.join("src")).expect("a link");
    // What was opened before is what is written.
    let name = OsStr::new("new");
    io::Write::write_all(&mut held.create_beside(name).expect("made"), b"edited").expect("written");
    held.replace_by(name).expect("replaced");
    assert_eq!((scratch.text("moved/a.txt"), scratch.text("other/a.txt")), ("edited".to_owned(), "theirs".to_owned()));
    // What is opened after finds the link.
    assert!(scratch.place("src/a.txt").is_err());
    let mut made = MadeFolders::default();
    assert!(Place::below_made(&scratch.0, Path::new("src/deep/b.txt"), &mut made).is_err());
    assert!(!scratch.0.join("other/deep").exists());
}

#[cfg(unix)]
#[test]
fn a_link_or_a_pipe_that_comes_to_the_name_of_a_file_is_neither_read_nor_written() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    let held = scratch.place("src/a.txt").expect("it is there");
    std::fs::remove_file(scratch.0.join("src/a.txt")).expect("removed");
    symlink("../other/a.txt", scratch.0.join("src/a.txt")).expect("a link");
    assert!(held.read(100).is_err() && held.writable().is_err());
    std::fs::remove_file(scratch.0.join("src/a.txt")).expect("removed");
    let pipe = std::process::Command::new("mkfifo").arg(scratch.0.join("src/a.txt")).status().expect("it starts");
    assert!(pipe.success());
    // Neither waits for somebody at the other end.
    assert!(held.read(100).is_err() && held.writable().is_err());
}

#[test]
fn folders_that_were_made_for_nothing_go_again() {
    let scratch = Scratch::new();
    let mut made = MadeFolders::default();
    let place = Place::below_made(&scratch.0, Path::new("one/two/b.txt"), &mut made).expect("made");
    drop(place);
    drop(made);
    assert!(!scratch.0.join("one").exists());
    let mut made = MadeFolders::default();
    let place = Place::below_made(&scratch.0, Path::new("one/two/b.txt"), &mut made).expect("made");
    place.create_beside(OsStr::new("b.txt")).expect("made");
    drop(made);
    assert!(scratch.0.join("one/two/b.txt").exists());
}

#[test]
fn a_path_with_detours_is_no_place() {
    let scratch = Scratch::new();
    assert!(scratch.place("src/../other/a.txt").is_err());
    assert!(scratch.place("").is_err() && scratch.place("..").is_err());
    assert_eq!(scratch.place("src/a.txt").expect("there").read(2).expect("read").0, b"min");
}
