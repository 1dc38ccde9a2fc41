//! Reads HTTP/1.1 answers while their bytes come, and hands on the body without its framing.
//!
//! Invariant: the body comes out the same however its bytes were cut into reads, and an answer that broke off is never
//! taken for a whole one.

use anyhow::{Context, Result, bail};

/// Heads longer than this are refused.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// One answer after the other of one connection.
#[derive(Default)]
pub struct AnswerReader {
    state: State,
    head: Vec<u8>,
    /// Status of the answer whose head was read last.
    pub status: u16,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes of body are left.
    Body(u64),
    /// In a chunk's size line; whether an extension is being skipped.
    Size(u64, bool),
    Chunk(u64),
    /// In the line end behind a chunk.
    ChunkEnd,
    /// Behind the last chunk, with so many bytes in the line so far.
    Trailer(u64),
}

impl AnswerReader {
    /// Takes in bytes, hands parts of the body to `body`; true when the answer is complete. Bytes behind it are refused:
    /// nothing was asked for them.
    ///
    /// # Errors
    /// What is no answer of HTTP/1.1 with a length or in chunks.
    pub fn push(&mut self, mut bytes: &[u8], body: &mut impl FnMut(&[u8])) -> Result<bool> {
        while !bytes.is_empty() {
            let complete = match self.state {
                State::Head => self.take_head(&mut bytes)?,
                State::Body(left) => {
                    let left = hand_on(&mut bytes, left, body);
                    self.state = State::Body(left);
                    left == 0
                }
                State::Chunk(left) => {
                    let left = hand_on(&mut bytes, left, body);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    false
                }
                State::Size(..) | State::ChunkEnd | State::Trailer(_) => self.take_framing(&mut bytes)?,
            };
            if complete {
                self.state = State::Head;
                if !bytes.is_empty() {
                    bail!("read an answer: {} bytes follow it that nobody asked for", bytes.len());
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// One byte of what stands between chunks; true when it was the last of the answer.
    fn take_framing(&mut self, bytes: &mut &[u8]) -> Result<bool> {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        self.state = match (self.state, byte) {
            (State::Size(0, _), b'\n') => State::Trailer(0),
            (State::Size(size, _), b'\n') => State::Chunk(size),
            (State::Size(size, skips), byte) if skips || matches!(byte, b'\r' | b' ' | b'\t') => {
                State::Size(size, skips)
            }
            (State::Size(size, _), b';') => State::Size(size, true),
            (State::Size(size, _), byte) => {
                let digit = char::from(byte).to_digit(16).context("read an answer: a chunk has no length")?;
                let size = size.checked_mul(16).context("read an answer: a chunk is too long")?;
                State::Size(size + u64::from(digit), false)
            }
            (State::ChunkEnd, b'\n') => State::Size(0, false),
            (State::Trailer(0), b'\n') => return Ok(true),
            (State::Trailer(_), b'\n') => State::Trailer(0),
            (State::Trailer(length), byte) => State::Trailer(length + u64::from(byte != b'\r')),
            (state, b'\r') => state,
            _ => bail!("read an answer: a chunk is longer than its size line"),
        };
        Ok(false)
    }

    /// Takes in the head or a part of it; true when no body follows.
    fn take_head(&mut self, bytes: &mut &[u8]) -> Result<bool> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        let from = before.saturating_sub(3);
        let Some(end) = memchr::memmem::find(&self.head[from..], b"\r\n\r\n").map(|at| from + at + 4) else {
            if self.head.len() > MAX_HEAD_BYTES {
                bail!("read an answer: its head has more than {MAX_HEAD_BYTES} bytes");
            }
            *bytes = &[];
            return Ok(false);
        };
        *bytes = &bytes[end - before..];
        let head = str::from_utf8(&self.head[..end]).context("read an answer: its head is not text")?;
        self.status = head.get(9..12).and_then(|status| status.parse().ok()).context("read an answer: no status")?;
        self.state = body_of(head)?;
        self.head.clear();
        Ok(self.state == State::Body(0))
    }
}

/// How the body behind a head is framed.
fn body_of(head: &str) -> Result<State> {
    for line in head.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            return Ok(State::Body(value.trim().parse().context("read an answer: its length is no number")?));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked") {
            return Ok(State::Size(0, false));
        }
    }
    bail!("read an answer: neither a length nor chunks")
}

/// Hands on up to `left` bytes; how many are left after them.
fn hand_on(bytes: &mut &[u8], left: u64, body: &mut impl FnMut(&[u8])) -> u64 {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    body(&bytes[..length]);
    *bytes = &bytes[length..];
    left - length as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Body and status of an answer that comes in two reads; `None` when it is not complete.
    fn read(answer: &[u8], cut: usize) -> Option<(String, u16)> {
        let mut reader = AnswerReader::default();
        let mut body = Vec::new();
        let mut whole = false;
        for part in [&answer[..cut], &answer[cut..]] {
            assert!(!whole || part.is_empty(), "complete at {cut}, before its end");
            whole |= reader.push(part, &mut |bytes| body.extend_from_slice(bytes)).expect("well formed");
        }
        whole.then(|| (String::from_utf8(body).expect("text"), reader.status))
    }

    #[test]
    fn a_body_is_the_same_wherever_reads_cut_it() {
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123\r\n\r\n89\r\n0\r\nx: y\r\n\r\n";
        let plain = b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello";
        for cut in 0..=chunked.len() {
            assert_eq!(read(chunked, cut), Some(("abc0123\r\n\r\n89".to_owned(), 200)), "cut at {cut}");
        }
        for cut in 0..=plain.len() {
            assert_eq!(read(plain, cut), Some(("hello".to_owned(), 404)), "cut at {cut}");
        }
    }

    #[test]
    fn an_answer_that_breaks_off_is_not_whole() {
        let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for end in 0..answer.len() {
            assert_eq!(read(&answer[..end], end), None, "broken off at {end}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let refused = |bytes: &[u8]| AnswerReader::default().push(bytes, &mut |_| {}).is_err();
        assert!(refused(b"HTTP/1.1 200 OK\r\n\r\n"));
        assert!(refused(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n"));
        assert!(refused(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n"));
        assert!(refused(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab"));
    }
}
