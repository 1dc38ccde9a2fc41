//! What writing a row costs its caller: `cargo run --release -p tokrate-store --example write`.
//!
//! Two threads write rows, as fast as they can and then at a gateway's pace; printed are the
//! time of a call as the caller sees it, rows lost, what a row takes on the disk, and how long reading it takes.

#![allow(clippy::print_stdout, reason = "examples print what they measure")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokrate_core::{Span, Tick};
use tokrate_record::{Attempt, Sample, SampleConditions};
use tokrate_store::{Grouping, Log, LogClock, LogConfig, Query, Store};

fn row(n: u64) -> Attempt {
    Attempt {
        call: format!("0198c2f1-{n:012x}"),
        key: Some("ada".to_owned()),
        alias: "chat".to_owned(),
        lane: "openai-gpt-large".to_owned(),
        dialect_in: "openai-chat".into(),
        sample: Sample {
            started_unix_ms: 1_800_000_000_000 + n,
            provider: "openai".to_owned(),
            model: "gpt-large-2026-01-01".to_owned(),
            dialect: "openai-chat".into(),
            ttft_ns: Some(231_456_789),
            total_ns: 3_231_456_789,
            output_speed: Some(57.25),
            gaps: (0..60).map(|gap| 15_000_000 + gap * 150_000).collect(),
            output_tokens_std: 512,
            output_tokens: Some(512),
            input_tokens: Some(1_024),
            cost_usd: Some(0.00123),
            conditions: SampleConditions { version: "0.1.0".to_owned(), ..SampleConditions::default() }.into(),
            ..Sample::default()
        },
        ..Attempt::default()
    }
}

fn clock() -> LogClock {
    let begun = Instant::now();
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
    LogClock::new(move || Tick::ZERO + Span::from(begun.elapsed()), wall)
}

fn measure(name: &str, each: u64, pause: Duration) {
    let path = std::env::temp_dir().join(format!("tokrate-write-{}.db", std::process::id()));
    let log = Log::open(LogConfig::new(&path, clock())).expect("a new log");
    let mut times: Vec<u64> = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            let log = log.clone();
            scope.spawn(move || {
                let mut times = Vec::with_capacity(each as usize);
                for n in 0..each {
                    let row = black_box(row(thread * each + n));
                    let begun = Instant::now();
                    log.write(row);
                    times.push(begun.elapsed().as_nanos() as u64);
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                }
                times
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    log.flush(Span::from_secs(60));
    times.sort_unstable();
    let at = |share: f64| times[((share * times.len() as f64) as usize).min(times.len() - 1)];
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    let counts = log.counts();
    let reader = log.reader().expect("a log");
    let begun = Instant::now();
    let by = Grouping { lane: true, hour: true, ..Grouping::default() };
    let groups = black_box(reader.summarise(&Query::default(), by).expect("readable")).len();
    let summed = begun.elapsed().as_nanos() as f64 / counts.written.max(1) as f64;
    drop((reader, log));
    let bytes = std::fs::metadata(&path).map(|file| file.len()).unwrap_or(0);
    println!(
        "{name}: mean {mean:.0} ns, p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns; written {}, lost {}; {:.0} bytes a row",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        counts.written,
        counts.lost,
        bytes as f64 / counts.written.max(1) as f64,
    );
    println!("  summed up by lane and hour into {groups} groups: {summed:.0} ns a row");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", path.display()));
    }
}

fn main() {
    measure("as fast as they can", 200_000, Duration::ZERO);
    measure("a row each ms", 10_000, Duration::from_millis(1));
}
