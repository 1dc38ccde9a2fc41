//! Pairs of strings in JSON, good and bad.

use crate::format::Format;
use crate::format::properties::applied as made;
use serde_json::json;
use std::fmt::Write;

fn applied(original: &str, update: &serde_json::Value) -> Result<String, String> {
    made(Format::StringReplace, original, &update.to_string())
        .map_err(|refused| format!("{refused} {:?}", refused.candidates))
}

#[test]
fn a_string_is_replaced_inside_a_line() {
    let file = "let a = 1;\r\nlet b = 22;\r\n";
    assert_eq!(applied(file, &json!({"old_string": "22", "new_string": "3"})), Ok(file.replace("22", "3")));
    assert_eq!(
        applied(file, &json!({"old_str": "a = 1;\r\nlet", "new_str": "a;\nvar"})),
        Ok("let a;\r\nvar b = 22;\r\n".into())
    );
    assert_eq!(
        applied(file, &json!([{"oldText": "a", "newText": "c"}, {"oldText": "1", "newText": ""}])),
        Ok(file.replace("a = 1", "c = "))
    );
    assert_eq!(applied("a\nb\nc", &json!({"old_string": "b\n", "new_string": ""})), Ok("a\nc".into()));
    assert_eq!(applied("a\nb\nc", &json!({"old_string": "\nb\n", "new_string": " "})), Ok("a c".into()));
    assert_eq!(applied("a\nb", &json!({"old_string": "\nb", "new_string": ""})), Ok("a".into()));
    assert_eq!(applied("", &json!({"old_string": "", "new_string": "x\n"})), Ok("x\n".into()));
}

#[test]
fn all_places_are_replaced_if_it_is_said() {
    let update = json!({"file_path": "x", "old_string": "a", "new_string": "bb", "replace_all": true});
    assert_eq!(applied("a a\nx\na\n", &update), Ok("bb bb\nx\nbb\n".into()));
    let update = json!({"edits": [{"old_string": "a\n", "new_string": "", "replace_all": true}, {"old_string": "x", "new_string": "y"}]});
    assert_eq!(applied("a\na\nx\na\n", &update), Ok("y\n".into()));
}

#[test]
fn whole_lines_may_stand_at_another_indentation() {
    let update = json!({"old_string": "b()\nc()", "new_string": "b()\n  d()"});
    assert_eq!(applied("a\n    b()\n    c()\n", &update), Ok("a\n    b()\n      d()\n".into()));
}

#[test]
fn mixed_line_ends_stay_where_nothing_changes() {
    let update = json!({"old_string": "b\nc", "new_string": "b\nd"});
    assert_eq!(applied("a\nb\r\nc\nx\n", &update), Ok("a\nb\r\nd\nx\n".into()));
}

