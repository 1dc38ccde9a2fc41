//! Requests and answers of one dialect put into another, and token counts withheld: nothing panics, and cuts do not matter.
//!
//! It does not know what is right. Invariant: the first bytes of the input say the dialects, what was asked for and where
//! to cut.

use tokrate_core::{EventBatch, Tick};
use tokrate_wire::{
    AnswerTranslator, Dialect, Passage, Progress, Shape, UsageFilter, decode_request, translate_request,
};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[from, to, shape, cut], body)) = input.split_first_chunk::<4>() else { return };
    let dialect = |byte: u8| Dialect::ALL[usize::from(byte) % Dialect::ALL.len()];
    let (from, to) = (dialect(from), dialect(to));
    let shape = [Shape::Stream, Shape::Whole, Shape::Array][usize::from(shape) % 3];
    let cut = usize::from(cut).min(body.len());
    let routed = Dialect::of_path(&from.path("model", Shape::Stream)).expect("a path of ours");
    if let Ok(translated) = translate_request(&routed, to, "m", body) {
        let path = Dialect::of_path(&to.path("m", Shape::Stream)).expect("a path of ours");
        assert!(decode_request(&path, &translated.body).is_ok(), "what was translated can be read");
    }
    let lines = translate(from, to, shape, &[body]);
    assert_eq!(translate(from, to, shape, &[&body[..cut], &body[cut..]]), lines);
    let passed = pass(&[body]);
    assert_eq!(pass(&[&body[..cut], &body[cut..]]), passed);
    assert!(passed.len() <= body.len());
}

fn translate(from: Dialect, to: Dialect, shape: Shape, parts: &[&[u8]]) -> (Vec<u8>, Progress) {
    let mut translator = AnswerTranslator::new(from, to, shape, "id", "m", 7, true);
    let (mut out, mut events) = (Vec::new(), EventBatch::new());
    for part in parts {
        translator.push(Tick::ZERO, part, &mut out, &mut events);
    }
    let progress = translator.end(Tick::ZERO, &mut out, &mut events);
    (out, progress)
}

fn pass(parts: &[&[u8]]) -> Vec<u8> {
    let (mut filter, mut sent) = (UsageFilter::new(), Vec::new());
    for part in parts {
        let mut out = Vec::new();
        match filter.push(part, &mut out) {
            Passage::AsItCame => sent.extend_from_slice(part),
            Passage::Rewritten => sent.append(&mut out),
        }
    }
    filter.end(&mut sent);
    sent
}
