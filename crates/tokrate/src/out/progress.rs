//! A live line on standard error while a phase runs; nothing when standard error is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokrate_bench::plan::{Extent, Load, PhaseSpec};
use tokrate_bench::{Progress, Snapshot};

const REFRESH: Duration = Duration::from_millis(200);
/// A wait that a provider asks for is told without a terminal too, if it is longer than this.
const WAIT_TOLD: Duration = Duration::from_secs(5);

/// The display of the phase that runs.
pub struct Display {
    /// Not `--quiet`.
    talks: bool,
    /// Standard error is a terminal too.
    visible: bool,
    running: Option<Running>,
}

struct Running {
    bar: ProgressBar,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Display {
    /// A display; `talks` is false for `--quiet`.
    pub fn new(talks: bool) -> Display {
        Display { talks, visible: talks && std::io::IsTerminal::is_terminal(&std::io::stderr()), running: None }
    }

    /// Shows a phase from its start on; the label says which it is, such as `2/4`.
    pub fn phase(&mut self, label: &str, spec: &PhaseSpec, progress: &Arc<Progress>) {
        self.clear();
        if !self.talks {
            return;
        }
        let target = if self.visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{prefix} {bar:24} {msg}").expect("the template is well-formed");
        bar.set_style(style.progress_chars("━━ "));
        bar.set_prefix(format!("[{label}] {}", level(spec)));
        let over = Arc::new(AtomicBool::new(false));
        let watcher = Watcher {
            bar: bar.clone(),
            visible: self.visible,
            spec: spec.clone(),
            progress: Arc::clone(progress),
            over: Arc::clone(&over),
        };
        let thread = std::thread::spawn(move || watcher.watch());
        self.running = Some(Running { bar, over, thread });
    }

    /// Shows a short text instead, such as what is being calibrated.
    pub fn note(&mut self, text: &str) {
        self.clear();
        if self.visible {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is well-formed"));
            bar.set_message(text.to_owned());
            bar.tick();
            self.running = Some(Running { bar, over: Arc::default(), thread: std::thread::spawn(|| {}) });
        }
    }

    /// Takes the live line away.
    pub fn clear(&mut self) {
        if let Some(running) = self.running.take() {
            running.over.store(true, Relaxed);
            running.thread.thread().unpark();
            // A display that broke must not end the run.
            let _ = running.thread.join();
            running.bar.finish_and_clear();
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A level in a few words.
pub fn level(spec: &PhaseSpec) -> String {
    spec.load.name()
}

struct Watcher {
    bar: ProgressBar,
    visible: bool,
    spec: PhaseSpec,
    progress: Arc<Progress>,
    over: Arc<AtomicBool>,
}

impl Watcher {
    fn watch(self) {
        let started = Instant::now();
        let mut last = (started, Snapshot::default());
        let mut waits = false;
        while !self.over.load(Relaxed) {
            std::thread::park_timeout(REFRESH);
            let (now, snapshot) = (Instant::now(), self.progress.snapshot());
            if let Some(held) = snapshot.held.filter(|held| !self.visible && !waits && *held > WAIT_TOLD) {
                anstream::eprintln!(
                    "{}: waiting {:.0} s, as the provider asks (429)",
                    level(&self.spec),
                    held.as_secs_f64()
                );
            }
            waits = snapshot.held.is_some();
            let seconds = (now - last.0).as_secs_f64().max(1e-3);
            let bytes = snapshot.text_bytes.saturating_sub(last.1.text_bytes) as f64;
            let speed = self.progress.bytes_per_token().map(|length| bytes / length / seconds);
            let share = share_done(&self.spec, snapshot, now - started);
            self.bar.set_position((share * 1000.0) as u64);
            self.bar.set_message(message(snapshot, speed, share, now - started));
            last = (now, snapshot);
        }
    }
}

fn share_done(spec: &PhaseSpec, snapshot: Snapshot, elapsed: Duration) -> f64 {
    let share = match spec.extent {
        Extent::Requests(n) => (snapshot.answered + snapshot.failed) as f64 / (n + spec.warmup).max(1) as f64,
        Extent::Sessions(sessions) => {
            let turns = match spec.load {
                Load::Sessions { turns, .. } => u64::from(turns),
                _ => 1,
            };
            (snapshot.answered + snapshot.failed) as f64 / (sessions * turns).max(1) as f64
        }
        Extent::Duration(span) => elapsed.as_secs_f64() / span.as_secs_f64().max(1e-9),
    };
    share.clamp(0.0, 1.0)
}

/// The line; `speed` is not known before the first answer.
fn message(snapshot: Snapshot, speed: Option<f64>, share: f64, elapsed: Duration) -> String {
    let in_flight = snapshot.in_flight();
    let mut parts = vec![format!("{} done", snapshot.answered)];
    parts.extend((snapshot.failed > 0).then(|| format!("{} failed", snapshot.failed)));
    parts.push(format!("{in_flight} in flight"));
    if let Some(speed) = speed {
        parts.push(format!("throughput ≈ {speed:.0} tok/s"));
        parts.extend((in_flight > 0).then(|| format!("≈ {:.0} tok/s each", speed / in_flight as f64)));
    }
    parts.extend((share > 0.02).then(|| format!("{:.0} s left", elapsed.as_secs_f64() * (1.0 - share) / share)));
    let held =
        snapshot.held.map(|held| format!("waiting {:.0} s more, as the provider asks (429)", held.as_secs_f64()));
    parts.extend(held);
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_bench::plan::Backoff;
    use tokrate_core::Span;

    #[test]
    fn the_line_says_what_is_estimated_and_what_is_left() {
        let snapshot = Snapshot { started: 14, answered: 10, failed: 2, text_bytes: 0, held: None };
        let line = message(snapshot, Some(200.0), 0.5, Duration::from_secs(6));
        assert_eq!(line, "10 done, 2 failed, 2 in flight, throughput ≈ 200 tok/s, ≈ 100 tok/s each, 6 s left");
        let held = Snapshot { started: 1, held: Some(Duration::from_secs(40)), ..Snapshot::default() };
        let line = message(held, None, 0.0, Duration::ZERO);
        assert_eq!(line, "0 done, 1 in flight, waiting 40 s more, as the provider asks (429)");
    }

    #[test]
    fn the_share_follows_requests_or_time() {
        let spec =
            |extent| PhaseSpec { load: Load::Closed { concurrency: 1 }, extent, warmup: 2, backoff: Backoff::Obey };
        let snapshot = Snapshot { answered: 3, ..Snapshot::default() };
        assert_eq!(share_done(&spec(Extent::Requests(4)), snapshot, Duration::ZERO), 0.5);
        let timed = spec(Extent::Duration(Span::from_secs(8)));
        assert_eq!(share_done(&timed, snapshot, Duration::from_secs(2)), 0.25);
        assert_eq!(share_done(&timed, snapshot, Duration::from_secs(20)), 1.0);
    }
}
