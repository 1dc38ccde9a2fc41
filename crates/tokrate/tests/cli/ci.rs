//! What a pipeline relies on: exit codes, one comment for each job, and files that fail alone.
//!
//! Invariant: no network; `gh` is a script of the test.

use crate::folder::Folder;
use crate::tool::{Finished, finish, folded, start};
use crate::trust::{install, step};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Runs the posting step of the action where `gh` finds these comments and refuses the method; what `gh` was told, a line each.
fn posted(folder: &Folder, name: &str, comments: &str, refused: &str) -> Vec<String> {
    let gh = "#!/bin/bash\necho \"$@\" >> \"$CALLS\"\n\
              case \"$*\" in *--paginate*) printf '%b' \"$COMMENTS\" ;; *\"--method $REFUSED\"*) exit 1 ;; esac\n";
    std::fs::create_dir_all(folder.join("bin")).expect("made");
    let script = folder.write("bin/gh", gh);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it can be run");
    let calls = folder.write("calls", "");
    let result = folder.write("result.md", "| the table |\n");
    let mut command = step(folder, "Post the table");
    command.env("CALLS", &calls).env("RESULT", &result).env("COMMENTS", comments).env("REFUSED", refused);
    command.envs([("POST", "comment"), ("PULL_REQUEST", "7"), ("REPOSITORY", "a/b"), ("GH_TOKEN", "t")]);
    command.envs([("NAME", name), ("GITHUB_STEP_SUMMARY", "summary")]);
    let finished = finish(start(&mut command));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(folder.join("summary").exists(), finished.stdout.contains("::warning::"), "{finished:?}");
    folder.read("calls").lines().map(str::to_owned).collect()
}

#[test]
fn the_action_brings_one_comment_up_to_date() {
    let folder = Folder::new("action-comment");
    let name = "Speed \"x\", bench, __tokrate, null";
    let other = "11\\tanother comment\\n12\\t<!-- tokrate: Speed, other job -->\\n";
    let first = posted(&folder, name, other, "none");
    assert!(first[1].starts_with("api --method POST repos/a/b/issues/7/comments "), "{first:?}");
    assert_eq!(folder.read("result.md.comment"), "<!-- tokrate: Speed \"x\", bench, __tokrate -->\n| the table |\n");
    let there = "11\\tanother\\n13\\t<!-- tokrate: Speed \"x\", bench, __tokrate -->\\r\\n";
    let again = posted(&folder, name, there, "none");
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(again[1].starts_with("api --method PATCH repos/a/b/issues/comments/13 "), "{again:?}");
    // A second use in the same job, and a leg of a matrix.
    for other in
        ["Speed \"x\", bench, __tokrate_2, null", "Speed \"x\", bench, __tokrate, {\n  \"gpu\": \"a --> b\"\n}"]
    {
        let calls = posted(&folder, other, there, "none");
        assert!(calls[1].starts_with("api --method POST"), "{calls:?}");
    }
    let mark = folder.read("result.md.comment");
    assert!(mark.starts_with("<!-- tokrate: Speed \"x\", bench, __tokrate, { \"gpu\": \"a -) b\" } -->\n"), "{mark}");
}

#[test]
fn a_token_that_may_only_read_puts_the_table_on_the_jobs_page() {
    let folder = Folder::new("action-fork");
    let calls = posted(&folder, "Speed", "", "POST");
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(folder.read("summary"), "| the table |\n");
}

/// Runs the measuring step of the action: how it ended, and what it handed on.
fn measured(folder: &Folder, arguments: &str) -> (Finished, BTreeMap<String, String>) {
    let mut command = step(folder, "Measure");
    command.env("HOME", folder.path()).env("RUNNER_TEMP", folder.path());
    command.env("GITHUB_OUTPUT", folder.write("output", ""));
    command.envs([("TARGET", ""), ("ARGUMENTS", arguments), ("BASELINE", ""), ("CONFIG", "")]);
    let finished = finish(start(&mut command));
    let output = folder.read("output");
    let pairs = output.lines().map(|line| line.split_once('=').expect("NAME=VALUE"));
    (finished, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[test]
fn a_bar_that_is_not_met_hands_on_the_table_and_its_exit_code() {
    let folder = Folder::new("action-bar");
    install(&folder);
    let small = "-c 1 -n 2 --warmup 0 --output-tokens 3 --calibration off";
    let (missed, bar) = measured(&folder, &format!("{small} --assert 'ttft_ms.mean < 0.000001'"));
    assert_eq!((missed.code, bar["exit-code"].as_str()), (Some(0), "1"), "{missed:?}");
    let table = std::fs::read_to_string(&bar["result"]).expect("a table");
    assert!(table.contains("missed"), "{table}");
    // What a run leaves that measured nothing is not the table of the one before it.
    let (_, nothing) = measured(&folder, "--url http://127.0.0.1:9/v1 --model m -c 1 -n 2 --no-such-flag");
    assert_eq!(nothing["exit-code"], "2");
    let table = std::fs::read_to_string(&nothing["result"]).expect("a sentence");
    assert!(table.starts_with("tokrate measured nothing"), "{table}");
    assert!(std::fs::exists(&bar["record"]).expect("it can be asked") && nothing["record"] != bar["record"]);
    let (broken, none) = measured(&folder, "-c 1 --assert 'ttft");
    assert_eq!((broken.code, none.len()), (Some(2), 0), "{broken:?}");
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
    assert!(folded(&finished.stdout).contains("TTFT p50"), "the table stands: {}", finished.stdout);
    assert!(folded(&finished.stdout).contains("levels: levels.csv"), "{}", finished.stdout);
    for lost in ["record.json", "report.html"] {
        assert!(finished.stderr.contains(&format!("failed to write {lost}")), "{}", finished.stderr);
        assert!(!finished.stdout.contains(lost), "{}", finished.stdout);
    }
    let rows = folder.read("rows.jsonl");
    assert!(rows.is_empty(), "nothing that breaks off: {rows}");
    let names = folder.names();
    assert!(names.contains(&"levels.csv".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("record") || name.ends_with(".part")), "{names:?}");
}
