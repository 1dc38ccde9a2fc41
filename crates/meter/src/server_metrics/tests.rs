//! Pages as engines write them, malformed pages, and differences worked out by hand.

use super::*;
use crate::fixtures::{failed_request, steady_request};
use proptest::prelude::*;
use tokrate_core::FailureKind;

mod edges;

fn page(text: &str) -> Exposition {
    Exposition::parse(text.as_bytes())
}

/// A vLLM page after so many requests of one model, each with a TTFT of 30 ms and 100 tokens.
fn vllm(requests: u64, others: u64) -> String {
    let series = |model: &str, n: u64| {
        format!(
            "vllm:request_success_total{{engine=\"0\",finished_reason=\"stop\",model_name=\"{model}\"}} {}.0\n\
             vllm:request_success_total{{engine=\"0\",finished_reason=\"length\",model_name=\"{model}\"}} {}.0\n\
             vllm:generation_tokens_total{{engine=\"0\",model_name=\"{model}\"}} {:e}\n\
             vllm:prompt_tokens_total{{engine=\"0\",model_name=\"{model}\"}} {}\n\
             vllm:prefix_cache_queries_total{{engine=\"0\",model_name=\"{model}\"}} {}\n\
             vllm:prefix_cache_hits_total{{engine=\"0\",model_name=\"{model}\"}} {}\n\
             vllm:num_requests_running{{engine=\"0\",model_name=\"{model}\"}} 0.0\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"0.02\",model_name=\"{model}\"}} 0.0\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"0.04\",model_name=\"{model}\"}} {n}.0\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"0\",le=\"+Inf\",model_name=\"{model}\"}} {n}.0\n\
             vllm:time_to_first_token_seconds_count{{engine=\"0\",model_name=\"{model}\"}} {n}.0\n\
             vllm:time_to_first_token_seconds_sum{{engine=\"0\",model_name=\"{model}\"}} {}\n",
            n / 2,
            n - n / 2,
            (n * 100) as f64,
            n * 50,
            n * 50,
            n * 10,
            n as f64 * 0.03,
        )
    };
    format!("# HELP vllm:x y\n# TYPE vllm:x counter\n{}{}", series("mine", requests), series("other", others))
}

fn client(started: u64, answered: u64, tokens: u64) -> ClientTotals {
    ClientTotals { started, answered, ttft_mean_ms: Some(32.5), output_tokens: Some(tokens), ..ClientTotals::default() }
}

fn between(before: &str, after: &str, client: ClientTotals) -> ServerReport {
    let (before, after) = (page(before), page(after));
    let read = |page| MetricsSnapshot::of(page, None, "mine").expect("a page of vLLM");
    ServerReport::between("http://h/metrics", &read(&before), &read(&after), client)
}

#[test]
fn samples_are_read_with_labels_escapes_and_odd_numbers() {
    let text = "a_total 1\n  b{x=\"1\"} 2.5e+06 1395066363000\nc{x=\"a\\\\b\\\"c\\nd,}\" , y = \"\",} +Inf # {trace=\"t\"} 1\n\
                d{} NaN\n# a comment\n\ne -3";
    let page = page(text);
    assert_eq!(page.ignored_lines, 0);
    let shown: Vec<String> =
        page.samples.iter().map(|sample| format!("{} {:?} {}", sample.name, sample.labels, sample.value)).collect();
    assert_eq!(
        shown,
        [
            "a_total [] 1",
            "b [(\"x\", \"1\")] 2500000",
            "c [(\"x\", \"a\\\\b\\\"c\\nd,}\"), (\"y\", \"\")] inf",
            "d [] NaN",
            "e [] -3",
        ]
    );
    assert_eq!(page.samples[1].label("x"), Some("1"));
}

#[test]
fn a_line_that_is_no_sample_is_counted_and_skipped() {
    let page = page("<html>\na\n1a 2\nb{x=\"1\" 2\nc{x} 1\nd{x=\"1\"}\ne one\nf infinity\ngood 1\n{\"g\"} 1");
    assert_eq!((page.samples.len(), page.ignored_lines), (1, 9));
}

#[test]
fn a_page_that_is_a_json_string_is_read_all_the_same() {
    let quoted = "\"# HELP llamacpp:x\\nllamacpp:prompt_tokens_total 12\\n\"";
    assert_eq!(page(quoted).samples[0].value, 12.0);
    assert_eq!(page("\"not closed").samples, []);
}

#[test]
fn every_family_is_recognised_by_its_names() {
    let pages = [
        ("vllm", "vllm:prompt_tokens_total 1"),
        ("sglang", "sglang:prompt_tokens_total 1"),
        ("tgi", "tgi_request_count 1"),
        ("llama-cpp", "llamacpp:prompt_tokens_total 1"),
        ("trtllm", "trtllm_request_success_total 1"),
    ];
    for (name, text) in pages {
        let page = page(&format!("python_gc_objects_collected_total{{generation=\"0\"}} 1\n{text}\n"));
        assert_eq!(MetricsSnapshot::of(&page, None, "m").map(|reading| reading.family().name), Some(name));
        assert!(MetricsSnapshot::of(&page, Family::by_name(name), "m").is_some());
        let other = Family::ALL.into_iter().find(|family| family.name != name);
        assert!(MetricsSnapshot::of(&page, other, "m").is_none());
    }
    assert!(MetricsSnapshot::of(&page("python_info 1"), None, "m").is_none());
    assert!(Family::by_name("ollama").is_none());
}

