//! Sessions of the realtime API: events in their order, counts, sound, errors, the end.

use crate::client::connect;
use crate::loopback::law;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use tokrate_host::{Host, HostConfig};
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, close_frame, write_frame};

const MASK: Option<[u8; 4]> = Some([3, 1, 4, 1]);

struct Client {
    stream: TcpStream,
    reader: FrameReader,
    heard: std::collections::VecDeque<Value>,
    code: Option<u16>,
}

impl Client {
    /// Opens a session; with the head of the answer.
    fn open(address: std::net::SocketAddr, more: &str) -> (Client, String) {
        let mut stream = connect(address);
        let opening = format!(
            "GET /v1/realtime?model=sim HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        );
        stream.write_all(opening.as_bytes()).expect("taken");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).expect("an answer"), 1);
            head.push(byte[0]);
        }
        let client = Client { stream, reader: FrameReader::new(1 << 20), heard: Default::default(), code: None };
        (client, String::from_utf8(head).expect("text"))
    }

    fn say(&mut self, event: &Value) {
        let mut frame = Vec::new();
        write_frame(FrameKind::Text, event.to_string().as_bytes(), MASK, &mut frame);
        self.stream.write_all(&frame).expect("taken");
    }

    /// The next event; `None` at the end.
    fn hear(&mut self) -> Option<Value> {
        let mut piece = [0; 4096];
        while self.heard.is_empty() {
            let count = self.stream.read(&mut piece).expect("open");
            if count == 0 {
                return None;
            }
            let Client { reader, heard, code, .. } = self;
            reader.push(&piece[..count], |message| match message {
                Message::Text(json) => heard.push_back(serde_json::from_slice(json).expect("JSON")),
                Message::Close(said) => *code = said,
                other => panic!("{other:?}"),
            });
        }
        self.heard.pop_front()
    }

    fn hear_until(&mut self, kind: &str) -> Vec<Value> {
        let mut events = Vec::new();
        while events.last().is_none_or(|event: &Value| event["type"] != kind) {
            events.push(self.hear().unwrap_or_else(|| panic!("no {kind} in {events:?}")));
        }
        events
    }
}

#[test]
fn a_session_answers_with_text_or_sound_at_the_count_that_is_asked_for() {
    let host = Host::start(HostConfig { law: law(), ..HostConfig::default() }).expect("a host on loopback");
    for (beta, prefix) in [("", "response.output_"), ("openai-beta: realtime=v1\r\n", "response.")] {
        let (mut client, head) = Client::open(host.address(), beta);
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        assert_eq!(client.hear().expect("an event")["type"], "session.created");
        client.say(&json!({"type": "conversation.item.create", "item": {"role": "user", "content": [{"type": "input_text", "text": "How fast?"}]}}));
        client.say(&json!({"type": "response.create", "response": {"max_output_tokens": 12}}));
        let events = client.hear_until("response.done");
        let of = |kind: &str| events.iter().filter(|event| event["type"] == *kind).count();
        assert!(of("response.created") == 1 && of(&format!("{prefix}text.delta")) > 0, "{events:?}");
        let usage = &events.last().expect("one")["response"]["usage"];
        assert_eq!((&usage["output_tokens"], &usage["output_token_details"]["audio_tokens"]), (&json!(12), &json!(0)));
        assert!(usage["input_tokens"].as_u64().is_some_and(|count| count > 0), "{usage}");
        client.say(
            &json!({"type": "response.create", "response": {"output_modalities": ["audio"], "max_output_tokens": 4}}),
        );
        let events = client.hear_until("response.done");
        assert!(events.iter().any(|event| event["type"] == format!("{prefix}audio.delta")), "{events:?}");
        assert_eq!(events.last().expect("one")["response"]["usage"]["output_token_details"]["audio_tokens"], 4);
        client.say(&json!({"type": "no.such"}));
        assert_eq!(client.hear_until("error").pop().expect("one")["error"]["code"], "unknown_event");
        client.stream.write_all(&close_frame(3001, "", MASK)).expect("taken");
        assert!(client.hear().is_none() && client.code == Some(3001));
    }
}
