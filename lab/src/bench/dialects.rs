//! How many events per second are read, decoded and metered in each dialect.
//!
//! It does not use tokrate's own writers: the answers are spelled here as the providers' servers spell them, with what
//! varies from event to event in the wild (counters, times, token counts). Invariant: a text of n words is n events.

use super::blast::Blast;
use super::client::Load;
use super::events::{Answer, Script, text};
use super::summary::{Rounds, large};
use super::table::Line;
use super::throughput::show;
use super::{Report, Stage};
use anyhow::Result;

const CONNECTIONS: usize = 50;
const EVENTS: u32 = 19_200;
const EVENTS_PER_WRITE: u32 = 64;
const REQUESTS: u64 = 100;
/// Events per second that every dialect is to reach.
const LEAST: f64 = 1e6;

/// How a dialect's server writes.
struct Manner {
    dialect: &'static str,
    /// Path before the dialect's own.
    base: &'static str,
    content_type: &'static str,
    head: fn() -> String,
    /// The event with the text, the number of the event.
    event: fn(&str, u32) -> String,
    ending: fn(u32) -> String,
}

const MANNERS: &[Manner] = &[
    Manner {
        dialect: "openai-completions",
        base: "/v1",
        content_type: "text/event-stream",
        head: String::new,
        event: |text, _| completions(text, "null"),
        ending: |_| completions("", "\"length\"") + "data: [DONE]\n\n",
    },
    Manner {
        dialect: "openai-responses",
        base: "/v1",
        content_type: "text/event-stream",
        head: || {
            responses(
                "response.created",
                r#""response":{"id":"resp_1","object":"response","status":"in_progress","model":"bench-model","output":[]},"sequence_number":0"#,
            )
        },
        event: |text, number| {
            let padding = &"Zq3xY7wK1pQ9sLm2"[..4 + number as usize % 12];
            responses(
                "response.output_text.delta",
                &format!(
                    r#""content_index":0,"delta":"{text}","item_id":"msg_68c1bdb1a2f08196b8a1e1c5d7a4f3020","logprobs":[],"obfuscation":"{padding}","output_index":0,"sequence_number":{}"#,
                    number + 4
                ),
            )
        },
        ending: |events| {
            responses(
                "response.completed",
                &format!(
                    r#""response":{{"id":"resp_1","object":"response","status":"completed","model":"bench-model","output":[],"usage":{{"input_tokens":16,"output_tokens":{events},"total_tokens":{}}}}},"sequence_number":{}"#,
                    events + 16,
                    events + 9
                ),
            )
        },
    },
    Manner {
        dialect: "anthropic",
        base: "/v1",
        content_type: "text/event-stream",
        head: || {
            messages(
                "message_start",
                r#""message":{"id":"msg_1","type":"message","role":"assistant","model":"bench-model","content":[],"stop_reason":null,"usage":{"input_tokens":16,"output_tokens":1}}"#,
            ) + &messages("content_block_start", r#""index":0,"content_block":{"type":"text","text":""}"#)
        },
        event: |text, _| {
            messages("content_block_delta", &format!(r#""index":0,"delta":{{"type":"text_delta","text":"{text}"}}"#))
        },
        ending: |events| {
            messages("content_block_stop", r#""index":0"#)
                + &messages(
                    "message_delta",
                    &format!(
                        r#""delta":{{"stop_reason":"max_tokens","stop_sequence":null}},"usage":{{"output_tokens":{events}}}"#
                    ),
                )
                + "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
        },
    },
    Manner {
        dialect: "gemini",
        base: "/v1beta",
        content_type: "text/event-stream",
        head: String::new,
        event: |text, number| gemini(text, "", number + 1),
        ending: |events| gemini("", r#","finishReason":"MAX_TOKENS""#, events),
    },
    Manner {
        dialect: "ollama-chat",
        base: "",
        content_type: "application/x-ndjson",
        head: String::new,
        event: |text, number| {
            format!(
                "{{\"model\":\"bench-model\",\"created_at\":\"2026-11-21T06:00:{:02}.{:06}Z\",\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"done\":false}}\n",
                number / 1000 % 60,
                number % 1000 * 917
            )
        },
        ending: |events| ollama(r#""message":{"role":"assistant","content":""}"#, events),
    },
    Manner {
        dialect: "ollama-generate",
        base: "",
        content_type: "application/x-ndjson",
        head: String::new,
        event: |text, number| {
            format!(
                "{{\"model\":\"bench-model\",\"created_at\":\"2026-11-21T06:00:{:02}.{:06}Z\",\"response\":\"{text}\",\"done\":false}}\n",
                number / 1000 % 60,
                number % 1000 * 917
            )
        },
        ending: |events| ollama(r#""response":"""#, events),
    },
    Manner {
        dialect: "llama-completion",
        base: "",
        content_type: "text/event-stream",
        head: String::new,
        event: |text, number| {
            format!(
                "data: {{\"index\":0,\"content\":\"{text}\",\"tokens\":[{}],\"stop\":false,\"id_slot\":-1,\"tokens_predicted\":{},\"tokens_evaluated\":16}}\n\n",
                number * 31 % 32_000,
                number + 1
            )
        },
        ending: |events| {
            format!(
                "data: {{\"index\":0,\"content\":\"\",\"tokens\":[],\"id_slot\":1,\"stop\":true,\"model\":\"bench-model\",\"tokens_predicted\":{events},\"tokens_evaluated\":16,\"stop_type\":\"limit\"}}\n\n"
            )
        },
    },
];

fn completions(text: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"cmpl-8f2b61d0c3e94a7fa5d1b02c7e6f9a34\",\"object\":\"text_completion\",\"created\":1769092764,\"model\":\"bench-model\",\
         \"choices\":[{{\"index\":0,\"text\":\"{text}\",\"logprobs\":null,\"finish_reason\":{finish},\"stop_reason\":null}}],\"usage\":null}}\n\n"
    )
}

fn responses(kind: &str, fields: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{fields}}}\n\n")
}

fn messages(kind: &str, fields: &str) -> String {
    format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{fields}}}\n\n")
}

fn gemini(text: &str, finish: &str, tokens: u32) -> String {
    format!(
        "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{text}\"}}],\"role\": \"model\"}}{finish},\"index\": 0}}],\
         \"usageMetadata\": {{\"promptTokenCount\": 16,\"candidatesTokenCount\": {tokens},\"totalTokenCount\": {}}},\
         \"modelVersion\": \"bench-model\",\"responseId\": \"4f2b61d0c3e9\"}}\r\n\r\n",
        tokens + 16
    )
}

fn ollama(text: &str, events: u32) -> String {
    format!(
        "{{\"model\":\"bench-model\",\"created_at\":\"2026-11-21T06:01:00.000000Z\",{text},\"done\":true,\"done_reason\":\"length\",\
         \"total_duration\":4000000000,\"load_duration\":1000000,\"prompt_eval_count\":16,\"prompt_eval_duration\":20000000,\
         \"eval_count\":{events},\"eval_duration\":3900000000}}\n"
    )
}

/// Every dialect in turn, round after round.
pub fn every_dialect(stage: &Stage) -> Result<Report> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); MANNERS.len()];
    let mut notes = Vec::new();
    if stage.floor_only {
        return Ok(Report { lines: Vec::new(), notes });
    }
    for round in 0..stage.rounds {
        for (manner, rates) in MANNERS.iter().zip(&mut rates) {
            let script = Script::of(&Answer {
                content_type: manner.content_type,
                head: &(manner.head)(),
                event: &|number| (manner.event)(&text(u64::from(number), 1), number),
                ending: &(manner.ending)(EVENTS),
                events: EVENTS,
                events_per_write: EVENTS_PER_WRITE,
                complete: true,
            });
            let server = Blast::start(vec![script], 1, true, None)?;
            let load = Load {
                address: server.address,
                concurrency: CONNECTIONS,
                requests: REQUESTS,
                dialect: Some((manner.dialect, manner.base)),
                ..Load::default()
            };
            let outcome = stage.clients.tokrate(&load)?;
            rates.push(outcome.events_per_second().unwrap_or(0.0));
            let truth = u64::from(EVENTS) * REQUESTS;
            if outcome.events() != truth || outcome.failed().0 > 0 {
                notes.push(format!(
                    "{}: tokrate counted {} of {truth} text events, {:?} requests failed",
                    manner.dialect,
                    outcome.events(),
                    outcome.failed()
                ));
            }
            let rate = rates.last().copied().unwrap_or(0.0);
            stage.print_progress(round, &format!("{}: tokrate {} events/s", manner.dialect, large(rate)));
        }
    }
    let lines = MANNERS.iter().zip(rates).map(|(manner, rates)| {
        let rate = Rounds::of(rates);
        Line {
            what: format!(
                "events per second, {CONNECTIONS} connections, {EVENTS_PER_WRITE} events a write, {}",
                manner.dialect
            ),
            floor: "-".to_owned(),
            tokrate: show(rate, large),
            against: "-".to_owned(),
            bar: format!("≥ {}", large(LEAST)),
            met: rate.map(|rate| rate.median >= LEAST),
        }
    });
    Ok(Report { lines: lines.collect(), notes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_json_and_holds_its_text_once() {
        for manner in MANNERS {
            for event in [(manner.event)(" people", 7), (manner.ending)(9), (manner.head)()] {
                let documents = event.split(['\n', '\r']).filter_map(|line| match line.strip_prefix("data: ") {
                    Some("[DONE]") => None,
                    Some(data) => Some(data),
                    None => line.starts_with('{').then_some(line),
                });
                for document in documents {
                    serde_json::from_str::<serde_json::Value>(document)
                        .unwrap_or_else(|error| panic!("{}: {error}: {document}", manner.dialect));
                }
            }
            assert_eq!((manner.event)(" people", 7).matches(" people").count(), 1, "{}", manner.dialect);
        }
    }
}
