//! Blocks of search and replacement as models write them, good and bad.

use crate::format::Format;
use crate::format::properties::applied as made;
use std::fmt::Write;

fn applied(original: &str, update: &str) -> Result<String, String> {
    made(Format::SearchReplace, original, update).map_err(|refused| format!("{refused} {:?}", refused.candidates))
}

fn block(search: &str, replace: &str) -> String {
    format!("<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n")
}

const FILE: &str = "fn a() {\n    one();\n    return nil\n}\n\nfn b() {\n    two();\n    return nil\n}\n";

#[test]
fn lines_are_replaced_deleted_and_put_in() {
    assert_eq!(applied("a\nb\nc\n", &block("b\n", "x\ny\n")), Ok("a\nx\ny\nc\n".into()));
    assert_eq!(applied("a\nb\nc\n", &block("b\n", "")), Ok("a\nc\n".into()));
    assert_eq!(applied("a\r\nb", &block("b\n", "b\nc\n")), Ok("a\r\nb\r\nc".into()));
    assert_eq!(applied("", &block("", "x\n")), Ok("x\n".into()));
}

#[test]
fn blocks_that_touch_are_both_carried_out() {
    let update = block("a\n", "a\nx\n") + &block("b\n", "y\nb\n");
    assert_eq!(applied("a\nb\n", &update), Ok("a\nx\ny\nb\n".into()));
    // Context that both show.
    let update = block("a\nb\n", "A\nb\n") + &block("b\nc\n", "b\nC\n");
    assert_eq!(applied("a\nb\nc\n", &update), Ok("A\nb\nC\n".into()));
}

#[test]
fn the_whole_block_may_stand_at_another_indentation() {
    let update = block("two();\nreturn nil\n", "two();\n  three();\n\nreturn nil\n");
    let expected = FILE.replace("    two();\n", "    two();\n      three();\n\n");
    assert_eq!(applied(FILE, &update), Ok(expected));
    let update = block("        two();\n", "        three();\n");
    assert_eq!(applied(FILE, &update), Ok(FILE.replace("two", "three")));
    // Not line by line.
    assert!(applied(FILE, &block("two();\n  return nil\n", "x\n")).is_err());
    // What would stand left of the margin.
    assert!(applied(FILE, &block("        two();\n", "  three();\n")).is_err());
}

#[test]
fn white_space_at_ends_and_blank_edges_may_differ() {
    assert_eq!(applied("a  \nb\n", &block("a\nb\n", "a\nc\n")), Ok("a  \nc\n".into()));
    assert_eq!(applied("a\nb\n", &block("\na\n\n", "\nx\n\n")), Ok("x\nb\n".into()));
    assert_eq!(applied("a\n\nb\n", &block("a\n\n", "x\n\n")), Ok("x\n\nb\n".into()), "the blank line stands there");
    let refused = applied("a \na\t\n", &block("a\n", "b\n")).expect_err("two places");
    assert!(refused.contains("[(1, 1), (2, 2)]"), "{refused}");
    assert_eq!(applied("a \na\n", &block("a\n", "b\n")), Ok("a \nb\n".into()), "one is exact");
}

#[test]
fn pieces_with_dots_between_them_each_stand_once() {
    let update = block("fn b() {\n...\n}\n", "fn c() {\n...\n}\n");
    assert!(applied(FILE, &update).is_err(), "the bracket stands twice");
    let update = block("fn a() {\n...\nfn b() {\n", "fn x() {\n...\nfn y() {\n");
    assert_eq!(applied(FILE, &update), Ok(FILE.replace("fn a", "fn x").replace("fn b", "fn y")));
    assert!(applied(FILE, &block("fn b() {\n...\nfn a() {\n", "x\n...\ny\n")).is_err(), "not in order");
    assert!(applied(FILE, &block("fn a() {\n...\nfn b() {\n", "x\n")).is_err(), "what becomes of the rest is not said");
    assert_eq!(applied("class A:\n    ...\n", &block("    ...\n", "    pass\n")), Ok("class A:\n    pass\n".into()));
}

