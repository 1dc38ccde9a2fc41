//! The first message of a session of Gemini's, which names the model: held until it is whole, checked, and told the model of the lane.
//!
//! Invariant: nothing of the session reaches the lane before its model is known to be the lane's; but for the name, what is passed on are
//! the client's bytes.

use super::reason::Reason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_net::{Upgraded, random_bytes};
use tokrate_wire::live::setup_model;
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, write_frame};

/// Largest first message: instructions and the descriptions of tools are tens of KiB (bytes).
const MAX_SETUP_BYTES: usize = 1 << 20;
/// Most bytes that are held of it, heads of its frames included: what is too large is told at its end only, which may never come.
const MAX_HELD_BYTES: usize = MAX_SETUP_BYTES + 64 * 1024;
const TOO_LARGE: &str = "the first message of the session is larger than 1 MiB";
const READ_BYTES: usize = 4 * 1024;

/// What a first message may name, and what the lane is told.
#[derive(Clone, Copy)]
pub(super) struct Models<'m> {
    /// The alias or lane that the session was opened for.
    pub asked: &'m str,
    pub lane: &'m str,
    /// The lane's model at its provider.
    pub model: &'m str,
    /// Whether a name is another alias that has the lane and that the client may use.
    pub is_alias: &'m dyn Fn(&str) -> bool,
}

/// What is passed on first, and how much was read for it.
pub(super) struct Beginning {
    pub bytes: Vec<u8>,
    pub read: u64,
}

enum Said {
    Setup(FrameKind, Vec<u8>),
    Close,
    Ping(Vec<u8>),
    Pong,
    Wrong(&'static str),
}

/// Reads up to the end of the first message.
///
/// # Errors
/// Why the session ends before it.
pub(super) async fn read_setup(client: &mut Upgraded, models: &Models<'_>) -> Result<Beginning, Reason> {
    let mut reader = FrameReader::new(MAX_SETUP_BYTES);
    let (mut kept, mut frame_at, mut read) = (Vec::new(), 0, 0);
    let mut piece = [0; READ_BYTES];
    loop {
        let count = client.read(&mut piece).await.unwrap_or(0);
        if count == 0 {
            return Err(Reason::ClientClosed);
        }
        read += count as u64;
        if kept.len() > MAX_HELD_BYTES {
            return Err(Reason::Limit(TOO_LARGE.to_owned()));
        }
        // Byte by byte, so that it is known where a message ends.
        for (at, byte) in piece[..count].iter().enumerate() {
            if reader.is_at_boundary() {
                frame_at = kept.len();
            }
            kept.push(*byte);
            let mut said = None;
            reader.push(&[*byte], |message| said = Some(Said::of(message)));
            let rest = &piece[at + 1..count];
            match said {
                None => {}
                Some(Said::Setup(kind, message)) => {
                    if let Some(renamed) = renamed(&message, models).map_err(Reason::Limit)? {
                        kept.clear();
                        write_frame(kind, &renamed, Some(random_bytes().unwrap_or_default()), &mut kept);
                    }
                    return Ok(Beginning { bytes: [&kept[..], rest].concat(), read });
                }
                Some(Said::Close) => return Ok(Beginning { bytes: [&kept[..], rest].concat(), read }),
                // Answered here, as the lane hears of nothing yet.
                Some(Said::Ping(said)) => {
                    kept.truncate(frame_at);
                    let mut pong = Vec::new();
                    write_frame(FrameKind::Pong, &said, None, &mut pong);
                    client.write_all(&pong).await.map_err(|_| Reason::ClientClosed)?;
                    client.flush().await.map_err(|_| Reason::ClientClosed)?;
                }
                Some(Said::Pong) => kept.truncate(frame_at),
                Some(Said::Wrong(why)) => return Err(Reason::Limit(why.to_owned())),
            }
        }
    }
}

impl Said {
    fn of(message: Message<'_>) -> Said {
        match message {
            Message::Text(text) => Said::Setup(FrameKind::Text, text.to_vec()),
            Message::Binary(bytes) => Said::Setup(FrameKind::Binary, bytes.to_vec()),
            Message::Close(_) => Said::Close,
            Message::Ping(said) => Said::Ping(said.to_vec()),
            Message::Pong => Said::Pong,
            Message::TooLarge => Said::Wrong(TOO_LARGE),
            Message::Broken => Said::Wrong("these are no frames of a WebSocket"),
        }
    }
}

/// The message with the lane's model; `None` if it names that already.
fn renamed(message: &[u8], models: &Models<'_>) -> Result<Option<Vec<u8>>, String> {
    let (named, place) = setup_model(message)?;
    let wanted = format!("models/{}", models.model);
    if named == wanted {
        return Ok(None);
    }
    let Models { asked, lane, model, is_alias } = *models;
    let name = named.strip_prefix("models/").unwrap_or(&named);
    if ![asked, lane, model].contains(&name) && !is_alias(name) {
        return Err(format!("this session is one of `{asked}`; its `setup` names another model"));
    }
    let written = serde_json::Value::from(wanted).to_string();
    Ok(Some([&message[..place.start], written.as_bytes(), &message[place.end..]].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lanes_model_takes_the_place_of_its_names_and_no_other_model_is_let_through() {
        let models = Models { asked: "voice", lane: "one", model: "live-1", is_alias: &|name| name == "speech" };
        let setup = |model: &str| format!("{{ \"setup\" : {{\"model\":\"{model}\", \"x\": [1.0e2]}} }}");
        for name in ["voice", "models/voice", "one", "models/one", "live-1", "models/speech"] {
            let renamed = renamed(setup(name).as_bytes(), &models).expect("one of its names");
            assert_eq!(renamed, Some(setup("models/live-1").into_bytes()), "{name}");
        }
        assert_eq!(renamed(setup("models/live-1").as_bytes(), &models), Ok(None), "nothing to change");
        for other in ["live-2", "models/models/live-1", "", "publishers/google/models/live-1", "LIVE-1"] {
            let refused = renamed(setup(other).as_bytes(), &models).expect_err("another model");
            assert!(refused.contains("voice") && !refused.contains("live-2"), "{refused}");
        }
    }
}
