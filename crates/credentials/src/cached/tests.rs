//! Who waits, who fetches, and when, by a clock that is moved by hand.

use super::*;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};

type Outcome = Result<(u32, u64), &'static str>;

/// A source whose fetches end when the test says so.
struct Scripted {
    started: Sender<()>,
    outcomes: Mutex<Receiver<Outcome>>,
    running: AtomicUsize,
}

impl Source<u32> for Scripted {
    fn fetch(&self, _: &Reach) -> Result<Fetched<u32>, CredentialError> {
        assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "one fetch at a time");
        self.started.send(()).expect("the test listens");
        let outcome = self.outcomes.lock().expect("no panic").recv().expect("an outcome");
        self.running.fetch_sub(1, Ordering::SeqCst);
        let failed =
            |reason: &str| CredentialError { of: "x", tried: vec![reason.to_owned()], hint: "y", is_temporary: false };
        outcome.map(|(value, seconds)| Fetched { value, lifetime: Some(Span::from_secs(seconds)) }).map_err(failed)
    }
}

struct Bench {
    cached: Cached<u32>,
    clock: Clock,
    hands: tokrate_net::ManualClock,
    started: Receiver<()>,
    outcomes: Sender<Outcome>,
}

impl Bench {
    fn new() -> Bench {
        let (clock, hands) = Clock::manual(Tick::from_nanos(1));
        let (started_here, started) = channel();
        let (outcomes, waiting) = channel();
        let source = Scripted { started: started_here, outcomes: Mutex::new(waiting), running: AtomicUsize::new(0) };
        Bench { cached: Cached::new(source), clock, hands, started, outcomes }
    }

    fn poll(&self) -> Poll<Result<u32, String>> {
        let config = ClientConfig::default();
        let mut future = pin!(self.cached.get(&config, self.clock));
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        polled.map(|got| got.map(|held| *held.value).map_err(|error| error.to_string()))
    }

    /// Ends the fetch that runs, and waits until that is known.
    fn end(&self, outcome: Outcome) {
        self.started.recv().expect("a fetch");
        self.outcomes.send(outcome).expect("the fetch waits");
        while self.cached.0.lock().is_fetching {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_credential_is_fetched_once_and_again_before_it_expires_while_requests_go_on_with_the_old_one() {
    let bench = Bench::new();
    assert!(bench.poll().is_pending() && bench.poll().is_pending());
    bench.end(Ok((1, 3600)));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)));
    bench.hands.advance(Span::from_secs(3299));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)));
    assert!(bench.started.try_recv().is_err(), "no fetch yet");
    bench.hands.advance(Span::from_secs(1));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)), "the old one is good while the new one comes");
    bench.end(Ok((2, 3600)));
    assert_eq!(bench.poll(), Poll::Ready(Ok(2)));
}

#[test]
fn a_failed_refresh_costs_nothing_while_the_old_credential_is_good_and_is_an_error_after() {
    let bench = Bench::new();
    assert!(bench.poll().is_pending());
    bench.end(Ok((1, 600)));
    bench.hands.advance(Span::from_secs(500));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)));
    bench.end(Err("it is down"));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)), "not asked again within a second");
    assert!(bench.started.try_recv().is_err());
    bench.hands.advance(Span::from_secs(96));
    assert!(bench.poll().is_pending(), "less than five seconds are left");
    bench.end(Err("it is down"));
    assert_eq!(bench.poll(), Poll::Ready(Err("get credentials of x: it is down; y".to_owned())));
    bench.hands.advance(Span::from_secs(2));
    assert!(bench.poll().is_pending());
    bench.end(Ok((2, 600)));
    assert_eq!(bench.poll(), Poll::Ready(Ok(2)));
}

#[test]
fn a_credential_that_is_refused_is_dropped_and_fetched_anew_once() {
    let bench = Bench::new();
    assert!(bench.poll().is_pending());
    bench.end(Ok((1, 3600)));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)));
    let now = || bench.clock.now();
    assert!(bench.cached.refused(1, now()) && bench.cached.refused(1, now()), "two requests were under way");
    assert!(bench.poll().is_pending() && bench.poll().is_pending(), "nobody gets the old one");
    bench.end(Ok((2, 3600)));
    assert!(bench.cached.refused(1, now()), "a third finds the new one");
    assert_eq!(bench.poll(), Poll::Ready(Ok(2)));
    assert!(!bench.cached.refused(2, now()), "the new one is no better: the key is bad");
    assert_eq!(bench.poll(), Poll::Ready(Ok(2)));
    assert!(bench.started.try_recv().is_err(), "and is not asked for again");
    bench.hands.advance(Span::from_secs(60));
    assert!(bench.cached.refused(2, now()));
    assert!(bench.poll().is_pending());
    bench.end(Err("it is down"));
    assert_eq!(bench.poll(), Poll::Ready(Err("get credentials of x: it is down; y".to_owned())));
}

#[test]
fn a_credential_that_is_refused_while_its_successor_comes_is_not_used_again() {
    let bench = Bench::new();
    assert!(bench.poll().is_pending());
    bench.end(Ok((1, 600)));
    bench.hands.advance(Span::from_secs(500));
    assert_eq!(bench.poll(), Poll::Ready(Ok(1)), "its successor is fetched beside");
    assert!(bench.cached.refused(1, bench.clock.now()));
    assert!(bench.poll().is_pending());
    bench.end(Ok((2, 600)));
    assert_eq!(bench.poll(), Poll::Ready(Ok(2)));
}

#[test]
fn a_source_that_panics_is_a_failure_and_nobody_waits_for_ever() {
    struct Broken;
    impl Source<u32> for Broken {
        fn fetch(&self, _: &Reach) -> Result<Fetched<u32>, CredentialError> {
            let none: VecDeque<u32> = VecDeque::new();
            Ok(Fetched { value: none[0], lifetime: None })
        }
    }
    let cached = Cached::new(Broken);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let error = runtime.block_on(cached.get(&ClientConfig::default(), Clock::monotonic()));
    let error = error.map(|held| held.value).expect_err("no value");
    assert!(error.to_string().contains("broke off"), "{error}");
}
