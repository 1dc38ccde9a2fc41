//! What holds for every dialect alike, checked for all of them.
//!
//! Invariant: what the encoder writes the decoder reads, in any chunking, with and without the fast path; and no bytes
//! break it.

use crate::body::transcript_of;
use proptest::prelude::*;
use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, Tick, Usage};
use tokrate_wire::{Answer, Decoder, Dialect, Encoder, Piece, Shape, ToolCall};

/// What an answer says, whatever the events it says it with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Decoded {
    pub reasoning: String,
    pub answer: String,
    /// Identifier, name and arguments of each call.
    pub calls: Vec<(String, String, String)>,
    pub finish: Option<FinishReason>,
    pub usage: Option<Usage>,
    pub model: Option<String>,
    pub done: usize,
    /// There was output that is no text.
    pub opaque: bool,
    pub trouble: Vec<String>,
}

pub fn decoded(dialect: Dialect, shape: Shape, body: &[u8]) -> Decoded {
    let (mut decoder, mut batch) = (Decoder::new(dialect, shape), EventBatch::new());
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let mut decoded = Decoded::default();
    let mut open = 0;
    for event in batch.events() {
        match event.kind {
            EventKind::Text { channel: Channel::Reasoning, text } => decoded.reasoning.push_str(batch.text(text)),
            EventKind::Text { channel: Channel::Answer, text } => decoded.answer.push_str(batch.text(text)),
            EventKind::Text { channel: Channel::Tool, text } => {
                // Code that the provider runs is no call that was announced.
                decoded.calls.resize_with(decoded.calls.len().max(open + 1), Default::default);
                decoded.calls[open].2.push_str(batch.text(text));
            }
            EventKind::ToolCall { index, id, name } => {
                open = index as usize;
                if decoded.calls.len() <= open {
                    decoded.calls.resize(open + 1, Default::default());
                }
                decoded.calls[open].0.push_str(batch.text(id));
                decoded.calls[open].1.push_str(batch.text(name));
            }
            EventKind::Finish(reason) => decoded.finish = Some(reason),
            EventKind::Usage(usage) => decoded.usage = Some(decoded.usage.unwrap_or_default().updated_by(usage)),
            EventKind::Model(name) => decoded.model = Some(batch.text(name).to_owned()),
            EventKind::Done => decoded.done += 1,
            EventKind::Failed { message, .. } => decoded.trouble.push(batch.text(message).to_owned()),
            EventKind::Anomaly(anomaly) => decoded.trouble.push(anomaly.name().to_owned()),
            EventKind::Opaque => decoded.opaque = true,
            EventKind::Empty
            | EventKind::Items(_)
            | EventKind::Image { .. }
            | EventKind::Sound(_)
            | EventKind::Silence
            | EventKind::Timings(_)
            | EventKind::Unknown { .. } => {}
        }
    }
    decoded
}

/// Dialects whose answers do not name their model.
pub fn is_nameless(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::BedrockConverse | Dialect::CohereChat)
}

/// Dialects with one channel and no tools.
pub fn is_plain(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::OpenAiCompletions | Dialect::LlamaCompletion)
}

/// An answer in the order in which models write them: thoughts, text, calls.
#[derive(Clone, Debug)]
pub struct Reply {
    pub reasoning: Vec<String>,
    pub answer: Vec<String>,
    pub calls: Vec<(String, Vec<String>)>,
    pub finish: FinishReason,
    pub usage: Usage,
}

pub fn reply() -> impl Strategy<Value = Reply> {
    let text = || prop_oneof![3 => "[ a-z]{1,8}", 1 => any::<String>()];
    let texts = || prop::collection::vec(text(), 0..8);
    let arguments =
        prop::sample::select(vec![vec!["{\"a\":", "\"b\\n\"}"], vec!["{}"], vec!["{\"x\":[1,{\"y\":\"é\"}]}"]]);
    let call = ("[a-z_]{1,8}", arguments)
        .prop_map(|(name, parts)| (name, parts.into_iter().map(str::to_owned).collect::<Vec<String>>()));
    let finish = prop::sample::select(vec![FinishReason::Stop, FinishReason::Length]);
    (texts(), texts(), prop::collection::vec(call, 0..3), finish, 1_u64..=50_000_000, 1_u64..=50_000_000).prop_map(
        |(reasoning, answer, calls, finish, input, output)| {
            let finish = if calls.is_empty() { finish } else { FinishReason::ToolCalls };
            let usage = Usage { input: Some(input), output: Some(output), ..Usage::default() };
            Reply { reasoning, answer, calls, finish, usage }
        },
    )
}

pub fn encoded(dialect: Dialect, shape: Shape, reply: &Reply) -> Vec<u8> {
    let mut encoder = Encoder::new(dialect, shape, "id-1", "m/1", 1_784_300_000);
    let mut body = Vec::new();
    let mut write = |piece: Piece<'_>| encoder.encode_event(&piece, &mut body);
    write(Piece::Role);
    for (channel, texts) in [(Channel::Reasoning, &reply.reasoning), (Channel::Answer, &reply.answer)] {
        texts.iter().for_each(|text| write(Piece::Text { channel, text }));
    }
    let plain = is_plain(dialect);
    for (index, (name, parts)) in reply.calls.iter().enumerate().filter(|_| !plain) {
        let id = format!("call_{index}");
        write(Piece::ToolCall { index: index as u32, id: &id, name });
        parts.iter().for_each(|text| write(Piece::Text { channel: Channel::Tool, text }));
    }
    let finish = if plain && reply.finish == FinishReason::ToolCalls { FinishReason::Stop } else { reply.finish };
    write(Piece::Finish(finish));
    write(Piece::Usage(reply.usage));
    write(Piece::Done);
    body
}

