//! Answers in every dialect: no input panics, and neither the chunking nor the templates change the events.
//!
//! It does not know what is right. Invariant: the first bytes of the input say the dialect, what was asked for and where
//! to cut.

use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_wire::{Decoder, Dialect, Shape, decode_error_response};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[dialect, shape, cut], body)) = input.split_first_chunk::<3>() else { return };
    let dialect = Dialect::ALL[usize::from(dialect) % Dialect::ALL.len()];
    let shape = [Shape::Stream, Shape::Whole, Shape::Array][usize::from(shape) % 3];
    let cut = usize::from(cut).min(body.len());
    let decoder = || Decoder::new(dialect, shape);
    let lines = decode(decoder(), &[body]);
    assert_eq!(decode(decoder().without_template(), &[body]), lines);
    assert_eq!(decode(decoder(), &[&body[..cut], &body[cut..]]), lines);
    let known: Vec<String> = decode(decoder().with_unknown_fields(), &[body]);
    assert_eq!(known.into_iter().filter(|line| !line.starts_with("unknown")).collect::<Vec<_>>(), lines);
    // The same events twice in a row meet the templates that the first time has taught.
    let again = decode(decoder(), &[body, b"\n\n", body]);
    assert_eq!(decode(decoder().without_template(), &[body, b"\n\n", body]), again);
    let refused = decode_error_response(429, &[("retry-after", &String::from_utf8_lossy(&body[..cut]))], body, None);
    assert!(refused.message.len() <= 500);
}

/// Every event with its text; ticks are left out because they depend on the chunking.
fn decode(mut decoder: Decoder, pushes: &[&[u8]]) -> Vec<String> {
    let mut batch = EventBatch::new();
    for bytes in pushes {
        decoder.push(Tick::ZERO, bytes, &mut batch);
    }
    decoder.end(Tick::ZERO, &mut batch);
    let lines = batch.events().iter().map(|event| match event.kind {
        EventKind::Text { channel, text } => format!("{channel:?} {:?}", batch.text(text)),
        EventKind::Model(name) => format!("model {:?}", batch.text(name)),
        EventKind::ToolCall { index, id, name } => format!("call {index} {:?} {:?}", batch.text(id), batch.text(name)),
        EventKind::Timings(index) => format!("timings {:?}", batch.timings(index)),
        EventKind::Unknown { name, json } => format!("unknown {:?} {:?}", batch.text(name), batch.text(json)),
        EventKind::Failed { kind, message, retry_after } => {
            format!("failed {kind:?} {:?} {retry_after:?}", batch.text(message))
        }
        other => format!("{other:?}"),
    });
    lines.collect()
}
