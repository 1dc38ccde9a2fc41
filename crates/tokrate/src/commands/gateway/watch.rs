//! The thread that looks for changes in the gateway's own traffic. No call waits for it.

use std::path::PathBuf;
use std::thread::JoinHandle;
use tokrate_bench::Stop;
use tokrate_core::{Span, rfc3339};
use tokrate_detect::Event;
use tokrate_gateway::telemetry::{LaneChange, Observer};
use tokrate_monitor::TrafficWatch;

/// How often the log is looked at; a quarter of an hour is one sample.
const LOOK_EVERY: Span = Span::from_secs(60);
/// A change is told in the log of events where it is news: not what a restart finds again.
const NEWS_MS: u64 = 3_600_000;

/// Starts it; it ends with the gateway.
pub fn start(log: PathBuf, observer: Observer, stop: Stop) -> Option<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("traffic-watch".to_owned());
    let running = thread.spawn(move || run(log, &observer, &stop));
    running.inspect_err(|error| tracing::error!(%error, "lanes are not watched for changes: no thread")).ok()
}

fn run(log: PathBuf, observer: &Observer, stop: &Stop) {
    let clock = observer.clock();
    let now_ms = || clock.wall_nanos() / 1_000_000;
    let mut watch = TrafficWatch::new(log, now_ms());
    observer.report_changes(Vec::new());
    let mut was_read = true;
    while !stop.is_set() {
        match watch.poll(now_ms()) {
            Ok(found) => {
                was_read = true;
                let changes: Vec<LaneChange> = found.events.into_iter().map(change).collect();
                changes.iter().filter(|change| change.at_unix_ms + NEWS_MS > now_ms()).for_each(tell);
                observer.report_changes(changes);
                if found.is_behind {
                    continue;
                }
            }
            // Told once, until it can be read again.
            Err(error) => {
                if std::mem::take(&mut was_read) {
                    tracing::warn!(%error, "lanes are not watched for changes: the throughput log cannot be read");
                }
            }
        }
        stop.wait_blocking(LOOK_EVERY, clock);
    }
}

fn tell(change: &LaneChange) {
    let LaneChange { lane, alias, metric, kind, .. } = change;
    let percent = |share: f64| format!("{:+.0} %", 100.0 * share);
    let (size, low, high) = (percent(change.change), percent(change.low), percent(change.high));
    let since = rfc3339(change.since_unix_ms / 1_000);
    tracing::warn!(%lane, %alias, metric, kind, change = %size, %low, %high, %since, "a lane has changed");
}

fn change(event: Event) -> LaneChange {
    let time = |ms: i64| u64::try_from(ms).unwrap_or(0);
    LaneChange {
        at_unix_ms: time(event.at),
        since_unix_ms: time(event.since),
        lane: event.source.endpoint,
        alias: event.source.workload,
        metric: event.metric,
        kind: event.kind.name(),
        change: event.change,
        low: event.low,
        high: event.high,
        n: event.n as u64,
    }
}
