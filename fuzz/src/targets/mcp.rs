//! Lines to the server of the Model Context Protocol: every request is answered once, by its own id, and nothing else is.
//!
//! It does not edit files: the tool is a stand-in that tells what it was asked. Invariant: the lines of the input are the messages.

use serde_json::{Value, json};
use std::sync::Arc;
use tokrate_apply_host::mcp::{Cancelled, Incoming, Server, Tool, ToolResult};

/// Cancelled requests that may be remembered, whatever comes.
const CANCELLED_MOST: usize = 256;

struct Repeats;

impl Tool for Repeats {
    fn name(&self) -> &str {
        "edit_file"
    }

    fn description(&self) -> Value {
        json!({"name": "edit_file"})
    }

    fn call(&self, arguments: &Value, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String> {
        let path = arguments["path"].as_str().ok_or("`path` is missing")?;
        Ok(ToolResult { text: path.to_owned(), word: "deterministic", is_error: cancelled(), structured: Value::Null })
    }
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let cancelled = Arc::<Cancelled>::default();
    let mut server = Server::new(vec![Box::new(Repeats)], Arc::clone(&cancelled));
    for line in input.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let incoming = Incoming::read(line);
        cancelled.watch(&incoming);
        assert!(cancelled.count() <= CANCELLED_MOST);
        let before: Vec<Value> = requests(&incoming).filter(|id| cancelled.contains(id)).collect();
        let answer = server.answer(&incoming);
        if let Some(answer) = &answer {
            assert!(!answer.contains('\n'), "an answer is a line");
        }
        let answers: Vec<Value> = match answer.map(|answer| serde_json::from_str(&answer).expect("an answer is JSON")) {
            None => Vec::new(),
            Some(Value::Array(answers)) => answers,
            Some(answer) => vec![answer],
        };
        check(&incoming, &answers, &before);
    }
}

/// The ids of the messages that want an answer, in order: of requests, and of those that would be if they named a method.
fn requests(incoming: &Incoming) -> impl Iterator<Item = Value> {
    let messages = match incoming {
        Incoming::Message(Value::Array(batch)) => batch.clone(),
        Incoming::Message(message) => vec![message.clone()],
        Incoming::Broken(_) | Incoming::TooLong => Vec::new(),
    };
    messages.into_iter().filter_map(|message| {
        let is_answer = message.get("result").is_some() || message.get("error").is_some();
        let is_request = message["jsonrpc"] == "2.0" && (message["method"].is_string() || !is_answer);
        let id = message.get("id").filter(|id| id.is_string() || id.is_number())?;
        is_request.then(|| id.clone())
    })
}

fn check(incoming: &Incoming, answers: &[Value], cancelled: &[Value]) {
    for answer in answers {
        assert_eq!(answer["jsonrpc"], "2.0");
        let (result, error) = (answer.get("result"), answer.get("error"));
        assert!(result.is_some() != error.is_some(), "{answer}");
        assert!(answer["id"].is_string() || answer["id"].is_number() || answer["id"].is_null(), "{answer}");
        let message = error.map(|error| &error["message"]);
        assert!(message.is_none_or(|message| message.as_str().is_some_and(|text| !text.is_empty())), "{answer}");
    }
    let answered: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).filter(|id| !id.is_null()).collect();
    if matches!(incoming, Incoming::Broken(_)) {
        assert!(answers.len() == 1 && answered.is_empty());
        return;
    }
    // In order, all of them; one that was cancelled, and one of the same id, may be left out.
    let mut answered = answered.into_iter().peekable();
    for id in requests(incoming) {
        if answered.next_if(|found| **found == id).is_none() {
            assert!(cancelled.contains(&id), "the request {id} got no answer");
        }
    }
    assert_eq!(answered.next(), None, "an answer to nothing");
}
