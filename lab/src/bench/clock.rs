//! Ticks of the bench servers and floors: nanoseconds of the machine's monotonic clock.
//!
//! Invariant: ticks of different processes of one machine are comparable, and are those that `tokrate bench --jsonl`
//! writes.

use anyhow::{Context, Result};
use rustix::time::{ClockId, Itimerspec, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_settime};
use std::os::fd::OwnedFd;

/// The tick now (ns).
pub fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Has a timer go off at a tick; 0 disarms it.
pub fn set_timer(timer: &OwnedFd, at: u64) -> Result<()> {
    let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).context("set the timer")?;
    Ok(())
}

/// CPU time of this thread so far (ns).
pub fn thread_cpu() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
