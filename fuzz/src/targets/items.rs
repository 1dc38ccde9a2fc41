//! Answers with vectors, scores or images: any chunking gives the same events, and fewer items than texts are a failure.
//!
//! Invariant: the first byte of the input says the form, the second how many texts were sent.

use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_wire::{ItemDecoder, ItemForm};

const FORMS: [ItemForm; 6] = [
    ItemForm::OpenAiEmbeddings,
    ItemForm::OllamaEmbeddings,
    ItemForm::CohereEmbeddings,
    ItemForm::Rerank,
    ItemForm::CohereRerank,
    ItemForm::Images,
];

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let [form, asked, body @ ..] = input else { return };
    let (form, asked) = (FORMS[usize::from(*form) % FORMS.len()], u32::from(*asked));
    let whole = decode(form, asked, &[body]);
    let pieces: Vec<&[u8]> = body.chunks(3).collect();
    assert_eq!(whole, decode(form, asked, &pieces));
    let has_failed = whole.iter().any(|kind| matches!(kind, EventKind::Failed { .. }));
    let items = whole.iter().find_map(|kind| if let EventKind::Items(items) = kind { Some(*items) } else { None });
    let is_short = items.is_some_and(|items| items < asked);
    // A stream of images may also say itself that it failed.
    assert!(has_failed == is_short || has_failed && form == ItemForm::Images);
}

fn decode(form: ItemForm, asked: u32, pieces: &[&[u8]]) -> Vec<EventKind> {
    let (mut decoder, mut batch) = (ItemDecoder::new(form, asked), EventBatch::new());
    pieces.iter().for_each(|piece| decoder.push(Tick::ZERO, piece, &mut batch));
    decoder.end(Tick::ZERO, &mut batch);
    batch.events().iter().map(|event| event.kind).collect()
}
