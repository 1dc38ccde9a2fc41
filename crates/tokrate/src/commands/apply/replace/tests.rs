//! Writing under kill, over links, with modes; several files at once.

use super::*;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const OLD: &[u8] = b"old\ntext\n";
const NEW: &[u8] = b"the new text\nis longer\n";
/// Tells a process of a test that it is to die, where, and over which file.
const VARIABLE: &str = "TOKRATE_TEST_DIES_AT";
const STEPS: [Step; 6] = [Step::Made, Step::Half, Step::Written, Step::Attributed, Step::Synced, Step::Moved];

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("tokrate-replace-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().canonicalize().expect("a folder for files").join(name);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("it is there")
}

/// The file, links followed.
fn place(path: &Path) -> Place {
    Place::of(&path.canonicalize().expect("it is there")).expect("its folder is there")
}

fn new_place(folder: &Folder, name: &str) -> Place {
    Place::below(&folder.0, Path::new(name)).expect("the folder is there")
}

#[test]
fn the_steps_come_in_order_and_the_name_changes_last() {
    let folder = Folder::new();
    let path = folder.write("a", OLD);
    let seen = Mutex::new(Vec::new());
    let watch = |step: Step| {
        seen.lock().expect("one thread").push((step, text(&path) == OLD));
        Ok(())
    };
    replace_watched(place(&path), OLD, NEW, &watch).expect("replaced");
    let expected: Vec<(Step, bool)> = STEPS.into_iter().map(|step| (step, step != Step::Moved)).collect();
    assert_eq!(*seen.lock().expect("one thread"), expected);
    assert_eq!((text(&path), folder.names()), (NEW.to_vec(), vec!["a".to_owned()]));
}

#[test]
fn a_failure_at_any_step_leaves_the_old_text_and_no_clutter() {
    for dies_at in STEPS {
        let folder = Folder::new();
        let path = folder.write("a", OLD);
        let watch = |step| if step == dies_at { Err(io::Error::other("the disk is full")) } else { Ok(()) };
        let error = replace_watched(place(&path), OLD, NEW, &watch).expect_err("it fails");
        assert!(format!("{error:#}").contains("the disk is full"), "{error:#}");
        let expected = if dies_at == Step::Moved { NEW } else { OLD };
        assert_eq!((text(&path), folder.names()), (expected.to_vec(), vec!["a".to_owned()]), "{dies_at:?}");
    }
}

/// Replaces a file and ends in the middle of it, without any clearing up.
fn die(order: &str) {
    let (step, path) = order.split_once(' ').expect("a step and a path");
    let watch = |at: Step| {
        if format!("{at:?}") == step {
            std::process::abort();
        }
        Ok(())
    };
    let _ = replace_watched(place(Path::new(path)), OLD, NEW, &watch);
}

#[test]
fn a_process_that_is_killed_leaves_the_old_text_or_the_new_one() {
    if let Ok(order) = std::env::var(VARIABLE) {
        return die(&order);
    }
    for step in STEPS {
        let folder = Folder::new();
        let path = folder.write("a", OLD);
        let here = module_path!().split_once("::").expect("below the crate").1;
        let name = format!("{here}::a_process_that_is_killed_leaves_the_old_text_or_the_new_one");
        let output = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", &name, "--nocapture"])
            .env(VARIABLE, format!("{step:?} {}", path.display()))
            .output()
            .expect("it starts");
        assert!(!output.status.success(), "it died at {step:?}: {output:?}");
        let expected = if step == Step::Moved { NEW } else { OLD };
        assert_eq!(text(&path), expected, "{step:?}");
        // What was left behind does not stand in the way, and goes with the next change.
        let now = text(&path);
        folder.write(".tokrate-notes.part", OLD);
        replace(place(&path), &now, b"again\n").expect("replaced");
        assert_eq!(text(&path), b"again\n");
        if cfg!(unix) {
            assert_eq!(folder.names(), [".tokrate-notes.part", "a"], "{step:?}");
        }
    }
}

#[cfg(unix)]
#[test]
fn mode_links_and_owner_stay() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let folder = Folder::new();
    let path = folder.write("tool.sh", OLD);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4751)).expect("a mode");
    let before = std::fs::metadata(&path).expect("there");
    symlink("tool.sh", folder.0.join("link")).expect("a link");
    symlink("link", folder.0.join("link of a link")).expect("a link");
    replace(place(&folder.0.join("link of a link")), OLD, NEW).expect("replaced");
    let after = std::fs::metadata(&path).expect("there");
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode() & !0o4000, before.uid(), before.gid()));
    assert_eq!(text(&path), NEW);
    let link = std::fs::symlink_metadata(folder.0.join("link of a link")).expect("there");
    assert!(link.is_symlink(), "the link is still one");
}

#[test]
fn a_file_that_someone_else_changed_is_left_alone() {
    let folder = Folder::new();
    let path = folder.write("a", b"changed\n");
    let error = replace(place(&path), OLD, NEW).expect_err("it is another file now");
    assert!(format!("{error:#}").contains("changed meanwhile"), "{error:#}");
    assert_eq!((text(&path), folder.names().len()), (b"changed\n".to_vec(), 1));
}

