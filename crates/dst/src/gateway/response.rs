//! Generates the response of a simulated provider: its bytes with their times, and where it breaks.
//!
//! Invariant: the faults of a lane and the number of a request determine every byte; each token of text names its lane,
//! request and position, so that it can be traced.

use tokrate_core::{Channel, FinishReason, Rng, Span, Usage};
use tokrate_tokens::{Encoding, count};
use tokrate_wire::{Answer, Dialect, Encoder, Piece, Shape, encode_error_response};

/// Creation time in answers (Unix seconds).
const CREATED: u64 = 1_790_000_000;
/// Highest number of words of an answer.
const MAX_WORDS: u64 = 40;
/// Highest number of tokens of an answer: a word is the lane, the request and a number.
pub(super) const MAX_TOKENS: u64 = 10 * MAX_WORDS;

/// Probability of each fault of a lane, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LaneFaults {
    /// The connection is refused.
    pub refused: f64,
    /// The connection attempt hangs.
    pub unreachable: f64,
    /// The response breaks at a random byte.
    pub broken: f64,
    /// The response stalls at a random byte.
    pub stalled: f64,
    /// Bytes are corrupted.
    pub garbled: f64,
    /// An error status.
    pub refusal: f64,
    /// An error event in the stream.
    pub error_event: f64,
    /// A wrong content-length.
    pub wrong_length: f64,
    /// An answer without text.
    pub empty: f64,
    /// An answer without token counts.
    pub uncounted: f64,
    /// The connection is closed after the response without notice.
    pub closes: f64,
    /// A kept connection is closed when the next request comes.
    pub stale: f64,
    /// Mean time to the first byte.
    pub first: Span,
    /// Mean time between two tokens.
    pub gap: Span,
}

/// How a response ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Complete; the connection is kept.
    StoredRows,
    /// Complete; the connection is closed.
    Closed,
    /// The connection is closed after this many bytes of the response.
    Cut(usize),
    /// The connection is reset after this many bytes of the response.
    Reset(usize),
    /// The response stalls after this many bytes.
    Stalled(usize),
}

/// The parts of a request that determine the response.
#[derive(Clone, Copy, Debug)]
pub struct RequestInfo<'a> {
    /// The dialect of the request, and its shape; `None` for what passes byte for byte.
    pub routed: Option<(Dialect, Shape)>,
    /// Identifies lane and request in the text.
    pub mark: &'a str,
    /// Prompt tokens, as the provider counts them.
    pub input: u64,
    /// Output limit.
    pub max_output_tokens: Option<u64>,
}

/// A generated response.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Its body, without framing.
    pub body: Vec<u8>,
    /// Its text.
    pub text: String,
    /// Token counts that it reports.
    pub usage: Option<Usage>,
    /// Whether its body is valid in the dialect.
    pub is_sound: bool,
    /// Pieces to write, each with the wait before it.
    pub pieces: Vec<(Span, Vec<u8>)>,
    /// How it ends.
    pub ending: Option<Ending>,
}

impl LaneFaults {
    /// Draws the response to a request.
    pub fn draw_response(&self, rng: &mut Rng, request: &RequestInfo<'_>) -> Response {
        let mut response = if rng.chance(self.refusal) { refusal(rng, request) } else { self.answer(rng, request) };
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
            response.ending.unwrap_or(Ending::StoredRows)
        });
        response
    }

    fn answer(&self, rng: &mut Rng, request: &RequestInfo<'_>) -> Response {
        let tokens = if rng.chance(self.empty) { 0 } else { 1 + rng.below(MAX_WORDS) };
        let mut words: Vec<String> = (0..tokens).map(|token| format!("{}.{token} ", request.mark)).collect();
        // The limit also applies to tokens that are not reported.
        let length = |words: &[String]| count(Encoding::O200kBase, &words.concat()) as u64;
        while request.max_output_tokens.is_some_and(|most| length(&words) > most) {
            words.pop();
        }
        let usage = Usage { input: Some(request.input), output: Some(length(&words)), ..Usage::default() };
        let reported = (!rng.chance(self.uncounted)).then_some(usage);
        let error = rng.chance(self.error_event);
        let mut response = match request.routed {
            Some((dialect, shape)) if shape != Shape::Whole => {
                self.stream(rng, (dialect, shape), request, &words, reported, error)
            }
            _ => self.whole(rng, request, &words, reported),
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
        request: &RequestInfo<'_>,
        words: &[String],
        usage: Option<Usage>,
        error: bool,
    ) -> Response {
        let mut encoder = Encoder::new(dialect, shape, request.mark, "m", CREATED);
        let error_at = if error { rng.below(words.len() as u64 + 1) as usize } else { usize::MAX };
        let mut pieces = vec![Piece::Role];
        let texts = words.iter().map(|text| Piece::Text { channel: Channel::Answer, text });
        pieces.extend(texts.take(error_at));
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
        response.text = words.iter().take(error_at).map(String::as_str).collect();
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

    fn whole(&self, rng: &mut Rng, request: &RequestInfo<'_>, words: &[String], usage: Option<Usage>) -> Response {
        let text = words.concat();
        let body = match request.routed {
            Some((dialect, shape)) => {
                let encoder = Encoder::new(dialect, shape, request.mark, "m", CREATED);
                let finish = FinishReason::Stop;
                let answer = Answer { reasoning: "", answer: &text, tools: &[], finish, usage, timings: None };
                encoder.encode_whole(&answer)
            }
            None => embeddings(request),
        };
        let usage = match request.routed {
            Some(_) => usage,
            None => Some(Usage { input: Some(request.input), output: Some(0), ..Usage::default() }),
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
        // The missing bytes never come: the connection ends.
        let ending = (length > body.len()).then_some(Ending::Closed);
        Response { status: 200, text, usage, is_sound: !wrong, body, pieces, ending }
    }

    fn first_wait(&self, rng: &mut Rng) -> Span {
        rng.exponential(self.first)
    }
}

fn refusal(rng: &mut Rng, request: &RequestInfo<'_>) -> Response {
    const STATUSES: [u16; 9] = [400, 401, 403, 404, 413, 429, 500, 503, 529];
    let status = STATUSES[rng.below(STATUSES.len() as u64) as usize];
    let dialect = request.routed.map_or(Dialect::OpenAiChat, |(dialect, _)| dialect);
    let body = encode_error_response(dialect, status, "not now");
    let retry_after = if status == 429 && rng.chance(0.5) { "retry-after: 2\r\n" } else { "" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n{retry_after}content-length: {length}\r\n\r\n"
    );
    let pieces = vec![(rng.exponential(Span::from_millis(50)), [head.as_bytes(), &body].concat())];
    Response { status, body, pieces, is_sound: true, ..Response::default() }
}

fn embeddings(request: &RequestInfo<'_>) -> Vec<u8> {
    let RequestInfo { mark, input, .. } = request;
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

/// Corrupts one byte, head and framing included.
fn garble(rng: &mut Rng, response: &mut Response) {
    let place = rng.below(response.pieces.len() as u64) as usize;
    let bytes = &mut response.pieces[place].1;
    let at = rng.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 + rng.below(255) as u8;
    response.is_sound = false;
}