#[test]
fn roo_says_the_line_and_escapes() {
    let roo = |line: usize| {
        format!(
            "<<<<<<< SEARCH\n:start_line:{line}\n:end_line:9\n-------\n    return nil\n=======\n    return 1\n>>>>>>> REPLACE"
        )
    };
    let far = "x\n".repeat(30);
    let file = format!("{FILE}{far}{FILE}");
    assert!(applied(&file, &roo(3)).is_err(), "two within ten lines");
    let one = format!("    return nil\n{far}    return nil\n");
    assert_eq!(applied(&one, &roo(5)), Ok(format!("    return 1\n{far}    return nil\n")));
    assert_eq!(applied(&one, &roo(30)), Ok(format!("    return nil\n{far}    return 1\n")));
    assert!(applied(&one, &roo(15)).is_err(), "near neither");
    let escaped = "<<<<<<< SEARCH\n:start_line:1\n-------\n\\=======\n=======\n\\>>>>>>> REPLACE\n>>>>>>> REPLACE";
    assert_eq!(applied("=======\n", escaped), Ok(">>>>>>> REPLACE\n".into()));
}

#[test]
fn other_numbers_of_signs_are_content() {
    let update = "<<<<<<<<< SEARCH\n<<<<<<< SEARCH\na\n=======\n=========\nb\n>>>>>>> REPLACE\n>>>>>>>>> REPLACE\n";
    assert_eq!(applied("<<<<<<< SEARCH\na\n=======\n", update), Ok("b\n>>>>>>> REPLACE\n".into()));
    assert_eq!(
        applied("a\n", "<<<<< SEARCH\na\n======\nb\n>>>>>>> REPLACE\n"),
        Ok("b\n".into()),
        "if nothing else closes it"
    );
    assert_eq!(applied("T\n===\n", "------- SEARCH\nT\n===\n=======\nU\n===\n+++++++ REPLACE"), Ok("U\n===\n".into()));
}

#[test]
fn blocks_of_several_files_are_no_edit_of_one() {
    let update = format!("src/a.rs\n{}\nsrc/b.rs\n```\n{}```\n", block("a\n", "x\n"), block("b\n", "y\n"));
    let source = crate::source::Source::read(b"a\nb\n").expect("text");
    let refused = super::locate(&source, &update).expect_err("two files");
    assert!(refused.message.contains("src/a.rs and src/b.rs") && refused.hint.contains("--patch"), "{refused}");
    let one = format!("src/a.rs\n{}\na.rs\n{}", block("a\n", "x\n"), block("b\n", "y\n"));
    assert_eq!(super::locate(&source, &one).map(|located| located.splices.len()), Ok(1), "two names of one file");
}

#[test]
fn refusals_say_where_and_what_to_do() {
    let mut text = String::new();
    let cases = [
        ("several places", FILE, block("    return nil\n", "    return 1\n")),
        ("a block of several lines", FILE, block("    return nil\n}\n", "}\n")),
        ("another line", FILE, block("fn b() {\n    tow();\n    return nil\n", "")),
        ("beyond the end", FILE, block("    two();\n    return nil\n}\nfn c() {\n", "")),
        ("tabs", FILE, block("\ttwo();\n    return nil\n", "x\n")),
        ("another file", FILE, block("import os\nimport sys\n", "import os\n")),
        ("done already", FILE, block("    three();\n", "    two();\n")),
        ("nothing changes", FILE, block("fn a() {\n", "fn a() {\n")),
        ("overlap", "a\nb\n", block("a\nb\n", "c\n") + &block("b\n", "d\n")),
        ("no search", FILE, block("", "x\n")),
        ("dots on one side", FILE, block("fn a() {\n...\nfn b() {\n", "x\n")),
        ("second divider", FILE, block("a\n=======\nb\n", "c\n")),
        ("not closed", FILE, "<<<<<<< SEARCH\na\n=======\nb\n".to_owned()),
        ("no divider", FILE, "<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n".to_owned()),
        ("opened twice", FILE, "<<<<<<< SEARCH\na\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n".to_owned()),
        ("second of two", FILE, block("fn a() {\n", "fn x() {\n") + &block("nowhere\n", "")),
    ];
    for (what, file, update) in cases {
        let refused = applied(file, &update).expect_err(what);
        writeln!(text, "{what}:\n  {refused}").expect("a string takes all");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_part_of_a_file_beside_blocks_is_not_left_out() {
    let file = "def a():\n    return 1\n\ndef b():\n    return 2\n";
    let block = "<<<<<<< SEARCH\n    return 1\n=======\n    return 10\n>>>>>>> REPLACE\n";
    let more = "\nAnd in b:\n\n```python\n# ... existing code ...\ndef b():\n    return 20\n```\n";
    let refused = applied(file, &format!("{block}{more}")).expect_err("b would stay");
    assert!(refused.contains("outside of a block"), "{refused}");
    assert!(applied(file, &format!("{block}\nThat is all.\n")).is_ok());
}
