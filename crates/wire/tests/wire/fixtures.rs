//! Bodies written by this project in the manner of the engines and providers, and their transcripts as snapshots that
//! were read.
//!
//! Invariant: every fixture passes every general check.

use crate::body::{check_everywhere, check_everywhere_in, decoder, transcript_of};
use std::path::{Path, PathBuf};
use tokrate_wire::{Decoder, Dialect, Shape, decode_error_response};

fn fixtures(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder);
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files = paths.into_iter().filter(|path| path.is_file());
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .filter(|(name, _)| name.ends_with(".sse") || name.ends_with(".json"))
        .collect()
}

#[test]
fn each_fixture_decodes_to_its_snapshot() {
    let fixtures = fixtures("");
    assert!(fixtures.len() >= 12, "{} fixtures", fixtures.len());
    for (name, body) in fixtures {
        let shape = if name.ends_with(".json") { Shape::Whole } else { Shape::Stream };
        let lines = check_everywhere(&body, shape);
        insta::assert_snapshot!(name.clone(), lines.join("\n"));
        let other = if shape == Shape::Whole { Shape::Stream } else { Shape::Whole };
        assert_eq!(
            transcript_of(decoder(other), &[&body]),
            lines,
            "{name}: what was asked for does not matter, only what came"
        );
    }
}

/// Folders of bodies in other dialects of server-sent events.
const OTHERS: [(Dialect, &str); 4] = [
    (Dialect::Anthropic, "anthropic"),
    (Dialect::OpenAiResponses, "openai-responses"),
    (Dialect::OpenAiCompletions, "openai-completions"),
    (Dialect::LlamaCompletion, "llama-completion"),
];

#[test]
fn each_fixture_of_the_other_dialects_of_events_decodes_to_its_snapshot() {
    for (dialect, folder) in OTHERS {
        let fixtures = fixtures(folder);
        assert!(fixtures.len() >= 3, "{} fixtures", fixtures.len());
        for (name, body) in fixtures {
            let shape = if name.ends_with(".json") { Shape::Whole } else { Shape::Stream };
            let lines = check_everywhere_in(dialect, &body, shape);
            insta::assert_snapshot!(format!("{folder}-{name}"), lines.join("\n"));
            let other = if shape == Shape::Whole { Shape::Stream } else { Shape::Whole };
            assert_eq!(transcript_of(Decoder::new(dialect, other), &[&body]), lines, "{name}: asked for otherwise");
            if shape == Shape::Stream {
                let text = String::from_utf8(body).unwrap().replace('\n', "\r\n");
                assert_eq!(
                    transcript_of(Decoder::new(dialect, shape), &[text.as_bytes()]),
                    lines,
                    "{name}: other line ends"
                );
            }
        }
    }
}

#[test]
fn recorded_answers_of_llama_server_in_its_other_forms_decode_to_their_snapshots() {
    let mut looked_at = 0;
    for (name, body) in fixtures("llama-server") {
        let dialect = match name.split('-').next() {
            Some("anthropic") => Dialect::Anthropic,
            Some("responses") => Dialect::OpenAiResponses,
            Some("native") => Dialect::LlamaCompletion,
            _ if name.contains("text-completion") => Dialect::OpenAiCompletions,
            _ => continue,
        };
        let shape = if name.ends_with(".sse") { Shape::Stream } else { Shape::Whole };
        insta::assert_snapshot!(format!("llama-server-{name}"), check_everywhere_in(dialect, &body, shape).join("\n"));
        looked_at += 1;
    }
    assert!(looked_at >= 10, "{looked_at} answers");
}

#[test]
fn other_line_ends_decode_to_the_same() {
    let mut streams = fixtures("");
    streams.retain(|(name, _)| name.ends_with(".sse"));
    assert!(streams.len() >= 10, "{} streams", streams.len());
    for (name, body) in streams {
        let text = String::from_utf8(body).unwrap();
        let lines = transcript_of(decoder(Shape::Stream), &[text.as_bytes()]);
        for end in ["\r\n", "\r"] {
            let other = text.replace('\n', end);
            assert_eq!(transcript_of(decoder(Shape::Stream), &[other.as_bytes()]), lines, "{name} {end:?}");
            let bytes: Vec<&[u8]> = other.as_bytes().chunks(1).collect();
            assert_eq!(transcript_of(decoder(Shape::Stream), &bytes), lines, "{name} {end:?}");
        }
        let marked = format!("\u{feff}{text}");
        assert_eq!(transcript_of(decoder(Shape::Stream), &[marked.as_bytes()]), lines, "{name} with a byte order mark");
    }
}

#[test]
fn recorded_answers_of_llama_server_decode_to_their_snapshots() {
    let answers = fixtures("llama-server");
    assert!(answers.len() >= 22, "{} answers", answers.len());
    for (name, body) in answers {
        let shape = if name.ends_with(".sse") { Shape::Stream } else { Shape::Whole };
        if name.starts_with("stream") && !name.contains("text-completion") || name.starts_with("answer") {
            insta::assert_snapshot!(format!("llama-server-{name}"), check_everywhere(&body, shape).join("\n"));
        } else {
            check_everywhere(&body, shape);
        }
    }
}

#[test]
fn recorded_refusals_of_llama_server_are_understood() {
    let statuses =
        [("context", 400), ("no-messages", 400), ("not-found", 404), ("not-json", 500), ("unauthorized", 401)];
    let mut understood = Vec::new();
    for (name, body) in fixtures("llama-server") {
        if let Some((_, status)) = statuses.iter().find(|(part, _)| name == format!("error-{part}.json")) {
            let refusal = decode_error_response(*status, &[], &body, None);
            understood.push(format!("{status} {}: {}", refusal.kind.name(), refusal.message));
        }
    }
    insta::assert_snapshot!(understood.join("\n"));
}
