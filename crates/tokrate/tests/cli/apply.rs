//! `tokrate apply` with one file: every flag, every exit code, and what is written.
//!
//! Invariant: what is refused changes nothing.

use crate::folder::Folder;
use crate::tool::{BOUND, Finished, finish, run, tokrate};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;
use std::sync::mpsc::channel;

pub const FILE: &str = "fn one() -> u32 {\n    let x = 1;\n    x\n}\n\nfn two() -> u32 {\n    let x = 1;\n    x\n}\n";
/// Names one place.
pub const GOOD: &str =
    "<<<<<<< SEARCH\nfn two() -> u32 {\n    let x = 1;\n=======\nfn two() -> u32 {\n    let x = 22;\n>>>>>>> REPLACE\n";
pub const MERGED: &str =
    "fn one() -> u32 {\n    let x = 1;\n    x\n}\n\nfn two() -> u32 {\n    let x = 22;\n    x\n}\n";
/// Names two.
pub const AMBIGUOUS: &str = "<<<<<<< SEARCH\n    let x = 1;\n=======\n    let x = 2;\n>>>>>>> REPLACE\n";

/// Runs the binary with something on its standard input.
pub fn fed(folder: &Folder, arguments: &[&str], input: &[u8]) -> Finished {
    let mut command = tokrate(folder, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let (done, written) = channel();
    // Beside the reading of what it says; one that ends early closes its end.
    std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
        drop(stdin);
        let _ = done.send(());
    });
    let finished = finish(child);
    written.recv_timeout(BOUND).expect("the input was taken or refused");
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    finished
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("a.rs", FILE);
    folder.write("good.txt", GOOD);
    folder.write("ambiguous.txt", AMBIGUOUS);
    folder
}

fn json_of(finished: &Finished) -> Value {
    assert_eq!(finished.stderr, "");
    serde_json::from_str(&finished.stdout).expect("one line of JSON")
}

#[test]
fn the_merged_file_is_printed_and_nothing_else() {
    let folder = folder("apply-print");
    for finished in [
        fed(&folder, &["apply", "a.rs"], GOOD.as_bytes()),
        fed(&folder, &["apply", "a.rs", "--update", "-"], GOOD.as_bytes()),
        run(&folder, &["apply", "a.rs", "--update", "good.txt"]),
        run(&folder, &["apply", "a.rs", "--update", "good.txt", "--no-tree", "--instruction", "I set x"]),
    ] {
        assert_eq!((finished.code, finished.stdout.as_str(), finished.stderr.as_str()), (Some(0), MERGED, ""));
    }
    assert_eq!(folder.read("a.rs"), FILE, "the file itself is as it was");
}

#[test]
fn bytes_come_out_as_they_are() {
    let folder = Folder::new("apply-bytes");
    // A byte order mark, CRLF, what looks like a colour, and no final newline.
    let file = "\u{feff}one\r\ntwo \u{1b}[31m\r\nthree\r\nend";
    std::fs::write(folder.join("a.txt"), file).expect("written");
    let update = json!({"old_string": "three", "new_string": "3"}).to_string();
    let finished = fed(&folder, &["apply", "a.txt"], update.as_bytes());
    assert_eq!((finished.code, finished.stdout), (Some(0), file.replace("three", "3")));
}

#[test]
fn a_file_that_is_not_utf_8_keeps_its_bytes() {
    let folder = Folder::new("apply-latin");
    let file = b"name = 'Andr\xe9'\nprice = 3\n";
    let expected = b"name = 'Andr\xe9'\nprice = 4\n";
    std::fs::write(folder.join("a.py"), file).expect("written");
    let update = json!({"old_string": "price = 3", "new_string": "price = 4"}).to_string();
    let done = fed(&folder, &["apply", "a.py", "--in-place"], update.as_bytes());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(std::fs::read(folder.join("a.py")).expect("there"), expected);
    let euro = json!({"old_string": "price = 4", "new_string": "price = '\u{20ac}'"}).to_string();
    let refused = fed(&folder, &["apply", "a.py", "--in-place"], euro.as_bytes());
    assert!(refused.code == Some(1) && refused.stderr.contains("(not_text)"), "{refused:?}");
    let patch = "--- a/a.py\n+++ b/a.py\n@@ -2 +2 @@\n-price = 4\n+price = 5\n";
    assert_eq!(fed(&folder, &["apply", "--patch", "-"], patch.as_bytes()).code, Some(0));
    assert_eq!(
        std::fs::read(folder.join("a.py")).expect("there"),
        expected.map(|it| if it == b'4' { b'5' } else { it })
    );
}

