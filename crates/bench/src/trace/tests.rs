//! Each format, and what is rejected.

use super::*;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

fn seen(trace: &Trace) -> Vec<(u64, u32, u32)> {
    let row = |request: &TraceRequest| (request.at.as_nanos() / 1_000, request.input_tokens, request.output_tokens);
    trace.requests.iter().map(row).collect()
}

fn refused(text: &str) -> String {
    Trace::parse(text, None).expect_err("it is bad").to_string()
}

#[test]
fn mooncake_is_read_with_its_blocks() {
    let text = "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\n\
                {\"timestamp\": 30535, \"input_length\": 6472, \"output_length\": 26, \"hash_ids\": [46, 2366]}\n";
    let trace = Trace::parse(text, None).expect("a trace");
    assert_eq!(trace.format, TraceFormat::Mooncake);
    assert_eq!(seen(&trace), [(0, 6955, 52), (3_053_000, 6472, 26)]);
    assert_eq!(*trace.requests[1].blocks, [46, 2366]);
    assert_eq!(trace.due(2.0).iter().map(|due| due.as_millis_f64()).collect::<Vec<f64>>(), [0.0, 1526.5]);
    assert_eq!(Trace::parse(text, Some(1)).expect("a trace").requests.len(), 1);
}

#[test]
fn azure_is_read_with_its_dates() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n\
                2023-11-16 18:17:04.0319600,3180,8\r\n2024-05-10 00:00:00.009930+00:00,110,27\r\n";
    let trace = Trace::parse(text, Some(2)).expect("a trace");
    assert_eq!(trace.format, TraceFormat::Azure);
    assert_eq!(seen(&trace), [(0, 4808, 10), (52_000, 3180, 8)]);
    assert_eq!(Trace::parse(text, None).expect("a trace").requests.len(), 3);
}

#[test]
fn burst_gpt_is_read_in_both_of_its_layouts_without_failed_requests() {
    let old = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
               5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,API log\n118.5,GPT-4,417,276,693,API log\n";
    let trace = Trace::parse(old, None).expect("a trace");
    assert_eq!(trace.format, TraceFormat::BurstGpt);
    assert_eq!((seen(&trace), trace.left_out), (vec![(0, 472, 18), (113_500_000, 417, 276)], 1));
    let new = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
               5.0,,1.5,ChatGPT,472,18,490,API log\n";
    assert_eq!(seen(&Trace::parse(new, None).expect("a trace")), [(0, 472, 18)]);
}

#[test]
fn requests_are_put_in_order_of_their_times() {
    let text = "Timestamp,Request tokens,Response tokens\n9,1,1\n2,2,2\n9,3,3\n";
    let trace = Trace::parse(text, None).expect("a trace");
    assert_eq!(seen(&trace), [(0, 2, 2), (7_000_000, 1, 1), (7_000_000, 3, 3)]);
}

#[test]
fn a_line_that_cannot_be_parsed_is_refused_with_its_position() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    let mooncake = |line: &str| format!("{{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}}\n{line}");
    let cases = [
        (String::new(), "line 1, column 1: expected a trace"),
        ("a,b\n1,2\n".to_owned(), "line 1, column 1: expected the header `TIMESTAMP,"),
        (azure.to_owned(), "line 1, column 1: expected at least one request"),
        (format!("{azure}yesterday,1,1\n"), "line 2, column 1: expected a date and time such as"),
        (format!("{azure}2023-11-16 18:17:03,many,1\n"), "line 2, column 21: expected input tokens"),
        (format!("{azure}2023-11-16 18:17:03,1,-1\n"), "line 2, column 23: expected output tokens"),
        (format!("{azure}2023-11-16 18:17:03,1\n"), "line 2, column 22: expected 3 fields"),
        (mooncake("{\"timestamp\": 1}"), "line 2, column 16: expected an object with `timestamp`"),
        (mooncake("{\"timestamp\": 1"), "line 2, column 15: expected an object with `timestamp`"),
        (
            mooncake("{\"timestamp\": 1, \"input_length\": 0, \"output_length\": 5}"),
            "line 2, column 19: expected input_length between 1 and",
        ),
        (
            mooncake("{\"timestamp\": 1, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [1, 2, 3]}"),
            "line 2, column 60: expected at most one id for each 512 tokens",
        ),
        (
            mooncake("{\"timestamp\": -1, \"input_length\": 6, \"output_length\": 5}"),
            "line 2, column 3: expected a time",
        ),
    ];
    for (text, expected) in cases {
        let message = refused(&text);
        assert!(message.starts_with(expected), "{text:?}: {message}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "(?s).{0,200}", rows in "[0-9:. ,-]{0,80}") {
        for text in [text.clone(), format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}"), format!("{{{text}")] {
            match Trace::parse(&text, None) {
                Ok(trace) => {
                    prop_assert!(trace.requests.windows(2).all(|pair| pair[0].at <= pair[1].at));
                    prop_assert_eq!(trace.requests[0].at, Span::ZERO);
                }
                Err(bad) => prop_assert!(bad.line >= 1 && bad.column >= 1),
            }
        }
    }
}
