//! Events that are recognised together with their line ends, and never cut: they must be those that cutting and parsing find, whatever the
//! dialect, the line ends, the limit and the bytes that are wrong.
//!
//! Invariant: the decoder without templates, one that has every event cut and parsed, is right.

use crate::body::transcript_of;
use proptest::prelude::*;
use std::path::Path;
use tokrate_wire::{Decoder, Dialect, Shape};

/// How an event stands in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Style {
    Plain,
    WithoutSpace,
    CarriageReturns,
    OldLineEnds,
    Named,
    NamedBehind,
    AfterComment,
    WithNumber,
    TwoLines,
    Lines,
    SpacedLines,
}

const STYLES: [Style; 11] = [
    Style::Plain,
    Style::WithoutSpace,
    Style::CarriageReturns,
    Style::OldLineEnds,
    Style::Named,
    Style::NamedBehind,
    Style::AfterComment,
    Style::WithNumber,
    Style::TwoLines,
    Style::Lines,
    Style::SpacedLines,
];

const DIALECTS: [(Dialect, &str, &str); 8] = [
    (
        Dialect::OpenAiChat,
        "",
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"TEXT"},"finish_reason":null}],"obfuscation":PADDING}"#,
    ),
    (
        Dialect::OpenAiChat,
        "",
        r#"{"choices":[{"delta":{"content":"TEXT"}}],"usage":{"prompt_tokens":3,"completion_tokens":4},"timings":PADDING}"#,
    ),
    (
        Dialect::OpenAiCompletions,
        "",
        r#"{"id":"c","choices":[{"index":0,"text":"TEXT","logprobs":null}],"usage":null}"#,
    ),
    (
        Dialect::OpenAiResponses,
        "response.output_text.delta",
        r#"{"type":"response.output_text.delta","sequence_number":4,"item_id":"i","output_index":0,"content_index":0,"delta":"TEXT","logprobs":[],"obfuscation":PADDING}"#,
    ),
    (
        Dialect::Anthropic,
        "content_block_delta",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"TEXT"}   }"#,
    ),
    (
        Dialect::Gemini,
        "",
        r#"{"candidates":[{"content":{"parts":[{"text":"TEXT"}],"role":"model"}}],"usageMetadata":{"promptTokenCount":3,"totalTokenCount":5},"modelVersion":"m"}"#,
    ),
    (
        Dialect::OllamaChat,
        "",
        r#"{"model":"m","created_at":PADDING,"message":{"role":"assistant","content":"TEXT"},"done":false}"#,
    ),
    (
        Dialect::LlamaCompletion,
        "",
        r#"{"index":0,"content":"TEXT","tokens":[7],"stop":false,"id_slot":0,"tokens_evaluated":3}"#,
    ),
];

fn framed(style: Style, name: &str, json: &str) -> String {
    match style {
        Style::Plain => format!("data: {json}\n\n"),
        Style::WithoutSpace => format!("data:{json}\n\n"),
        Style::CarriageReturns => format!("data: {json}\r\n\r\n"),
        Style::OldLineEnds => format!("data: {json}\r\r"),
        Style::Named => format!("event: {name}\ndata: {json}\n\n"),
        Style::NamedBehind => format!("data: {json}\nevent: {name}\n\n"),
        Style::AfterComment => format!(": ping\n\ndata: {json}\n\n"),
        Style::WithNumber => format!("id: 7\ndata: {json}\n\n"),
        Style::TwoLines => format!("data: {}\n\n", json.replacen(",\"", ",\ndata: \"", 1)),
        Style::Lines => format!("{json}\n"),
        Style::SpacedLines => format!(" {json} \r\n"),
    }
}

