//! A client over a bare socket: it sends bytes, reads an answer byte by byte and decodes it.
//!
//! Invariant: the chunks of an answer are those that were on the wire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tokrate_core::{EventBatch, EventKind, Tick, Usage};
use tokrate_tokens::{Encoding, count};
use tokrate_wire::{Decoder, Dialect, Shape};

pub fn request_text(path: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The text of a streaming chat request.
pub fn chat(headers: &str, tokens: u32) -> String {
    let body = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"How fast is it?"}}],"stream":true,"stream_options":{{"include_usage":true}},"max_tokens":{tokens}}}"#
    );
    request_text("/v1/chat/completions", headers, &body)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("listens");
    stream.set_nodelay(true).expect("an option of every socket");
    stream
}

pub fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(text.as_bytes()).expect("taken");
    stream
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    /// The chunks of a chunked body, or the body as one.
    pub chunks: Vec<Vec<u8>>,
    /// Whether the body came to its end as HTTP wants it.
    pub is_whole: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn body(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body()).expect("UTF-8")
    }

    pub fn events(&self) -> Events {
        let shape = if self.header("content-type") == Some("text/event-stream") { Shape::Stream } else { Shape::Whole };
        self.events_of(Dialect::OpenAiChat, shape)
    }

    pub fn events_of(&self, dialect: Dialect, shape: Shape) -> Events {
        let mut decoder = Decoder::new(dialect, shape);
        let mut batch = EventBatch::new();
        decoder.push(Tick::ZERO, &self.body(), &mut batch);
        decoder.end(Tick::ZERO, &mut batch);
        Events(batch)
    }
}

pub struct Events(pub EventBatch);

impl Events {
    pub fn all(&self) -> impl Iterator<Item = EventKind> {
        self.0.events().iter().map(|event| event.kind)
    }

    pub fn text(&self) -> String {
        self.all()
            .filter_map(|what| if let EventKind::Text { text, .. } = what { Some(self.0.text(text)) } else { None })
            .collect()
    }

    pub fn usage(&self) -> Option<Usage> {
        self.all().filter_map(|what| if let EventKind::Usage(usage) = what { Some(usage) } else { None }).last()
    }

    pub fn has(&self, wanted: impl Fn(EventKind) -> bool) -> bool {
        self.all().any(wanted)
    }

    pub fn is_done(&self) -> bool {
        self.has(|what| what == EventKind::Done)
    }

    pub fn tokens(&self) -> usize {
        count(Encoding::O200kBase, &self.text())
    }
}

/// Reads one answer of a connection that ends after it or goes on.
pub fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap_or(0);
        bytes.extend_from_slice(&part[..read]);
        let answer = parse_answer(&bytes);
        if answer.is_whole || read == 0 {
            return answer;
        }
    }
}

pub fn parse_answer(bytes: &[u8]) -> Answer {
    let nothing = Answer { status: 0, head: String::new(), chunks: Vec::new(), is_whole: false };
    let Some(end) = find(bytes, b"\r\n\r\n") else { return nothing };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("ASCII");
    let status = head[9..12].parse().expect("a status");
    let mut answer = Answer { status, head, ..nothing };
    let mut rest = &bytes[end + 4..];
    if let Some(length) = answer.header("content-length") {
        answer.is_whole = rest.len() == length.parse::<usize>().expect("a length");
        answer.chunks.push(rest.to_vec());
        return answer;
    }
    while let Some(line) = find(rest, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).expect("ASCII"), 16).expect("a size");
        let Some(chunk) = rest.get(line + 2..line + 2 + size) else { break };
        if size == 0 {
            answer.is_whole = true;
            break;
        }
        answer.chunks.push(chunk.to_vec());
        rest = rest.get(line + 4 + size..).unwrap_or_default();
    }
    answer
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

pub fn ask(address: SocketAddr, text: &str) -> Answer {
    read_answer(&mut send(address, text))
}
