//! What people see of the worked example and of refusals.

use super::*;
use crate::flags::estimate::Subject;
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
        with(speed("llama-3.3-70b", "h100", 4, "fp8"), |subject| subject.tp = Some(8)),
        with(speed("llama-3.3-70b", "h100", 4, "fp8"), |subject| subject.price = Some(-1.0)),
    ];
    let lines: Vec<String> = flags.into_iter().map(refusal).collect();
    insta::assert_snapshot!("refusals", lines.join("\n"));
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
    let printed = replay::replayed(&trace, &settings, false).expect("a replay");
    insta::assert_snapshot!("replay", format!("{}\n{}", printed.rows, printed.summary));
    let printed = replay::replayed(&trace, &settings, true).expect("a replay");
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
