//! Decodes response bodies as a client of each dialect does, without the product's own decoders.
//!
//! Invariant: no event is skipped silently: one that cannot be parsed is counted.

use super::plan::ClientDialect;
use serde_json::Value;

/// A decoded response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedResponse {
    /// The answer's text, reasoning left out.
    pub text: String,
    /// Whether a finish reason came.
    pub has_finish_reason: bool,
    /// Whether the dialect's end marker came.
    pub has_end_marker: bool,
    /// The number of errors, and the message of the first.
    pub errors: usize,
    pub error: String,
    /// Events that are no JSON.
    pub malformed: usize,
    /// Whether text came after the end or after an error.
    pub has_text_after_end: bool,
}

/// Decodes a stream of events.
pub fn decode_stream(dialect: ClientDialect, body: &[u8]) -> DecodedResponse {
    let mut decoded = DecodedResponse::default();
    if dialect == ClientDialect::Converse {
        decoded.binary(body);
        return decoded;
    }
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            decoded.has_end_marker = true;
            continue;
        }
        match serde_json::from_slice::<Value>(data) {
            Ok(event) => decoded.event(dialect, &event),
            Err(_) => decoded.malformed += 1,
        }
    }
    decoded
}

/// Decodes a whole answer, or an error response.
pub fn decode_body(dialect: ClientDialect, body: &[u8]) -> DecodedResponse {
    let mut decoded = DecodedResponse::default();
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        decoded.malformed = 1;
        return decoded;
    };
    if dialect == ClientDialect::Converse && answer["message"].is_string() {
        decoded.fail(&answer["message"]);
        return decoded;
    }
    // The Responses API has the field in good answers as well.
    if !answer["error"].is_null() {
        decoded.fail(&answer["error"]["message"]);
        // Anthropic's errors are named as such.
        if dialect == ClientDialect::Messages && answer["type"] != "error" {
            decoded.malformed += 1;
        }
        return decoded;
    }
    let texts = |list: &Value, out: &mut String| {
        let texts = list.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        texts.for_each(|text| out.push_str(text));
    };
    match dialect {
        ClientDialect::Chat => {
            decoded.text.push_str(answer["choices"][0]["message"]["content"].as_str().unwrap_or_default());
            decoded.has_finish_reason = answer["choices"][0]["finish_reason"].is_string();
        }
        ClientDialect::Completions => {
            decoded.text.push_str(answer["choices"][0]["text"].as_str().unwrap_or_default());
            decoded.has_finish_reason = answer["choices"][0]["finish_reason"].is_string();
        }
        ClientDialect::Converse => {
            texts(&answer["output"]["message"]["content"], &mut decoded.text);
            decoded.has_finish_reason = answer["stopReason"].is_string();
        }
        ClientDialect::Messages => {
            texts(&answer["content"], &mut decoded.text);
            decoded.has_finish_reason = answer["stop_reason"].is_string();
        }
        ClientDialect::Responses => {
            for item in answer["output"].as_array().into_iter().flatten().filter(|item| item["type"] == "message") {
                texts(&item["content"], &mut decoded.text);
            }
            decoded.has_finish_reason = matches!(answer["status"].as_str(), Some("completed" | "incomplete"));
        }
    }
    decoded.has_end_marker = decoded.has_finish_reason;
    decoded
}

impl DecodedResponse {
    /// A stream of AWS's binary messages.
    fn binary(&mut self, body: &[u8]) {
        let (messages, broken) = super::event_stream::messages(body);
        self.malformed += broken;
        for message in messages {
            match message.name.as_str() {
                _ if message.is_exception => self.fail(&message.payload["message"]),
                "contentBlockDelta" => self.push_text(&message.payload["delta"]["text"]),
                "messageStop" => self.has_finish_reason = true,
                "metadata" => self.has_end_marker = true,
                _ => {}
            }
        }
    }

    fn event(&mut self, dialect: ClientDialect, event: &Value) {
        match dialect {
            ClientDialect::Chat | ClientDialect::Completions => {
                if !event["error"].is_null() {
                    return self.fail(&event["error"]["message"]);
                }
                for choice in event["choices"].as_array().into_iter().flatten() {
                    let text =
                        if dialect == ClientDialect::Chat { &choice["delta"]["content"] } else { &choice["text"] };
                    self.push_text(text);
                    self.has_finish_reason |= choice["finish_reason"].is_string();
                }
            }
            ClientDialect::Messages => match event["type"].as_str().unwrap_or_default() {
                "error" => self.fail(&event["error"]["message"]),
                "content_block_delta" => self.push_text(&event["delta"]["text"]),
                "message_delta" => self.has_finish_reason |= event["delta"]["stop_reason"].is_string(),
                "message_stop" => self.has_end_marker = true,
                _ => {}
            },
            // Its streams are binary.
            ClientDialect::Converse => self.malformed += 1,
            ClientDialect::Responses => match event["type"].as_str().unwrap_or_default() {
                "error" => self.fail(&event["message"]),
                "response.failed" => self.fail(&event["response"]["error"]["message"]),
                "response.output_text.delta" => self.push_text(&event["delta"]),
                "response.completed" | "response.incomplete" => {
                    (self.has_finish_reason, self.has_end_marker) = (true, true)
                }
                _ => {}
            },
        }
    }

