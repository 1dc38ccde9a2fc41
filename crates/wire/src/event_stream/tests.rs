//! Messages of AWS's own test suite, and what hostile lengths and checksums come to.

use super::*;
use proptest::prelude::*;

/// What a framer says of these pieces: each frame as text.
fn frames(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
    let mut framer = EventStreamFramer::new(limit);
    let mut said = Vec::new();
    let mut take = |frame: Frame<'_>| {
        said.push(match frame {
            Frame::Event { name, data } => {
                format!("{} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(data))
            }
            other => format!("{other:?}"),
        });
    };
    for piece in pieces {
        framer.push(piece, &mut take);
        assert!(framer.held_bytes() <= limit.max(PRELUDE_BYTES));
    }
    framer.end(&mut take);
    said
}

fn message(name: &str, payload: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_message("event", name, payload.as_bytes(), &mut out);
    out
}

/// The first messages of the suite that AWS's SDKs share (`empty_message`, `payload_no_headers`, `payload_one_str_header`): bytes by
/// botocore 1.44.8, tests/unit/test_eventstream.py.
#[test]
fn messages_of_the_shared_suite_are_read() {
    let empty = b"\x00\x00\x00\x10\x00\x00\x00\x00\x05\xc2H\xeb}\x98\xc8\xff";
    assert_eq!(frames(1 << 20, &[empty]), [" "]);
    let plain = b"\x00\x00\x00\x1d\x00\x00\x00\x00\xfdR\x8cZ{'foo':'bar'}\xc3e96";
    assert_eq!(frames(1 << 20, &[plain]), [" {'foo':'bar'}"]);
    let typed = b"\x00\x00\x00=\x00\x00\x00 \x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json{'foo':'bar'}\x8d\x9c\x08\xb1";
    assert_eq!(frames(1 << 20, &[typed]), [" {'foo':'bar'}"]);
}

#[test]
fn an_exception_and_an_error_are_told_by_their_names() {
    let mut body = Vec::new();
    push_message("exception", "throttlingException", br#"{"message":"slow down"}"#, &mut body);
    assert_eq!(frames(1 << 20, &[&body]), [r#"throttlingException {"message":"slow down"}"#]);
}

#[test]
fn a_message_that_was_changed_is_corrupt_and_the_next_one_is_read() {
    let (mut first, second) = (message("a", "{\"x\":1}"), message("b", "{}"));
    let end = first.len();
    first[end - 6] ^= 1;
    assert_eq!(frames(1 << 20, &[&first, &second]), ["Corrupt", "b {}"]);
}

#[test]
fn lengths_that_lie_cost_no_memory_and_nothing_behind_them_is_believed() {
    let mut sound = message("a", "{}");
    let mut lie = sound.clone();
    lie[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(frames(1 << 20, &[&lie, &sound]), ["Corrupt"]);
    // With a checksum that fits: a message of four gigabytes, and one whose headers are longer than itself.
    let crc = crc32fast::hash(&lie[..8]).to_be_bytes();
    lie[8..12].copy_from_slice(&crc);
    assert_eq!(frames(1 << 20, &[&lie, &sound]), ["TooLarge { bytes: 4294967295 }"]);
    sound[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
    let crc = crc32fast::hash(&sound[..8]).to_be_bytes();
    sound[8..12].copy_from_slice(&crc);
    assert_eq!(frames(1 << 20, &[&sound]), ["Corrupt"]);
}

#[test]
fn a_message_over_the_limit_is_skipped_and_one_that_breaks_off_says_nothing() {
    let (large, small) = (message("a", &"x".repeat(500)), message("b", "{}"));
    let length = large.len();
    let expected = [format!("TooLarge {{ bytes: {length} }}"), "b {}".to_owned()];
    assert_eq!(frames(200, &[&large, &small]), expected);
    let cut = &small[..small.len() - 1];
    assert_eq!(frames(200, &[cut]), ["Unfinished { name: [], data: [] }"]);
}

proptest! {
    #[test]
    fn any_cut_gives_the_same_frames(
        texts in prop::collection::vec("[a-z{}]{0,60}", 0..5),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut body: Vec<u8> = texts.iter().flat_map(|text| message("m", text)).collect();
        let length = body.len();
        if length > 0 {
            garbled.iter().for_each(|(at, byte)| body[at.index(length)] = *byte);
        }
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).chain([0, length]).collect();
        ends.sort_unstable();
        let pieces: Vec<&[u8]> = ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(frames(120, &pieces), frames(120, &[&body]));
    }
}
