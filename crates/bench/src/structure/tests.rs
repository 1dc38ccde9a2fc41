//! Which answers are valid, and what requests ask for.

use super::*;
use tokrate_core::{Channel, EventBatch, EventKind, FinishReason, Tick};
use tokrate_meter::{Ending, RequestMeter, Timing};
use tokrate_tokens::Encoding;

const MS: u64 = 1_000_000;

/// An answer with calls and text, whose last text comes after 30 ms and whose end after 40.
fn judged(structure: &Structure, calls: &[(&str, &str)], text: &str, finish: FinishReason) -> RequestNumbers {
    let mut meter = RequestMeter::new();
    let mut batch = EventBatch::new();
    let (at, end) = (Tick::from_nanos(30 * MS), Tick::from_nanos(40 * MS));
    batch.push_text(Tick::from_nanos(20 * MS), Channel::Reasoning, "let me see");
    for (index, (name, arguments)) in (0..).zip(calls) {
        let (id, name) = (batch.store("call_1"), batch.store(name));
        batch.push(at, EventKind::ToolCall { index, id, name });
        batch.push_text(at, Channel::Tool, arguments);
    }
    batch.push_text(at, Channel::Answer, text);
    batch.push(end, EventKind::Finish(finish));
    batch.push(end, EventKind::Done);
    meter.on(&batch);
    let timing = Timing { sent_at: Some(Tick::from_nanos(0)), ended_at: end, ..Timing::default() };
    let trace = meter.finish(timing, Ending::Complete);
    let mut row = RequestNumbers::measure(&trace, Encoding::O200kBase);
    structure.judge(&trace, &mut row);
    row
}

fn reason(structure: &Structure, calls: &[(&str, &str)], text: &str) -> Option<String> {
    let row = judged(structure, calls, text, FinishReason::Stop);
    assert_eq!(row.valid_ns.is_some(), row.invalid.is_none(), "{row:?}");
    row.invalid
}

#[test]
fn calls_are_valid_if_each_is_of_an_offered_tool_with_arguments_by_its_schema() {
    let tools = Structure::tools(None, Dialect::OpenAiChat).expect("our own");
    let run = ("run_command", r#"{"command": "ls", "timeout_seconds": 5}"#);
    assert_eq!(
        judged(&tools, &[run], "", FinishReason::ToolCalls).valid_ns,
        Some(30 * MS),
        "the last argument, not the end"
    );
    assert_eq!(reason(&tools, &[run, run], "I run it twice."), None);
    for (calls, why) in [
        (&[][..], "no tool was called"),
        (&[("rm", "{}")], "a tool `rm` was called that was not offered"),
        (&[("run_command", "{\"command\": ")], "the arguments of `run_command` is no JSON"),
        (&[run, ("run_command", "")], "the arguments of `run_command`: the value breaks `required`"),
        (
            &[("run_command", r#"{"command": "ls", "timeout_seconds": 0}"#)],
            "the arguments of `run_command`: /timeout_seconds breaks `minimum`",
        ),
    ] {
        assert_eq!(reason(&tools, calls, "").as_deref(), Some(why));
    }
}

#[test]
fn json_is_valid_if_all_of_the_answer_is_by_the_schema() {
    let json =
        Structure::json(Some(r#"{"type": "object", "required": ["a"]}"#), Dialect::OpenAiChat).expect("a schema");
    assert_eq!(reason(&json, &[], " {\"a\": 1}\n"), None);
    assert_eq!(reason(&json, &[], "{}").as_deref(), Some("the answer: the value breaks `required`"));
    assert_eq!(reason(&json, &[], "```json\n{\"a\": 1}\n```").as_deref(), Some("the answer is no JSON"));
    assert_eq!(reason(&json, &[("x", "{}")], "").as_deref(), Some("the answer is empty"));
}

#[test]
fn an_answer_that_met_its_limit_is_cut_off_even_if_what_came_is_whole() {
    let tools = Structure::tools(None, Dialect::OpenAiChat).expect("our own");
    let json = Structure::json(Some("{}"), Dialect::OpenAiChat).expect("a schema");
    let run = ("run_command", r#"{"command": "ls", "timeout_seconds": 5}"#);
    for (structure, calls, text) in [(&tools, &[run][..], ""), (&json, &[][..], "{}"), (&tools, &[][..], "I think")] {
        let row = judged(structure, calls, text, FinishReason::Length);
        let why = "the answer was cut off at its limit of tokens";
        assert_eq!((row.valid_ns, row.invalid.as_deref(), row.failure), (None, Some(why), None));
    }
}

#[test]
fn a_failed_request_is_neither_valid_nor_invalid() {
    let json = Structure::json(None, Dialect::OpenAiChat).expect("our own");
    let failure = tokrate_meter::FailureRow {
        kind: tokrate_core::FailureKind::TimedOut,
        message: String::new(),
        retry_after_ns: None,
    };
    let mut row = RequestNumbers { failure: Some(failure), ..RequestNumbers::default() };
    json.judge(&RequestTrace::default(), &mut row);
    assert_eq!((row.valid_ns, row.invalid), (None, None));
}

#[test]
fn what_cannot_be_asked_for_is_refused_with_the_reason() {
    let tools = |text: &str| Structure::tools(Some(text), Dialect::OpenAiChat).expect_err("no tools");
    assert!(tools("{").starts_with("it is no JSON"));
    assert_eq!(tools("[]"), "it is no list of tools");
    assert!(tools(r#"[{"name": "x"}]"#).contains("`function.name`"));
    assert_eq!(
        tools(r#"[{"type": "function", "function": {"name": "x", "parameters": {"not": {}}}}]"#),
        "the tool `x`: the keyword `not` is not checked here; leave it out"
    );
    let error = Structure::json(None, Dialect::OpenAiCompletions).expect_err("completions have no schema");
    assert!(error.starts_with("servers that speak openai-completions cannot be asked for it"), "{error}");
    assert_ne!(
        Structure::json(None, Dialect::OpenAiChat).expect("our own").name(),
        Structure::json(Some("{}"), Dialect::OpenAiChat).expect("any").name()
    );
}

#[test]
fn a_request_asks_for_it_in_the_dialect_of_the_endpoint() {
    let body = |structure: &Structure, dialect| {
        let mut request = ChatRequest { model: "m".to_owned(), ..ChatRequest::default() };
        structure.put_in(&mut request);
        String::from_utf8(tokrate_wire::encode_request(dialect, &request)).expect("text")
    };
    for (dialect, tools, json) in [
        (Dialect::OpenAiChat, "\"tool_choice\":\"required\"", "\"response_format\":{\"type\":\"json_schema\""),
        (Dialect::Anthropic, "\"tool_choice\":{\"type\":\"any\"}", "json_schema"),
        (Dialect::OpenAiResponses, "\"tool_choice\":\"required\"", "\"format\":{\"type\":\"json_schema\""),
        (Dialect::Gemini, "\"ANY\"", "application/json"),
    ] {
        let text = body(&Structure::tools(None, dialect).expect("tools"), dialect);
        assert!(text.contains(tools) && text.contains("run_command"), "{}: {text}", dialect.name());
        let text = body(&Structure::json(None, dialect).expect("a schema"), dialect);
        assert!(text.contains(json), "{}: {text}", dialect.name());
    }
}
