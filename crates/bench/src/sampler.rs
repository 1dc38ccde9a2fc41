//! Reads engine and graphics processors at equal intervals through a whole run, each source in a thread of its own.
//!
//! Invariant: no reading waits for another source, and none is made up: what could not be read is missing and counted.

use crate::gpu_source::GpuSource;
use crate::page_reader::PageReader;
use crate::readings::Readings;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokrate_core::{Span, Tick};
use tokrate_meter::server_metrics::{GpuSample, gpus_of};
use tokrate_net::Clock;

/// A source of graphics processors.
#[derive(Clone)]
pub(crate) enum GpuReader {
    Page(Box<PageReader>),
    Local(Arc<dyn GpuSource>, Clock),
}

impl GpuReader {
    fn read(&self) -> Result<GpuSample, String> {
        match self {
            GpuReader::Page(page) => {
                let (at, read) = page.read()?;
                let gpus = gpus_of(&read);
                if gpus.is_empty() {
                    Err(format!("{} names no graphics processor", page.url()))
                } else {
                    Ok(GpuSample { at, gpus })
                }
            }
            GpuReader::Local(source, clock) => {
                let gpus = source.read()?;
                Ok(GpuSample { at: clock.now(), gpus })
            }
        }
    }
}

/// Whom to ask.
pub(crate) struct Sources {
    /// The engine's page, with the model whose series count.
    pub engine: Option<(PageReader, String)>,
    pub gpus: Vec<GpuReader>,
}

/// The threads that read; they end when it is dropped.
pub(crate) struct Sampler {
    pub readings: Readings,
    gpus: Vec<GpuReader>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Sampler {
    /// Begins to read; with an interval of 0 nothing is read but by [`Sampler::read_gpus`] and by whom the readings are shared with.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(sources: Sources, every: Span, clock: Clock) -> std::io::Result<Sampler> {
        let Sources { engine, gpus } = sources;
        let readings = Readings::new(every, gpus.len());
        let mut sampler = Sampler { readings, gpus: gpus.clone(), stop: Arc::default(), threads: Vec::new() };
        if every == Span::ZERO {
            return Ok(sampler);
        }
        if let Some((page, model)) = engine {
            let readings = sampler.readings.clone();
            sampler.spawn(clock, every, move || match page.read() {
                Ok((at, read)) => readings.add_engine(page.engine(at, &read, &model)),
                Err(reason) => readings.fail(reason),
            })?;
        }
        for (source, gpu) in gpus.into_iter().enumerate() {
            let readings = sampler.readings.clone();
            sampler.spawn(clock, every, move || read_gpus(&readings, source, &gpu))?;
        }
        Ok(sampler)
    }

    /// Reads every graphics processor now, so that a level has a reading at both of its ends.
    pub fn read_gpus(&self) {
        self.gpus.iter().enumerate().for_each(|(source, gpu)| read_gpus(&self.readings, source, gpu));
    }

    fn spawn(&mut self, clock: Clock, every: Span, read: impl Fn() + Send + 'static) -> std::io::Result<()> {
        let stop = Arc::clone(&self.stop);
        let thread = std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            // The beginning of a level is read by whoever begins it.
            let mut due = clock.now() + every;
            while !is_stopped(&stop, due, clock) {
                read();
                // What was missed while a reading took its time is left out.
                while due <= clock.now() {
                    due += every;
                }
            }
        })?;
        self.threads.push(thread);
        Ok(())
    }
}

fn read_gpus(readings: &Readings, source: usize, gpu: &GpuReader) {
    match gpu.read() {
        Ok(sample) => readings.add_gpus(source, sample),
        Err(reason) => readings.fail(reason),
    }
}

/// Waits until then, or until it is stopped: true.
fn is_stopped(stop: &(Mutex<bool>, Condvar), due: Tick, clock: Clock) -> bool {
    let (flag, wake) = stop;
    let mut stopped = flag.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let left = due.since(clock.now());
        if *stopped || left == Span::ZERO {
            return *stopped;
        }
        let waited = wake.wait_timeout(stopped, Duration::from_nanos(left.as_nanos()));
        stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        *self.stop.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.1.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
