//! Frames of WebSockets and the events of a realtime session: any chunking of the same bytes gives the same messages.
//!
//! Invariant: the first bytes of the input say the limit and where the rest is cut; what is held never exceeds the limit.

use tokrate_wire::realtime::RealtimeEvent;
use tokrate_wire::websocket::{FrameReader, Message};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[limit, first, second], body)) = input.split_first_chunk::<3>() else { return };
    let limit = usize::from(limit) * 4;
    let whole = messages(&[body], limit);
    let cut = |at: u8| usize::from(at).min(body.len());
    let (early, late) = (cut(first.min(second)), cut(first.max(second)));
    assert_eq!(messages(&[&body[..early], &body[early..late], &body[late..]], limit), whole);
    let pieces: Vec<&[u8]> = body.chunks(1 + body.len() / 64).collect();
    assert_eq!(messages(&pieces, limit), whole);
    // The payload alone, as a document.
    let _ = (RealtimeEvent::of_client(body), RealtimeEvent::of_server(body));
}

fn messages(pushes: &[&[u8]], limit: usize) -> (Vec<String>, bool) {
    let (mut reader, mut seen) = (FrameReader::new(limit), Vec::new());
    for bytes in pushes {
        reader.push(bytes, |message| {
            if let Message::Text(text) = message {
                let _ = RealtimeEvent::of_server(text);
            }
            seen.push(format!("{message:?}"));
        });
        assert!(reader.held_bytes() <= limit);
    }
    (seen, reader.is_at_boundary())
}
