//! JSON-RPC 2.0 and the handshake of the Model Context Protocol.
//!
//! It refuses to know what tools do. Invariant: an answer carries the request's own id; notifications have none.

use super::tool::{Called, EditFile};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Versions that are spoken, oldest first.
const VERSIONS: [&str; 3] = ["2024-11-05", "2025-03-26", "2025-06-18"];

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// A line as it came.
#[derive(Clone, PartialEq, Debug)]
pub enum Incoming {
    /// JSON.
    Message(Value),
    /// Something else, and what is wrong with it.
    Broken(String),
    /// More than is read.
    TooLong,
}

impl Incoming {
    /// Reads a line.
    pub fn read(line: &[u8]) -> Incoming {
        match serde_json::from_slice(line) {
            Ok(message) => Incoming::Message(message),
            Err(error) => Incoming::Broken(error.to_string()),
        }
    }
}

/// Requests that the client wants no more.
#[derive(Debug, Default)]
pub struct Cancelled(Mutex<BTreeSet<String>>);

impl Cancelled {
    /// Remembers what a message cancels.
    pub fn watch(&self, message: &Incoming) {
        let Incoming::Message(message) = message else { return };
        let each = message.as_array().map_or(std::slice::from_ref(message), Vec::as_slice);
        for message in each.iter().filter(|message| message["method"] == "notifications/cancelled") {
            let id = &message["params"]["requestId"];
            if !id.is_null() {
                self.0.lock().expect("nobody panics while it holds this").insert(id.to_string());
            }
        }
    }

    /// Whether a request is among them.
    pub fn holds(&self, id: &Value) -> bool {
        self.0.lock().expect("nobody panics while it holds this").contains(&id.to_string())
    }

    /// Forgets a request: it has ended.
    fn forget(&self, id: &Value) {
        self.0.lock().expect("nobody panics while it holds this").remove(&id.to_string());
    }
}

/// Answers messages.
pub struct Server {
    tool: EditFile,
    cancelled: Arc<Cancelled>,
}

struct Failure(i32, String);

impl Server {
    /// A server of one tool.
    pub fn new(tool: EditFile, cancelled: Arc<Cancelled>) -> Server {
        Server { tool, cancelled }
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
                let answers: Vec<Value> = batch.iter().filter_map(|message| self.one(message)).collect();
                (!answers.is_empty()).then_some(Value::Array(answers))
            }
            Incoming::Message(message) => self.one(message),
        };
        answer.map(|answer| answer.to_string())
    }

    fn one(&mut self, message: &Value) -> Option<Value> {
        let Some(object) = message.as_object().filter(|object| object.get("jsonrpc") == Some(&"2.0".into())) else {
            let what = "a message is an object with \"jsonrpc\": \"2.0\"";
            return Some(failure(&Value::Null, INVALID_REQUEST, what));
        };
        let method = object.get("method").and_then(Value::as_str);
        let (id, method) = match (object.get("id"), method) {
            (Some(id), Some(method)) if id.is_string() || id.is_number() => (id, method),
            (Some(id), Some(_)) => return Some(failure(id, INVALID_REQUEST, "an id is a string or a number")),
            // Answers to requests that were never sent, and notifications.
            _ => return None,
        };
        let result = self.result(id, method, object.get("params").unwrap_or(&Value::Null));
        let cancelled = self.cancelled.holds(id);
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
            "tools/list" => Ok(json!({"tools": [EditFile::description()]})),
            "tools/call" => self.call(id, params),
            _ => Err(Failure(METHOD_NOT_FOUND, format!("there is no method {method} here"))),
        }
    }

    fn call(&self, id: &Value, params: &Value) -> Result<Value, Failure> {
        let name = params["name"].as_str().unwrap_or_default();
        if name != EditFile::NAME {
            return Err(Failure(INVALID_PARAMS, format!("there is no tool `{name}`; there is {}", EditFile::NAME)));
        }
        let called = self.tool.call(&params["arguments"], &|| self.cancelled.holds(id));
        let Called { text, word, is_error } = called.map_err(|what| Failure(INVALID_PARAMS, what))?;
        Ok(json!({
            "content": [{"type": "text", "text": text}],
            "isError": is_error,
            "_meta": {"tokrate/apply": word},
        }))
    }
}

/// The handshake: the client's version if it is spoken here, else the latest.
fn initialized(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(VERSIONS[VERSIONS.len() - 1]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "tokrate", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn failure(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
