//! Answers of one dialect translated into another, for every pair.
//!
//! Invariant: the client's decoder reads what the upstream's would have read, as far as the client's dialect has a
//! place for it, and a broken answer never looks complete.

use crate::dialects::{Decoded, Reply, cut, decoded, dialect, encoded, is_nameless, is_plain, reply};
use proptest::prelude::*;
use tokrate_core::{EventBatch, FailureKind, FinishReason, Tick};
use tokrate_wire::{AnswerTranslator, Dialect, Progress, Shape};

/// The client's bytes for an upstream's, pushed in these parts.
pub fn translated(from: Dialect, to: Dialect, shape: Shape, usage: bool, parts: &[&[u8]]) -> (Vec<u8>, Progress) {
    let mut translator = AnswerTranslator::new(from, to, shape, "answer-1", "alias", 1_784_300_000, usage);
    let (mut out, mut events) = (Vec::new(), EventBatch::new());
    for (n, part) in parts.iter().enumerate() {
        events.clear();
        translator.push(Tick::from_nanos(n as u64), part, &mut out, &mut events);
    }
    events.clear();
    let progress = translator.end(Tick::MAX, &mut out, &mut events);
    assert_eq!(progress, translator.progress());
    (out, progress)
}

/// Checks that blocks of an Anthropic stream are started, filled and stopped one after the other, and counted from 0.
pub fn check_blocks(out: &[u8]) {
    let (mut open, mut next) = (None, 0);
    for line in std::str::from_utf8(out).unwrap().lines() {
        let Some(json) = line.strip_prefix("data: ") else { continue };
        let event: serde_json::Value = serde_json::from_str(json).unwrap();
        let index = event["index"].as_u64();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(next)), "{line}");
                (open, next) = (index, next + 1);
            }
            "content_block_delta" => assert_eq!(open, index, "{line}"),
            "content_block_stop" => {
                assert_eq!(open, index, "{line}");
                open = None;
            }
            "message_delta" | "message_stop" => assert_eq!(open, None, "{line}"),
            _ => {}
        }
    }
}

/// What the client should read of an upstream's answer.
fn expected(from: Dialect, to: Dialect, shape: Shape, usage: bool, reply: &Reply) -> Decoded {
    let asked_for = matches!(to, Dialect::OpenAiChat | Dialect::OpenAiCompletions) && shape != Shape::Whole;
    let (reasoning, answer) = (reply.reasoning.concat(), reply.answer.concat());
    let calls = if is_plain(from) { &[][..] } else { &reply.calls[..] };
    let calls = calls.iter().map(|(name, parts)| (String::new(), name.clone(), parts.concat())).collect();
    let finish = match reply.finish {
        FinishReason::ToolCalls if is_plain(from) => FinishReason::Stop,
        reason => reason,
    };
    // In a dialect with one text, reasoning comes as part of it; into such a dialect it is not translated.
    Decoded {
        reasoning: if is_plain(from) || is_plain(to) { String::new() } else { reasoning.clone() },
        answer: if is_plain(from) { reasoning + &answer } else { answer },
        calls,
        finish: Some(finish),
        usage: Some(reply.usage).filter(|_| usage || !asked_for),
        model: (!is_nameless(to)).then(|| "alias".to_owned()),
        done: 1,
        opaque: false,
        trouble: Vec::new(),
    }
}

/// The same without the identifiers of calls, which some dialects do not have.
fn without_ids(mut decoded: Decoded) -> Decoded {
    decoded.calls.iter_mut().for_each(|call| call.0.clear());
    decoded
}

fn shapes() -> impl Strategy<Value = Shape> {
    prop::sample::select(vec![Shape::Stream, Shape::Whole, Shape::Array])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn an_answer_keeps_its_meaning_in_every_other_dialect(
        from in dialect(),
        shape in shapes(),
        usage: bool,
        reply in reply(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let upstream = encoded(from, Shape::Stream, &reply);
        for to in Dialect::ALL {
            let (out, progress) = translated(from, to, shape, usage, &[&upstream]);
            let context = format!("{from:?} to {to:?}: {}", String::from_utf8_lossy(&out));
            prop_assert_eq!(&translated(from, to, shape, usage, &cut(&upstream, &cuts)).0, &out, "{}", context);
            if is_plain(to) && !is_plain(from) && !reply.calls.is_empty() {
                prop_assert_eq!(progress, Progress::Failed(FailureKind::Untranslatable), "{}", context);
                continue;
            }
            prop_assert_eq!(progress, Progress::Complete, "{}", context);
            if to == Dialect::Anthropic && shape != Shape::Whole {
                check_blocks(&out);
            }
            let read = decoded(to, shape, &out);
            let calls: Vec<&str> = read.calls.iter().map(|call| call.0.as_str()).collect();
            if !matches!(to, Dialect::OllamaChat | Dialect::OllamaGenerate) {
                prop_assert!(calls.iter().all(|id| !id.is_empty()), "{}", context);
                prop_assert!(calls.windows(2).all(|pair| pair[0] != pair[1]), "{}", context);
            }
            prop_assert_eq!(without_ids(read), expected(from, to, shape, usage, &reply), "{}", context);
        }
    }

    #[test]
    fn an_answer_that_breaks_off_never_looks_complete(
        from in dialect(),
        to in dialect(),
        shape in shapes(),
        reply in reply(),
        at in any::<prop::sample::Index>(),
    ) {
        let upstream = encoded(from, Shape::Stream, &reply);
        let (out, progress) = translated(from, to, shape, true, &[&upstream[..at.index(upstream.len())]]);
        let read = decoded(to, shape, &out);
        let context = format!("{from:?} to {to:?}: {}", String::from_utf8_lossy(&out));
        match progress {
            Progress::Complete => prop_assert_eq!((read.done, read.trouble.len()), (1, 0), "{}", context),
            Progress::Failed(_) => {
                prop_assert_eq!((read.done, read.finish, read.trouble.len()), (0, None, 1), "{}", context);
            }
            Progress::Open => prop_assert!(false, "{}", context),
        }
    }

    #[test]
    fn garbled_answers_never_panic_and_any_chunking_gives_the_same_bytes(
        from in dialect(),
        to in dialect(),
        shape in shapes(),
        reply in reply(),
        garbled in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut upstream = encoded(from, Shape::Stream, &reply);
        let length = upstream.len();
        garbled.iter().for_each(|(at, byte)| upstream[at.index(length)] = *byte);
        let whole = translated(from, to, shape, true, &[&upstream]);
        prop_assert_eq!(translated(from, to, shape, true, &cut(&upstream, &cuts)), whole);
    }

    #[test]
    fn garbage_never_panics(from in dialect(), to in dialect(), shape in shapes(), body in any::<Vec<u8>>()) {
        let (_, progress) = translated(from, to, shape, true, &[&body]);
        prop_assert!(progress != Progress::Open);
    }
}
