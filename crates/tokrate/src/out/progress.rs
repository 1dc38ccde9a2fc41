//! A live line on standard error while a phase runs; nothing when standard error is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use tokrate_bench::plan::{Extent, Load, PhaseSpec};
use tokrate_bench::{Progress, Snapshot};
use tokrate_charts::format::number;
use tokrate_core::{Span, Tick};
use tokrate_net::Clock;

const REFRESH: Duration = Duration::from_millis(200);
/// Speeds are those of so much time, so that reads which come in bursts do not shake them.
const WINDOW: Span = Span::from_secs(2);
/// Columns of the line where the terminal does not tell how many it has.
const COLUMNS: usize = 80;
/// From so many columns on there is room for a bar.
const COLUMNS_WITH_BAR: usize = 90;
/// Columns of the bar.
const BAR: usize = 12;
/// A wait that a provider asks for is printed without a terminal too, if it is longer than this.
const WAIT_TOLD: Span = Span::from_secs(5);

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
        let prefix = format!("[{label}] {}", spec.load.row().short());
        let columns = columns();
        let (template, bar_room) = match columns >= COLUMNS_WITH_BAR {
            true => ("{prefix} {bar:12} {msg}", BAR + 1),
            false => ("{prefix} {msg}", 0),
        };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style.progress_chars("━━ "));
        let room = columns.saturating_sub(prefix.chars().count() + bar_room + 2);
        bar.set_prefix(prefix);
        let over = Arc::new(AtomicBool::new(false));
        let watcher = Watcher {
            clock: Clock::monotonic(),
            bar: bar.clone(),
            visible: self.visible,
            room,
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
    clock: Clock,
    bar: ProgressBar,
    visible: bool,
    /// Columns that the message may take.
    room: usize,
    spec: PhaseSpec,
    progress: Arc<Progress>,
    over: Arc<AtomicBool>,
}

impl Watcher {
    fn watch(self) {
        let started = self.clock.now();
        let mut window = Window::default();
        let mut waits = false;
        while !self.over.load(Relaxed) {
            std::thread::park_timeout(REFRESH);
            let now = self.clock.now();
            let snapshot = self.progress.snapshot(now);
            if let Some(held) = snapshot.held.filter(|held| !self.visible && !waits && *held > WAIT_TOLD) {
                anstream::eprintln!(
                    "{}: waiting {:.0} s, as the provider asks (429)",
                    level(&self.spec),
                    held.as_secs_f64()
                );
            }
            waits = snapshot.held.is_some();
            window.add(now, snapshot);
            let speeds = self.progress.bytes_per_token().and_then(|length| window.speeds(length));
            let share = share_done(&self.spec, snapshot, now - started);
            self.bar.set_position((share * 1000.0) as u64);
            self.bar.set_message(message(snapshot, speeds, share, now - started, self.room));
        }
    }
}

/// What was seen in the past [`WINDOW`].
#[derive(Default)]
struct Window(VecDeque<(Tick, Snapshot)>);

/// Tokens per second of all requests together, and of each that was in flight meanwhile.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Speeds {
    all: f64,
    each: Option<f64>,
}

impl Window {
    fn add(&mut self, now: Tick, snapshot: Snapshot) {
        self.0.push_back((now, snapshot));
        while self.0.get(1).is_some_and(|(at, _)| now - *at >= WINDOW) {
            self.0.pop_front();
        }
    }

    /// By the requests that were in flight while the text came, and not by those that are left at the end.
    fn speeds(&self, bytes_per_token: f64) -> Option<Speeds> {
        let (first, last) = self.0.front().zip(self.0.back())?;
        let seconds = (last.0 - first.0).as_secs_f64();
        if seconds < REFRESH.as_secs_f64() / 2.0 {
            return None;
        }
        let tokens = last.1.text_bytes.saturating_sub(first.1.text_bytes) as f64 / bytes_per_token;
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let request_seconds = pairs.map(|((from, before), (until, after))| {
            (*until - *from).as_secs_f64() * f64::midpoint(before.in_flight() as f64, after.in_flight() as f64)
        });
        let request_seconds: f64 = request_seconds.sum();
        let each = (last.1.in_flight() > 0 && request_seconds > 0.0).then(|| tokens / request_seconds);
        Some(Speeds { all: tokens / seconds, each })
    }
}

