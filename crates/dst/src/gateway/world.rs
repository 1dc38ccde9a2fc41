//! The world of a gateway: one thread, paused time, connections and a log in memory, and the real gateway between them.
//!
//! It judges nothing; it keeps what happened. Invariant: a scenario determines the trace: all that is random comes from the seed,
//! and time passes only when nobody has anything to do.

use super::client::{Outcome, converse};
use super::disk::{Disk, Kept};
use super::pipe::{End, PipeLaw, Watched, pipe};
use super::provider::{Served, serve};
use super::scenario::{GatewayScenario, STARTED_AT};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokrate_core::{Rng, Span, Tick};
use tokrate_gateway::Spending;
use tokrate_gateway::simulation::{HeldResources, SimulatedGateway, Totals};
use tokrate_net::server::{Accept, Incoming};
use tokrate_net::{Clock, Dial, Target, WallClockControl};
use tokrate_store::{Log, LogConfig, LogCounts, LogDriver};

/// How often the log's writer looks: as its thread does when rows wait.
const LOG_EVERY: Span = Span::from_millis(200);
/// So long the end of the log tries to write what is left.
const FAREWELL_TURNS: u32 = 10;
/// A world that goes on for so long never ends.
const ENDS_WITHIN: Span = Span::from_secs(24 * 3_600);

/// Everything that happened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GatewayHistory {
    /// What became of the clients' calls, in the order in which they ended.
    pub outcomes: Vec<Outcome>,
    /// What reached the lanes.
    pub served: Vec<Served>,
    /// What lies in the log.
    pub kept: Kept,
    /// What the log says of its rows.
    pub log: LogCounts,
    /// What calls held when all was over.
    pub held: HeldResources,
    /// What the gateway counted.
    pub counted: Totals,
    /// What the meter of each key says of its dollars, by name, with a second of the month.
    pub key_dollars: Vec<(String, u64, Spending)>,
    /// Calls open at each reload, and whether it was taken over.
    pub reloads: Vec<(usize, bool)>,
    /// When the gateway was told to stop, and when it had.
    pub stopped: Option<(Tick, Tick)>,
    /// Ends of connections that the gateway still held after its end.
    pub left_open: usize,
    /// Whether it all came to an end.
    pub has_ended: bool,
    /// A hash of all that happened, in order, with its times.
    pub trace: u64,
    /// The same in words, if that was asked for.
    pub lines: Vec<String>,
}

/// What all of a world's tasks share.
pub(super) struct World {
    pub scenario: GatewayScenario,
    pub clock: Clock,
    pub wall: WallClockControl,
    pub served: RefCell<Vec<Served>>,
    pub outcomes: RefCell<Vec<Outcome>>,
    /// A way to each thread of the gateway, and whose turn it is.
    arrivals: Vec<mpsc::UnboundedSender<End>>,
    next_thread: Cell<usize>,
    /// Connections, and whether the gateway's end is the first.
    connections: RefCell<Vec<(Watched, bool)>>,
    dials: RefCell<Vec<u64>>,
    trace: RefCell<(DefaultHasher, Option<Vec<String>>)>,
}

/// Runs a gateway's world to its end; `tells` keeps the trace in words.
///
/// # Panics
/// If there is no runtime, or the scenario's first configuration makes no sense.
pub fn run_gateway(scenario: &GatewayScenario, tells: bool) -> GatewayHistory {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without sockets needs nothing");
    LocalSet::new().block_on(&runtime, live(scenario.clone(), tells))
}

