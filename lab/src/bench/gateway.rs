//! `cargo xtask bench gateway`: what tokrate's gateway adds, carries and costs, beside peers and beside no gateway at all.
//!
//! It does not judge by exit code: a missed bar or a peer that cannot be had is told in the table. Invariant: one
//! upstream serves all doors, in turns within each round, and nothing that was started outlives the run.

mod answer;
mod calls;
mod door;
mod flood;
mod guard;
mod pace;
mod play;
mod relay;
mod report;
mod rest;
mod upstream;
mod watch;

use super::clock::now;
use super::table::{MachineTime, conditions};
use super::tempfolder;
pub use answer::AnswerReader;
use anyhow::{Context, Result, bail};
use door::{Door, Places, Tool};
use flood::Flooded;
pub use guard::{GUARD, Guarded, guard};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
pub use relay::{RELAY, relay};
use report::{Report, Values};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use upstream::Upstream;

/// How it is called.
pub const USAGE: &str = "\
usage: cargo xtask bench gateway [--rounds N] [--tokrate BINARY] [--without PEER] [SCENE…]
       scenes: memory, calls, streams, pace, crowd, leave; peers: relay, tensorzero, litellm
";

/// How long answers may go on without their clients before they are broken off.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a gateway may be busy after its clients have gone before the next one has its turn.
const REST: Duration = Duration::from_secs(20);
/// A gateway rests when it took at most one tick of CPU time within so long.
const REST_WINDOW: Duration = Duration::from_millis(100);
const REST_CPU_NS: u64 = 10_000_000;

/// One part of the measuring.
struct Scene {
    name: &'static str,
    about: &'static str,
    /// Whether the relay has turns.
    relayed: bool,
    play: fn(&mut Theatre) -> Result<()>,
}

/// Leaving comes last: a peer that reads on without a client may be busy with it for long.
const SCENES: [Scene; 6] = [
    Scene {
        name: "memory",
        about: "start, memory at rest and of 1,000 open streams",
        relayed: false,
        play: rest::memory,
    },
    Scene { name: "calls", about: "answers in one piece, 1 and 50 connections", relayed: true, play: calls::calls },
    Scene { name: "streams", about: "streams as fast as they go, 50 connections", relayed: true, play: calls::streams },
    Scene { name: "pace", about: "one stream of 20 ms gaps", relayed: true, play: pace::pace },
    Scene { name: "crowd", about: "up to 2,000 streams of 50 tok/s", relayed: false, play: pace::crowd },
    Scene { name: "leave", about: "clients that leave", relayed: false, play: rest::leave },
];

/// Everything that the scenes share.
struct Theatre {
    places: Places,
    upstream: Upstream,
    doors: Vec<Door>,
    rounds: usize,
    values: Values,
    report: Report,
    /// Doors without turns in the scene that is played: peers that have failed in it, and the relay where it is no measure.
    absent: BTreeSet<Tool>,
    /// The most memory of gateways of tokrate that have ended (KiB).
    peak_kib: u64,
    next_id: u64,
}

impl Theatre {
    /// The order of the doors in a round.
    fn turns(&self, round: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.doors.len()).collect();
        places.rotate_left(round % self.doors.len().max(1));
        places.retain(|place| !self.absent.contains(&self.doors[*place].tool));
        places
    }

    /// Numbers for so many calls, never used before; the first of them.
    fn numbers(&mut self, count: u64) -> u64 {
        let first = self.next_id;
        self.next_id += count;
        first
    }

    /// Says what a turn gave, while the others still run.
    fn tell(&self, round: usize, what: &str) {
        eprintln!("round {}/{}: {what}", round + 1, self.rounds);
    }

    /// Waits until nothing goes on behind a door whose clients have gone and the gateway rests. What goes on is broken off.
    fn settle(&self, place: usize) {
        let door = &self.doors[place];
        let name = door.tool.name();
        if !self.upstream.wait_for_open(0, SETTLE) {
            eprintln!("{name}: {} answers go on without a client and are broken off", self.upstream.open());
            self.upstream.hang_up();
            self.upstream.wait_for_open(0, SETTLE);
        }
        if door.tool == Tool::Direct {
            return;
        }
        let from = now();
        loop {
            let before = door.cpu_ns();
            std::thread::sleep(REST_WINDOW);
            if door.cpu_ns() - before <= REST_CPU_NS {
                return;
            }
            if now() - from > REST.as_nanos() as u64 {
                eprintln!("{name}: it is still busy {} s after its clients have gone", REST.as_secs());
                return;
            }
        }
    }

    /// What a turn gave; the failure of a peer is noted, and it has no more turns in this scene.
    fn excused<T>(&mut self, tool: Tool, scene: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if tool.passes_bytes_on() => Err(error),
            Err(error) => {
                eprintln!("{}, {scene}: failed to {error:#}", tool.name());
                self.report.note(format!("{} left out of {scene}: failed to {error:#}", tool.name()));
                self.absent.insert(tool);
                Ok(None)
            }
        }
    }

    /// Notes what should not have happened.
    fn suspect(&mut self, tool: Tool, what: &str, done: &Flooded) {
        let name = tool.name();
        if done.altered > 0 {
            self.report
                .note(format!("**{name}, {what}: {} of {} answers are not what was sent**", done.altered, done.calls));
        }
        if done.failed > 0 {
            let complaint = done.complaint.as_deref().unwrap_or_default();
            self.report.note(format!("{name}, {what}: {} calls failed, the first with: {complaint}", done.failed));
        }
    }
}

