//! A minimal HTTP/1.1 implementation for simulated clients and providers, independent of the project's own.
//!
//! It reads only what the gateway sends and reports everything else as an error. Invariant: a message is complete only if
//! its framing says so.

use super::pipe::End;
use tokio::io::AsyncReadExt;

/// The head of a request.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RequestHead {
    pub path: String,
    headers: Vec<(String, String)>,
}

impl RequestHead {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

/// Reads a request with a content-length; `buffer` keeps the bytes after it. `None` at the end of the connection.
pub(super) async fn read_request(end: &mut End, buffer: &mut Vec<u8>) -> Option<(RequestHead, Vec<u8>)> {
    loop {
        if let Some((head_bytes, (line, headers))) = head_of(buffer) {
            let path = line.split(' ').nth(1)?.to_owned();
            let head = RequestHead { path, headers };
            let length: usize = head.header("content-length")?.parse().ok()?;
            if buffer.len() >= head_bytes + length {
                let body = buffer[head_bytes..head_bytes + length].to_vec();
                buffer.drain(..head_bytes + length);
                return Some((head, body));
            }
        }
        if end.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// A response as far as the client has received it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reply {
    /// Bytes read, head and framing included.
    pub bytes: usize,
    /// Its status, once the head is complete.
    pub status: Option<u16>,
    /// Its headers.
    pub headers: Vec<(String, String)>,
    /// Its body, without framing.
    pub body: Vec<u8>,
    /// Whether it is complete.
    pub is_whole: bool,
    /// A protocol violation, if any.
    pub wrong: Option<String>,
    unread: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, PartialEq, Debug, Default)]
enum Framing {
    #[default]
    Head,
    /// Bytes left.
    Length(usize),
    /// Before the size of a chunk.
    Size,
    /// Bytes left of a chunk and its line end.
    Chunk(usize),
    /// Before the end of the trailers.
    Trailers,
    Done,
}

impl Reply {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Whether the connection can be reused.
    pub fn keeps_connection(&self) -> bool {
        self.is_whole && self.header("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close"))
    }

    /// Processes received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.unread.extend_from_slice(bytes);
        while self.wrong.is_none() && self.step() {}
        if self.framing == Framing::Done && !self.unread.is_empty() {
            self.wrong = Some("bytes follow the answer's end".to_owned());
        }
    }

    /// Parses the next part; false if more bytes are needed.
    fn step(&mut self) -> bool {
        match self.framing {
            Framing::Head => self.take_head(),
            Framing::Length(left) => {
                let count = left.min(self.unread.len());
                self.body.extend(self.unread.drain(..count));
                self.become_length(left - count);
                count > 0
            }
            Framing::Size => self.take_size(),
            Framing::Chunk(left) => {
                let count = left.min(self.unread.len());
                // The last two bytes are the line end.
                let text = count.min(left.saturating_sub(2));
                self.body.extend(self.unread.drain(..count).take(text));
                self.framing = if left == count { Framing::Size } else { Framing::Chunk(left - count) };
                count > 0
            }
            Framing::Trailers => {
                let has_ended = self.unread.starts_with(b"\r\n");
                if has_ended {
                    self.unread.drain(..2);
                    self.finish();
                } else if self.unread.len() >= 2 {
                    self.wrong = Some("trailers that nobody asked for".to_owned());
                }
                has_ended
            }
            Framing::Done => false,
        }
    }

    fn take_head(&mut self) -> bool {
        let Some((length, (line, headers))) = head_of(&self.unread) else { return false };
        self.unread.drain(..length);
        let status: Option<u16> = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        if status == Some(100) {
            return true;
        }
        (self.status, self.headers) = (status, headers);
        if status.is_none() {
            self.wrong = Some(format!("no status in `{line}`"));
        }
        let length = self.header("content-length").map(str::parse::<usize>);
        match (length, self.header("transfer-encoding")) {
            (Some(Ok(length)), None) => self.become_length(length),
            (None, Some("chunked")) => self.framing = Framing::Size,
            (length, encoding) => self.wrong = Some(format!("framing {length:?} and {encoding:?}")),
        }
        true
    }

    fn become_length(&mut self, left: usize) {
        self.framing = Framing::Length(left);
        if left == 0 {
            self.finish();
        }
    }

    fn take_size(&mut self) -> bool {
        let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") else { return false };
        let line = String::from_utf8_lossy(&self.unread[..end]).into_owned();
        self.unread.drain(..end + 2);
        match usize::from_str_radix(&line, 16) {
            Ok(0) => self.framing = Framing::Trailers,
            Ok(size) => self.framing = Framing::Chunk(size + 2),
            Err(_) => self.wrong = Some(format!("`{line}` is no size of a chunk")),
        }
        true
    }

    fn finish(&mut self) {
        self.framing = Framing::Done;
        self.is_whole = true;
    }
}

/// Length of a head, its first line and its headers.
type Head = (usize, (String, Vec<(String, String)>));

fn head_of(bytes: &[u8]) -> Option<Head> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.split("\r\n").map(str::to_owned);
    let first = lines.next().unwrap_or_default();
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    });
    Some((end + 4, (first, headers.collect())))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}
