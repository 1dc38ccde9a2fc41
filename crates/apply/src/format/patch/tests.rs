//! Patches in every form: which files they name, and what becomes of each.

use super::*;
use crate::format::properties::applied;
use std::fmt::Write;

/// A patch in a line for each file.
fn listed(text: &str) -> Result<Vec<String>, String> {
    let patch = Patch::read(text).map_err(|refused| refused.to_string())?;
    let line = |file: &PatchedFile| match &file.action {
        PatchAction::Update { section, moved_to, .. } => {
            format!("{} {} -> {}", file.path, section.lines().count(), moved_to.as_deref().unwrap_or("-"))
        }
        PatchAction::Add { content } => format!("{} + {content:?}", file.path),
        PatchAction::Delete { shown } => format!("{} gone {shown:?}", file.path),
    };
    Ok(patch.files.iter().map(line).collect())
}

#[test]
fn the_files_of_a_patch_are_listed() {
    let text = "*** Begin Patch\n*** Update File: a.py\n*** Move to: b.py\n@@ def f():\n-x\n+y\n*** Add File: c.py\n+1\n*** Delete File: d.py\n*** Update File: e.py\n-1\n+2\n*** End of File\n*** Update File: e.py\n-3\n+4\n*** End Patch\n";
    let patch = Patch::read(text).expect("a patch");
    let file = |path: &str, action| PatchedFile { path: path.to_owned(), action };
    let update =
        |path: &str, lines: &str| format!("*** Begin Patch\n*** Update File: {path}\n{lines}\n*** End Patch\n");
    assert_eq!(
        patch.files,
        [
            file(
                "a.py",
                PatchAction::Update {
                    section: update("a.py", "@@ def f():\n-x\n+y"),
                    format: Format::V4a,
                    moved_to: Some("b.py".into())
                }
            ),
            file("c.py", PatchAction::Add { content: "1\n".into() }),
            file("d.py", PatchAction::Delete { shown: None }),
            file(
                "e.py",
                PatchAction::Update {
                    section: update("e.py", "-1\n+2\n*** End of File\n*** Update File: e.py\n-3\n+4"),
                    format: Format::V4a,
                    moved_to: None
                }
            ),
        ]
    );
    let PatchAction::Update { section, .. } = &patch.files[3].action else { panic!("an update") };
    assert_eq!(applied(Format::V4a, "3\n1\n", section).map_err(|it| it.to_string()), Ok("4\n2\n".into()));
    assert!(Patch::read("*** Begin Patch\n*** Delete File: a\n*** Add File: a\n+1\n*** End Patch").is_err());
    assert!(Patch::read("a\n").is_err());
}

#[test]
fn a_diff_of_several_files_is_read() {
    let text = "diff --git a/src/x.rs b/src/x.rs\nindex 1..2 100644\n--- a/src/x.rs\n+++ b/src/x.rs\n@@ -1 +1 @@\n-a\n+b\n\
        diff --git a/new.sh b/new.sh\nnew file mode 100644\nindex 0..1\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1,2 @@\n+one\n+two\n\
        \\ No newline at end of file\n\
        diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n\
        diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n\
        diff --git a/m b/n/m\nsimilarity index 60%\nrename from m\nrename to n/m\n--- a/m\n+++ b/n/m\n@@ -1 +1 @@\n-1\n+2\n\
        diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n\
        diff --git \"a/t\\303\\251\" \"b/t\\303\\251\"\n--- \"a/t\\303\\251\"\n+++ \"b/t\\303\\251\"\n@@ -1 +1 @@\n-1\n+2\n";
    assert_eq!(
        listed(text),
        Ok([
            "src/x.rs 7 -> -",
            "new.sh + \"one\\ntwo\"",
            "gone gone Some(\"x\\ny\\n\")",
            "old name 0 -> new name",
            "m 9 -> n/m",
            "empty + \"\"",
            "t\u{e9} 6 -> -",
        ]
        .map(str::to_owned)
        .to_vec())
    );
    let without_signs = "Here it is:\n\n--- x.py\n+++ x.py\n@@\n-a\n+b\n--- b/y.py\n+++ b/y.py\n@@\n-a\n+b\n";
    assert_eq!(listed(without_signs), Ok(vec!["x.py 5 -> -".to_owned(), "b/y.py 5 -> -".to_owned()]));
}

