//! Output that is no text: pictures, sound, calls that only one dialect has.
//!
//! Invariant: a decoder reports it, and a translator that cannot carry it fails in place of leaving it out.

use crate::body::transcript_of;
use crate::dialects::decoded;
use crate::translate_answers::translated;
use tokrate_core::FailureKind;
use tokrate_wire::{Decoder, Dialect, Progress, Shape};

/// Bodies whose only output is no text, and those of the same kind without any.
#[rustfmt::skip]
const BODIES: &[(Dialect, Shape, &str, bool)] = &[
    (Dialect::OpenAiChat, Shape::Whole, r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"a","data":"AAAA","transcript":"Hi"}},"finish_reason":"stop"}]}"#, true),
    (Dialect::OpenAiChat, Shape::Whole, r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},"finish_reason":"stop"}]}"#, true),
    (Dialect::OpenAiChat, Shape::Whole, r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"","audio":null,"images":[]},"finish_reason":"stop"}]}"#, false),
    (Dialect::OpenAiChat, Shape::Whole, r#"{"choices":[{"index":0,"message":{"content":""},"finish_reason":"stop"},{"index":1,"message":{"audio":{"data":"AAAA"}}}]}"#, false),
    (Dialect::OpenAiChat, Shape::Stream, "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"audio\":{\"data\":\"AAAA\"}}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", true),
    (Dialect::Gemini, Shape::Whole, r#"{"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}],"role":"model"},"finishReason":"STOP","index":0}]}"#, true),
    (Dialect::Gemini, Shape::Stream, "data: {\"candidates\":[{\"content\":{\"parts\":[{\"inline_data\":{\"data\":\"AAAA\"}}]},\"finishReason\":\"STOP\"}]}\n\n", true),
    (Dialect::Gemini, Shape::Whole, r#"{"candidates":[{"content":{"parts":[{"thoughtSignature":"AAAA"}]},"finishReason":"STOP"}]}"#, false),
    (Dialect::OpenAiResponses, Shape::Whole, r#"{"object":"response","status":"completed","output":[{"type":"image_generation_call","id":"i","status":"completed","result":"AAAA"}]}"#, true),
    (Dialect::OpenAiResponses, Shape::Whole, r#"{"object":"response","status":"completed","output":[{"type":"image_generation_call","id":"i","status":"failed","result":null}]}"#, false),
    (Dialect::OpenAiResponses, Shape::Whole, r#"{"object":"response","status":"completed","output":[{"type":"web_search_call","id":"w","status":"completed"}]}"#, false),
    (Dialect::OpenAiResponses, Shape::Whole, r#"{"object":"response","status":"completed","output":[{"type":"computer_call","call_id":"c","action":{"type":"screenshot"}}]}"#, true),
    (Dialect::OpenAiResponses, Shape::Stream, "event: response.image_generation_call.partial_image\ndata: {\"type\":\"response.image_generation_call.partial_image\",\"output_index\":0,\"partial_image_b64\":\"AAAA\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"status\":\"completed\",\"output\":[{\"type\":\"image_generation_call\",\"id\":\"i\",\"result\":\"AAAA\"}]}}\n\n", true),
];

#[test]
fn output_that_is_no_text_is_reported_once_and_is_no_text() {
    for (dialect, shape, body, is_there) in BODIES {
        let lines = transcript_of(Decoder::new(*dialect, *shape), &[body.as_bytes()]);
        let lines = lines.iter().filter(|line| *line == "opaque").count();
        assert_eq!(lines, usize::from(*is_there), "{body}: {lines:?}");
        let decoded = decoded(*dialect, *shape, body.as_bytes());
        assert_eq!((decoded.answer.as_str(), decoded.done), ("", 1), "{body}");
        assert!(decoded.finish.is_some() && decoded.calls.is_empty(), "{body}: {decoded:?}");
    }
}

#[test]
fn a_picture_is_not_left_out_of_a_translation_without_a_word() {
    for (from, shape, body, is_there) in BODIES {
        for to in [Dialect::OpenAiChat, Dialect::Anthropic, Dialect::Gemini].into_iter().filter(|to| to != from) {
            let (out, progress) = translated(*from, to, *shape, false, &[body.as_bytes()]);
            let out = String::from_utf8_lossy(&out);
            if *is_there {
                assert_eq!(progress, Progress::Failed(FailureKind::Untranslatable), "{body} for {to:?}: {out}");
                assert_eq!(out.matches("a picture, sound or the like").count(), 1, "{body} for {to:?}: {out}");
            } else {
                assert_eq!(progress, Progress::Complete, "{body} for {to:?}: {out}");
            }
        }
    }
}
