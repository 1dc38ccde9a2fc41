//! What people see of the worked example and of refusals.

use super::*;
use crate::flags::estimate::Subject;
use tokrate_estimate::coefficients::Coefficients;
use tokrate_estimate::replay::{SettingsFile, parse_trace};

fn refusal(flags: SpeedFlags) -> String {
    let flags = SpeedFlags { concurrency: vec![1], isl: 1000, osl: 300, ..flags };
    of_flags(&Estimator::embedded(), &flags).map(|_| ()).expect_err("refused").to_string()
}

fn subject(model: &str, hardware: &str, gpus: u32, precision: &str) -> Subject {
    Subject {
        model: model.to_owned(),
        hardware: hardware.to_owned(),
        gpus,
        precision: Some(precision.to_owned()),
        ..Subject::default()
    }
}

fn speed(model: &str, hardware: &str, gpus: u32, precision: &str) -> SpeedFlags {
    SpeedFlags { subject: subject(model, hardware, gpus, precision), ..SpeedFlags::default() }
}

/// With one fact of the subject changed.
fn with(mut flags: SpeedFlags, change: impl Fn(&mut Subject)) -> SpeedFlags {
    change(&mut flags.subject);
    flags
}

#[test]
fn the_worked_example() {
    let shown = example(&Estimator::embedded()).expect("of the tables");
    insta::assert_snapshot!("example", text(&shown, true));
}

#[test]
fn refusals_say_what_to_do() {
    let flags = [
        speed("llama-3.3-70b", "rtx-4090", 1, "bf16"),
        speed("llama-3.3-70b", "h100", 1, "bf16"),
        speed("llama-9-70b", "h100", 1, "bf16"),
        speed("llama-3.3-70b", "h900", 1, "bf16"),
        speed("llama-3.3-70b", "h100", 1, "float3"),
        speed("llama-3.3-70b", "h100", 0, "fp8"),
        with(speed("llama-3.3-70b", "h100", 1, "fp8"), |subject| subject.memory_bandwidth_gbps = Some(0.0)),
        with(speed("llama-3.3-70b", "new-card", 1, "fp8"), |subject| subject.memory_bandwidth_gbps = Some(900.0)),
        with(speed("llama-3.3-70b", "h100", 1, "fp8"), |subject| subject.tflops = Some(f64::NAN)),
        with(speed("llama-3.3-70b", "h100", 4, "fp8"), |subject| subject.tflops = Some(1979.0)),
        with(speed("llama-3.3-70b", "new-card", 4, "fp8"), |subject| {
            (subject.memory_bandwidth_gbps, subject.memory_gb, subject.tflops) =
                (Some(3350.0), Some(80.0), Some(1979.0));
        }),
        with(speed("llama-3.3-70b", "h100", 4, "fp8"), |subject| subject.tp = Some(8)),
        with(speed("llama-3.3-70b", "h100", 4, "fp8"), |subject| subject.price = Some(-1.0)),
    ];
    let lines: Vec<String> = flags.into_iter().map(refusal).collect();
    insta::assert_snapshot!("refusals", lines.join("\n"));
}

#[test]
fn a_load_beyond_the_queue_says_how_many_run_and_waits_in_minutes() {
    let flags =
        SpeedFlags { concurrency: vec![20_000], isl: 8000, osl: 300, ..speed("llama-3.3-70b", "h100", 4, "fp8") };
    let shown = of_flags(&Estimator::embedded(), &flags).expect("fits one by one");
    let text = text(&[shown], false);
    assert!(text.contains(" of 20000 requests fit in the memory for the cache at once; the others wait"), "{text}");
    assert!(text.contains(" min (") && text.contains("KV room"), "{text}");
}

#[test]
fn lengths_that_were_not_said_are_named() {
    let flags = SpeedFlags { concurrency: vec![4], isl: 0, osl: 0, ..speed("llama-3.1-8b", "h100", 1, "fp8") };
    let text = text(&[of_flags(&Estimator::embedded(), &flags).expect("fits")], false);
    assert!(text.contains("assumed: a TTFT of prompts of 512 tokens"), "{text}");
    assert!(text.contains("assumed: answers of 256 tokens"), "{text}");
}

const TRACE: &str = "\
request,arrival_ms,input_tokens,output_tokens,real_ttft_ms,real_tpot_ms,real_latency_ms
a,0,2000,100,160,12,1350
\"b, long\",20,40000,10,,,
c,25,500,200,190,12.5,2680
";

#[test]
fn a_replayed_trace() {
    let trace = parse_trace(TRACE).expect("a trace");
    let settings: SettingsFile = serde_json::from_str(
        r#"{"hardware": "rtx-pro-6000", "engine_kwargs": {"model": "llama-3.1-8b", "max_num_seqs": 8, "max_model_len": 32768,
            "max_num_batched_tokens": 2048, "dtype": "bfloat16", "kv_cache_dtype": "auto"}}"#,
    )
    .expect("settings");
    let settings = settings.settings();
    let printed = replay::replayed(&trace, &settings, &Coefficients::fitted(), false).expect("a replay");
    insta::assert_snapshot!("replay", format!("{}\n{}", printed.rows, printed.summary));
    let printed = replay::replayed(&trace, &settings, &Coefficients::fitted(), true).expect("a replay");
    let json: serde_json::Value = serde_json::from_str(&printed.rows).expect("JSON");
    assert_eq!(json["summary"]["answered"], 2);
    assert_eq!(json["rows"][1]["refused"], "prompt and answer are 40010 tokens, max_model_len is 32768");
    assert_eq!(json["engine"]["policy"], "vllm");
}

