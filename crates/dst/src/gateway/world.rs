//! The state of a gateway world, shared by all its tasks.
//!
//! Invariant: all randomness comes from the seed.

use super::history::{Outcome, ServedRequest};
use super::pipe::{End, PipeLaw, PipeObserver, pipe};
use super::scenario::{GatewayScenario, STARTED_AT};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use tokio::sync::mpsc;
use tokrate_core::Rng;
use tokrate_net::{Clock, WallClockControl};

/// State shared by all tasks of a world.
pub(super) struct World {
    pub scenario: GatewayScenario,
    pub clock: Clock,
    pub wall: WallClockControl,
    pub served: RefCell<Vec<ServedRequest>>,
    pub outcomes: RefCell<Vec<Outcome>>,
    /// Accept queue of each gateway thread.
    arrivals: Vec<mpsc::UnboundedSender<End>>,
    next_thread: Cell<usize>,
    /// Connections, and whether the gateway has the first end.
    connections: RefCell<Vec<(PipeObserver, bool)>>,
    dials: RefCell<Vec<u64>>,
    trace: RefCell<(DefaultHasher, Option<Vec<String>>)>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(
        scenario: GatewayScenario,
        clock: Clock,
        wall: WallClockControl,
        arrivals: Vec<mpsc::UnboundedSender<End>>,
        keep_trace: bool,
    ) -> World {
        World {
            clock,
            wall,
            served: RefCell::default(),
            outcomes: RefCell::default(),
            arrivals,
            next_thread: Cell::new(0),
            connections: RefCell::default(),
            dials: RefCell::new(vec![0; scenario.lanes.len()]),
            trace: RefCell::new((DefaultHasher::new(), keep_trace.then(Vec::new))),
            scenario,
        }
    }

    /// Adds a line to the trace.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        let line = format!("{} {what}", self.clock.now().since(STARTED_AT).as_nanos());
        let mut trace = self.trace.borrow_mut();
        line.hash(&mut trace.0);
        trace.1.iter_mut().for_each(|lines| lines.push(line.clone()));
    }

    /// Connects a client to the gateway; `None` once it no longer listens.
    pub fn connect(&self, law: PipeLaw) -> Option<End> {
        let (client, server, watched) = pipe(law);
        let thread = self.next_thread.get();
        self.next_thread.set((thread + 1) % self.arrivals.len());
        self.arrivals[thread].send(server).ok()?;
        self.connections.borrow_mut().push((watched, false));
        Some(client)
    }

    /// Connects the gateway to a lane; the second end is the lane's.
    pub async fn connect_lane(&self, lane: usize) -> io::Result<(End, End)> {
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
        Ok((end, there))
    }

    /// Connections that the gateway holds.
    pub fn open_connections(&self) -> usize {
        let is_open = |(watched, first): &&(PipeObserver, bool)| match first {
            true => watched.first_is_open(),
            false => watched.second_is_open(),
        };
        self.connections.borrow().iter().filter(is_open).count()
    }

    /// The hash of the trace so far, and its lines if they are kept.
    pub fn take_trace(&self) -> (u64, Vec<String>) {
        let (hash, lines) = std::mem::take(&mut *self.trace.borrow_mut());
        (hash.finish(), lines.unwrap_or_default())
    }
}
