//! Forms there and back, both kinds of answers in any pieces, and transcripts of silence.

use super::*;
use proptest::prelude::{any, prop, prop_assert_eq, proptest};

const AT: Tick = Tick::from_nanos(7);

/// The text, and everything else in order.
fn decode(stream: bool, body: &[u8], piece: usize) -> (String, Vec<String>) {
    let (mut decoder, mut batch) = (TranscriptionDecoder::new(stream), EventBatch::new());
    body.chunks(piece).for_each(|piece| decoder.push(AT, piece, &mut batch));
    decoder.end(AT, true, &mut batch);
    let (mut text, mut others) = (String::new(), Vec::new());
    for event in batch.events() {
        match event.kind {
            EventKind::Text { text: range, .. } => text.push_str(batch.text(range)),
            EventKind::Failed { kind, message, .. } => others.push(format!("{kind:?}: {}", batch.text(message))),
            EventKind::Usage(usage) => others.push(format!("{:?} {:?}", usage.input, usage.output)),
            EventKind::Model(name) => others.push(format!("model {}", batch.text(name))),
            other => others.push(format!("{other:?}")),
        }
    }
    (text, others)
}

#[test]
fn a_whole_answer_is_its_text_and_silence_is_an_answer() {
    let verbose = r#"{"task":"transcribe","language":"english","duration":1.5,"text":" One two.","segments":[{"id":0,"text":" One two."}],"usage":{"type":"duration","seconds":2}}"#;
    assert_eq!(
        decode(false, verbose.as_bytes(), 9),
        (" One two.".to_owned(), vec!["Silence".to_owned(), "Done".to_owned()])
    );
    let counted = r#"{"text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":45,"total_tokens":59}}"#;
    assert_eq!(decode(false, counted.as_bytes(), 9).1, ["Some(14) Some(45)", "Silence", "Done"]);
    assert_eq!(decode(false, b"{\"text\": \"\"}", 9), (String::new(), vec!["Silence".to_owned(), "Done".to_owned()]));
    assert_eq!(decode(false, b"{\"error\": \"no audio\"}", 9).1, ["ErrorInStream: \"no audio\""]);
    assert_eq!(decode(false, b"<html>", 9).1, ["Anomaly(Unreadable)"]);
    assert_eq!(decode(false, b"{}", 9).1, ["Anomaly(Unreadable)"]);
    assert_eq!(decode(false, b"", 9), (String::new(), Vec::new()), "nothing came");
}

#[test]
fn streams_of_openai_and_of_vllm_are_read_and_the_last_event_repeats_nothing() {
    let open_ai = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"One\"}\n\ndata: {\"type\":\"transcript.text.delta\",\"delta\":\" two\"}\n\n\
        data: {\"type\":\"transcript.text.done\",\"text\":\"One two\",\"usage\":{\"input_tokens\":5,\"output_tokens\":2}}\n\ndata: [DONE]\n\n";
    let vllm = "data: {\"id\":\"trsc-1\",\"object\":\"transcription.chunk\",\"model\":\"w\",\"choices\":[{\"delta\":{\"content\":\"One\"}}]}\n\n\
        data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\" two\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for piece in [1, 7, 10_000] {
        let (text, others) = decode(true, open_ai.as_bytes(), piece);
        assert_eq!((text.as_str(), others.join(", ").as_str()), ("One two", "Some(5) Some(2), Silence, Done"));
        let (text, others) = decode(true, vllm.as_bytes(), piece);
        assert_eq!((text.as_str(), others.join(", ").as_str()), ("One two", "model w, Silence, Done"));
    }
    let only_last = "data: {\"type\":\"transcript.text.done\",\"text\":\"One\"}\n\n";
    assert_eq!(decode(true, only_last.as_bytes(), 5).0, "One");
    let segments = "data: {\"text\": \"One\"}\n\ndata: {\"text\": \" two\"}\n\n";
    assert_eq!(decode(true, segments.as_bytes(), 5), ("One two".to_owned(), Vec::new()), "no end came");
    let mut decoder = TranscriptionDecoder::new(true);
    decoder.set_content_type("application/json");
    assert!(decoder.is_whole(), "the server knows no streams");
}

#[test]
fn a_form_holds_the_file_and_its_fields_and_is_read_back() {
    let extra = [
        ("language".to_owned(), "\"en\"".to_owned()),
        ("temperature".to_owned(), "0".to_owned()),
        ("model".to_owned(), "\"b\"".to_owned()),
    ];
    let file = b"RIFF\r\n--tokrate\r\n\r\n\0\xFF";
    let request = TranscriptionRequest {
        model: "a",
        file,
        file_name: "on\"e.wav",
        form: TranscriptForm::VerboseJson,
        stream: true,
        extra: &extra,
    };
    let body = request.encode();
    let fields = form_fields(FORM_CONTENT_TYPE, &body).expect("a form");
    let shown: Vec<(&str, &[u8])> = fields.iter().map(|field| (field.name, field.value)).collect();
    let expected: [(&str, &[u8]); 6] = [
        ("response_format", b"verbose_json"),
        ("stream", b"true"),
        ("language", b"en"),
        ("temperature", b"0"),
        ("model", b"b"),
        ("file", file),
    ];
    assert_eq!(shown, expected);
    assert!(String::from_utf8_lossy(&body).contains("filename=\"on%22e.wav\""));
    assert_eq!(form_fields("application/json", &body), None);
    assert_eq!(form_fields("multipart/form-data; boundary=other", &body), None);
    assert_eq!(form_fields(FORM_CONTENT_TYPE, &body[..body.len() - 60]), None, "cut off");
    let plain = b"--x\r\nContent-Disposition: form-data; filename=\"f\"; name=\"file\"\r\n\r\n1\r\n--x--";
    let fields = form_fields("multipart/form-data; boundary=\"x\"", plain).expect("a form");
    assert_eq!(fields, [FormField { name: "file", value: b"1" }]);
}

proptest! {
    #[test]
    fn no_body_breaks_it_and_any_pieces_give_the_same(
        stream in any::<bool>(), body in "(data: |\\{\"text\":\"|\"\\}|\n\n|\\[DONE\\]|[a-z{}\":, ]){0,20}", piece in 1_usize..40,
    ) {
        prop_assert_eq!(decode(stream, body.as_bytes(), body.len().max(1)), decode(stream, body.as_bytes(), piece));
    }

    #[test]
    fn no_bytes_break_the_reader_of_forms(noise in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..300) {
        let request = TranscriptionRequest { model: "a", file: &noise, file_name: "f", form: TranscriptForm::Json, stream: false, extra: &[] };
        let mut body = request.encode();
        let fields = form_fields(FORM_CONTENT_TYPE, &body).expect("a form");
        prop_assert_eq!(fields.last().map(|field| field.value), Some(noise.as_slice()));
        body.truncate(at);
        let _ = form_fields(FORM_CONTENT_TYPE, &body);
        let _ = form_fields(FORM_CONTENT_TYPE, &noise);
    }
}
