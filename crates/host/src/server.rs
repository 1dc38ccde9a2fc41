//! A host's life: start, questions, end.
//!
//! It refuses to know routes. Invariant: everything of a host lives on one thread, however many providers and ports it has;
//! others reach it through questions that this thread answers between two events.

use crate::body::Scratch;
use crate::config::{FleetConfig, Provider};
use crate::driver::Driver;
use crate::error::HostError;
use crate::metrics::MetricNames;
use crate::prompt::PromptCounter;
use crate::routes::{House, Routes, Served};
use crate::truth::Truth;
use crate::truth::log::Log;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokrate_core::{Rng, Sketch, Span};
use tokrate_net::server::{AccessConfig, AccessSettings, ByteBudget, ConnectionLimits, Connections, Listener};
use tokrate_net::{Clock, Pacer, thread_cpu_time};
use tokrate_sim::{Engine, Stats};

/// Bodies that are read at once: so many of the largest (a count).
const BODIES_MOST: usize = 16;

const SETTINGS: AccessSettings = AccessSettings {
    host: "--allow-host",
    origin: None,
    key: "ask for one with --key-env (of personas, `key_env` for each)",
};

/// A question to the host's thread.
type Question = Box<dyn FnOnce(&House) + Send>;

/// Starts hosts.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// A host that runs in a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct RunningHost {
    addresses: Addresses,
    questions: Option<UnboundedSender<Question>>,
    thread: Option<JoinHandle<Summary>>,
}

/// Where a host listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// The port of all providers, if there is one.
    pub main: Option<SocketAddr>,
    /// The own port of each provider that has one, by the provider's place in the configuration.
    pub own: Vec<Option<SocketAddr>>,
}

impl Addresses {
    /// The main port, or else the first own one.
    ///
    /// # Panics
    /// If there is none, which no host that listens has.
    pub fn first(&self) -> SocketAddr {
        let own = self.own.iter().flatten().copied().next();
        self.main.or(own).expect("a host without any port does not start")
    }
}

/// What is left of a host that has ended.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What the engines did, all together.
    pub stats: Stats,
    /// Lateness of writes: handed to the socket minus due, in nanoseconds.
    pub lateness: Sketch,
    /// Rows of the truth log that were not kept.
    pub rows_dropped: u64,
    /// CPU time that the host's thread used since the host began to listen.
    pub cpu: Span,
    /// Why the truth log's file could not be written to its end, if so.
    pub log_error: Option<String>,
}

impl Host {
    /// Starts a host in a thread of its own; it listens when this returns.
    ///
    /// # Errors
    /// When a persona makes no sense, an address or the log's file cannot be had, or there is no thread.
    pub fn start(config: impl Into<FleetConfig>) -> Result<RunningHost, HostError> {
        let prepared = Prepared::new(config.into())?;
        let (questions, asked) = unbounded_channel();
        let (started, listening) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("tokrate-host".to_owned())
            .spawn(move || {
                let told = started.clone();
                let ready = move |addresses: &Addresses| drop(started.send(Ok(addresses.clone())));
                prepared.run(ready, asked, std::future::pending()).unwrap_or_else(|error| {
                    // Nobody listens to this any more only if the start has succeeded before.
                    drop(told.send(Err(error)));
                    Summary::default()
                })
            })
            .map_err(HostError::Thread)?;
        let addresses = listening.recv().map_err(|_| HostError::Gone)??;
        Ok(RunningHost { addresses, questions: Some(questions), thread: Some(thread) })
    }

    /// Runs a host on the caller's thread until `shutdown` completes and open requests have ended or had their time.
    /// `ready` is told the addresses.
    ///
    /// # Errors
    /// As for [`Host::start`].
    pub fn run(
        config: impl Into<FleetConfig>,
        ready: impl FnOnce(&Addresses),
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let (_questions, asked) = unbounded_channel();
        Prepared::new(config.into())?.run(ready, asked, shutdown)
    }
}

impl RunningHost {
    /// Where it listens: its main port, or else its first one.
    pub fn address(&self) -> SocketAddr {
        self.addresses.first()
    }

    /// All ports.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The truth log so far, if it is kept in memory; else an empty one. Copies no writes of requests that have ended.
    pub fn truth(&self) -> Truth {
        self.ask(House::truth)
    }

    /// Lateness of writes so far: handed to the socket minus due, in nanoseconds.
    pub fn lateness(&self) -> Sketch {
        self.ask(|house| house.log.borrow().lateness.clone())
    }

    /// What the engines hold and have done, all together.
    pub fn stats(&self) -> Stats {
        self.ask(House::stats)
    }

    /// Stops listening, lets open requests go on for the time that the configuration allows, and waits for the end.
    pub fn stop(mut self) -> Summary {
        self.join()
    }

