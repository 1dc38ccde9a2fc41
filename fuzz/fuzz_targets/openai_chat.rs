//! The OpenAI chat dialect: no input panics, and neither the chunking nor the template changes what is told.
//!
//! It refuses to know what is right. Invariant: the first bytes of the input say what was asked for and where to cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tokrate_core::{EventBatch, Tick, What};
use tokrate_wire::{Decoder, Dialect, Shape, decode_request, encode_request, refusal};

const DIALECT: Dialect = Dialect::OpenAiChat;

fuzz_target!(|input: &[u8]| {
    let Some((&[shape, cut], body)) = input.split_first_chunk::<2>() else { return };
    let shape = if shape % 4 == 0 { Shape::Whole } else { Shape::Stream };
    let cut = usize::from(cut).min(body.len());
    let told = tell(Decoder::new(DIALECT, shape), &[body]);
    assert_eq!(tell(Decoder::new(DIALECT, shape).without_template(), &[body]), told);
    assert_eq!(tell(Decoder::new(DIALECT, shape), &[&body[..cut], &body[cut..]]), told);
    // The same events twice in a row meet the template that the first time has taught.
    let again = tell(Decoder::new(DIALECT, shape), &[body, b"\n\n", body]);
    assert_eq!(tell(Decoder::new(DIALECT, shape).without_template(), &[body, b"\n\n", body]), again);
    if let Ok(request) = decode_request(&DIALECT.into(), body) {
        let written = encode_request(DIALECT, &request);
        assert!(decode_request(&DIALECT.into(), &written).is_ok(), "what is written can be read");
    }
    let refused = refusal(429, &[("retry-after", &String::from_utf8_lossy(&body[..cut]))], body);
    assert!(refused.message.len() <= 500);
});

/// Every event with its text; ticks are left out because they depend on the chunking.
fn tell(mut decoder: Decoder, pushes: &[&[u8]]) -> Vec<String> {
    let mut batch = EventBatch::new();
    for bytes in pushes {
        decoder.push(Tick::ZERO, bytes, &mut batch);
    }
    decoder.end(Tick::ZERO, &mut batch);
    let told = batch.events().iter().map(|event| match event.what {
        What::Text { channel, text } => format!("{channel:?} {:?}", batch.text(text)),
        What::Model(name) => format!("model {:?}", batch.text(name)),
        What::Failed { kind, message, retry_after } => {
            format!("failed {kind:?} {:?} {retry_after:?}", batch.text(message))
        }
        other => format!("{other:?}"),
    });
    told.collect()
}
