//! What gateways are known to have lost or garbled when they translated answers, one test for each kind; the issues are
//! named where they are public.
//!
//! Invariant: each body here is one that a real server sends.

use crate::dialects::decoded;
use crate::translate_answers::{check_blocks, translated};
use serde_json::Value;
use tokrate_core::{FailureKind, FinishReason};
use tokrate_wire::{Dialect, Progress, Shape};

fn events(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("data: {line}\n\n")).collect()
}

/// A stream of chat completions: a chunk for each delta, then why it stopped, and the end.
fn chat(deltas: &[&str], finish: &str) -> String {
    let chunk = |delta: &&str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let mut lines: Vec<String> = deltas.iter().map(chunk).collect();
    lines.push(format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}"#));
    lines.push("[DONE]".to_owned());
    events(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn client(from: Dialect, to: Dialect, body: &str) -> String {
    let (out, progress) = translated(from, to, Shape::Stream, true, &[body.as_bytes()]);
    let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
    assert_eq!(translated(from, to, Shape::Stream, true, &bytes).0, out, "cut into bytes");
    assert_eq!(progress, Progress::Complete, "{}", String::from_utf8_lossy(&out));
    if to == Dialect::Anthropic {
        check_blocks(&out);
    }
    String::from_utf8(out).unwrap()
}

/// Name and arguments of each call that the client of a dialect reads.
fn calls(to: Dialect, body: &str) -> Vec<(String, String)> {
    let decoded = decoded(to, Shape::Stream, body.as_bytes());
    decoded.calls.into_iter().map(|(_, name, arguments)| (name, arguments)).collect()
}

fn call(name: &str, arguments: &str) -> (String, String) {
    (name.to_owned(), arguments.to_owned())
}

/// BerriAI/litellm issues 25836, 25605 and 25321: the block of the tool was written, its arguments never.
#[test]
fn arguments_that_come_whole_reach_a_client_of_deltas() {
    let gemini = events(&[
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"add","args":{"a":17}}}]},"index":0,"finishReason":"STOP"}]}"#,
    ]);
    let ollama = concat!(
        r#"{"model":"q","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"add","arguments":{"a":17}}}]},"done":false}"#,
        "\n",
        r#"{"model":"q","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}"#,
        "\n"
    );
    let responses = events(&[
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"fc","type":"function_call","call_id":"c","name":"add","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":0,"item_id":"fc","arguments":"{\"a\":17}"}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
    ]);
    for (from, body) in [
        (Dialect::Gemini, gemini.as_str()),
        (Dialect::OllamaChat, ollama),
        (Dialect::OpenAiResponses, responses.as_str()),
    ] {
        for to in [Dialect::Anthropic, Dialect::OpenAiChat] {
            let out = client(from, to, body);
            assert_eq!(calls(to, &out), [call("add", r#"{"a":17}"#)], "{from:?} to {to:?}: {out}");
            assert_eq!(decoded(to, Shape::Stream, out.as_bytes()).finish, Some(FinishReason::ToolCalls));
        }
    }
}

/// BerriAI/litellm issue 18238: of a chunk with a text and a call the call's name was lost; issue 29286: an empty list of
/// calls beside every text made the texts empty arguments; issue 36327: of a thought and a text in one chunk the text was
/// lost.
#[test]
fn a_chunk_that_says_several_things_says_all_of_them() {
    let deltas = [
        r#"{"role":"assistant","content":"","tool_calls":[]}"#,
        r#"{"reasoning_content":"Hm.","content":"First","tool_calls":[]}"#,
        r#"{"content":" this.","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"Bash","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}"#,
    ];
    for to in [Dialect::Anthropic, Dialect::OpenAiResponses, Dialect::Gemini, Dialect::OllamaChat] {
        let out = client(Dialect::OpenAiChat, to, &chat(&deltas, "tool_calls"));
        let decoded = decoded(to, Shape::Stream, out.as_bytes());
        assert_eq!((decoded.reasoning.as_str(), decoded.answer.as_str()), ("Hm.", "First this."), "{to:?}: {out}");
        assert_eq!(calls(to, &out), [call("Bash", r#"{"x":1}"#)], "{to:?}: {out}");
    }
}

/// praxis-proxy/ai issue 266 and BerriAI/litellm issue 15307: arguments of calls that came in turns went to the wrong block,
/// or to one that had ended.
#[test]
fn interleaved_calls_are_encoded_one_after_the_other() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"{\"y\":\"}\""}}]}"#,
        r#"{"content":"\n"}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#,
        r#"{"content":"Wait."}"#,
    ];
    let expected = [call("f", r#"{"x":1}"#), call("g", r#"{"y":"}"}"#)];
    for to in [Dialect::Anthropic, Dialect::OpenAiResponses, Dialect::Gemini, Dialect::OllamaChat] {
        let out = client(Dialect::OpenAiChat, to, &chat(&deltas, "tool_calls"));
        assert_eq!(calls(to, &out), expected, "{to:?}: {out}");
        assert_eq!(decoded(to, Shape::Stream, out.as_bytes()).answer, "\nWait.", "{to:?}: {out}");
    }
    // The items of a response each have a place of their own.
    let out = client(Dialect::OpenAiChat, Dialect::OpenAiResponses, &chat(&deltas, "tool_calls"));
    let added = out.lines().filter(|line| line.contains("\"response.output_item.added\""));
    let places: Vec<u64> = added
        .filter_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).unwrap();
            event["output_index"].as_u64()
        })
        .collect();
    assert_eq!(places, (0..places.len() as u64).collect::<Vec<_>>(), "{out}");
}

