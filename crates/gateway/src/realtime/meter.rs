//! Measures a session by the events that pass: when responses were asked for, when they began, what they used.
//!
//! Invariant: time runs from the hand-over of the request to the lane, or from the read that said that speech had ended, to the read that
//! held the first piece of the answer.

use crate::upstream::session::SessionNumbers;
use tokrate_core::{Span, Tick, Usage};
use tokrate_wire::live::{LiveMessage, asks_for_answer};
use tokrate_wire::realtime::{RealtimeEvent, RealtimeUsage};
use tokrate_wire::websocket::{FrameReader, Message};

/// Larger messages are not read: an event of text or sound is a few KiB, the settings of a session tens of them (bytes).
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Times to first tokens that are kept of a session: further ones do not move its median by much.
const MAX_TIMES: usize = 1_024;

/// What the account must hear of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Charge {
    /// The response of that number has begun.
    Response(u32),
    /// That many tokens were used.
    Tokens(u64),
    /// What the lane sends cannot be read, so that nothing more will be counted.
    Unreadable,
}

/// What is spoken in a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Language {
    /// OpenAI's events, for responses.
    Responses,
    /// The same for transcripts, whose pieces are the answers.
    Transcripts,
    /// Messages of Gemini's Live API.
    Live,
}

/// The meter of one session.
pub(super) struct SessionMeter {
    client: FrameReader,
    lane: FrameReader,
    language: Language,
    /// In Gemini's: whether the model's turn goes on, and whether it has not said yet what it used.
    is_turn: bool,
    owes_usage: bool,
    /// A request for a response was read and not handed on yet.
    has_unsent_request: bool,
    /// Since when an answer is waited for.
    waited_since: Option<Tick>,
    times: Vec<u64>,
    ended: u32,
    numbers: SessionNumbers,
    /// How the client and the lane said that they close.
    pub client_close: Option<Option<u16>>,
    pub lane_close: Option<Option<u16>>,
}

impl SessionMeter {
    pub fn new(language: Language) -> SessionMeter {
        SessionMeter {
            client: FrameReader::new(MAX_MESSAGE_BYTES),
            lane: FrameReader::new(MAX_MESSAGE_BYTES),
            language,
            is_turn: false,
            owes_usage: false,
            has_unsent_request: false,
            waited_since: None,
            times: Vec::new(),
            ended: 0,
            numbers: SessionNumbers::default(),
            client_close: None,
            lane_close: None,
        }
    }

    /// Bytes of the client's.
    pub fn on_client(&mut self, bytes: &[u8]) {
        let SessionMeter { client, language, has_unsent_request, client_close, .. } = self;
        client.push(bytes, |message| match message {
            Message::Text(text) | Message::Binary(text) if *language == Language::Live => {
                *has_unsent_request |= asks_for_answer(text);
            }
            Message::Text(text) => {
                *has_unsent_request |= RealtimeEvent::of_client(text) == RealtimeEvent::ResponseRequested;
            }
            Message::Close(code) => *client_close = Some(code),
            _ => {}
        });
    }

    /// What was read from the client was handed to the lane.
    pub fn on_sent(&mut self, at: Tick) {
        if std::mem::take(&mut self.has_unsent_request) {
            self.waited_since = Some(at);
        }
    }

    /// Bytes of the lane's, read at `at`.
    pub fn on_lane(&mut self, at: Tick, bytes: &[u8], mut charge: impl FnMut(Charge)) {
        let mut lane = std::mem::replace(&mut self.lane, FrameReader::new(0));
        lane.push(bytes, |message| match message {
            // Its server sends JSON in binary frames.
            Message::Text(text) | Message::Binary(text) if self.language == Language::Live => {
                self.on_live(at, LiveMessage::of_server(text), &mut charge);
            }
            Message::Text(text) => self.on_event(at, RealtimeEvent::of_server(text), &mut charge),
            Message::Close(code) => self.lane_close = Some(code),
            Message::TooLarge => self.numbers.has_unreported = true,
            Message::Broken => charge(Charge::Unreadable),
            Message::Binary(_) | Message::Ping(_) | Message::Pong => {}
        });
        self.lane = lane;
    }

