//! What the client costs at rest and how late the pacer wakes: memory for each streaming connection, wake-up errors.
//!
//! Invariant: the server of the memory figure holds sockets and nothing else, so that what is counted is the client.
//!
//! `cargo run --release -p tokrate-net --example footprint`

#![allow(clippy::print_stdout, reason = "examples print what they measure")]

use bytes::Bytes;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use tokio::task::{JoinSet, LocalSet};
use tokrate_core::{Sketch, Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, Head, Limits, Outgoing, Pacer, Route, Sink, Target, thread_cpu_time};

const CONNECTIONS: usize = 500;

fn main() {
    for sleepers in [1, 100, 1000] {
        pace(sleepers);
    }
    hold();
}

fn on_local_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, future)
}

/// Each sleeper wakes 50 times a second at its own phase, for two seconds.
fn pace(sleepers: u64) {
    on_local_runtime(async {
        let clock = Clock::monotonic();
        let pacer = Pacer::new(clock).expect("a timer");
        let errors = Rc::new(RefCell::new(Sketch::new()));
        let (start, period, cpu) = (clock.now() + Span::from_millis(20), Span::from_millis(20), thread_cpu_time());
        let mut tasks = JoinSet::new();
        for n in 0..sleepers {
            let (pacer, errors) = (pacer.clone(), Rc::clone(&errors));
            tasks.spawn_local(async move {
                let mut due = start + Span::from_nanos(period.as_nanos() * n / sleepers);
                for _ in 0..100 {
                    let woken_at = pacer.sleep_until(due).await;
                    errors.borrow_mut().record((woken_at - due).as_nanos());
                    due += period;
                }
            });
        }
        while tasks.join_next().await.is_some() {}
        let errors = errors.borrow();
        let at = |q| Span::from_nanos(errors.quantile(q).unwrap_or(0));
        println!(
            "pacer, {sleepers:>4} sleepers: woken p50 {} p90 {} p99 {} late, {} CPU for each wake-up",
            at(0.5),
            at(0.9),
            at(0.99),
            Span::from_nanos((thread_cpu_time() - cpu).as_nanos() / errors.count().max(1)),
        );
    });
}

struct Ignore;

impl Sink for Ignore {
    fn sent(&mut self, _at: Tick) {}
    fn head(&mut self, _at: Tick, _head: &Head) {}
    fn body(&mut self, _at: Tick, _bytes: &[u8]) {}
}

/// Memory of the process in bytes, resident.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()));
    pages.unwrap_or(0) * 4096
}

/// Opens streams that get some events and then neither end nor move.
fn hold() {
    let (address, streaming) = start_server();
    let before = resident();
    on_local_runtime(async {
        let (config, clock) = (ClientConfig::default(), Clock::monotonic());
        let target = Target::parse(&format!("http://{address}")).expect("a URL");
        let route = Route::resolve_blocking(&target, &config, clock).expect("an address needs no resolver");
        let client = Rc::new(Client::new(config, route, clock).expect("plain HTTP needs no set-up"));
        let mut tasks = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let client = Rc::clone(&client);
            tasks.spawn_local(async move {
                let outgoing = Outgoing {
                    method: http::Method::POST,
                    path: "/".to_owned(),
                    headers: http::HeaderMap::new(),
                    body: Bytes::from(vec![b'x'; 500]),
                };
                let limits = Limits { idle: Span::from_secs(60), total: Span::from_secs(60), max_body_bytes: 1 << 30 };
                client.exchange(outgoing, limits, &mut Ignore).await
            });
        }
        let all = tokio::task::spawn_blocking(move || streaming.recv());
        let _ = all.await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let each = (resident() - before) / CONNECTIONS as u64;
        println!("client, {CONNECTIONS} streams: {:.1} KiB of memory for each", each as f64 / 1024.0);
    });
}

/// Tells when every stream has had its events.
fn start_server() -> (SocketAddr, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let (done, streaming) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let event = format!("data: {}\n\n", "x".repeat(242));
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().expect("connections come");
            let _ = stream.read(&mut [0; 4096]).expect("a request");
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head.as_bytes()).expect("the client listens");
            streams.push(stream);
        }
        for _ in 0..50 {
            for stream in &mut streams {
                stream.write_all(chunk.as_bytes()).expect("the client listens");
            }
        }
        let _ = done.send(());
        std::thread::park();
        drop(streams);
    });
    (address, streaming)
}
