//! A timer with sub-millisecond precision for one runtime: a heap of deadlines over one `timerfd`.
//!
//! Invariant: a sleeper is woken at or after its deadline, never before, and dropping a sleep removes it.

use crate::clock::Clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokrate_core::Tick;

/// Wakes futures of one runtime at given ticks. Cheap to clone; clones share the timer.
#[derive(Clone, Debug)]
pub struct Pacer {
    shared: Rc<Shared>,
    _task: Rc<TimerTask>,
}

/// The task that watches the timer; ends with the last pacer.
#[derive(Debug)]
struct TimerTask(tokio::task::AbortHandle);

impl Drop for TimerTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    sleepers: RefCell<Sleepers>,
    timer: timer::Timer,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// By deadline; the id distinguishes sleepers with the same deadline.
    waiting: BTreeMap<(Tick, u64), Waker>,
    next_id: u64,
    /// What the timer is set to.
    armed: Option<Tick>,
}

impl Pacer {
    /// A pacer for the runtime of the caller, which must run a `LocalSet`: the timer is watched by a local task, which
    /// ends with the last clone of the pacer.
    ///
    /// # Errors
    /// When the operating system has no timer left, or the clock is not the monotonic one.
    pub fn new(clock: Clock) -> io::Result<Pacer> {
        if !clock.is_monotonic() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "only the monotonic clock can be paced"));
        }
        let shared = Rc::new(Shared { clock, sleepers: RefCell::default(), timer: timer::Timer::new()? });
        let watched = Rc::clone(&shared);
        let task = tokio::task::spawn_local(async move {
            while std::future::poll_fn(|context| watched.timer.poll_fired(context)).await.is_ok() {
                watched.wake_due();
            }
        });
        Ok(Pacer { shared, _task: Rc::new(TimerTask(task.abort_handle())) })
    }

    /// The clock that deadlines refer to.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Completes at `deadline` or as soon after it as the machine allows; tells when.
    pub fn sleep_until(&self, deadline: Tick) -> Sleep {
        Sleep { shared: Rc::clone(&self.shared), deadline, id: None }
    }
}

impl Shared {
    fn wake_due(&self) {
        let now = self.clock.now();
        let mut sleepers = self.sleepers.borrow_mut();
        sleepers.armed = None;
        while let Some(entry) = sleepers.waiting.first_entry() {
            if entry.key().0 > now {
                break;
            }
            entry.remove().wake();
        }
        self.arm(&mut sleepers);
    }

    /// Sets the timer to the earliest deadline, if it is not set to it already.
    fn arm(&self, sleepers: &mut Sleepers) {
        let Some((&(earliest, _), _)) = sleepers.waiting.first_key_value() else { return };
        if sleepers.armed.is_none_or(|armed| earliest < armed) {
            sleepers.armed = Some(earliest);
            self.timer.set(earliest);
        }
    }
}

/// A wait for a tick; see [`Pacer::sleep_until`].
#[derive(Debug)]
pub struct Sleep {
    shared: Rc<Shared>,
    deadline: Tick,
    id: Option<u64>,
}

impl Future for Sleep {
    type Output = Tick;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Tick> {
        let now = self.shared.clock.now();
        if now >= self.deadline {
            return Poll::Ready(now);
        }
        let shared = Rc::clone(&self.shared);
        let mut sleepers = shared.sleepers.borrow_mut();
        let id = *self.id.get_or_insert_with(|| {
            sleepers.next_id += 1;
            sleepers.next_id
        });
        sleepers.waiting.insert((self.deadline, id), context.waker().clone());
        shared.arm(&mut sleepers);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shared.sleepers.borrow_mut().waiting.remove(&(self.deadline, id));
        }
    }
}

#[cfg(target_os = "linux")]
use descriptor as timer;
#[cfg(not(target_os = "linux"))]
use thread as timer;

#[cfg(target_os = "linux")]
mod descriptor {
    //! `timerfd`, watched by the runtime's own poller.

