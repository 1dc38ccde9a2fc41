//! Input that no server should send, and that some do.
//!
//! Invariant: what can be read is decoded, what cannot is counted.

use crate::body::{decoder, end, push, transcript_of};
use tokrate_core::{EventBatch, Tick};
use tokrate_wire::Shape;

fn chunk(content: &[u8]) -> Vec<u8> {
    [b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"", content, b"\"}}]}\n\n"].concat()
}

/// What a stream of chunks with these contents says.
fn contents(contents: &[&[u8]]) -> Vec<String> {
    let body: Vec<u8> = contents.iter().flat_map(|content| chunk(content)).collect();
    let lines = transcript_of(decoder(Shape::Stream), &[&body]);
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(transcript_of(decoder(Shape::Stream), &bytes), lines, "single bytes");
    assert_eq!(transcript_of(decoder(Shape::Stream).without_template(), &[&body]), lines, "without the template");
    lines
}

#[test]
fn text_split_within_a_character_is_not_touched() {
    assert_eq!(contents(&["é蓝😀".as_bytes()]), ["answer \"é蓝😀\""]);
}

#[test]
fn bytes_that_are_not_utf8_are_replaced_and_counted() {
    let lines = contents(&[b"a", b"\xFF", b"\xF0\x9F\x98", b"b", b"\xC3("]);
    let replaced = |text: &str| [format!("answer {text:?}"), "odd invalid_utf8".to_owned()];
    let mut expected = vec!["answer \"a\"".to_owned()];
    expected.extend(replaced("\u{fffd}"));
    expected.extend(replaced("\u{fffd}"));
    expected.push("answer \"b\"".to_owned());
    expected.extend(replaced("\u{fffd}("));
    assert_eq!(lines, expected);
}

#[test]
fn invalid_utf8_outside_the_text_is_counted_too() {
    let body =
        [b"data: {\"x\":\"\xFF\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n".as_slice(), b"data: \xFF\n\n"]
            .concat();
    let expected = ["answer \"a\"", "odd invalid_utf8", "odd invalid_utf8", "odd unreadable_event"];
    assert_eq!(transcript_of(decoder(Shape::Stream), &[&body]), expected);
}

#[test]
fn surrogates_are_joined_in_pairs_and_replaced_alone() {
    let lines = contents(&[
        b"x",
        b"\\ud83d\\ude00",
        b"\\ud83d",
        b"\\ude00\\ud83d",
        b"\\uD83D\\u0041",
        b"\\\\ud83d",
        b"\\u00e9",
    ]);
    let expected = [
        "answer \"x\"",
        "answer \"😀\"",
        "answer \"\u{fffd}\"",
        "odd invalid_utf8",
        "answer \"\u{fffd}\u{fffd}\"",
        "odd invalid_utf8",
        "answer \"\u{fffd}A\"",
        "odd invalid_utf8",
        "answer \"\\\\ud83d\"",
        "answer \"é\"",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn broken_strings_cost_their_event_only() {
    let lines = contents(&[b"a", b"\\x", b"b", b"\0", b"c", b"\"", b"\\", b"\\u00zz", b"d\\u0000\t"]);
    let malformed = "odd unreadable_event";
    let expected = [
        "answer \"a\"",
        malformed,
        "answer \"b\"",
        malformed,
        "answer \"c\"",
        malformed,
        malformed,
        malformed,
        malformed,
    ];
    assert_eq!(lines, expected);
    assert_eq!(contents(&[b"", b"", b"a", b""]), ["empty", "empty", "answer \"a\"", "empty"]);
}

#[test]
fn deep_nesting_and_huge_numbers_are_survived() {
    let deep = "[".repeat(100_000);
    let event = |field: &str, value: &str| {
        format!("data: {{\"{field}\":{value},\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n")
    };
    let closed = format!("{deep}{}", "]".repeat(100_000));
    assert_eq!(transcript_of(decoder(Shape::Stream), &[event("x", &closed).as_bytes()]), ["answer \"a\""]);
    assert_eq!(transcript_of(decoder(Shape::Stream), &[event("x", &deep).as_bytes()]), ["odd unreadable_event"]);
    assert_eq!(transcript_of(decoder(Shape::Stream), &[event("created", "1e999").as_bytes()]), ["answer \"a\""]);
    let number = "9".repeat(10_000);
    assert_eq!(transcript_of(decoder(Shape::Stream), &[event("created", &number).as_bytes()]), ["answer \"a\""]);
    let nested = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{closed}}}}}]}}\n\n");
    assert_eq!(transcript_of(decoder(Shape::Stream), &[nested.as_bytes()]), ["odd malformed_event", "empty"][..1]);
    for root in [deep.as_str(), &closed] {
        let lines = transcript_of(decoder(Shape::Stream), &[format!("data: {root}\n\n").as_bytes()]);
        assert!(lines.iter().any(|lines| lines == "odd unreadable_event"), "{lines:?}");
        let error = format!("data: {{\"error\":{root}}}\n\n");
        assert_eq!(transcript_of(decoder(Shape::Stream), &[error.as_bytes()]).len(), 1);
    }
}

