//! What a model names is never `.git`, and nothing else that runs code unless a person has allowed it: by a patch, by an agent's
//! tool, through links, however it is spelt.
//!
//! Invariant: a refusal leaves every file, mode and folder as it was.

use crate::apply::fed;
use crate::folder::Folder;
use crate::tool::{Finished, run};
use serde_json::{Value, json};
use std::path::Path;

/// Names that no flag opens.
const NEVER: &[&str] = &[
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".Git/hooks/pre-commit",
    ".git./config",
    ".git /config",
    ".git::$INDEX_ALLOCATION/config",
    ".git\\config",
    "git~1/config",
    ".g\u{200c}it/config",
    "src/../.git/config",
    "./.git/config",
    "module/.git",
    "module/.git/config",
    "worktree/.git",
];

/// Names that need a person's word.
const ASKED_FOR: &[&str] = &[
    ".github/workflows/ci.yml",
    ".GITHUB/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".gitattributes",
    ".gitmodules",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".cargo/config.toml",
    ".ssh/authorized_keys",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".envrc",
    ".npmrc",
    ".pre-commit-config.yaml",
    "sub/.devcontainer/devcontainer.json",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "dotfiles/zshrc",
    "bare/HEAD",
    "tokrate.toml",
];

const GOOD: &str = "*** Update File: src/a.txt\n@@\n-two\n+zwei\n";

/// A folder with a repository of git, a working tree of another one, a bare one, and a file to edit.
fn project(name: &str) -> Folder {
    let folder = Folder::new(name);
    for path in ["src", ".git/hooks", ".git/objects", ".git/refs", ".github/workflows", "worktree", "bare.git/hooks"] {
        std::fs::create_dir_all(folder.join(path)).expect("made");
    }
    for path in ["bare.git/objects", "bare.git/refs"] {
        std::fs::create_dir(folder.join(path)).expect("made");
    }
    for path in [".git/HEAD", ".git/config", ".git/hooks/pre-commit", "bare.git/HEAD", "bare.git/hooks/update"] {
        folder.write(path, "one\ntwo\nthree\n");
    }
    for path in ["src/a.txt", ".github/workflows/ci.yml", "bare.git/config", "Jenkinsfile", ".bashrc", "notes.txt"] {
        folder.write(path, "one\ntwo\nthree\n");
    }
    folder.write("worktree/.git", "gitdir: ../.git/worktrees/worktree\n");
    folder
}

/// Everything below a folder: names, kinds, modes, texts.
fn everything(folder: &Folder) -> String {
    let mut shown = Vec::new();
    below(folder.path(), &mut shown);
    shown.join("\n")
}

fn below(path: &Path, shown: &mut Vec<String>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(path).expect("a folder").map(|it| it.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        let metadata = entry.symlink_metadata().expect("it is there");
        let text = if metadata.is_file() { std::fs::read_to_string(&entry).unwrap_or_default() } else { String::new() };
        shown.push(format!("{} {:?} {text:?}", entry.display(), metadata.permissions()));
        if metadata.is_dir() {
            below(&entry, shown);
        }
    }
}

/// Patches that make, change, remove and move a file of that name, each with a good file before and behind it.
fn patches(path: &str) -> Vec<String> {
    let sections = [
        format!("*** Add File: {path}\n+x\n"),
        format!("*** Update File: {path}\n@@\n-two\n+x\n"),
        format!("*** Delete File: {path}\n"),
        format!("*** Update File: {path}\n*** Move to: moved.txt\n"),
        format!("*** Update File: notes.txt\n*** Move to: {path}\n"),
        format!("*** Update File: notes.txt\n*** Move to: {path}\n@@\n-two\n+x\n"),
    ];
    let whole =
        |section: String| format!("*** Begin Patch\n{GOOD}{section}*** Add File: new/deep/b.txt\n+x\n*** End Patch\n");
    let diffs = [
        format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"),
        format!("--- a/{path}\n+++ b/{path}\n@@ -2 +2 @@\n-two\n+x\n"),
        format!("--- a/{path}\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n"),
        format!("diff --git a/notes.txt b/{path}\nsimilarity index 100%\nrename from notes.txt\nrename to {path}\n"),
        format!("diff --git a/{path} b/moved\nsimilarity index 100%\nrename from {path}\nrename to moved\n"),
    ];
    let diff = |section: String| {
        format!(
            "{section}diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -2 +2 @@\n-two\n+zwei\n"
        )
    };
    // A word alone would make no file.
    let block = |path: &str, old: &str| format!("./{path}\n<<<<<<< SEARCH\n{old}=======\nzwei\n>>>>>>> REPLACE\n");
    let blocks = ["", "two\n"].map(|old| block("src/a.txt", "two\n") + &block(path, old));
    // With other signs a line in front of a block is prose, and the block one of the file above.
    let blocks = blocks.into_iter().filter(|_| !path.contains(['\\', ' ']));
    sections.into_iter().map(whole).chain(diffs.into_iter().map(diff)).chain(blocks).collect()
}