#[test]
fn a_section_of_a_diff_is_merged_into_its_file() {
    let text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+c\n";
    let patch = Patch::read(text).expect("a patch");
    let merged: Vec<_> = patch
        .files
        .iter()
        .map(|file| match &file.action {
            PatchAction::Update { section, format, .. } => applied(*format, "a\n", section).expect("merged"),
            _ => panic!("an update"),
        })
        .collect();
    assert_eq!(merged, ["b\n", "c\n"]);
}

#[test]
fn blocks_below_the_names_of_files_are_read() {
    let block = |search: &str, replace: &str| format!("<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n");
    let text = format!(
        "I change two files.\n\nsrc/a.rs\n```rust\n{}{}```\n\n**Makefile**\n```\n{}```\n\nnew/b.txt\n```\n{}```\n",
        block("a\n", "b\n"),
        block("c\n", "d\n"),
        block("all:\n", "every:\n"),
        block("", "hello\n"),
    );
    let expected = ["src/a.rs 10 -> -", "Makefile 5 -> -", "new/b.txt + \"hello\\n\""];
    assert_eq!(listed(&text), Ok(expected.map(str::to_owned).to_vec()));
}

#[test]
fn what_is_no_patch_is_refused() {
    let mut text = String::new();
    let cases = [
        ("prose", "Hello\n"),
        ("a snippet", "fn a() {\n// ... existing code ...\n}\n"),
        ("blocks of no file", "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"),
        ("a hunk of no file", "@@ -1 +1 @@\n-a\n+b\n"),
        (
            "binary",
            "diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        ),
        (
            "only a mode",
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n",
        ),
        ("a link", "diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+../y\n"),
        ("a program", "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+true\n"),
        (
            "a copy",
            "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\ndiff --git a/z b/z\n--- a/z\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
        ),
        ("two things", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"),
    ];
    for (what, patch) in cases {
        let refused = listed(patch).expect_err(what);
        writeln!(text, "{what}:\n  {refused}").expect("a string takes all");
    }
    insta::assert_snapshot!(text);
}

fn refused(text: &str) -> String {
    listed(text).expect_err(text)
}

#[test]
fn a_second_patch_behind_the_first_is_refused_and_not_left_out() {
    let block = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n";
    let diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n";
    let v4a = "*** Begin Patch\n*** Update File: g\n@@\n-q\n+Q\n*** End Patch\n";
    for text in [
        format!("{v4a}{v4a}"),
        format!("{v4a}{diff}"),
        format!("{v4a}{block}"),
        format!("{diff}f.py\n{block}"),
        format!("{diff}{v4a}"),
        format!("f.py\n{block}{diff}"),
        format!("f.py\n{block}{v4a}"),
    ] {
        let message = refused(&text);
        assert!(message.contains("another patch begins in line"), "{text}: {message}");
    }
    // Words below a patch are none.
    assert!(listed(&format!("{v4a}\nThis makes q a capital.\n")).is_ok());
}

#[test]
fn changed_lines_outside_of_a_hunk_are_refused_and_not_left_out() {
    for text in [
        "--- a/f1\n+++ b/f1\n@@ -1,2 +1,3 @@\n a\n+x\n b\n\n c\n-d\n+D\n",
        "--- /dev/null\n+++ b/ad\n@@ -0,0 +1,2 @@\n+a\n+b\n\n+c\n+d\n",
        "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\nAnd then:\n-d\n+D\n",
    ] {
        let message = refused(text);
        assert!(message.contains("outside of a hunk") && message.contains("too few lines"), "{message}");
    }
    // The signature of a mail, and words.
    let mail = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n-- \n2.39.5\n\nThat is all.\n";
    assert!(listed(mail).is_ok(), "{:?}", listed(mail));
}

#[test]
fn a_block_below_words_that_are_no_path_is_not_for_the_file_of_the_block_before() {
    let block = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n";
    for name in ["my file.txt", "Now in y.py:", "File: a.txt"] {
        let message = refused(&format!("a.txt\n{block}\n{name}\n{block}"));
        assert!(message.contains("opens a block of no file"), "{name}: {message}");
    }
    assert_eq!(listed(&format!("a.txt\n{block}\n```\n{block}```\n")).map(|files| files.len()), Ok(1));
}

#[test]
fn headers_of_a_diff_that_disagree_are_refused() {
    let hunk = "@@ -1 +1 @@\n-a\n+b\n";
    for head in [
        "--- a/f6\n+++ b/g6\n",
        "diff --git a/f6 b/f6\ndeleted file mode 100644\n--- a/f6\n+++ b/f6\n",
        "diff --git a/f6 b/f6\nnew file mode 100644\n--- a/f6\n+++ b/f6\n",
        "diff --git a/f6 b/z8\nrename from x6\nrename to z8\n--- a/f6\n+++ b/z8\n",
    ] {
        assert!(listed(&format!("{head}{hunk}")).is_err(), "{head}");
    }
}

#[test]
fn a_diff_without_lines_deletes_an_empty_file_only() {
    let gone = listed("--- a/d4\n+++ /dev/null\n");
    assert!(gone.as_ref().is_ok_and(|files| files[0].contains("gone Some(\"\")")) || gone.is_err(), "{gone:?}");
    let git = listed("diff --git a/f5 b/f5\ndeleted file mode 100644\nindex e69de29..0000000\n");
    assert!(git.as_ref().is_ok_and(|files| files == &["f5 gone Some(\"\")"]) || git.is_err(), "{git:?}");
}

#[test]
fn a_word_above_a_block_without_a_search_makes_no_file() {
    let block = "<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n";
    for word in ["Note", "Done:", "**Add**", "create"] {
        let message = refused(&format!("{word}\n{block}"));
        assert!(message.contains("may be a word only") && message.contains("write ./"), "{word}: {message}");
    }
    assert_eq!(listed(&format!("./Makefile\n{block}")), Ok(vec!["./Makefile + \"hello\\n\"".to_owned()]));
    for name in ["src/a", "a.txt", ".gitattributes"] {
        assert!(listed(&format!("{name}\n{block}")).is_ok(), "{name}");
    }
}

#[test]
fn lines_of_a_new_or_deleted_file_without_their_sign_are_refused() {
    let patch = |body: &str| format!("*** Begin Patch\n{body}*** End Patch\n");
    assert!(refused(&patch("*** Add File: a\n+one\nHere it ends.\n")).contains("line 4 of the update has no `+`"));
    assert!(refused(&patch("*** Delete File: a\n-one\n two\n")).contains("line 4 of the update has no `-`"));
    assert_eq!(listed(&patch("*** Add File: a\n+one\n\n+two\n")), Ok(vec!["a + \"one\\n\\ntwo\\n\"".to_owned()]));
}

#[test]
fn a_v4a_patch_that_shows_what_it_deletes_deletes_only_that() {
    let patch = "*** Begin Patch\n*** Delete File: a\n-one\n-\n-two\n*** End Patch\n";
    assert_eq!(listed(patch), Ok(vec!["a gone Some(\"one\\n\\ntwo\\n\")".to_owned()]));
    assert_eq!(listed("*** Begin Patch\n*** Delete File: a\n\n*** End Patch\n"), Ok(vec!["a gone None".to_owned()]));
}

#[test]
fn a_new_file_keeps_the_line_ends_that_its_patch_gives_it() {
    let diff = "--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+one\r\n+two\r\n";
    assert_eq!(listed(diff), Ok(vec!["a + \"one\\r\\ntwo\\r\\n\"".to_owned()]));
    assert_eq!(listed(&diff.replace('\r', "")), Ok(vec!["a + \"one\\ntwo\\n\"".to_owned()]));
    let blocks = "a.txt\n<<<<<<< SEARCH\n=======\nhello\n>>>>>>> REPLACE\n";
    assert_eq!(listed(&blocks.replace('\n', "\r\n")), Ok(vec!["a.txt + \"hello\\r\\n\"".to_owned()]));
}
