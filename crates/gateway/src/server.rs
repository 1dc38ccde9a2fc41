//! Starts, reconfigures and stops a gateway: sockets, worker threads, the log.
//!
//! Invariant: all threads listen before the start is reported, and none is left running at the end.

use crate::config::tls::TlsConfig;
use crate::config::{Config, LogSettings};
use crate::dispatch::worker::Worker;
use crate::dispatch::{probe, warm};
use crate::error::GatewayError;
use crate::ingress::service::Ingress;
use crate::otel::Exporter;
use crate::state::plan::Plan;
use crate::state::shared::Shared;
use crate::telemetry::Observer;
use crate::upstream::dns::{self, DnsRefresher};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokrate_core::{Span, Tick};
use tokrate_net::server::{
    Accept, AccessConfig, AccessSettings, ConnectionLimits, Connections, CpuSpread, Handler, Listener, SharedSocket,
    serve_accepted,
};
use tokrate_net::{ClientConfig, Clock, Dial, NetError, ServerTls};
use tokrate_store::Log;

/// How long stopping waits for the log to be written.
const FLUSH_TIMEOUT: Span = Span::from_secs(5);
/// How long stopping waits for responses of the admin side.
const ADMIN_DRAIN: Span = Span::from_secs(1);
/// Threads for admin requests, so that a long query of the log does not hold up the metrics.
const BLOCKING_THREADS: usize = 4;

const CLIENT_ACCESS: AccessSettings = AccessSettings {
    host: "`hosts` under [gateway]",
    origin: Some("`origins` under [gateway]"),
    key: "add one under [gateway.keys]",
};
const ADMIN_ACCESS: AccessSettings =
    AccessSettings { key: "name one as `admin_key_file` under [gateway]", ..CLIENT_ACCESS };

/// Limits of client connections, shared by both listeners.
fn connection_limits(config: &Config) -> ConnectionLimits {
    let usual = ConnectionLimits::without_keys();
    let all = config.limits.connections.unwrap_or(usual.total / 2).max(1);
    if config.keys.is_empty() {
        return ConnectionLimits { total: all, unauthenticated: all, per_peer: all };
    }
    let limits = ConnectionLimits::with_keys(all);
    ConnectionLimits { per_peer: config.limits.connections_by_peer.unwrap_or(limits.per_peer), ..limits }
}

/// Opens the log, if one is kept, and lets a plan learn from it.
fn open_log(config: &Config, plan: &Plan, clock: Clock) -> Result<Option<Log>, GatewayError> {
    let Some(log) = &config.log else { return Ok(None) };
    let log = Log::open(log.store_config(clock))?;
    plan.restore(&plan.spent(&log, clock.wall_seconds(), None)?);
    if let Err(error) = plan.learn_from_log(&log, clock) {
        tracing::warn!("lanes begin without what the log knows of them: {error}");
    }
    Ok(Some(log))
}

/// A running gateway, which serves from threads of its own. Dropping it stops it.
pub struct RunningGateway {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    shared: Arc<Shared>,
    started_at: Tick,
    log_settings: Option<LogSettings>,
    shutdown: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    exporter: Option<Exporter>,
    tls: Option<ServerTls>,
    admin_tls: bool,
    _dns: DnsRefresher,
}

/// Starts gateways.
#[derive(Clone, Copy, Debug)]
pub struct Gateway;

impl Gateway {
    /// Starts a gateway, which listens when this returns. `admin_handler` makes the handler of the admin address, if
    /// one is configured, on the thread that serves it. Blocks while host names are resolved.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, a port or the log's file is unavailable, or a thread cannot be created. A host
    /// name without an address is no error: see [`RunningGateway::unresolved`].
    pub fn start<H: Handler>(
        config: Config,
        admin_handler: impl FnOnce(Observer) -> H + Send + 'static,
    ) -> Result<RunningGateway, GatewayError> {
        let clock = Clock::monotonic();
        let plan = Plan::resolve_blocking(&config, clock)?;
        let log = open_log(&config, &plan, clock)?;
        let traces = config.otel.as_ref().and_then(|otel| otel.traces);
        let shared = Arc::new(Shared::new(clock, plan, log).with_traces(traces));
        shared.restore_objects();
        let tls = config.tls.as_ref().map(TlsConfig::server).transpose()?;
        let Bound { address, sockets, admin } = Bound::of(&config, tls.as_ref())?;
        let (admin, admin_socket) = admin.unzip();
        let mut admin_side = admin_socket.map(|socket| (socket, admin_handler));
        let (shutdown, shutdown_requested) = watch::channel(false);
        let mut threads = Vec::new();
        let spread = CpuSpread::for_threads(sockets.len());
        for (number, (socket, cpu_spread)) in sockets.into_iter().zip(spread).enumerate() {
            let thread = WorkerThread {
                socket,
                cpu_spread,
                // The first thread serves it in addition to its calls.
                admin: admin_side.take(),
                shared: Arc::clone(&shared),
                client_config: config.client.clone(),
                shutdown_requested: shutdown_requested.clone(),
                drain: config.drain,
            };
            threads.push(thread.start(number)?);
        }
        let dns = DnsRefresher::start(&shared)?;
        let exporter = config.otel.as_ref().map(|otel| Exporter::start(otel, &config.client, &shared)).transpose()?;
        Ok(RunningGateway {
            address,
            admin,
            started_at: clock.now(),
            shared,
            log_settings: config.log,
            shutdown,
            threads,
            exporter,
            admin_tls: tls.is_some() && config.tls.is_some_and(|tls| tls.admin),
            tls,
            _dns: dns,
        })
    }
}