    use rustix::fd::OwnedFd;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };
    use std::io;
    use std::task::{Context, Poll, ready};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokrate_core::Tick;

    #[derive(Debug)]
    pub(super) struct Timer {
        fd: AsyncFd<OwnedFd>,
    }

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            // Deprecated because it relies on `AsRawFd`, which an owned descriptor satisfies; the replacement is `unsafe`.
            #[expect(deprecated, reason = "sound for an owned descriptor")]
            let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
            Ok(Timer { fd })
        }

        pub(super) fn set(&self, deadline: Tick) {
            // A value of zero would disarm the timer.
            let nanoseconds = deadline.as_nanos().max(1);
            let value =
                Timespec { tv_sec: (nanoseconds / 1_000_000_000) as i64, tv_nsec: (nanoseconds % 1_000_000_000) as _ };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
            timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &once)
                .expect("a valid timer takes every time that is not negative");
        }

        pub(super) fn poll_fired(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            loop {
                let mut guard = ready!(self.fd.poll_read_ready(context))?;
                let read = guard.try_io(|fd| {
                    let mut expirations = [0_u8; 8];
                    rustix::io::read(fd.get_ref(), &mut expirations).map_err(io::Error::from)
                });
                match read {
                    Ok(result) => return Poll::Ready(result.map(drop)),
                    Err(_would_block) => {}
                }
            }
        }
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod thread {
    //! A thread that sleeps until shortly before the deadline and spins for the rest, for systems without `timerfd`.

    use crate::clock::Clock;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Condvar, Mutex, PoisonError};
    use std::task::{Context, Poll, Waker};
    use tokrate_core::{Span, Tick};

    /// How long before a deadline the thread spins instead of sleeping: the usual overrun of a sleep.
    const SPIN_TIME: Span = Span::from_micros(200);

    #[derive(Debug)]
    pub(super) struct Timer {
        shared: Arc<Shared>,
    }

    #[derive(Debug, Default)]
    struct Shared {
        order: Mutex<TimerState>,
        changed: Condvar,
        fired: AtomicBool,
    }

    #[derive(Debug, Default)]
    struct TimerState {
        deadline: Option<Tick>,
        waker: Option<Waker>,
        is_stopped: bool,
    }

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            let shared = Arc::new(Shared::default());
            let ticking = Arc::clone(&shared);
            std::thread::Builder::new().name("pacer".to_owned()).spawn(move || ticking.run(Clock::monotonic()))?;
            Ok(Timer { shared })
        }

        pub(super) fn set(&self, deadline: Tick) {
            self.shared.lock().deadline = Some(deadline);
            self.shared.changed.notify_one();
        }

        pub(super) fn poll_fired(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            let mut order = self.shared.lock();
            if self.shared.fired.swap(false, Ordering::AcqRel) {
                return Poll::Ready(Ok(()));
            }
            order.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }

    impl Drop for Timer {
        fn drop(&mut self) {
            self.shared.lock().is_stopped = true;
            self.shared.changed.notify_one();
        }
    }

    impl Shared {
        fn lock(&self) -> std::sync::MutexGuard<'_, TimerState> {
            self.order.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn run(&self, clock: Clock) {
            let mut order = self.lock();
            while !order.is_stopped {
                let now = clock.now();
                order = match order.deadline {
                    None => self.changed.wait(order).unwrap_or_else(PoisonError::into_inner),
                    Some(deadline) if now >= deadline => {
                        order.deadline = None;
                        self.fired.store(true, Ordering::Release);
                        if let Some(waker) = order.waker.take() {
                            waker.wake();
                        }
                        order
                    }
                    Some(deadline) if deadline - now > SPIN_TIME => {
                        let rest = (deadline - now).as_duration() - SPIN_TIME.as_duration();
                        self.changed.wait_timeout(order, rest).unwrap_or_else(PoisonError::into_inner).0
                    }
                    Some(_) => {
                        drop(order);
                        std::hint::spin_loop();
                        self.lock()
                    }
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Span;

    fn on_local_runtime<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, future)
    }

    #[test]
    fn sleepers_wake_in_order_and_never_early() {
        on_local_runtime(async {
            let clock = Clock::monotonic();
            let pacer = Pacer::new(clock).expect("a timer");
            let start = clock.now();
            let order = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = [3_u64, 1, 2]
                .map(|n| {
                    let (pacer, order) = (pacer.clone(), Rc::clone(&order));
                    tokio::task::spawn_local(async move {
                        let deadline = start + Span::from_millis(2 * n);
                        assert!(pacer.sleep_until(deadline).await >= deadline);
                        order.borrow_mut().push(n);
                    })
                })
                .into_iter()
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
            assert_eq!(*order.borrow(), [1, 2, 3]);
        });
    }

    #[test]
    fn the_thread_for_other_systems_fires_at_its_deadline_and_ends_with_its_timer() {
        on_local_runtime(async {
            let clock = Clock::monotonic();
            let timer = thread::Timer::new().expect("a thread");
            for _ in 0..3 {
                let deadline = clock.now() + Span::from_millis(2);
                timer.set(Tick::MAX);
                timer.set(deadline);
                std::future::poll_fn(|context| timer.poll_fired(context)).await.expect("it cannot fail");
                assert!(clock.now() >= deadline);
            }
        });
    }

    #[test]
    fn a_manual_clock_cannot_be_paced() {
        on_local_runtime(async {
            assert!(Pacer::new(Clock::manual(Tick::ZERO).0).is_err());
        });
    }

    #[test]
    fn a_dropped_sleep_leaves_nothing_behind() {
        on_local_runtime(async {
            let pacer = Pacer::new(Clock::monotonic()).expect("a timer");
            let mut sleep = Box::pin(pacer.sleep_until(Tick::MAX));
            std::future::poll_fn(|context| {
                assert!(sleep.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            assert_eq!(pacer.shared.sleepers.borrow().waiting.len(), 1);
            drop(sleep);
            assert!(pacer.shared.sleepers.borrow().waiting.is_empty());
        });
    }
}
