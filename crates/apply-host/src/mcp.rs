//! JSON-RPC 2.0 and the handshake of the Model Context Protocol: a line becomes its answer, without input and output.
//!
//! It does not know what the tool does. Invariant: an answer carries the request's own id, every request is answered once
//! unless it was cancelled, and notifications are not answered.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

/// Supported protocol versions, oldest first.
const VERSIONS: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

/// Most cancelled requests remembered: more than a client has open, and a bound for clients that cancel requests which do not
/// exist or were answered.
const MAX_CANCELLED: usize = 256;
/// Longest request id remembered (bytes); usual ones are numbers or UUIDs.
const MAX_ID_BYTES: usize = 1024;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// A received line.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming {
    /// JSON.
    Message(Value),
    /// Invalid JSON, and the error.
    Broken(String),
    /// Longer than the limit.
    TooLong,
}

impl Incoming {
    /// Parses a line.
    pub fn read(line: &[u8]) -> Incoming {
        match serde_json::from_slice(line) {
            Ok(message) => Incoming::Message(message),
            Err(error) => Incoming::Broken(error.to_string()),
        }
    }
}

/// A tool offered to a model.
pub trait Tool {
    /// Its name.
    fn name(&self) -> &str;
    /// Its description for the model.
    fn description(&self) -> Value;
    /// Runs a call; it checks `cancelled` before it changes anything.
    ///
    /// # Errors
    /// When the arguments are invalid.
    fn call(&self, arguments: &Value, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String>;
}

/// Result of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolResult {
    /// What was done, or why nothing was.
    pub text: String,
    /// `deterministic`, `model`, `no_change` or `refused`.
    pub word: &'static str,
    /// Whether nothing was changed.
    pub is_error: bool,
    /// The same for programs, as the tool's `outputSchema` says; null if it has none.
    pub structured: Value,
}

/// Cancelled requests, oldest first.
#[derive(Debug, Default)]
pub struct Cancelled(Mutex<VecDeque<String>>);

impl Cancelled {
    /// Records the cancellation in a message, if any.
    pub fn watch(&self, message: &Incoming) {
        let Incoming::Message(message) = message else { return };
        let each = message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice);
        for message in each.iter().filter(|message| message["method"] == "notifications/cancelled") {
            let id = &message["params"]["requestId"];
            if is_id(id) {
                self.remember(id.to_string());
            }
        }
    }

    /// Whether a request was cancelled.
    pub fn contains(&self, id: &Value) -> bool {
        self.ids().contains(&id.to_string())
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.ids().len()
    }

    fn remember(&self, id: String) {
        let mut ids = self.ids();
        if id.len() > MAX_ID_BYTES || ids.contains(&id) {
            return;
        }
        if ids.len() == MAX_CANCELLED {
            ids.pop_front();
        }
        ids.push_back(id);
    }

    /// Forgets a request: it has ended.
    fn forget(&self, id: &Value) {
        let id = id.to_string();
        self.ids().retain(|other| *other != id);
    }

    fn ids(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().expect("no code panics while it holds the lock")
    }
}

/// An MCP server.
pub struct Server {
    tools: Vec<Box<dyn Tool>>,
    cancelled: Arc<Cancelled>,
}

struct Failure(i32, String);

impl Server {
    /// A server of tools.
    pub fn new(tools: Vec<Box<dyn Tool>>, cancelled: Arc<Cancelled>) -> Server {
        Server { tools, cancelled }
    }

    /// The answer to a line, if it has one.
    pub fn answer(&mut self, incoming: &Incoming) -> Option<String> {
        let answer = match incoming {
            Incoming::Broken(what) => Some(failure(&Value::Null, PARSE_ERROR, &format!("this is not JSON: {what}"))),
            Incoming::TooLong => Some(failure(&Value::Null, INVALID_REQUEST, "the message is too long")),
            Incoming::Message(Value::Array(batch)) if batch.is_empty() => {
                Some(failure(&Value::Null, INVALID_REQUEST, "the batch is empty"))
            }
            Incoming::Message(Value::Array(batch)) => {
                let answers: Vec<Value> = batch.iter().filter_map(|message| self.handle_message(message)).collect();
                (!answers.is_empty()).then_some(Value::Array(answers))
            }
            Incoming::Message(message) => self.handle_message(message),
        };
        answer.map(|answer| answer.to_string())
    }