#[test]
fn names_with_underscores_for_colons_are_the_same_names() {
    let page = page("sglang_num_requests_total{model_name=\"m\"} 4\nsglang_prompt_tokens_total 5\n");
    let reading = MetricsSnapshot::of(&page, None, "m").expect("a page of SGLang");
    assert_eq!((reading.family().name, reading.number(Quantity::Requests)), ("sglang", Some(4.0)));
    assert_eq!(reading.number(Quantity::InputTokens), Some(5.0));
}

#[test]
fn the_difference_of_two_pages_stands_beside_the_clients_numbers() {
    let truth = between(&vllm(10, 7), &vllm(30, 7), client(20, 20, 2000));
    assert_eq!((truth.requests, truth.foreign_requests, truth.open_before), (Some(20), Some(0), Some(0)));
    assert_eq!((truth.input_tokens, truth.output_tokens), (Some(1000), Some(2000)));
    assert_eq!((truth.output_tokens_apart, truth.cache_hit_share), (Some(0.0), Some(0.2)));
    let ttft = truth.ttft.expect("a histogram");
    assert_eq!((ttft.n, ttft.p99), (20, None));
    assert_eq!(ttft.p50, Some(Between { low_ms: 20.0, high_ms: Some(40.0) }));
    assert!((ttft.mean_ms - 30.0).abs() < 1e-9 && (truth.ttft_gap_ms.expect("a gap") - 2.5).abs() < 1e-9);
    assert_eq!((truth.e2e, truth.e2e_gap_ms, truth.restarted), (None, None, false));
    assert_eq!(truth.warnings, [""; 0]);
}

#[test]
fn requests_of_others_to_the_same_model_are_seen() {
    let truth = between(&vllm(0, 0), &vllm(25, 0), client(20, 20, 2000));
    assert_eq!(truth.foreign_requests, Some(5));
    assert_eq!(truth.warnings.len(), 2, "{:?}", truth.warnings);
    assert!(truth.warnings[0].contains("5 more than were sent"), "{:?}", truth.warnings);
    assert!(truth.warnings[1].contains("(+25.0 %); the others' tokens are among them"), "{:?}", truth.warnings);
    // Requests to another model are nobody's business.
    assert_eq!(between(&vllm(0, 0), &vllm(20, 900), client(20, 20, 2000)).warnings, [""; 0]);
    // Requests that were open before the phase began.
    let busy = vllm(0, 0).replacen(
        "vllm:num_requests_running{engine=\"0\",model_name=\"mine\"} 0",
        "vllm:num_requests_running{engine=\"0\",model_name=\"mine\"} 3",
        1,
    );
    assert_eq!(between(&busy, &vllm(20, 0), client(20, 20, 2000)).open_before, Some(3));
}

#[test]
fn token_counts_that_disagree_are_warned_of() {
    assert_eq!(between(&vllm(0, 0), &vllm(20, 0), client(20, 20, 1970)).warnings, [""; 0]);
    let more = between(&vllm(0, 0), &vllm(20, 0), client(21, 20, 1900));
    assert!(more.warnings[0].ends_with("(+5.3 %); requests that were not answered may be among them"), "{more:?}");
    let fewer = between(&vllm(0, 0), &vllm(20, 0), client(20, 20, 4000));
    assert!(fewer.warnings[0].ends_with("the answers report 4000 (-50.0 %)"), "{fewer:?}");
    let missing = between(&vllm(0, 0), &vllm(18, 0), client(20, 20, 1800));
    assert_eq!(missing.warnings, ["the server counts 2 requests less than were answered"]);
}

#[test]
fn a_server_that_began_anew_is_recognised() {
    let truth = between(&vllm(500, 0), &vllm(20, 0), client(20, 20, 2000));
    assert!(truth.restarted);
    assert_eq!((truth.requests, truth.output_tokens), (Some(20), Some(2000)));
    assert_eq!(truth.ttft.expect("since the restart").n, 20);
    assert!(truth.warnings[0].contains("restarted"));
}

#[test]
fn series_that_appear_with_the_first_request_start_at_zero() {
    let truth = between("vllm:num_requests_running 0\n", &vllm(20, 0), client(20, 20, 2000));
    assert_eq!((truth.requests, truth.restarted), (Some(20), false));
}

