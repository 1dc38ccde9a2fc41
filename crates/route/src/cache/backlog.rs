//! The prompts that a lane is busy with: how many new tokens stand before the next one.
//!
//! Invariant: what was put in is in it until it is taken out, once.

use tokrate_core::Tick;

/// Prompts without a first token, in order of their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    waiting: Vec<(u64, f64)>,
    tokens: f64,
    /// When the first of them began to be processed, as far as can be known.
    begun_at: Tick,
    next: u64,
}

impl Backlog {
    /// New tokens that are still to be processed at `now`, at so many seconds a token.
    pub fn ahead(&self, now: Tick, seconds_per_token: f64) -> f64 {
        let Some((_, first)) = self.waiting.first() else { return 0.0 };
        let done =
            if seconds_per_token > 0.0 { now.since(self.begun_at).as_secs_f64() / seconds_per_token } else { 0.0 };
        (self.tokens - done.min(*first)).max(0.0)
    }

    /// A prompt with so many new tokens is sent; its number.
    pub fn push(&mut self, now: Tick, new_tokens: f64) -> u64 {
        if self.waiting.is_empty() {
            self.begun_at = now;
        }
        self.next += 1;
        self.waiting.push((self.next, new_tokens));
        self.tokens += new_tokens;
        self.next
    }

    /// A prompt was processed, or given up. Prompts are processed in order, more or less.
    pub fn remove(&mut self, now: Tick, number: u64) {
        let Some(place) = self.waiting.iter().position(|(waiting, _)| *waiting == number) else { return };
        let (_, tokens) = self.waiting.remove(place);
        self.tokens = if self.waiting.is_empty() { 0.0 } else { self.tokens - tokens };
        self.begun_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Tick {
        Tick::from_nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn what_waits_is_known_and_the_first_gets_less_with_time() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.ahead(at(5), 1e-4), 0.0);
        let one = backlog.push(at(0), 1_000.0);
        let two = backlog.push(at(10), 500.0);
        assert_eq!((backlog.ahead(at(10), 1e-4), backlog.ahead(at(10), 0.0)), (1_400.0, 1_500.0));
        assert_eq!(backlog.ahead(at(900), 1e-4), 500.0, "no more than the first");
        backlog.remove(at(900), one);
        assert_eq!(backlog.ahead(at(910), 1e-4), 400.0);
        backlog.remove(at(910), one);
        backlog.remove(at(950), two);
        assert_eq!(backlog.ahead(at(950), 1e-4), 0.0);
    }
}