#[test]
fn all_changes_are_made_or_none() {
    let nothing: Watch<'_> = &|_| Ok(());
    let stage = |folder: &Folder| {
        vec![
            Staged::create(new_place(folder, "new"), NEW, None).expect("staged"),
            Staged::replace(new_place(folder, "a"), OLD, NEW, nothing).expect("staged"),
            Staged::remove(new_place(folder, "gone"), OLD, new_place(folder, "gone").writable().expect("there")),
            Staged::replace(new_place(folder, "last"), OLD, NEW, nothing).expect("staged"),
        ]
    };
    let folder = Folder::new();
    for name in ["a", "gone", "last"] {
        folder.write(name, OLD);
    }
    let staged = stage(&folder);
    folder.write("last", b"someone else's\n");
    let error = all_or_none(staged).expect_err("the last one cannot be written");
    assert!(format!("{error:#}").contains("changed meanwhile"), "{error:#}");
    assert_eq!(folder.names(), ["a", "gone", "last"]);
    assert_eq!((text(&folder.0.join("a")), text(&folder.0.join("gone"))), (OLD.to_vec(), OLD.to_vec()));
    folder.write("last", OLD);
    all_or_none(stage(&folder)).expect("all of them");
    assert_eq!(folder.names(), ["a", "last", "new"]);
    assert!(["a", "last", "new"].iter().all(|name| text(&folder.0.join(name)) == NEW));
}

#[test]
fn a_new_file_replaces_none() {
    let folder = Folder::new();
    let staged = Staged::create(new_place(&folder, "a"), NEW, None).expect("staged");
    folder.write("a", OLD);
    assert!(all_or_none(vec![staged]).is_err());
    assert_eq!((text(&folder.0.join("a")), folder.names().len()), (OLD.to_vec(), 1));
}

#[cfg(unix)]
#[test]
fn a_neighbour_that_is_worked_on_is_not_cleared_away() {
    let folder = Folder::new();
    let nothing: Watch<'_> = &|_| Ok(());
    for name in ["a", "b"] {
        folder.write(name, OLD);
    }
    let first = Staged::replace(new_place(&folder, "a"), OLD, NEW, nothing).expect("staged");
    replace(new_place(&folder, "b"), OLD, NEW).expect("replaced");
    all_or_none(vec![first]).expect("its neighbour is still there");
    assert_eq!((text(&folder.0.join("a")), folder.names()), (NEW.to_vec(), vec!["a".to_owned(), "b".to_owned()]));
}

#[cfg(unix)]
fn lock(path: &Path) -> File {
    let file = File::open(path).expect("it is there");
    file.try_lock().expect("nobody holds it");
    file
}

#[cfg(unix)]
#[test]
fn an_edit_waits_for_another_one_of_its_file_and_does_not_write_over_it() {
    let folder = Folder::new();
    let path = folder.write("a", OLD);
    let mut staged = Staged::replace(new_place(&folder, "a"), OLD, NEW, &|_| Ok(())).expect("staged");
    // The other one has compared already and holds the lock; its file comes to the name while this one waits.
    let mut others = vec![lock(&path)];
    let mut waits = 0;
    let mut pause = || {
        waits += 1;
        match waits {
            1 => {
                let other = folder.write("other", b"someone else's\n");
                others.insert(0, lock(&other));
                std::fs::rename(other, &path).expect("renamed");
            }
            // First the lock of the file that went, then that of the one that came.
            2 | 3 => drop(others.pop()),
            _ => return false,
        }
        true
    };
    let held = locked(std::slice::from_ref(&staged), &mut pause).expect("the other one has ended");
    assert_eq!((waits, held.len()), (3, 1));
    assert!(File::open(&path).expect("there").try_lock().is_err(), "the file that came is locked");
    let error = staged.commit(&|_| Ok(())).expect_err("it is another file now");
    assert!(format!("{error:#}").contains("changed meanwhile"), "{error:#}");
    drop(staged);
    assert_eq!((text(&path), folder.names()), (b"someone else's\n".to_vec(), vec!["a".to_owned()]));
}

#[cfg(unix)]
#[test]
fn the_old_file_and_the_new_one_are_locked_when_the_name_changes() {
    let folder = Folder::new();
    let path = folder.write("a", OLD);
    let old = File::open(&path).expect("there");
    let is_free = |file: &File| file.try_lock().is_ok() && file.unlock().is_ok();
    let seen = Mutex::new(Vec::new());
    let watch = |step: Step| {
        let now = File::open(&path).expect("there");
        seen.lock().expect("one thread").push((step, is_free(&old), is_free(&now)));
        Ok(())
    };
    replace_watched(place(&path), OLD, NEW, &watch).expect("replaced");
    let expected: Vec<_> = STEPS.into_iter().map(|step| (step, step != Step::Moved, step != Step::Moved)).collect();
    assert_eq!(*seen.lock().expect("one thread"), expected);
    assert!(is_free(&old) && is_free(&File::open(&path).expect("there")));
}

