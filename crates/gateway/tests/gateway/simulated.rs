//! Simulated engines as lanes: faults in every mode, and what the engines' own ledger says.

use crate::client::ask;
use crate::house::{House, configured, lane};
use tokrate_gateway::Mode;
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_meter::AttemptEnd;
use tokrate_sim::Law;
use tokrate_wire::Dialect;

const SPOKEN: &[Dialect] =
    &[Dialect::OpenAiChat, Dialect::OpenAiCompletions, Dialect::OpenAiResponses, Dialect::Anthropic];

fn engine() -> RunningHost {
    let law =
        Law { base_delay: tokrate_core::Span::from_millis(1), stream_tokens_per_second: 20_000.0, ..Law::default() };
    Host::start(HostConfig { law, ..HostConfig::default() }).expect("an engine")
}

#[test]
fn every_fault_in_every_mode_ends_in_a_whole_answer_or_one_clear_error() {
    let engines = [engine(), engine()];
    let faults = [
        "rate_limited",
        "server_error",
        "disconnect@0",
        "disconnect@5",
        "malformed@0",
        "malformed@5",
        "error_event@0",
        "error_event@5",
        "missing_usage",
        "empty",
        "no_done",
        "burst",
        "short",
        "usage_inflated",
    ];
    let requests = [
        (
            "/v1/chat/completions",
            r#"{"model":"all","stream":STREAM,"max_tokens":12,"messages":[{"role":"user","content":"hi"}]}"#,
        ),
        (
            "/v1/messages",
            r#"{"model":"all","stream":STREAM,"max_tokens":12,"messages":[{"role":"user","content":"hi"}]}"#,
        ),
        ("/v1/responses", r#"{"model":"all","stream":STREAM,"max_output_tokens":12,"input":"hi"}"#),
        ("/v1/completions", r#"{"model":"all","stream":STREAM,"max_tokens":12,"prompt":"hi"}"#),
    ];
    for mode in [Mode::Off, Mode::Hedge, Mode::Race { lanes: 2 }] {
        let names = ["one", "two"];
        let lanes = engines.iter().zip(names).map(|(engine, name)| lane(name, engine.address(), SPOKEN)).collect();
        let mut house = House::start(configured(lanes, mode));
        let mut calls = 0;
        for fault in faults {
            for (path, body) in requests {
                for stream in ["true", "false"] {
                    calls += 1;
                    let body = body.replace("STREAM", stream);
                    // Both lanes have the fault: there is nobody to turn to.
                    let answer = ask(house.address, "POST", path, &[("x-tokrate-fault", fault)], body.as_bytes());
                    let text = answer.text();
                    let case = format!("{mode:?} {fault} {path} stream {stream}: {} {text}", answer.status);
                    assert!(answer.ended, "{case}");
                    let errors = text.matches("\"error\"").count();
                    match answer.status {
                        200 => assert!(is_whole(path, stream == "true", &text) || errors > 0, "{case}"),
                        _ => assert!(errors > 0, "{case}"),
                    }
                }
            }
        }
        let rows = house.rows();
        let answered: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        assert!(answered.len() <= calls && !rows.is_empty(), "{mode:?}");
        assert!(rows.iter().all(|row| row.end != AttemptEnd::Abandoned), "{mode:?}");
    }
}

/// Whether an answer has the mark of its end.
fn is_whole(path: &str, stream: bool, text: &str) -> bool {
    match (path, stream) {
        (_, false) => serde_json::from_str::<serde_json::Value>(text).is_ok(),
        ("/v1/messages", true) => text.contains("message_stop") || text.contains("\"stop_reason\":\""),
        ("/v1/responses", true) => text.contains("response.completed") || text.contains("response.incomplete"),
        (_, true) => text.contains("[DONE]") || text.contains("\"finish_reason\":\""),
    }
}
