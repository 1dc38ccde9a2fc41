//! Properties over arbitrary texts, shapes and chunkings.
//!
//! Invariant: what the encoder writes the decoder reads, with and without the template.

use crate::body::{decoder, transcript_of};
use proptest::prelude::*;
use tokrate_core::{Channel, FinishReason, Usage};
use tokrate_wire::{Answer, Dialect, Encoder, Piece, Shape};

#[derive(Clone, Debug)]
enum Owned {
    Role,
    Text(Channel, String),
    Finish(FinishReason),
    Usage(Usage),
    Done,
    Failed(String),
}

fn channel() -> impl Strategy<Value = Channel> {
    prop::sample::select(vec![Channel::Reasoning, Channel::Answer, Channel::Tool])
}

fn finish() -> impl Strategy<Value = FinishReason> {
    use FinishReason::*;
    prop::sample::select(vec![Stop, Length, ToolCalls, ContentFilter, Other])
}

fn usage() -> impl Strategy<Value = Usage> {
    // Parts within their wholes, so that no anomaly is due.
    (1_u64..=50_000_000, 1_u64..=50_000_000, any::<bool>(), any::<bool>()).prop_map(
        |(input, output, some_cached, some_reasoning)| Usage {
            input: Some(input),
            output: Some(output),
            reasoning: some_reasoning.then_some(output / 2),
            cached_input: some_cached.then_some(input / 3),
            cache_write_input: None,
        },
    )
}

fn pieces() -> impl Strategy<Value = Vec<Owned>> {
    let piece = prop_oneof![
        1 => Just(Owned::Role),
        8 => (channel(), any::<String>()).prop_map(|(channel, text)| Owned::Text(channel, text)),
        4 => "[a-zé\n\"\\\\ ]{0,40}".prop_map(|text| Owned::Text(Channel::Answer, text)),
        1 => usage().prop_map(Owned::Usage),
        1 => "[ -~]{0,40}".prop_map(Owned::Failed),
    ];
    (prop::collection::vec(piece, 0..20), finish()).prop_map(|(mut pieces, finish)| {
        pieces.extend([Owned::Finish(finish), Owned::Usage(Usage { input: Some(3), ..Usage::default() }), Owned::Done]);
        pieces
    })
}

fn encoded(pieces: &[Owned], id: &str, model: &str) -> (Vec<u8>, Vec<String>) {
    let mut encoder = Encoder::new(Dialect::OpenAiChat, Shape::Stream, id, model, 1_784_300_000);
    let mut body = Vec::new();
    let mut decoded = Vec::new();
    let mut named = model.is_empty();
    let mut called = false;
    for piece in pieces {
        // Errors and the end mark name no model.
        if !named && !matches!(piece, Owned::Done | Owned::Failed(_)) {
            decoded.push(format!("model {model:?}"));
            named = true;
        }
        let (piece, line) = match piece {
            Owned::Role => (Piece::Role, "empty".to_owned()),
            Owned::Text(channel, text) => {
                let name = ["reasoning", "answer", "tool"][*channel as usize];
                let first = *channel == Channel::Tool && !called;
                if first {
                    called = true;
                    decoded.push("tool call 0 \"\" \"\"".to_owned());
                }
                let line = if text.is_empty() { "empty".to_owned() } else { format!("{name} {text:?}") };
                encoder.encode_event(&Piece::Text { channel: *channel, text }, &mut body);
                if !text.is_empty() || !first {
                    decoded.push(line);
                }
                continue;
            }
            Owned::Finish(reason) => (Piece::Finish(*reason), format!("finish {}", reason.name())),
            Owned::Usage(usage) => {
                let count = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
                let parts = [usage.input, usage.output, usage.reasoning, usage.cached_input].map(count);
                let [input, output, reasoning, cached] = parts;
                let line = format!("usage input {input} output {output} reasoning {reasoning} cached {cached}");
                (Piece::Usage(*usage), line)
            }
            Owned::Done => (Piece::Done, "done".to_owned()),
            Owned::Failed(message) => {
                let expected_message = message.split_whitespace().collect::<Vec<_>>().join(" ");
                (Piece::Failed { message }, format!("failed server_error {expected_message:?}"))
            }
        };
        encoder.encode_event(&piece, &mut body);
        decoded.push(line);
    }
    (body, decoded)
}

fn cut<'b>(body: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let inner = cuts.iter().map(|cut| cut.index(body.len() + 1));
    let mut ends: Vec<usize> = inner.chain([0, body.len()]).collect();
    ends.sort_unstable();
    ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

/// JSON strings in the escaping styles of different servers.
fn written(text: &str, style: usize) -> String {
    let json = serde_json::to_string(text).unwrap();
    let inside = &json[1..json.len() - 1];
    match style {
        0 => inside.to_owned(),
        1 => inside.replace('/', "\\/"),
        _ => {
            let mut ascii = String::new();
            for character in inside.chars() {
                if character.is_ascii() {
                    ascii.push(character);
                } else {
                    let mut units = [0; 2];
                    ascii.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
                }
            }
            ascii
        }
    }
}

