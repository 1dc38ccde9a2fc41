//! What becomes of one request at a simulated provider: the answer, byte by byte with its times, and where it breaks.
//!
//! It sends nothing. Invariant: a lane's faults and a request's number determine every byte; each token of text names its lane,
//! its request and its place, so that what a client got can be told from everything else.

use tokrate_core::{Channel, FinishReason, Rng, Span, Usage};
use tokrate_wire::{Answer, Dialect, Encoder, Piece, Shape, encode_refusal};

/// Seconds since 1970 that answers name as the time they were made.
const CREATED: u64 = 1_790_000_000;
/// Tokens of one answer at most.
pub(super) const TOKENS_MOST: u64 = 40;

/// How often what goes wrong at a lane (0 to 1 each).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LaneFaults {
    /// No connection.
    pub refused: f64,
    /// A connection that is never made.
    pub unreachable: f64,
    /// An answer that breaks at any byte.
    pub broken: f64,
    /// An answer that stops at any byte and goes on no more.
    pub stalled: f64,
    /// Bytes of the body that are others than they should be.
    pub garbled: f64,
    /// A refusal by status.
    pub refusal: f64,
    /// An error in the middle of a stream.
    pub error_event: f64,
    /// A whole answer whose length is not what its head says.
    pub wrong_length: f64,
    /// An answer without text.
    pub empty: f64,
    /// An answer without token counts.
    pub uncounted: f64,
    /// A connection that is closed after an answer, without a word of it.
    pub closes: f64,
    /// Mean time to the first byte.
    pub first: Span,
    /// Mean time between two tokens.
    pub gap: Span,
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Whole; the connection stays.
    Kept,
    /// Whole; the connection is closed.
    Closed,
    /// After so many bytes of the response the connection is closed.
    Cut(usize),
    /// After so many bytes of the response the connection is reset.
    Reset(usize),
    /// After so many bytes of the response nothing comes any more.
    Stalled(usize),
}

/// What is asked of a lane, as far as its answer depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The dialect of the request, and its shape; `None` for embeddings.
    pub routed: Option<(Dialect, Shape)>,
    /// Names the lane and the request.
    pub mark: &'a str,
    /// Prompt tokens, as the provider counts them.
    pub input: u64,
    /// Output tokens that the answer may have.
    pub output_most: Option<u64>,
}

/// A response to be sent.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Its body, without framing.
    pub body: Vec<u8>,
    /// Its text.
    pub text: String,
    /// The token counts that it tells.
    pub usage: Option<Usage>,
    /// Whether its body is what the dialect prescribes.
    pub is_sound: bool,
    /// What is written when: the wait before each piece, and the piece.
    pub pieces: Vec<(Span, Vec<u8>)>,
    /// How it ends.
    pub ending: Option<Ending>,
}

impl LaneFaults {
    /// Draws what becomes of a request.
    pub fn draw(&self, rng: &mut Rng, asked: &Asked<'_>) -> Response {
        let mut response = if rng.chance(self.refusal) { refusal(rng, asked) } else { self.answer(rng, asked) };
        let all: usize = response.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        let mut at = || rng.below(all as u64) as usize;
        let cut = at();
        response.ending = Some(if rng.chance(self.broken) {
            if rng.chance(0.5) { Ending::Cut(cut) } else { Ending::Reset(cut) }
        } else if rng.chance(self.stalled) {
            Ending::Stalled(cut)
        } else if rng.chance(self.closes) {
            Ending::Closed
        } else {
            response.ending.unwrap_or(Ending::Kept)
        });
        response
    }

    fn answer(&self, rng: &mut Rng, asked: &Asked<'_>) -> Response {
        let wanted = if rng.chance(self.empty) { 0 } else { 1 + rng.below(TOKENS_MOST) };
        let tokens = asked.output_most.map_or(wanted, |most| wanted.min(most));
        let words: Vec<String> = (0..tokens).map(|token| format!("{}.{token} ", asked.mark)).collect();
        let usage = Usage { input: Some(asked.input), output: Some(tokens), ..Usage::default() };
        let told = (!rng.chance(self.uncounted)).then_some(usage);
        let error = rng.chance(self.error_event);
        let mut response = match asked.routed {
            Some((dialect, shape)) if shape != Shape::Whole => {
                self.stream(rng, (dialect, shape), asked, &words, told, error)
            }
            _ => self.whole(rng, asked, &words, told),
        };
        response.is_sound &= !error;
        if rng.chance(self.garbled) {
            garble(rng, &mut response);
        }
        response
    }

