//! The places where a template could be wrong: each stream teaches it with one chunk and tries to mislead it with the
//! next.
//!
//! Invariant: the full parse is right.

use crate::body::{decoder, transcript_of};
use tokrate_wire::{Decoder, Dialect, Shape};

/// Decodes the chunks with and without the template.
fn decoded(chunks: &[&str]) -> Vec<String> {
    let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let expected = transcript_of(decoder(Shape::Stream).without_template(), &[body.as_bytes()]);
    assert_eq!(transcript_of(decoder(Shape::Stream), &[body.as_bytes()]), expected, "{chunks:?}");
    expected
}

#[test]
fn a_text_repeated_under_two_names_is_compared_each_time() {
    let lines = decoded(&[
        r#"{"choices":[{"delta":{"reasoning_content":"x","reasoning":"x"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"y","reasoning":"x"}}]}"#,
    ]);
    assert_eq!(lines, [r#"reasoning "x""#, r#"reasoning "y""#, r#"reasoning "x""#]);
}

#[test]
fn a_model_that_changes_back_is_reported_again() {
    let lines = decoded(&[
        r#"{"model":"a","choices":[{"delta":{"content":"x"}}]}"#,
        r#"{"model":"b","choices":[{"delta":{}}]}"#,
        r#"{"model":"a","choices":[{"delta":{"content":"y"}}]}"#,
    ]);
    assert_eq!(lines, [r#"model "a""#, r#"answer "x""#, r#"model "b""#, "empty", r#"model "a""#, r#"answer "y""#]);
}

#[test]
fn a_usage_block_on_either_side_of_the_text_is_read_each_time() {
    let before = r#"{"usage":{"completion_tokens":1},"choices":[{"delta":{"content":"x"}}]}"#;
    assert_eq!(decoded(&[before, before]).len(), 4);
    let after = r#"{"choices":[{"delta":{"content":"x"}}],"usage":{"completion_tokens":1}}"#;
    assert_eq!(decoded(&[after, after]).len(), 4);
    for second in
        ["null", "{}", "7", "{", "{\"completion_tokens\":-1}", "{} ", "{}}", "", "{\"completion_tokens\":\"\u{7}\"}"]
    {
        let misleading = after.replace(r#"{"completion_tokens":1}"#, second);
        decoded(&[after, &misleading]);
    }
    decoded(&[after, &after.replace('x', "")]);
}

#[test]
fn padding_must_be_a_value() {
    let padded = r#"{"choices":[{"delta":{"content":"x"}}],"obfuscation":"p"}"#;
    for second in [
        "\"\"",
        "7",
        "\"",
        "\"a\"b\"",
        "\"\\\"",
        "\"\\q\"",
        "x",
        "",
        "\"é\"",
        "null",
        "{\"a\":[1]}",
        "{\"a\":[1}",
        "\"\u{1}\"",
        "1,\"model\":\"m\"",
    ] {
        decoded(&[padded, &padded.replace("\"p\"", second)]);
    }
}

#[test]
fn what_stands_beside_the_text_of_a_chunk_is_read_each_time() {
    for (chunk, lines) in [
        (r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#, 5),
        (r#"{"choices":[{"delta":{"content":"x"},"finish_reason":7}]}"#, 4),
        (r#"{"choices":[{"delta":{"content":"x"}}],"usage":7}"#, 4),
        (r#"{"choices":[{"delta":{"content":"x"}},{"index":1}]}"#, 4),
        (r#"{"choices":[{"delta":{"content":"x"}}],"error":"e"}"#, 4),
        (r#"{"choices":[{"delta":{"content":"x","refusal":"y"}}]}"#, 4),
        (r#"{"choices":[{"delta":{"content":"x","content":"y"}}]}"#, 2),
        (r#"{"choices":[{"delta":{"content":"x"},"message":{"content":"y"}}]}"#, 2),
    ] {
        assert_eq!(decoded(&[chunk, chunk]).len(), lines, "{chunk}");
        decoded(&[chunk, &chunk.replace('x', "other"), &chunk.replace('y', "other")]);
    }
}

#[test]
fn the_inside_of_a_text_cannot_break_out_of_it() {
    let chunk = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    for inside in [
        "\"",
        "\\",
        "\\\\",
        "\\\"",
        "x\",\"refusal\":\"y",
        "\\\",\"refusal\":\"y",
        "\n",
        "\\u12",
        "\\ud83d",
        "\u{7f}",
        "é\\n",
    ] {
        decoded(&[chunk, &chunk.replace('x', inside)]);
        decoded(&[&chunk.replace('x', "a\\nb"), &chunk.replace('x', inside)]);
        let padded = chunk.replace("]}", "],\"obfuscation\":\"p\"}");
        decoded(&[&padded, &padded.replace('x', inside)]);
    }
}

#[test]
fn named_events_do_not_use_the_template() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\nevent: error\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n";
    let expected = transcript_of(decoder(Shape::Stream).without_template(), &[body.as_bytes()]);
    assert_eq!(transcript_of(decoder(Shape::Stream), &[body.as_bytes()]), expected);
}

#[test]
fn white_space_between_values_may_differ_and_nothing_else() {
    let event = |text: &str, tail: &str| {
        let start = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#;
        format!("event: content_block_delta\ndata: {start}{text}\"{tail}\n\n")
    };
    let texts = ["a", "b", "c", "d", "e ", "f\\n", "g", "h", "i"];
    let tails = ["}}", "}   }", "}\t }", "}x}", "}}", "}\u{a0}}", "} ", "}      }  ", "} }}"];
    let body: String = texts.iter().zip(tails).map(|(text, tail)| event(text, tail)).collect();
    let decoder = || Decoder::new(Dialect::Anthropic, Shape::Stream);
    let lines = transcript_of(decoder().without_template(), &[body.as_bytes()]);
    assert_eq!(transcript_of(decoder(), &[body.as_bytes()]), lines);
    let answers: String = lines.iter().filter_map(|line| line.strip_prefix("answer ")).collect();
    assert_eq!(answers, r#""a""b""c""e ""h""#, "{lines:?}");
}
