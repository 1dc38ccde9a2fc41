//! Expected times for a selector with perfect knowledge: the law and state of every engine, and the length of the answer.
//!
//! Invariant: it only reads laws and states.

use tokrate_core::{Rng, Span, Tick};
use tokrate_sim::Persona;

/// The true state of a lane.
pub(super) struct Truth<'a> {
    pub persona: &'a Persona,
    /// The engine's generator for its background load.
    pub background_rng: &'a Rng,
    pub started_at: Tick,
    pub latency: Span,
    pub in_flight: u32,
    /// Whether its limits or queue refuse a call now.
    pub refuses: bool,
}

impl Truth<'_> {
    /// Completion time of one more call at the load it would cause.
    pub fn seconds(&self, now: Tick, prompt_tokens: u32, output_tokens: f64, mean_output_tokens: f64) -> f64 {
        self.seconds_at(now, self.in_flight + 1, prompt_tokens, output_tokens, mean_output_tokens)
    }

    /// Marginal cost of one more call for all calls on the lane (call-seconds).
    pub fn seconds_for_all(&self, now: Tick, prompt_tokens: u32, output_tokens: f64, mean: f64) -> f64 {
        let at = |in_flight| self.seconds_at(now, in_flight, prompt_tokens, output_tokens, mean);
        let near = self.in_flight + 1;
        let far = near + (near / 4).max(1);
        let own = at(near);
        let gained = f64::from(far) / at(far) - f64::from(near) / own;
        if gained > 0.0 { (f64::from(far - near) / gained).clamp(own, 10.0 * own) } else { 10.0 * own }
    }

    fn seconds_at(&self, now: Tick, in_flight: u32, prompt_tokens: u32, output_tokens: f64, mean: f64) -> f64 {
        if self.refuses {
            return f64::INFINITY;
        }
        let law = &self.persona.law;
        let deviation = self.persona.at(now.since(self.started_at), self.background_rng);
        let running = in_flight.min(law.slots);
        let speed = law.stream_speed(running.saturating_add(deviation.background_streams)) * deviation.speed;
        let first = law.first_chunk_delay(prompt_tokens).as_secs_f64() * deviation.ttft;
        let ahead = f64::from(in_flight - running);
        let service = first + mean / speed;
        let queue = ahead * service / f64::from(law.slots);
        let rest = (output_tokens - f64::from(law.tokens_per_chunk)).max(0.0);
        2.0 * self.latency.as_secs_f64() + queue + first + rest / speed
    }
}