/// Chunks of a few shapes, most of them alike, so that the template is hit, missed and relearned.
fn chunk() -> impl Strategy<Value = String> {
    let text = prop_oneof![Just(String::new()), "[a-z ]{1,6}", any::<String>()];
    let broken = prop::sample::select(vec!["\\ud83d", "\\", "\"", "\",\"content\":\"", "\\u00", "\u{1}"]);
    let content = prop_oneof![
        12 => (text, 0_usize..3).prop_map(|(text, style)| written(&text, style)),
        1 => broken.prop_map(str::to_owned),
    ];
    (content, 0_usize..14, 0_u32..40).prop_map(|(text, shape, n)| {
        let plain = |field: &str, after: &str| {
            format!(
                "{{\"id\":\"1\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"{field}\":\"{text}\"}}{after}"
            )
        };
        match shape {
            0..4 => plain("content", ",\"finish_reason\":null}]}"),
            4 => plain("reasoning", "}]}"),
            5 => plain("content", &format!("}}],\"obfuscation\":\"{}\"}}", "x\\\"".repeat(n as usize % 4))),
            6 => plain("content", &format!("}}],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":{n}}}}}")),
            7 => plain("content", &format!("}}],\"timings\":{{\"a\":[{n},\"{text}\"]}},\"model\":\"m{}\"}}", n % 2)),
            8 => format!("{{\"choices\":[{{\"delta\":{{\"reasoning\":\"{text}\",\"reasoning_content\":\"x\"}}}}]}}"),
            9 => format!("{{\"choices\":[{{\"delta\":{{\"content\":\"a\",\"content\":\"{text}\"}}}}]}}"),
            10 => format!(
                "{{\"usage\":{{\"completion_tokens\":{n}}},\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}"
            ),
            11 => format!("{{\"choices\":[{{\"index\":{},\"delta\":{{\"content\":\"{text}\"}}}}]}}", n % 2),
            12 => plain("content", &format!(",\"finish_reason\":{}}}]}}", ["null", "\"stop\"", "7"][n as usize % 3])),
            _ => plain("content", "},\"usage\":null"),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_encoded_is_decoded_in_any_chunking(
        pieces in pieces(),
        names in (any::<String>(), any::<String>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (body, expected) = encoded(&pieces, &names.0, &names.1);
        prop_assert_eq!(&transcript_of(decoder(Shape::Stream), &[&body]), &expected);
        prop_assert_eq!(&transcript_of(decoder(Shape::Stream), &cut(&body, &cuts)), &expected);
        prop_assert_eq!(&transcript_of(decoder(Shape::Stream).without_template(), &cut(&body, &cuts)), &expected);
    }

    #[test]
    fn a_whole_answer_is_decoded(reasoning in any::<String>(), answer in any::<String>(), finish in finish(), usage in prop::option::of(usage())) {
        let encoder = Encoder::new(Dialect::OpenAiChat, Shape::Whole, "i", "m", 7);
        let whole = Answer { reasoning: &reasoning, answer: &answer, tools: &[], finish, usage, timings: None };
        let body = encoder.encode_whole(&whole);
        let reply = transcript_of(decoder(Shape::Whole), &[&body]);
        let mut expected = vec!["model \"m\"".to_owned()];
        if !reasoning.is_empty() {
            expected.push(format!("reasoning {reasoning:?}"));
        }
        if !answer.is_empty() {
            expected.push(format!("answer {answer:?}"));
        }
        expected.push(format!("finish {}", finish.name()));
        prop_assert!(reply.starts_with(&expected), "{:?}", reply);
        prop_assert_eq!(reply.len(), expected.len() + 1 + usize::from(usage.is_some()));
        prop_assert_eq!(reply.last().unwrap(), "done");
    }

    #[test]
    fn the_template_is_invisible(
        chunks in prop::collection::vec(chunk(), 0..24),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut body: Vec<u8> = chunks.iter().flat_map(|chunk| format!("data: {chunk}\n\n").into_bytes()).collect();
        let length = body.len();
        for (at, byte) in garbled {
            if length > 0 {
                body[at.index(length)] = byte;
            }
        }
        let expected = transcript_of(decoder(Shape::Stream).without_template(), &[&body]);
        prop_assert_eq!(&transcript_of(decoder(Shape::Stream), &[&body]), &expected);
        prop_assert_eq!(&transcript_of(decoder(Shape::Stream), &cut(&body, &cuts)), &expected);
    }

    #[test]
    fn any_bytes_in_any_chunking_decode_to_the_same(body in any::<Vec<u8>>(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6), whole in any::<bool>()) {
        let shape = if whole { Shape::Whole } else { Shape::Stream };
        prop_assert_eq!(transcript_of(decoder(shape), &cut(&body, &cuts)), transcript_of(decoder(shape), &[&body]));
    }
}