#[test]
fn a_refusal_says_where_and_what_to_do() {
    let folder = folder("apply-refused");
    for flags in [
        &["apply", "a.rs"][..],
        &["apply", "a.rs", "--in-place"],
        &["apply", "a.rs", "--diff"],
        &["apply", "a.rs", "--check"],
    ] {
        let finished = fed(&folder, flags, AMBIGUOUS.as_bytes());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""), "{finished:?}");
        let shown = &finished.stderr;
        assert!(shown.starts_with("a.rs: refused (ambiguous_location): "), "{shown}");
        assert!(
            shown.contains("       2 |     let x = 1;\n") && shown.contains("       7 |     let x = 1;\n"),
            "{shown}"
        );
        assert!(shown.contains("\nto do: "), "{shown}");
        assert_eq!(folder.read("a.rs"), FILE);
    }
    let finished = fed(&folder, &["apply", "a.rs", "--json"], AMBIGUOUS.as_bytes());
    assert_eq!(finished.code, Some(1));
    let reported = json_of(&finished);
    assert_eq!(
        (&reported["status"], &reported["by"], &reported["code"]),
        (&json!("refused"), &json!("refused"), &json!("ambiguous_location"))
    );
    assert_eq!(reported["candidates"], json!([[2, 2], [7, 7]]));
    assert!(reported["message"].is_string() && reported["hint"].is_string(), "{reported}");
}

#[test]
fn what_is_no_text_is_refused() {
    let folder = Folder::new("apply-no-text");
    std::fs::write(folder.join("bytes"), b"a\n\0\xfe\n").expect("written");
    folder.write("empty", "");
    folder.write("a", "text\n");
    for (file, update, code) in [
        ("bytes", "x\n", "not_text"),
        ("a", "", "not_an_edit"),
        ("a", " \n\t\n", "not_an_edit"),
        ("empty", AMBIGUOUS, "no_anchor"),
    ] {
        let finished = fed(&folder, &["apply", file], update.as_bytes());
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.starts_with(&format!("{file}: refused ({code}): ")), "{}", finished.stderr);
    }
    let finished = fed(&folder, &["apply", "a"], b"\xff");
    assert!(finished.code == Some(1) && finished.stderr.contains("not_text"), "{finished:?}");
}

#[test]
fn in_place_writes_the_file_and_says_so() {
    let folder = folder("apply-in-place");
    let finished = run(&folder, &["apply", "a.rs", "--update", "good.txt", "--in-place"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), ""));
    assert_eq!(finished.stderr, "a.rs: merged, 1 edit (line 7)\n");
    assert_eq!(folder.read("a.rs"), MERGED);
    assert_eq!(folder.names(), ["a.rs", "ambiguous.txt", "good.txt"], "no neighbour stays");
}

#[cfg(unix)]
#[test]
fn in_place_follows_links_and_respects_a_protected_file() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = folder("apply-link");
    std::fs::set_permissions(folder.join("a.rs"), std::fs::Permissions::from_mode(0o640)).expect("a mode");
    symlink("a.rs", folder.join("link.rs")).expect("a link");
    let finished = run(&folder, &["apply", "link.rs", "--update", "good.txt", "--in-place"]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(folder.join("link.rs").is_symlink());
    let mode = std::fs::metadata(folder.join("a.rs")).expect("there").permissions().mode();
    assert_eq!((folder.read("a.rs").as_str(), mode & 0o7777), (MERGED, 0o640));
}

