//! `tokrate apply` from the outside: what is printed, what is written, what the exit code says.

use crate::folder::Folder;
use crate::tool::{Finished, finish, start, tokrate};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const FILE: &str = "fn one() {\n    first();\n    second();\n}\n\nfn two() {\n    first();\n    third();\n}\n";
const UPDATE: &str = "// ... existing code ...\n    second();\n    between();\n}\n// ... existing code ...\n";

fn folder(name: &str, update: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("a.rs", FILE);
    folder.write("update.txt", update);
    folder
}

fn apply(folder: &Folder, line: &str) -> Finished {
    let arguments: Vec<&str> = ["apply"].into_iter().chain(line.split_whitespace()).collect();
    finish(start(&mut tokrate(folder, &arguments)))
}

fn merged() -> String {
    FILE.replace("    second();\n", "    second();\n    between();\n")
}

#[test]
fn the_merged_file_is_printed_and_the_file_is_left_alone() {
    let folder = folder("apply-print", UPDATE);
    let finished = apply(&folder, "a.rs --update update.txt");
    assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (Some(0), merged().as_str(), ""));
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn in_place_the_file_keeps_its_mode_and_a_link_stays_a_link() {
    let folder = folder("apply-place", UPDATE);
    let (file, link) = (folder.join("a.rs"), folder.join("link.rs"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o750)).expect("it is ours");
    std::os::unix::fs::symlink("a.rs", &link).expect("links are there");
    let finished = apply(&folder, "link.rs --in-place --update update.txt");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(folder.read("a.rs"), merged());
    assert_eq!(std::fs::metadata(&file).expect("there").mode() & 0o777, 0o750);
    assert!(std::fs::symlink_metadata(&link).expect("there").file_type().is_symlink());
    assert_eq!(folder.names(), ["a.rs", "link.rs", "update.txt"], "nothing is left beside it");
}

#[test]
fn a_diff_and_a_check_say_what_would_change() {
    let folder = folder("apply-diff", UPDATE);
    insta::assert_snapshot!("apply_diff", apply(&folder, "a.rs --diff --update update.txt").stdout);
    let checked = apply(&folder, "a.rs --check --update update.txt");
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), "a.rs: 1 edit, 1 lines in place of 0\n"));
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn a_refusal_names_the_lines_and_writes_nothing() {
    let update = "// ... existing code ...\n    first();\n    between();\n// ... existing code ...\n";
    let folder = folder("apply-refused", update);
    let finished = apply(&folder, "a.rs --in-place --update update.txt");
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""));
    insta::assert_snapshot!("apply_refused", finished.stderr);
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn what_would_not_parse_is_refused_unless_the_tree_is_left_alone() {
    let update = "// ... existing code ...\n    second();\n    let = ;\n}\n// ... existing code ...\n";
    let folder = folder("apply-tree", update);
    let refused = apply(&folder, "a.rs --check --update update.txt");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("refused (syntax_regression)"), "{}", refused.stderr);
    assert_eq!(apply(&folder, "a.rs --check --no-tree --update update.txt").code, Some(0));
}

#[test]
fn what_makes_no_sense_is_refused_as_bad_usage() {
    let folder = folder("apply-usage", UPDATE);
    for line in [
        "missing.rs --update update.txt",
        "a.rs --update missing.txt",
        "a.rs --language klingon --update update.txt",
        "a.rs --diff --check --update update.txt",
        "--batch missing.jsonl",
    ] {
        let finished = apply(&folder, line);
        assert_eq!(finished.code, Some(2), "{line}: {finished:?}");
        assert!(!finished.stderr.is_empty());
    }
}

#[test]
fn a_batch_answers_every_line_in_order() {
    let folder = Folder::new("apply-batch");
    let mut cases = String::new();
    for id in 0..300 {
        let update = if id % 3 == 0 { "nothing of the file\n" } else { UPDATE };
        let case =
            serde_json::json!({ "id": id, "path": "a.rs", "original": FILE, "update": update, "instruction": "x" });
        cases += &format!("{case}\n");
    }
    folder.write("cases.jsonl", &cases);
    let finished = apply(&folder, "--batch cases.jsonl");
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let answers: Vec<serde_json::Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 300);
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], id);
        assert!(answer["micros"].is_u64());
        match id % 3 {
            0 => assert_eq!((&answer["status"], &answer["code"]), (&"refused".into(), &"no_anchor".into())),
            _ => {
                assert_eq!((&answer["status"], answer["output"].as_str()), (&"merged".into(), Some(merged().as_str())))
            }
        }
    }

    folder
        .write("cases.jsonl", &format!("{{\"id\": 1, \"original\": 3}}\n\n{}", cases.lines().nth(1).expect("a case")));
    let finished = apply(&folder, "--batch cases.jsonl");
    assert_eq!(finished.code, Some(2));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert!(lines[0].contains("bad_line") && lines[0].contains("line 1, column"), "{}", lines[0]);
    assert!(lines[1].contains("\"merged\""), "{}", lines[1]);
}
