//! `tokrate apply --patch`: all files or none, and none outside of the root.
//!
//! Invariant: a patch that is refused changes nothing anywhere.

use crate::apply::fed;
use crate::folder::Folder;
use crate::tool::{Finished, run};
use serde_json::Value;
use std::path::Path;

const PATCH: &str = "\
*** Begin Patch
*** Update File: src/a.txt
@@
-two
+zwei
*** Add File: src/new/b.txt
+first
+second
*** Delete File: gone.txt
*** Update File: old name.txt
*** Move to: moved/new name.txt
@@
 keep
-drop
+kept
*** End Patch
";

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::create_dir(folder.join("src")).expect("made");
    folder.write("src/a.txt", "one\ntwo\nthree\n");
    folder.write("gone.txt", "bye\n");
    folder.write("old name.txt", "keep\ndrop\n");
    folder.write("twice.txt", "same\nother\nsame\n");
    folder
}

/// Every file below a folder with its text.
fn everything(path: &Path, shown: &mut Vec<String>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(path).expect("a folder").map(|it| it.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() && !entry.is_symlink() {
            everything(&entry, shown);
        } else {
            shown.push(format!("{}: {:?}", entry.display(), std::fs::read_to_string(&entry).unwrap_or_default()));
        }
    }
}

fn all(folder: &Folder) -> String {
    let mut shown = Vec::new();
    everything(folder.path(), &mut shown);
    shown.join("\n").replace(&folder.path().display().to_string(), "")
}

fn patched(folder: &Folder, flags: &[&str], patch: &str) -> Finished {
    fed(folder, &[&["apply", "--patch", "-"], flags].concat(), patch.as_bytes())
}

#[test]
fn a_patch_changes_adds_removes_and_moves() {
    let folder = folder("patch");
    let before = all(&folder);
    let shown = patched(&folder, &["--diff"], PATCH);
    assert_eq!((shown.code, all(&folder)), (Some(0), before.clone()));
    let checked = patched(&folder, &["--check"], PATCH);
    assert_eq!((checked.code, all(&folder)), (Some(0), before));
    let done = patched(&folder, &[], PATCH);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let files = all(&folder);
    insta::assert_snapshot!("patch", [shown.stdout, checked.stdout, done.stdout, files].join("\n"));
}

#[test]
fn a_patch_works_below_its_root_and_tells_json() {
    let folder = Folder::new("patch-root");
    std::fs::create_dir_all(folder.join("project/src")).expect("made");
    folder.write("project/src/a.txt", "one\ntwo\n");
    folder.write("p.txt", "*** Begin Patch\n*** Update File: src/a.txt\n@@\n-two\n+zwei\n*** End Patch\n");
    let done = run(&folder, &["apply", "--patch", "p.txt", "--root", "project", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let reported: Value = serde_json::from_str(&done.stdout).expect("JSON");
    insta::assert_snapshot!("patch_json", format!("{reported:#}"));
    assert_eq!(folder.read("project/src/a.txt"), "one\nzwei\n");
}

#[test]
fn one_refused_file_keeps_all_of_them() {
    let folder = folder("patch-refused");
    let before = all(&folder);
    let patch = PATCH.replace("*** End Patch", "*** Update File: twice.txt\n@@\n-same\n+new\n*** End Patch");
    let refused = patched(&folder, &[], &patch);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.starts_with("twice.txt: refused (ambiguous_location): "), "{}", refused.stderr);
    assert!(refused.stderr.contains("       3 | same\n") && refused.stderr.ends_with("no file was changed\n"));
    assert_eq!(all(&folder), before);
    let reported = patched(&folder, &["--json"], &patch);
    let reported: Value = serde_json::from_str(&reported.stdout).expect("JSON");
    assert_eq!((&reported["status"], &reported["files"][0]["code"]), (&"refused".into(), &"ambiguous_location".into()));
}

/// Patches that add one file, edit one, or delete it.
fn touching(path: &str) -> [String; 8] {
    [
        format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"),
        format!("*** Begin Patch\n*** Update File: {path}\n@@\n-two\n+x\n*** End Patch\n"),
        format!("*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"),
        format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"),
        format!("--- a/{path}\n+++ b/{path}\n@@ -2 +2 @@\n-two\n+x\n"),
        format!("--- a/{path}\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"),
        format!("{path}\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n"),
        format!("{path}\n<<<<<<< SEARCH\ntwo\n=======\nx\n>>>>>>> REPLACE\n"),
    ]
}

#[test]
fn a_diff_of_several_files_is_carried_out_whole_or_not_at_all() {
    let folder = folder("patch-diff");
    let diff = "diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n\
        diff --git a/src/new/b.txt b/src/new/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/src/new/b.txt\n@@ -0,0 +1,2 @@\n+first\n+second\n\
        diff --git a/gone.txt b/gone.txt\ndeleted file mode 100644\n--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-bye\n\
        diff --git a/old name.txt b/moved/new name.txt\nsimilarity index 50%\nrename from old name.txt\nrename to moved/new name.txt\n\
        --- a/old name.txt\n+++ b/moved/new name.txt\n@@ -1,2 +1,2 @@\n keep\n-drop\n+kept\n";
    let before = all(&folder);
    let one = fed(&folder, &["apply", "src/a.txt"], diff.as_bytes());
    assert!(one.code == Some(1) && one.stderr.contains("--patch"), "one file is named: {one:?}");
    let other = diff.replace("-bye", "-good bye");
    let refused = patched(&folder, &[], &other);
    assert_eq!((refused.code, all(&folder)), (Some(1), before), "what is deleted must be what the diff shows");
    assert!(refused.stderr.starts_with("gone.txt: refused (no_anchor)"), "{}", refused.stderr);
    let by_v4a = {
        let folder = self::folder("patch-v4a");
        assert_eq!(patched(&folder, &[], PATCH).code, Some(0));
        all(&folder)
    };
    let done = patched(&folder, &[], diff);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(all(&folder), by_v4a);
}

#[test]
fn blocks_below_names_of_files_are_carried_out_whole_or_not_at_all() {
    let folder = folder("patch-blocks");
    let before = all(&folder);
    let block = |path: &str, old: &str, new: &str| {
        format!("{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n\n")
    };
    let good = block("src/a.txt", "two\n", "zwei\n") + &block("src/new/b.txt", "", "first\n");
    let refused = patched(&folder, &[], &(good.clone() + &block("twice.txt", "same\n", "new\n")));
    assert_eq!((refused.code, all(&folder)), (Some(1), before));
    let done = patched(&folder, &[], &good);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(
        (folder.read("src/a.txt"), folder.read("src/new/b.txt")),
        ("one\nzwei\nthree\n".into(), "first\n".into())
    );
}

#[cfg(unix)]
#[test]
fn nothing_outside_of_the_root_is_touched() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("patch-escape");
    std::fs::create_dir_all(folder.join("root/sub")).expect("made");
    std::fs::create_dir(folder.join("other")).expect("made");
    folder.write("other/secret.txt", "one\ntwo\n");
    symlink("../other", folder.join("root/linked")).expect("a link");
    symlink("../other/secret.txt", folder.join("root/secret.txt")).expect("a link");
    let before = all(&folder);
    let absolute = folder.join("other/secret.txt").display().to_string();
    for path in ["../other/secret.txt", "sub/../../other/secret.txt", &absolute, "linked/secret.txt", "secret.txt"] {
        for patch in touching(path) {
            let refused = patched(&folder, &["--root", "root"], &patch);
            assert_eq!(refused.code, Some(1), "{path}: {refused:?}");
            let known = ["outside_root", "file_exists"].iter().any(|code| refused.stderr.contains(code));
            assert!(known, "{path}: {}", refused.stderr);
            assert_eq!(all(&folder), before, "{path}");
        }
    }
    for path in ["linked/new.txt", "../new.txt", "/new.txt"] {
        let refused = patched(&folder, &["--root", "root"], &touching(path)[0]);
        assert!(refused.code == Some(1) && refused.stderr.contains("(outside_root)"), "{path}: {refused:?}");
    }
    let moved = "*** Begin Patch\n*** Update File: sub/a.txt\n*** Move to: ../other/a.txt\n*** End Patch\n";
    folder.write("root/sub/a.txt", "two\n");
    let refused = patched(&folder, &["--root", "root"], moved);
    assert!(refused.code == Some(1) && refused.stderr.contains("(outside_root)"), "{refused:?}");
    assert_eq!(folder.read("root/sub/a.txt"), "two\n");
}

