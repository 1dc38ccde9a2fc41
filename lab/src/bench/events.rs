//! What the bench servers write: answers in the manner of OpenAI's streams, encoded ahead of time.
//!
//! Invariant: a text of n words is n o200k tokens, however it is cut into events, so every count that a client reports
//! can be held against the truth.

use std::ops::Range;

/// Words that are one o200k token each, leading space included.
const WORDS: [&str; 16] = [
    " the", " time", " people", " water", " day", " man", " world", " life", " hand", " part", " child", " eye",
    " woman", " place", " work", " week",
];

/// How every answer of the bench servers in the manner of OpenAI's chat begins.
pub const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

/// What an answer consists of, whatever its dialect.
pub struct Answer<'a> {
    /// Its media type.
    pub content_type: &'a str,
    /// What is written before the first text; may be empty.
    pub head: &'a str,
    /// The event with the text of that number.
    pub event: &'a dyn Fn(u32) -> String,
    /// What is written after the last text.
    pub ending: &'a str,
    /// Events with text.
    pub events: u32,
    /// How many of them in a write and in an HTTP chunk.
    pub events_per_write: u32,
    /// Whether the answer ends as it should, or breaks off after its last text.
    pub complete: bool,
}

/// How every complete answer ends, once its finish event and end mark are written.
const LAST_CHUNK: &str = "0\r\n\r\n";

/// The text of `words` words, from the `from`-th of the list on.
pub fn text(from: u64, words: u32) -> String {
    (from..from + u64::from(words)).map(|word| WORDS[(word % WORDS.len() as u64) as usize]).collect()
}

/// One event with some text.
pub fn text_event(text: &str) -> String {
    event(&format!(r#"{{"content":"{text}"}}"#), "null")
}

/// The event with the finish reason, and the end marker.
pub fn ending() -> String {
    event("{}", r#""stop""#) + "data: [DONE]\n\n"
}

/// Some events as one HTTP chunk.
pub fn framed(events: &str) -> String {
    format!("{:x}\r\n{events}\r\n", events.len())
}

/// The last text of an answer and everything after it, to be written at once.
pub fn last_write(event: &str) -> String {
    framed(event) + &framed(&ending()) + LAST_CHUNK
}

fn event(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-8f2b61d0c3e94a7fa5d1b02c7e6f9a34\",\"object\":\"chat.completion.chunk\",\"created\":1769092764,\
         \"model\":\"bench-model\",\"system_fingerprint\":\"fp_44709d6fcb\",\"service_tier\":\"default\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

/// A whole answer, cut into the pieces that are written one by one.
pub struct Script {
    bytes: Vec<u8>,
    writes: Vec<Range<usize>>,
    /// Whether the answer ends as it should, or the connection is closed after the last write.
    pub complete: bool,
}

impl Script {
    /// An answer of `events` events of one token, so many in a write and in an HTTP chunk. An incomplete one breaks off after
    /// its last text.
    pub fn new(events: u32, events_per_write: u32, complete: bool) -> Script {
        Script::of(&Answer {
            content_type: "text/event-stream; charset=utf-8",
            head: &event(r#"{"role":"assistant","content":""}"#, "null"),
            event: &|index| text_event(&text(u64::from(index), 1)),
            ending: &ending(),
            events,
            events_per_write,
            complete,
        })
    }

    /// An answer in any dialect.
    pub fn of(answer: &Answer<'_>) -> Script {
        let mut script = Script { bytes: Vec::new(), writes: Vec::new(), complete: answer.complete };
        let head = HEAD.replace("text/event-stream; charset=utf-8", answer.content_type);
        let first = if answer.head.is_empty() { String::new() } else { framed(answer.head) };
        script.add(&(head + &first));
        let mut written = 0;
        while written < answer.events {
            let end = answer.events.min(written + answer.events_per_write);
            let joined: String = (written..end).map(answer.event).collect();
            script.add(&framed(&joined));
            written = end;
        }
        if answer.complete {
            script.add(&(framed(answer.ending) + LAST_CHUNK));
        }
        script
    }

    /// The bytes of one write, if there are so many.
    pub fn write(&self, index: usize) -> Option<&[u8]> {
        self.writes.get(index).map(|range| &self.bytes[range.clone()])
    }

    fn add(&mut self, text: &str) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.as_bytes());
        self.writes.push(start..self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_as_long_as_those_of_real_servers_and_is_json() {
        let event = text_event(" people");
        assert!((250..=330).contains(&event.len()), "{}", event.len());
        let data = event.strip_prefix("data: ").expect("a data line").trim_end();
        let json: serde_json::Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(json["choices"][0]["delta"]["content"], " people");
    }

    #[test]
    fn a_script_has_every_event_once_and_says_how_it_ends() {
        let script = Script::new(130, 64, true);
        // The head, three writes of text, the ending.
        assert_eq!((0..).take_while(|&index| script.write(index).is_some()).count(), 5);
        let text = String::from_utf8(script.bytes.clone()).expect("text");
        assert_eq!(text.matches(r#"{"content":" "#).count(), 130);
        assert!(text.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
        let cut = String::from_utf8(Script::new(3, 1, false).bytes).expect("text");
        assert!(!cut.contains("[DONE]") && cut.matches(r#"{"content":" "#).count() == 3);
    }
}
