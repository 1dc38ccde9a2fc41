//! What happened in the past seconds of a level: speeds of all requests together, and how busy the client's threads are.

use std::collections::VecDeque;
use tokrate_bench::{Snapshot, WorkerLoad};
use tokrate_core::{Span, Tick};

/// Speeds are those of so much time, so that reads which come in bursts do not shake them.
const WINDOW: Span = Span::from_secs(5);
/// Less time than this tells no speed: what is sent at once at the start comes at once.
const MIN_SECONDS: f64 = 1.0;

/// What was seen in the past seconds.
#[derive(Default)]
pub struct Window(VecDeque<(Tick, Snapshot, Vec<WorkerLoad>)>);

impl Window {
    /// Adds what is seen now, and forgets what is older.
    pub fn add(&mut self, now: Tick, snapshot: Snapshot, workers: Vec<WorkerLoad>) {
        self.0.push_back((now, snapshot, workers));
        while self.0.get(1).is_some_and(|(at, ..)| now - *at >= WINDOW) {
            self.0.pop_front();
        }
    }

    /// Bytes of text and answers per second of all requests together.
    pub fn rates(&self) -> Option<(f64, f64)> {
        let ((from, before, _), (until, after, _)) = self.0.front().zip(self.0.back())?;
        let seconds = (*until - *from).as_secs_f64();
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        (seconds >= MIN_SECONDS)
            .then(|| (rate(before.text_bytes, after.text_bytes), rate(before.answered, after.answered)))
    }

    /// Share of a core that the busiest thread takes.
    pub fn busiest(&self) -> Option<f64> {
        let ((from, _, before), (until, _, after)) = self.0.front().zip(self.0.back())?;
        let seconds = (*until - *from).as_secs_f64();
        let shares = after.iter().enumerate().map(|(place, load)| {
            let earlier = before.get(place).map_or(Span::ZERO, |load| load.cpu);
            load.cpu.as_secs_f64() - earlier.as_secs_f64()
        });
        let most = shares.reduce(f64::max).filter(|_| seconds >= MIN_SECONDS)?;
        Some((most / seconds).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_the_busiest_thread_are_of_the_past_seconds() {
        let at = |seconds| Tick::ZERO + Span::from_secs(seconds);
        let seen = |answered, text_bytes| Snapshot { started: 64, answered, text_bytes, ..Snapshot::default() };
        let worked = |millis: &[u64]| {
            let load = |millis| WorkerLoad { cpu: Span::from_millis(millis), timer_lag: Span::ZERO };
            millis.iter().copied().map(load).collect::<Vec<WorkerLoad>>()
        };
        let mut window = Window::default();
        assert_eq!((window.rates(), window.busiest()), (None, None));
        window.add(at(1), seen(0, 0), Vec::new());
        assert_eq!(window.rates(), None, "a moment tells no speed");
        window.add(at(3), seen(4, 1000), worked(&[200, 500]));
        assert_eq!((window.rates(), window.busiest()), (Some((500.0, 2.0)), Some(0.25)));
        window.add(at(8), seen(54, 2000), worked(&[200, 4500]));
        assert_eq!(
            (window.rates(), window.busiest()),
            (Some((200.0, 10.0)), Some(0.8)),
            "the first second is forgotten"
        );
    }
}