#[test]
fn a_diff_is_one_that_patch_reads() {
    let folder = folder("apply-diff");
    let finished = run(&folder, &["apply", "./a.rs", "--update", "good.txt", "--diff"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!("diff", finished.stdout);
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn a_file_that_was_changed_since_is_refused() {
    let folder = folder("apply-expect");
    // As sha256sum prints it.
    let hash = |text: &str| format!("sha256:{}", tokrate_apply_host::sha256(text.as_bytes()));
    let apply = |state: &str| run(&folder, &["apply", "a.rs", "--update", "good.txt", "--in-place", "--expect", state]);
    for stale in [hash("another file\n"), "mtime:1".to_owned(), "mtime:1.5".to_owned()] {
        let refused = apply(&stale);
        assert!(refused.code == Some(1) && refused.stderr.contains("refused (stale_file)"), "{refused:?}");
        assert_eq!(folder.read("a.rs"), FILE);
    }
    assert_eq!(apply("yesterday").code, Some(2));
    let time = folder.join("a.rs").metadata().and_then(|it| it.modified()).expect("a time");
    let time = time.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let checked = ["apply", "a.rs", "--update", "good.txt", "--check", "--expect"];
    let exact = format!("mtime:{}.{:09}", time.as_secs(), time.subsec_nanos());
    assert_eq!(run(&folder, &[&checked[..], &[&*exact]].concat()).code, Some(0));
    assert_eq!(apply(&hash(FILE)).code, Some(0));
    assert_eq!(folder.read("a.rs"), MERGED);
}

#[test]
fn a_check_says_only_whether() {
    let folder = folder("apply-check");
    let finished = run(&folder, &["apply", "a.rs", "--update", "good.txt", "--check"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), "a.rs: would merge, 1 edit (line 7)\n"));
    assert_eq!(folder.read("a.rs"), FILE);
}

#[test]
fn json_holds_what_was_asked_for() {
    let folder = folder("apply-json");
    let reported = |further: &[&str]| {
        let arguments = [&["apply", "a.rs", "--update", "good.txt", "--json"], further].concat();
        let finished = run(&folder, &arguments);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        json_of(&finished)
    };
    let plain = reported(&[]);
    assert_eq!(
        (&plain["status"], &plain["by"], &plain["output"]),
        (&json!("merged"), &json!("deterministic"), &json!(MERGED))
    );
    assert_eq!(plain["edits"][0]["old_start"], 7);
    assert_eq!((&plain["how"]["format"], &plain["checks"]["parse"]), (&json!("search_replace"), &json!("passed")));
    let diff = reported(&["--diff"]);
    assert!(diff["diff"].as_str().is_some_and(|diff| diff.starts_with("--- a/a.rs\n+++ b/a.rs\n")), "{diff}");
    assert_eq!((diff.get("output"), reported(&["--check"]).get("output")), (None, None));
    let written = reported(&["--in-place"]);
    assert_eq!((written.get("output"), folder.read("a.rs").as_str()), (None, MERGED));
    assert_eq!(written["diff"], diff["diff"], "what was changed is told with it");
}

#[test]
fn the_language_is_told_by_the_name_or_the_flag() {
    let folder = folder("apply-language");
    std::fs::copy(folder.join("a.rs"), folder.join("plain")).expect("copied");
    let parse = |arguments: &[&str]| {
        let finished = run(&folder, &[&["apply", "plain", "--update", "good.txt", "--json"], arguments].concat());
        json_of(&finished)["checks"]["parse"].clone()
    };
    assert!(parse(&[])["skipped"].is_string());
    assert_eq!(parse(&["--language", "rust"]), "passed");
    assert!(parse(&["--language", "rust", "--no-tree"])["skipped"].is_string());
}

#[test]
fn a_file_too_large_is_not_read() {
    let folder = folder("apply-large");
    let large = std::fs::File::create(folder.join("large")).expect("made");
    large.set_len((64 << 20) + 1).expect("a length");
    let finished = run(&folder, &["apply", "large", "--update", "good.txt"]);
    assert_eq!(finished.code, Some(1));
    assert!(
        finished.stderr.starts_with("large: refused (too_large): the original has 67108865 bytes"),
        "{}",
        finished.stderr
    );
}
