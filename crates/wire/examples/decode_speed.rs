//! How fast answers are decoded and written: `cargo run --release -p tokrate-wire --example decode_speed`, with a
//! part of their names after it for some cases only.
//!
//! It prints medians over rounds and, from the same run, what merely finding the line ends costs.
//! Invariant: every case checks that it decoded all of its text.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use memchr::memchr_iter;
use std::hint::black_box;
use std::time::Instant;
use tokrate_core::{Channel, EventBatch, EventKind, Tick};
use tokrate_wire::frame::SseFramer;
use tokrate_wire::{Decoder, Dialect, Encoder, Piece, Shape};

const EVENTS: usize = 20_000;
const ROUNDS: usize = 21;
const WORDS: [&str; 8] = [" the", " model", " answers", ",", " quickly", " and", " well", "."];

fn main() {
    println!("{EVENTS} events per round, median (fastest, slowest) of {ROUNDS} rounds\n");
    let alike = chunks(|_| String::new(), "", |word| word.to_owned());
    let same = |_: usize| String::new();
    report("memchr newline floor", &alike, |body| {
        body.iter().map(|chunk| memchr_iter(b'\n', chunk).count()).sum::<usize>() / 2
    });
    report("framing only, 1 event per push", &alike, frame);
    let whole = [alike.concat()];
    let bundled: Vec<Vec<u8>> = alike.chunks(64).map(<[Vec<u8>]>::concat).collect();
    report("alike, 1 event per push", &alike, |body| decode(body, true));
    report("alike, 64 events per push", &bundled, |body| decode(body, true));
    report("alike, all in one push", &whole, |body| decode(body, true));
    let halves: Vec<Vec<u8>> = alike.iter().flat_map(|chunk| [chunk[..150].to_vec(), chunk[150..].to_vec()]).collect();
    report("alike, 2 pushes per event", &halves, |body| decode(body, true));
    let padding = |n: usize| format!(r#","obfuscation":"{}""#, &"Zq3xY7wK1p"[..1 + n % 10]);
    let padded = chunks(padding, "", |word| word.to_owned());
    report("padding varies (obfuscation)", &padded, |body| decode(body, true));
    let usage =
        |n: usize| format!(r#","usage":{{"prompt_tokens":1024,"total_tokens":{},"completion_tokens":{n}}}"#, 1024 + n);
    let counted = chunks(usage, "", |word| word.to_owned());
    report("usage in every chunk", &counted, |body| decode(body, true));
    let escaped = chunks(same, "", |word| format!("\\n{word}\\\"\\u00e9\\ud83d\\ude00"));
    report("escapes in every text", &escaped, |body| decode(body, true));
    let long = chunks(same, "", |word| word.repeat(50));
    report("texts of 200 bytes", &long, |body| decode(body, true));
    let timed = chunks(same, "yes", |word| word.to_owned());
    report("field before the text varies (full parse)", &timed, |body| decode(body, true));
    report("template disabled (full parse)", &alike, |body| decode(body, false));
    println!();
    for (dialect, event) in TYPICAL {
        let events: Vec<Vec<u8>> = (0..EVENTS).map(|n| event(WORDS[n % 8], n).into_bytes()).collect();
        report(&format!("{}, typical event", dialect.name()), &events, |body| decode_as(dialect, body, true));
        report(&format!("{}, full parse", dialect.name()), &events, |body| decode_as(dialect, body, false));
    }
    println!();
    for dialect in Dialect::ALL {
        report(&format!("{}, encode a text event", dialect.name()), &alike, |body| encode_as(dialect, body.len()));
    }
}

fn encode_as(dialect: Dialect, events: usize) -> usize {
    let mut encoder = Encoder::new(dialect, Shape::Stream, "chatcmpl-1", "model", 1_769_092_764);
    let mut out = Vec::new();
    for n in 0..events {
        out.clear();
        let piece = Piece::Text { channel: Channel::Answer, text: WORDS[n % 8] };
        encoder.encode_event(&piece, &mut out);
        black_box(&out);
    }
    events
}

/// Events in the manner of vLLM and OpenAI, about 290 bytes each.
fn chunks(suffix: impl Fn(usize) -> String, varying: &str, text: impl Fn(&str) -> String) -> Vec<Vec<u8>> {
    let event = |n: usize| {
        let created = if varying.is_empty() { 1_769_092_764 } else { 1_769_092_764 + n };
        format!(
            "data: {{\"id\":\"chatcmpl-D0q8CZXN1uEzngZGkU7FuV92lnXWq\",\"object\":\"chat.completion.chunk\",\
             \"created\":{created},\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
             \"system_fingerprint\":\"fp_29330a9688\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},\
             \"logprobs\":null,\"finish_reason\":null}}]{}}}\n\n",
            text(WORDS[n % 8]),
            suffix(n),
        )
    };
    (0..EVENTS).map(|n| event(n).into_bytes()).collect()
}

/// An event with a text; `n` counts the events.
type Event = fn(text: &str, n: usize) -> String;

/// The event that a stream mostly consists of, as the dialect's best-known server writes it.
const TYPICAL: [(Dialect, Event); 8] = [
    (Dialect::OpenAiChat, openai_chat),
    (Dialect::OpenAiCompletions, openai_completions),
    (Dialect::OpenAiResponses, openai_responses),
    (Dialect::Anthropic, anthropic),
    (Dialect::Gemini, gemini),
    (Dialect::OllamaChat, ollama_chat),
    (Dialect::OllamaGenerate, ollama_generate),
    (Dialect::LlamaCompletion, llama_completion),
];

fn openai_chat(text: &str, n: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-D0q8CZXN1uEzngZGkU7FuV92lnXWq\",\"object\":\"chat.completion.chunk\",\
         \"created\":1769092764,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_29330a9688\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
         \"logprobs\":null,\"finish_reason\":null}}],\"obfuscation\":\"{}\"}}\n\n",
        &"Zq3xY7wK1p"[..1 + n % 10]
    )
}

fn openai_completions(text: &str, _n: usize) -> String {
    format!(
        "data: {{\"id\":\"cmpl-4b1d\",\"object\":\"text_completion\",\"created\":1769092764,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":null,\
         \"stop_reason\":null}}],\"usage\":null}}\n\n"
    )
}

fn openai_responses(text: &str, n: usize) -> String {
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\
         \"sequence_number\":{n},\"item_id\":\"msg_68af2e6d\",\"output_index\":0,\"content_index\":0,\
         \"delta\":\"{text}\",\"logprobs\":[],\"obfuscation\":\"{}\"}}\n\n",
        &"Zq3xY7wK1p"[..1 + n % 10]
    )
}