#[test]
fn a_record_is_held_against_the_estimate() {
    let text = include_str!("../../out/testdata/record.json");
    let record = tokrate_record::Record::parse(text).expect("a record");
    let flags = speed("llama-3.1-8b", "h100-sxm", 1, "fp8");
    let shown = against::compared(&Estimator::embedded(), &flags, &record, "record.json").expect("levels");
    insta::assert_snapshot!("against", crate::out::estimate::against::text(&shown));
    let json = crate::out::estimate::against::json(&shown);
    assert!(json["rows"][0]["quotient"].as_f64() > Some(0.0) && json["rows"][0]["mbu_reached"].as_f64() < Some(1.0));
    let empty = tokrate_record::Record { phases: Vec::new(), ..record };
    let error =
        against::compared(&Estimator::embedded(), &flags, &empty, "empty.json").map(|_| ()).expect_err("no level");
    assert!(error.to_string().contains("empty.json has no level"), "{error}");
}

#[test]
fn a_benchs_rows_are_a_trace_that_can_be_fitted() {
    use tokrate_meter::fixtures::{failed_request, steady_request};
    let mut rows: Vec<_> = (0..12).map(|at| steady_request(at, at * 3_000, 150, 40, 18)).collect();
    rows.iter_mut().for_each(|row| row.input_asked = Some(500));
    rows[0].warmup = true;
    rows.push(failed_request(12, 90_000, 90_100, tokrate_core::FailureKind::RateLimited));
    let trace = replay::of_rows(&[rows]).expect("answered requests");
    assert_eq!((trace.len(), trace.iter().filter(|request| request.real.is_some()).count()), (12, 11));
    assert_eq!((trace[1].arrival_ms, trace[1].input_tokens), (3_000.0, 500));
    assert!(trace[1].real.is_some_and(|real| (real.ttft_ms - 150.0).abs() < 1e-9), "{:?}", trace[1]);
    let settings: SettingsFile =
        serde_json::from_str(r#"{"hardware": "rtx-pro-6000", "model": "llama-3.1-8b", "dtype": "bfloat16"}"#)
            .expect("settings");
    let (changed, _) = calibrate::fitted(&trace, &settings.settings(), &Coefficients::fitted()).expect("a fit");
    assert!(changed.iter().all(|one| one.after.is_finite() && one.after > 0.0));
    assert!(replay::of_rows(&[Vec::new()]).is_err(), "nothing was answered");
}

/// Twelve requests far apart, measured as the engine computes them but with steps half as long again.
fn slow_trace(settings: &tokrate_estimate::replay::EngineSettings) -> Vec<tokrate_estimate::replay::TraceRequest> {
    use tokrate_estimate::replay::{Outcome, Replay};
    let rows: String = (0..12).map(|at| format!("{at},{},{},40\n", at * 3000, 300 + 40 * at)).collect();
    let trace = parse_trace(&format!("request,arrival_ms,input_tokens,output_tokens\n{rows}")).expect("a trace");
    let engine = Replay::new(settings, &Estimator::embedded().facts, &Coefficients::fitted()).expect("settings");
    let outcomes = engine.run(&trace).outcomes;
    let measured = trace.into_iter().zip(outcomes).map(|(mut request, outcome)| {
        if let Outcome::Answered { mut times, .. } = outcome {
            (times.tpot_ms, times.latency_ms) = (times.tpot_ms * 1.5, times.latency_ms * 1.5);
            request.real = Some(times);
        }
        request
    });
    measured.collect()
}

#[test]
fn a_measured_trace_becomes_a_profile_that_is_used() {
    let settings: SettingsFile =
        serde_json::from_str(r#"{"hardware": "rtx-pro-6000", "model": "llama-3.1-8b", "dtype": "bfloat16"}"#)
            .expect("settings");
    let settings = settings.settings();
    let trace = slow_trace(&settings);
    let (changed, after) = calibrate::fitted(&trace, &settings, &Coefficients::fitted()).expect("a fit");
    insta::assert_snapshot!("calibrated", calibrate::table(&changed, "a trace"));
    let profile = profile::Profile::of(&changed, "a trace".to_owned());
    let read = serde_json::to_string(&profile).and_then(|text| serde_json::from_str::<profile::Profile>(&text));
    let again = read.expect("it reads what it wrote").apply().expect("known names");
    assert!(again.0.iter().zip(after.0).all(|(one, other)| (one - other).abs() < 1e-9));
    let flags =
        SpeedFlags { concurrency: vec![1], isl: 500, osl: 40, ..speed("llama-3.1-8b", "rtx-pro-6000", 1, "bf16") };
    let flags = with(flags, |subject| subject.engine = Some("vllm".to_owned()));
    let tpot = |estimator: &Estimator| {
        let answer = &of_flags(estimator, &flags).expect("an answer").loads[0].answer;
        answer.tpot_ms.map_or(0.0, |value| value.value)
    };
    let quotient = tpot(&Estimator::embedded().with_coefficients(again)) / tpot(&Estimator::embedded());
    assert!((1.25..1.6).contains(&quotient), "{quotient}");
    for wrong in [
        r#"{"form": "x", "fitted_to": "", "coefficients": {}}"#,
        r#"{"form": "tokrate.profile.v1", "fitted_to": "", "coefficients": {"speed": {"value": 1, "standard_error_log": 0}}}"#,
        r#"{"form": "tokrate.profile.v1", "fitted_to": "", "coefficients": {"ceiling": {"value": 0, "standard_error_log": 0}}}"#,
    ] {
        assert!(serde_json::from_str::<profile::Profile>(wrong).expect("the form").apply().is_err(), "{wrong}");
    }
}
