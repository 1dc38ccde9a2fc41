//! Runs the world of a gateway: one thread, paused time, in-memory connections and log, and the real gateway.
//!
//! It records and does not judge. Invariant: a scenario determines the trace: all randomness comes from the seed, and time
//! advances only when no task is ready.

use super::client::run_client;
use super::disk::{Disk, StoredRows};
use super::history::GatewayHistory;
use super::pipe::End;
use super::provider::serve;
use super::scenario::{GatewayScenario, STARTED_AT};
use super::world::World;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tokrate_core::{Span, Tick};
use tokrate_gateway::simulation::SimulatedGateway;
use tokrate_net::server::{Accept, Incoming};
use tokrate_net::{Clock, Dial, Target};
use tokrate_store::{Log, LogClock, LogConfig, LogCounts, LogDriver};

/// Interval of the log writer, as in its thread when rows wait.
const LOG_INTERVAL: Span = Span::from_millis(200);
/// Attempts to write the remaining rows when the log is closed.
const CLOSE_ATTEMPTS: u32 = 10;
/// Time limit of a world.
const TIME_LIMIT: Span = Span::from_secs(24 * 3_600);

/// Runs a gateway world to its end; `keep_trace` keeps the trace as text.
///
/// # Panics
/// If there is no runtime, or the first configuration is invalid.
pub fn run_gateway(scenario: &GatewayScenario, keep_trace: bool) -> GatewayHistory {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without sockets needs nothing");
    LocalSet::new().block_on(&runtime, run_world(scenario.clone(), keep_trace))
}

async fn run_world(scenario: GatewayScenario, keep_trace: bool) -> GatewayHistory {
    let (clock, wall) = Clock::of_runtime(STARTED_AT, scenario.wall_seconds * 1_000_000_000);
    let (arrivals, arriving): (Vec<_>, Vec<_>) =
        (0..scenario.config.workers).map(|_| mpsc::unbounded_channel()).unzip();
    let kept: Rc<RefCell<StoredRows>> = Rc::default();
    let (log, driver) = open_log(&scenario, clock, &kept);
    let gateway =
        SimulatedGateway::new(&scenario.config, clock, Some(log.clone())).expect("a scenario's gateway can be");
    let gateway = Rc::new(gateway);
    let world = Rc::new(World::new(scenario, clock, wall, arrivals, keep_trace));
    let mut serving = JoinSet::new();
    for arriving in arriving {
        let dialling = Rc::clone(&world);
        let dial = Dial::memory(move |target| dial(Rc::clone(&dialling), lane_of(target)));
        serving.spawn_local(gateway.serve(Arrivals(arriving), dial));
    }
    let writing = spawn_local(write_log(Rc::clone(&driver)));
    let jumping = spawn_local(jump(Rc::clone(&world)));
    let mut history = GatewayHistory::default();
    let ended = tokio::time::timeout(TIME_LIMIT.as_duration(), drive(&world, &gateway, serving, &mut history)).await;
    history.has_ended = ended.is_ok();
    writing.abort();
    jumping.abort();
    // Let the lanes notice that the gateway has closed its connections.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    history.log = close_log(&log, &driver).await;
    collect(&world, &gateway, &mut history);
    history.kept = kept.borrow().clone();
    for row in &history.kept.rows {
        world.note(format_args!("row {row:?}"));
    }
    world.note(format_args!("{:?} {:?} {:?}", history.held, history.counted, history.log));
    (history.trace, history.lines) = world.take_trace();
    history
}

/// Runs clients, reloads and the stop.
async fn drive(
    world: &Rc<World>,
    gateway: &Rc<SimulatedGateway>,
    mut serving: JoinSet<()>,
    history: &mut GatewayHistory,
) {
    let mut clients = JoinSet::new();
    for client in 0..world.scenario.clients.len() {
        clients.spawn_local(run_client(Rc::clone(world), client));
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

fn collect(world: &World, gateway: &SimulatedGateway, history: &mut GatewayHistory) {
    history.held = gateway.held();
    history.counted = gateway.totals();
    history.outcomes = world.outcomes.borrow().clone();
    history.served = world.served.borrow().clone();
    history.left_open = world.open_connections();
    // The months that the clock can have reached.
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

fn open_log(scenario: &GatewayScenario, clock: Clock, kept: &Rc<RefCell<StoredRows>>) -> (Log, Driver) {
    let disk = Disk { clock, outages: scenario.disk.clone(), kept: Rc::clone(kept) };
    let log_clock = LogClock::new(move || clock.now(), move || clock.wall_nanos() / 1_000_000);
    let config = LogConfig {
        queue_rows: scenario.queue_rows,
        max_held_rows: scenario.queue_rows,
        batch_rows: 4,
        ..LogConfig::new("/simulated/log.db", log_clock)
    };
    let (log, driver) = Log::driven(config, disk);
    (log, Rc::new(RefCell::new(driver)))
}

async fn write_log(driver: Driver) {
    loop {
        tokio::time::sleep(LOG_INTERVAL.as_duration()).await;
        driver.borrow_mut().step();
    }
}

/// Closes the log: writes are retried for a while, then the remaining rows are lost.
async fn close_log(log: &Log, driver: &Driver) -> LogCounts {
    for _ in 0..CLOSE_ATTEMPTS {
        driver.borrow_mut().step();
        if log.counts().waiting == 0 {
            break;
        }
        tokio::time::sleep(LOG_INTERVAL.as_duration()).await;
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

/// Connects the gateway to a lane, and starts what serves the connection.
async fn dial(world: Rc<World>, lane: io::Result<usize>) -> io::Result<End> {
    let lane = lane?;
    let (end, there) = world.connect_lane(lane).await?;
    spawn_local(serve(world, lane, there));
    Ok(end)
}

/// The lane of a target.
fn lane_of(target: &Target) -> io::Result<usize> {
    let last = target.host().rsplit('.').next().and_then(|last| last.parse::<usize>().ok());
    last.and_then(|last| last.checked_sub(1)).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Accept queue of a gateway thread.
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
