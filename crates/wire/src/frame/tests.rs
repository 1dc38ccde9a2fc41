//! Tests of the framer: the format, the limit, and that the chunking does not matter.

use super::*;
use proptest::prelude::*;

#[derive(Clone, PartialEq, Debug)]
enum Seen {
    Event(String, String),
    Unfinished(String, String),
    TooLarge(u64),
}

fn note(frame: Frame<'_>) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match frame {
        Frame::Event { name, data } => Seen::Event(text(name), text(data)),
        Frame::Unfinished { name, data } => Seen::Unfinished(text(name), text(data)),
        Frame::TooLarge { bytes } => Seen::TooLarge(bytes),
        Frame::Corrupt => unreachable!("lines have no checksum"),
    }
}

fn frames_of(pushes: &[&[u8]], limit: usize) -> (Vec<Seen>, u64) {
    let mut framer = SseFramer::new(limit);
    let mut seen = Vec::new();
    for bytes in pushes {
        framer.push(bytes, &mut |frame| seen.push(note(frame)));
        let held = framer.line.len() + framer.data.len() + framer.name.len();
        assert!(held <= 2 * limit, "{held} bytes are held with a limit of {limit}");
    }
    framer.end(&mut |frame| seen.push(note(frame)));
    (seen, framer.ignored_lines())
}

fn frames(body: &str) -> Vec<Seen> {
    frames_of(&[body.as_bytes()], 1000).0
}

fn event(data: &str) -> Seen {
    Seen::Event(String::new(), data.to_owned())
}

#[test]
fn data_comes_with_and_without_a_space_and_from_several_lines() {
    assert_eq!(frames("data: a\n\ndata:b\n\ndata:  c\n\n"), [event("a"), event("b"), event(" c")]);
    assert_eq!(frames("data: a\ndata:\ndata: c\n\n"), [event("a\n\nc")]);
    assert_eq!(frames("data\n\ndata:\n\n"), [event(""), event("")]);
}

#[test]
fn every_line_end_is_understood() {
    for end in ["\n", "\r", "\r\n"] {
        let body = ["data: a", "", "data: b", "data: c", "", "", ": comment", "", "data: d", "", ""].join(end);
        assert_eq!(frames(&body), [event("a"), event("b\nc"), event("d")], "{end:?}");
    }
    assert_eq!(frames("data: a\r\n\rdata: b\n\r\n"), [event("a"), event("b")]);
}

#[test]
fn comments_and_unknown_fields_are_skipped_and_names_are_kept() {
    let body = ": OPENROUTER PROCESSING\n\nevent: ping\nid: 7\nretry: 10\ncolour: red\ndata: a\n\ndata: b\n\n";
    assert_eq!(frames(body), [Seen::Event("ping".into(), "a".into()), event("b")]);
    assert_eq!(frames_of(&[body.as_bytes()], 100).1, 1);
    assert_eq!(
        frames("event: x\n\ndata: a\n\n"),
        [event("a")],
        "an event without data is none, nor does its name linger"
    );
    assert_eq!(frames(" data: a\n\n"), [], "a field begins at the start of the line");
}

#[test]
fn the_error_field_of_older_engines_is_an_event_named_error() {
    assert_eq!(frames("error: {\"code\":500}\n\n"), [Seen::Event("error".into(), "{\"code\":500}".into())]);
}

#[test]
fn named_events_are_distinguished_from_similar_prefixes() {
    let named = |name: &str, data: &str| Seen::Event(name.into(), data.into());
    assert_eq!(frames("event: a\ndata: x\n\nevent:b\ndata:y\n\n"), [named("a", "x"), named("b", "y")]);
    assert_eq!(frames("event: a\ndata: x\ndata: y\n\ndata: z\n\n"), [named("a", "x\ny"), event("z")]);
    assert_eq!(frames("event: a\nevent: b\ndata: x\n\n"), [named("b", "x")]);
    assert_eq!(frames("id: 1\nevent: a\ndata: x\n\n"), [named("a", "x")]);
    assert_eq!(frames("event: a\r\ndata: x\r\n\r\n"), [named("a", "x")]);
    assert_eq!(frames("event: a\ndata: x\n"), [Seen::Unfinished("a".into(), "x".into())]);
    let long = "x".repeat(986);
    let body = format!("event: a\ndata: {long}\n\nevent: a\ndata: {long}y\n\ndata: z\n\n");
    assert_eq!(frames(&body), [named("a", &long), Seen::TooLarge(1001), event("z")], "both lines count");
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(frames("\u{feff}data: a\n\n\u{feff}data: b\n\n"), [event("a")]);
    assert_eq!(frames("\u{feff}: comment\ndata: a\n\n"), [event("a")]);
    assert_eq!(frames("\n\u{feff}data: a\n\n"), []);
}

