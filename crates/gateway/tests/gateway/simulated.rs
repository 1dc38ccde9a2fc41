//! Simulated engines as lanes: faults in every mode, and the engines' own ledger.

use crate::client::ask;
use crate::harness::{TestGateway, configured, lane};
use tokrate_gateway::{LoserPolicy, Mode};
use tokrate_host::{Host, HostConfig, RequestTruth, RunningHost, TruthLog};
use tokrate_record::{AttemptEnd, CostBasis};
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
        let mut gateway = TestGateway::start(configured(lanes, mode));
        let mut calls = 0;
        for fault in faults {
            for (path, body) in requests {
                for stream in ["true", "false"] {
                    calls += 1;
                    let body = body.replace("STREAM", stream);
                    // Both lanes have the fault, so that failover cannot help.
                    let answer = ask(gateway.address, "POST", path, &[("x-tokrate-fault", fault)], body.as_bytes());
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
        let rows = gateway.rows();
        let answered: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        assert!(answered.len() <= calls && !rows.is_empty(), "{mode:?}");
        assert!(rows.iter().all(|row| row.end != AttemptEnd::Abandoned), "{mode:?}");
    }
}

#[test]
fn tokens_and_costs_of_the_log_match_the_engines_ledger() {
    let engine = |millis| {
        let law = Law {
            base_delay: tokrate_core::Span::from_millis(millis),
            stream_tokens_per_second: 4_000.0,
            ..Law::default()
        };
        Host::start(HostConfig { law, truth: TruthLog::Memory, ..HostConfig::default() }).expect("an engine")
    };
    let engines = [engine(2), engine(3)];
    let names = ["one", "two"];
    let drained = LoserPolicy::DrainExact { max_time: tokrate_core::Span::from_secs(20), max_bytes: 1 << 20 };
    for loser in [drained, LoserPolicy::CancelEstimate] {
        let mut lanes: Vec<_> =
            engines.iter().zip(names).map(|(engine, name)| lane(name, engine.address(), SPOKEN)).collect();
        lanes.iter_mut().for_each(|lane| lane.loser = loser);
        let mut gateway = TestGateway::start(configured(lanes, Mode::Race { lanes: 2 }));
        for cut in 0..40 {
            let body =
                r#"{"model":"all","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"how fast"}]}"#;
            let mut stream = std::net::TcpStream::connect(gateway.address).expect("it listens");
            let request = crate::client::request("POST", "/v1/chat/completions", &[], body.as_bytes());
            std::io::Write::write_all(&mut stream, &request).expect("it reads");
            match cut % 2 {
                0 => assert_eq!(crate::client::read_answer(&mut stream).status, 200),
                // Disconnects after so many bytes.
                _ => std::io::Read::read_exact(&mut stream, &mut vec![0; 40 * cut]).expect("so much comes"),
            }
        }
        let rows = gateway.rows();
        let truth: Vec<std::sync::Arc<RequestTruth>> =
            engines.iter().flat_map(|engine| engine.truth().requests).collect();
        for row in &rows {
            let id = format!("{}-{}", row.call, row.attempt);
            let Some(truth) = truth.iter().find(|truth| truth.id.as_deref() == Some(&id)) else {
                // Sent or not, it was closed before the engine read it: only its prompt is known.
                let is_lost = row.end == AttemptEnd::Lost || row.end == AttemptEnd::Abandoned;
                assert!(
                    is_lost && row.sample.ttfb_ns.is_none() && row.sample.output_tokens_std == 0,
                    "never read, and yet {row:?}"
                );
                assert!(
                    matches!(row.sample.cost_basis, CostBasis::Free | CostBasis::Estimated),
                    "never read, and yet {row:?}"
                );
                continue;
            };
            let written: u64 = truth.writes.iter().map(|write| u64::from(write.tokens)).sum();
            let input = u64::from(truth.input_tokens);
            match row.sample.cost_basis {
                CostBasis::Reported => {
                    assert_eq!(
                        (row.sample.input_tokens, row.sample.output_tokens),
                        (Some(input), Some(written)),
                        "{id}"
                    );
                    let cost = (input as f64 + 2.0 * written as f64) / 1e6;
                    assert!((row.sample.cost_usd.expect("a price") - cost).abs() < 1e-12, "{id}");
                }
                CostBasis::Estimated => {
                    assert!(row.sample.output_tokens_std <= written, "{id}: more came than was written");
                    let cost = (input as f64 + 2.0 * row.sample.output_tokens_std as f64) / 1e6;
                    assert!(
                        (row.sample.cost_usd.expect("a price") - cost).abs() < 1e-12,
                        "{id}: {row:?} against {input}"
                    );
                }
                other => panic!("{id}: {other:?}"),
            }
            if loser == drained {
                assert!(row.end != AttemptEnd::Lost || row.sample.cost_basis == CostBasis::Reported, "{id}: {row:?}");
            }
        }
        // Every request of an engine is a row.
        let known =
            |truth: &RequestTruth| rows.iter().any(|row| Some(format!("{}-{}", row.call, row.attempt)) == truth.id);
        let calls: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
        let ours = truth.iter().filter(|truth| {
            truth.id.as_deref().and_then(|id| id.rsplit_once('-')).is_some_and(|(call, _)| calls.contains(call))
        });
        assert!(ours.clone().all(|truth| known(truth)) && ours.count() >= 40);
    }
}

/// Whether an answer has its end mark.
fn is_whole(path: &str, stream: bool, text: &str) -> bool {
    match (path, stream) {
        (_, false) => serde_json::from_str::<serde_json::Value>(text).is_ok(),
        ("/v1/messages", true) => text.contains("message_stop") || text.contains("\"stop_reason\":\""),
        ("/v1/responses", true) => text.contains("response.completed") || text.contains("response.incomplete"),
        (_, true) => text.contains("[DONE]") || text.contains("\"finish_reason\":\""),
    }
}
