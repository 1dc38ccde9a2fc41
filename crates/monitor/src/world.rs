//! A monitor in virtual time: simulated providers, the same prober, meter, store and detector as in real time, and what can happen to
//! a prober: kills, clock jumps, a network that is slow, a reference that is off.
//!
//! Invariant: settings, seed and what is done to it determine every row; nothing here decides about numbers.

use crate::MonitorError;
use crate::core::{Core, Report};
use crate::settings::Settings;
use crate::virtual_time::{Asked, VirtualEndpoint};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokrate_alert::Delivery;
use tokrate_core::{Span, Tick};
use tokrate_prober::{Order, ReferenceResult, Spent, Step};
use tokrate_sim::Persona;
use tokrate_store::{MonitorStore, ProbeRow};

/// The first instant on the steady clock.
const STARTED_AT: Tick = Tick::from_nanos(1_000_000_000);

/// A simulated provider, one for each endpoint of the settings.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What it does.
    pub persona: Persona,
    /// Time to its servers and back.
    pub round_trip: Span,
}

/// Takes an alert; an error is why it does not.
pub type Receive = Box<dyn FnMut(&Delivery) -> Result<(), String>>;

/// How long an alert is on its way.
const DELIVERY: Span = Span::from_secs(1);

/// A monitor and its providers.
pub struct World {
    /// Times since the beginning at which every way takes so much longer: the prober's own network.
    pub delays: Vec<((Span, Span), Span)>,
    /// Times since the beginning at which reference probes are off by so much (ns).
    pub reference_errors: Vec<((Span, Span), i64)>,
    /// What takes alerts, and whether it accepts one; a second later the monitor knows. Without it all are accepted.
    pub receiver: Option<Receive>,
    core: Option<Core>,
    engines: Vec<VirtualEndpoint>,
    settings: Arc<Settings>,
    now: Tick,
    begun_unix_ms: u64,
    /// What the wall clock was set ahead by (ms).
    set_ahead_ms: i64,
    starts: u64,
    seed: u64,
    /// Probes under way, by when they end and their number.
    ends: BTreeMap<(Tick, u64), (Order, Vec<ProbeRow>)>,
    /// Alerts that a receiver has decided on, and when the monitor knows.
    deliveries: VecDeque<(Tick, Delivery, Result<(), String>)>,
    /// Probes whose end no monitor saw, as it was killed.
    abandoned: u64,
    /// Alerts that were on their way when the monitor was killed.
    unsure: u64,
}

impl World {
    /// A world that has not begun. `begun_unix_ms` is its first wall time (ms since 1970).
    ///
    /// # Errors
    /// When the settings or a persona make no sense, or the database cannot be used.
    pub fn new(
        settings: Settings,
        providers: Vec<Provider>,
        seed: u64,
        begun_unix_ms: u64,
    ) -> Result<World, MonitorError> {
        let engines = (0_u64..).zip(providers).map(|(place, provider)| {
            let seed = seed.wrapping_mul(1_000).wrapping_add(place);
            VirtualEndpoint::new(provider.persona, provider.round_trip, seed, STARTED_AT).map_err(MonitorError::Fleet)
        });
        let mut world = World {
            delays: Vec::new(),
            reference_errors: Vec::new(),
            receiver: None,
            deliveries: VecDeque::new(),
            core: None,
            engines: engines.collect::<Result<_, _>>()?,
            settings: Arc::new(settings),
            now: STARTED_AT,
            begun_unix_ms,
            set_ahead_ms: 0,
            starts: 0,
            seed,
            ends: BTreeMap::new(),
            abandoned: 0,
            unsure: 0,
        };
        world.start()?;
        Ok(world)
    }

    /// Starts the monitor on its database.
    fn start(&mut self) -> Result<(), MonitorError> {
        let wall_ms = self.wall_ms();
        let (store, _) = MonitorStore::open(&self.settings.database, wall_ms)?;
        self.starts += 1;
        let run = self.seed.rotate_left(16) ^ self.starts;
        self.core = Some(Core::new(Arc::clone(&self.settings), store, run, wall_ms)?);
        Ok(())
    }