impl RunningGateway {
    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the admin side.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Lanes whose host name has no address yet, each with the resolver's message. They come into service once it has
    /// one.
    pub fn unresolved(&self) -> Vec<String> {
        dns::unresolved(self.shared.plan().lanes.iter().map(Arc::as_ref))
    }

    /// Read access to it, and where changes of its lanes are reported.
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::clone(&self.shared), self.started_at)
    }

    /// The newest error of the log, once.
    pub fn take_log_error(&self) -> Option<String> {
        self.shared.log.as_ref().and_then(Log::take_failure)
    }

    /// Lanes whose breaker has opened since the last call of this, each with the cause.
    pub fn take_breaker_notices(&self) -> Vec<String> {
        self.shared.breaker_notices.take()
    }

    /// The newest error of the export, once: of the metrics, else of the traces.
    pub fn take_export_error(&self) -> Option<String> {
        self.shared.exports.take_new_error().or_else(|| self.shared.trace_exports.take_new_error())
    }

    /// Whether clients, and whether those of the admin side, speak TLS.
    pub fn speaks_tls(&self) -> (bool, bool) {
        (self.tls.is_some(), self.admin_tls)
    }

    /// Switches to new lanes, aliases, keys, limits and certificate; open calls finish under the old ones. Addresses, access rules,
    /// connection limits, the limits of all bodies together, worker threads, the log's file and the export stay as they
    /// were. Blocks while host names are resolved.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid; the old one then stays in force.
    pub fn reconfigure(&self, config: &Config) -> Result<(), GatewayError> {
        // The addresses stay, so whether they are safe without a key is judged by them.
        let config =
            Config { listen: self.address, admin: self.admin, log: self.log_settings.clone(), ..config.clone() };
        match (&self.tls, &config.tls) {
            (Some(running), Some(new)) => {
                self.shared.reconfigure(&config)?;
                Ok(new.replace_in(running)?)
            }
            (None, None) => self.shared.reconfigure(&config),
            (Some(_), None) | (None, Some(_)) => Err(GatewayError::TlsStays),
        }
    }

    /// Stops listening, lets open calls go on for the configured time, and waits for the end. Returns an error of the
    /// log that was not reported before, first of all rows that could not be written.
    pub fn stop(mut self) -> Option<String> {
        self.join();
        let log = self.shared.log.as_ref()?;
        match log.counts().waiting {
            0 => log.take_failure(),
            rows => {
                let why = log.failure().unwrap_or_else(|| "the disk is too slow".to_owned());
                let beside = "those that could be kept beside the log are written by the next start";
                Some(format!("{rows} rows could not be written in time: {why}; {beside}"))
            }
        }
    }

    fn join(&mut self) {
        self.shutdown.send_replace(true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message already.
            let _ = thread.join();
        }
        if let Some(log) = &self.shared.log {
            log.flush(FLUSH_TIMEOUT);
        }
        // The last export covers all calls.
        drop(self.exporter.take());
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.join();
    }
}

/// The sockets of a gateway.
struct Bound {
    address: SocketAddr,
    /// One for each worker thread.
    sockets: Vec<SharedSocket>,
    admin: Option<(SocketAddr, SharedSocket)>,
}

