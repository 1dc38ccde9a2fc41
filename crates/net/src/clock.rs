//! The monotonic clock, wall time and thread CPU time. Invariant: ticks of all processes on one machine are comparable.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use tokio::time::Instant;
use tokrate_core::{Span, Tick, rfc3339};

/// A source of ticks: CLOCK_MONOTONIC, a clock that a test advances, or a runtime's time. Created in `main` and passed by value.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    Monotonic,
    Manual(&'static AtomicU64),
    Runtime(&'static RuntimeTime),
}

/// The time of a tokio runtime.
#[derive(Debug)]
struct RuntimeTime {
    origin: Instant,
    start: Tick,
    /// Wall time at `origin` (ns since 1970), with all jumps since.
    wall_nanos: AtomicI64,
}

/// Sets the wall time of a clock made by [`Clock::of_runtime`].
#[derive(Clone, Copy, Debug)]
pub struct WallClockControl(&'static RuntimeTime);

/// Advances a clock made by [`Clock::manual`].
#[derive(Clone, Copy, Debug)]
pub struct ManualClock(&'static AtomicU64);

impl Clock {
    /// The machine's monotonic clock.
    pub fn monotonic() -> Clock {
        Clock(Source::Monotonic)
    }

    /// A clock that stands still until it is advanced, for tests. Each leaks 8 bytes, so that [`Clock`] can be `Copy`.
    pub fn manual(start: Tick) -> (Clock, ManualClock) {
        let manual_clock: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(start.as_nanos())));
        (Clock(Source::Manual(manual_clock)), ManualClock(manual_clock))
    }

    /// A clock that follows the caller's runtime: under paused time it jumps from timer to timer. It starts at `start` and
    /// `wall_nanos` (since 1970). For simulations; like [`Clock::manual`], each leaks a few bytes.
    pub fn of_runtime(start: Tick, wall_nanos: u64) -> (Clock, WallClockControl) {
        let wall_nanos = AtomicI64::new(i64::try_from(wall_nanos).unwrap_or(i64::MAX));
        let time: &'static RuntimeTime = Box::leak(Box::new(RuntimeTime { origin: Instant::now(), start, wall_nanos }));
        (Clock(Source::Runtime(time)), WallClockControl(time))
    }

    /// Whether this is the machine's own clock.
    pub(crate) fn is_monotonic(self) -> bool {
        matches!(self.0, Source::Monotonic)
    }

    /// Now.
    #[inline]
    pub fn now(self) -> Tick {
        match self.0 {
            Source::Monotonic => Tick::from_nanos(nanos(ClockId::Monotonic)),
            Source::Manual(manual_clock) => Tick::from_nanos(manual_clock.load(Ordering::Relaxed)),
            Source::Runtime(time) => time.start + time.elapsed(),
        }
    }

    /// Nanoseconds since 1970, for fields that carry wall time.
    pub fn wall_nanos(self) -> u64 {
        match self.0 {
            Source::Monotonic | Source::Manual(_) => nanos(ClockId::Realtime),
            Source::Runtime(time) => {
                let elapsed = i64::try_from(time.elapsed().as_nanos()).unwrap_or(i64::MAX);
                u64::try_from(time.wall_nanos.load(Ordering::Relaxed).saturating_add(elapsed)).unwrap_or(0)
            }
        }
    }

    /// Seconds since 1970, for fields that carry wall time.
    pub fn wall_seconds(self) -> u64 {
        self.wall_nanos() / 1_000_000_000
    }

    /// Wall time as RFC 3339 in UTC, to the second.
    pub fn wall_rfc3339(self) -> String {
        rfc3339(self.wall_seconds())
    }
}

impl ManualClock {
    /// Advances the clock and returns its new time.
    pub fn advance(self, span: Span) -> Tick {
        Tick::from_nanos(self.0.fetch_add(span.as_nanos(), Ordering::Relaxed)) + span
    }
}

impl RuntimeTime {
    fn elapsed(&self) -> Span {
        let elapsed = Instant::now().saturating_duration_since(self.origin);
        Span::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl WallClockControl {
    /// Shifts the wall time by `seconds`; ticks are not affected.
    pub fn jump(self, seconds: i64) {
        self.0.wall_nanos.fetch_add(seconds.saturating_mul(1_000_000_000), Ordering::Relaxed);
    }
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Span {
    Span::from_nanos(nanos(ClockId::ThreadCPUTime))
}

fn nanos(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_219_200), "2026-11-21T00:00:00Z");
    }

    #[test]
    fn the_clock_of_a_runtime_follows_its_timers_and_its_wall_time_can_jump() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let start = Tick::from_nanos(7);
            let (clock, wall) = Clock::of_runtime(start, 1_000_000_000_000);
            assert_eq!((clock.now(), clock.wall_seconds()), (start, 1_000));
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            // Timers have a grain of a millisecond.
            let now = clock.now();
            assert!(now >= start + Span::from_secs(60) && now <= start + Span::from_millis(60_002), "{now:?}");
            wall.jump(-1_000);
            assert_eq!((clock.now(), clock.wall_seconds()), (now, 60));
        });
    }

    #[test]
    fn ticks_never_go_back() {
        let clock = Clock::monotonic();
        let (one, two) = (clock.now(), clock.now());
        assert!(one <= two && one > Tick::ZERO);
    }
}
