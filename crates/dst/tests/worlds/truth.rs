//! What is measured is what the engine did, to the nanosecond, plus what the link adds and nothing else.

use tokrate_bench::plan::Arrivals;
use tokrate_core::{Channel, Span, Tick};
use tokrate_dst::{Exchange, LinkLaw, Scenario, TextStyle, checkers, run};
use tokrate_sim::{Emitted, Law};

/// Due tick and tokens of every text that the engine emitted.
fn texts(exchange: &Exchange) -> Vec<(Tick, u32)> {
    let text = |what| if let Emitted::Text { words, .. } = what { Some(words.count()) } else { None };
    exchange.writes.iter().filter_map(|written| Some((written.due, text(written.what)?))).collect()
}

fn hold(scenario: &Scenario) -> Vec<Exchange> {
    let history = run(scenario);
    assert_eq!(checkers::check(scenario, &history), Vec::<String>::new());
    history.exchanges
}

#[test]
fn a_single_stream_is_measured_as_the_law_predicts() {
    let law = Law::default();
    let gap = law.gap(1, 1).as_nanos();
    for latency in [0, 1, 250_000, 37_000_001] {
        let scenario = Scenario { link: LinkLaw::with_latency(Span::from_nanos(latency)), ..Scenario::plain(5) };
        let history = run(&scenario);
        assert_eq!(checkers::check(&scenario, &history), Vec::<String>::new());
        let (rows, result) = checkers::summarize(&scenario, &history);
        assert_eq!(rows.len(), 5);
        for row in &rows {
            // 40 ms and 100 prompt tokens at 20,000 per second, then there and back.
            assert_eq!(row.ttft_ns, Some(45_000_000 + 2 * latency), "latency {latency}");
            assert!(row.gaps().all(|sample| sample == (gap, 1)), "latency {latency}");
            assert_eq!((row.tokens_std, row.chunks, row.tokens_reported), (40, 40, Some(40)));
            assert_eq!(row.e2e_ns, Some(45_000_000 + 2 * latency + 39 * gap));
            assert_eq!(row.ttfb_ns, Some(2 * latency), "the role comes at once");
        }
        assert_eq!((result.counts.answered, result.gate.len()), (5, 0));
    }
}

#[test]
fn under_load_every_tick_is_the_engine_tick_plus_latency() {
    for (latency, seed) in [(0, 3), (1_234_567, 4), (80_000_000, 5)] {
        let law = Law { slots: 5, gap_jitter: 0.4, ttft_jitter: 0.3, reasoning_tokens: 7, ..Law::default() };
        let link = LinkLaw::with_latency(Span::from_nanos(latency));
        let scenario = Scenario { law, link, seed, ..Scenario::plain(40) }.closed(9);
        for exchange in hold(&scenario) {
            let sent_at = exchange.sent_at.expect("sent");
            let row = tokrate_meter::RequestNumbers::measure(&exchange.trace, tokrate_tokens::Encoding::O200kBase);
            let way = Span::from_nanos(latency);
            let truth: Vec<(Tick, u32)> = texts(&exchange).iter().map(|&(due, tokens)| (due + way, tokens)).collect();
            let seen: Vec<(Tick, u32)> = row.chunk_list.iter().map(|chunk| (chunk.at, chunk.tokens)).collect();
            assert_eq!(seen, truth, "request {}", exchange.start.index);
            let engine = texts(&exchange)[0].0 - exchange.submitted_at.expect("it came");
            assert_eq!(row.ttft_ns, Some(engine.as_nanos() + 2 * latency));
            let answer = exchange
                .writes
                .iter()
                .find(|written| matches!(written.what, Emitted::Text { channel: Channel::Answer, .. }));
            let answer = answer.expect("there is an answer").due + way;
            assert_eq!(row.ttfat_ns, Some((answer - sent_at).as_nanos()));
            assert_eq!((row.tokens_std_reasoning, row.tokens_std_answer), (7, 33));
        }
    }
}

/// Arrivals that do not depend on the link, so that the engine does the same whatever the link does.
fn steady(text_style: TextStyle, seed: u64) -> Scenario {
    let law = Law { tokens_per_chunk: 3, gap_jitter: 0.5, reasoning_tokens: 10, ..Law::default() };
    Scenario { law, text_style, seed, ..Scenario::plain(12) }.open(25.0, Arrivals::Poisson, 1_000)
}

#[test]
fn splitting_and_joining_bytes_changes_only_the_times() {
    let ns = Span::from_nanos;
    let links = [
        LinkLaw { split: 0.9, ..LinkLaw::ideal() },
        LinkLaw { split: 0.95, split_delay: ns(700_000), ..LinkLaw::ideal() },
        LinkLaw { coalesce: ns(33_333_333), ..LinkLaw::ideal() },
        LinkLaw { coalesce: ns(20_000_000), split: 0.6, jitter: ns(15_000_000), ..LinkLaw::ideal() },
        LinkLaw { bytes_per_second: Some(9_000), split: 0.5, ..LinkLaw::ideal() },
        LinkLaw { stall: 0.05, stall_for: ns(900_000_000), split: 0.3, ..LinkLaw::ideal() },
    ];
    for text_style in [TextStyle::Plain, TextStyle::Mixed] {
        for seed in 0..3 {
            let straight = steady(text_style, seed);
            let ideal = hold(&straight);
            for link in &links {
                let exchanges = hold(&Scenario { link: link.clone(), ..straight.clone() });
                assert_eq!(exchanges.len(), ideal.len());
                for (seen, best) in exchanges.iter().zip(&ideal) {
                    same_and_later(seen, best);
                }
            }
        }
    }
}

fn same_and_later(seen: &Exchange, best: &Exchange) {
    assert_eq!(seen.writes, best.writes, "the engine does the same");
    assert_eq!(seen.trace.text, best.trace.text);
    assert_eq!(
        (seen.trace.usage, seen.trace.finish, &seen.trace.failure),
        (best.trace.usage, best.trace.finish, &None)
    );
    let events =
        |exchange: &Exchange| exchange.trace.arrivals.iter().map(|arrival| u32::from(arrival.events)).sum::<u32>();
    assert_eq!(events(seen), events(best));
    assert!(seen.trace.arrivals.is_sorted_by_key(|arrival| arrival.at));
    for arrival in &seen.trace.arrivals {
        let first = best.trace.arrivals.iter().find(|best| best.text_end >= arrival.text_end);
        assert!(first.is_some_and(|first| first.at <= arrival.at), "{arrival:?} before the ideal link's");
    }
    assert!(seen.trace.done_at >= best.trace.done_at);
}
