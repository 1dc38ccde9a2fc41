//! Transcripts, and the forms that ask for them: any pieces give the same text, and a form is read back.
//!
//! Invariant: the first byte of the input says whether the answer is a stream.

use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_wire::transcription::{
    FORM_CONTENT_TYPE, TranscriptForm, TranscriptionDecoder, TranscriptionRequest, form_fields,
};

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let [stream, body @ ..] = input else { return };
    let stream = stream & 1 == 1;
    assert_eq!(decode(stream, body, 3), decode(stream, body, body.len().max(1)));
    let _ = form_fields(FORM_CONTENT_TYPE, body);
    let request = TranscriptionRequest {
        model: "m",
        file: body,
        file_name: "f.wav",
        form: TranscriptForm::Json,
        stream,
        extra: &[],
    };
    let form = request.encode();
    let fields = form_fields(FORM_CONTENT_TYPE, &form);
    assert!(fields.is_some_and(|fields| fields.last().is_some_and(|field| field.value == body)));
}

/// The text, and everything else in order.
fn decode(stream: bool, body: &[u8], piece: usize) -> (String, Vec<String>) {
    let (mut decoder, mut batch) = (TranscriptionDecoder::new(stream), EventBatch::new());
    body.chunks(piece).for_each(|piece| decoder.push(Tick::ZERO, piece, &mut batch));
    decoder.end(Tick::ZERO, true, &mut batch);
    let (mut text, mut others) = (String::new(), Vec::new());
    for event in batch.events() {
        match event.kind {
            EventKind::Text { text: range, .. } => text.push_str(batch.text(range)),
            EventKind::Failed { message, .. } => others.push(batch.text(message).to_owned()),
            EventKind::Model(name) => others.push(batch.text(name).to_owned()),
            other => others.push(format!("{other:?}")),
        }
    }
    (text, others)
}
