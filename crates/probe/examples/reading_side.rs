//! What reading streams costs without all the rest of a bench: connections, transport, decoder and meter, as a program that takes the bench's
//! place in `lab bench --tokrate target/release/examples/reading_side tls-64 tls-1 stream-64 stream-1`. It is built in a minute, a bench in ten.
//!
//! It knows the flags that the lab gives, sends requests in a closed loop on one thread, and writes the two files that the lab reads. Invariant: a
//! request is a [`Call`], as in a bench.

#![allow(clippy::print_stdout, reason = "examples print what they measure")]
#![allow(clippy::unwrap_used, reason = "a tool of the lab: what fails ends it")]

use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;
use tokrate_core::{EventBatch, EventKind, Span, Tick};
use tokrate_meter::RequestTrace;
use tokrate_net::{Client, ClientConfig, Clock, Limits, Route, Secrets, Target, thread_cpu_time};
use tokrate_probe::Call;
use tokrate_wire::{Dialect, Shape};

/// Bytes of a request's body: about what a prompt of 16 tokens takes.
const BODY_BYTES: usize = 300;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--version") {
        println!("reading_side");
        return;
    }
    let value = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1).cloned()
    };
    let number = |flag: &str| -> u64 { value(flag).unwrap().parse().unwrap() };
    let clock = Clock::monotonic();
    let ca_file = value("--ca-file").map(Into::into);
    let config = ClientConfig { rx_timestamps: true, ca_file, ..ClientConfig::default() };
    let route = Route::resolve_blocking(&Target::parse(&value("--url").unwrap()).unwrap(), &config, clock).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = thread_cpu_time();
    let traces = tokio::task::LocalSet::new().block_on(&runtime, async {
        let loops = Rc::new(Loops {
            client: Client::new(config, route, clock).unwrap(),
            clock,
            batch: RefCell::default(),
            next: Cell::new(0),
            end: number("--requests") + number("--warmup"),
            text_bytes: Cell::new(0),
            traces: RefCell::default(),
        });
        let tasks = (0..number("--concurrency")).map(|_| {
            let loops = Rc::clone(&loops);
            tokio::task::spawn_local(async move { loops.run().await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        loops.traces.take()
    });
    let cpu = thread_cpu_time() - before;
    let rows: String = traces.iter().map(|(index, trace)| row(*index, trace)).collect();
    std::fs::write("requests.jsonl", rows).unwrap();
    let record = format!("{{\"phases\":[{{\"client_cpu_seconds\":{}}}]}}", cpu.as_secs_f64());
    std::fs::write("record.json", record).unwrap();
}

/// What all slots share.
struct Loops {
    client: Client,
    clock: Clock,
    batch: RefCell<EventBatch>,
    next: Cell<u64>,
    end: u64,
    text_bytes: Cell<usize>,
    traces: RefCell<Vec<(u64, RequestTrace)>>,
}

impl Loops {
    async fn run(&self) {
        while self.next.get() < self.end {
            let index = self.next.replace(self.next.get() + 1);
            let call = Call {
                client: &self.client,
                path: "/v1/chat/completions".to_owned(),
                headers: http::HeaderMap::new(),
                id: format!("reading-{index}"),
                body: Bytes::from(vec![b'x'; BODY_BYTES]),
                dialect: Dialect::OpenAiChat,
                shape: Shape::Stream,
                items: None,
                audio: None,
                keep_unknown: false,
                secrets: Secrets::default(),
                limits: Limits { idle: Span::from_secs(30), total: Span::from_secs(300), max_body_bytes: u64::MAX },
                due_at: self.clock.now(),
                clock: self.clock,
            };
            let count = |batch: &EventBatch, _: Option<Tick>| {
                let bytes = batch.events().iter().map(|event| match event.kind {
                    EventKind::Text { text, .. } => text.len(),
                    _ => 0,
                });
                self.text_bytes.set(self.text_bytes.get() + bytes.sum::<usize>());
            };
            let measured = call.measure(&self.batch, std::future::pending(), &count).await;
            self.traces.borrow_mut().push((index, measured.trace));
        }
    }
}

/// One request as the lab reads it.
fn row(index: u64, trace: &RequestTrace) -> String {
    let tick = |tick: Option<Tick>| tick.map_or_else(|| "null".to_owned(), |tick| tick.as_nanos().to_string());
    let kind = trace.failure.as_ref().map_or("null".to_owned(), |failure| format!("\"{}\"", failure.kind.name()));
    let events: u64 = trace.arrivals.iter().map(|arrival| u64::from(arrival.events)).sum();
    let mut row = String::new();
    write!(row, "{{\"index\":{index},\"sent_at_ns\":{},", tick(trace.timing.sent_at)).unwrap();
    write!(row, "\"first_text_at_ns\":{},", tick(trace.arrivals.first().map(|first| first.at))).unwrap();
    write!(row, "\"last_text_at_ns\":{},", tick(trace.arrivals.last().map(|last| last.at))).unwrap();
    write!(row, "\"finished_at_ns\":{},\"text_events\":{events},", trace.timing.ended_at.as_nanos()).unwrap();
    writeln!(row, "\"failure\":{{\"kind\":{kind}}}}}").unwrap();
    row
}