    fn ask<T: Default + Send + 'static>(&self, question: impl FnOnce(&House) -> T + Send + 'static) -> T {
        let (answered, answer) = mpsc::channel();
        let question: Question = Box::new(move |house| drop(answered.send(question(house))));
        let Some(Ok(())) = self.questions.as_ref().map(|questions| questions.send(question)) else {
            return T::default();
        };
        answer.recv().unwrap_or_default()
    }

    fn join(&mut self) -> Summary {
        self.questions = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for RunningHost {
    fn drop(&mut self) {
        self.join();
    }
}

/// A host that has everything but its sockets.
struct Prepared {
    config: FleetConfig,
    clock: Clock,
    engines: Vec<Engine>,
    log: Log,
}

impl Prepared {
    fn new(config: FleetConfig) -> Result<Prepared, HostError> {
        let clock = Clock::monotonic();
        let mut names = BTreeSet::new();
        for provider in &config.providers {
            let name = &provider.persona.name;
            if !names.insert(name) {
                return Err(HostError::SameName(name.clone()));
            }
            if provider.address.or(config.address).is_none() {
                return Err(HostError::Unreachable(name.clone()));
            }
        }
        let seeds = Rng::root(config.seed);
        let alone = config.providers.len() == 1;
        let engine = |provider: &Provider| {
            // The only provider of a host has the host's own seed.
            let seed = if alone { config.seed } else { seeds.child(&provider.persona.name).next_u64() };
            Engine::of(provider.persona.clone(), seed, clock.now()).map_err(|source| match alone {
                true => HostError::Law(source),
                false => HostError::Persona { name: provider.persona.name.clone(), source },
            })
        };
        let engines = config.providers.iter().map(engine).collect::<Result<_, _>>()?;
        let log = Log::open(&config.truth)?;
        Ok(Prepared { config, clock, engines, log })
    }

    fn run(
        self,
        ready: impl FnOnce(&Addresses),
        asked: UnboundedReceiver<Question>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let runtime = runtime().map_err(HostError::Thread)?;
        LocalSet::new().block_on(&runtime, self.serve(ready, asked, shutdown))
    }

    async fn serve(
        self,
        ready: impl FnOnce(&Addresses),
        asked: UnboundedReceiver<Question>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let Prepared { config, clock, engines, log } = self;
        let (drain, log) = (config.drain, Rc::new(RefCell::new(log)));
        let (addresses, listeners) = listen(&config).await?;
        let mut driving = JoinSet::new();
        let mut providers = Vec::new();
        for (provider, engine) in config.providers.into_iter().zip(engines) {
            let metered = provider.metrics != MetricNames::Off;
            let driver = Driver::new(&provider.persona.name, engine, Rc::clone(&log), clock, metered);
            let (driver, pacer) = (Rc::new(driver), Pacer::new(clock).map_err(HostError::Thread)?);
            let driven = Rc::clone(&driver);
            driving.spawn_local(async move { driven.drive(pacer).await });
            providers.push(Served { provider, driver });
        }
        ready(&addresses);
        let cpu_before = thread_cpu_time();
        let house = Rc::new(House {
            providers,
            requests_most: config.requests_most,
            request_bytes_most: config.request_bytes_most,
            clock,
            log: Rc::clone(&log),
            bodies: ByteBudget::new(config.request_bytes_most.saturating_mul(BODIES_MOST)),
            prompts: PromptCounter::default(),
            scratch: Rc::new(Scratch::default()),
        });
        let (closing, closed) = watch::channel(false);
        let mut serving = JoinSet::new();
        for (own, listener) in listeners {
            let (routes, mut closed) = (Rc::new(Routes { house: Rc::clone(&house), own }), closed.clone());
            // An error means that the sender is gone, which ends the host as well.
            let end = async move { drop(closed.wait_for(|closed| *closed).await) };
            serving.spawn_local(listener.with_rx_timestamps().serve(routes, clock, end, drain));
        }
        tokio::select! {
            () = answer_questions(&house, asked) => {}
            () = shutdown => {}
        }
        closing.send_replace(true);
        while serving.join_next().await.is_some() {}
        driving.shutdown().await;
        let (stats, cpu) = (house.stats(), thread_cpu_time() - cpu_before);
        house.providers.iter().for_each(|served| served.driver.abandon());
        drop(house);
        let Some(log) = Rc::into_inner(log) else { return Ok(Summary { stats, cpu, ..Summary::default() }) };
        let (lateness, rows_dropped, error) = log.into_inner().close();
        Ok(Summary { stats, lateness, rows_dropped, cpu, log_error: error.map(|error| error.to_string()) })
    }
}

/// All ports, each with the place of its only provider; none for the main one.
async fn listen(config: &FleetConfig) -> Result<(Addresses, Vec<(Option<usize>, Listener)>), HostError> {
    let mut addresses = Addresses::default();
    let mut listeners = Vec::new();
    let connections = Connections::new(ConnectionLimits::without_keys());
    let access = |requires_key| AccessConfig { hosts: &config.hosts, origins: &[], requires_key, settings: &SETTINGS };
    if let Some(address) = config.address {
        // Whoever has no key of its own can be asked by everyone here.
        let access = access(config.providers.iter().all(|provider| provider.api_key.is_some()));
        let listener = Listener::bind(address, &access, &connections).await?;
        addresses.main = Some(listener.address());
        listeners.push((None, listener));
    }
    for (place, provider) in config.providers.iter().enumerate() {
        let listener = match provider.address {
            Some(address) => Some(Listener::bind(address, &access(provider.api_key.is_some()), &connections).await?),
            None => None,
        };
        addresses.own.push(listener.as_ref().map(Listener::address));
        listeners.extend(listener.map(|listener| (Some(place), listener)));
    }
    Ok((addresses, listeners))
}

/// Answers until nobody can ask any more.
async fn answer_questions(house: &House, mut asked: UnboundedReceiver<Question>) {
    while let Some(question) = asked.recv().await {
        question(house);
    }
}

fn runtime() -> std::io::Result<Runtime> {
    // One more thread, for prompts that take long to count.
    Builder::new_current_thread().enable_all().max_blocking_threads(1).build()
}
