//! Clients: what is read and refused, and that what is drawn has the rates, spreads and lengths that were written.

use super::*;
use proptest::prelude::{prop_assert, proptest};

fn own(lines: &[&str]) -> Clients {
    Clients::parse(&lines.join("\n")).unwrap_or_else(|bad| panic!("expected clients: {bad}"))
}

fn excerpt(from: u64, seconds: u64, rate: Option<f64>) -> Excerpt {
    Excerpt { from: Span::from_secs(from), length: Span::from_secs(seconds), rate }
}

fn drawn(clients: &Clients, excerpt: Excerpt, seed: u64) -> Trace {
    clients.draw(excerpt, &Rng::root(seed)).unwrap_or_else(|reason| panic!("nothing was drawn: {reason}"))
}

/// Standard deviation of the gaps as a share of their mean.
fn spread(trace: &Trace) -> f64 {
    let times: Vec<f64> = trace.requests.iter().map(|request| request.at.as_secs_f64()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt() / mean
}

#[test]
fn gaps_have_the_rate_and_the_spread_that_were_written() {
    for gaps in ["gamma", "weibull"] {
        for cv in [0.3, 1.0, 2.0, 4.0] {
            let line =
                format!(r#"{{"rate": 10, "cv": {cv}, "gaps": "{gaps}", "input_tokens": 9, "output_tokens": 5}}"#);
            let trace = drawn(&own(&[&line]), excerpt(0, 10_000, None), 1);
            // The count of a renewal process has a standard deviation of cv × sqrt(n): four of them.
            let n = trace.requests.len() as f64;
            assert!((n - 1e5).abs() < 4.0 * cv * 1e5_f64.sqrt(), "{gaps} {cv}: {n}");
            assert!((spread(&trace) / cv - 1.0).abs() < 0.12, "{gaps} {cv}: {}", spread(&trace));
        }
    }
}

#[test]
fn a_bursty_client_does_not_begin_when_the_run_does() {
    // With half of the gaps next to nothing, a process that begins with a request has far too many in its first second.
    let line = r#"{"rate": 1, "cv": 5, "input_tokens": 9, "output_tokens": 5}"#;
    let clients = own(&vec![line; 4_000]);
    let trace = drawn(&clients, excerpt(0, 1, None), 3);
    let n = trace.requests.len() as f64;
    assert!((n / 4_000.0 - 1.0).abs() < 0.3, "{n} of 4,000 in the first second");
    assert_eq!(clients.len(), 4_000);
}

#[test]
fn clients_keep_their_shares_of_the_rate_that_is_asked_for() {
    let clients = own(&[
        r#"{"client": "a", "rate": 3, "input_tokens": 100, "output_tokens": 5}"#,
        r#"{"client": "b", "rate": 1, "input_tokens": 200, "output_tokens": "uniform:7..9"}"#,
    ]);
    let trace = drawn(&clients, excerpt(0, 1_000, Some(40.0)), 1);
    let n = trace.requests.len() as f64;
    assert!((n - 40_000.0).abs() < 800.0, "{n}");
    let share = trace.requests.iter().filter(|request| request.input_tokens == 100).count() as f64 / n;
    assert!((share - 0.75).abs() < 0.01, "{share}");
    assert!(trace.requests.iter().all(|it| it.input_tokens == 100 || (7..=9).contains(&it.output_tokens)));
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    assert_eq!(trace.drawn.as_deref(), Some("2 of 2 clients, 1000 s from 0 s on, 40 a second"));
}

#[test]
fn a_seed_draws_the_same_again_and_a_client_does_not_depend_on_the_others() {
    let (a, b) = (
        r#"{"rate": 2, "cv": 3, "input_tokens": "lognormal:80,1", "output_tokens": 5}"#,
        r#"{"rate": 5, "input_tokens": 7, "output_tokens": 6}"#,
    );
    let of = |lines: &[&str], seed| drawn(&own(lines), excerpt(0, 60, None), seed).requests;
    assert_eq!(of(&[a, b], 1), of(&[a, b], 1));
    assert_ne!(of(&[a, b], 1), of(&[a, b], 2));
    let alone = of(&[a], 1);
    let beside: Vec<_> = of(&[a, b], 1).into_iter().filter(|request| request.output_tokens == 5).collect();
    assert_eq!(alone, beside);
}

const TRACE: &str = "0,0,0,,0,0\n600,2,1.5,Gamma,0.44,1.1\n1200,4,3,Weibull,0.5,0.2\n";
const DATASET: &str = r#"{"0": {"input_tokens": "{}", "output_tokens": "{}"}, "600": {"input_tokens": "{81: 0.25, 90: 0.75}",
    "output_tokens": "{0: 0.5, 7: 0.5}", "reason_ratio": "{0.0: 1.0}"}}"#;

