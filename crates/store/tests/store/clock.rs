//! The clocks that the tests give their logs.

use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tokrate_core::{Span, Tick};
use tokrate_store::LogClock;

/// The machine's time.
pub fn machine() -> LogClock {
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
    with_wall(wall)
}

/// The machine's monotonic time, and a wall time (ms since 1970) of the test.
pub fn with_wall(wall_unix_ms: impl Fn() -> u64 + Send + Sync + 'static) -> LogClock {
    let begun = Instant::now();
    LogClock::new(move || Tick::ZERO + Span::from(begun.elapsed()), wall_unix_ms)
}
