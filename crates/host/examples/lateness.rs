//! How late the host writes: many streams at one speed, with a reader that only reads.
//!
//! `cargo run --release -p tokrate-host --example lateness -- STREAMS TOKENS_PER_SECOND [SECONDS [together|steps]]`
//!
//! The streams begin spread over one gap between tokens, as arrivals that know nothing of each other do. With
//! `together` they begin as fast as they can be sent: then all of their tokens fall due at about the same moments, and
//! most of them wait for the writes before them. With `steps` a scheduler of batches decides when tokens come, as behind
//! `tokrate sim --engine`: all streams get a token in each of its steps.

#![allow(clippy::print_stdout, reason = "it prints what it finds")]

use std::error::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokrate_core::{Span, Tick};
use tokrate_host::{FleetConfig, Host, HostConfig};
use tokrate_net::{Clock, thread_cpu_time};
use tokrate_sim::{Law, Scheduled};

fn main() -> Result<(), Box<dyn Error>> {
    let how = std::env::args().nth(4).unwrap_or_default();
    let (together, steps) = (how == "together", how == "steps");
    let numbers: Vec<f64> = std::env::args().skip(1).take(3).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |index: usize, otherwise: f64| numbers.get(index).copied().unwrap_or(otherwise);
    let (streams, rate, seconds) = (number(0, 800.0) as u32, number(1, 50.0), number(2, 5.0));
    let tokens = (rate * seconds) as u32;
    let law = Law {
        slots: streams,
        stream_tokens_per_second: rate,
        contention: 0.0,
        coherency: 0.0,
        base_delay: Span::from_millis(500),
        ..Law::default()
    };
    let mut config = FleetConfig::from(HostConfig { law, ..HostConfig::default() });
    if steps {
        config.providers[0].persona.scheduled = Some(Scheduled::even(Span::from_secs_f64(1.0 / rate), streams)?);
    }
    let host = Host::start(config)?;
    let body =
        format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"stream":true,"max_tokens":{tokens}}}"#);
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let clock = Clock::monotonic();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let started_at: Tick = clock.now();
    let (mut read, mut reads) = (0_u64, 0_u64);
    runtime.block_on(async {
        let mut readers = JoinSet::new();
        let mut connected = Vec::new();
        for _ in 0..streams {
            connected.push(TcpStream::connect(host.address()).await?);
        }
        let first_at = clock.now();
        for (index, mut stream) in connected.into_iter().enumerate() {
            let after = Span::from_secs_f64(index as f64 / rate / f64::from(streams));
            while !together && clock.now() < first_at + after {
                tokio::task::yield_now().await;
            }
            stream.write_all(request.as_bytes()).await?;
            readers.spawn(async move {
                let (mut bytes, mut reads, mut part) = (0_u64, 0_u64, [0; 16 * 1024]);
                while let Ok(count @ 1..) = stream.read(&mut part).await {
                    bytes += count as u64;
                    reads += 1;
                }
                (bytes, reads)
            });
        }
        while let Some(done) = readers.join_next().await {
            let (bytes, times) = done?;
            read += bytes;
            reads += times;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    let wall = clock.now() - started_at;
    let summary = host.stop();
    let quantile = |q: f64| Span::from_nanos(summary.lateness.quantile(q).unwrap_or(0));
    let share = |cpu: Span| 100.0 * cpu.as_secs_f64() / wall.as_secs_f64();
    println!("{streams} streams at {rate} tok/s, {tokens} tokens each, {wall}; {reads} reads of {read} bytes");
    println!(
        "lateness of {} writes: p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        summary.lateness.count(),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0)
    );
    println!("CPU of one core: host {:.0} %, reader {:.0} %", share(summary.cpu), share(thread_cpu_time()));
    Ok(())
}
