//! A client that speaks raw HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    /// For a chunked body, the chunks' bytes joined.
    pub body: Vec<u8>,
    /// Whether it ended as HTTP prescribes.
    pub ended: bool,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A request's bytes.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", body.len());
    if !body.is_empty() && headers.iter().all(|(name, _)| *name != "content-type") {
        text.push_str("content-type: application/json\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Sends a request and reads its response to the end.
pub fn post(address: SocketAddr, path: &str, body: &str) -> Answer {
    ask(address, "POST", path, &[("content-type", "application/json")], body.as_bytes())
}

/// The same with a method and headers.
pub fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the gateway listens");
    stream.write_all(&request(method, path, headers, body)).expect("the gateway reads");
    read_answer(&mut stream)
}

/// Fetches a path of the admin side.
pub fn get_admin(address: SocketAddr, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("the admin side listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    read_answer(&mut stream)
}

/// Reads one response.
pub fn read_answer(stream: &mut TcpStream) -> Answer {
    read_answer_after(Vec::new(), stream)
}

/// Reads until the text appears; returns what was read.
pub fn read_until(stream: &mut TcpStream, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&bytes).contains(text) {
        let count = stream.read(&mut piece).expect("more to come");
        assert!(count > 0, "ended without {text}: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    }
    bytes
}

/// Reads one response whose beginning was read before.
pub fn read_answer_after(mut bytes: Vec<u8>, stream: &mut TcpStream) -> Answer {
    let mut piece = [0; 16 * 1024];
    let head_end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut piece).expect("an answer") {
            0 => panic!("no head: {}", String::from_utf8_lossy(&bytes)),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut answer = Answer { status, head, body: Vec::new(), ended: false };
    let mut rest = bytes.split_off(head_end + 4);
    // A 204 has no body and no length.
    let length =
        if status == 204 { Some(0) } else { answer.header("content-length").and_then(|length| length.parse().ok()) };
    loop {
        match length {
            Some(length) if rest.len() >= length => {
                (answer.body, answer.ended) = (rest, true);
                return answer;
            }
            // Joined only when the end may have come, so that large bodies are parsed once.
            None if rest.ends_with(b"0\r\n\r\n") && answer.header("transfer-encoding") == Some("chunked") => {
                let (body, ended) = joined(&rest);
                if ended {
                    (answer.body, answer.ended) = (body, true);
                    return answer;
                }
            }
            _ => {}
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => rest.extend_from_slice(&piece[..count]),
            _ => {
                answer.body = if length.is_some() { rest } else { joined(&rest).0 };
                return answer;
            }
        }
    }
}

/// The bytes of chunks, and whether the last one came.
fn joined(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") else { return (body, false) };
        let size = std::str::from_utf8(&bytes[..line]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size else { return (body, false) };
        let rest = &bytes[line + 2..];
        if size == 0 {
            return (body, rest.starts_with(b"\r\n"));
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..size.min(rest.len())]);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        bytes = &rest[size + 2..];
    }
}