#[test]
fn an_event_of_a_hundred_megabytes_is_skipped_and_the_next_is_read() {
    let mut decoder = decoder(Shape::Stream);
    let mut lines = push(&mut decoder, &[&chunk(b"a"), b"data: {\"choices\":[{\"delta\":{\"content\":\""]);
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        lines.extend(push(&mut decoder, &[&megabyte]));
    }
    lines.extend(push(&mut decoder, &[b"\"}}]}\n\n", &chunk(b"b")]));
    lines.extend(end(&mut decoder));
    assert_eq!(lines, ["answer \"a\"", "odd event_too_large", "answer \"b\""]);
}

#[test]
fn a_whole_body_over_the_limit_is_counted_once() {
    let body = format!("{{\"choices\":[{{\"message\":{{\"content\":\"{}\"}}}}]}}", "x".repeat(2000));
    let limited = |limit| decoder(Shape::Whole).with_max_event_bytes(limit);
    assert_eq!(transcript_of(limited(1000), &[body.as_bytes()]), ["odd event_too_large"]);
    let parts: Vec<&[u8]> = body.as_bytes().chunks(7).collect();
    assert_eq!(transcript_of(limited(body.len() - 1), &parts), ["odd event_too_large"]);
    assert_eq!(transcript_of(limited(body.len()), &parts).last().unwrap(), "done");
}

#[test]
fn a_body_that_is_no_stream_is_counted_as_malformed() {
    let malformed = ["odd unreadable_event"];
    for (body, odd) in [
        ("upstream connect error\n", "odd unreadable_event"),
        ("<html><body>502 Bad Gateway</body></html>", "odd unreadable_event"),
        ("\"oops\"", "odd malformed_event"),
        ("[]", "odd malformed_event"),
        ("{}", "odd malformed_event"),
        ("{\"a\":1} {}", "odd unreadable_event"),
    ] {
        for shape in [Shape::Stream, Shape::Whole] {
            assert_eq!(transcript_of(decoder(shape), &[body.as_bytes()]), [odd], "{body} {shape:?}");
        }
    }
    let unfinished = ["odd unfinished_event", "odd unreadable_event"];
    assert_eq!(transcript_of(decoder(Shape::Stream), &[b"no healthy upstream"]), unfinished);
    assert_eq!(transcript_of(decoder(Shape::Whole), &[b"no healthy upstream"]), malformed);
    for body in ["", "\n \r\n", "\u{feff}"] {
        assert_eq!(transcript_of(decoder(Shape::Stream), &[body.as_bytes()]), [""; 0], "{body:?}");
    }
}

#[test]
fn an_event_that_is_no_object_is_unreadable_and_an_end_mark_hides_no_garbage() {
    for event in ["data: 7\n\n", "data: \"text\"\n\n", "data: []\n\n", "data: null\n\n", "data: {\"cut\":\n\n"] {
        let lines = transcript_of(decoder(Shape::Stream), &[event.as_bytes()]);
        assert_eq!(lines.last().map(String::as_str), Some("odd unreadable_event"), "{event}");
    }
    // Comments, empty data and kinds of events that are newer than this are none of that.
    for event in [": ping\n\n", "data:\n\n", "event: ping\ndata: {}\n\n", "data: {\"object\":\"news\"}\n\n"] {
        let lines = transcript_of(decoder(Shape::Stream), &[event.as_bytes()]);
        assert!(lines.iter().all(|lines| lines != "odd unreadable_event"), "{event}: {lines:?}");
    }
    let lines = transcript_of(decoder(Shape::Stream), &[b"upstream connect error\n\ndata: [DONE]\n\n"]);
    assert_eq!(lines, ["done", "odd unreadable_event"]);
}

#[test]
fn a_whole_body_is_recognised_in_any_chunking() {
    let body = "\u{feff}\r\n  {\"error\":{\"message\":\"no\",\"code\":401}}\n";
    let expected = ["failed unauthorized \"no\""];
    for shape in [Shape::Stream, Shape::Whole] {
        assert_eq!(transcript_of(decoder(shape), &[body.as_bytes()]), expected);
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        assert_eq!(transcript_of(decoder(shape), &bytes), expected);
    }
}

#[test]
fn events_carry_the_tick_of_the_push_that_completed_them() {
    let mut decoder = decoder(Shape::Stream);
    let mut batch = EventBatch::new();
    let one = chunk(b"a");
    decoder.push(Tick::from_nanos(1), &one[..20], &mut batch);
    decoder.push(Tick::from_nanos(2), &one[20..one.len() - 1], &mut batch);
    assert!(batch.is_empty());
    let rest = [&b"\n"[..], &chunk(b"b"), b"data: [DO"].concat();
    decoder.push(Tick::from_nanos(3), &rest, &mut batch);
    decoder.push(Tick::from_nanos(4), b"NE]\n", &mut batch);
    decoder.end(Tick::from_nanos(9), &mut batch);
    decoder.end(Tick::from_nanos(10), &mut batch);
    let ticks: Vec<u64> = batch.events().iter().map(|event| event.at.as_nanos()).collect();
    assert_eq!(ticks, [3, 3, 4, 4], "two texts of one push, then the mark that no empty line followed");
}
