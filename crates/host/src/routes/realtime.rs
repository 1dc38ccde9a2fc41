//! Sessions of OpenAI's realtime API: text, and silence as sound, at the pace of the engine.
//!
//! One response after the other; what a client says meanwhile is read behind it. Invariant: a response says the tokens of the engine, and the
//! prompt is what the conversation holds.

use super::answer::call_id;
use super::{ErrorResponse, Routes, Shared};
use crate::body::AnswerBody;
use crate::driver::{AnswerHandle, Incoming};
use crate::truth::{AnswerEnd, Kinds, WriteTruth};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::request::Parts;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::{Message as ChatMessage, Role, Tick, Usage};
use tokrate_net::server::ConnectionTap;
use tokrate_net::{Handshake, Upgraded, websocket_handshake};
use tokrate_sim::{Emitted, Outcome, SimRequest};
use tokrate_wire::Dialect;
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, close_frame, websocket_accept, write_frame};

/// Largest message that is read: a second of sound has 64 KiB in base64 (bytes).
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Sound of a token: 20 ms at 24,000 samples of two bytes a second.
const SOUND_BYTES: usize = 960;
/// Tokens of a second of speech that is heard, as OpenAI counts them.
const TOKENS_A_SECOND: usize = 10;
/// Bytes of a second of it.
const BYTES_A_SECOND: usize = 48_000;

/// Whether a path is that of sessions.
pub(super) fn is_path(path: &str) -> bool {
    matches!(path, "/v1/realtime" | "/realtime")
}

impl Routes {
    /// Opens a session.
    pub(super) fn realtime(
        &self,
        head: &Parts,
        has_body: bool,
        tap: &Rc<ConnectionTap>,
    ) -> Result<Response<AnswerBody>, ErrorResponse> {
        let refused = |message: &str| ErrorResponse(StatusCode::BAD_REQUEST, message.to_owned());
        let key = match websocket_handshake(&head.method, head.version, &head.headers, has_body) {
            Handshake::Sound(key) => key,
            Handshake::Invalid(why) => return Err(refused(why)),
            Handshake::None => {
                let message = "open a WebSocket with `upgrade: websocket`".to_owned();
                return Err(ErrorResponse(StatusCode::UPGRADE_REQUIRED, message));
            }
        };
        let pairs = head.uri.query().unwrap_or_default().split('&');
        let model = pairs.filter_map(|pair| pair.strip_prefix("model=")).next().unwrap_or_default().replace("%2F", "/");
        let served = self.provider_of(head, &model)?;
        self.check_key(head)?;
        let offered = head.headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(|offered| offered.to_str().ok());
        let offered: Vec<&str> = offered.unwrap_or_default().split(',').map(str::trim).collect();
        let is_beta = offered.contains(&"openai-beta.realtime-v1") || head.headers.contains_key("openai-beta");
        let mut response = Response::new(AnswerBody::Plain(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(websocket_accept(key)).expect("base64"));
        if offered.contains(&"realtime") {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("realtime"));
        }
        let provider = self.shared.providers.iter().position(|other| std::ptr::eq(other, served)).unwrap_or_default();
        let session = Session {
            shared: Rc::clone(&self.shared),
            id: call_id(head),
            provider,
            settings: json!({"type": "realtime", "object": "realtime.session", "id": "sess_sim", "model": model, "output_modalities": ["text"]}),
            is_beta,
            conversation: Vec::new(),
            heard: 0,
            events: 0,
            out: Vec::new(),
        };
        tap.on_upgrade(move |connection| async move { drop(session.run(connection).await) });
        Ok(response)
    }
}

struct Session {
    shared: Rc<Shared>,
    /// The handshake's `x-request-id`, under which the log has its responses.
    id: Option<String>,
    provider: usize,
    settings: Value,
    /// Whether events have the names of the beta.
    is_beta: bool,
    conversation: Vec<ChatMessage>,
    /// Bytes of sound since the last response.
    heard: usize,
    events: u64,
    out: Vec<u8>,
}

/// What is read of the connection.
enum Heard {
    Event(Value),
    Close(Option<u16>),
    Ping(Vec<u8>),
}

impl Session {
    async fn run(mut self, mut connection: Upgraded) -> std::io::Result<()> {
        self.say(json!({"type": "session.created", "session": self.settings}));
        let (mut reader, mut piece) = (FrameReader::new(MAX_MESSAGE_BYTES), vec![0; 16 * 1024]);
        loop {
            self.flush(&mut connection).await?;
            let count = connection.read(&mut piece).await?;
            if count == 0 {
                return Ok(());
            }
            let mut heard = Vec::new();
            reader.push(&piece[..count], |message| match message {
                Message::Text(text) => heard.push(Heard::Event(serde_json::from_slice(text).unwrap_or_default())),
                Message::Close(code) => heard.push(Heard::Close(code)),
                Message::Ping(bytes) => heard.push(Heard::Ping(bytes.to_vec())),
                Message::Broken | Message::TooLarge => heard.push(Heard::Close(Some(1002))),
                Message::Binary(_) | Message::Pong => {}
            });
            for one in heard {
                match one {
                    Heard::Event(event) => self.on_event(&event, &mut connection).await?,
                    Heard::Ping(bytes) => write_frame(FrameKind::Pong, &bytes, None, &mut self.out),
                    Heard::Close(code) => {
                        self.out.extend(close_frame(code.unwrap_or(1000), "", None));
                        self.flush(&mut connection).await?;
                        return connection.shutdown().await;
                    }
                }
            }
        }
    }

