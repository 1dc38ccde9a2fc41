//! A server that answers what a test writes to its sockets, byte by byte.
//!
//! Invariant: a request is read to its end before its answer begins, so that closing sends an end and no reset.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::JoinHandle;

/// A head of a stream in HTTP chunks, the last one on its connection.
pub const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
/// A head of a stream that ends with its connection.
pub const UNTIL_CLOSED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
/// The end mark.
pub const DONE: &str = "data: [DONE]\n\n";

/// A request as it came.
pub struct Asked {
    /// Number of the request at this server, from 0.
    pub number: usize,
    /// Request line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    /// A header's value; the name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The index that the bench gave the request, out of its id `phase-index`.
    pub fn index(&self) -> usize {
        let id = self.header("x-request-id").expect("every request has an id");
        id.rsplit('-').next().and_then(|index| index.parse().ok()).expect("it ends with the index")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the request is JSON")
    }
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Keep,
    Close,
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Script = dyn Fn(&Asked, &mut TcpStream) -> std::io::Result<Then> + Send + Sync;

impl Server {
    /// Starts a server that answers every request with the script.
    pub fn start(script: impl Fn(&Asked, &mut TcpStream) -> std::io::Result<Then> + Send + Sync + 'static) -> Server {
        let script: Arc<Script> = Arc::new(script);
        let numbers = Arc::new(AtomicUsize::new(0));
        Server::accepting(move |stream| {
            // The client may leave whenever it wants.
            let _ = converse(stream, &*script, &numbers);
        })
    }

    /// Starts a server that answers every request with these bytes and closes the connection.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Server {
        let answer = answer.into();
        Server::start(move |_, stream| stream.write_all(&answer).map(|()| Then::Close))
    }

    /// Starts a server that hands every connection, unread, to a thread of its own.
    pub fn accepting(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let over = Arc::new(AtomicBool::new(false));
        let (serve, ended) = (Arc::new(serve), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ended.load(SeqCst) {
                    return;
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || serve(stream));
            }
        });
        Server { address, over, thread: Some(thread) }
    }

    /// Host and port.
    pub fn place(&self) -> String {
        self.address.to_string()
    }

    /// The base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
        // Wakes the thread that accepts.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn converse(stream: TcpStream, script: &Script, numbers: &AtomicUsize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let mut asked = Asked { number: numbers.fetch_add(1, SeqCst), head, body: Vec::new() };
        let length = asked.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        asked.body = vec![0; length];
        reader.read_exact(&mut asked.body)?;
        if script(&asked, &mut writer)? == Then::Close {
            return Ok(());
        }
    }
}

/// An answer of known length, the last one on its connection.
pub fn answer(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// Bytes as one HTTP chunk.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
    framed.extend_from_slice(bytes);
    framed.extend_from_slice(b"\r\n");
    framed
}

/// The chunk that ends a body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// An event with text.
pub fn delta(text: &str) -> String {
    event(&json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

/// The event with the finish reason.
pub fn stop() -> String {
    event(&json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
}

/// The event with the token counts.
pub fn usage(output: u32) -> String {
    event(&json!({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [],
        "usage": {"prompt_tokens": 50, "completion_tokens": output, "total_tokens": 50 + output}}))
}

/// An event with any data.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A whole stream of words, a token and an event each, as events.
pub fn stream(words: u32) -> Vec<String> {
    let mut events: Vec<String> = (0..words).map(|_| delta(" word")).collect();
    events.extend([stop(), usage(words), DONE.to_owned()]);
    events
}
