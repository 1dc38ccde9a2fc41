//! Measures timer lag: how late a 1 ms timer of the runtime fires.
//!
//! Invariant: every tick that was due is counted, missed ones as well: a stall of 5 ms counts as five late ticks.

use crate::pacer::Pacer;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::task::JoinHandle;
use tokrate_core::{Sketch, Span};

const PERIOD: Span = Span::from_millis(1);

/// A running probe.
#[derive(Debug)]
pub struct LagProbe {
    lags: Rc<RefCell<Sketch>>,
    task: JoinHandle<()>,
}

impl LagProbe {
    /// Starts to watch the runtime of the caller.
    pub fn start(pacer: &Pacer) -> LagProbe {
        let lags = Rc::new(RefCell::new(Sketch::new()));
        let (pacer, recorded) = (pacer.clone(), Rc::clone(&lags));
        let task = tokio::task::spawn_local(async move {
            let mut due = pacer.clock().now() + PERIOD;
            loop {
                let woken_at = pacer.sleep_until(due).await;
                let mut lags = recorded.borrow_mut();
                while due <= woken_at {
                    lags.record((woken_at - due).as_nanos());
                    due += PERIOD;
                }
            }
        });
        LagProbe { lags, task }
    }

    /// Reads the lags while they are watched.
    pub fn reader(&self) -> LagReader {
        LagReader(Rc::clone(&self.lags))
    }

    /// Ends the watch; the lags in nanoseconds.
    pub fn stop(self) -> Sketch {
        self.task.abort();
        self.lags.borrow().clone()
    }
}

/// The lags of a probe so far.
#[derive(Debug)]
pub struct LagReader(Rc<RefCell<Sketch>>);

impl LagReader {
    /// A quantile of them; `None` before the first.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        self.0.borrow().quantile(q).map(Span::from_nanos)
    }
}
