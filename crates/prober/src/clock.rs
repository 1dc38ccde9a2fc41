//! Compares the wall clock with the steady one, and with when the prober wanted to wake up.
//!
//! Invariant: an observation is reported once.

use tokrate_core::{Span, Tick};

/// Differences up to so much are the clocks' own: corrections of the wall clock, and timers.
const TOLERANCE_MS: u64 = 5_000;
/// A prober that wakes up this much too late was stopped.
const MAX_OVERSLEEP: Span = Span::from_secs(30);

/// What the clocks show since they were last looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClockEvent {
    /// The wall clock went ahead of the steady one by so much (ms): it was set, or the machine was asleep.
    Ahead(u64),
    /// It went back by so much (ms).
    Back(u64),
    /// The prober was not running for so long (ms) beyond its time.
    Stopped(u64),
}

/// The clocks when they were last looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<(Tick, u64)>,
    wake_at: Option<Tick>,
}

impl ClockWatch {
    /// When the prober wants to be polled next.
    pub fn expect(&mut self, wake_at: Tick) {
        self.wake_at = Some(wake_at);
    }

    /// Looks at the clocks.
    pub fn observe(&mut self, now: Tick, wall_ms: u64) -> Option<ClockEvent> {
        let late = self.wake_at.take().map_or(Span::ZERO, |wake_at| now.since(wake_at));
        let (then, wall_then) = self.last.replace((now, wall_ms))?;
        let expected = wall_then.saturating_add(now.since(then).as_nanos() / 1_000_000);
        if wall_ms > expected.saturating_add(TOLERANCE_MS) {
            Some(ClockEvent::Ahead(wall_ms - expected))
        } else if wall_ms.saturating_add(TOLERANCE_MS) < expected {
            Some(ClockEvent::Back(expected - wall_ms))
        } else if late > MAX_OVERSLEEP {
            Some(ClockEvent::Stopped(late.as_nanos() / 1_000_000))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_and_stops_are_seen_once() {
        let mut watch = ClockWatch::default();
        let at = |seconds: u64| Tick::from_nanos(seconds * 1_000_000_000);
        assert_eq!(watch.observe(at(0), 1_000_000), None);
        assert_eq!(watch.observe(at(60), 1_060_300), None, "a correction");
        assert_eq!(watch.observe(at(120), 5_120_300), Some(ClockEvent::Ahead(4_000_000)));
        assert_eq!(watch.observe(at(180), 5_180_300), None);
        assert_eq!(watch.observe(at(240), 1_240_300), Some(ClockEvent::Back(4_000_000)));
        watch.expect(at(300));
        assert_eq!(watch.observe(at(400), 1_400_300), Some(ClockEvent::Stopped(100_000)));
        assert_eq!(watch.observe(at(700), 1_700_300), None, "nothing was expected");
    }
}
