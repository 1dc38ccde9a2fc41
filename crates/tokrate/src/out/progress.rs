//! What is seen of a run while it runs, on standard error: the live view, a line for each level, or nothing.
//!
//! Invariant: the view is drawn by a thread of its own that reads counters only, so that nothing which measures waits for it.

mod stage;
mod terminal;
mod window;

pub use terminal::{is_shown, leave};

use crate::config::bench::Progress as Mode;
use crate::config::environment::Terminal;
use stage::{Known, Running, Stage};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokrate_bench::forecast::Forecast;
use tokrate_bench::plan::PhaseSpec;
use tokrate_bench::{PhasePosition, Progress, Stop};
use tokrate_charts::format::number;
use tokrate_core::Span;
use tokrate_live::{Doing, Level, Look, MIN_COLUMNS, MIN_ROWS, Screen};
use tokrate_net::Clock;
use tokrate_record::Record;
use window::Window;

/// Time between two pictures of the view.
const REFRESH: Duration = Duration::from_millis(200);
/// A wait that a provider asks for is printed where there is no view, if it is longer than this.
const WAIT_TOLD: Span = Span::from_secs(5);
/// The line that a short note stands in is emptied.
const CLEAR_LINE: &str = "\r\x1b[K";

/// The display of a run.
pub struct Display {
    mode: Mode,
    clock: Clock,
    stage: Arc<Mutex<Stage>>,
    thread: Option<Thread>,
    /// What is printed once the view is gone.
    held: String,
    /// A note stands in the last line of the terminal.
    has_note: bool,
}

struct Thread {
    over: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

impl Display {
    /// The display of a run of targets with these names.
    pub fn new(mode: Mode, names: &[String], stop: &Stop) -> Display {
        let clock = Clock::monotonic();
        let stage = Stage {
            stop: stop.clone(),
            began: clock.now(),
            targets: names.iter().cloned().map(Known::new).collect(),
            running: None,
            doing: Doing::Measuring,
            spent: vec![0.0; names.len()],
        };
        let stage = Arc::new(Mutex::new(stage));
        Display { mode: resolved(mode), clock, stage, thread: None, held: String::new(), has_note: false }
    }

    /// Prints on standard error, as soon as no view hides it.
    pub fn say(&mut self, text: &str) {
        match self.mode {
            Mode::Quiet => {}
            Mode::Live if is_shown() => self.held.push_str(text),
            _ => {
                self.clear_note();
                anstream::eprint!("{text}");
            }
        }
    }

    /// The probe request of a target is on its way.
    pub fn probing(&mut self, target: usize) {
        if self.mode == Mode::Live {
            let name = self.stage().targets[target].name.clone();
            anstream::eprint!("[{name}] asking once before the load");
            self.has_note = true;
        }
    }

    /// What a target will be asked for.
    pub fn planned(&mut self, target: usize, forecast: &Forecast) {
        self.clear_note();
        self.stage().targets[target].forecast = Some(forecast.clone());
    }

    /// A level begins; the view is shown from the first on.
    pub fn phase_started(&mut self, place: PhasePosition, round: u64, spec: &PhaseSpec, progress: &Arc<Progress>) {
        self.clear_note();
        let began = self.clock.now();
        if self.mode == Mode::Quiet {
            return;
        }
        if self.mode == Mode::Live {
            progress.watch();
        }
        let (spec, progress) = (spec.clone(), Arc::clone(progress));
        {
            let mut stage = self.stage();
            stage.doing = Doing::Measuring;
            stage.running = Some(Running { place, spec, progress, began, round, window: Window::default() });
        }
        if self.thread.is_none() {
            self.start();
        }
    }

    /// The client's own error is being measured.
    pub fn calibrating(&mut self) {
        self.stage().doing = Doing::Calibrating;
    }

    /// A level has ended.
    pub fn phase_ended(&mut self, place: PhasePosition, record: &Record) {
        let now = self.clock.now();
        let line = {
            let mut stage = self.stage();
            stage.doing = Doing::Ended;
            stage.spent[place.target] = record.spending.map_or(0.0, |spending| spending.usd);
            let seconds = stage.running.as_ref().map_or(0.0, |running| (now - running.began).as_secs_f64());
            let several = stage.targets.len() > 1;
            let known = &mut stage.targets[place.target];
            known.ended(record, seconds);
            let load = record.phases.last().map(|phase| phase.load.short());
            let level = known.shown.levels.iter().find(|level| Some(&level.name.text) == load.as_ref());
            let name = if several { format!("{}: ", known.name) } else { String::new() };
            level.map(|level| level_line(&name, level, &known.numbers, seconds))
        };
        if self.mode == Mode::Lines {
            self.say(&line.unwrap_or_default());
        }
    }