    fn stream(
        &self,
        rng: &mut Rng,
        (dialect, shape): (Dialect, Shape),
        asked: &Asked<'_>,
        words: &[String],
        usage: Option<Usage>,
        error: bool,
    ) -> Response {
        let mut encoder = Encoder::new(dialect, shape, asked.mark, "m", CREATED);
        let breaks_at = if error { rng.below(words.len() as u64 + 1) as usize } else { usize::MAX };
        let mut pieces = vec![Piece::Role];
        let texts = words.iter().map(|text| Piece::Text { channel: Channel::Answer, text });
        pieces.extend(texts.take(breaks_at));
        if error {
            pieces.push(Piece::Failed { message: "the engine is gone" });
        } else {
            pieces.push(Piece::Finish(FinishReason::Stop));
            pieces.extend(usage.map(Piece::Usage));
            pieces.push(Piece::Done);
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n",
            dialect.content_type(shape)
        );
        let mut response =
            Response { status: 200, usage: usage.filter(|_| !error), is_sound: true, ..Response::default() };
        response.text = words.iter().take(breaks_at).map(String::as_str).collect();
        response.pieces.push((self.first_wait(rng), head.into_bytes()));
        for piece in &pieces {
            let mut bytes = Vec::new();
            encoder.encode_event(piece, &mut bytes);
            if bytes.is_empty() {
                continue;
            }
            response.body.extend_from_slice(&bytes);
            let is_text = matches!(piece, Piece::Text { .. });
            let wait = if is_text { rng.exponential(self.gap) } else { Span::ZERO };
            response.pieces.push((wait, chunk(&bytes)));
        }
        response.pieces.push((Span::ZERO, b"0\r\n\r\n".to_vec()));
        response
    }

    fn whole(&self, rng: &mut Rng, asked: &Asked<'_>, words: &[String], usage: Option<Usage>) -> Response {
        let text = words.concat();
        let body = match asked.routed {
            Some((dialect, shape)) => {
                let encoder = Encoder::new(dialect, shape, asked.mark, "m", CREATED);
                let finish = FinishReason::Stop;
                let answer = Answer { reasoning: "", answer: &text, tools: &[], finish, usage, timings: None };
                encoder.encode_whole(&answer)
            }
            None => embeddings(asked),
        };
        let usage = match asked.routed {
            Some(_) => usage,
            None => Some(Usage { input: Some(asked.input), output: Some(0), ..Usage::default() }),
        };
        let wrong = rng.chance(self.wrong_length);
        let length = match wrong {
            true if rng.chance(0.5) => body.len() + 1 + rng.below(50) as usize,
            true => body.len().saturating_sub(1 + rng.below(50) as usize),
            false => body.len(),
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        let whole_in = self.first_wait(rng) + words.iter().fold(Span::ZERO, |sum, _| sum + rng.exponential(self.gap));
        let pieces = vec![(whole_in, [head.as_bytes(), &body].concat())];
        // What is missing never comes: the connection ends instead.
        let ending = (length > body.len()).then_some(Ending::Closed);
        Response { status: 200, text, usage, is_sound: !wrong, body, pieces, ending }
    }

    fn first_wait(&self, rng: &mut Rng) -> Span {
        rng.exponential(self.first)
    }
}

fn refusal(rng: &mut Rng, asked: &Asked<'_>) -> Response {
    const STATUSES: [u16; 9] = [400, 401, 403, 404, 413, 429, 500, 503, 529];
    let status = STATUSES[rng.below(STATUSES.len() as u64) as usize];
    let dialect = asked.routed.map_or(Dialect::OpenAiChat, |(dialect, _)| dialect);
    let body = encode_refusal(dialect, status, "not now");
    let retry_after = if status == 429 && rng.chance(0.5) { "retry-after: 2\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n{retry_after}content-length: {length}\r\n\r\n"
    );
    let pieces = vec![(rng.exponential(Span::from_millis(50)), [head.as_bytes(), &body].concat())];
    Response { status, body, pieces, is_sound: true, ..Response::default() }
}

fn embeddings(asked: &Asked<'_>) -> Vec<u8> {
    let Asked { mark, input, .. } = asked;
    format!(
        r#"{{"object":"list","data":[{{"embedding":[0.5],"index":0}}],"model":"{mark}","usage":{{"prompt_tokens":{input},"total_tokens":{input}}}}}"#
    )
    .into_bytes()
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// Changes one byte of what is sent, head and framing included.
fn garble(rng: &mut Rng, response: &mut Response) {
    let place = rng.below(response.pieces.len() as u64) as usize;
    let bytes = &mut response.pieces[place].1;
    let at = rng.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 + rng.below(255) as u8;
    response.is_sound = false;
}
