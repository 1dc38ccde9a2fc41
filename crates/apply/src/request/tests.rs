//! Requests in tags, and anchors expanded.

use super::*;
use proptest::prelude::*;

fn read(content: &str) -> EditRequest {
    read_chat(content).expect("a request")
}

#[test]
fn the_tags_of_morph_are_read() {
    let request = read("<instruction>I add x</instruction>\n<code>a\r\nb\n</code>\n<update> c\n</update>");
    assert_eq!(request.instruction.as_deref(), Some("I add x"));
    assert_eq!((request.code.as_str(), request.update.as_str()), ("a\r\nb\n", " c\n"));
    assert!(!request.tagged_answer);
    let request = read("<code></code><update>a</update>\n");
    assert_eq!((request.instruction, request.code.as_str(), request.update.as_str()), (None, "", "a"));
}

#[test]
fn kortix_speaks_of_the_tags_before_it_uses_them() {
    let request = read(
        "Merge all changes from the <update> snippet into the <code> below.\n- Output only the updated code, enclosed within <updated-code> and </updated-code> tags.\n\n<code>a\n</code>\n\n<update>b\n</update>\n\nProvide the complete updated code.",
    );
    assert_eq!((request.code.as_str(), request.update.as_str()), ("a\n", "b\n"));
    assert!(request.tagged_answer);
}

#[test]
fn tags_inside_are_content() {
    let code = "<p><code>x</code></p>\n<update>no</update>\n<code>\n</code>\n<update>\n";
    let request = read(&format!(
        "<instruction>use <code> and </instruction> well</instruction>\n<code>{code}</code>\n<update></code></update></update>"
    ));
    assert_eq!((request.code.as_str(), request.update.as_str()), (code, "</code></update>"));
    assert_eq!(request.instruction.as_deref(), Some("use <code> and </instruction> well"));
}

#[test]
fn what_is_missing_is_named() {
    let refused =
        ["", "<code>a", "<code>a</code>", "<code>a<update>b</update>", "a</code><update>b</update>", "<instruction>a"]
            .map(|content| read_chat(content).expect_err(content).to_string());
    insta::assert_snapshot!(refused.join("\n"));
}

const COMPACT: &str = "⟪MORPH_DEFINITIONS_BEGIN_0⟫\n⟪M0:0:line⟫=\"let a = \\\"é\\\";\\tx\"\n⟪M0:1:div⟫=\"<div>\\r\\n\"\n⟪MORPH_DEFINITIONS_END_0⟫\n⟪MORPH_CODE_BEGIN_0⟫\n";

#[test]
fn compacted_files_are_plain_again() {
    let instruction = "I add x\n\nLARGE-FILE ANCHOR PROTOCOL:\nThe <code> block starts with an exact table.";
    let request = read(&format!(
        "<instruction>{instruction}</instruction>\n<code>{COMPACT}⟪M0:0:line⟫\nb\n⟪M0:1:div⟫⟪M0:0:line⟫</code>\n<update>⟪M0:0:line⟫\nc ⟪M1:0:line⟫</update>"
    ));
    assert_eq!(request.instruction.as_deref(), Some("I add x"));
    assert_eq!(request.code, "let a = \"é\";\tx\nb\n<div>\r\nlet a = \"é\";\tx");
    assert_eq!(request.update, "let a = \"é\";\tx\nc ⟪M1:0:line⟫");
    let request = read(&format!("<code>{COMPACT}</code>\n<update>a</update>"));
    assert_eq!(request.code, "");
}

#[test]
fn broken_anchors_are_refused() {
    let refused = [
        format!("{COMPACT}⟪M0:2:line⟫"),
        format!("{COMPACT}⟪M0:0:div⟫"),
        format!("{COMPACT}⟪M0:0"),
        COMPACT.replace("CODE_BEGIN", "CODE"),
        COMPACT.replace("⟪M0:1:div⟫=\"", "⟪M0:1:div⟫="),
        COMPACT.replace("M0:1:div", "M0:0:line"),
    ]
    .map(|code| read_chat(&format!("<code>{code}</code>\n<update>a</update>")).expect_err(&code).to_string());
    insta::assert_snapshot!(refused.join("\n"));
}

#[test]
fn anchors_do_not_grow_beyond_the_limit() {
    let long = "x".repeat(1 << 20);
    let code = format!(
        "⟪MORPH_DEFINITIONS_BEGIN_7⟫\n⟪M7:0:line⟫=\"{long}\"\n⟪MORPH_DEFINITIONS_END_7⟫\n⟪MORPH_CODE_BEGIN_7⟫\n{}",
        "⟪M7:0:line⟫".repeat(100)
    );
    let refused = read_chat(&format!("<code>{code}</code><update>a</update>")).expect_err("100 MB");
    assert_eq!(refused.code, Code::TooLarge);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_and_update_come_back_equal(instruction in proptest::option::of("[a-z <>\n]{0,20}"), code in ".{0,60}", update in ".{0,60}") {
        prop_assume!(![&code, &update].iter().any(|text| text.contains("<update>")));
        let tag = instruction.as_ref().map(|text| format!("<instruction>{text}</instruction>\n")).unwrap_or_default();
        let request = read_chat(&format!("{tag}<code>{code}</code>\n<update>{update}</update>"));
        prop_assert_eq!(request, Ok(EditRequest { instruction, code, update, tagged_answer: false }));
    }

    #[test]
    fn nothing_panics(pieces in prop::collection::vec("<code>|</code>|<update>|</update>|<instruction>|</instruction>|\n|a|⟪MORPH_DEFINITIONS_BEGIN_0⟫\n|⟪M0:0:é⟫|=\"a\"\n|⟪MORPH_DEFINITIONS_END_0⟫\n⟪MORPH_CODE_BEGIN_0⟫\n", 0..16)) {
        drop(read_chat(&pieces.concat()));
    }
}
