//! `cargo xtask bench gateway`: latency, throughput and cost of tokrate's gateway, beside peers and the bare upstream.
//!
//! A missed bar or a peer that cannot be installed is noted in the table and does not fail the run. Invariant: one
//! upstream serves all endpoints, in turns within each round, and no process outlives the run.

mod answer;
mod calls;
mod closed_loop;
mod endpoint;
mod pace;
mod process;
mod relay;
mod report;
mod resources;
mod script;
mod streams;
mod upstream;

use super::clock::now;
use super::stream::Tls;
use super::table::{MachineTime, conditions};
use super::tempfolder;
pub use answer::AnswerReader;
use anyhow::{Context, Result, bail};
use closed_loop::LoopResult;
use endpoint::{Endpoint, Places, Tool};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
pub use process::{GUARD, GuardedProcess, guard};
pub use relay::{RELAY, relay};
use report::{Line, Report, Values};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use upstream::Upstream;

/// The usage text.
pub const USAGE: &str = "\
usage: cargo xtask bench gateway [--rounds N] [--tokrate BINARY] [--tls] [--peer busbar=BINARY] [--without PEER] [SCENE…]
       scenes: memory, calls, streams, pace, crowd, leave; peers: relay, busbar, tensorzero, litellm
       --tls: clients and upstream speak TLS
";

/// How long answers may go on without their clients before the upstream closes them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a gateway may stay busy after its clients have disconnected before the next one has its turn.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// A gateway is idle if it used at most one kernel tick of CPU time within this window.
const IDLE_WINDOW: Duration = Duration::from_millis(100);
const MAX_IDLE_CPU_NS: u64 = 10_000_000;

/// One part of the measuring.
struct Scene {
    name: &'static str,
    about: &'static str,
    /// Whether the relay has turns.
    relayed: bool,
    run: fn(&mut GatewayBench) -> Result<()>,
}

/// Disconnect comes last: a peer that reads on without a client may be busy with it for long.
const SCENES: [Scene; 6] = [
    Scene {
        name: "memory",
        about: "start, memory at rest and of 1,000 open streams",
        relayed: false,
        run: resources::memory,
    },
    Scene {
        name: "calls",
        about: "answers in one piece, 1, 8, 50 and 500 connections",
        relayed: true,
        run: calls::calls,
    },
    Scene { name: "streams", about: "streams as fast as they go, 50 connections", relayed: true, run: calls::streams },
    Scene { name: "pace", about: "one stream of 20 ms gaps", relayed: true, run: pace::pace },
    Scene { name: "crowd", about: "up to 2,000 streams of 50 tok/s", relayed: false, run: pace::crowd },
    Scene { name: "leave", about: "clients that leave", relayed: false, run: resources::leave },
];

/// State that the scenes share.
struct GatewayBench {
    places: Places,
    upstream: Upstream,
    endpoints: Vec<Endpoint>,
    rounds: usize,
    values: Values,
    report: Report,
    /// Endpoints that are skipped in the current scene: peers that have failed in it, and the relay where it is no reference.
    skipped: BTreeSet<Tool>,
    /// The most memory of gateways of tokrate that have ended (KiB).
    peak_kib: u64,
    next_id: u64,
}

impl GatewayBench {
    /// The order of the endpoints in a round.
    fn turns(&self, round: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.endpoints.len()).collect();
        places.rotate_left(round % self.endpoints.len().max(1));
        places.retain(|place| !self.skipped.contains(&self.endpoints[*place].tool));
        places
    }

    /// Numbers for so many calls, never used before; the first of them.
    fn numbers(&mut self, count: u64) -> u64 {
        let first = self.next_id;
        self.next_id += count;
        first
    }

    /// Prints the result of a turn.
    fn print_progress(&self, round: usize, what: &str) {
        eprintln!("round {}/{}: {what}", round + 1, self.rounds);
    }

    /// Waits until the upstream has no open answers of an endpoint and its gateway is idle; closes answers that go on.
    fn wait_until_idle(&self, place: usize) {
        let endpoint = &self.endpoints[place];
        let name = endpoint.tool.name();
        if !self.upstream.wait_for_open(0, DRAIN_TIMEOUT) {
            eprintln!("{name}: {} answers go on without a client and are closed", self.upstream.open());
            self.upstream.close_all();
            self.upstream.wait_for_open(0, DRAIN_TIMEOUT);
        }
        if endpoint.tool == Tool::Direct {
            return;
        }
        let from = now();
        loop {
            let before = endpoint.cpu_ns();
            std::thread::sleep(IDLE_WINDOW);
            if endpoint.cpu_ns() - before <= MAX_IDLE_CPU_NS {
                return;
            }
            if now() - from > IDLE_TIMEOUT.as_nanos() as u64 {
                eprintln!("{name}: it is still busy {} s after its clients have gone", IDLE_TIMEOUT.as_secs());
                return;
            }
        }
    }

    /// The result of a turn; the failure of a peer is noted, and it is skipped for the rest of the scene.
    fn result_or_note<T>(&mut self, tool: Tool, scene: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if tool.passes_bytes_on() => Err(error),
            Err(error) => {
                eprintln!("{}, {scene}: failed to {error:#}", tool.name());
                self.report.note(format!("{} left out of {scene}: failed to {error:#}", tool.name()));
                self.skipped.insert(tool);
                Ok(None)
            }
        }
    }

    /// Notes altered answers and failed calls.
    fn note_failures(&mut self, tool: Tool, what: &str, done: &LoopResult) {
        let name = tool.name();
        if done.altered > 0 {
            self.report
                .note(format!("**{name}, {what}: {} of {} answers are not what was sent**", done.altered, done.calls));
        }
        if done.failed > 0 {
            let error_text = done.error_text.as_deref().unwrap_or_default();
            self.report.note(format!("{name}, {what}: {} calls failed, the first with: {error_text}", done.failed));
        }
    }
}

