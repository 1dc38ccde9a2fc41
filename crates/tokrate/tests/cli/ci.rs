//! What a pipeline relies on: exit codes, one comment for each job, and files that fail alone.
//!
//! It refuses to know what is measured. Invariant: no network; `gh` is a script of the test.

use crate::folder::Folder;
use crate::tool::{finish, start};
use crate::trust::step;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Runs the posting step of the action where `gh` finds these comments; what `gh` was told, a line each.
fn posted(folder: &Folder, comments: &str) -> Vec<String> {
    let gh = "#!/bin/bash\necho \"$@\" >> \"$CALLS\"\ncase \"$*\" in *--paginate*) printf '%b' \"$COMMENTS\" ;; esac\n";
    std::fs::create_dir_all(folder.join("bin")).expect("made");
    let script = folder.write("bin/gh", gh);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    let calls = folder.write("calls", "");
    let result = folder.write("result.md", "| the table |\n");
    let mut command = Command::new("bash");
    command.args(["-c", &step("Post the table")]).current_dir(folder.path()).env_clear();
    command.env("PATH", format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").expect("set")));
    command.env("CALLS", &calls).env("RESULT", &result).env("COMMENTS", comments);
    command.envs([("POST", "comment"), ("PULL_REQUEST", "7"), ("REPOSITORY", "a/b"), ("GH_TOKEN", "t")]);
    command.envs([("GITHUB_WORKFLOW", "Speed \"x\""), ("GITHUB_JOB", "bench"), ("GITHUB_STEP_SUMMARY", "summary")]);
    let finished = finish(start(&mut command));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(folder.read("result.md.comment"), "<!-- tokrate: Speed \"x\", bench -->\n| the table |\n");
    folder.read("calls").lines().map(str::to_owned).collect()
}

#[test]
fn the_action_brings_one_comment_up_to_date() {
    let folder = Folder::new("action-comment");
    let first = posted(&folder, "11\\tanother comment\\n12\\t<!-- tokrate: Speed, other job -->\\n");
    assert!(first[1].starts_with("api --method POST repos/a/b/issues/7/comments "), "{first:?}");
    let again = posted(&folder, "11\\tanother\\n13\\t<!-- tokrate: Speed \"x\", bench -->\\r\\n");
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(again[1].starts_with("api --method PATCH repos/a/b/issues/comments/13 "), "{again:?}");
}

#[test]
fn a_file_that_cannot_be_written_takes_no_other_with_it() {
    let folder = Folder::new("full-disk");
    // No file of this process may be larger than 4 KiB, which a record is and the rows of a sheet are not.
    let line = "trap '' XFSZ; ulimit -f 8; exec \"$0\" bench -c 1 -n 4 --warmup 0 --output-tokens 20 --calibration off \
                --json record.json --html report.html --csv levels.csv --jsonl rows.jsonl";
    let mut shell = Command::new("sh");
    shell.current_dir(folder.path()).env("HOME", folder.path()).args(["-c", line, env!("CARGO_BIN_EXE_tokrate")]);
    let finished = finish(start(&mut shell));
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stdout.contains("TTFT p50"), "the table stands: {}", finished.stdout);
    assert!(finished.stdout.contains("levels: levels.csv"), "{}", finished.stdout);
    for lost in ["record.json", "report.html"] {
        assert!(finished.stderr.contains(&format!("failed to write {lost}")), "{}", finished.stderr);
        assert!(!finished.stdout.contains(lost), "{}", finished.stdout);
    }
    let names = folder.names();
    assert!(names.contains(&"levels.csv".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("record") || name.ends_with(".part")), "{names:?}");
}
