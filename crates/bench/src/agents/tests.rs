//! Each layout, what steps wait for, and what is refused.

use super::*;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

/// Steps of a session as role, what they wait for, wait in ms, and tokens.
fn seen(trace: &AgentTrace, session: usize) -> Vec<(&str, Vec<u32>, f64, u32, u32)> {
    let step = |step: &Step| {
        let role = trace.roles[step.role as usize].as_str();
        // The roles live as long as the trace.
        (role.to_owned(), step.after.to_vec(), step.wait.as_millis_f64(), step.input_tokens, step.output_tokens)
    };
    let steps: Vec<_> = trace.steps_of(session).iter().map(step).collect();
    let role = |name: &str| trace.roles.iter().find(|role| *role == name).expect("it is one of them").as_str();
    steps.into_iter().map(|(name, after, wait, input, output)| (role(&name), after, wait, input, output)).collect()
}

fn refused(text: &str) -> String {
    AgentTrace::parse(text).expect_err("it is bad").to_string()
}

#[test]
fn steps_wait_for_the_one_before_or_for_those_that_they_name() {
    let text = r#"{"session": "b", "step": "plan", "role": "planner", "input_tokens": 900, "output_tokens": 120, "at_ms": 5000}
{"session": "a", "step": 1, "input_tokens": 10, "output_tokens": 5, "at_ms": 2000, "wait_ms": 30}
{"session": "b", "step": "left", "after": ["plan"], "role": "worker", "input_tokens": 400, "output_tokens": 50, "wait_ms": 250}
{"session": "b", "step": "right", "after": ["plan"], "role": "worker", "input_tokens": 500, "output_tokens": 60}
{"session": "a", "input_tokens": 20, "output_tokens": 6}
{"session": "b", "after": ["right", "left"], "role": "planner", "input_tokens": 1500, "output_tokens": 80, "hash_ids": [4, 5], "block_size": 1000}"#;
    let trace = AgentTrace::parse(text).expect("a trace");
    assert_eq!(trace.format, AgentFormat::Steps);
    let named: Vec<(&str, f64)> = trace.sessions.iter().map(|it| (it.name.as_str(), it.at.as_millis_f64())).collect();
    assert_eq!(named, [("a", 0.0), ("b", 3000.0)]);
    assert_eq!(seen(&trace, 0), [("agent", vec![], 30.0, 10, 5), ("agent", vec![0], 0.0, 20, 6)]);
    assert_eq!(
        seen(&trace, 1),
        [
            ("planner", vec![], 0.0, 900, 120),
            ("worker", vec![0], 250.0, 400, 50),
            ("worker", vec![0], 0.0, 500, 60),
            ("planner", vec![1, 2], 0.0, 1500, 80)
        ]
    );
    assert_eq!((trace.width(), trace.has_times(), &*trace.steps[5].blocks), (2, true, &[4, 5][..]));
    let limited = trace.limited(1);
    assert_eq!((limited.sessions.len(), limited.steps.len()), (1, 2));
}

/// A span as OTLP writes it; times in ms.
fn span(id: &str, parent: &str, from: u64, to: u64, attributes: &[(&str, &str)]) -> String {
    let attribute = |(key, value): &(&str, &str)| {
        let kind = if value.parse::<u64>().is_ok() { "intValue" } else { "stringValue" };
        format!(r#"{{"key": "{key}", "value": {{"{kind}": "{value}"}}}}"#)
    };
    let attributes: Vec<String> = attributes.iter().map(attribute).collect();
    format!(
        r#"{{"traceId": "t1", "spanId": "{id}", "parentSpanId": "{parent}", "name": "n", "startTimeUnixNano": "{from}000000", "endTimeUnixNano": {to}000000, "attributes": [{}]}}"#,
        attributes.join(",")
    )
}

fn export(spans: &[String]) -> String {
    format!(r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{}]}}]}}]}}"#, spans.join(","))
}

const CALL: [(&str, &str); 3] =
    [("gen_ai.operation.name", "chat"), ("gen_ai.usage.input_tokens", "100"), ("gen_ai.usage.output_tokens", "20")];