fn expected(dialect: Dialect, reply: &Reply) -> Decoded {
    let (reasoning, answer) = (reply.reasoning.concat(), reply.answer.concat());
    let mut decoded = Decoded {
        finish: Some(reply.finish),
        usage: Some(reply.usage),
        model: Some("m/1".to_owned()),
        done: 1,
        ..Decoded::default()
    };
    if is_plain(dialect) {
        decoded.answer = reasoning + &answer;
        decoded.finish =
            decoded.finish.map(|reason| if reason == FinishReason::ToolCalls { FinishReason::Stop } else { reason });
    } else {
        (decoded.reasoning, decoded.answer) = (reasoning, answer);
        let call = |(index, (name, parts)): (usize, &(String, Vec<String>))| {
            (format!("call_{index}"), name.clone(), parts.concat())
        };
        decoded.calls = reply.calls.iter().enumerate().map(call).collect();
    }
    decoded
}

/// Ollama does not name its calls, Bedrock and Cohere not their model.
fn without_ids(dialect: Dialect, mut decoded: Decoded) -> Decoded {
    if is_nameless(dialect) {
        decoded.model = None;
    }
    if dialect == Dialect::OllamaChat || dialect == Dialect::OllamaGenerate {
        decoded.calls.iter_mut().for_each(|call| call.0.clear());
    }
    decoded
}

pub fn cut<'b>(body: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let inner = cuts.iter().map(|cut| cut.index(body.len() + 1));
    let mut ends: Vec<usize> = inner.chain([0, body.len()]).collect();
    ends.sort_unstable();
    ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect()
}

pub fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(Dialect::ALL.to_vec())
}

fn shape() -> impl Strategy<Value = Shape> {
    prop::sample::select(vec![Shape::Stream, Shape::Whole, Shape::Array])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn a_stream_decodes_to_what_was_encoded(
        dialect in dialect(),
        array in any::<bool>(),
        reply in reply(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let shape = if array { Shape::Array } else { Shape::Stream };
        let body = encoded(dialect, shape, &reply);
        let expected = without_ids(dialect, expected(dialect, &reply));
        prop_assert_eq!(without_ids(dialect, decoded(dialect, shape, &body)), expected, "{:?} {}", dialect, String::from_utf8_lossy(&body));
        let whole = transcript_of(Decoder::new(dialect, shape), &[&body]);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape), &cut(&body, &cuts)), &whole, "{:?}", dialect);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape).without_template(), &[&body]), &whole, "{:?}", dialect);
    }

    #[test]
    fn a_whole_answer_decodes_to_what_was_encoded(dialect in dialect(), reply in reply()) {
        let expected = without_ids(dialect, expected(dialect, &reply));
        let calls: Vec<(String, &str, String)> = reply
            .calls
            .iter()
            .enumerate()
            .filter(|_| !is_plain(dialect))
            .map(|(index, (name, parts))| (format!("call_{index}"), name.as_str(), parts.concat()))
            .collect();
        let tools: Vec<ToolCall<'_>> =
            calls.iter().map(|(id, name, arguments)| ToolCall { id, name, arguments }).collect();
        let (reasoning, answer) = (reply.reasoning.concat(), reply.answer.concat());
        let whole = Answer {
            reasoning: &reasoning,
            answer: &answer,
            tools: &tools,
            finish: expected.finish.unwrap(),
            usage: Some(reply.usage),
            timings: None,
        };
        let body = Encoder::new(dialect, Shape::Whole, "id-1", "m/1", 7).encode_whole(&whole);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "{:?}", String::from_utf8_lossy(&body));
        for shape in [Shape::Whole, Shape::Stream] {
            prop_assert_eq!(without_ids(dialect, decoded(dialect, shape, &body)), expected.clone(), "{:?} {}", dialect, String::from_utf8_lossy(&body));
        }
    }

    #[test]
    fn garbled_streams_decode_to_the_same_on_both_paths(
        dialect in dialect(),
        shape in shape(),
        reply in reply(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut body = encoded(dialect, if shape == Shape::Whole { Shape::Stream } else { shape }, &reply);
        let length = body.len();
        garbled.iter().for_each(|(at, byte)| body[at.index(length)] = *byte);
        let whole = transcript_of(Decoder::new(dialect, shape), &[&body]);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape).without_template(), &[&body]), &whole, "{:?}", dialect);
        prop_assert_eq!(&transcript_of(Decoder::new(dialect, shape), &cut(&body, &cuts)), &whole, "{:?}", dialect);
    }

    #[test]
    fn any_bytes_in_any_chunking_decode_to_the_same(
        dialect in dialect(),
        shape in shape(),
        body in any::<Vec<u8>>(),
        first in prop::sample::select(vec!["", "{", "[", "[{", "data: {", "event: x\ndata: ", "\0\0\0\u{10}"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let body = [first.as_bytes(), &body].concat();
        prop_assert_eq!(transcript_of(Decoder::new(dialect, shape), &cut(&body, &cuts)), transcript_of(Decoder::new(dialect, shape), &[&body]));
    }
}
