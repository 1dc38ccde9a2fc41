//! Chat requests: written for a server, and read as a server.
//!
//! It refuses to know limits and keys. Invariant: what is not set is not written, and a field without a name of its own in
//! [`ChatRequest`] survives reading and writing as the JSON it was.

use crate::dialect::Dialect;
use crate::error::WireError;
use crate::json_text::push_string;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use tokrate_core::{ChatRequest, Message, Role};

/// The body of a request.
///
/// A field in [`ChatRequest::extra`] replaces the field of that name which would be written otherwise. Token counts are
/// asked for only together with a stream, because OpenAI refuses `stream_options` without one. A temperature that is not
/// finite is left out: JSON cannot say it.
pub fn encode_request(dialect: Dialect, request: &ChatRequest) -> Vec<u8> {
    let Dialect::OpenAiChat = dialect;
    let text_bytes: usize =
        request.messages.iter().map(|message| message.texts().map(str::len).sum::<usize>() + 40).sum();
    let mut body = Body { out: Vec::with_capacity(text_bytes + 256), extra: &request.extra };
    body.out.push(b'{');
    if let Some(out) = body.field("model") {
        push_string(&request.model, out);
    }
    if let Some(out) = body.field("messages") {
        push_messages(&request.messages, out);
    }
    if request.stream {
        body.plain("stream", "true");
        if request.include_usage {
            body.plain("stream_options", r#"{"include_usage":true}"#);
        }
    }
    if let Some(limit) = request.max_output_tokens {
        let name = if request.legacy_max_tokens { "max_tokens" } else { "max_completion_tokens" };
        body.plain(name, &limit.to_string());
    }
    if request.ignore_eos {
        body.plain("ignore_eos", "true");
    }
    if let Some(number) = request.temperature.and_then(serde_json::Number::from_f64) {
        body.plain("temperature", &number.to_string());
    }
    if let Some(seed) = request.seed {
        body.plain("seed", &seed.to_string());
    }
    let Body { mut out, extra } = body;
    for (name, json) in extra {
        begin_field(name, &mut out);
        out.extend_from_slice(json.as_bytes());
    }
    out.push(b'}');
    out
}

/// Reads the body of a request.
///
/// Content given as parts is flattened to its text; pictures and the like are left out. Of a repeated field the last counts.
///
/// # Errors
/// When the body is no JSON object, when `model` or `messages` is absent, or when a field has a value of a wrong type.
pub fn decode_request(dialect: Dialect, body: &[u8]) -> Result<ChatRequest, WireError> {
    let Dialect::OpenAiChat = dialect;
    let Fields(fields) = serde_json::from_slice(body).map_err(|error| {
        if error.is_data() { WireError::NotAnObject } else { WireError::NotJson(error.to_string()) }
    })?;
    let mut request = ChatRequest::default();
    let (mut model, mut messages, mut limits) = (None, None, [None, None]);
    for (name, json) in fields {
        let json = json.get();
        match &*name {
            "model" => model = Some(read::<Cow<'_, str>>("model", "a string", json)?),
            "messages" => messages = Some(read_messages(json)?),
            _ if json == "null" => {}
            "stream" => request.stream = read("stream", "true or false", json)?,
            "stream_options" => read_stream_options(json, &mut request)?,
            "max_completion_tokens" => {
                limits[0] = Some(read("max_completion_tokens", "a whole number from 0 to 4294967295", json)?);
            }
            "max_tokens" => limits[1] = Some(read("max_tokens", "a whole number from 0 to 4294967295", json)?),
            "ignore_eos" => request.ignore_eos = read("ignore_eos", "true or false", json)?,
            "temperature" => request.temperature = Some(read_temperature(json)?),
            "seed" => match read::<Value>("seed", "a whole number", json)?.as_u64() {
                Some(seed) => request.seed = Some(seed),
                None => keep(&mut request.extra, &name, json),
            },
            _ => keep(&mut request.extra, &name, json),
        }
    }
    request.model = model.ok_or(WireError::Missing("model"))?.into_owned();
    request.messages = messages.ok_or(WireError::Missing("messages"))?;
    request.max_output_tokens = limits[0].or(limits[1]);
    request.legacy_max_tokens = limits[0].is_none() && limits[1].is_some();
    if let [Some(_), Some(older)] = limits {
        keep(&mut request.extra, "max_tokens", &u32::to_string(&older));
    }
    Ok(request)
}

struct Body<'r> {
    out: Vec<u8>,
    extra: &'r [(String, String)],
}

impl Body<'_> {
    /// Begins a field, unless an extra field takes its place.
    fn field(&mut self, name: &str) -> Option<&mut Vec<u8>> {
        if self.extra.iter().any(|(extra, _)| extra == name) {
            return None;
        }
        begin_field(name, &mut self.out);
        Some(&mut self.out)
    }

    fn plain(&mut self, name: &str, json: &str) {
        if let Some(out) = self.field(name) {
            out.extend_from_slice(json.as_bytes());
        }
    }
}

fn begin_field(name: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') || out.len() > 1 {
        out.push(b',');
    }
    push_string(name, out);
    out.push(b':');
}

fn push_messages(messages: &[Message], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, message) in messages.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(message.role.name().as_bytes());
        out.extend_from_slice(b"\",\"content\":");
        push_string(&message.texts().collect::<String>(), out);
        out.push(b'}');
    }
    out.push(b']');
}

/// The fields of an object in their order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Deserialize<'a> for Fields<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Fields<'a>, D::Error> {
        struct InOrder;
        impl<'a> Visitor<'a> for InOrder {
            type Value = Fields<'a>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<Fields<'a>, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, json)) = object.next_entry::<String, &'a RawValue>()? {
                    fields.push((Cow::Owned(name), json));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fn read<'a, T: Deserialize<'a>>(field: &'static str, expected: &'static str, json: &'a str) -> Result<T, WireError> {
    serde_json::from_str(json).map_err(|_| WireError::Invalid { field, expected })
}

fn keep(extra: &mut Vec<(String, String)>, name: &str, json: &str) {
    extra.retain(|(earlier, _)| earlier != name);
    extra.push((name.to_owned(), json.to_owned()));
}

/// The standard library reads a number to the nearest float, which serde_json does not by default.
fn read_temperature(json: &str) -> Result<f64, WireError> {
    let number = json.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or(WireError::Invalid { field: "temperature", expected: "a number" })
}

/// `include_usage` has a name of its own; options beside it are kept as they are.
fn read_stream_options(json: &str, request: &mut ChatRequest) -> Result<(), WireError> {
    let options: serde_json::Map<String, Value> = read("stream_options", "an object", json)?;
    request.include_usage = options.get("include_usage") == Some(&Value::Bool(true));
    if options.keys().any(|name| name != "include_usage") {
        keep(&mut request.extra, "stream_options", json);
    }
    Ok(())
}

fn read_messages(json: &str) -> Result<Vec<Message>, WireError> {
    let messages: Vec<Value> = read("messages", "an array of objects with role and content", json)?;
    messages.iter().map(read_message).collect()
}

fn read_message(message: &Value) -> Result<Message, WireError> {
    let invalid = |field, expected| WireError::Invalid { field, expected };
    let role = match message["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => return Err(invalid("messages[].role", "system, developer, user, assistant or tool")),
    };
    let content = match &message["content"] {
        Value::Null => String::new(),
        Value::String(content) => content.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.as_str().or(part["text"].as_str())).collect(),
        _ => return Err(invalid("messages[].content", "a string or an array of parts")),
    };
    Ok(Message::text(role, content))
}

#[cfg(test)]
mod tests;