#[test]
fn files_of_servegen_are_read_as_they_are_published() {
    let clients = Clients::parse_servegen(&[(TRACE, DATASET)]).expect("a client");
    let trace = drawn(&clients, excerpt(600, 1_200, None), 1);
    let (first, second): (Vec<_>, Vec<_>) = trace.requests.iter().partition(|it| it.at < Span::from_secs(600));
    // 2 and 4 a second; bursts make the counts vary.
    assert!(
        (900..1_500).contains(&first.len()) && (1_700..3_100).contains(&second.len()),
        "{} {}",
        first.len(),
        second.len()
    );
    let short = trace.requests.iter().filter(|request| request.input_tokens == 81).count() as f64;
    assert!((short / trace.requests.len() as f64 - 0.25).abs() < 0.05);
    assert!(trace.requests.iter().all(|it| [81, 90].contains(&it.input_tokens) && it.output_tokens == 7));
    let early = clients.draw(excerpt(0, 600, None), &Rng::root(1)).expect_err("nothing is sent then");
    assert_eq!(early, "none of the 1 clients sends anything from 0 ns on for 600 s");
    assert!(
        clients.draw(excerpt(600, 9, Some(1e7)), &Rng::root(1)).expect_err("too many").contains("more than 5000000")
    );
}

#[test]
fn what_is_no_client_is_refused_with_its_position() {
    let line = r#"{"rate": 1, "input_tokens": 9, "output_tokens": 5}"#;
    for (text, expected) in [
        (String::new(), "line 1, column 1: expected a client with `rate`"),
        (format!("{line}\n{{"), "line 2, column 1: expected a client with `rate`"),
        (line.replace("1,", "-1,"), "line 1, column 1: expected a rate from 0"),
        (line.replace("1,", "1, \"cv\": 0,"), "line 1, column 1: expected a cv from 0.01"),
        (line.replace("9", "\"pareto:9\""), "line 1, column 1: expected `input_tokens` as --input-tokens takes it"),
    ] {
        let message = Clients::parse(&text).expect_err("no client").to_string();
        assert!(message.starts_with(expected), "{text}: {message}");
    }
    for (trace, dataset, file, expected) in [
        ("", DATASET, 0, "line 1, column 1: expected rows of second"),
        ("0,1,1,Gamma,1", DATASET, 0, "line 1, column 1: expected six fields"),
        ("0,1,1,Pareto,1,1", DATASET, 0, "line 1, column 1: expected the law Gamma or Weibull"),
        ("600,1,1,Gamma,1,1\n0,1,1,Gamma,1,1", DATASET, 0, "line 2, column 1: expected a later second"),
        (TRACE, "[]", 1, "line 1, column 1: expected an object of seconds"),
        (TRACE, r#"{"0": {"input_tokens": "{}"}}"#, 1, "line 1, column 1: expected `output_tokens`"),
        (
            TRACE,
            r#"{"0": {"text_tokens": "{}", "image_tokens": "{}"}}"#,
            1,
            "line 1, column 1: expected a dataset of text",
        ),
        (
            TRACE,
            r#"{"0": {"input_tokens": "{a: 1}", "output_tokens": "{}"}}"#,
            1,
            "line 1, column 1: expected `input_tokens` to be a dictionary",
        ),
    ] {
        let (at, bad) = Clients::parse_servegen(&[(trace, dataset)]).expect_err("no client");
        assert!(at == file && bad.to_string().starts_with(expected), "{trace} {dataset}: {bad}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "[{}\":,a-z0-9.\n ]{0,120}", seconds in 1_u64..90) {
        if let Ok(clients) = Clients::parse(&text)
            && let Ok(trace) = clients.draw(excerpt(0, seconds, Some(5.0)), &Rng::root(1))
        {
            prop_assert!(trace.requests.iter().all(|request| request.at <= Span::from_secs(seconds)));
        }
        for (trace, dataset) in [(text.as_str(), DATASET), (TRACE, text.as_str())] {
            if let Err((file, bad)) = Clients::parse_servegen(&[(trace, dataset)]) {
                prop_assert!(file < 2 && bad.line >= 1 && bad.column >= 1);
            }
        }
    }
}
