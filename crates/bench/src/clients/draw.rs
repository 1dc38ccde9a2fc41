//! Draws what clients send: for each a renewal process in its own time, which runs as fast as its rate.
//!
//! The processes are stationary: a client does not send its first request when the excerpt begins, but somewhere within a gap, as a gap is met
//! that is looked at at a random moment (length-biased). Else all clients would send at once at the beginning. A gap that was begun goes on
//! through a change of rate, as fast as the new rate.

use super::{Client, ClientFormat, Clients, Excerpt, Gaps, MAX_REQUESTS, MIN_RATE, Sending, words};
use crate::trace::{Trace, TraceFormat, TraceRequest};
use tokrate_core::{Rng, Span};
use tokrate_stats::ln_gamma;

pub(super) fn draw(clients: &Clients, excerpt: Excerpt, rng: &Rng) -> Result<Trace, String> {
    let own: f64 = clients.clients.iter().map(|client| client.expected(excerpt)).sum();
    let length = excerpt.length.as_secs_f64();
    if own <= MIN_RATE * length {
        return Err(format!(
            "none of the {} clients sends anything from {} on for {}",
            clients.len(),
            excerpt.from,
            excerpt.length
        ));
    }
    let factor = excerpt.rate.map_or(1.0, |rate| rate * length / own);
    if own * factor > MAX_REQUESTS as f64 {
        return Err(format!(
            "{:.0} requests are more than {MAX_REQUESTS}; take a shorter time or a lower rate",
            own * factor
        ));
    }
    let mut requests = Vec::new();
    let mut sending = 0;
    for (number, client) in (0_u64..).zip(&clients.clients) {
        let before = requests.len();
        client.send(excerpt, factor, &rng.child("client").nth(number), &mut requests);
        if requests.len() > 2 * MAX_REQUESTS {
            return Err(format!("more than {MAX_REQUESTS} requests; take a shorter time or a lower rate"));
        }
        sending += usize::from(requests.len() > before);
    }
    if requests.is_empty() {
        return Err(format!("no request falls into {}; take a longer time or a higher rate", excerpt.length));
    }
    // Stable, so that requests of one moment keep the order of their clients.
    requests.sort_by_key(|request| request.at);
    let format = match clients.format {
        ClientFormat::Own => TraceFormat::Clients,
        ClientFormat::ServeGen => TraceFormat::ServeGen,
    };
    Ok(Trace { format, requests, left_out: 0, hash: clients.hash, drawn: Some(words(clients, sending, excerpt)) })
}

impl Client {
    /// What is sent in an excerpt, piece by piece: from when on (s since its beginning), for how long (s), and how.
    fn pieces(&self, excerpt: Excerpt) -> impl Iterator<Item = (f64, f64, Sending)> + '_ {
        let (from, to) = (excerpt.from.as_secs_f64(), (excerpt.from + excerpt.length).as_secs_f64());
        let ends = self.rates.iter().skip(1).map(|(at, _)| at.as_secs_f64()).chain([f64::INFINITY]);
        let is_silent = self.lengths.is_empty();
        self.rates.iter().zip(ends).filter_map(move |((at, sending), end)| {
            let (begin, end) = (at.as_secs_f64().max(from), end.min(to));
            (end > begin && !is_silent).then_some((begin - from, end - begin, *sending))
        })
    }

    /// Requests that it sends in an excerpt, on average.
    fn expected(&self, excerpt: Excerpt) -> f64 {
        self.pieces(excerpt).map(|(_, length, sending)| length * sending.rate).sum()
    }

    fn send(&self, excerpt: Excerpt, factor: f64, rng: &Rng, requests: &mut Vec<TraceRequest>) {
        let (mut gaps, lengths) = (rng.child("gaps"), rng.child("lengths"));
        // What is left of the gap before the next request, in mean gaps.
        let mut left: Option<f64> = None;
        let mut sent = 0_u64;
        for (from, length, sending) in self.pieces(excerpt) {
            let rate = sending.rate * factor;
            if rate <= MIN_RATE {
                continue;
            }
            let mut passed = 0.0;
            let mut before = left.unwrap_or_else(|| sending.gaps.rest(&mut gaps));
            while passed + before / rate < length && requests.len() <= 2 * MAX_REQUESTS {
                passed += before / rate;
                requests.push(self.request(excerpt, from + passed, &lengths.nth(sent)));
                sent += 1;
                before = sending.gaps.draw(&mut gaps);
            }
            left = Some(before - (length - passed) * rate);
        }
    }

    fn request(&self, excerpt: Excerpt, at: f64, rng: &Rng) -> TraceRequest {
        let at = Span::from_secs_f64(at);
        let is_later = |(from, _): &&(Span, super::LengthPair)| *from <= excerpt.from + at;
        // Before the first lengths that are known, those.
        let (_, pair) = self.lengths.iter().rev().find(is_later).unwrap_or(&self.lengths[0]);
        TraceRequest {
            at,
            input_tokens: pair.input.draw(&mut rng.child("input")),
            output_tokens: pair.output.draw(&mut rng.child("output")),
            blocks: Box::default(),
        }
    }
}

impl Gaps {
    /// A gap of mean 1.
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Gaps::Gamma(shape) => rng.gamma(shape) / shape,
            Gaps::Weibull(shape) => (-(1.0 - rng.unit()).ln()).powf(1.0 / shape) / weibull_mean(shape),
        }
    }

    /// What is left of the gap that a random moment lies in.
    fn rest(self, rng: &mut Rng) -> f64 {
        let gap = match self {
            Gaps::Gamma(shape) => rng.gamma(shape + 1.0) / shape,
            Gaps::Weibull(shape) => rng.gamma(1.0 + 1.0 / shape).powf(1.0 / shape) / weibull_mean(shape),
        };
        rng.unit() * gap
    }
}

/// The mean of a Weibull distribution of scale 1.
fn weibull_mean(shape: f64) -> f64 {
    ln_gamma(1.0 + 1.0 / shape).exp()
}

/// The shape of a Weibull distribution whose standard deviation is so much of its mean.
pub(super) fn weibull_shape(cv: f64) -> f64 {
    let cv_of =
        |shape: f64| ((ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape)).exp() - 1.0).max(0.0).sqrt();
    let (mut low, mut high) = (0.05_f64, 1_000.0_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        // Less shape is more spread.
        if cv_of(middle) > cv { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}