fn patched(folder: &Folder, flags: &[&str], patch: &str) -> Finished {
    fed(folder, &[&["apply", "--patch", "-"], flags].concat(), patch.as_bytes())
}

/// What the tool says to edits of these files.
fn edited(folder: &Folder, flags: &[&str], paths: &[&str]) -> Vec<String> {
    let call = |path: &&str| {
        let arguments =
            json!({"path": path, "code_edit": "<<<<<<< SEARCH\ntwo\n=======\nx\n>>>>>>> REPLACE\n", "instruction": ""});
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "edit_file", "arguments": arguments}})
    };
    let lines: String = paths.iter().map(|path| format!("{}\n", call(path))).collect();
    let finished = fed(folder, &[&["mcp"], flags].concat(), lines.as_bytes());
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{finished:?}");
    let text = |line: &str| -> String {
        let answer: Value = serde_json::from_str(line).expect("a message");
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    finished.stdout.lines().map(text).collect()
}

#[test]
fn a_patch_touches_no_git_folder_and_no_other_file_with_it() {
    let folder = project("protected-patch");
    let before = everything(&folder);
    for path in NEVER {
        for patch in patches(path) {
            let refused = patched(&folder, &[], &patch);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{patch}: {refused:?}");
            // A path with detours is refused for those.
            let known = ["(protected_path)", "(outside_root)"].iter().any(|code| refused.stderr.contains(code));
            assert!(known, "{patch}: {}", refused.stderr);
            assert_eq!(everything(&folder), before, "{patch}");
        }
    }
    let refused = patched(&folder, &["--json"], &patches(".git/config")[0]);
    let reported: Value = serde_json::from_str(&refused.stdout).expect("JSON");
    assert_eq!(reported["files"][0]["code"], "protected_path");
}

#[test]
fn what_runs_code_is_touched_only_when_it_was_allowed_by_name() {
    let folder = project("protected-allow");
    let before = everything(&folder);
    for path in ASKED_FOR {
        for patch in patches(path) {
            for flags in [&[][..], &["--allow", ".circleci"], &["--allow", "src/.github"]] {
                let refused = patched(&folder, flags, &patch);
                assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{patch}: {refused:?}");
                assert!(refused.stderr.contains("(protected_path)"), "{patch}: {}", refused.stderr);
                assert!(refused.stderr.contains("--allow "), "{patch}: {}", refused.stderr);
                assert_eq!(everything(&folder), before, "{patch}");
            }
        }
    }
    let refused = patched(&folder, &[], &patches(".github/workflows/ci.yml")[1]);
    insta::assert_snapshot!("protected", refused.stderr);
    let update = &patches(".github/workflows/ci.yml")[1];
    let done = patched(&folder, &["--allow", ".github"], update);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(folder.read(".github/workflows/ci.yml"), "one\nx\nthree\n");
    assert_eq!((folder.read("src/a.txt"), folder.read("new/deep/b.txt")), ("one\nzwei\nthree\n".into(), "x\n".into()));
}