impl Bound {
    /// Listens at the addresses of a configuration.
    fn of(config: &Config, tls: Option<&ServerTls>) -> Result<Bound, GatewayError> {
        // Binding needs a runtime; this one ends here, and each worker thread has its own.
        let binder = Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
        let connections = Connections::new(connection_limits(config));
        let access = |requires_key, settings| AccessConfig {
            hosts: &config.hosts,
            origins: &config.origins,
            requires_key,
            settings,
        };
        binder.block_on(async {
            let client_access = access(!config.keys.is_empty(), &CLIENT_ACCESS);
            let listener = Listener::bind(config.listen, &client_access, &connections).await?.with_tls(tls.cloned());
            let (address, sockets) = (listener.address(), listener.share(config.workers.max(1))?);
            let Some(admin) = config.admin else { return Ok(Bound { address, sockets, admin: None }) };
            let admin_access = access(config.admin_key.is_some(), &ADMIN_ACCESS);
            let tls = tls.filter(|_| config.tls.as_ref().is_some_and(|tls| tls.admin));
            let admin = Listener::bind(admin, &admin_access, &connections).await?.with_tls(tls.cloned());
            let admin = admin.share(1)?.pop().map(|socket| (admin.address(), socket));
            Ok(Bound { address, sockets, admin })
        })
    }
}

/// What a worker thread is started with.
struct WorkerThread<A> {
    socket: SharedSocket,
    cpu_spread: CpuSpread,
    admin: Option<(SharedSocket, A)>,
    shared: Arc<Shared>,
    client_config: ClientConfig,
    shutdown_requested: watch::Receiver<bool>,
    drain: Span,
}

impl<A: FnOnce(Observer) -> H + Send + 'static, H: Handler> WorkerThread<A> {
    fn start(self, number: usize) -> Result<JoinHandle<()>, GatewayError> {
        let (ready_sender, ready) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("tokrate-gateway-{number}"))
            .spawn(move || self.run(&ready_sender))
            .map_err(GatewayError::Thread)?;
        ready.recv().map_err(|_| GatewayError::ThreadExited)??;
        Ok(thread)
    }

    fn run(self, ready_sender: &mpsc::Sender<Result<(), GatewayError>>) {
        let (before_sleep, woken) = (self.cpu_spread.clone(), self.cpu_spread.clone());
        let mut builder = Builder::new_current_thread();
        builder.on_thread_park(move || before_sleep.before_sleep()).on_thread_unpark(move || woken.woken());
        let runtime = match builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready_sender.send(Err(GatewayError::Thread(error)))),
        };
        LocalSet::new().block_on(&runtime, async {
            let listener = match Listener::adopt(self.socket) {
                Ok(listener) => listener,
                Err(error) => return drop(ready_sender.send(Err(error.into()))),
            };
            let observer = Observer::new(Arc::clone(&self.shared), self.shared.clock.now());
            let adopted =
                self.admin.map(|(socket, handler)| Ok((Listener::adopt(socket)?, Rc::new(handler(observer)))));
            let admin = match adopted.transpose() {
                Ok(admin) => admin,
                Err::<_, NetError>(error) => return drop(ready_sender.send(Err(error.into()))),
            };
            let clock: Clock = self.shared.clock;
            let mut shutdown_requested = self.shutdown_requested.clone();
            drop(ready_sender.send(Ok(())));
            let admin_server = async move {
                let Some((listener, handler)) = admin else { return };
                // An error means that the gateway's handle was dropped, which stops it as well.
                let end = async move { drop(shutdown_requested.wait_for(|requested| *requested).await) };
                listener.serve(handler, clock, end, ADMIN_DRAIN).await;
            };
            let worker = Rc::new(Worker::new(self.shared, self.client_config, Dial::tcp()));
            tokio::join!(serve_clients(worker, listener, self.shutdown_requested, self.drain), admin_server);
        });
    }
}

/// Serves the clients of one worker thread until shutdown, then lets open calls go on for `drain`.
pub(crate) async fn serve_clients(
    worker: Rc<Worker>,
    clients: impl Accept,
    mut shutdown_requested: watch::Receiver<bool>,
    drain: Span,
) {
    let ingress = Rc::new(Ingress { worker: Rc::clone(&worker) });
    // An error means that the gateway's handle was dropped, which stops it as well.
    let end = async move { drop(shutdown_requested.wait_for(|requested| *requested).await) };
    let serving = serve_accepted(clients, ingress, worker.shared.clock, end, drain);
    tokio::select! {
        () = serving => {}
        () = probe::run(Rc::clone(&worker)) => {}
        () = warm::run(Rc::clone(&worker)) => {}
    }
    // Losers that are drained are read to their end as well, so that their cost is known.
    worker.drains.end(drain).await;
}
