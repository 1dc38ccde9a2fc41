//! AWS's event streams: any chunking of the same bytes gives the same frames, and no length makes the framer hold more than has come.
//!
//! It does not know what a message means. Invariant: the first bytes of the input say where the rest is cut.

use tokrate_wire::event_stream::EventStreamFramer;
use tokrate_wire::frame::Frame;

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[limit, first, second], body)) = input.split_first_chunk::<3>() else { return };
    let limit = usize::from(limit) + 1;
    let whole = frames(&[body], limit);
    let cut = |at: u8| usize::from(at).min(body.len());
    let (early, late) = (cut(first.min(second)), cut(first.max(second)));
    assert_eq!(frames(&[&body[..early], &body[early..late], &body[late..]], limit), whole);
    let pieces: Vec<&[u8]> = body.chunks(1 + body.len() / 64).collect();
    assert_eq!(frames(&pieces, limit), whole);
}

fn frames(pushes: &[&[u8]], limit: usize) -> Vec<String> {
    let mut framer = EventStreamFramer::new(limit);
    let mut seen = Vec::new();
    let mut note = |frame: Frame<'_>| seen.push(format!("{frame:?}"));
    for bytes in pushes {
        framer.push(bytes, &mut note);
    }
    framer.end(&mut note);
    seen
}