fn anthropic(text: &str, n: usize) -> String {
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
         \"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}{}}}\n\n",
        &"          "[..n % 10]
    )
}

fn gemini(text: &str, n: usize) -> String {
    format!(
        "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{text}\"}}],\"role\": \"model\"}},\
         \"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 1024,\"candidatesTokenCount\": {n},\
         \"totalTokenCount\": {},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 1024}}],\
         \"thoughtsTokenCount\": 25}},\"modelVersion\": \"gemini-2.5-flash\",\
         \"responseId\": \"qL4faYWCMeyQkdUP0Kru6Ac\"}}\r\n\r\n",
        n + 1024 + 25
    )
}

fn ollama_chat(text: &str, n: usize) -> String {
    format!(
        "{{\"model\":\"llama3.2:1b\",\"created_at\":\"2026-03-01T10:00:00.{n:09}Z\",\
         \"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"done\":false}}\n"
    )
}

fn ollama_generate(text: &str, n: usize) -> String {
    format!(
        "{{\"model\":\"llama3.2:1b\",\"created_at\":\"2026-03-01T10:00:00.{n:09}Z\",\
         \"response\":\"{text}\",\"done\":false}}\n"
    )
}

fn llama_completion(text: &str, n: usize) -> String {
    format!(
        "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[{}],\"stop\":false,\"id_slot\":-1,\
         \"tokens_predicted\":{n},\"tokens_evaluated\":12}}\n\n",
        n % 8 + 262
    )
}

fn decode(pushes: &[Vec<u8>], template: bool) -> usize {
    decode_as(Dialect::OpenAiChat, pushes, template)
}

fn decode_as(dialect: Dialect, pushes: &[Vec<u8>], template: bool) -> usize {
    let mut decoder = Decoder::new(dialect, Shape::Stream);
    if !template {
        decoder = decoder.without_template();
    }
    let mut batch = EventBatch::new();
    let mut texts = 0;
    for (n, bytes) in pushes.iter().enumerate() {
        batch.clear();
        decoder.push(Tick::from_nanos(n as u64), bytes, &mut batch);
        texts += batch.events().iter().filter(|event| matches!(event.kind, EventKind::Text { .. })).count();
        black_box(&batch);
    }
    texts
}

fn frame(pushes: &[Vec<u8>]) -> usize {
    let mut framer = SseFramer::new(8 << 20);
    let mut frames = 0;
    for bytes in pushes {
        framer.push(bytes, &mut |frame| {
            black_box(frame);
            frames += 1;
        });
    }
    frames
}

fn report(case: &str, pushes: &[Vec<u8>], mut run: impl FnMut(&[Vec<u8>]) -> usize) {
    if std::env::args().nth(1).is_some_and(|wanted| !case.contains(&wanted)) {
        return;
    }
    let mut nanoseconds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let events = run(black_box(pushes));
            assert_eq!(events, EVENTS, "{case}");
            start.elapsed().as_nanos() as f64 / EVENTS as f64
        })
        .skip(1)
        .collect();
    nanoseconds.sort_by(f64::total_cmp);
    let median = nanoseconds[ROUNDS / 2];
    println!(
        "{case:<44} {median:>7.1} ns/event ({:.1}, {:.1}) {:>7.2} M events/s",
        nanoseconds[0],
        nanoseconds[ROUNDS - 1],
        1e3 / median
    );
}
