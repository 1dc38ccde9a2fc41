//! A monitor in real time: polls the core, carries out what it says, and waits.
//!
//! Invariant: nothing of a probe is decided here; what was sent is reported to the core, and what was under way at the end is left to
//! the next start.

use crate::MonitorError;
use crate::core::{Core, Report};
use crate::hub::{Call, Inbox};
use crate::push::{PushAnswer, Pusher};
use crate::reference::Reference;
use crate::send::{Answered, Sent, send};
use crate::settings::Settings;
use crate::view::LOOK_BACK_MS;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};
use tokrate_alert::Delivery;
use tokrate_core::{ChatRequest, Tick};
use tokrate_net::{Clock, Limits, random_bytes};
use tokrate_prober::{Order, ReferenceResult, Step};
use tokrate_store::{MonitorStore, ProbeRow, Shipper, SpoolEntry, Warehouse};
use tokrate_wire::encode_request;

/// Largest body of an answer.
const MAX_BODY_BYTES: u64 = 64 << 20;
/// Notices of the thread that sends rows to ClickHouse.
const WAITING_NOTICES: usize = 16;

/// How long a monitor runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Until it is stopped.
    Endless,
    /// One cycle of everything, now.
    OneCycle,
}

/// Something that was started and has ended.
enum Ended {
    Probe(Order, Vec<ProbeRow>),
    Reference(u64, ReferenceResult),
    Delivery(Box<Delivery>, Result<(), String>),
    Push(PushAnswer),
}

/// What all probes share.
struct Shared {
    settings: Arc<Settings>,
    frame: crate::row::Frame,
    reference: Reference,
    clock: Clock,
    run: u64,
    /// The name of the spool, where there is a hub.
    spool: String,
}

/// Runs a monitor until `stop` completes, or to the end of its one cycle. `inbox` is that of a hub. `report` gets what happens, as it happens.
///
/// # Errors
/// When settings make no schedule, the database cannot be used, or no engine can be started on loopback. A database that was set aside
/// is a report.
pub fn run(
    settings: Settings,
    clock: Clock,
    extent: Extent,
    inbox: Option<Inbox>,
    stop: impl Future<Output = ()>,
    report: &mut dyn FnMut(Report),
) -> Result<(), MonitorError> {
    let mut settings = settings;
    if extent == Extent::OneCycle {
        // All of the cycle is found at once.
        settings.alerts.rules.iter_mut().for_each(|rule| rule.rule.group_wait_ms = 0);
    }
    let settings = Arc::new(settings);
    let wall_ms = clock.wall_nanos() / 1_000_000;
    let (mut store, aside) = MonitorStore::open(&settings.database, wall_ms)?;
    store.fill_outgoing(settings.shipping.is_some(), wall_ms.saturating_sub(LOOK_BACK_MS))?;
    if let Some(aside) = aside {
        let text = format!(
            "{} was damaged ({}): it was moved to {}, and a new one is begun",
            settings.database.display(),
            aside.reason,
            aside.to.display()
        );
        report(Report::Notice(text));
    }
    let run = u64::from_le_bytes(random_bytes()?);
    let mut core = Core::new(Arc::clone(&settings), store, run, wall_ms)?;
    let spool = if settings.push.is_some() { core.spool_name(&format!("{run:016x}"))? } else { String::new() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| MonitorError::Start(error.to_string()))?;
    let (notices, of_shipper) = mpsc::channel(WAITING_NOTICES);
    let shipper = settings.shipping.clone().map(|shipping| {
        // Where the monitor is busy the next one says it.
        let notice = move |text| drop(notices.try_send(text));
        Shipper::start(settings.database.clone(), Warehouse::Monitor, shipping, notice)
    });
    let _shipper = shipper.transpose()?;
    let shared = Shared { frame: core.frame.clone(), reference: Reference::start(clock)?, settings, clock, run, spool };
    report(Report::Started);
    let calls = Calls { inbox: inbox.map(|inbox| inbox.0), of_shipper };
    LocalSet::new().block_on(&runtime, drive(core, Arc::new(shared), extent, calls, stop, report));
    Ok(())
}