    /// Takes the view away, and prints what it has hidden.
    pub fn clear(&mut self) {
        self.clear_note();
        if let Some(Thread { over, handle }) = self.thread.take() {
            over.store(true, Relaxed);
            handle.thread().unpark();
            // A display that broke must not end the run.
            let _ = handle.join();
        }
        leave();
        anstream::eprint!("{}", std::mem::take(&mut self.held));
    }

    fn clear_note(&mut self) {
        if std::mem::take(&mut self.has_note) {
            anstream::eprint!("{CLEAR_LINE}");
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&mut self) {
        let over = Arc::new(AtomicBool::new(false));
        let (stage, clock, ends) = (Arc::clone(&self.stage), self.clock, Arc::clone(&over));
        let watch = match self.mode {
            Mode::Live => {
                terminal::enter();
                draw_until
            }
            _ => tell_waits_until,
        };
        let thread = std::thread::Builder::new().name("view".to_owned());
        match thread.spawn(move || watch(&stage, clock, &ends)) {
            Ok(handle) => self.thread = Some(Thread { over, handle }),
            // Without a thread the run goes on unseen.
            Err(_) => leave(),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The mode that a terminal allows, where it is left to tokrate.
fn resolved(mode: Mode) -> Mode {
    let is_terminal = || std::io::IsTerminal::is_terminal(&std::io::stderr());
    let is_large = || terminal::size().is_some_and(|(columns, rows)| columns >= MIN_COLUMNS && rows >= MIN_ROWS);
    match mode {
        Mode::Auto if !is_terminal() => Mode::Plain,
        Mode::Auto if Terminal::read().draws && is_large() && terminal::is_ours() => Mode::Live,
        Mode::Auto => Mode::Lines,
        chosen => chosen,
    }
}

/// Draws the view until it is over.
fn draw_until(stage: &Mutex<Stage>, clock: Clock, over: &AtomicBool) {
    let look = Look { colour: has_colour(), unicode: Terminal::read().unicode };
    let mut screen = Screen::default();
    while !over.load(Relaxed) {
        if let Some((columns, rows)) = terminal::size() {
            let live = stage.lock().unwrap_or_else(PoisonError::into_inner).live(clock.now());
            if !terminal::draw(&screen.show(&live, look, columns, rows)) {
                return;
            }
        }
        std::thread::park_timeout(REFRESH);
    }
}

/// Prints how long a provider asks to wait, until it is over.
fn tell_waits_until(stage: &Mutex<Stage>, clock: Clock, over: &AtomicBool) {
    let mut waits = false;
    while !over.load(Relaxed) {
        std::thread::park_timeout(REFRESH);
        let stage = stage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = &stage.running else { continue };
        let held = running.progress.snapshot(clock.now()).held;
        if let Some(held) = held.filter(|held| !waits && *held > WAIT_TOLD) {
            let level = running.spec.load.name();
            anstream::eprintln!("{level}: waiting {:.0} s, as the provider asks (429)", held.as_secs_f64());
        }
        waits = held.is_some();
    }
}

/// Whether standard error shows colours, and they are wanted.
fn has_colour() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}

/// A level that has ended, in a line.
fn level_line(target: &str, level: &Level, numbers: &tokrate_live::Shown, seconds: f64) -> String {
    let mut parts = Vec::new();
    parts.extend(level.throughput.map(|all| format!("{} {} in all", number(all), numbers.throughput.1)));
    let time = |value: f64| tokrate_core::format::seconds(value);
    parts.extend(level.p50.map(|p50| format!("{} p50 {}", numbers.time, time(p50))));
    parts.extend(level.p99.map(|p99| format!("p99 {}", time(p99))));
    parts.extend(level.speed.map(|speed| format!("{} tok/s each", number(speed))));
    parts.extend((level.failed > 0).then(|| format!("{} failed", level.failed)));
    parts.extend((!level.is_valid).then(|| "not valid by the client's own error".to_owned()));
    parts.push(format!("{seconds:.0} s"));
    format!("{target}{}: {}\n", level.name.text, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_live::{LevelName, Shown};

    #[test]
    fn a_level_is_a_line() {
        let level = Level {
            name: LevelName { text: "c = 8".to_owned(), amount: 8.0 },
            throughput: Some(512.3),
            p50: Some(0.21),
            p99: Some(0.322),
            speed: Some(64.0),
            failed: 2,
            is_valid: false,
            ..Level::default()
        };
        assert_eq!(
            level_line("a: ", &level, &Shown::default(), 12.4),
            "a: c = 8: 512 tok/s in all, TTFT p50 210 ms, p99 322 ms, 64.0 tok/s each, 2 failed, not valid by the client's own error, 12 s\n"
        );
        let nothing = Level { is_valid: true, ..level.clone() };
        let nothing = Level { throughput: None, p50: None, p99: None, speed: None, failed: 0, ..nothing };
        assert_eq!(level_line("", &nothing, &Shown::default(), 3.0), "c = 8: 3 s\n");
    }
}
