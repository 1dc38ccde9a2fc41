//! Builds the response from the result of a merge.
//!
//! Invariant: the text of a response is the merged file, or the original with a header that says so.

use crate::config::OnRefuse;
use crate::merge_result::{MergeResult, MergedBy};
use crate::reply::Reply;
use crate::request::{ApplyRequest, ResponseFormat};
use crate::work::{Work, tagged_text};
use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokrate_apply::{Checks, Edit, How, Merged, Refused};
use tokrate_core::{Channel, FinishReason};
use tokrate_wire::{Answer, Dialect, Encoder, Piece, Shape};

/// Number and time of a response (seconds since 1970), for its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// Number of the request.
    pub number: u64,
    /// When.
    pub seconds: u64,
}

/// Header: `deterministic`, `model`, `no_change` or `refused`.
pub(crate) const APPLY: &str = "x-tokrate-apply";
/// Header: the code of a refusal.
const CODE: &str = "x-tokrate-apply-code";
/// Most text in one event of a stream (bytes).
const DELTA_BYTES: usize = 16 * 1024;

/// The structured response, with camel-case and snake-case names.
#[derive(Serialize)]
struct Structured<'a> {
    apply: &'static str,
    #[serde(rename = "mergedCode")]
    merged_camel: &'a RawValue,
    merged_code: &'a RawValue,
    udiff: String,
    edits: &'a [Edit],
    how: Option<How>,
    checks: Option<Checks>,
    refused: Option<&'a Refused>,
    usage: Counts,
}

#[derive(Serialize)]
struct Counts {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// The answer to a request.
pub(crate) fn answer(request: &ApplyRequest, settled: &MergeResult, stamp: Stamp, mut work: Work) -> Reply {
    let (text, word) = match settled {
        MergeResult::Merged { merged, .. } => (merged.text.as_str(), settled.word()),
        MergeResult::Refused { .. } if request.on_refuse == OnRefuse::Original => {
            (request.edit.original.as_str(), settled.word())
        }
        MergeResult::Refused { refused, fallback } => return refusal(refused, fallback.as_deref()),
    };
    let reply = match request.form {
        ResponseFormat::Chat { tagged } => whole(request, &tagged_text(text, tagged), stamp, &mut work),
        ResponseFormat::Stream { tagged, usage } => {
            streamed(request, &tagged_text(text, tagged), usage.then_some(&mut work), stamp)
        }
        ResponseFormat::Structured => structured(settled, text, &mut work),
    };
    let reply = reply.with(APPLY, word);
    match settled {
        MergeResult::Merged { .. } => reply,
        MergeResult::Refused { refused, .. } => reply.with(CODE, refused.code.name()),
    }
}

/// The error response to a refused edit.
fn refusal(refused: &Refused, fallback: Option<&str>) -> Reply {
    let Refused { code, candidates, hint, .. } = refused;
    let mut error = json!({
        "type": "apply_refused",
        "code": code.name(),
        // Clients pass on the message alone, so that it says what to do as well.
        "message": whole_message(refused),
        "candidates": candidates,
        "hint": hint,
        "param": null,
    });
    if let Some(why) = fallback {
        error["fallback"] = why.into();
    }
    let reply = Reply::json(StatusCode::UNPROCESSABLE_ENTITY, json!({ "error": error }).to_string().into_bytes());
    reply.with(APPLY, "refused").with(CODE, code.name())
}

/// The code of an edit that was made for another state of the file.
pub(crate) const STALE: &str = "stale_file";

/// The error response to such an edit; `now` is the SHA-256 of the file.
pub(crate) fn stale(now: &str) -> Reply {
    let message = format!("the file is not the one that the edit was made for: its SHA-256 is {now}");
    let hint = "read the file again and make the edit for what it is now";
    let error = json!({
        "type": "apply_refused",
        "code": STALE,
        "message": format!("{message}; {hint}"),
        "candidates": [],
        "hint": hint,
        "param": null,
    });
    let reply = Reply::json(StatusCode::CONFLICT, json!({ "error": error }).to_string().into_bytes());
    reply.with(APPLY, "refused").with(CODE, STALE)
}

/// What is wrong, the lines in question and what to do, in one text.
fn whole_message(refused: &Refused) -> String {
    let Refused { message, candidates, hint, .. } = refused;
    let lines: Vec<String> = candidates
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    let lines = if lines.is_empty() { String::new() } else { format!(" (lines {} of the file)", lines.join(", ")) };
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    format!("{message}{lines}{hint}")
}

fn encoder(request: &ApplyRequest, shape: Shape, stamp: Stamp) -> Encoder {
    let id = format!("chatcmpl-apply-{:x}-{}", stamp.seconds, stamp.number);
    Encoder::new(Dialect::OpenAiChat, shape, &id, &request.model, stamp.seconds)
}

fn whole(request: &ApplyRequest, text: &str, stamp: Stamp, work: &mut Work) -> Reply {
    let answer = Answer {
        reasoning: "",
        answer: text,
        tools: &[],
        finish: FinishReason::Stop,
        usage: Some(work.usage(text)),
        timings: None,
    };
    Reply::json(StatusCode::OK, encoder(request, Shape::Whole, stamp).encode_whole(&answer))
}

fn streamed(request: &ApplyRequest, text: &str, work: Option<&mut Work>, stamp: Stamp) -> Reply {
    let mut encoder = encoder(request, Shape::Stream, stamp);
    let mut frames: Vec<Bytes> = Vec::with_capacity(text.len() / DELTA_BYTES + 2);
    let mut frame = Vec::new();
    encoder.encode_event(&Piece::Role, &mut frame);
    let mut rest = text;
    while !rest.is_empty() {
        let (delta, after) = rest.split_at(rest.floor_char_boundary(DELTA_BYTES));
        encoder.encode_event(&Piece::Text { channel: Channel::Answer, text: delta }, &mut frame);
        rest = after;
        if !rest.is_empty() {
            frames.push(std::mem::take(&mut frame).into());
        }
    }
    encoder.encode_event(&Piece::Finish(FinishReason::Stop), &mut frame);
    if let Some(work) = work {
        encoder.encode_event(&Piece::Usage(work.usage(text)), &mut frame);
    }
    encoder.encode_event(&Piece::Done, &mut frame);
    frames.push(frame.into());
    Reply::events(frames)
}

fn structured(settled: &MergeResult, text: &str, work: &mut Work) -> Reply {
    let counts = work.usage(text);
    let (prompt_tokens, completion_tokens) = (counts.input.unwrap_or(0), counts.output.unwrap_or(0));
    let (merged, refused): (Option<&Merged>, Option<&Refused>) = match settled {
        MergeResult::Merged { merged, .. } => (Some(merged), None),
        MergeResult::Refused { refused, .. } => (None, Some(refused)),
    };
    let by_engine = matches!(settled, MergeResult::Merged { by: MergedBy::Deterministic, .. });
    // Escaped once for both names.
    let escaped = to_raw_value(text).expect("a string is always JSON");
    let body = Structured {
        apply: settled.word(),
        merged_camel: &escaped,
        merged_code: &escaped,
        udiff: work.diff(text),
        edits: merged.map_or(&[], |merged| &merged.edits),
        // `how` describes the engine's merge, not a model's text.
        how: merged.filter(|_| by_engine).map(|merged| merged.how),
        checks: merged.map(|merged| merged.checks),
        refused,
        usage: Counts { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    };
    let body = serde_json::to_vec(&body).expect("strings and numbers are always JSON");
    Reply::json(StatusCode::OK, body)
}
