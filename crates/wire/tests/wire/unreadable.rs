//! Garbage put between the events of recorded streams, for every pair of dialects.
//!
//! Invariant: an answer in which something could not be read never looks complete, unless the client gets all that it
//! would have got without it.

use crate::dialects::decoded;
use crate::translate_answers::translated;
use crate::translate_recorded::{answers, fixture};
use std::path::Path;
use tokrate_core::FailureKind;
use tokrate_wire::{Dialect, Progress, Shape};

/// What no dialect sends, as the data of an event.
const GARBAGE: [&str; 5] = ["garbage", "{\"choices\":[{\"del", "\"text\"", "7", "<html>502</html>"];
/// Events of one stream after which garbage is put.
const MAX_PLACES: usize = 12;

/// Where events end: at the end of a line, or at an empty line.
fn ends(body: &[u8], is_lines: bool) -> Vec<usize> {
    let ends = (1..=body.len()).filter(|&end| {
        let before = &body[..end];
        if is_lines { before.ends_with(b"\n") } else { before.ends_with(b"\n\n") || before.ends_with(b"\r\n\r\n") }
    });
    let ends: Vec<usize> = ends.collect();
    // Those at the beginning and at the end, where it matters most.
    let from = ends.len().saturating_sub(MAX_PLACES / 2);
    let mut places: Vec<usize> = ends.iter().take(MAX_PLACES / 2).chain(&ends[from..]).copied().collect();
    places.dedup();
    places
}

#[test]
fn an_answer_with_garbage_in_it_never_ends_as_complete_unless_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (mut failed, mut whole) = (0, 0);
    for (path, from, body) in answers(&folder, fixture) {
        let is_lines = matches!(from, Dialect::OllamaChat | Dialect::OllamaGenerate);
        if path.extension().is_some_and(|end| end == "json") || body.trim_ascii_start().starts_with(b"[") {
            continue;
        }
        for to in Dialect::ALL.into_iter().filter(|to| *to != from) {
            let (clean, progress) = translated(from, to, Shape::Stream, true, &[&body]);
            if progress != Progress::Complete {
                continue;
            }
            for end in ends(&body, is_lines) {
                for garbage in GARBAGE {
                    let line = if is_lines { format!("{garbage}\n") } else { format!("data: {garbage}\n\n") };
                    let parts = [&body[..end], line.as_bytes(), &body[end..]];
                    let (out, progress) = translated(from, to, Shape::Stream, true, &parts);
                    let context = format!("{} to {to:?}, {garbage} at {end}", path.display());
                    match progress {
                        // It came after the end.
                        Progress::Complete => {
                            assert!(out == clean, "{context}: {}", String::from_utf8_lossy(&out));
                            whole += 1;
                        }
                        progress => {
                            assert_eq!(progress, Progress::Failed(FailureKind::NotJson), "{context}");
                            let read = decoded(to, Shape::Stream, &out);
                            assert_eq!((read.done, read.trouble.len()), (0, 1), "{context}");
                            failed += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(failed > 1_000 && whole > 100, "{failed} failed, {whole} were whole");
}

#[test]
fn an_end_mark_alone_is_no_answer() {
    for body in ["data: [DONE]\n\n", "no event\n\ndata: [DONE]\n\n", "data: garbage\n\ndata: [DONE]\n\n"] {
        for to in Dialect::ALL.into_iter().filter(|to| *to != Dialect::OpenAiChat) {
            for shape in [Shape::Stream, Shape::Whole] {
                let (out, progress) = translated(Dialect::OpenAiChat, to, shape, true, &[body.as_bytes()]);
                assert!(matches!(progress, Progress::Failed(_)), "{body} to {to:?}: {}", String::from_utf8_lossy(&out));
            }
        }
    }
}
