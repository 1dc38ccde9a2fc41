//! AWS's binary event streams as a client of Bedrock reads them, without the product's own reader.
//!
//! Invariant: a message whose checksums do not fit is counted, and so is what follows the last whole one.

use serde_json::Value;

/// A message: its event or exception by name, and its document.
pub struct Message {
    pub name: String,
    pub is_exception: bool,
    pub payload: Value,
}

/// The messages of a body, and how many could not be read.
pub fn messages(mut body: &[u8]) -> (Vec<Message>, usize) {
    let mut found = Vec::new();
    while !body.is_empty() {
        let Some((message, rest)) = cut(body) else { return (found, 1) };
        found.push(message);
        body = rest;
    }
    (found, 0)
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize)
}

fn cut(body: &[u8]) -> Option<(Message, &[u8])> {
    let (length, headers) = (number(body, 0)?, number(body, 4)?);
    let message = body.get(..length)?;
    let is_sound = number(message, 8)? == crc32fast::hash(&message[..8]) as usize
        && number(message, length.checked_sub(4)?)? == crc32fast::hash(&message[..length - 4]) as usize;
    let mut rest = message.get(12..12 + headers).filter(|_| is_sound)?;
    let (mut name, mut is_exception) = (String::new(), false);
    while let Some((length, behind)) = rest.split_first() {
        let (header, behind) = behind.split_at_checked(usize::from(*length))?;
        // All headers of these streams are texts.
        let (kind, behind) = behind.split_first()?;
        let length = u16::from_be_bytes(behind.get(..2)?.try_into().ok()?);
        let value = behind.get(2..2 + usize::from(length)).filter(|_| *kind == 7)?;
        rest = &behind[2 + usize::from(length)..];
        if matches!(header, b":event-type" | b":exception-type") {
            (name, is_exception) = (String::from_utf8_lossy(value).into_owned(), header == b":exception-type");
        }
    }
    let payload = serde_json::from_slice(&message[12 + headers..length - 4]).ok()?;
    Some((Message { name, is_exception, payload }, &body[length..]))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A message as Bedrock writes it.
    pub fn message(kind: &str, name: &str, payload: &str) -> Vec<u8> {
        let mut headers = Vec::new();
        for (header, value) in [(format!(":{kind}-type"), name), (":message-type".to_owned(), kind)] {
            headers.push(header.len() as u8);
            headers.extend_from_slice(header.as_bytes());
            headers.extend_from_slice(&[7, 0, value.len() as u8]);
            headers.extend_from_slice(value.as_bytes());
        }
        let length = (12 + headers.len() + payload.len() + 4) as u32;
        let mut bytes = [length.to_be_bytes(), (headers.len() as u32).to_be_bytes()].concat();
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        bytes.extend_from_slice(&headers);
        bytes.extend_from_slice(payload.as_bytes());
        let crc = crc32fast::hash(&bytes).to_be_bytes();
        [bytes, crc.to_vec()].concat()
    }

    #[test]
    fn messages_are_cut_and_what_is_garbled_or_cut_off_is_counted() {
        let (one, two) =
            (message("event", "messageStart", "{}"), message("exception", "throttlingException", r#"{"message":"x"}"#));
        let body = [one.clone(), two].concat();
        let (found, broken) = messages(&body);
        let names: Vec<(&str, bool)> =
            found.iter().map(|message| (message.name.as_str(), message.is_exception)).collect();
        assert_eq!((names, broken), (vec![("messageStart", false), ("throttlingException", true)], 0));
        assert_eq!(found[1].payload["message"], "x");
        for at in 0..one.len() {
            let mut garbled = one.clone();
            garbled[at] ^= 1;
            assert_eq!((messages(&garbled).0.len(), messages(&garbled).1), (0, 1), "{at}");
            assert_eq!(messages(&one[..at]).1, usize::from(at > 0), "{at}");
        }
    }
}
