//! Edge cases of the difference: no change, counter resets, several series, nothing to divide by.

use super::*;

fn histogram(count: f64, sum: f64, buckets: &[(f64, f64)]) -> Histogram {
    Histogram { count, sum, buckets: buckets.to_vec() }
}

#[test]
fn what_came_in_between_is_taken_bucket_by_bucket() {
    let before = histogram(10.0, 5.0, &[(0.5, 6.0), (1.0, 10.0)]);
    let after = histogram(14.0, 8.0, &[(0.5, 7.0), (1.0, 13.0), (f64::INFINITY, 14.0)]);
    // A bound that was not there before began at 0.
    let expected = histogram(4.0, 3.0, &[(0.5, 1.0), (1.0, 3.0), (f64::INFINITY, 14.0)]);
    assert_eq!(after.since(&before), Some(expected));
    assert_eq!(before.since(&before), Some(histogram(0.0, 0.0, &[(0.5, 0.0), (1.0, 0.0)])), "nothing new");
    assert_eq!(histogram(9.0, 6.0, &[]).since(&before), None, "fewer values");
    assert_eq!(histogram(11.0, 4.0, &[]).since(&before), None, "a smaller sum");
}

#[test]
fn series_of_several_engines_are_added_up() {
    let engine = |engine: u32, n: u32| {
        format!(
            "vllm:time_to_first_token_seconds_bucket{{engine=\"{engine}\",le=\"0.5\"}} {n}\n\
             vllm:time_to_first_token_seconds_bucket{{engine=\"{engine}\",le=\"+Inf\"}} {}\n\
             vllm:time_to_first_token_seconds_count{{engine=\"{engine}\"}} {}\n\
             vllm:time_to_first_token_seconds_sum{{engine=\"{engine}\"}} {n}\n",
            n + 1,
            n + 1
        )
    };
    let page = page(&(engine(0, 3) + &engine(1, 5)));
    let reading = MetricsSnapshot::of(&page, None, "m").expect("a page of vLLM");
    let both = histogram(10.0, 8.0, &[(0.5, 8.0), (f64::INFINITY, 10.0)]);
    assert_eq!(reading.histogram(Quantity::Ttft), Some(both));
}

#[test]
fn without_a_series_of_the_model_all_of_them_count() {
    let page = page("vllm:prompt_tokens_total{model_name=\"alias\"} 7\n");
    let reading = MetricsSnapshot::of(&page, None, "mine").expect("a page of vLLM");
    assert_eq!(reading.number(Quantity::InputTokens), Some(7.0));
}

#[test]
fn before_anything_a_page_says_nothing() {
    let (empty, page) = (page(""), page("vllm:prompt_tokens_total 7\n"));
    let reading = MetricsSnapshot::of(&page, None, "mine").expect("a page of vLLM");
    let before = reading.zeroed(&empty);
    assert_eq!((before.family().name, before.number(Quantity::InputTokens)), ("vllm", None));
}

#[test]
fn families_are_found_by_their_names() {
    for family in Family::ALL {
        assert_eq!(Family::by_name(family.name), Some(family));
    }
    assert_eq!(page("a -Inf").samples[0].value, f64::NEG_INFINITY);
}

#[test]
fn a_server_that_did_nothing_was_not_restarted() {
    let truth = between(&vllm(10, 0), &vllm(10, 0), client(0, 0, 0));
    assert_eq!((truth.restarted, truth.requests, truth.output_tokens), (false, Some(0), Some(0)));
    assert_eq!((truth.output_tokens_apart, truth.cache_hit_share, truth.ttft), (None, None, None));
    assert_eq!(truth.warnings, [""; 0]);
}

#[test]
fn one_number_that_fell_is_a_restart() {
    let counter = |tokens: u64| format!("vllm:generation_tokens_total {tokens}\n");
    let truth = between(&counter(500), &counter(20), client(1, 1, 20));
    assert_eq!((truth.restarted, truth.output_tokens), (true, Some(20)));
    let times =
        |n: u64| format!("vllm:time_to_first_token_seconds_count {n}\nvllm:time_to_first_token_seconds_sum {n}\n");
    let truth = between(&times(500), &times(20), client(20, 20, 20));
    assert_eq!((truth.restarted, truth.ttft.map(|ttft| ttft.n)), (true, Some(20)));
}

#[test]
fn requests_that_run_and_wait_are_open() {
    let busy = "vllm:num_requests_running 2\nvllm:num_requests_waiting 3\n";
    let truth = between(busy, &vllm(20, 0), client(20, 20, 2_000));
    assert_eq!(truth.open_before, Some(5));
    assert_eq!(truth.warnings, ["the server had 5 requests of others open at the start"]);
}

#[test]
fn two_percent_more_tokens_are_no_warning() {
    let wrote = |tokens: u64, started: u64| {
        let page = |tokens| format!("vllm:generation_tokens_total {tokens}\n");
        between(&page(0), &page(tokens), client(started, 20, 2_000)).warnings
    };
    assert_eq!(wrote(2_040, 20), [""; 0]);
    assert_eq!(wrote(2_100, 20), ["the server wrote 2100 output tokens, the answers report 2000 (+5.0 %)"]);
    assert!(wrote(2_100, 21)[0].ends_with("; requests that were not answered may be among them"));
    assert!(wrote(1_900, 21)[0].ends_with("(-5.0 %)"), "what is lacking was written by nobody");
}

#[test]
fn without_time_there_is_no_decode_speed() {
    let text =
        |tokens: u64| format!("llamacpp:tokens_predicted_total {tokens}\nllamacpp:tokens_predicted_seconds_total 3\n");
    let truth = between(&text(100), &text(500), client(4, 4, 400));
    assert_eq!((truth.decode_seconds, truth.decode_speed()), (Some(0.0), None));
}
