//! The native dialect: requests both ways, and its encoder's output decoded again.

use super::request::{decode, encode};
use crate::{Answer, Decoder, Dialect, Encoder, Piece, Shape};
use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, ServerTimings, Span, Tick, Usage};

#[test]
fn a_request_survives_the_way_there_and_back() {
    let body = br#"{"model":"m","prompt":"a\nb","stream":true,"n_predict":7,"ignore_eos":true,"temperature":0.5,
        "top_p":0.9,"stop":["x"],"seed":3,"cache_prompt":false}"#;
    let read = decode(body).unwrap();
    assert_eq!(read.max_output_tokens, Some(7));
    assert_eq!(read.extra, [("cache_prompt".to_owned(), "false".to_owned())]);
    assert_eq!(decode(&encode(&read)).unwrap(), read);
    let unlimited = decode(br#"{"prompt":"a","n_predict":-1}"#).unwrap();
    assert_eq!((unlimited.max_output_tokens, unlimited.model.as_str()), (None, ""));
    for broken in [&b"{}"[..], b"[]", br#"{"prompt":7}"#, br#"{"prompt":"a","n_predict":"7"}"#, b"{"] {
        assert!(decode(broken).is_err(), "{}", String::from_utf8_lossy(broken));
    }
}

#[test]
fn the_last_event_holds_reason_counts_and_times() {
    let usage = Usage { input: Some(3), output: Some(2), ..Usage::default() };
    let timings = ServerTimings { decode: Some(Span::from_millis(4)), ..ServerTimings::default() };
    let mut encoder = Encoder::new(Dialect::LlamaCompletion, Shape::Stream, "id", "m", 0);
    let mut body = Vec::new();
    let pieces = [
        Piece::Role,
        Piece::Text { channel: Channel::Answer, text: "a" },
        Piece::Finish(FinishReason::Length),
        Piece::Usage(usage),
        Piece::Timings(timings),
        Piece::Done,
    ];
    pieces.iter().for_each(|piece| encoder.encode_event(piece, &mut body));
    let answer = Answer {
        reasoning: "",
        answer: "a",
        tools: &[],
        finish: FinishReason::Length,
        usage: Some(usage),
        timings: Some(timings),
    };
    for (shape, body) in [(Shape::Stream, body), (Shape::Whole, encoder.encode_whole(&answer))] {
        let (mut decoder, mut batch) = (Decoder::new(Dialect::LlamaCompletion, shape), EventBatch::new());
        decoder.push(Tick::ZERO, &body, &mut batch);
        decoder.end(Tick::ZERO, &mut batch);
        let events: Vec<EventKind> = batch.events().iter().map(|event| event.kind).collect();
        assert!(
            events.contains(&EventKind::Finish(FinishReason::Length)) && events.contains(&EventKind::Usage(usage)),
            "{events:?}"
        );
        assert_eq!((events.last(), batch.timings(0)), (Some(&EventKind::Done), timings));
    }
}