#[test]
fn a_99th_percentile_needs_enough_requests_and_may_lie_above_all_bounds() {
    let slow = |n: u64| {
        format!(
            "vllm:time_to_first_token_seconds_bucket{{le=\"1.0\"}} {}\nvllm:time_to_first_token_seconds_bucket{{le=\"+Inf\"}} {n}\n\
             vllm:time_to_first_token_seconds_count {n}\nvllm:time_to_first_token_seconds_sum {n}\n",
            n / 2
        )
    };
    let truth = between(&slow(0), &slow(700), client(700, 700, 1));
    let ttft = truth.ttft.expect("a histogram");
    assert_eq!(ttft.p99, Some(Between { low_ms: 1000.0, high_ms: None }));
    assert_eq!(ttft.p50, Some(Between { low_ms: 0.0, high_ms: Some(1000.0) }));
}

#[test]
fn sums_without_histograms_give_a_speed() {
    let text = |tokens: u64, seconds: f64| {
        format!(
            "llamacpp:tokens_predicted_total {tokens}\nllamacpp:tokens_predicted_seconds_total {seconds}\nllamacpp:prompt_seconds_total {seconds}\n"
        )
    };
    let truth = between(&text(100, 1.0), &text(500, 3.0), client(4, 4, 400));
    assert_eq!((truth.family.as_str(), truth.requests, truth.ttft.clone()), ("llama-cpp", None, None));
    assert_eq!(
        (truth.decode_seconds, truth.decode_speed(), truth.prefill_seconds),
        (Some(2.0), Some(200.0), Some(2.0))
    );
}

#[test]
fn the_clients_side_counts_what_the_server_counts() {
    let mut rows = vec![
        steady_request(0, 0, 130, 10, 40),
        steady_request(1, 600, 110, 10, 40),
        failed_request(2, 900, 950, FailureKind::ServerError),
    ];
    rows[0].warmup = true;
    for row in &mut rows[..2] {
        row.tokens_reported = Some(44);
    }
    let side = ClientTotals::of(&rows);
    assert_eq!((side.started, side.answered, side.output_tokens), (3, 2, Some(88)));
    assert_eq!((side.ttft_mean_ms, side.ttft_p50_ms), (Some(120.0), Some(110.0)));
    rows[1].tokens_reported = None;
    assert_eq!(ClientTotals::of(&rows).output_tokens, None);
    assert_eq!(ClientTotals::of(&[]), ClientTotals::default());
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let page = Exposition::parse(&bytes);
        let _ = MetricsSnapshot::of(&page, None, "m");
    }

    #[test]
    fn no_lines_make_the_difference_panic_or_go_wrong(
        before in lines(), after in lines(), started in 0..50_u64, unanswered in 0..5_u64,
    ) {
        let (before, after) = (page(&before), page(&after));
        let (Some(before), Some(after)) = (MetricsSnapshot::of(&before, None, "m"), MetricsSnapshot::of(&after, None, "m")) else {
            return Err(TestCaseError::reject("no reading"));
        };
        let truth = ServerReport::between("u", &before, &after, client(started, started.saturating_sub(unanswered), started));
        // Whatever came in, the record must be writable: nothing in it is infinite or no number.
        let json = serde_json::to_value(&truth).expect("it can be written");
        let back: ServerReport = serde_json::from_value(json).expect("it can be read");
        for times in [&truth.ttft, &truth.e2e].into_iter().flatten() {
            prop_assert!(times.mean_ms.is_finite());
            for quantile in [times.p50, times.p99].into_iter().flatten() {
                prop_assert!(quantile.high_ms.is_none_or(|high| high >= quantile.low_ms));
            }
        }
        prop_assert_eq!(back.requests, truth.requests);
    }

    #[test]
    fn a_label_survives_its_escapes(value in "[a-z\\\\\"\n{},= ]{0,20}", number in -1e9..1e9_f64) {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let page = page(&format!("m{{l=\"{escaped}\",k=\"v\"}} {number:e}"));
        prop_assert_eq!(page.samples.len(), 1);
        prop_assert_eq!(page.samples[0].label("l"), Some(value.as_str()));
        prop_assert_eq!((page.samples[0].label("k"), page.samples[0].value), (Some("v"), number));
    }
}

/// Pages of vLLM's names with any numbers.
fn lines() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("vllm:request_success_total"),
        Just("vllm:generation_tokens_total"),
        Just("vllm:num_requests_running"),
        Just("vllm:time_to_first_token_seconds_count"),
        Just("vllm:time_to_first_token_seconds_sum"),
        Just("vllm:time_to_first_token_seconds_bucket"),
        Just("vllm:e2e_request_latency_seconds_count"),
        Just("vllm:e2e_request_latency_seconds_sum"),
    ];
    let bound = prop_oneof![Just("0.1"), Just("1"), Just("+Inf"), Just("x"), Just("1e400")];
    let value = prop_oneof![
        (0..1000_u32).prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| format!("{value:e}")),
        Just("NaN".to_owned()),
        Just("+Inf".to_owned()),
    ];
    let line = (name, bound, value).prop_map(|(name, bound, value)| format!("{name}{{le=\"{bound}\"}} {value}\n"));
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.concat())
}
