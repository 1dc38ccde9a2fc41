//! Compares the answers of clients with what the lanes wrote.
//!
//! Invariant: every token that a client receives was written by the lane named in the answer, for this call.

use crate::gateway::{CallEnd, GatewayHistory, GatewayScenario, Outcome, ServedRequest};
use tokrate_core::{EventBatch, EventKind, Tick};
use tokrate_wire::{Decoder, Dialect, Shape, UsageInStream};

/// What a body says.
pub(super) struct DecodedAnswer {
    pub text: String,
    /// It says that it failed.
    pub has_failed: bool,
    pub has_finished: bool,
}

/// What is wrong with the answer of a call, if anything is.
pub(super) fn check(scenario: &GatewayScenario, history: &GatewayHistory, outcome: &Outcome) -> Option<String> {
    let call = &scenario.clients[outcome.client].calls[outcome.nth];
    let reply = &outcome.reply;
    let status = reply.status?;
    if !call.is_sound {
        return None;
    }
    if status != 200 {
        let is_whole = outcome.end == CallEnd::Whole;
        let is_error = status >= 400 && reply.body.starts_with(b"{") && reply.body.trim_ascii_end().ends_with(b"}");
        return (is_whole && !is_error)
            .then(|| format!("status {status} with `{}`", String::from_utf8_lossy(&reply.body)));
    }
    let Some(served) = winner(scenario, history, outcome) else {
        return Some(format!("no lane was asked for what it got, which names {:?}", reply.header("x-tokrate-winner")));
    };
    let Some(dialect) = call.dialect else {
        let fits = served.response.body.starts_with(&reply.body) || !served.response.is_sound;
        return (!fits).then(|| "bytes that no lane wrote".to_owned());
    };
    let answer = read(dialect, call.shape, &reply.body);
    // A byte that was changed on the way may say anything.
    if !served.response.is_sound && served.response.text.is_empty() {
        return None;
    }
    if served.response.is_sound && !served.response.text.starts_with(&answer.text) {
        return Some(format!("`{}` is not what lane {} wrote: `{}`", answer.text, served.lane, served.response.text));
    }
    let is_whole = outcome.end == CallEnd::Whole && !answer.has_failed && served.response.is_sound;
    if is_whole && (answer.text != served.response.text || !answer.has_finished) {
        return Some(format!(
            "the answer is told to be whole, with `{}` of `{}`, finished: {}",
            answer.text, served.response.text, answer.has_finished
        ));
    }
    // What comes after the finish reason is not waited for at any price: a limit of bytes may cut it.
    let fits = served.response.body.len() as u64 <= min_answer_bytes(scenario);
    bytes_are_the_lanes(&call.request, outcome, served, (dialect, call.shape), is_whole && served.is_whole && fits)
}

/// The smallest limit of an answer under any of the configurations (bytes).
fn min_answer_bytes(scenario: &GatewayScenario) -> u64 {
    let reloads = scenario.reloads.iter().map(|(_, reload)| reload.config.limits.answer_bytes);
    reloads.fold(scenario.config.limits.answer_bytes, u64::min)
}

/// In the same dialect the bytes are the lane's own, and at most an error event behind them.
fn bytes_are_the_lanes(
    request: &[u8],
    outcome: &Outcome,
    served: &ServedRequest,
    routed: (Dialect, Shape),
    is_whole: bool,
) -> Option<String> {
    let asks_for_usage = |bytes: &[u8]| bytes.windows(20).any(|part| part == b"\"include_usage\":true");
    let may_be_filtered =
        routed.0.usage_in_stream() == UsageInStream::OnRequest && routed.1 != Shape::Whole && !asks_for_usage(request);
    if served.routed != Some(routed) || may_be_filtered || !served.response.is_sound {
        return None;
    }
    let (got, wrote) = (&outcome.reply.body, &served.response.body);
    let fits = if is_whole { got == wrote } else { is_beginning_and_error(routed, got, wrote) };
    (!fits).then(|| {
        let (got, wrote) = (String::from_utf8_lossy(got), String::from_utf8_lossy(wrote));
        format!("its bytes are not those of lane {}: `{got}` of `{wrote}`", served.lane)
    })
}

/// Whether `got` is the beginning of `wrote`, with nothing else behind it than the beginning of an error event.
fn is_beginning_and_error((dialect, shape): (Dialect, Shape), got: &[u8], wrote: &[u8]) -> bool {
    let event = dialect.error_event_start(shape).as_bytes();
    let common = got.iter().zip(wrote).take_while(|(got, wrote)| got == wrote).count();
    (0..=common).any(|lanes_own| {
        let between = |byte: &u8| matches!(byte, b'\n' | b',' | b'[');
        let rest = &got[lanes_own..];
        let added = &rest[rest.iter().take_while(|byte| between(byte)).count()..];
        added.starts_with(event) || event.starts_with(added)
    })
}

/// The request that an answer came of, by what its head says. A request that was sent again counts the last time.
pub(super) fn winner<'a>(
    scenario: &GatewayScenario,
    history: &'a GatewayHistory,
    outcome: &Outcome,
) -> Option<&'a ServedRequest> {
    let call = outcome.reply.header("x-tokrate-call")?;
    let lane = outcome.reply.header("x-tokrate-winner")?;
    let lane = scenario.config.lanes.iter().position(|known| known.name == lane)?;
    let is_of = |served: &&ServedRequest| {
        let behind = served.id.strip_prefix(call).and_then(|rest| rest.strip_prefix('-'));
        served.lane == lane && behind.is_some_and(|attempt| attempt.bytes().all(|byte| byte.is_ascii_digit()))
    };
    history.served.iter().rev().filter(is_of).find(|served| served.response.status == 200)
}

/// Reads an answer as a client of that dialect does.
pub(super) fn read(dialect: Dialect, shape: Shape, body: &[u8]) -> DecodedAnswer {
    let (mut decoder, mut batch) = (Decoder::new(dialect, shape), EventBatch::default());
    decoder.push(Tick::ZERO, body, &mut batch);
    decoder.end(Tick::ZERO, &mut batch);
    let mut answer = DecodedAnswer { text: String::new(), has_failed: false, has_finished: false };
    for event in batch.events() {
        match event.kind {
            EventKind::Text { text, .. } => answer.text.push_str(batch.text(text)),
            EventKind::Failed { .. } => answer.has_failed = true,
            EventKind::Finish(_) => answer.has_finished = true,
            _ => {}
        }
    }
    answer
}