#[cfg(unix)]
#[test]
fn links_inside_of_the_root_are_not_doors_either() {
    use std::os::unix::fs::symlink;
    let folder = folder("patch-link");
    symlink("a.txt", folder.join("src/link.txt")).expect("a link");
    symlink("nowhere", folder.join("src/dangling.txt")).expect("a link");
    let before = all(&folder);
    let [_, update, delete, ..] = touching("src/link.txt");
    let [add, ..] = touching("src/dangling.txt");
    for (patch, code) in [(update, "symbolic_link"), (delete, "symbolic_link"), (add, "file_exists")] {
        let refused = patched(&folder, &[], &patch);
        assert!(refused.code == Some(1) && refused.stderr.contains(code), "{code}: {refused:?}");
    }
    let both = "*** Begin Patch\n*** Update File: src/a.txt\n@@\n-two\n+x\n*** Update File: src/./a.txt\n@@\n-one\n+x\n*** End Patch\n";
    let refused = patched(&folder, &[], both);
    assert!(refused.code == Some(1) && refused.stderr.contains("different names"), "{refused:?}");
    assert_eq!(all(&folder), before);
}

#[test]
fn a_patch_that_is_none_is_refused() {
    let folder = folder("patch-none");
    let before = all(&folder);
    for (patch, code) in [
        ("", "invalid_format"),
        ("hello\n", "invalid_format"),
        ("*** Begin Patch\n*** End Patch\n", "invalid_format"),
        ("*** Begin Patch\n*** Update File: nowhere.txt\n@@\n-a\n+b\n*** End Patch\n", "no_such_file"),
        ("*** Begin Patch\n*** Update File: src\n@@\n-a\n+b\n*** End Patch\n", "not_a_file"),
        ("*** Begin Patch\n*** Add File: gone.txt\n+x\n*** End Patch\n", "file_exists"),
    ] {
        let refused = patched(&folder, &[], patch);
        assert_eq!(refused.code, Some(1), "{patch}: {refused:?}");
        assert!(refused.stderr.contains(&format!("refused ({code})")), "{patch}: {}", refused.stderr);
    }
    let refused = fed(&folder, &["apply", "--patch", "-"], b"\xff");
    assert!(refused.code == Some(1) && refused.stderr.contains("(not_text)"), "{refused:?}");
    assert_eq!(all(&folder), before);
}