struct Options {
    rounds: usize,
    tokrate: Option<PathBuf>,
    without: Vec<String>,
    scenes: Vec<&'static Scene>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options { rounds: 5, tokrate: None, without: Vec::new(), scenes: Vec::new() };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("read what follows {word}\n{USAGE}"));
            match word {
                "--rounds" => options.rounds = value()?.parse::<usize>().context("read the number of rounds")?.max(1),
                "--tokrate" => options.tokrate = Some(std::path::absolute(value()?)?),
                "--without" => options.without.push(value()?.to_owned()),
                name => match SCENES.iter().find(|scene| scene.name == name) {
                    Some(scene) => options.scenes.push(scene),
                    None => bail!("understand {name}\n{USAGE}"),
                },
            }
        }
        // In their own order, however they were typed: memory is that of gateways that have done nothing yet.
        let typed = std::mem::take(&mut options.scenes);
        let is_asked = |scene: &&Scene| typed.is_empty() || typed.iter().any(|typed| typed.name == scene.name);
        options.scenes.extend(SCENES.iter().filter(is_asked));
        Ok(options)
    }
}

/// Measures and prints the table.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if cfg!(debug_assertions) {
        return super::again_in_release(root, options.tokrate.is_none(), &["gateway"], arguments);
    }
    let tokrate = options.tokrate.clone().unwrap_or_else(|| root.join("target/release/tokrate"));
    let folder = tempfolder()?;
    let result = measure(Places { root: root.to_path_buf(), tokrate, folder: folder.clone() }, &options);
    drop(std::fs::remove_dir_all(folder));
    result
}

fn measure(places: Places, options: &Options) -> Result<()> {
    allow_open_files()?;
    let machine = MachineTime::now();
    let conditions = conditions(&places.root, &places.tokrate);
    let upstream = Upstream::start()?;
    let (doors, report) = (Vec::new(), Report::default());
    let mut theatre = Theatre {
        places,
        upstream,
        doors,
        rounds: options.rounds,
        values: Values::default(),
        report,
        absent: BTreeSet::new(),
        peak_kib: 0,
        next_id: 1,
    };
    open_doors(&mut theatre, options)?;
    let mut failed = 0;
    for scene in &options.scenes {
        eprintln!("{}: {}", scene.name, scene.about);
        theatre.absent.clear();
        if !scene.relayed {
            theatre.absent.insert(Tool::Relay);
        }
        if let Err(error) = (scene.play)(&mut theatre) {
            failed += 1;
            eprintln!("{}: failed to {error:#}", scene.name);
            theatre.report.note(format!("**{} could not be measured whole**: failed to {error:#}", scene.name));
        }
        for door in theatre.doors.iter().filter(|door| door.tool != Tool::Direct) {
            let (name, peak) = (door.tool.name(), door.usage().peak_kib as f64 / 1024.0);
            eprintln!("{}: {name} has had {peak:.1} MiB resident at most", scene.name);
        }
    }
    rest::peak(&mut theatre);
    for complaint in theatre.upstream.take_complaints() {
        theatre.report.note(format!("the upstream failed to {complaint}"));
    }
    for door in theatre.doors.drain(..) {
        if !door.is_alive() {
            theatre.report.note(format!("**{} did not live to the end**: {}", door.tool.name(), door.last_words()));
        }
    }
    print_all(&theatre, &conditions, machine);
    if failed > 0 {
        bail!("measure {failed} of the scenes; see the notes");
    }
    Ok(())
}

/// Opens every door that can be had.
fn open_doors(theatre: &mut Theatre, options: &Options) -> Result<()> {
    for tool in Tool::ALL {
        if options.without.iter().any(|name| name == tool.name()) {
            continue;
        }
        eprintln!("{}: starting", tool.name());
        match Door::open(tool, &theatre.places, &theatre.upstream) {
            Ok(door) => theatre.doors.push(door),
            Err(error) if tool.passes_bytes_on() => return Err(error),
            Err(error) => theatre.report.note(format!("{} is not in the table: failed to {error:#}", tool.name())),
        }
    }
    Ok(())
}

fn print_all(theatre: &Theatre, conditions: &[String], machine: MachineTime) {
    for condition in conditions {
        println!("- {condition}");
    }
    println!("- median of {} rounds (min..max), the doors in turn, another first in each round", theatre.rounds);
    println!("- {}", machine.told_since());
    println!(
        "- upstream and clients are two threads of one process on the same cores as the gateway; see docs/bench-gateway.md"
    );
    println!("\n{}", theatre.report);
}

/// Thousands of connections need as many open files, here and in what is started.
fn allow_open_files() -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("ask how many files may be open")?;
    let wanted = hard.min(65_536);
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).context("allow more open files")?;
    }
    Ok(())
}