    fn handle_message(&mut self, message: &Value) -> Option<Value> {
        let Some(object) = message.as_object().filter(|object| object.get("jsonrpc") == Some(&"2.0".into())) else {
            let what = "a message is an object with \"jsonrpc\": \"2.0\"";
            return Some(failure(&Value::Null, INVALID_REQUEST, what));
        };
        let method = object.get("method").and_then(Value::as_str);
        let (id, method) = match (object.get("id"), method) {
            (Some(id), Some(method)) if is_id(id) => (id, method),
            (Some(_), Some(_)) => {
                return Some(failure(&Value::Null, INVALID_REQUEST, "an id is a string or a number"));
            }
            (Some(id), None) if !object.contains_key("result") && !object.contains_key("error") => {
                let what = "a request has the name of a method";
                return Some(failure(if is_id(id) { id } else { &Value::Null }, INVALID_REQUEST, what));
            }
            // Answers to requests that were never sent, and notifications.
            _ => return None,
        };
        let result = self.result(id, method, object.get("params").unwrap_or(&Value::Null));
        let cancelled = self.cancelled.contains(id);
        self.cancelled.forget(id);
        if cancelled {
            return None;
        }
        Some(match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(Failure(code, message)) => failure(id, code, &message),
        })
    }

    fn result(&self, id: &Value, method: &str, params: &Value) -> Result<Value, Failure> {
        match method {
            "initialize" => Ok(initialized(params)),
            "ping" => Ok(json!({})),
            "tools/list" => {
                let tools: Vec<Value> = self.tools.iter().map(|tool| tool.description()).collect();
                Ok(json!({"tools": tools}))
            }
            "tools/call" => self.call(id, params),
            _ => Err(Failure(METHOD_NOT_FOUND, format!("there is no method {method} here"))),
        }
    }

    fn call(&self, id: &Value, params: &Value) -> Result<Value, Failure> {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(tool) = self.tools.iter().find(|tool| tool.name() == name) else {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name()).collect();
            return Err(Failure(INVALID_PARAMS, format!("there is no tool `{name}`; there is {}", known.join(", "))));
        };
        let called = tool.call(&params["arguments"], &|| self.cancelled.contains(id));
        let ToolResult { text, word, is_error, structured } = called.map_err(|what| Failure(INVALID_PARAMS, what))?;
        let mut result = json!({
            "content": [{"type": "text", "text": text}],
            "isError": is_error,
            "_meta": {"tokrate/apply": word},
        });
        if !structured.is_null() {
            result["structuredContent"] = structured;
        }
        Ok(result)
    }
}

/// The handshake: the client's version if supported, else the latest.
fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[VERSIONS.len() - 1]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "tokrate", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Whether a value can be a request's id.
fn is_id(value: &Value) -> bool {
    value.is_string() || value.is_number()
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Tool for Nothing {
        fn name(&self) -> &str {
            "nothing"
        }

        fn description(&self) -> Value {
            json!({"name": "nothing"})
        }

        fn call(&self, _: &Value, _: &dyn Fn() -> bool) -> Result<ToolResult, String> {
            Ok(ToolResult { text: String::new(), word: "deterministic", is_error: false, structured: Value::Null })
        }
    }

    fn answer(line: &str) -> Option<Value> {
        let mut server = Server::new(vec![Box::new(Nothing)], Arc::default());
        let answer = server.answer(&Incoming::read(line.as_bytes()))?;
        Some(serde_json::from_str(&answer).expect("an answer is JSON"))
    }

    #[test]
    fn cancelling_what_nobody_asked_for_takes_no_memory_without_end() {
        let cancelled = Cancelled::default();
        let cancel = |id: Value| {
            cancelled.watch(&Incoming::Message(
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            ));
        };
        for id in 0..10_000 {
            cancel(json!(id));
        }
        cancel(json!("x".repeat(1 << 20)));
        cancel(json!({"a": 1}));
        assert_eq!(cancelled.count(), MAX_CANCELLED);
        assert!(cancelled.contains(&json!(9_999)) && !cancelled.contains(&json!(0)));
    }

    #[test]
    fn a_request_without_the_name_of_a_method_is_answered_and_does_not_hang() {
        for line in [r#"{"jsonrpc":"2.0","id":7}"#, r#"{"jsonrpc":"2.0","id":7,"method":5}"#] {
            let answer = answer(line).expect(line);
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(INVALID_REQUEST)), "{line}");
        }
        assert_eq!(answer(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), None, "an answer is not answered");
        assert_eq!(answer(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#), None);
    }

    #[test]
    fn an_id_that_is_none_is_not_repeated() {
        let answer = answer(r#"{"jsonrpc":"2.0","id":{"a":[1]},"method":"ping"}"#).expect("an error");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(INVALID_REQUEST)));
    }
}
