//! A lane that responds by script and records its requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Bytes that lanes of this process wrote with [`Script::Send`]. Each test is a process of its own.
pub static WRITTEN: AtomicUsize = AtomicUsize::new(0);

/// What a lane does with one request.
#[derive(Clone, Debug)]
pub enum Script {
    /// Writes these pieces, one write each, and keeps the connection.
    Send(Vec<Vec<u8>>),
    /// Writes this and closes the connection.
    SendAndClose(Vec<u8>),
    /// Writes this, and closes the connection when [`Scripted::release`] is called.
    SendAndHold(Vec<u8>),
    /// Writes the first part, and the rest when [`Scripted::release`] is called.
    SendHoldSend(Vec<u8>, Vec<u8>),
    /// Writes this and waits until the other end closes.
    SendAndStall(Vec<u8>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub head: String,
    pub body: Vec<u8>,
}

/// A running lane.
pub struct Scripted {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    /// Gets a message for every connection that its client closed.
    pub closed: Receiver<()>,
    /// Gets a message for every connection that the lane closed after [`Script::SendAndClose`].
    pub left: Receiver<()>,
    release: Sender<()>,
}

impl Scripted {
    /// Request i gets script i; later requests get the last one.
    pub fn start(scripts: Vec<Script>) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let (closing, closed) = channel();
        let (leaving, left) = channel();
        let recorded = Arc::clone(&requests);
        let (release, released) = channel();
        let released = Arc::new(Mutex::new(released));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (scripts, recorded) = (scripts.clone(), Arc::clone(&recorded));
                let channels =
                    Channels { closing: closing.clone(), leaving: leaving.clone(), released: Arc::clone(&released) };
                std::thread::spawn(move || serve(stream, &scripts, &recorded, &channels));
            }
        });
        Scripted { address, requests, closed, left, release }
    }

    /// Lets one held connection continue.
    pub fn release(&self) {
        self.release.send(()).expect("it listens");
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("no panic holds it").clone()
    }
}

/// The channels between a connection's thread and the test.
struct Channels {
    closing: Sender<()>,
    leaving: Sender<()>,
    released: Arc<Mutex<Receiver<()>>>,
}

fn serve(mut stream: TcpStream, scripts: &[Script], requests: &Mutex<Vec<RecordedRequest>>, channels: &Channels) {
    let Channels { closing, leaving, released } = channels;
    let _ = stream.set_nodelay(true);
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer) {
        let number = {
            let mut requests = requests.lock().expect("no panic holds it");
            requests.push(request);
            requests.len() - 1
        };
        match scripts[number.min(scripts.len() - 1)].clone() {
            Script::Send(pieces) => {
                for piece in pieces {
                    if stream.write_all(&piece).is_err() {
                        let _ = closing.send(());
                        return;
                    }
                    WRITTEN.fetch_add(piece.len(), Ordering::Relaxed);
                }
            }
            Script::SendAndClose(bytes) => {
                let _ = stream.write_all(&bytes);
                drop(stream);
                let _ = leaving.send(());
                return;
            }
            Script::SendAndHold(bytes) => {
                let _ = stream.write_all(&bytes);
                let _ = released.lock().expect("no panic holds it").recv();
                return;
            }
            Script::SendHoldSend(first, rest) => {
                let _ = stream.write_all(&first);
                let _ = released.lock().expect("no panic holds it").recv();
                let _ = stream.write_all(&rest);
            }
            Script::SendAndStall(bytes) => {
                let _ = stream.write_all(&bytes);
                let mut rest = [0; 256];
                while matches!(stream.read(&mut rest), Ok(count) if count > 0) {}
                let _ = closing.send(());
                return;
            }
        }
    }
}

pub fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<RecordedRequest> {
    let mut piece = [0; 64 * 1024];
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ").and_then(|length| length.parse().ok()))
                .unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = buffer[end + 4..end + 4 + length].to_vec();
                let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
                buffer.drain(..end + 4 + length);
                return Some(RecordedRequest { head, body });
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => buffer.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

/// A whole response.
pub fn whole(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

/// A whole chunked stream.
pub fn stream(body: &str) -> Vec<u8> {
    let mut bytes = stream_head();
    if !body.is_empty() {
        bytes.extend_from_slice(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// The head of a stream.
pub fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()
}

/// A stream of these words in OpenAI's chat dialect, with its end and usage.
pub fn chat_events(words: &[&str]) -> String {
    let event = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let mut text = event("{\"role\":\"assistant\",\"content\":\"\"}", "null");
    for word in words {
        text.push_str(&event(&format!("{{\"content\":\"{word}\"}}"), "null"));
    }
    text.push_str(&event("{}", "\"stop\""));
    text.push_str("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\n");
    text.push_str("data: [DONE]\n\n");
    text
}

/// A whole answer in OpenAI's chat dialect.
pub fn chat_whole(text: &str) -> String {
    format!(
        "{{\"id\":\"x\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}}}"
    )
}
