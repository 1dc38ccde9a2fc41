//! Ticks of the bench servers and floors: nanoseconds of the machine's monotonic clock.
//!
//! It refuses to know who asks. Invariant: ticks of different processes of one machine are comparable, and are those that
//! `tokrate bench --jsonl` writes.

use rustix::time::{ClockId, clock_gettime};

/// The tick now (ns).
pub fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// CPU time of this thread so far (ns).
pub fn thread_cpu() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
