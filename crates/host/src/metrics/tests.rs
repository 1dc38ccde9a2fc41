//! Pages whose every number is worked out from the law.

use super::*;
use tokrate_sim::{Engine, Faults, Law, SimRequest};

/// 10 ms to the first token, 2 ms a token, one slot.
fn law() -> Law {
    Law {
        slots: 1,
        base_delay: Span::from_millis(10),
        prefill_tokens_per_second: f64::INFINITY,
        stream_tokens_per_second: 500.0,
        ..Law::default()
    }
}

/// Two requests of five tokens, submitted together, and a third that is cancelled.
fn played(faults: &Faults) -> (Meter, Stats) {
    let mut engine = Engine::new(law(), faults.clone(), 0).expect("makes sense");
    let request = SimRequest {
        input_tokens: 30,
        parts: Default::default(),
        output_tokens: Some(5),
        include_usage: true,
        include_timings: true,
        ..SimRequest::default()
    };
    let ids: Vec<_> = (0..3).map(|_| engine.submit(Tick::ZERO, request.clone()).expect("taken")).collect();
    engine.cancel(Tick::ZERO, ids[2]);
    let (mut meter, mut pulses) = (Meter::default(), vec![RequestProgress::default(); 3]);
    let mut due = Vec::new();
    while let Some(at) = engine.wake_at() {
        engine.poll(at, &mut due);
        for emission in due.drain(..) {
            meter.on(&emission, Tick::ZERO, &mut pulses[emission.request.0 as usize]);
        }
    }
    (meter, engine.stats())
}

fn shown(names: MetricNames) -> String {
    let (meter, stats) = played(&Faults::default());
    page(&[ProviderMetrics { names, model: "a \"model\"", meter: &meter, stats }])
}

/// The value of a line that begins so.
fn value(page: &str, start: &str) -> f64 {
    let line = page.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start} in {page}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn the_numbers_are_those_of_the_law() {
    let page = shown(MetricNames::Vllm);
    let labels = r#"{engine="0",model_name="a \"model\""}"#;
    let at = |name: &str| value(&page, &format!("vllm:{name}{labels} "));
    assert_eq!((at("prompt_tokens_total"), at("generation_tokens_total")), (60.0, 10.0));
    // The second one waits 18 ms for its slot.
    assert_eq!(at("time_to_first_token_seconds_count"), 2.0);
    assert!((at("time_to_first_token_seconds_sum") - (0.010 + 0.028)).abs() < 1e-12);
    assert!((at("e2e_request_latency_seconds_sum") - (0.018 + 0.036)).abs() < 1e-12);
    assert!((at("request_queue_time_seconds_sum") - 0.018).abs() < 1e-12);
    assert_eq!(at("inter_token_latency_seconds_count"), 8.0);
    assert!((at("request_time_per_output_token_seconds_sum") - 0.004).abs() < 1e-12);
    assert_eq!((at("num_requests_running"), at("num_requests_waiting")), (0.0, 0.0));
    let bucket = |le: &str| {
        value(&page, &format!("vllm:time_to_first_token_seconds_bucket{},le=\"{le}\"}} ", &labels[..labels.len() - 1]))
    };
    assert_eq!(["0.005", "0.01", "0.02", "0.04", "+Inf"].map(bucket), [0.0, 1.0, 1.0, 2.0, 2.0]);
    let ended = r#"vllm:request_success_total{engine="0",model_name="a \"model\"",finished_reason="length"} "#;
    assert_eq!(value(&page, ended), 2.0);
}

#[test]
fn hidden_tokens_are_counted_as_made() {
    let mut faults = Faults::default();
    faults.set("hidden_reasoning").expect("a fault");
    let (meter, stats) = played(&faults);
    let page = page(&[ProviderMetrics { names: MetricNames::LlamaCpp, model: "m", meter: &meter, stats }]);
    assert_eq!(value(&page, "llamacpp:tokens_predicted_total "), 10.0);
    assert!((value(&page, "llamacpp:tokens_predicted_seconds_total ") - 0.016).abs() < 1e-12);
    assert_eq!(value(&page, "llamacpp:n_decode_total "), 6.0);
}

#[test]
fn every_family_has_a_page_of_its_own_names() {
    for (names, prefix) in [
        (MetricNames::Vllm, "vllm:"),
        (MetricNames::Sglang, "sglang:"),
        (MetricNames::Tgi, "tgi_"),
        (MetricNames::LlamaCpp, "llamacpp:"),
    ] {
        let page = shown(names);
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.len() > 5 && samples.iter().all(|line| line.starts_with(prefix)), "{page}");
    }
    assert_eq!(shown(MetricNames::Off), "");
}

#[test]
fn providers_share_a_name_and_keep_their_series_apart() {
    let (meter, stats) = played(&Faults::default());
    let provider = |model| ProviderMetrics { names: MetricNames::Tgi, model, meter: &meter, stats };
    let page = page(&[provider("fast/m"), provider("slow/m")]);
    assert_eq!(page.matches("# TYPE tgi_queue_size gauge").count(), 1);
    assert!(page.contains("tgi_request_success{model_name=\"slow/m\"} 2\n"), "{page}");
}
