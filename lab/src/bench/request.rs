//! The requests that the bench servers read.
//!
//! Invariant: a request is handed out once its last byte was pushed, however its bytes were cut.

use super::sockets::is_transient;
use anyhow::{Result, bail};
use std::io::{ErrorKind, Read};

const MAX_REQUEST_BYTES: usize = 16 << 20;

/// Gathers the bytes of one request after the other of one connection.
#[derive(Default)]
pub struct RequestReader {
    buffer: Vec<u8>,
}

/// A request, as far as the servers care.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// The number at the end of its `x-request-id`.
    pub index: Option<u64>,
}

impl RequestReader {
    /// Takes in bytes as they were read.
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Takes in what a connection that does not block has; false when the other end is gone.
    pub fn read_all(&mut self, stream: &mut impl Read, scratch: &mut [u8]) -> bool {
        loop {
            match stream.read(scratch) {
                Ok(0) => return false,
                Ok(length) => self.push(&scratch[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return is_transient(&error),
            }
        }
    }

    /// The next whole request, if there is one.
    ///
    /// # Errors
    /// A request that is too large or has no readable length.
    pub fn next(&mut self) -> Result<Option<ClientRequest>> {
        if self.buffer.len() > MAX_REQUEST_BYTES {
            bail!("read a request: it has more than {MAX_REQUEST_BYTES} bytes");
        }
        let Some(head_end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        let length = match header(&head, "content-length") {
            Some(length) => length.parse::<usize>()?,
            None if header(&head, "transfer-encoding").is_some() => bail!("read a request: its body has no length"),
            None => 0,
        };
        let end = head_end + 4 + length;
        if self.buffer.len() < end {
            return Ok(None);
        }
        self.buffer.drain(..end);
        let index = header(&head, "x-request-id").and_then(|id| id.rsplit('-').next()?.parse().ok());
        Ok(Some(ClientRequest { index }))
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_wherever_their_bytes_are_cut() {
        let one = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: c8-17\r\nContent-Length: 6\r\n\r\n{\r\n\r\n}";
        let both = one.repeat(2);
        for cut in 0..both.len() {
            let mut reader = RequestReader::default();
            let mut found = Vec::new();
            for part in [&both[..cut], &both[cut..]] {
                reader.push(part.as_bytes());
                while let Some(request) = reader.next().expect("well formed") {
                    found.push(request.index);
                }
            }
            assert_eq!(found, [Some(17), Some(17)], "cut at {cut}");
        }
    }
}
