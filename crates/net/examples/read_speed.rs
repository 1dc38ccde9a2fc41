//! How fast the client reads streams, beside bare readers that only count line ends: blocking ones, a thread for each
//! connection, and one that shares a thread and a runtime as the client does.
//!
//! A thread of blocking sockets sends chunked answers of server-sent events as fast as it can; `EVENTS_PER_WRITE` events
//! make one chunk, which is one write. Printed are events per second and the CPU time of the reading side. Invariant: both
//! readers see the same bytes from the same server.
//!
//! `cargo run --release -p tokrate-net --example read_speed [reader: blocking|bare|client|all] [events per connection]`

#![allow(clippy::print_stdout, reason = "examples print what they measure")]

use bytes::Bytes;
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::{Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, Head, Limits, Outgoing, Route, Sink, Target, thread_cpu_time};

const CONNECTIONS: usize = 50;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let reader = arguments.next().unwrap_or_else(|| "all".to_owned());
    let events: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(40_000);
    for events_per_write in [1, 64] {
        let writes = if events_per_write == 1 { events / 4 } else { events * 2 / events_per_write };
        for _ in 0..2 {
            let wanted = |name: &str| reader == "all" || reader == name;
            if wanted("blocking") {
                print("blocking", events_per_write, &blocking(events_per_write, writes));
            }
            if wanted("bare") {
                print("bare", events_per_write, &bare(events_per_write, writes));
            }
            if wanted("client") {
                print("client", events_per_write, &client(events_per_write, writes));
            }
        }
    }
}

struct Outcome {
    events: usize,
    wall: Duration,
    cpu: Span,
}

fn print(reader: &str, events_per_write: usize, outcome: &Outcome) {
    let millions = outcome.events as f64 / 1e6;
    println!(
        "{events_per_write:>2} events a write, {reader:<8}: {:>6.3} M events/s, {:>7.3} CPU s per M events",
        millions / outcome.wall.as_secs_f64(),
        outcome.cpu.as_secs_f64() / millions,
    );
}

/// One event of about 250 bytes, as chat dialects send them.
fn event() -> String {
    let padding = "x".repeat(120);
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"system_fingerprint\":\
         \"{padding}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}}}}]}}\n\n"
    )
}

/// Starts the server: every connection gets `writes` chunks and the end of the body.
fn start_server(events_per_write: usize, writes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let payload = event().repeat(events_per_write);
    let chunk = format!("{:x}\r\n{payload}\r\n", payload.len()).into_bytes();
    std::thread::spawn(move || {
        let mut streams: Vec<TcpStream> = Vec::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().expect("connections come");
            stream.set_nodelay(true).expect("an open socket");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("requests are whole");
                head.push(byte[0]);
            }
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                .expect("the reader listens");
            streams.push(stream);
        }
        for _ in 0..writes {
            for stream in &mut streams {
                stream.write_all(&chunk).expect("the reader listens");
            }
        }
        for stream in &mut streams {
            stream.write_all(b"0\r\n\r\n").expect("the reader listens");
        }
        for stream in &mut streams {
            let _ = stream.read(&mut [0]);
        }
    });
    address
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().map(|&byte| usize::from(byte == b'\n')).sum()
}

fn blocking(events_per_write: usize, writes: usize) -> Outcome {
    let address = start_server(events_per_write, writes);
    let started = Instant::now();
    let readers: Vec<_> = (0..CONNECTIONS).map(|_| std::thread::spawn(move || blocking_reader(address))).collect();
    let mut cpu = Span::ZERO;
    for reader in readers {
        cpu += reader.join().expect("no panic").expect("loopback does not fail");
    }
    Outcome { events: CONNECTIONS * writes * events_per_write, wall: started.elapsed(), cpu }
}

fn blocking_reader(address: SocketAddr) -> io::Result<Span> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")?;
    let mut buffer = vec![0; 64 * 1024];
    let mut ends = 0;
    loop {
        let count = stream.read(&mut buffer)?;
        ends += line_ends(&buffer[..count]);
        if count == 0 || buffer[..count].ends_with(b"0\r\n\r\n") {
            assert!(ends > 0, "lines came");
            return Ok(thread_cpu_time());
        }
    }
}

fn bare(events_per_write: usize, writes: usize) -> Outcome {
    let address = start_server(events_per_write, writes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (started, cpu_before) = (Instant::now(), thread_cpu_time());
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            tasks.spawn_local(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await?;
                stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await?;
                let mut buffer = vec![0; 64 * 1024];
                let mut ends = 0;
                loop {
                    let count = stream.read(&mut buffer).await?;
                    ends += line_ends(&buffer[..count]);
                    if count == 0 || buffer[..count].ends_with(b"0\r\n\r\n") {
                        return io::Result::Ok(ends);
                    }
                }
            });
        }
        while let Some(ends) = tasks.join_next().await {
            assert!(ends.expect("no panic").expect("loopback does not fail") > 0);
        }
    });
    let events = CONNECTIONS * writes * events_per_write;
    Outcome { events, wall: started.elapsed(), cpu: thread_cpu_time() - cpu_before }
}

struct LineEnds(Rc<Cell<usize>>);

impl Sink for LineEnds {
    fn sent(&mut self, _at: Tick) {}
    fn head(&mut self, _at: Tick, _head: &Head) {}
    fn body(&mut self, _at: Tick, bytes: &[u8]) {
        self.0.set(self.0.get() + line_ends(bytes));
    }
}

fn client(events_per_write: usize, writes: usize) -> Outcome {
    let address = start_server(events_per_write, writes);
    let target = Target::parse(&format!("http://{address}")).expect("a URL");
    let config = ClientConfig::default();
    let clock = Clock::monotonic();
    let route = Route::resolve_blocking(&target, &config, clock).expect("an address needs no resolver");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (started, cpu_before) = (Instant::now(), thread_cpu_time());
    let ends = Rc::new(Cell::new(0));
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let client = Rc::new(Client::new(config, route, clock).expect("plain HTTP needs no set-up"));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (client, ends) = (Rc::clone(&client), Rc::clone(&ends));
            tasks.spawn_local(async move {
                let outgoing = Outgoing {
                    method: http::Method::GET,
                    path: "/".to_owned(),
                    headers: http::HeaderMap::new(),
                    body: Bytes::new(),
                };
                let limits =
                    Limits { idle: Span::from_secs(60), total: Span::from_secs(600), max_body_bytes: u64::MAX };
                client.exchange(outgoing, limits, &mut LineEnds(ends)).await.outcome
            });
        }
        while let Some(outcome) = tasks.join_next().await {
            outcome.expect("no panic").expect("loopback does not fail");
        }
    });
    let events = CONNECTIONS * writes * events_per_write;
    assert_eq!(ends.get(), 2 * events, "no byte is lost");
    Outcome { events, wall: started.elapsed(), cpu: thread_cpu_time() - cpu_before }
}
