//! What an answer's body says to a client that speaks its dialect.
//!
//! It does not judge. Invariant: nothing of a body is passed over: an event that cannot be read is counted.

use super::plan::Spoken;
use serde_json::Value;

/// What was heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heard {
    /// The answer's text, reasoning left out.
    pub text: String,
    /// Whether it was said why the model stopped.
    pub finished: bool,
    /// Whether the mark of the end came.
    pub marked: bool,
    /// Errors that were told, and what the first of them said.
    pub errors: usize,
    pub error: String,
    /// Events that are no JSON.
    pub garbled: usize,
    /// Text behind the end, or behind an error.
    pub behind: bool,
}

/// A stream of events.
pub fn hear_stream(spoken: Spoken, body: &[u8]) -> Heard {
    let mut heard = Heard::default();
    for line in body.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            heard.marked = true;
            continue;
        }
        match serde_json::from_slice::<Value>(data) {
            Ok(event) => heard.event(spoken, &event),
            Err(_) => heard.garbled += 1,
        }
    }
    heard
}

/// An answer in one piece, or a refusal.
pub fn hear_whole(spoken: Spoken, body: &[u8]) -> Heard {
    let mut heard = Heard::default();
    let Ok(answer) = serde_json::from_slice::<Value>(body) else {
        heard.garbled = 1;
        return heard;
    };
    // The Responses API has the field in good answers as well.
    if !answer["error"].is_null() {
        heard.fail(&answer["error"]["message"]);
        // Anthropic's errors are named as such.
        if spoken == Spoken::Messages && answer["type"] != "error" {
            heard.garbled += 1;
        }
        return heard;
    }
    let texts = |list: &Value, out: &mut String| {
        let texts = list.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        texts.for_each(|text| out.push_str(text));
    };
    match spoken {
        Spoken::Chat => {
            heard.text.push_str(answer["choices"][0]["message"]["content"].as_str().unwrap_or_default());
            heard.finished = answer["choices"][0]["finish_reason"].is_string();
        }
        Spoken::Completions => {
            heard.text.push_str(answer["choices"][0]["text"].as_str().unwrap_or_default());
            heard.finished = answer["choices"][0]["finish_reason"].is_string();
        }
        Spoken::Messages => {
            texts(&answer["content"], &mut heard.text);
            heard.finished = answer["stop_reason"].is_string();
        }
        Spoken::Responses => {
            for item in answer["output"].as_array().into_iter().flatten().filter(|item| item["type"] == "message") {
                texts(&item["content"], &mut heard.text);
            }
            heard.finished = matches!(answer["status"].as_str(), Some("completed" | "incomplete"));
        }
    }
    heard.marked = heard.finished;
    heard
}

impl Heard {
    fn event(&mut self, spoken: Spoken, event: &Value) {
        match spoken {
            Spoken::Chat | Spoken::Completions => {
                if !event["error"].is_null() {
                    return self.fail(&event["error"]["message"]);
                }
                for choice in event["choices"].as_array().into_iter().flatten() {
                    let text = if spoken == Spoken::Chat { &choice["delta"]["content"] } else { &choice["text"] };
                    self.say(text);
                    self.finished |= choice["finish_reason"].is_string();
                }
            }
            Spoken::Messages => match event["type"].as_str().unwrap_or_default() {
                "error" => self.fail(&event["error"]["message"]),
                "content_block_delta" => self.say(&event["delta"]["text"]),
                "message_delta" => self.finished |= event["delta"]["stop_reason"].is_string(),
                "message_stop" => self.marked = true,
                _ => {}
            },
            Spoken::Responses => match event["type"].as_str().unwrap_or_default() {
                "error" => self.fail(&event["message"]),
                "response.failed" => self.fail(&event["response"]["error"]["message"]),
                "response.output_text.delta" => self.say(&event["delta"]),
                "response.completed" | "response.incomplete" => (self.finished, self.marked) = (true, true),
                _ => {}
            },
        }
    }

    fn say(&mut self, text: &Value) {
        let text = text.as_str().unwrap_or_default();
        self.behind |= !text.is_empty() && (self.finished || self.marked || self.errors > 0);
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
    fn a_stream_is_heard_with_its_end_and_without() {
        let whole = hear_stream(Spoken::Chat, format!("{CHAT}{CHAT_END}").as_bytes());
        let expected = Heard { text: " one".to_owned(), finished: true, marked: true, ..Heard::default() };
        assert_eq!(whole, expected);
        let cut = hear_stream(Spoken::Chat, CHAT.as_bytes());
        assert_eq!(cut, Heard { text: " one".to_owned(), ..Heard::default() });
        let behind = hear_stream(Spoken::Chat, format!("{CHAT}{CHAT_END}{CHAT}").as_bytes());
        assert!(behind.behind, "{behind:?}");
    }

    #[test]
    fn errors_and_garbage_are_counted() {
        let error = "data: {\"error\":{\"message\":\"lane x: stalled\"}}\n\n";
        let heard = hear_stream(Spoken::Chat, format!("{CHAT}data: {{\"cho\n\n{error}").as_bytes());
        assert_eq!((heard.errors, heard.garbled, heard.error.as_str()), (1, 1, "lane x: stalled"));
        let refused = br#"{"type":"error","error":{"type":"overloaded_error","message":"later"}}"#;
        assert_eq!(hear_whole(Spoken::Messages, refused).errors, 1);
        assert_eq!(hear_whole(Spoken::Messages, br#"{"error":{"message":"later"}}"#).garbled, 1, "of another dialect");
    }

    #[test]
    fn each_dialect_is_heard_in_one_piece() {
        let heard = |spoken, body: &str| {
            let heard = hear_whole(spoken, body.as_bytes());
            (heard.text, heard.finished)
        };
        let said = (" a b".to_owned(), true);
        let chat = r#"{"choices":[{"message":{"content":" a b"},"finish_reason":"length"}]}"#;
        assert_eq!(heard(Spoken::Chat, chat), said);
        assert_eq!(heard(Spoken::Completions, r#"{"choices":[{"text":" a b","finish_reason":"stop"}]}"#), said);
        let messages =
            r#"{"content":[{"type":"text","text":" a"},{"type":"text","text":" b"}],"stop_reason":"end_turn"}"#;
        assert_eq!(heard(Spoken::Messages, messages), said);
        let responses =
            r#"{"error":null,"status":"completed","output":[{"type":"message","content":[{"text":" a b"}]}]}"#;
        assert_eq!(heard(Spoken::Responses, responses), said);
    }
}
