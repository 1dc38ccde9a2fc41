//! A host's life: start, questions, end.
//!
//! It refuses to know routes. Invariant: everything of a host lives on one thread; others reach it through questions that
//! this thread answers between two events.

use crate::body::Scratch;
use crate::config::HostConfig;
use crate::driver::Driver;
use crate::error::HostError;
use crate::prompt::PromptCounter;
use crate::routes::Routes;
use crate::truth::Truth;
use crate::truth::log::Log;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokrate_core::{Sketch, Span};
use tokrate_net::server::Listener;
use tokrate_net::{Clock, Pacer, thread_cpu_time};
use tokrate_sim::{Engine, Stats};

/// A question to the host's thread.
type Question = Box<dyn FnOnce(&Driver) + Send>;

/// Starts hosts.
#[derive(Clone, Copy, Debug)]
pub struct Host;

/// A host that runs in a thread of its own. Dropping it stops it.
#[derive(Debug)]
pub struct RunningHost {
    address: SocketAddr,
    questions: Option<UnboundedSender<Question>>,
    thread: Option<JoinHandle<Summary>>,
}

/// What is left of a host that has ended.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// What the engine did.
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
    /// When the law makes no sense, the address or the log's file cannot be had, or there is no thread.
    pub fn start(config: HostConfig) -> Result<RunningHost, HostError> {
        let prepared = Prepared::new(config)?;
        let (questions, asked) = unbounded_channel();
        let (started, listening) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("tokrate-host".to_owned())
            .spawn(move || {
                let told = started.clone();
                let ready = move |address| drop(started.send(Ok(address)));
                prepared.run(ready, asked, std::future::pending()).unwrap_or_else(|error| {
                    // Nobody listens to this any more only if the start has succeeded before.
                    drop(told.send(Err(error)));
                    Summary::default()
                })
            })
            .map_err(HostError::Thread)?;
        let address = listening.recv().map_err(|_| HostError::Gone)??;
        Ok(RunningHost { address, questions: Some(questions), thread: Some(thread) })
    }

    /// Runs a host on the caller's thread until `shutdown` completes and open requests have ended or had their time.
    /// `ready` is told the address.
    ///
    /// # Errors
    /// As for [`Host::start`].
    pub fn run(
        config: HostConfig,
        ready: impl FnOnce(SocketAddr),
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let (_questions, asked) = unbounded_channel();
        Prepared::new(config)?.run(ready, asked, shutdown)
    }
}

impl RunningHost {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The truth log so far, if it is kept in memory; else an empty one. Copies no writes of requests that have ended.
    pub fn truth(&self) -> Truth {
        self.ask(Driver::truth)
    }

    /// Lateness of writes so far: handed to the socket minus due, in nanoseconds.
    pub fn lateness(&self) -> Sketch {
        self.ask(Driver::lateness)
    }

    /// What the engine holds and has done.
    pub fn stats(&self) -> Stats {
        self.ask(Driver::stats)
    }

    /// Stops listening, lets open requests go on for the time that the configuration allows, and waits for the end.
    pub fn stop(mut self) -> Summary {
        self.join()
    }

    fn ask<T: Default + Send + 'static>(&self, question: impl FnOnce(&Driver) -> T + Send + 'static) -> T {
        let (answered, answer) = mpsc::channel();
        let question: Question = Box::new(move |driver| drop(answered.send(question(driver))));
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
    config: HostConfig,
    engine: Engine,
    log: Log,
}

impl Prepared {
    fn new(config: HostConfig) -> Result<Prepared, HostError> {
        let engine = Engine::new(config.law.clone(), config.faults.clone(), config.seed)?;
        let log = Log::open(&config.truth)?;
        Ok(Prepared { config, engine, log })
    }

    fn run(
        self,
        ready: impl FnOnce(SocketAddr),
        asked: UnboundedReceiver<Question>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let runtime = runtime().map_err(HostError::Thread)?;
        LocalSet::new().block_on(&runtime, self.serve(ready, asked, shutdown))
    }

    async fn serve(
        self,
        ready: impl FnOnce(SocketAddr),
        asked: UnboundedReceiver<Question>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, HostError> {
        let clock = Clock::monotonic();
        let listener = Listener::bind(self.config.address).await?;
        let pacer = Pacer::new(clock).map_err(HostError::Thread)?;
        let driver = Rc::new(Driver::new(self.engine, self.log, clock));
        let driving = tokio::task::spawn_local({
            let driver = Rc::clone(&driver);
            async move { driver.drive(pacer).await }
        });
        ready(listener.address());
        let cpu_before = thread_cpu_time();
        let drain = self.config.drain;
        let routes = Rc::new(Routes {
            config: self.config,
            driver: Rc::clone(&driver),
            prompts: PromptCounter::default(),
            scratch: Rc::new(Scratch::default()),
        });
        let end = async {
            tokio::select! {
                () = answer_questions(&driver, asked) => {}
                () = shutdown => {}
            }
        };
        listener.serve(routes, clock, end, drain).await;
        driving.abort();
        // Its result is that it was ended.
        let _ = driving.await;
        let (stats, cpu) = (driver.stats(), thread_cpu_time() - cpu_before);
        let Some(log) = driver.into_log() else { return Ok(Summary { stats, cpu, ..Summary::default() }) };
        let (lateness, rows_dropped, error) = log.close();
        Ok(Summary { stats, lateness, rows_dropped, cpu, log_error: error.map(|error| error.to_string()) })
    }
}

/// Answers until nobody can ask any more.
async fn answer_questions(driver: &Driver, mut asked: UnboundedReceiver<Question>) {
    while let Some(question) = asked.recv().await {
        question(driver);
    }
}

fn runtime() -> std::io::Result<Runtime> {
    // One more thread, for prompts that take long to count.
    Builder::new_current_thread().enable_all().max_blocking_threads(1).build()
}