/// Columns of the terminal that the line is shown on.
fn columns() -> usize {
    #[cfg(unix)]
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let columns: Option<usize> = None;
    columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

fn share_done(spec: &PhaseSpec, snapshot: Snapshot, elapsed: Span) -> f64 {
    let share = match spec.extent {
        Extent::Requests(n) => snapshot.ended() as f64 / (n + spec.warmup).max(1) as f64,
        Extent::Sessions(sessions) => {
            let turns = match spec.load {
                Load::Sessions { turns, .. } => f64::from(turns),
                Load::Agents { ref trace, .. } => trace.steps.len() as f64 / trace.sessions.len().max(1) as f64,
                _ => 1.0,
            };
            snapshot.ended() as f64 / (sessions as f64 * turns).max(1.0)
        }
        Extent::Duration(span) => elapsed.as_secs_f64() / span.as_secs_f64().max(1e-9),
    };
    share.clamp(0.0, 1.0)
}

/// The line, in so many columns; speeds are not known before the first answer.
fn message(snapshot: Snapshot, speeds: Option<Speeds>, share: f64, elapsed: Span, room: usize) -> String {
    // Each with its rank: the lower, the sooner it gets its room.
    let mut parts = vec![(0, format!("{} done", snapshot.answered))];
    parts.extend((snapshot.failed > 0).then(|| (1, format!("{} failed", snapshot.failed))));
    parts.extend((snapshot.limited > 0).then(|| (1, format!("{} limited (429)", snapshot.limited))));
    parts.push((4, format!("{} in flight", snapshot.in_flight())));
    if let Some(speeds) = speeds {
        parts.push((3, format!("≈ {} tok/s in all", number(speeds.all))));
        parts.extend(speeds.each.map(|each| (5, format!("≈ {} tok/s each", number(each)))));
    }
    let left = (share > 0.02).then(|| elapsed.as_secs_f64() * (1.0 - share) / share);
    parts.extend(left.map(|left| (2, format!("{left:.0} s left"))));
    parts.extend(snapshot.held.map(|held| (1, format!("waits {:.0} s more (429)", held.as_secs_f64()))));
    let mut by_rank: Vec<&(u32, String)> = parts.iter().collect();
    by_rank.sort_by_key(|(rank, _)| *rank);
    let mut taken = 0;
    let fits = by_rank.into_iter().filter(|(rank, part)| {
        let length = part.chars().count() + if *rank == 0 { 0 } else { ", ".len() };
        let fits = *rank == 0 || taken + length <= room;
        taken += if fits { length } else { 0 };
        fits
    });
    let shown: Vec<u32> = fits.map(|(rank, _)| *rank).collect();
    let shown = parts.iter().filter(|(rank, _)| shown.contains(rank)).map(|(_, part)| part.as_str());
    shown.collect::<Vec<&str>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_bench::plan::Backoff;

    #[test]
    fn the_line_says_what_is_estimated_and_what_is_left() {
        let snapshot = Snapshot { started: 14, answered: 10, failed: 2, limited: 0, text_bytes: 0, held: None };
        let speeds = Some(Speeds { all: 200.0, each: Some(100.0) });
        let line = |room| message(snapshot, speeds, 0.5, Span::from_secs(6), room);
        assert_eq!(line(80), "10 done, 2 failed, 2 in flight, ≈ 200 tok/s in all, ≈ 100 tok/s each, 6 s left");
        // `[1/4] c = 10` before it takes 12 of 60 columns.
        assert_eq!(line(46), "10 done, 2 failed, 2 in flight, 6 s left");
        assert_eq!(line(48), "10 done, 2 failed, ≈ 200 tok/s in all, 6 s left");
        for room in 0..90 {
            assert!(line(room).chars().count() <= room.max("10 done".len()), "{}", line(room));
        }
        let limited = Snapshot { started: 3, limited: 2, ..Snapshot::default() };
        assert_eq!(message(limited, None, 0.0, Span::ZERO, 60), "0 done, 2 limited (429), 1 in flight", "no failures");
        let held = Snapshot { started: 1, held: Some(Span::from_secs(40)), ..Snapshot::default() };
        let line = message(held, None, 0.0, Span::ZERO, 60);
        assert_eq!(line, "0 done, 1 in flight, waits 40 s more (429)");
    }

    #[test]
    fn while_a_level_drains_speeds_are_of_the_requests_that_were_in_flight() {
        let began = Tick::ZERO + Span::from_secs(1);
        let mut window = Window::default();
        let seen =
            |answered, text_bytes| Snapshot { started: 64, answered, failed: 0, limited: 0, text_bytes, held: None };
        // 64 in flight for a second and 8 for another; 4 bytes to a token.
        for (seconds, answered, bytes) in [(0, 0, 0), (1, 0, 1600), (1, 56, 1600), (2, 56, 1800)] {
            window.add(began + Span::from_secs(seconds), seen(answered, bytes));
        }
        let speeds = window.speeds(4.0).expect("two seconds");
        assert_eq!((speeds.all, speeds.each), (225.0, Some(450.0 / 72.0)));
        window.add(began + Span::from_millis(3_500), seen(64, 2000));
        assert_eq!(window.speeds(4.0).map(|speeds| speeds.each), Some(None), "nobody is left");
        assert_eq!(window.0.len(), 3, "what is older than the window is forgotten");
        let mut short = Window::default();
        short.add(began, seen(0, 0));
        short.add(began + Span::from_millis(1), seen(0, 4000));
        assert_eq!(short.speeds(4.0), None, "a moment tells no speed");
    }

    #[test]
    fn the_share_follows_requests_or_time() {
        let spec =
            |extent| PhaseSpec { load: Load::Closed { concurrency: 1 }, extent, warmup: 2, backoff: Backoff::Obey };
        let snapshot = Snapshot { answered: 3, ..Snapshot::default() };
        assert_eq!(share_done(&spec(Extent::Requests(4)), snapshot, Span::ZERO), 0.5);
        let timed = spec(Extent::Duration(Span::from_secs(8)));
        assert_eq!(share_done(&timed, snapshot, Span::from_secs(2)), 0.25);
        assert_eq!(share_done(&timed, snapshot, Span::from_secs(20)), 1.0);
    }
}
