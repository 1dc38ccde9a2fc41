//! The life of a host: start, calls from other threads, end.
//!
//! Invariant: everything of a host lives on one thread, however many providers and ports it has; other threads send it closures, which it
//! runs between two events.

use crate::body::Scratch;
use crate::config::{FleetConfig, Provider};
use crate::driver::Driver;
use crate::error::HostError;
use crate::metrics::MetricNames;
use crate::prompt::PromptReader;
use crate::routes::{Routes, ServedProvider, Shared};
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

/// The memory budget allows so many bodies of the largest size.
const MAX_CONCURRENT_BODIES: usize = 16;

const SETTINGS: AccessSettings = AccessSettings {
    host: "--allow-host",
    origin: None,
    key: "require one with --key-env (of personas, `key_env` for each)",
};

/// A closure to run on the host's thread.
type HostCall = Box<dyn FnOnce(&Shared) + Send>;

/// Starts hosts.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// A host that runs in a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct RunningHost {
    addresses: Addresses,
    calls: Option<UnboundedSender<HostCall>>,
    thread: Option<JoinHandle<Summary>>,
}

/// Where a host listens.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// The port of all providers, if there is one.
    pub main: Option<SocketAddr>,
    /// The own port of each provider that has one, in the order of the configuration.
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

/// Summary of a host that has ended.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Sum of the statistics of all engines.
    pub stats: Stats,
    /// Lateness of writes: handed to the socket minus due, in nanoseconds.
    pub lateness: Sketch,
    /// Dropped rows of the truth log.
    pub rows_dropped: u64,
    /// CPU time that the host's thread used since the host began to listen.
    pub cpu: Span,
    /// The error that ended the writing of the truth log, if any.
    pub log_error: Option<String>,
}

impl Host {
    /// Starts a host in a thread of its own; it listens when this returns.
    ///
    /// # Errors
    /// When a persona is invalid, an address or the log's file is unavailable, or no thread can be started.
    pub fn start(config: impl Into<FleetConfig>) -> Result<RunningHost, HostError> {
        let prepared = Prepared::new(config.into())?;
        let (calls, pending_calls) = unbounded_channel();
        let (started, listening) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("tokrate-host".to_owned())
            .spawn(move || {
                let startup = started.clone();
                let ready = move |addresses: &Addresses| drop(started.send(Ok(addresses.clone())));
                prepared.run(ready, pending_calls, std::future::pending()).unwrap_or_else(|error| {
                    // The receiver is gone only if the start has succeeded before.
                    drop(startup.send(Err(error)));
                    Summary::default()
                })
            })
            .map_err(HostError::Thread)?;
        let addresses = listening.recv().map_err(|_| HostError::ThreadExited)??;
        Ok(RunningHost { addresses, calls: Some(calls), thread: Some(thread) })
    }

    /// Runs a host on the caller's thread until `shutdown` completes and open requests have ended or the drain time is over.
    /// `ready` gets the addresses.
    ///
    /// # Errors
    /// As for [`Host::start`].
    pub fn run(
        config: impl Into<FleetConfig>,
        ready: impl FnOnce(&Addresses),
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let (_questions, pending_calls) = unbounded_channel();
        Prepared::new(config.into())?.run(ready, pending_calls, shutdown)
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
        self.on_thread(Shared::truth)
    }

    /// Lateness of writes so far: handed to the socket minus due, in nanoseconds.
    pub fn lateness(&self) -> Sketch {
        self.on_thread(|shared| shared.log.borrow().lateness.clone())
    }

    /// Sum of the statistics of all engines.
    pub fn stats(&self) -> Stats {
        self.on_thread(Shared::stats)
    }

    /// Stops listening, drains open requests for the configured time, and waits for the end.
    pub fn stop(mut self) -> Summary {
        self.join()
    }

