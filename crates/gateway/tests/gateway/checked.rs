//! Answers that are held against a rule before a client gets any of them.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use std::sync::Arc;
use tokrate_core::FailureKind;
use tokrate_gateway::{AnswerCheck, Config, Mode};
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
    let check =
        AnswerCheck { aliases: vec!["all".to_owned()], exempt: vec!["engine".to_owned()], check: Arc::new(check) };
    Config { answer_check: Some(check), ..configured(lanes, Mode::Off) }
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
