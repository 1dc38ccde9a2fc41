//! Answers that are held against a rule before a client gets any of them.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use std::sync::Arc;
use tokrate_core::FailureKind;
use tokrate_gateway::{AnswerCheck, Config, Instructed, Mode};
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";

fn body(stream: bool) -> String {
    format!(r#"{{"model":"all","stream":{stream},"messages":[{{"role":"user","content":"edit it"}}]}}"#)
}

/// Lanes in this order, whose answers have to be `good` but those of `engine`.
fn checked(lanes: &[(&str, &Scripted)]) -> Config {
    let lanes = lanes.iter().map(|(name, scripted)| lane(name, scripted.address, &[Dialect::OpenAiChat])).collect();
    let check = |request: &[u8], answer: &str| {
        assert!(String::from_utf8_lossy(request).contains("edit it"));
        if answer == "good" { Ok(()) } else { Err(format!("`{answer}` breaks the rule")) }
    };
    let check = AnswerCheck {
        aliases: vec!["all".to_owned()],
        exempt: vec!["engine".to_owned()],
        check: Arc::new(check),
        instructed: None,
    };
    Config { answer_check: Some(check), ..configured(lanes, Mode::Off) }
}

/// The same, with models that are told what to write.
fn instructed(lanes: &[(&str, &Scripted, Dialect)]) -> Config {
    let of = |(name, scripted, dialect): &(&str, &Scripted, Dialect)| lane(name, scripted.address, &[*dialect]);
    let finish = |request: &[u8], text: &str| {
        assert!(String::from_utf8_lossy(request).contains("edit it"));
        text.strip_prefix("edit: ")
            .map(|edit| format!("file with {edit}"))
            .ok_or_else(|| format!("`{text}` is no edit"))
    };
    let instructed = Instructed {
        lanes: lanes.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        text: "write edits".into(),
        finish: Arc::new(finish),
    };
    let mut config = configured(lanes.iter().map(of).collect(), Mode::Off);
    config.answer_check = checked(&[]).answer_check.map(|check| AnswerCheck { instructed: Some(instructed), ..check });
    config
}

#[test]
fn a_model_is_told_what_to_write_and_the_client_gets_what_is_made_of_it() {
    for is_stream in [false, true] {
        for dialect in [Dialect::OpenAiChat, Dialect::Anthropic] {
            let said = match (dialect, is_stream) {
                (Dialect::OpenAiChat, _) => saying("edit: x", is_stream),
                (_, _) => Scripted::start(vec![Script::Send(vec![whole(
                    "200 OK",
                    r#"{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"edit: x"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}"#,
                )])]),
            };
            let mut gateway = TestGateway::start(instructed(&[("told", &said, dialect)]));
            let answer = post(gateway.address, PATH, &body(is_stream));
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.text().contains("file with x") && !answer.text().contains("edit: x"), "{}", answer.text());
            assert_eq!(answer.text().matches("[DONE]").count(), usize::from(is_stream), "{}", answer.text());
            let sent = String::from_utf8_lossy(&said.requests()[0].body).into_owned();
            assert!(sent.contains("write edits") && sent.contains("edit it"), "{sent}");
            let sample = &gateway.rows()[0].sample;
            assert_eq!((sample.input_tokens, sample.output_tokens), (Some(5), Some(2)), "what its provider bills");
        }
    }
}

#[test]
fn an_answer_of_which_nothing_can_be_made_is_a_failed_attempt() {
    let (talks, edits) = (saying("Sure!", true), saying("edit: y", true));
    let chat = Dialect::OpenAiChat;
    let gateway = TestGateway::start(instructed(&[("talks", &talks, chat), ("edits", &edits, chat)]));
    let answer = post(gateway.address, PATH, &body(true));
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("edits")), "{}", answer.text());
    assert!(answer.text().contains("file with y") && !answer.text().contains("Sure"), "{}", answer.text());
    let gateway = TestGateway::start(instructed(&[("talks", &talks, chat)]));
    let answer = post(gateway.address, PATH, &body(false));
    assert!(answer.status == 422 && answer.text().contains("`Sure!` is no edit"), "{}", answer.text());
    let plain = saying("edit: z", false);
    let gateway = TestGateway::start(instructed(&[("plain", &plain, Dialect::OpenAiCompletions)]));
    let answer = post(gateway.address, PATH, &body(false));
    assert!(answer.status == 400 && answer.text().contains("cannot be told how to write"), "{}", answer.text());
    assert!(plain.requests().is_empty());
}

fn saying(text: &str, is_stream: bool) -> Scripted {
    let answer = if is_stream { stream(&chat_events(&[text])) } else { whole("200 OK", &chat_whole(text)) };
    Scripted::start(vec![Script::Send(vec![answer])])
}

#[test]
fn an_answer_that_breaks_the_rule_is_a_failed_attempt_and_the_next_lane_is_asked() {
    for is_stream in [false, true] {
        let (bad, good) = (saying("bad", is_stream), saying("good", is_stream));
        let mut gateway = TestGateway::start(checked(&[("bad", &bad), ("good", &good)]));
        let answer = post(gateway.address, PATH, &body(is_stream));
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
        assert!(answer.text().contains("good") && !answer.text().contains("bad"), "{}", answer.text());
        let rows = gateway.rows();
        assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::EditRefused)));
        assert!(rows[0].sample.cost_usd > Some(0.0), "its provider bills it all the same: {:?}", rows[0]);
    }
}

#[test]
fn an_answer_is_checked_when_its_end_has_come_even_if_its_connection_never_ends() {
    let mut unended = stream(&chat_events(&["bad"]));
    unended.truncate(unended.len() - b"0\r\n\r\n".len());
    for is_stream in [false, true] {
        let bad = Scripted::start(vec![Script::SendAndStall(unended.clone())]);
        let good = saying("good", true);
        let gateway = TestGateway::start(checked(&[("bad", &bad), ("good", &good)]));
        let answer = post(gateway.address, PATH, &body(is_stream));
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
        assert!(!answer.text().contains("bad"), "{}", answer.text());
    }
}

#[test]
fn where_no_answer_keeps_the_rule_the_client_is_told_why_and_gets_none_of_them() {
    for is_stream in [false, true] {
        let bad = saying("bad", is_stream);
        let gateway = TestGateway::start(checked(&[("bad", &bad)]));
        let answer = post(gateway.address, PATH, &body(is_stream));
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert!(answer.text().contains("lane bad: edit refused: `bad` breaks the rule"), "{}", answer.text());
    }
}

#[test]
fn lanes_that_need_no_check_and_other_names_are_left_as_they_are() {
    let bad = saying("bad", true);
    let gateway = TestGateway::start(checked(&[("engine", &bad)]));
    assert_eq!(post(gateway.address, PATH, &body(true)).status, 200);
    let gateway = TestGateway::start(checked(&[("bad", &bad)]));
    let by_lane = body(true).replace("\"all\"", "\"bad\"");
    assert_eq!(post(gateway.address, PATH, &by_lane).status, 200, "the lane by its own name");
}
