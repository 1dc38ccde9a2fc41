//! Keeps the threads of a server on different CPUs. Now and then the scheduler wakes one where another one runs; while the other has
//! work without end it waits for its tick (4 ms at 250 Hz), and all its connections with it, though a CPU beside would do.
//!
//! A thread that finds itself where another one was last seen at work moves away. It is not bound to a CPU: the scheduler may
//! move it again for whatever else runs there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Said by a thread that sleeps.
const NOWHERE: usize = usize::MAX;

/// One of several threads of a server.
#[derive(Clone, Debug)]
pub struct CpuSpread {
    /// On which CPU each was last seen at work.
    seen: Arc<[AtomicUsize]>,
    own: usize,
}

impl CpuSpread {
    /// For so many threads.
    pub fn for_threads(count: usize) -> Vec<CpuSpread> {
        let seen: Arc<[AtomicUsize]> = (0..count).map(|_| AtomicUsize::new(NOWHERE)).collect();
        (0..count).map(|own| CpuSpread { seen: Arc::clone(&seen), own }).collect()
    }

    /// Called by the thread as it wakes.
    pub fn woken(&self) {
        self.see(current());
    }

    /// Called by the thread before it sleeps; moves it away if another one works on its CPU.
    pub fn before_sleep(&self) {
        if let Some(here) = current().filter(|here| self.others().any(|other| other == *here)) {
            move_to(|cpu| cpu != here && !self.others().any(|other| other == cpu));
        }
        self.see(None);
    }

    fn see(&self, cpu: Option<usize>) {
        self.seen[self.own].store(cpu.unwrap_or(NOWHERE), Ordering::Relaxed);
    }

    /// Where the others are at work.
    fn others(&self) -> impl Iterator<Item = usize> {
        let all = self.seen.iter().enumerate().filter(|(thread, _)| *thread != self.own);
        all.map(|(_, seen)| seen.load(Ordering::Relaxed)).filter(|seen| *seen != NOWHERE)
    }
}

/// The CPU that the thread runs on.
#[cfg(target_os = "linux")]
fn current() -> Option<usize> {
    Some(rustix::thread::sched_getcpu())
}

/// Moves the thread to one of the CPUs that it may use and that `fits`, if there is one. It may use the same ones afterwards.
#[cfg(target_os = "linux")]
fn move_to(fits: impl Fn(usize) -> bool) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    // Fails with more CPUs than a set can name: then it stays.
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut fitting = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu) && fits(*cpu)).for_each(|it| fitting.set(it));
    if fitting.count() > 0 && sched_setaffinity(None, &fitting).is_ok() {
        // What was allowed a moment ago; where it no longer is, the kernel keeps what still is.
        let _ = sched_setaffinity(None, &allowed);
    }
}

#[cfg(not(target_os = "linux"))]
fn current() -> Option<usize> {
    None
}

#[cfg(not(target_os = "linux"))]
fn move_to(_: impl Fn(usize) -> bool) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    fn only(cpu: usize) -> CpuSet {
        let mut set = CpuSet::new();
        set.set(cpu);
        set
    }

    #[test]
    fn a_thread_that_leaves_the_cpu_of_another_may_use_the_same_ones_as_before() {
        let allowed = sched_getaffinity(None).expect("few CPUs");
        let threads = CpuSpread::for_threads(2);
        for here in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            threads[0].woken();
            threads[1].see(Some(here));
            assert_eq!(threads[0].others().collect::<Vec<_>>(), [here]);
            threads[0].before_sleep();
            assert!(sched_getaffinity(None).expect("few CPUs") == allowed, "bound to none");
            assert_eq!(threads[1].others().count(), 0, "it sleeps");
        }
    }

    #[test]
    fn a_thread_that_may_use_one_cpu_only_stays_there() {
        let allowed = sched_getaffinity(None).expect("few CPUs");
        let here = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).expect("one");
        let threads = CpuSpread::for_threads(2);
        sched_setaffinity(None, &only(here)).expect("allowed");
        threads[1].see(Some(here));
        threads[0].before_sleep();
        assert!(sched_getaffinity(None).expect("few CPUs") == only(here));
        assert_eq!(current(), Some(here));
    }

    #[test]
    fn a_thread_that_is_moved_runs_where_it_fits() {
        let allowed = sched_getaffinity(None).expect("few CPUs");
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            let mut ran = false;
            // Between moving and looking the scheduler may move it again: it was there if it was seen there once.
            for _ in 0..1_000 {
                move_to(|it| it == cpu);
                ran |= current() == Some(cpu);
            }
            assert!(ran, "never on {cpu}");
        }
    }
}