#[test]
fn an_agents_tool_is_held_to_the_same() {
    let folder = project("protected-mcp");
    for path in ["bare.git/objects/two", ".zshrc"] {
        folder.write(path, "one\ntwo\nthree\n");
    }
    let before = everything(&folder);
    let absolute: Vec<String> =
        [".git/config", ".GIT/config", ".bashrc"].iter().map(|path| folder.join(path).display().to_string()).collect();
    let paths: Vec<&str> = NEVER.iter().chain(ASKED_FOR).copied().chain(absolute.iter().map(String::as_str)).collect();
    for (path, output) in paths.iter().zip(edited(&folder, &[], &paths)) {
        assert!(output.contains("refused (protected_path)"), "{path}: {output}");
        assert!(!output.contains("three"), "{path}: nothing of it is shown: {output}");
    }
    for (path, output) in ["bare.git/config", "bare.git/hooks/update", "bare.git/objects/two"].iter().zip(edited(
        &folder,
        &[],
        &["bare.git/config", "bare.git/hooks/update", "bare.git/objects/two"],
    )) {
        assert!(output.contains("refused (protected_path)"), "{path}: {output}");
    }
    assert_eq!(everything(&folder), before);
    let output =
        edited(&folder, &["--allow", ".bashrc", "--allow", "Jenkinsfile"], &[".bashrc", "Jenkinsfile", ".zshrc"]);
    assert!(output[0].contains("+x\n") && output[1].contains("+x\n"), "{output:?}");
    assert!(output[2].contains("refused (protected_path)"), "{output:?}");
    let root = folder.join(".github").display().to_string();
    let output = edited(&folder, &["--root", &root], &["workflows/ci.yml"]);
    assert!(output[0].contains("+x\n"), "a root was named by a person: {output:?}");
}

#[cfg(unix)]
#[test]
fn links_lead_to_no_protected_file() {
    use std::os::unix::fs::symlink;
    let folder = project("protected-links");
    symlink("../.git", folder.join("src/folder")).expect("a link");
    symlink("../.git/config", folder.join("src/file.txt")).expect("a link");
    symlink("folder", folder.join("src/link of a link")).expect("a link");
    symlink("../.github/workflows", folder.join("src/ci")).expect("a link");
    symlink("../bare.git", folder.join("src/bare")).expect("a link");
    // The name is protected, what it leads to is not.
    symlink("../src", folder.join("worktree/.cargo")).expect("a link");
    let before = everything(&folder);
    let hostile = [
        "src/folder/config",
        "src/folder/hooks/pre-commit",
        "src/folder/hooks/new",
        "src/file.txt",
        "src/link of a link/config",
        "src/ci/ci.yml",
        "src/ci/new.yml",
        "src/bare/config",
        "src/bare/hooks/new",
        "worktree/.cargo/a.txt",
    ];
    for path in hostile {
        for patch in patches(path) {
            let refused = patched(&folder, &["--allow", "worktree/.git-crypt"], &patch);
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{patch}: {refused:?}");
            assert_eq!(everything(&folder), before, "{patch}");
        }
    }
    let there: Vec<&str> = hostile.into_iter().filter(|path| !path.contains("new")).collect();
    for (path, output) in there.iter().zip(edited(&folder, &[], &there)) {
        assert!(output.contains("refused (protected_path)"), "{path}: {output}");
    }
    // What one link is allowed for is not allowed for where it leads to.
    let output = edited(&folder, &["--allow", "worktree/.cargo"], &["src/ci/ci.yml", "worktree/.cargo/a.txt"]);
    assert!(output[0].contains("refused (protected_path)") && output[1].contains("+x\n"), "{output:?}");
}

