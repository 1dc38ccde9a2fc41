//! The gateway's own time in a call: `cargo run --release -p tokrate-wire --example gateway_speed`, with a part of
//! their names after it for some cases only.
//!
//! It prints medians over rounds and, from the same run, what merely checking UTF-8 costs. Invariant: every case checks
//! that it found what was to be found.
#![allow(clippy::print_stdout)]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::Instant;
use tokrate_core::{EventBatch, Tick};
use tokrate_wire::{AnswerTranslator, Changes, Dialect, Passage, RequestPeek, Shape, UsageFilter, translate_request};

const ROUNDS: usize = 21;

fn main() {
    println!("median (fastest, slowest) of {ROUNDS} rounds\n");
    let bodies = [
        ("one text of 1 MiB", body(&format!("\"{}\"", "All work and no play. ".repeat(48_000)))),
        ("texts of 1 KiB, a line feed in each", body(&texts(1024, "All work and no play. ", "\\n"))),
        ("code: an escape every 30 bytes", body(&texts(1020, "    let x = f(\\\"a\\\", &b);\\n", ""))),
        ("Cyrillic", body(&texts(1024, "Съешь ещё этих мягких французских булок. ", ""))),
        ("unkind: small numbers", body(&format!("[{}0]", "0,".repeat(500_000)))),
        ("unkind: empty objects with a key", body(&format!("[{}0]", "{\"a\":0},".repeat(125_000)))),
        ("unkind: nothing but escapes", body(&format!("\"{}\"", "\\n".repeat(500_000)))),
        ("a chat of 400 bytes", body("\"Say in one sentence what a degradation curve is good for.\"")),
    ];
    for (name, body) in &bodies {
        report(&format!("UTF-8 only: {name}"), body.len(), || std::str::from_utf8(black_box(body)).map_or(0, str::len));
        report(&format!("peek: {name}"), body.len(), || {
            let peek = RequestPeek::read(black_box(body)).expect("a good body");
            assert_eq!(peek.stream, Some(true));
            peek.model(body).map_or(0, |model| model.len())
        });
    }
    for (name, body) in [&bodies[0], &bodies[7]] {
        report(&format!("peek and splice: {name}"), body.len(), || {
            let peek = RequestPeek::read(black_box(body)).expect("a good body");
            peek.splice(body, &Changes { model: Some("another"), include_usage: true, ..Changes::default() }).len()
        });
    }
    for (name, body) in [&bodies[0], &bodies[7]] {
        let routed = Dialect::OpenAiChat.into();
        report(&format!("translate to anthropic: {name}"), body.len(), || {
            translate_request(&routed, Dialect::Anthropic, "m", black_box(body)).expect("a good body").body.len()
        });
    }
    let event = "data: {\"id\":\"chatcmpl-D0q8CZXN1uEzngZGkU7FuV92lnXWq\",\"object\":\"chat.completion.chunk\",\
                 \"created\":1769092764,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
                 \"system_fingerprint\":\"fp_29330a9688\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" model\"},\
                 \"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";
    for (name, read) in [
        ("1 event a read", event.to_owned()),
        ("64 events a read", event.repeat(64)),
        ("unkind: a mark in each of 64 events", event.replace("model\"}", "[]\"}").repeat(64)),
        ("unkind: a read that ends within an event", event.repeat(64) + &event[..200]),
    ] {
        pass(name, read.as_bytes());
    }
    for to in [Dialect::OpenAiResponses, Dialect::Anthropic, Dialect::Gemini, Dialect::OllamaChat] {
        answer(&format!("tell an event of openai-chat in {}", to.name()), to, event.as_bytes());
    }
}

fn pass(name: &str, read: &[u8]) {
    let mut out = Vec::new();
    report(&format!("usage filter, {name}"), read.len(), || {
        let mut filter = UsageFilter::new();
        out.clear();
        let passage = filter.push(black_box(read), &mut out);
        assert!(filter.withheld() == 0 && (passage == Passage::AsItCame || !out.is_empty()));
        1
    });
}

fn answer(name: &str, to: Dialect, event: &[u8]) {
    let mut translator = AnswerTranslator::new(Dialect::OpenAiChat, to, Shape::Stream, "id", "m", 1_784_300_000, true);
    let (mut out, mut events) = (Vec::new(), EventBatch::new());
    report(name, event.len(), || {
        out.clear();
        events.clear();
        translator.push(Tick::ZERO, black_box(event), &mut out, &mut events);
        out.len()
    });
}

/// A request with a message of that content.
fn body(content: &str) -> Vec<u8> {
    format!(
        "{{\"model\":\"gpt-4o-mini\",\"messages\":[{{\"role\":\"system\",\"content\":\"You are a careful assistant who \
         answers shortly, and who names what it does not know.\"}},{{\"role\":\"user\",\"content\":{content}}}],\
         \"temperature\":0.2,\"max_completion_tokens\":256,\"stream\":true,\"metadata\":{{\"session\":\"5f1c\"}}}}"
    )
    .into_bytes()
}

/// A mebibyte of texts of `length` bytes or so, as the parts of a message.
fn texts(length: usize, sentence: &str, end: &str) -> String {
    let text = sentence.repeat(length / sentence.len());
    let part = format!("{{\"type\":\"text\",\"text\":\"{text}{end}\"}}");
    format!("[{}]", vec![part; (1 << 20) / length].join(","))
}

fn report(case: &str, bytes: usize, mut run: impl FnMut() -> usize) {
    if std::env::args().nth(1).is_some_and(|wanted| !case.contains(&wanted)) {
        return;
    }
    // A round is long enough for the clock.
    let repeats = 1 + (1 << 20) / bytes;
    let mut nanoseconds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..repeats {
                assert!(black_box(run()) > 0, "{case}");
            }
            start.elapsed().as_nanos() as f64 / repeats as f64
        })
        .skip(1)
        .collect();
    nanoseconds.sort_by(f64::total_cmp);
    let median = nanoseconds[ROUNDS / 2];
    println!(
        "{case:<54} {median:>10.0} ns ({:.0}, {:.0}) {:>7.2} GB/s",
        nanoseconds[0],
        nanoseconds[ROUNDS - 1],
        bytes as f64 / median
    );
}