#[test]
fn spans_wait_for_what_had_ended_below_their_parent_and_branches_run_side_by_side() {
    let agent = |name| [("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", name)];
    let text = export(&[
        // In no order, as exporters send them: two workers side by side, each with two calls and a tool, between the planner's.
        span("w2b", "w2", 420, 500, &CALL),
        span("root", "", 1000 - 1000, 900, &agent("planner")),
        span("p1", "root", 10, 100, &CALL),
        span("w1", "root", 150, 480, &agent("worker")),
        span("w2", "root", 160, 520, &agent("worker")),
        span("w1a", "w1", 150, 200, &CALL),
        span("w1t", "w1", 205, 300, &[("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "search")]),
        span("w1b", "w1", 310, 470, &CALL),
        span("w2a", "w2", 170, 250, &CALL),
        span("p2", "root", 600, 890, &CALL),
        span("emb", "root", 5, 8, &[("gen_ai.operation.name", "embeddings"), ("gen_ai.usage.input_tokens", "7")]),
        span("odd", "root", 895, 899, &[("gen_ai.operation.name", "chat")]),
    ]);
    let trace = AgentTrace::parse(&text).expect("a trace");
    assert_eq!((trace.format, trace.left_out, trace.sessions.len()), (AgentFormat::Spans, 1, 1));
    assert_eq!(
        seen(&trace, 0),
        [
            ("planner", vec![], 10.0, 100, 20),
            ("worker", vec![0], 50.0, 100, 20),
            ("worker", vec![1], 110.0, 100, 20),
            ("worker", vec![0], 70.0, 100, 20),
            ("worker", vec![3], 170.0, 100, 20),
            ("planner", vec![2, 4], 100.0, 100, 20),
        ]
    );
    assert_eq!(trace.width(), 2);
}

#[test]
fn traces_of_one_conversation_are_one_session_and_old_names_are_read() {
    let conversation = ("gen_ai.conversation.id", "c9");
    let old = [("gen_ai.usage.prompt_tokens", "11"), ("gen_ai.usage.completion_tokens", "3"), conversation];
    let one = export(&[span("a", "", 0, 50, &old)]);
    let two = export(&[span("b", "gone", 90, 95, &old)]).replace("\"t1\"", "\"t2\"");
    let trace = AgentTrace::parse(&format!("{one}\n{two}")).expect("a trace");
    assert_eq!(trace.sessions.len(), 1);
    assert_eq!(trace.sessions[0].name, "c9");
    let steps = seen(&trace, 0);
    assert_eq!((steps.len(), &steps[1].1), (2, &vec![0]));
}

#[test]
fn a_weka_trace_waits_for_subagents_that_do_not_run_beside_it() {
    let call = |t: f64, input: u32, more: &str| {
        format!(r#"{{"t": {t}, "type": "n", "model": "m", "in": {input}, "out": 9{more}}}"#)
    };
    let subagent = |t: f64, kind: &str, status: &str, calls: &[String]| {
        let calls = calls.join(",");
        format!(
            r#"{{"t": {t}, "type": "subagent", "agent_id": "x", "subagent_type": "{kind}", "status": "{status}", "models": [], "requests": [{calls}]}}"#
        )
    };
    let requests = [
        call(0.0, 130, r#", "hash_ids": [1, 2, 3], "api_time": 2.0"#),
        subagent(2.5, "Explore", "completed", &[call(0.5, 70, ""), call(4.0, 80, r#", "think_time": 0.25"#)]),
        subagent(3.0, "Plan", "async_launched", &[call(3.5, 60, "")]),
        call(9.0, 200, r#", "think_time": 1.5, "stop": "tool_use""#).replace("\"n\"", "\"s\""),
        call(20.0, 210, ""),
    ];
    let file = |id: &str| {
        let requests = requests.join(",");
        format!(
            r#"{{"id": "{id}", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": [{requests}]}}"#
        )
    };
    let trace = AgentTrace::parse_files(&[&file("one"), &file("two")]).expect("a trace");
    assert_eq!((trace.format, trace.sessions.len(), trace.has_times()), (AgentFormat::Weka, 2, false));
    assert_eq!(
        seen(&trace, 0),
        [
            ("main", vec![], 0.0, 130, 9),
            ("Explore", vec![0], 1000.0, 70, 9),
            ("Explore", vec![1], 250.0, 80, 9),
            ("Plan", vec![0], 1500.0, 60, 9),
            ("main", vec![0, 2], 1500.0, 200, 9),
            ("main", vec![4], 11_000.0, 210, 9),
        ]
    );
    let blocks = |session: usize| trace.steps_of(session)[0].blocks.clone();
    assert_eq!(blocks(0).len(), 3);
    assert_ne!(blocks(0), blocks(1), "ids of one session mean nothing in another");
}

#[test]
fn what_is_no_agents_trace_is_refused_with_its_position() {
    let step = r#"{"session": "a", "input_tokens": 5, "output_tokens": 5}"#;
    for (text, expected) in [
        (String::new(), "line 1, column 1: expected an agent's steps"),
        ("{\"timestamp\": 0}".to_owned(), "line 1, column 1: expected an agent's steps"),
        (format!("{step}\n\n  {{\"prompt\": 1}}"), "line 3, column 3: expected an agent's steps"),
        (format!("{step}\n{{"), "line 2, column 1: expected an agent's steps"),
        (step.replace("5}", "\"x\"}"), "line 1, column 1: expected an agent's step: invalid type"),
        (step.replace("5}", "0}"), "line 1, column 1: expected an agent's step with at least one token"),
        (step.replace("5}", "5, \"after\": [\"b\"]}"), "line 1, column 1: expected `after` to name steps"),
        (step.replace("5}", "5, \"wait\": 3}"), "line 1, column 1: expected an agent's step: unknown field"),
        (
            format!("{step}{}", export(&[])),
            "line 1, column 56: expected steps, as before it, and there is OpenTelemetry spans",
        ),
        (export(&[]), "line 1, column 1: expected at least one step"),
        (
            step.replace("5}", "5, \"hash_ids\": [1, 2]}"),
            "line 1, column 1: expected at most one block id for each 512 tokens",
        ),
    ] {
        let message = refused(&text);
        assert!(message.starts_with(expected), "{text}: {message}");
    }
}

#[test]
fn an_error_in_one_of_several_files_says_which() {
    let step = r#"{"session": "a", "input_tokens": 5, "output_tokens": 5}"#;
    let refused = |files: [&str; 3]| AgentTrace::parse_files(&files).expect_err("one of them is no trace");
    let (file, bad) = refused([step, step, &format!("{step}\n{{")]);
    assert_eq!((file, bad.line), (2, 2));
    let (file, bad) = refused([step, &export(&[]), step]);
    assert_eq!((file, bad.line, bad.column), (1, 1, 1), "{bad}");
    // A step may wait for one of a file before it.
    let named = step.replace("5}", "5, \"step\": \"one\"}");
    let waits = step.replace("5}", "5, \"after\": [\"one\"]}");
    let trace = AgentTrace::parse_files(&[&named, &waits]).expect("one session in two files");
    assert_eq!((trace.sessions.len(), trace.followers.of_step(0), trace.followers.of_step(1)), (1, &[1][..], &[][..]));
}

proptest! {
    #[test]
    fn followers_are_what_steps_wait_for_the_other_way_round(
        sessions in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(0_usize..12, 0..4), 1..12), 1..4),
    ) {
        let mut text = String::new();
        for (session, steps) in sessions.iter().enumerate() {
            for (place, after) in steps.iter().enumerate() {
                let after: Vec<usize> = after.iter().copied().filter(|before| *before < place).collect();
                text += &format!(
                    r#"{{"session": {session}, "step": {place}, "after": {after:?}, "input_tokens": 5, "output_tokens": 5}}"#
                );
            }
        }
        let trace = AgentTrace::parse(&text).expect("a trace");
        for session in 0..trace.sessions.len() {
            let first = trace.sessions[session].steps.start as usize;
            for before in 0..trace.steps_of(session).len() {
                let waiting = |(place, step): (u32, &Step)| step.after.contains(&(before as u32)).then_some(place);
                let expected: Vec<u32> = (0_u32..).zip(trace.steps_of(session)).filter_map(waiting).collect();
                prop_assert_eq!(trace.followers.of_step(first + before), &expected[..]);
            }
        }
    }

    #[test]
    fn every_trace_of_spans_can_be_carried_out(edges in proptest::collection::vec((0_usize..12, 0_u64..90, 0_u64..60, proptest::bool::ANY), 1..12)) {
        let spans: Vec<String> = edges
            .iter()
            .enumerate()
            .map(|(place, (parent, from, length, is_call))| {
                span(&place.to_string(), &parent.to_string(), *from, from + length, if *is_call { &CALL } else { &[] })
            })
            .collect();
        if let Ok(trace) = AgentTrace::parse(&export(&spans)) {
            for (place, step) in (0_u32..).zip(trace.steps_of(0)) {
                prop_assert!(step.after.iter().all(|before| *before < place));
            }
        }
    }

    #[test]
    fn no_text_breaks_it(text in "[\\[\\]{}\":,a-z0-9\n ]{0,120}", t in -1e12..1e12_f64) {
        let weka = format!(r#"{{"id": "a", "block_size": 1, "requests": [{{"t": {t}, "type": "s", "in": 5, "out": 5, "think_time": {t}}}]}}"#);
        for text in [text, weka] {
            match AgentTrace::parse(&text) {
                Ok(trace) => prop_assert!(!trace.steps.is_empty()),
                Err(bad) => prop_assert!(bad.line >= 1 && bad.column >= 1),
            }
        }
    }
}