    fn on_event(&mut self, at: Tick, event: RealtimeEvent, charge: &mut impl FnMut(Charge)) {
        match event {
            RealtimeEvent::SpeechEnded => self.waited_since = Some(at),
            RealtimeEvent::ResponseStarted => self.on_response(charge),
            RealtimeEvent::Delta => self.on_delta(at),
            RealtimeEvent::TranscriptDelta if self.language == Language::Transcripts => self.on_delta(at),
            RealtimeEvent::ResponseEnded { failed, usage } => {
                self.ended = self.ended.saturating_add(1);
                self.on_usage(usage, failed, charge);
            }
            RealtimeEvent::Transcribed(usage) => {
                if self.language == Language::Transcripts {
                    self.ended = self.ended.saturating_add(1);
                    self.on_response(charge);
                }
                self.on_usage(usage, false, charge);
            }
            RealtimeEvent::Session(model) => self.numbers.model = model.or(self.numbers.model.take()),
            RealtimeEvent::ResponseRequested | RealtimeEvent::TranscriptDelta | RealtimeEvent::Other => {}
        }
    }

    fn on_response(&mut self, charge: &mut impl FnMut(Charge)) {
        self.numbers.responses = self.numbers.responses.saturating_add(1);
        charge(Charge::Response(self.numbers.responses));
    }

    /// A turn begins with its first piece; what it used is said with its end or behind it.
    fn on_live(&mut self, at: Tick, message: LiveMessage, charge: &mut impl FnMut(Charge)) {
        if message.speaks {
            if !std::mem::replace(&mut self.is_turn, true) {
                self.owes_usage = true;
                self.on_response(charge);
            }
            self.on_delta(at);
        }
        if message.usage.is_some() {
            self.ended = self.ended.saturating_add(u32::from(std::mem::take(&mut self.owes_usage)));
            self.on_usage(message.usage, false, charge);
        }
        self.is_turn &= !message.ends;
    }

    fn on_delta(&mut self, at: Tick) {
        self.numbers.deltas += 1;
        if let Some(since) = self.waited_since.take()
            && self.times.len() < MAX_TIMES
        {
            self.times.push((at - since).as_nanos());
        }
    }

    fn on_usage(&mut self, usage: Option<RealtimeUsage>, failed: bool, charge: &mut impl FnMut(Charge)) {
        let Some(RealtimeUsage { tokens, audio, has_pictures }) = usage else {
            // A response that failed was not billed as a rule, and says no tokens.
            self.numbers.has_unreported |= !failed;
            return;
        };
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (None, None) => None,
            _ => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        };
        let before = self.numbers.usage;
        self.numbers.usage = Usage {
            input: sum(before.input, tokens.input),
            output: sum(before.output, tokens.output),
            cached_input: sum(before.cached_input, tokens.cached_input),
            ..before
        };
        self.numbers.audio = self.numbers.audio.saturating_add(audio);
        self.numbers.has_pictures |= has_pictures;
        charge(Charge::Tokens(tokens.input.unwrap_or(0).saturating_add(tokens.output.unwrap_or(0))));
    }

    /// Whether a frame of ours may be sent to the client behind what was passed on.
    pub fn is_client_at_boundary(&self) -> bool {
        self.lane.is_at_boundary()
    }

    /// Whether a frame of ours may be sent to the lane.
    pub fn is_lane_at_boundary(&self) -> bool {
        self.client.is_at_boundary()
    }

    /// The figures so far.
    pub fn numbers(&self) -> SessionNumbers {
        let mut times = self.times.clone();
        times.sort_unstable();
        let ttft = times.get(times.len().saturating_sub(1) / 2).map(|time| Span::from_nanos(*time));
        let has_unreported = self.numbers.has_unreported || self.ended < self.numbers.responses;
        SessionNumbers { ttft, has_unreported, ..self.numbers.clone() }
    }
}

#[cfg(test)]
mod tests;