async fn drive(
    mut core: Core,
    shared: Arc<Shared>,
    extent: Extent,
    mut calls: Calls,
    stop: impl Future<Output = ()>,
    report: &mut dyn FnMut(Report),
) {
    let clock = shared.clock;
    let wall_ms = || clock.wall_nanos() / 1_000_000;
    if extent == Extent::OneCycle {
        core.prober.begin_single_cycle(wall_ms());
    }
    let mut running = JoinSet::new();
    let mut pusher = Pusher::new(clock.now());
    let mut stop = std::pin::pin!(stop);
    loop {
        let wake_at = match core.poll(clock.now(), wall_ms()) {
            Step::Reference { cycle } => {
                let shared = Arc::clone(&shared);
                running.spawn_local(async move {
                    let id = format!("{}-r{cycle}", shared.frame.run);
                    Ended::Reference(cycle, shared.reference.probe(&id).await)
                });
                continue;
            }
            Step::Probe(order) => {
                let shared = Arc::clone(&shared);
                running.spawn_local(async move { Ended::Probe(order, shared.probe(&order).await) });
                continue;
            }
            Step::WaitUntil(tick) => tick,
        };
        core.take_reports().into_iter().for_each(&mut *report);
        start_outgoing(&mut core, &shared, &mut pusher, &mut running);
        // What could not be delivered or pushed is tried again by the next run.
        if extent == Extent::OneCycle && !core.prober.has_open_cycles() && running.is_empty() {
            if shared.settings.push.is_none() || core.is_pushed() || !pusher.is_well() {
                return;
            }
            pusher.hurry(clock.now());
            continue;
        }
        let alerts_at = core.alert_wait(wall_ms()).map(|wait| clock.now() + wait);
        let push_at = shared.settings.push.as_ref().and_then(|_| pusher.wake_at());
        let wake_at = [alerts_at, push_at].into_iter().flatten().fold(wake_at, Tick::min);
        tokio::select! {
            () = &mut stop => return,
            Some(ended) = running.join_next() => match ended {
                Ok(ended) => take_ended(&mut core, &mut pusher, ended, clock),
                // A panic in a probe: its series stays in flight, and the next start judges its cycle.
                Err(error) => report(Report::Notice(format!("a probe ended in an internal error: {error}"))),
            },
            call = calls.next() => match call {
                Call::Batch(batch, reply) => {
                    // Nobody may wait for it any more; what is kept stays kept.
                    let _ = reply.send(core.take_batch(*batch, wall_ms()));
                }
                Call::Notice(text) => core.notice(text, wall_ms()),
            },
            () = sleep_until(clock, wake_at) => {}
        }
    }
}

/// Sends what is due beside probes: alerts, and what the hub does not have.
fn start_outgoing(core: &mut Core, shared: &Arc<Shared>, pusher: &mut Pusher, running: &mut JoinSet<Ended>) {
    let (now, wall_ms) = (shared.clock.now(), shared.clock.wall_nanos() / 1_000_000);
    while let Some(delivery) = core.take_delivery(wall_ms) {
        let shared = Arc::clone(shared);
        running.spawn_local(async move {
            let result = shared.deliver(&delivery).await;
            Ended::Delivery(Box::new(delivery), result)
        });
    }
    if shared.settings.push.is_some() && pusher.is_due(now) {
        let entries = core.spool();
        pusher.took(!entries.is_empty(), now);
        if !entries.is_empty() {
            let shared = Arc::clone(shared);
            running.spawn_local(async move { Ended::Push(shared.push(&entries).await) });
        }
    }
}