#[test]
fn the_event_in_which_the_body_ends_is_handed_on_as_unfinished() {
    let unfinished = |data: &str| [Seen::Unfinished(String::new(), data.to_owned())];
    assert_eq!(frames("data: a\n"), unfinished("a"));
    assert_eq!(frames("data: a"), unfinished("a"));
    assert_eq!(frames("data: a\ndata: b"), unfinished("a\nb"));
    assert_eq!(frames("dat"), unfinished(""));
    assert_eq!(frames("data: a\n\n: half a comm"), [event("a")]);
    assert_eq!(frames("data: a\n\n"), [event("a")]);
    assert_eq!(frames(""), []);
}

#[test]
fn an_event_over_the_limit_is_skipped_and_counted() {
    let long = "x".repeat(990);
    let body = format!("data: {long}\n\ndata: {long}y\ndata: z\n\ndata: a\n\ndata: {long}yyyyyy\n\ndata: b\n\n");
    let expected = [event(&long), Seen::TooLarge(1004), event("a"), Seen::TooLarge(1002), event("b")];
    assert_eq!(frames(&body), expected);
    let comment = format!(":{}\ndata: a\n\n", "x".repeat(5000));
    assert_eq!(frames(&comment), [event("a")], "comments are not held, so they have no limit");
    assert_eq!(frames(&"x".repeat(1001)), [Seen::TooLarge(1001)]);
}

/// Pieces from which bodies are built that touch every state.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data:".to_vec()),
        Just(b"data".to_vec()),
        Just(b"event: error".to_vec()),
        Just(b"event: a\ndata: {}\n\n".to_vec()),
        Just(b"event:\ndata:x\n".to_vec()),
        Just(b"error: x".to_vec()),
        Just(b": note".to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"{\"a\":1}".to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_chunking_does_not_matter(body in body(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8), limit in 1_usize..40) {
        let whole = frames_of(&[&body], limit);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(&frames_of(&parts, limit), &whole);
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        prop_assert_eq!(&frames_of(&bytes, limit), &whole);
    }

    /// A second, naive reading: split into lines first, then look at each.
    #[test]
    fn a_naive_reading_agrees(body in body()) {
        let (seen, _) = frames_of(&[&body], 1 << 20);
        let seen: Vec<Seen> = seen.into_iter().filter(|frame| matches!(frame, Seen::Event(..))).collect();
        prop_assert_eq!(seen, naive(&body));
    }
}

fn naive(body: &[u8]) -> Vec<Seen> {
    // Latin-1 keeps every byte as one character, so that the text functions of the standard library can be used.
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text: String =
        body.iter().map(|&byte| byte as char).collect::<String>().replace("\r\n", "\n").replace('\r', "\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    let (mut seen, mut name, mut data) = (Vec::new(), String::new(), None::<String>);
    for line in lines {
        if line.is_empty() {
            if let Some(data) = data.take() {
                seen.push(Seen::Event(back(&name), back(&data)));
            }
            name.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field == "event" {
            name = value.to_owned();
        }
        if field == "error" && name.is_empty() {
            name = field.to_owned();
        }
        if field == "data" || field == "error" {
            data = Some(data.map_or(value.to_owned(), |earlier| earlier + "\n" + value));
        }
    }
    seen
}

fn back(latin: &str) -> String {
    let bytes: Vec<u8> = latin.chars().map(|character| character as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