#[cfg(unix)]
#[test]
fn a_file_that_stays_locked_is_refused_and_a_patch_keeps_all_of_its_locks() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.write(name, OLD);
    }
    let stage = |name: &str| Staged::replace(new_place(&folder, name), OLD, NEW, &|_| Ok(())).expect("staged");
    // Whatever the order of the patch, `a` is locked before `b`.
    let staged = vec![stage("b"), stage("a")];
    let other = lock(&folder.0.join("b"));
    let is_free = |name: &str| File::open(folder.0.join(name)).expect("there").try_lock().is_ok();
    let mut pause = || {
        assert!(!is_free("a"), "`a` is locked by now");
        false
    };
    let error = all_or_none_waiting(staged, &mut pause).expect_err("it is locked").to_string();
    assert!(error.ends_with("end that program or wait for it, then run this again"), "{error}");
    assert!(error.contains("b: another program has kept it locked for 10 s"), "{error}");
    assert!(is_free("a"), "no lock is left behind");
    assert_eq!((text(&folder.0.join("a")), folder.names().len()), (OLD.to_vec(), 2));
    drop(other);
    let mut staged = vec![stage("b"), stage("a")];
    let held = locked(&staged, &mut || false).expect("locked");
    staged[0].commit(&|_| Ok(())).expect("written");
    assert_eq!((is_free("a"), is_free("b")), (false, false), "what may yet be undone is locked as well");
    drop((held, staged));
    assert_eq!((is_free("a"), is_free("b"), folder.names().len()), (true, true, 2));
}

#[cfg(unix)]
#[test]
fn a_neighbour_that_is_cleared_away_before_it_is_locked_is_made_again() {
    let folder = Folder::new();
    let place = new_place(&folder, "a");
    let (mut names, mut others) = (Vec::new(), Vec::new());
    let mut made = |name: &OsStr| {
        match names.len() {
            // Another process has cleared up.
            0 => place.remove_abandoned(is_neighbour),
            // It is about to.
            1 => others.push(lock(&folder.0.join(name))),
            _ => {}
        }
        names.push(name.to_string_lossy().into_owned());
    };
    let (name, file) = neighbour(&place, &mut made).expect("made");
    assert_eq!((names.len(), name.to_string_lossy().into_owned()), (3, names[2].clone()));
    place.remove_abandoned(is_neighbour);
    assert_eq!(folder.names(), [names[1].clone(), names[2].clone()], "both are locked");
    drop((file, others));
    let error = neighbour(&place, &mut |_| place.remove_abandoned(is_neighbour)).expect_err("it never stays");
    assert!(error.to_string().contains("run this again"), "{error}");
    assert!(folder.names().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn extended_attributes_stay() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let folder = Folder::new();
    let path = folder.write("a", OLD);
    if setxattr(&path, "user.note", b"mine", XattrFlags::empty()).is_err() {
        // The file system of temporary files has none.
        return;
    }
    replace(place(&path), OLD, NEW).expect("replaced");
    let mut value = [0_u8; 16];
    let length = getxattr(&path, "user.note", &mut value[..]).expect("it is there");
    assert_eq!((&value[..length], text(&path)), (&b"mine"[..], NEW.to_vec()));
}

#[cfg(unix)]
#[test]
fn other_names_of_a_file_are_said() {
    let folder = Folder::new();
    let path = folder.write("a", OLD);
    assert_eq!(replace(place(&path), OLD, OLD).expect("replaced"), None);
    std::fs::hard_link(&path, folder.0.join("b")).expect("a second name");
    let note = replace(place(&path), OLD, NEW).expect("replaced").expect("a note");
    assert!(note.contains("hard links (1)"), "{note}");
    assert_eq!(text(&folder.0.join("b")), OLD, "the other name keeps the old text");
}

#[cfg(unix)]
#[test]
fn a_program_that_runs_as_another_user_does_so_no_longer_once_it_is_edited() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    let folder = Folder::new();
    // Without the right of the group to run it, the second bit says nothing of groups.
    for (before, after) in [(0o4755, 0o755), (0o2755, 0o755), (0o6711, 0o711), (0o2644, 0o2644), (0o1644, 0o1644)] {
        let path = folder.write("a", OLD);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).expect("a mode");
        if mode(&path) != before {
            // This user may not set it.
            continue;
        }
        let note = replace(place(&path), OLD, NEW).expect("replaced");
        assert_eq!((mode(&path), note.is_some()), (after, before != after), "{before:o}: {note:?}");
        // What is undone is as it was.
        folder.write("a", OLD);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).expect("a mode");
        folder.write("b", OLD);
        let staged = |name: &str| Staged::replace(new_place(&folder, name), OLD, NEW, &|_| Ok(())).expect("staged");
        let both = vec![staged("a"), staged("b")];
        folder.write("b", b"someone else's\n");
        assert!(all_or_none(both).is_err());
        assert_eq!((mode(&path), text(&path)), (before, OLD.to_vec()), "{before:o}");
        std::fs::remove_file(&path).expect("removed");
    }
}