/// An event as it stands in the stream. Most are alike, so that one teaches what the next is recognised by.
fn event(dialect: usize, style: Style) -> impl Strategy<Value = String> {
    let text = prop_oneof![
        6 => "[a-z ]{1,9}",
        1 => Just("\\n\\\"\\u00e9\\ud83d\\ude00".to_owned()),
        1 => Just("é漢😀".to_owned()),
        1 => prop::sample::select(vec!["", "\\", "\"", "\\\n", "\n", "\r\n\r\n", "\\ud83d", "\u{1}"]).prop_map(str::to_owned),
    ];
    let padding = prop_oneof![
        6 => "\"[a-zA-Z0-9]{1,12}\"",
        1 => prop::sample::select(vec!["7", "[1,\n2]", "{\"a\":\r1}", "null", "\"\\\"\"", "\"", "tru", "\"\n\""]).prop_map(str::to_owned),
    ];
    let other = prop::sample::select(STYLES.to_vec());
    let style = prop_oneof![9 => Just(style), 1 => other];
    (text, padding, style).prop_map(move |(text, padding, style)| {
        let (_, name, json) = DIALECTS[dialect];
        framed(style, name, &json.replace("TEXT", &text).replace("PADDING", &padding))
    })
}

fn stream() -> impl Strategy<Value = (usize, Vec<String>)> {
    (0..DIALECTS.len(), prop::sample::select(STYLES.to_vec()))
        .prop_flat_map(|(dialect, style)| (Just(dialect), prop::collection::vec(event(dialect, style), 1..16)))
}

/// The inputs that are kept for the fuzz target of decoders: a line each, escaped as in a Rust byte string.
fn kept_inputs() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/data");
    let files = ["seeds", "corpus"].map(|kind| std::fs::read_to_string(folder.join(kind).join("decoder.txt")).unwrap());
    files.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#')).map(unescaped).collect()
}

fn unescaped(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line.as_bytes());
    while let [first, after @ ..] = rest {
        let (byte, behind) = match (first, after) {
            (b'\\', [b'x', hex @ ..]) => {
                let digits = std::str::from_utf8(&hex[..2]).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), &hex[2..])
            }
            (b'\\', [escape, behind @ ..]) => match escape {
                b'n' => (b'\n', behind),
                b'r' => (b'\r', behind),
                b't' => (b'\t', behind),
                b'0' => (0, behind),
                other => (*other, behind),
            },
            (byte, behind) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}

#[test]
fn what_a_kept_input_teaches_recognises_nothing_wrong_in_what_is_like_it() {
    const WRONG: [u8; 9] = [0, 0xFF, b'"', b'\\', b'\n', b'\r', b'}', b'x', b'7'];
    let inputs = kept_inputs();
    assert!(inputs.len() > 100, "{} are kept", inputs.len());
    for input in inputs {
        let Some((&[dialect, shape, _], body)) = input.split_first_chunk::<3>() else { continue };
        let dialect = Dialect::ALL[usize::from(dialect) % Dialect::ALL.len()];
        let shape = [Shape::Stream, Shape::Whole, Shape::Array][usize::from(shape) % 3];
        let twice = [body, b"\n\n", body, b"\n\n"].concat();
        let decoder = || Decoder::new(dialect, shape);
        assert_eq!(transcript_of(decoder(), &[&twice]), transcript_of(decoder().without_template(), &[&twice]));
        // Some forty bytes of the second time, each in turn.
        for at in (body.len()..twice.len()).step_by(1 + body.len() / 40) {
            let mut garbled = twice.clone();
            garbled[at] = WRONG[at % WRONG.len()];
            let lines = transcript_of(decoder().without_template(), &[&garbled]);
            assert_eq!(transcript_of(decoder(), &[&garbled]), lines, "{}", garbled.escape_ascii());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1200))]

    #[test]
    fn an_event_that_is_recognised_in_its_stream_is_the_one_that_cutting_and_parsing_find(
        (dialect, events) in stream(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\n\r\"\\{}: d\x00\xff\xc3".to_vec())), 0..3),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        limit in prop_oneof![3 => Just(8 << 20), 1 => 60_usize..260],
    ) {
        let mut body = events.concat().into_bytes();
        for (at, byte) in garbled {
            let at = at.index(body.len());
            body[at] = byte;
        }
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).chain([0, body.len()]).collect();
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        let decoder = || Decoder::new(DIALECTS[dialect].0, Shape::Stream).with_max_event_bytes(limit);
        let expected = transcript_of(decoder().without_template(), &[&body]);
        prop_assert_eq!(&transcript_of(decoder(), &[&body]), &expected);
        prop_assert_eq!(&transcript_of(decoder(), &parts), &expected);
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        prop_assert_eq!(&transcript_of(decoder(), &bytes), &expected);
    }
}