    fn push_text(&mut self, text: &Value) {
        let text = text.as_str().unwrap_or_default();
        self.has_text_after_end |=
            !text.is_empty() && (self.has_finish_reason || self.has_end_marker || self.errors > 0);
        self.text.push_str(text);
    }

    fn fail(&mut self, message: &Value) {
        self.errors += 1;
        if self.errors == 1 {
            self.error = message.as_str().unwrap_or_default().to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\" one\"},\
                        \"finish_reason\":null}]}\n\n";
    const CHAT_END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    #[test]
    fn a_stream_is_decoded_with_its_end_and_without() {
        let whole = decode_stream(ClientDialect::Chat, format!("{CHAT}{CHAT_END}").as_bytes());
        let expected = DecodedResponse {
            text: " one".to_owned(),
            has_finish_reason: true,
            has_end_marker: true,
            ..DecodedResponse::default()
        };
        assert_eq!(whole, expected);
        let cut = decode_stream(ClientDialect::Chat, CHAT.as_bytes());
        assert_eq!(cut, DecodedResponse { text: " one".to_owned(), ..DecodedResponse::default() });
        let cut_in = decode_stream(ClientDialect::Chat, format!("{CHAT}{CHAT_END}{CHAT}").as_bytes());
        assert!(cut_in.has_text_after_end, "{cut_in:?}");
    }

    #[test]
    fn a_binary_stream_is_decoded_with_its_end_and_its_exception() {
        use crate::soak::event_stream::tests::message;
        let delta = message("event", "contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":" one"}}"#);
        let end = [message("event", "messageStop", r#"{"stopReason":"end_turn"}"#), message("event", "metadata", "{}")]
            .concat();
        let whole = decode_stream(ClientDialect::Converse, &[delta.clone(), end].concat());
        assert_eq!((whole.text.as_str(), whole.has_finish_reason, whole.has_end_marker), (" one", true, true));
        let failed = message("exception", "internalServerException", r#"{"message":"lane x: stalled"}"#);
        let broken = decode_stream(ClientDialect::Converse, &[delta.clone(), failed].concat());
        assert_eq!((broken.errors, broken.error.as_str(), broken.malformed), (1, "lane x: stalled", 0));
        assert_eq!(decode_stream(ClientDialect::Converse, &delta[..delta.len() - 1]).malformed, 1);
        assert_eq!(decode_body(ClientDialect::Converse, br#"{"message":"later"}"#).errors, 1);
    }

    #[test]
    fn errors_and_garbage_are_counted() {
        let error = "data: {\"error\":{\"message\":\"lane x: stalled\"}}\n\n";
        let decoded = decode_stream(ClientDialect::Chat, format!("{CHAT}data: {{\"cho\n\n{error}").as_bytes());
        assert_eq!((decoded.errors, decoded.malformed, decoded.error.as_str()), (1, 1, "lane x: stalled"));
        let refused = br#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
        assert_eq!(decode_body(ClientDialect::Messages, refused).errors, 1);
        assert_eq!(
            decode_body(ClientDialect::Messages, br#"{"error":{"message":"later"}}"#).malformed,
            1,
            "of another dialect"
        );
    }

    #[test]
    fn a_whole_body_is_decoded_in_each_dialect() {
        let text_and_end = |dialect, body: &str| {
            let decoded = decode_body(dialect, body.as_bytes());
            (decoded.text, decoded.has_finish_reason)
        };
        let expected = (" a b".to_owned(), true);
        let chat = r#"{"choices":[{"message":{"content":" a b"},"finish_reason":"length"}]}"#;
        assert_eq!(text_and_end(ClientDialect::Chat, chat), expected);
        assert_eq!(
            text_and_end(ClientDialect::Completions, r#"{"choices":[{"text":" a b","finish_reason":"stop"}]}"#),
            expected
        );
        let messages =
            r#"{"content":[{"type":"text","text":" a"},{"type":"text","text":" b"}],"stop_reason":"end_turn"}"#;
        assert_eq!(text_and_end(ClientDialect::Messages, messages), expected);
        let responses =
            r#"{"error":null,"status":"completed","output":[{"type":"message","content":[{"text":" a b"}]}]}"#;
        assert_eq!(text_and_end(ClientDialect::Responses, responses), expected);
    }
}
