//! Cost of metering a stream while it is forwarded: `cargo run --release -p tokrate-meter --example live`.
//!
//! Prints the time of one `on` call with one text event of one token, with and without token counting, and of the meter
//! that keeps the text.

#![allow(clippy::print_stdout, reason = "examples print what they measure")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::Instant;
use tokrate_core::{Channel, EventBatch, Tick};
use tokrate_meter::{Ending, LiveMeter, RequestMeter, Timing};

/// Events of one stream, and streams of one round.
const EVENTS: usize = 4_096;
const STREAMS: usize = 500;

/// About one token each, as models write them.
const TEXT: [&str; 16] = [
    "The", " gateway", " passes", " each", " chunk", " on", " as", " it", " came", ",", " and", " it", "'s",
    " counted", ".\n", "So",
];

fn batches() -> Vec<EventBatch> {
    let batch = |n: usize| {
        let mut batch = EventBatch::new();
        batch.push_text(Tick::from_nanos(n as u64 * 20_000_000), Channel::Answer, TEXT[n % TEXT.len()]);
        batch
    };
    (0..EVENTS).map(batch).collect()
}

/// The median of seven rounds (ns for each event).
fn measure(mut round: impl FnMut() -> u64) -> f64 {
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            let begun = Instant::now();
            (0..STREAMS).for_each(|_| {
                black_box(round());
            });
            begun.elapsed().as_nanos() as f64 / (EVENTS * STREAMS) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[3]
}

fn main() {
    let batches = batches();
    let live = |meter: fn() -> LiveMeter| {
        measure(|| {
            let mut meter = meter();
            batches.iter().for_each(|batch| meter.on(black_box(batch)));
            meter.finish(&Timing::default(), Ending::Complete).tokens_std
        })
    };
    println!("live, without tokens: {:.1} ns an event", live(LiveMeter::without_tokens));
    println!("live, with tokens:    {:.1} ns an event", live(LiveMeter::new));
    let whole = measure(|| {
        let mut meter = RequestMeter::new();
        batches.iter().for_each(|batch| meter.on(black_box(batch)));
        meter.finish(Timing::default(), Ending::Complete).arrivals.len() as u64
    });
    println!("keeping everything:   {whole:.1} ns an event, tokens not counted yet");
    println!("one open stream:      {} bytes and its text buffer of 512", size_of::<LiveMeter>());
}