/// A tool without arguments: no bytes are no JSON to a client that parses them.
#[test]
fn a_call_without_arguments_has_an_empty_object() {
    let anthropic = events(&[
        r#"{"type":"message_start","message":{"model":"c","usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t1","name":"now","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t2","name":"today","input":{}}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    for to in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Gemini, Dialect::OllamaChat] {
        let out = client(Dialect::Anthropic, to, &anthropic);
        assert_eq!(calls(to, &out), [call("now", "{}"), call("today", "{}")], "{to:?}: {out}");
    }
}

/// Arguments are JSON within a string: escaped once, whatever the pieces.
#[test]
fn arguments_are_escaped_once() {
    let arguments = r#"{"code":"print(\"a\\n\")","é":"😀"}"#;
    let pieces: Vec<char> = arguments.chars().collect();
    let mut lines = vec![
        r#"{"type":"message_start","message":{"model":"c"}}"#.to_owned(),
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"run","input":{}}}"#
            .to_owned(),
    ];
    for piece in pieces.chunks(3) {
        let text = Value::from(piece.iter().collect::<String>());
        let delta = format!(r#"{{"type":"input_json_delta","partial_json":{text}}}"#);
        lines.push(format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#));
    }
    lines.push(r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#.to_owned());
    lines.push(r#"{"type":"message_stop"}"#.to_owned());
    let body = events(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    for to in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::Gemini] {
        let out = client(Dialect::Anthropic, to, &body);
        let read: Value = serde_json::from_str(&calls(to, &out)[0].1).unwrap();
        assert_eq!(read, serde_json::from_str::<Value>(arguments).unwrap(), "{to:?}: {out}");
    }
}

/// maximhq/bifrost issue 974 and BerriAI/litellm issue 40654: thoughts under their other names were lost; elsewhere they
/// became part of the text.
#[test]
fn thoughts_stay_thoughts_whatever_they_are_called() {
    let chat = chat(&[r#"{"reasoning":"Hm."}"#, r#"{"content":"Yes."}"#], "stop");
    let responses = events(&[
        r#"{"type":"response.reasoning_text.delta","output_index":0,"item_id":"r","delta":"Hm."}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"item_id":"m","delta":"Yes."}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
    ]);
    for (from, body) in [(Dialect::OpenAiChat, &chat), (Dialect::OpenAiResponses, &responses)] {
        for to in Dialect::ALL.into_iter().filter(|to| *to != from) {
            let read = decoded(to, Shape::Stream, &translated(from, to, Shape::Stream, true, &[body.as_bytes()]).0);
            let plain = matches!(to, Dialect::OpenAiCompletions | Dialect::LlamaCompletion);
            assert_eq!(read.reasoning, if plain { "" } else { "Hm." }, "{from:?} to {to:?}");
            assert_eq!(read.answer, "Yes.", "{from:?} to {to:?}");
        }
    }
}

/// Counts in every chunk, with the reason to stop, and once more in a chunk of their own: the client gets them once, in
/// their place; who did not ask gets none.
#[test]
fn counts_and_the_reason_to_stop_come_once_and_at_the_end() {
    let body = events(&[
        r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":1,"total_tokens":5}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#,
        "[DONE]",
    ]);
    let out = client(Dialect::OpenAiChat, Dialect::OpenAiResponses, &body);
    assert_eq!(out.matches("\"output_tokens\":2").count(), 1, "{out}");
    let out = client(Dialect::OpenAiChat, Dialect::Anthropic, &body);
    assert_eq!(out.matches("event: message_delta").count(), 1, "{out}");
    assert!(out.contains(r#""stop_reason":"max_tokens""#) && !out.contains("end_turn"), "{out}");
    let anthropic = out;
    let chat = client(Dialect::Anthropic, Dialect::OpenAiChat, &anthropic);
    let mut tail: Vec<&str> = chat.trim_end().split("\n\n").collect();
    tail.reverse();
    assert_eq!(tail[0], "data: [DONE]");
    assert!(tail[1].contains(r#""choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2"#), "{chat}");
    assert!(tail[2].contains(r#""finish_reason":"length""#), "{chat}");
    let (unasked, _) =
        translated(Dialect::Anthropic, Dialect::OpenAiChat, Shape::Stream, false, &[anthropic.as_bytes()]);
    assert!(!String::from_utf8(unasked).unwrap().contains("usage"));
}

/// BerriAI/litellm issue 32686: a stream that broke off was completed with a made-up reason; issue 38610: an error before
/// the first text came after the beginning of a message; issue 40345: something followed the end.
#[test]
fn a_broken_stream_is_an_error_and_an_ended_one_is_over() {
    let text = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let more = r#"{"choices":[{"index":0,"delta":{"content":"Half of"}}]}"#;
    let error = r#"{"error":{"message":"overloaded","type":"overloaded_error","code":503}}"#;
    let transcript_of = |lines: &[&str]| {
        let body = events(lines);
        let (out, progress) =
            translated(Dialect::OpenAiChat, Dialect::Anthropic, Shape::Stream, true, &[body.as_bytes()]);
        (String::from_utf8(out).unwrap(), progress)
    };
    let (out, progress) = transcript_of(&[text, more]);
    assert_eq!(progress, Progress::Failed(FailureKind::Truncated));
    assert!(
        out.contains("event: error") && !out.contains("message_stop") && !out.contains("stop_reason\":\""),
        "{out}"
    );
    let (out, progress) = transcript_of(&[text, error]);
    assert_eq!(progress, Progress::Failed(FailureKind::Overloaded));
    assert!(out.starts_with("event: error") && out.contains("overloaded_error"), "{out}");
    let ended = chat(&[r#"{"content":"x"}"#], "stop");
    let (out, _) = transcript_of(&[]);
    assert!(out.starts_with("event: error"), "nothing at all is no answer: {out}");
    let after = format!("{ended}{}", events(&[more, error]));
    assert_eq!(
        client(Dialect::OpenAiChat, Dialect::Anthropic, &after),
        client(Dialect::OpenAiChat, Dialect::Anthropic, &ended)
    );
}

/// What the model refuses with is text, and an unknown reason to stop is none that clients do not know.
#[test]
fn refusals_become_text_and_finish_reasons_are_those_of_the_dialect() {
    let body = chat(&[r#"{"refusal":"I "}"#, r#"{"refusal":"cannot."}"#], "content_filter");
    let out = client(Dialect::OpenAiChat, Dialect::Anthropic, &body);
    assert_eq!(decoded(Dialect::Anthropic, Shape::Stream, out.as_bytes()).answer, "I cannot.");
    assert!(out.contains(r#""stop_reason":"refusal""#), "{out}");
    let odd = events(&[r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"LANGUAGE"}]}"#]);
    assert!(client(Dialect::Gemini, Dialect::OpenAiChat, &odd).contains(r#""finish_reason":"stop""#));
    assert!(client(Dialect::Gemini, Dialect::Anthropic, &odd).contains(r#""stop_reason":"end_turn""#));
}