fn take_ended(core: &mut Core, pusher: &mut Pusher, ended: Ended, clock: Clock) {
    let (now, wall_ms) = (clock.now(), clock.wall_nanos() / 1_000_000);
    match ended {
        Ended::Probe(order, rows) => core.completed(&order, rows, wall_ms),
        Ended::Reference(cycle, result) => core.referenced(now, cycle, result, wall_ms),
        Ended::Delivery(delivery, result) => core.delivered(&delivery, result, wall_ms),
        Ended::Push(answer) => {
            let notice = pusher.ended(&answer, now);
            core.push_ended(&answer, notice, wall_ms);
        }
    }
}

/// What comes from other threads.
struct Calls {
    /// Of a hub.
    inbox: Option<mpsc::Receiver<Call>>,
    /// What users should know of ClickHouse.
    of_shipper: mpsc::Receiver<String>,
}

impl Calls {
    /// The next one; never, where there is nobody who calls.
    async fn next(&mut self) -> Call {
        let of_hub = async {
            match &mut self.inbox {
                Some(inbox) => inbox.recv().await,
                None => None,
            }
        };
        tokio::select! {
            Some(call) = of_hub => call,
            Some(text) = self.of_shipper.recv() => Call::Notice(text),
            else => std::future::pending().await,
        }
    }
}

async fn sleep_until(clock: Clock, tick: Tick) {
    tokio::time::sleep(tick.since(clock.now()).as_duration()).await;
}

impl Shared {
    async fn push(&self, entries: &[SpoolEntry]) -> PushAnswer {
        let Settings { prober, place, push, .. } = &*self.settings;
        match push {
            Some(push) => push.send(prober, place, &self.spool, entries, self.clock).await,
            None => PushAnswer::Failed("there is no hub".to_owned()),
        }
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<(), String> {
        self.settings.alerts.deliver(delivery, self.clock).await
    }

    /// Sends the requests of a probe, all at once, and waits for all of them.
    async fn probe(self: &Arc<Shared>, order: &Order) -> Vec<ProbeRow> {
        let workload = &self.settings.workloads[order.workload];
        let mut requests = JoinSet::new();
        for nth in 0..workload.requests {
            let (shared, order) = (Arc::clone(self), *order);
            requests.spawn_local(async move { (nth, shared.request(&order, nth).await) });
        }
        let mut rows: Vec<(u32, ProbeRow)> = Vec::new();
        while let Some(ended) = requests.join_next().await {
            rows.extend(ended.ok());
        }
        rows.sort_unstable_by_key(|(nth, _)| *nth);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    async fn request(&self, order: &Order, nth: u32) -> ProbeRow {
        let (endpoint, workload) = (&self.settings.endpoints[order.endpoint], &self.settings.workloads[order.workload]);
        let number = order.number.wrapping_mul(u64::from(workload.requests)).wrapping_add(u64::from(nth));
        let task = workload.prompts.task(self.run, number);
        let (tools, tool_choice) = task.map(|(canary, _)| canary.tools()).unwrap_or_default();
        let request = ChatRequest {
            model: endpoint.model.clone(),
            messages: workload.prompts.prompt(self.run, number),
            tools,
            tool_choice,
            stream: true,
            include_usage: endpoint.include_usage,
            max_output_tokens: Some(workload.output_tokens),
            legacy_max_tokens: endpoint.legacy_max_tokens,
            ..ChatRequest::default()
        };
        let body = Bytes::from(encode_request(endpoint.dialect, &request));
        let request_bytes = Some(body.len() as u64);
        let limits = Limits {
            idle: self.settings.limits.idle,
            total: self.settings.limits.total,
            max_body_bytes: MAX_BODY_BYTES,
        };
        let to = Answered {
            target: &endpoint.base,
            client: &endpoint.client,
            headers: &endpoint.headers,
            authorizer: endpoint.authorizer.as_ref(),
            dialect: endpoint.dialect,
            model: &endpoint.model,
            limits,
            clock: self.clock,
            task,
        };
        let sent: Sent = send(&to, format!("{}-{}-{nth}", self.frame.run, order.number), body).await;
        self.frame.row(&self.settings, order, nth, &sent, request_bytes)
    }
}