async fn live(scenario: GatewayScenario, tells: bool) -> GatewayHistory {
    let (clock, wall) = Clock::of_runtime(STARTED_AT, scenario.wall_seconds * 1_000_000_000);
    let (arrivals, arriving): (Vec<_>, Vec<_>) =
        (0..scenario.config.workers).map(|_| mpsc::unbounded_channel()).unzip();
    let kept: Rc<RefCell<Kept>> = Rc::default();
    let (log, driver) = open_log(&scenario, clock, &kept);
    let gateway =
        SimulatedGateway::new(&scenario.config, clock, Some(log.clone())).expect("a scenario's gateway can be");
    let gateway = Rc::new(gateway);
    let dials = RefCell::new(vec![0; scenario.lanes.len()]);
    let world = Rc::new(World {
        scenario,
        clock,
        wall,
        served: RefCell::default(),
        outcomes: RefCell::default(),
        arrivals,
        next_thread: Cell::new(0),
        connections: RefCell::default(),
        dials,
        trace: RefCell::new((DefaultHasher::new(), tells.then(Vec::new))),
    });
    let mut serving = JoinSet::new();
    for arriving in arriving {
        let dialling = Rc::clone(&world);
        let dial = Dial::memory(move |target| Rc::clone(&dialling).dial(lane_of(target)));
        serving.spawn_local(gateway.serve(Arrivals(arriving), dial));
    }
    let writing = spawn_local(write_log(Rc::clone(&driver)));
    let jumping = spawn_local(jump(Rc::clone(&world)));
    let mut history = GatewayHistory::default();
    let ended = tokio::time::timeout(ENDS_WITHIN.as_duration(), pass(&world, &gateway, serving, &mut history)).await;
    history.has_ended = ended.is_ok();
    writing.abort();
    jumping.abort();
    // The lanes' ends notice that the gateway has left.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    history.log = close_log(&log, &driver).await;
    tell(&world, &gateway, &mut history);
    history.kept = kept.borrow().clone();
    for row in &history.kept.rows {
        world.note(format_args!("row {row:?}"));
    }
    world.note(format_args!("{:?} {:?} {:?}", history.held, history.counted, history.log));
    let (hash, lines) = std::mem::take(&mut *world.trace.borrow_mut());
    (history.trace, history.lines) = (hash.finish(), lines.unwrap_or_default());
    history
}

/// All that clients, reloads and the stop bring about.
async fn pass(
    world: &Rc<World>,
    gateway: &Rc<SimulatedGateway>,
    mut serving: JoinSet<()>,
    history: &mut GatewayHistory,
) {
    let mut clients = JoinSet::new();
    for client in 0..world.scenario.clients.len() {
        clients.spawn_local(converse(Rc::clone(world), client));
    }
    let mut due: Vec<(Span, Option<usize>)> =
        world.scenario.reloads.iter().enumerate().map(|(nth, (at, _))| (*at, Some(nth))).collect();
    due.push((world.scenario.stop_after, None));
    due.sort();
    for (at, reload) in due {
        tokio::time::sleep((STARTED_AT + at - world.clock.now()).as_duration()).await;
        let open = gateway.held().calls;
        let Some(nth) = reload else {
            gateway.stop();
            history.stopped = Some((world.clock.now(), Tick::MAX));
            world.note(format_args!("stop with {open} calls open"));
            break;
        };
        let taken = gateway.reconfigure(&world.scenario.reloads[nth].1.config);
        world.note(format_args!("reload {nth} with {open} calls open: {}", taken.is_ok()));
        history.reloads.push((open, taken.is_ok()));
    }
    while let Some(ended) = serving.join_next().await {
        assert!(ended.is_ok(), "what serves does not panic");
    }
    if let Some((_, ended_at)) = &mut history.stopped {
        *ended_at = world.clock.now();
    }
    while let Some(ended) = clients.join_next().await {
        assert!(ended.is_ok(), "clients do not panic");
    }
}

fn tell(world: &World, gateway: &SimulatedGateway, history: &mut GatewayHistory) {
    history.held = gateway.held();
    history.counted = gateway.totals();
    history.outcomes = world.outcomes.borrow().clone();
    history.served = world.served.borrow().clone();
    let is_open = |(watched, first): &&(Watched, bool)| match first {
        true => watched.first_is_held(),
        false => watched.second_is_held(),
    };
    history.left_open = world.connections.borrow().iter().filter(is_open).count();
    // The months that the clock can have shown.
    let months =
        [-2_i64, -1, 0, 1, 2, 3, 4].map(|month| world.scenario.wall_seconds.saturating_add_signed(month * 30 * 86_400));
    for key in &world.scenario.config.keys {
        for second in months {
            let dollars = gateway.key_spending(&key.name, second);
            history.key_dollars.extend(dollars.map(|dollars| (key.name.clone(), second, dollars)));
        }
    }
}