    /// Ends the monitor without any warning, and starts it again after a time. What was under way is lost.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub fn kill(&mut self, away: Span) -> Result<(), MonitorError> {
        self.core = None;
        self.abandoned += self.ends.len() as u64;
        self.ends.clear();
        self.unsure += self.deliveries.len() as u64;
        self.deliveries.clear();
        self.now += away;
        self.start()
    }

    /// Sets the wall clock.
    pub fn set_clock(&mut self, ahead_ms: i64) {
        self.set_ahead_ms += ahead_ms;
    }

    /// Limits the database; what does not fit fails as on a full disk.
    ///
    /// # Errors
    /// When SQLite refuses the limit.
    pub fn limit_disk(&mut self, max_bytes: u64) -> Result<(), MonitorError> {
        Ok(self.core().limit_disk(max_bytes)?)
    }

    /// The store.
    pub fn store(&mut self) -> &MonitorStore {
        self.core().store()
    }

    /// What was spent in this month and on this day.
    pub fn spent(&mut self) -> Spent {
        self.core().prober.spent()
    }

    /// Probes that were sent and whose end no monitor saw.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }

    /// Alerts of which no monitor learned whether they were accepted.
    pub fn unsure(&self) -> u64 {
        self.unsure
    }

    /// Time since the beginning (ms).
    pub fn elapsed_ms(&self) -> u64 {
        self.now.since(STARTED_AT).as_nanos() / 1_000_000
    }

    /// Wall time (ms since 1970).
    pub fn wall_ms(&self) -> u64 {
        (self.begun_unix_ms + self.elapsed_ms()).saturating_add_signed(self.set_ahead_ms)
    }

    fn core(&mut self) -> &mut Core {
        self.core.as_mut().expect("a world has a monitor but while it starts one")
    }

    /// Runs until a time since the beginning (ms), and until what is under way then has ended.
    pub fn run(&mut self, until_ms: u64, report: &mut dyn FnMut(Report)) {
        self.run_until(until_ms, report);
        while let Some((at, _)) = self.ends.keys().next() {
            self.now = self.now.max(*at);
            self.complete();
        }
        self.now += DELIVERY;
        self.send_alerts();
        self.core().take_reports().into_iter().for_each(report);
    }

    /// Runs until a time since the beginning (ms).
    pub fn run_until(&mut self, until_ms: u64, report: &mut dyn FnMut(Report)) {
        let until = STARTED_AT + Span::from_millis(until_ms);
        while self.now < until {
            self.complete();
            let wake_at = self.turn();
            self.core().take_reports().into_iter().for_each(&mut *report);
            let alerts_at = self.send_alerts();
            let end = self.ends.keys().next().map(|(at, _)| *at);
            let next = [end, alerts_at].into_iter().flatten().min();
            self.now = next.map_or(wake_at, |next| next.min(wake_at)).min(until).max(self.now);
        }
    }

    /// Does everything that is to be done now; says until when there is nothing more.
    fn turn(&mut self) -> Tick {
        loop {
            let (now, wall_ms) = (self.now, self.wall_ms());
            match self.core().poll(now, wall_ms) {
                Step::Reference { cycle } => {
                    let elapsed = now.since(STARTED_AT);
                    let error =
                        self.reference_errors.iter().find(|((from, until), _)| (*from..*until).contains(&elapsed));
                    let ttft_error_ns = error.map_or(0, |(_, error)| *error);
                    let result = ReferenceResult { ttft_error_ns, speed_error: 0.0, failure: None };
                    self.core().referenced(now, cycle, result, wall_ms);
                }
                Step::Probe(order) => self.send(order),
                Step::WaitUntil(tick) => return tick,
            }
        }
    }

    /// Hands over the alerts that are due; says when there is something to do about alerts again.
    fn send_alerts(&mut self) -> Option<Tick> {
        let (now, wall_ms) = (self.now, self.wall_ms());
        while let Some((_, delivery, result)) = self.deliveries.pop_front_if(|(at, _, _)| *at <= now) {
            self.core().delivered(&delivery, result, wall_ms);
        }
        while let Some(delivery) = self.core().take_delivery(wall_ms) {
            let result = self.receiver.as_mut().map_or(Ok(()), |receive| receive(&delivery));
            self.deliveries.push_back((now + DELIVERY, delivery, result));
        }
        let known_at = self.deliveries.front().map(|(at, _, _)| *at);
        let due_at = self.core().alert_wait(wall_ms).map(|wait| now + wait);
        [known_at, due_at].into_iter().flatten().min()
    }

    fn send(&mut self, order: Order) {
        let (now, wall_ms) = (self.now, self.wall_ms());
        let workload = &self.settings.workloads[order.workload];
        let elapsed = now.since(STARTED_AT);
        let delay = self.delays.iter().find(|((from, until), _)| (*from..*until).contains(&elapsed));
        let asked = Asked {
            input_tokens: workload.prompts.input_tokens(),
            output_tokens: workload.output_tokens,
            requests: workload.requests,
            idle: self.settings.limits.idle,
            delay: delay.map_or(Span::ZERO, |(_, delay)| *delay),
        };
        let (sent, end) = self.engines[order.endpoint].probe(now, wall_ms, &asked);
        let settings = Arc::clone(&self.settings);
        let frame = &self.core().frame;
        let rows = (0..).zip(sent).map(|(nth, sent)| frame.row(&settings, &order, nth, &sent, None)).collect();
        self.ends.insert((end, order.number), (order, rows));
    }

    /// Completes the probes that have ended by now.
    fn complete(&mut self) {
        while let Some(entry) = self.ends.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (order, rows) = entry.remove();
            let wall_ms = self.wall_ms();
            self.core().completed(&order, rows, wall_ms);
        }
    }
}
