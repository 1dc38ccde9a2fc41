//! Frames of both directions, whole, cut anywhere, broken.

use super::*;
use proptest::prelude::*;

/// Messages as they were read, for comparison.
fn read(pieces: &[&[u8]], limit: usize) -> (Vec<String>, bool) {
    let (mut reader, mut messages) = (FrameReader::new(limit), Vec::new());
    for piece in pieces {
        reader.push(piece, |message| messages.push(format!("{message:?}")));
        assert!(reader.held_bytes() <= limit);
    }
    (messages, reader.is_at_boundary())
}

fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(FrameKind::Text, payload, mask, &mut bytes);
    bytes[0] = first;
    bytes
}

#[test]
fn the_handshake_of_the_standard_is_accepted() {
    assert_eq!(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(
        ["", "f", "fo", "foo", "foob"].map(|text| crate::base64::encode(text.as_bytes())),
        ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
    );
}

#[test]
fn messages_are_read_masked_and_fragmented_with_control_frames_between() {
    let mask = Some([0x37, 0xfa, 0x21, 0x3d]);
    let bytes = [
        // The masked "Hello" of the standard, section 5.7.
        vec![0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58],
        frame(0x01, b"Hel", None),
        frame(0x89, b"p", mask),
        frame(0x00, b"", None),
        frame(0x80, b"lo", mask),
        frame(0x82, &[7; 300], mask),
        frame(0x8a, b"", None),
        close_frame(1000, "bye", mask),
        frame(0x88, b"", None),
    ]
    .concat();
    let (messages, is_at_boundary) = read(&[&bytes], 1_000);
    let hello = format!("{:?}", Message::Text(b"Hello"));
    let seven = format!("{:?}", Message::Binary(&[7; 300]));
    assert_eq!(messages, [&hello, "Ping([112])", &hello, &seven, "Pong", "Close(Some(1000))", "Close(None)"]);
    assert!(is_at_boundary);
    let (messages, _) = read(&[&bytes], 299);
    assert_eq!(messages[3], "TooLarge");
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(&single, 1_000), read(&[&bytes], 1_000));
}

#[test]
fn what_is_no_frame_is_said_once_and_huge_lengths_hold_nothing() {
    for broken in [
        frame(0xc1, b"x", None),
        frame(0x83, b"x", None),
        frame(0x80, b"x", None),
        frame(0x09, b"x", None),
        frame(0x89, &[0; 126], None),
        [frame(0x01, b"x", None), frame(0x81, b"x", None)].concat(),
        vec![0x81, 0x7f, 0x80, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let (messages, is_at_boundary) = read(&[&broken, &frame(0x81, b"later", None)], 100);
        assert_eq!((messages.as_slice(), is_at_boundary), (["Broken".to_owned()].as_slice(), false), "{broken:?}");
    }
    let mut reader = FrameReader::new(100);
    reader.push(&[0x81, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], |_| panic!("it is not whole"));
    reader.push(&[0; 4_096], |_| panic!("it is not whole"));
    assert!(reader.held_bytes() == 0 && !reader.is_at_boundary());
}

#[test]
fn a_reason_is_cut_between_characters() {
    let frame = close_frame(1008, &"\u{fc}".repeat(100), None);
    assert_eq!(frame.len(), 2 + 2 + 122);
    assert!(std::str::from_utf8(&frame[4..]).is_ok());
}

fn arbitrary_frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![8 => 0_u8..3, 3 => 8_u8..11, 1 => any::<u8>()];
    let payload =
        prop_oneof![proptest::collection::vec(any::<u8>(), 0..40), proptest::collection::vec(any::<u8>(), 120..400)];
    (any::<bool>(), opcode, payload, any::<Option<[u8; 4]>>())
        .prop_map(|(is_final, opcode, payload, mask)| frame(u8::from(is_final) << 7 | opcode, &payload, mask))
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_messages(
        frames in proptest::collection::vec(arbitrary_frame(), 0..12),
        cuts in proptest::collection::vec(1_usize..300, 1..20),
    ) {
        let bytes = frames.concat();
        let whole = read(&[&bytes], 256);
        let (mut pieces, mut rest, mut sizes) = (Vec::new(), bytes.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let size = sizes.next().copied().unwrap_or(1).min(rest.len());
            pieces.push(&rest[..size]);
            rest = &rest[size..];
        }
        prop_assert_eq!(read(&pieces, 256), whole);
    }

    #[test]
    fn what_is_written_is_read(payload in proptest::collection::vec(any::<u8>(), 0..70_000), mask: Option<[u8; 4]>) {
        let mut bytes = Vec::new();
        write_frame(FrameKind::Binary, &payload, mask, &mut bytes);
        let mut found = None;
        FrameReader::new(70_000).push(&bytes, |message| found = Some(message == Message::Binary(&payload)));
        prop_assert_eq!(found, Some(true));
    }
}