#[cfg(unix)]
#[test]
fn pipes_and_second_names_are_no_way_in_either() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let folder = project("protected-kinds");
    let pipe = std::process::Command::new("mkfifo").arg(folder.join("src/pipe")).status().expect("it starts");
    assert!(pipe.success());
    std::fs::hard_link(folder.join(".git/config"), folder.join("src/second")).expect("a second name");
    std::fs::set_permissions(folder.join("src/a.txt"), std::fs::Permissions::from_mode(0o640)).expect("a mode");
    let output = edited(&folder, &[], &["src/pipe", "src/second", "src"]);
    assert!(output[0].contains("(not_a_file)") && output[2].contains("(not_a_file)"), "{output:?}");
    // A rename ends what the two names shared.
    assert!(output[1].contains("+x\n"), "{output:?}");
    assert_eq!(folder.read(".git/config"), "one\ntwo\nthree\n");
    // What git writes of modes and links changes neither, in any way in.
    let before = everything(&folder);
    for lines in [
        "new file mode 120000\n--- /dev/null\n+++ b/src/link\n@@ -0,0 +1 @@\n+../.git/config\n",
        "old mode 100644\nnew mode 100755\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+x\n three\n",
    ] {
        let patch = format!("diff --git a/src/a.txt b/src/a.txt\n{lines}");
        let refused = patched(&folder, &[], &patch);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_eq!(everything(&folder), before);
        folder.write("edit", &patch);
        let _ = run(&folder, &["apply", "src/a.txt", "--update", "edit", "--in-place"]);
        let metadata = folder.join("src/a.txt").symlink_metadata().expect("there");
        assert!(metadata.is_file() && metadata.mode() & 0o777 == 0o640, "{lines}");
        assert!(folder.join("src/link").symlink_metadata().is_err(), "{lines}");
        std::fs::remove_file(folder.join("edit")).expect("removed");
        std::fs::write(folder.join("src/a.txt"), "one\ntwo\nthree\n").expect("written");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_a_person_names_is_theirs_but_for_git_and_for_where_links_lead() {
    use std::os::unix::fs::symlink;
    let folder = project("protected-file");
    folder.write("edit", "<<<<<<< SEARCH\ntwo\n=======\nx\n>>>>>>> REPLACE\n");
    symlink("../.github/workflows/ci.yml", folder.join("src/notes.md")).expect("a link");
    symlink("../.git/config", folder.join("src/config.md")).expect("a link");
    symlink("notes.txt", folder.join("link.txt")).expect("a link");
    let before = everything(&folder);
    let in_place = |path: &str| run(&folder, &["apply", path, "--update", "edit", "--in-place"]);
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        "src/../.git/config",
        "src/config.md",
        "src/notes.md",
        "bare.git/config",
    ] {
        let refused = in_place(path);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{path}: {refused:?}");
        assert!(refused.stderr.contains("(protected_path)"), "{path}: {}", refused.stderr);
        assert_eq!(everything(&folder), before, "{path}");
    }
    for path in [".github/workflows/ci.yml", "Jenkinsfile", ".bashrc", "link.txt"] {
        let done = in_place(path);
        assert_eq!(done.code, Some(0), "{path}: {done:?}");
        assert_eq!(folder.read(path), "one\nx\nthree\n", "{path}");
    }
    assert!(folder.join("link.txt").is_symlink());
}

#[test]
fn a_batch_writes_no_file_that_a_case_names() {
    let folder = project("protected-batch");
    let before = everything(&folder);
    let case = |path: &&str| {
        let edit = "<<<<<<< SEARCH\ntwo\n=======\nx\n>>>>>>> REPLACE\n";
        format!("{}\n", json!({"id": path, "path": path, "original": "one\ntwo\nthree\n", "update": edit}))
    };
    let cases: String = NEVER.iter().chain(ASKED_FOR).chain(&["src/a.txt", "/etc/hostname"]).map(case).collect();
    let finished = fed(&folder, &["apply", "--batch", "-"], cases.as_bytes());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(finished.stdout.lines().count(), cases.lines().count());
    assert_eq!(everything(&folder), before);
}

#[test]
fn what_cannot_be_allowed_is_said_at_the_start() {
    let folder = project("protected-flags");
    let before = everything(&folder);
    let mut shown = String::new();
    for named in [".git", "sub/.GIT", ".git/hooks", ".", "", "..", "../.github", "/etc", "src"] {
        for command in [&["apply", "--patch", "-"][..], &["mcp"]] {
            let finished = fed(&folder, &[command, &["--allow", named]].concat(), b"");
            assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{named}: {finished:?}");
            shown = shown + &finished.stderr;
        }
    }
    for root in [".git", ".git/hooks", "bare.git"] {
        let finished = fed(&folder, &["mcp", "--root", root], b"");
        assert_eq!(finished.code, Some(2), "{root}: {finished:?}");
        shown = shown + &finished.stderr;
    }
    assert_eq!(everything(&folder), before);
    insta::assert_snapshot!("protected_flags", shown.replace(&folder.path().display().to_string(), ""));
}