struct Options {
    rounds: usize,
    tokrate: Option<PathBuf>,
    without: Vec<String>,
    busbar: Option<PathBuf>,
    tls: bool,
    scenes: Vec<&'static Scene>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options =
            Options { rounds: 5, tokrate: None, without: Vec::new(), busbar: None, tls: false, scenes: Vec::new() };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("read what follows {word}\n{USAGE}"));
            match word {
                "--rounds" => options.rounds = value()?.parse::<usize>().context("read the number of rounds")?.max(1),
                "--tokrate" => options.tokrate = Some(std::path::absolute(value()?)?),
                "--tls" => options.tls = true,
                "--peer" => {
                    let peer = value()?;
                    let program =
                        peer.strip_prefix("busbar=").with_context(|| format!("understand {peer}\n{USAGE}"))?;
                    options.busbar = Some(std::path::absolute(program)?);
                }
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
    let tls = options.tls.then(|| Tls::make(&folder)).transpose()?;
    let busbar = options.busbar.clone();
    let result = measure(Places { root: root.to_path_buf(), tokrate, folder: folder.clone(), busbar, tls }, &options);
    drop(std::fs::remove_dir_all(folder));
    result
}

fn measure(places: Places, options: &Options) -> Result<()> {
    allow_open_files()?;
    let machine = MachineTime::now();
    let conditions = conditions(&places.root, &places.tokrate);
    let upstream = Upstream::start(places.tls.clone())?;
    let (endpoints, report) = (Vec::new(), Report::default());
    let mut bench = GatewayBench {
        places,
        upstream,
        endpoints,
        rounds: options.rounds,
        values: Values::default(),
        report,
        skipped: BTreeSet::new(),
        peak_kib: 0,
        next_id: 1,
    };
    start_endpoints(&mut bench, options)?;
    let mut failed = 0;
    for scene in &options.scenes {
        eprintln!("{}: {}", scene.name, scene.about);
        bench.skipped.clear();
        if !scene.relayed {
            bench.skipped.insert(Tool::Relay);
        }
        if let Err(error) = (scene.run)(&mut bench) {
            failed += 1;
            eprintln!("{}: failed to {error:#}", scene.name);
            bench.report.note(format!("**{} could not be measured whole**: failed to {error:#}", scene.name));
        }
        for endpoint in bench.endpoints.iter().filter(|endpoint| endpoint.tool != Tool::Direct) {
            let (name, peak) = (endpoint.tool.name(), endpoint.usage().peak_kib as f64 / 1024.0);
            eprintln!("{}: {name} has had {peak:.1} MiB resident at most", scene.name);
        }
    }
    resources::peak(&mut bench);
    lost_rows(&mut bench);
    for error_text in bench.upstream.take_errors() {
        bench.report.note(format!("the upstream failed to {error_text}"));
    }
    for endpoint in bench.endpoints.drain(..) {
        if !endpoint.is_alive() {
            bench.report.note(format!(
                "**{} did not live to the end**: {}",
                endpoint.tool.name(),
                endpoint.last_output()
            ));
        }
    }
    print_all(&bench, &conditions, machine);
    if failed > 0 {
        bail!("measure {failed} of the scenes; see the notes");
    }
    Ok(())
}

/// A gateway that is quick because its log gives up is none.
fn lost_rows(bench: &mut GatewayBench) {
    let mut line = Line::new("rows that the log lost");
    for endpoint in &bench.endpoints {
        match endpoint.lost_rows() {
            Ok(None) => {}
            Ok(Some(lost)) => line = line.cell(endpoint.tool, lost.to_string()).verdict("0", Some(lost == 0)),
            Err(error) => line = line.cell(endpoint.tool, format!("failed to {error:#}")).verdict("0", Some(false)),
        }
    }
    bench.report.line(line);
}

/// Starts every endpoint that can be installed.
fn start_endpoints(bench: &mut GatewayBench, options: &Options) -> Result<()> {
    for tool in Tool::ALL {
        let is_absent = match tool {
            Tool::Busbar => bench.places.busbar.is_none(),
            _ => bench.places.tls.is_some() && !tool.speaks_tls(),
        };
        if is_absent || options.without.iter().any(|name| name == tool.name()) {
            continue;
        }
        eprintln!("{}: starting", tool.name());
        match Endpoint::open(tool, &bench.places, &bench.upstream) {
            Ok(endpoint) => bench.endpoints.push(endpoint),
            Err(error) if tool.passes_bytes_on() => return Err(error),
            Err(error) => bench.report.note(format!("{} is not in the table: failed to {error:#}", tool.name())),
        }
    }
    Ok(())
}

fn print_all(bench: &GatewayBench, conditions: &[String], machine: MachineTime) {
    for condition in conditions {
        println!("- {condition}");
    }
    if bench.places.tls.is_some() {
        println!(
            "- clients and upstream speak TLS 1.3 over HTTP/1.1; the relay decrypts and encrypts, tensorzero and litellm are left out"
        );
    }
    println!("- median of {} rounds (min..max), the endpoints in turn, another first in each round", bench.rounds);
    println!("- {}", machine.summary_since());
    println!(
        "- upstream and clients are two threads of one process on the same cores as the gateway; see docs/bench-gateway.md"
    );
    println!("\n{}", bench.report);
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
