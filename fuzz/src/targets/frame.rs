//! Server-sent events: any chunking of the same bytes gives the same frames.
//!
//! It does not know what an event means. Invariant: the first bytes of the input say where the rest is cut.

use tokrate_wire::frame::{Frame, SseFramer};

#[derive(PartialEq, Debug)]
enum Seen {
    Event(Vec<u8>, Vec<u8>),
    Unfinished(Vec<u8>, Vec<u8>),
    TooLarge(u64),
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[limit, first, second], body)) = input.split_first_chunk::<3>() else { return };
    let limit = usize::from(limit) + 1;
    let whole = frames(&[body], limit);
    let cut = |at: u8| usize::from(at).min(body.len());
    let (early, late) = (cut(first.min(second)), cut(first.max(second)));
    assert_eq!(frames(&[&body[..early], &body[early..late], &body[late..]], limit), whole);
    // Byte by byte, and longer ones in pieces, so that an input costs no more than it has to.
    let pieces: Vec<&[u8]> = body.chunks(1 + body.len() / 64).collect();
    assert_eq!(frames(&pieces, limit), whole);
}

fn frames(pushes: &[&[u8]], limit: usize) -> Vec<Seen> {
    let mut framer = SseFramer::new(limit);
    let mut seen = Vec::new();
    let note = |frame: Frame<'_>| match frame {
        Frame::Event { name, data } => Seen::Event(name.to_vec(), data.to_vec()),
        Frame::Unfinished { name, data } => Seen::Unfinished(name.to_vec(), data.to_vec()),
        Frame::TooLarge { bytes } => Seen::TooLarge(bytes),
        Frame::Corrupt => unreachable!("lines have no checksum"),
    };
    for bytes in pushes {
        framer.push(bytes, &mut |frame| seen.push(note(frame)));
    }
    framer.end(&mut |frame| seen.push(note(frame)));
    seen
}
