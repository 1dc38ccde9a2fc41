//! Clients of a service: each with its own rate, burstiness and lengths over time, and the requests that they send together.
//!
//! Requests are drawn once, before the run, into a [`Trace`], so that what is sent is the same however many workers send it. Invariant: the
//! requests depend on the clients, the excerpt and the seed only, and those of one client on no other client.
//!
//! Layouts:
//! - own: JSON Lines, an object a client, described in docs/load-shapes.md;
//! - ServeGen (alibaba/ServeGen): a folder with a pair of files a client, `chunk-N-trace.csv` and `chunk-N-dataset.json`.

mod draw;
mod own;
mod servegen;

use crate::bad_input::{BadInput, hash};
use crate::prompts::Lengths;
use crate::trace::Trace;
use std::sync::Arc;
use tokrate_core::{Rng, Span};

/// Requests that clients may be asked to send at most: as many as fit into some hundred MiB.
const MAX_REQUESTS: usize = 5_000_000;
/// Fewer requests a second than this are none.
const MIN_RATE: f64 = 1e-9;

/// How the clients were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientFormat {
    /// An object a client.
    Own,
    /// Files of ServeGen.
    ServeGen,
}

/// Clients, as files describe them.
#[derive(Clone, PartialEq, Debug)]
pub struct Clients {
    /// How they were written.
    pub format: ClientFormat,
    /// The clients, in the order of the files.
    clients: Vec<Client>,
    /// A hash of all files.
    hash: u64,
}

/// One client.
#[derive(Clone, PartialEq, Debug)]
struct Client {
    /// How it sends, from when on; in order of time. The last one holds for ever.
    rates: Vec<(Span, Sending)>,
    /// How long its prompts and answers are, from when on; in order of time.
    lengths: Vec<(Span, LengthPair)>,
}

/// Lengths of prompts and answers; drawn independently of each other, as files have them apart.
#[derive(Clone, PartialEq, Debug)]
struct LengthPair {
    input: Lengths,
    output: Lengths,
}

/// How a client sends.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sending {
    /// Requests per second; 0 for none.
    rate: f64,
    gaps: Gaps,
}

/// The law of the gaps between a client's requests, of mean 1 and this shape.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Gaps {
    Gamma(f64),
    Weibull(f64),
}

/// Which part of the clients' time is sent, and how much of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Excerpt {
    /// Where it begins in the clients' own time.
    pub from: Span,
    /// How long it is.
    pub length: Span,
    /// Requests per second of all clients together, on average over the excerpt; `None` for their own.
    pub rate: Option<f64>,
}

/// A position in one of several files.
pub type BadFile = (usize, BadInput);

impl ClientFormat {
    /// A name for records.
    pub const fn name(self) -> &'static str {
        match self {
            ClientFormat::Own => "clients",
            ClientFormat::ServeGen => "ServeGen",
        }
    }
}

impl Clients {
    /// Reads a file with an object a client.
    ///
    /// # Errors
    /// The position of the first line that is no client.
    pub fn parse(text: &str) -> Result<Clients, BadInput> {
        let clients = own::read(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        Ok(Clients { format: ClientFormat::Own, clients, hash: hash(text) })
    }

    /// Reads pairs of ServeGen's files, the trace and the dataset of each client.
    ///
    /// # Errors
    /// The first position that cannot be read, with the number of its file: that of the trace of the n-th pair is 2n.
    pub fn parse_servegen(pairs: &[(&str, &str)]) -> Result<Clients, BadFile> {
        let mut clients = Vec::new();
        let mut hashes = String::new();
        for (number, (trace, dataset)) in pairs.iter().enumerate() {
            let rates = servegen::rates(trace).map_err(|bad| (2 * number, bad))?;
            let lengths = servegen::lengths(dataset).map_err(|bad| (2 * number + 1, bad))?;
            hashes += &format!("{:016x}{:016x}", hash(trace), hash(dataset));
            clients.push(Client { rates, lengths });
        }
        Ok(Clients { format: ClientFormat::ServeGen, clients, hash: hash(&hashes) })
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// The requests of an excerpt.
    ///
    /// # Errors
    /// Why there are none, or too many, in words that fit behind the name of the flag.
    pub fn draw(&self, excerpt: Excerpt, rng: &Rng) -> Result<Trace, String> {
        draw::draw(self, excerpt, rng)
    }
}

/// What the requests of a trace were drawn from, in words.
pub(crate) fn words(clients: &Clients, sending: usize, excerpt: Excerpt) -> Arc<str> {
    let rate = excerpt.rate.map_or_else(String::new, |rate| format!(", {rate} a second"));
    let (from, length) = (excerpt.from.as_secs_f64(), excerpt.length.as_secs_f64());
    format!("{sending} of {} clients, {length} s from {from} s on{rate}", clients.len()).into()
}

#[cfg(test)]
mod tests;