    fn on_thread<T: Default + Send + 'static>(&self, call: impl FnOnce(&Shared) -> T + Send + 'static) -> T {
        let (answered, answer) = mpsc::channel();
        let call: HostCall = Box::new(move |shared| drop(answered.send(call(shared))));
        let Some(Ok(())) = self.calls.as_ref().map(|calls| calls.send(call)) else {
            return T::default();
        };
        answer.recv().unwrap_or_default()
    }

    fn join(&mut self) -> Summary {
        self.calls = None;
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for RunningHost {
    fn drop(&mut self) {
        self.join();
    }
}

/// A host without its sockets.
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
            // A single provider uses the host's own seed.
            let seed = if alone { config.seed } else { seeds.child(&provider.persona.name).next_u64() };
            Engine::with_persona(provider.persona.clone(), seed, clock.now()).map_err(|source| match alone {
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
        pending_calls: UnboundedReceiver<HostCall>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let runtime = runtime().map_err(HostError::Thread)?;
        LocalSet::new().block_on(&runtime, self.serve(ready, pending_calls, shutdown))
    }

    async fn serve(
        self,
        ready: impl FnOnce(&Addresses),
        pending_calls: UnboundedReceiver<HostCall>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let Prepared { config, clock, engines, log } = self;
        let (drain, log) = (config.drain, Rc::new(RefCell::new(log)));
        let (addresses, listeners) = listen(&config).await?;
        let mut driving = JoinSet::new();
        let mut providers = Vec::new();
        for (provider, engine) in config.providers.into_iter().zip(engines) {
            let metered = provider.metrics != MetricNames::Off;
            let driver = Driver::new(&provider.persona.name, engine, Rc::clone(&log), clock, (metered, provider.gpus));
            let (driver, pacer) = (Rc::new(driver), Pacer::new(clock).map_err(HostError::Thread)?);
            let driven = Rc::clone(&driver);
            driving.spawn_local(async move { driven.drive(pacer).await });
            providers.push(ServedProvider { provider, driver });
        }
        ready(&addresses);
        let cpu_before = thread_cpu_time();
        let shared = Rc::new(Shared {
            providers,
            max_requests: config.max_requests,
            max_request_bytes: config.max_request_bytes,
            clock,
            log: Rc::clone(&log),
            bodies: ByteBudget::new(config.max_request_bytes.saturating_mul(MAX_CONCURRENT_BODIES)),
            prompts: PromptReader::default(),
            scratch: Rc::new(Scratch::default()),
            batches: RefCell::default(),
        });
        let (closing, closed) = watch::channel(false);
        let mut serving = JoinSet::new();
        for (provider_index, listener) in listeners {
            let (routes, mut closed) = (Rc::new(Routes { shared: Rc::clone(&shared), provider_index }), closed.clone());
            // An error means that the sender was dropped, which ends the host as well.
            let end = async move { drop(closed.wait_for(|closed| *closed).await) };
            serving.spawn_local(listener.with_rx_timestamps().serve(routes, clock, end, drain));
        }
        tokio::select! {
            () = run_calls(&shared, pending_calls) => {}
            () = shutdown => {}
        }
        closing.send_replace(true);
        while serving.join_next().await.is_some() {}
        driving.shutdown().await;
        let (stats, cpu) = (shared.stats(), thread_cpu_time() - cpu_before);
        shared.providers.iter().for_each(|served| served.driver.abandon());
        drop(shared);
        let Some(log) = Rc::into_inner(log) else { return Ok(Summary { stats, cpu, ..Summary::default() }) };
        let (lateness, rows_dropped, error) = log.into_inner().close();
        Ok(Summary { stats, lateness, rows_dropped, cpu, log_error: error.map(|error| error.to_string()) })
    }
}

/// All ports, each with the index of its only provider; `None` for the main one.
async fn listen(config: &FleetConfig) -> Result<(Addresses, Vec<(Option<usize>, Listener)>), HostError> {
    let mut addresses = Addresses::default();
    let mut listeners = Vec::new();
    let connections = Connections::new(ConnectionLimits::without_keys());
    let access = |requires_key| AccessConfig { hosts: &config.hosts, origins: &[], requires_key, settings: &SETTINGS };
    if let Some(address) = config.address {
        // A provider without a key is open to everyone on this port.
        let access = access(config.providers.iter().all(|provider| provider.api_key.is_some()));
        let listener = Listener::bind(address, &access, &connections).await?;
        addresses.main = Some(listener.address());
        listeners.push((None, listener));
    }
    for (index, provider) in config.providers.iter().enumerate() {
        let listener = match provider.address {
            Some(address) => Some(Listener::bind(address, &access(provider.api_key.is_some()), &connections).await?),
            None => None,
        };
        addresses.own.push(listener.as_ref().map(Listener::address));
        listeners.extend(listener.map(|listener| (Some(index), listener)));
    }
    Ok((addresses, listeners))
}

/// Runs calls until all senders are gone.
async fn run_calls(shared: &Shared, mut pending_calls: UnboundedReceiver<HostCall>) {
    while let Some(call) = pending_calls.recv().await {
        call(shared);
    }
}

fn runtime() -> std::io::Result<Runtime> {
    // One more thread, for reading long prompts.
    Builder::new_current_thread().enable_all().max_blocking_threads(1).build()
}