    fn say(&mut self, mut event: Value) {
        event["event_id"] = format!("event_{}", self.events).into();
        self.events += 1;
        write_frame(FrameKind::Text, event.to_string().as_bytes(), None, &mut self.out);
    }

    async fn flush(&mut self, connection: &mut Upgraded) -> std::io::Result<()> {
        connection.write_all(&self.out).await?;
        self.out.clear();
        connection.flush().await
    }

    fn fail(&mut self, code: &str, message: &str) {
        let error = json!({"type": "invalid_request_error", "code": code, "message": message});
        self.say(json!({"type": "error", "error": error}));
    }

    async fn on_event(&mut self, event: &Value, connection: &mut Upgraded) -> std::io::Result<()> {
        match event["type"].as_str().unwrap_or_default() {
            "session.update" | "transcription_session.update" => {
                if let (Some(known), Some(new)) = (self.settings.as_object_mut(), event["session"].as_object()) {
                    known.extend(
                        new.iter()
                            .filter(|(name, _)| *name != "model")
                            .map(|(name, value)| (name.clone(), value.clone())),
                    );
                }
                self.say(json!({"type": "session.updated", "session": self.settings}));
            }
            "conversation.item.create" => {
                let mut item = event["item"].clone();
                if item["id"].is_null() {
                    item["id"] = format!("item_{}", self.conversation.len()).into();
                }
                let texts = item["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
                let text: String = texts.chain(item["output"].as_str()).collect();
                let role = if item["role"] == "assistant" { Role::Assistant } else { Role::User };
                self.conversation.push(ChatMessage::text(role, &text));
                let added = if self.is_beta { "conversation.item.created" } else { "conversation.item.added" };
                self.say(json!({"type": added, "item": item}));
                if !self.is_beta {
                    self.say(json!({"type": "conversation.item.done", "item": item}));
                }
            }
            "input_audio_buffer.append" => self.heard += event["audio"].as_str().map_or(0, |audio| audio.len() / 4 * 3),
            "input_audio_buffer.clear" => {
                self.heard = 0;
                self.say(json!({"type": "input_audio_buffer.cleared"}));
            }
            "input_audio_buffer.commit" => {
                self.say(json!({"type": "input_audio_buffer.committed", "item_id": "item_sound"}))
            }
            "response.create" => return self.respond(event, connection).await,
            "response.cancel" => self.fail("response_cancel_not_active", "no response is active"),
            other => self.fail("unknown_event", &format!("`{other}` is not known here")),
        }
        Ok(())
    }

    /// Whether sound is asked for.
    fn wants_sound(&self, asked: &Value) -> bool {
        let of = |value: &Value| {
            let kinds = [&value["output_modalities"], &value["modalities"]].into_iter().find(|kinds| kinds.is_array());
            kinds.and_then(Value::as_array).map(|kinds| kinds.iter().any(|kind| kind == "audio"))
        };
        of(asked).or_else(|| of(&self.settings)).unwrap_or(false)
    }

    async fn respond(&mut self, event: &Value, connection: &mut Upgraded) -> std::io::Result<()> {
        let asked = &event["response"];
        let has_sound = self.wants_sound(asked);
        let instructions = [&asked["instructions"], &self.settings["instructions"]];
        let system = instructions.into_iter().find_map(Value::as_str).map(|text| ChatMessage::text(Role::System, text));
        let messages: Vec<ChatMessage> = system.into_iter().chain(self.conversation.iter().cloned()).collect();
        let sound_tokens = (self.heard * TOKENS_A_SECOND).div_ceil(BYTES_A_SECOND) as u64;
        let shared = Rc::clone(&self.shared);
        let served = &shared.providers[self.provider];
        let prompt = shared.prompts.read(messages, served.provider.persona.scheduled.is_some()).await;
        let limits =
            [&asked["max_output_tokens"], &asked["max_response_output_tokens"], &self.settings["max_output_tokens"]];
        let limit = limits.into_iter().find_map(Value::as_u64).and_then(|limit| u32::try_from(limit).ok());
        let incoming = Incoming {
            id: self.id.clone(),
            dialect: Dialect::OpenAiResponses,
            received_at: connection.read_at(),
            stream: true,
            request: SimRequest {
                input_tokens: prompt.tokens,
                parts: prompt.parts,
                output_tokens: limit.filter(|limit| *limit > 0),
                include_usage: true,
                ..SimRequest::default()
            },
        };
        let handle = match Rc::clone(&served.driver).submit(incoming) {
            Ok(handle) => handle,
            Err(refusal) => {
                let is_for_rate = refusal.status == StatusCode::TOO_MANY_REQUESTS.as_u16();
                self.fail(if is_for_rate { "rate_limit_exceeded" } else { "server_error" }, refusal.message);
                return Ok(());
            }
        };
        // What was heard is answered now; a refused response has left it.
        self.heard = 0;
        let id = format!("resp_sim_{}", handle.number());
        let response = |status: &str| json!({"object": "realtime.response", "id": id, "status": status, "output": [], "usage": null});
        self.say(json!({"type": "response.created", "response": response("in_progress")}));
        let (text, usage, outcome) = self.deliver(&handle, &id, has_sound, connection).await?;
        if outcome == Outcome::Disconnected {
            handle.end(AnswerEnd::Disconnected);
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        handle.end(AnswerEnd::Complete);
        let mut done = response(if usage.is_some() { "completed" } else { "failed" });
        if let Some(usage) = usage {
            let kind = if has_sound { "output_audio" } else { "output_text" };
            let said = if has_sound { "transcript" } else { "text" };
            done["output"] = json!([{"object": "realtime.item", "id": format!("item_{id}"), "type": "message", "status": "completed", "role": "assistant", "content": [{"type": kind, said: text}]}]);
            done["usage"] = usage_of(usage, sound_tokens, has_sound);
        }
        self.conversation.push(ChatMessage::text(Role::Assistant, &text));
        self.say(json!({"type": "response.done", "response": done}));
        self.flush(connection).await
    }

    /// Writes the pieces of an answer as the engine makes them.
    async fn deliver(
        &mut self,
        handle: &AnswerHandle,
        id: &str,
        has_sound: bool,
        connection: &mut Upgraded,
    ) -> std::io::Result<(String, Option<Usage>, Outcome)> {
        let prefix = if self.is_beta { "response." } else { "response.output_" };
        let kind = if has_sound { "audio_transcript" } else { "text" };
        let (mut text, mut usage, mut sequence) = (String::new(), None, 0);
        loop {
            let (mut pieces, mut outcome, mut due_at) = (Vec::new(), None, Tick::MAX);
            poll_fn(|context| if handle.is_waiting(context) { Poll::Pending } else { Poll::Ready(()) }).await;
            handle.take(|emission| {
                match emission.what {
                    Emitted::Text { words, .. } => {
                        let mut piece = String::new();
                        words.push_to(&mut piece);
                        pieces.push((piece, words.count()));
                        due_at = due_at.min(emission.due);
                    }
                    Emitted::Usage(counts) => usage = Some(counts),
                    Emitted::End(end) => outcome = Some(end),
                    _ => {}
                }
                true
            });
            let tokens = pieces.iter().map(|(_, tokens)| tokens).sum();
            let events = pieces.len() as u32;
            for (piece, tokens) in pieces {
                let place =
                    json!({"response_id": id, "item_id": format!("item_{id}"), "output_index": 0, "content_index": 0});
                let with = |kind: &str, delta: &str| {
                    let mut event = place.clone();
                    event["type"] = format!("{prefix}{kind}.delta").into();
                    event["delta"] = delta.into();
                    event
                };
                self.say(with(kind, &piece));
                if has_sound {
                    let sound = STANDARD.encode(vec![0; SOUND_BYTES * tokens as usize]);
                    self.say(with("audio", &sound));
                }
                text.push_str(&piece);
            }
            let bytes = self.out.len() as u32;
            self.flush(connection).await?;
            if events > 0 {
                let (written_at, kinds) = (self.shared.clock.now(), Kinds::TEXT);
                handle.wrote(WriteTruth { sequence, due_at, written_at, tokens, events, kinds, bytes });
                sequence += 1;
            }
            if let Some(outcome) = outcome {
                return Ok((text, usage, outcome));
            }
        }
    }
}

/// Token counts as a response says them; of sound every token that is not the text's own.
fn usage_of(usage: Usage, sound_tokens: u64, has_sound: bool) -> Value {
    let (input, output) = (usage.input.unwrap_or(0), usage.output.unwrap_or(0));
    let (spoken, written) = if has_sound { (output, 0) } else { (0, output) };
    json!({
        "total_tokens": input + sound_tokens + output,
        "input_tokens": input + sound_tokens,
        "output_tokens": output,
        "input_token_details": {"text_tokens": input, "audio_tokens": sound_tokens, "cached_tokens": usage.cached_input.unwrap_or(0)},
        "output_token_details": {"text_tokens": written, "audio_tokens": spoken},
    })
}
