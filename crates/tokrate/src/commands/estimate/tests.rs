//! What people see of the worked example and of refusals.

use super::*;

fn refusal(flags: SpeedFlags) -> String {
    let flags = SpeedFlags { concurrency: vec![1], isl: 1000, osl: 300, ..flags };
    of_flags(&Estimator::embedded(), &flags).map(|_| ()).expect_err("refused").to_string()
}

fn speed(model: &str, hardware: &str, gpus: u32, precision: &str) -> SpeedFlags {
    SpeedFlags {
        model: model.to_owned(),
        hardware: hardware.to_owned(),
        gpus,
        precision: Some(precision.to_owned()),
        ..SpeedFlags::default()
    }
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
        SpeedFlags { memory_bandwidth_gbps: Some(0.0), ..speed("llama-3.3-70b", "h100", 1, "fp8") },
        SpeedFlags { memory_bandwidth_gbps: Some(900.0), ..speed("llama-3.3-70b", "new-card", 1, "fp8") },
        SpeedFlags { tflops: Some(f64::NAN), ..speed("llama-3.3-70b", "h100", 1, "fp8") },
        SpeedFlags { tp: Some(8), ..speed("llama-3.3-70b", "h100", 4, "fp8") },
        SpeedFlags { price: Some(-1.0), ..speed("llama-3.3-70b", "h100", 4, "fp8") },
    ];
    let lines: Vec<String> = flags.into_iter().map(refusal).collect();
    insta::assert_snapshot!("refusals", lines.join("\n"));
}