type Driver = Rc<RefCell<LogDriver<Disk>>>;

fn open_log(scenario: &GatewayScenario, clock: Clock, kept: &Rc<RefCell<Kept>>) -> (Log, Driver) {
    let disk = Disk { clock, bad: scenario.disk.clone(), kept: Rc::clone(kept) };
    let config = LogConfig {
        queue_rows: scenario.queue_rows,
        max_held_rows: scenario.queue_rows,
        batch_rows: 4,
        wall_clock: Arc::new(move || clock.wall_nanos() / 1_000_000),
        ..LogConfig::new("/simulated/log.db")
    };
    let (log, driver) = Log::driven(config, disk, move || clock.now());
    (log, Rc::new(RefCell::new(driver)))
}

async fn write_log(driver: Driver) {
    loop {
        tokio::time::sleep(LOG_EVERY.as_duration()).await;
        driver.borrow_mut().step();
    }
}

/// The end of the log: it is tried for a while, then what is left is lost.
async fn close_log(log: &Log, driver: &Driver) -> LogCounts {
    for _ in 0..FAREWELL_TURNS {
        driver.borrow_mut().step();
        if log.counts().waiting == 0 {
            break;
        }
        tokio::time::sleep(LOG_EVERY.as_duration()).await;
    }
    driver.borrow_mut().end();
    log.counts()
}

async fn jump(world: Rc<World>) {
    let mut jumps = world.scenario.jumps.clone();
    jumps.sort();
    for (at, seconds) in jumps {
        tokio::time::sleep((STARTED_AT + at - world.clock.now()).as_duration()).await;
        world.wall.jump(seconds);
        world.note(format_args!("the wall clock jumps by {seconds} s"));
    }
}

impl World {
    /// Notes something that happened now.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let line = format!("{} {what}", self.clock.now().since(STARTED_AT).as_nanos());
        let mut trace = self.trace.borrow_mut();
        line.hash(&mut trace.0);
        trace.1.iter_mut().for_each(|lines| lines.push(line.clone()));
    }

    /// A client's connection to the gateway; `None` once that listens no more.
    pub fn connect(&self, law: PipeLaw) -> Option<End> {
        let (client, server, watched) = pipe(law);
        let thread = self.next_thread.get();
        self.next_thread.set((thread + 1) % self.arrivals.len());
        self.arrivals[thread].send(server).ok()?;
        self.connections.borrow_mut().push((watched, false));
        Some(client)
    }

    /// A connection of the gateway to a lane.
    async fn dial(self: Rc<World>, lane: io::Result<usize>) -> io::Result<End> {
        let lane = lane?;
        let nth = {
            let dials = &mut self.dials.borrow_mut()[lane];
            *dials += 1;
            *dials
        };
        let faults = self.scenario.lanes[lane];
        let mut rng = Rng::root(self.scenario.seed).child("dials").nth(lane as u64).nth(nth);
        self.note(format_args!("dial {lane}"));
        if rng.chance(faults.refused) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if rng.chance(faults.unreachable) {
            return std::future::pending().await;
        }
        let (end, there, watched) = pipe(self.scenario.lane_law);
        self.connections.borrow_mut().push((watched, true));
        spawn_local(serve(Rc::clone(&self), lane, there));
        Ok(end)
    }
}

/// The lane that a target means.
fn lane_of(target: &Target) -> io::Result<usize> {
    let last = target.host().rsplit('.').next().and_then(|last| last.parse::<usize>().ok());
    last.and_then(|last| last.checked_sub(1)).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Clients on their way to the gateway.
struct Arrivals(mpsc::UnboundedReceiver<End>);

impl Accept for Arrivals {
    type Stream = End;

    async fn accept(&mut self, _: Clock) -> io::Result<Incoming<End>> {
        match self.0.recv().await {
            Some(end) => Ok(Incoming::without_rules(end)),
            None => std::future::pending().await,
        }
    }
}