#[test]
fn refusals_say_where_and_what_to_do() {
    let mut text = String::new();
    let pair = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
    let cases = [
        ("several places", "a = nil\nb = nil\n", pair("nil", "1")),
        ("overlapping places", "aaa\n", pair("aa", "b")),
        ("no place", "fn a() {\n  one();\n}\n", pair("fn a() {\n  two();\n", "x")),
        ("no old string", "a\n", pair("", "a")),
        ("the same text twice", "abc\n", json!([pair("ab", "x"), pair("bc", "y")])),
        (
            "too much new text",
            &"a".repeat(1 << 16),
            json!({"old_string": "a", "new_string": "b".repeat(2000), "replace_all": true}),
        ),
    ];
    for (what, file, update) in cases {
        let refused = applied(file, &update).expect_err(what);
        writeln!(text, "{what}:\n  {refused}").expect("a string takes all");
    }
    for update in ["{\"old_string\": \"a\nb\", \"new_string\": \"\"}", "{\"old_string\": \"a\", \"new_s"] {
        let refused = made(Format::StringReplace, "a\n", update).expect_err("no JSON");
        writeln!(text, "not JSON:\n  {refused}").expect("a string takes all");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn lines_that_all_run_together_do_so_in_bounded_time() {
    let file = "a\n".repeat(100_000);
    let update = json!({"old_string": "\n", "new_string": "", "replace_all": true});
    assert_eq!(applied(&file, &update), Ok("a".repeat(100_000)));
    assert_eq!(applied("a\nb\nc\n", &json!({"old_string": "a\nb", "new_string": ""})), Ok("\nc\n".into()));
    assert_eq!(
        applied("ab\nab\n", &json!({"old_string": "b\n", "new_string": "", "replace_all": true})),
        Ok("aa".into())
    );
}

#[test]
fn the_last_line_end_is_one_like_the_others() {
    let pair = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
    for (file, old, new, wanted) in [
        ("a\nb\n", "b\n", "X", "a\nX"),
        ("a\nb\n", "b\n", "b", "a\nb"),
        ("a\nb\n", "\nb\n", "\nX", "a\nX"),
        ("a\r\nb\r\n", "b\r\n", "X", "a\r\nX"),
        ("a\nb\nc\n", "b\n", "X", "a\nXc\n"),
        ("a\nb", "b", "X\n", "a\nX\n"),
        ("a\nb\n", "b\n", "", "a\n"),
        ("only\n", "\n", "-", "only-"),
        ("only\n", "\n", "", "only"),
        // A file that ends without one has none there.
        ("first\nsecond", "\n", "-", "first-second"),
        ("b\na\nb", "b\n", "X\n", "X\na\nb"),
    ] {
        assert_eq!(applied(file, &pair(old, new)), Ok(wanted.to_owned()), "{file:?}: {old:?} becomes {new:?}");
    }
    let all = json!({"old_string": "\n", "new_string": "-", "replace_all": true});
    assert_eq!(applied("first\nsecond", &all), Ok("first-second".into()));
    assert!(applied("only", &pair("\n", "-")).is_err());
    assert!(applied("ab", &pair("b\n", "X\n")).is_err());
    let turns = json!([pair("a", "b\n"), pair("b\n\n", "c"), pair("c", "d")]);
    assert_eq!(applied("x\na\n", &turns), Ok("x\nd".into()), "in turn as well");
}

#[test]
fn a_string_that_becomes_itself_changes_nothing_where_it_stands() {
    let pair = |text: &str| json!({"old_string": text, "new_string": text});
    assert_eq!(applied("a\nb\n", &pair("b")), Ok("a\nb\n".into()));
    assert!(applied("a\nb\n", &pair("c")).is_err(), "it stands nowhere");
    let crate::Outcome::Merged(merged) = crate::edit("a.txt", "a\n", &pair("a").to_string(), None) else { panic!() };
    assert!(merged.is_unchanged());
}

#[test]
fn a_list_may_be_written_as_a_text_and_an_argument_too_many_is_named() {
    let list = json!([{"old_string": "a", "new_string": "b"}]).to_string();
    assert_eq!(applied("a\n", &json!({"edits": list})), Ok("b\n".into()));
    let update = json!({"old_string": "a", "new_string": "b", "occurrence": 2});
    let crate::Outcome::Refused(refused) = crate::edit("a.txt", "a\n", &update.to_string(), None) else {
        panic!("it is no content");
    };
    assert!(refused.message.contains("`occurrence`"), "{}", refused.message);
}

#[test]
fn a_list_is_carried_out_in_turn_where_it_says_so() {
    let list = |edits: serde_json::Value| json!({"file_path": "a", "edits": edits});
    let pair = |old: &str, new: &str, all: bool| json!({"old_string": old, "new_string": new, "replace_all": all});
    let chain = list(json!([pair("one", "two", false), pair("two + 1", "three", false)]));
    assert_eq!(applied("x = one + 1\n", &chain), Ok("x = three\n".into()), "the second edit is of what the first made");
    let both = list(json!([pair("a", "b", false), pair("b", "c", true)]));
    let refused = applied("a b\n", &both).expect_err("in turn `c c`, at once `b c`");
    assert!(refused.contains("in turn"), "{refused}");
    let apart = list(json!([pair("a", "b", false), pair("c", "d", false)]));
    assert_eq!(applied("a c\n", &apart), Ok("b d\n".into()));
}

#[test]
fn a_cr_at_the_end_of_a_line_stays() {
    let made = |file: &str| crate::edit("a.txt", file, r#"{"old_string": "two", "new_string": "2"}"#, None);
    for file in ["one\rtwo\rthree\r", "one\ntwo\r", "two\r\r\nthree\r\n", "two\r\r\nthree\n", "two\r\r"] {
        let crate::Outcome::Merged(merged) = made(file) else { panic!("{file:?} is refused") };
        assert_eq!(merged.text, file.replace("two", "2"), "{file:?}");
    }
}
