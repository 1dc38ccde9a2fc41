//! The session that a client names: in the log, and nowhere else.

use crate::client::{ask, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use tokrate_gateway::Mode;
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";
const BODY: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn a_session_is_in_the_log_and_is_not_sent_on() {
    let scripted = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let lanes = vec![lane("one", scripted.address, &[Dialect::OpenAiChat])];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    for name in ["run-17", "ada@example.org"] {
        let answer = ask(gateway.address, "POST", PATH, &[("x-tokrate-session", name)], BODY.as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(post(gateway.address, PATH, BODY).status, 200);
    for request in scripted.requests() {
        let request = format!("{request:?}").to_ascii_lowercase();
        assert!(!request.contains("x-tokrate-session") && !request.contains("run-17"), "{request}");
    }
    let mut sessions: Vec<Option<String>> = gateway.rows().into_iter().map(|row| row.session).collect();
    sessions.sort();
    assert_eq!((&sessions[0], sessions[2].as_deref()), (&None, Some("run-17")));
    let hashed = sessions[1].as_deref().expect("a hash");
    assert!(hashed.starts_with('#') && !hashed.contains("ada"), "{hashed}");
}

#[test]
fn what_agents_send_by_themselves_names_the_session_unless_ours_does() {
    let scripted = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let lanes = vec![lane("one", scripted.address, &[Dialect::OpenAiChat])];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    let named = ["x-claude-code-session-id", "session-id", "x-session-id"];
    for (number, name) in named.into_iter().enumerate() {
        let value = format!("run-{number}");
        assert_eq!(ask(gateway.address, "POST", PATH, &[(name, &value)], BODY.as_bytes()).status, 200);
    }
    let both = [("x-session-id", "theirs"), ("x-tokrate-session", "ours")];
    assert_eq!(ask(gateway.address, "POST", PATH, &both, BODY.as_bytes()).status, 200);
    let sessions: Vec<String> = gateway.rows().into_iter().filter_map(|row| row.session).collect();
    assert_eq!(sessions, ["run-0", "run-1", "run-2", "ours"]);
}
