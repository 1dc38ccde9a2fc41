//! `tokrate estimate --batch`: a question a line, an answer a line, in the same order.
//!
//! Invariant: each line that is not blank gets one answer; a line that cannot be read is refused by its number and the
//! rest goes on.

use crate::commands::Verdict;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;
use tokrate_estimate::{Asked, Estimator};
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

/// Answers all lines of a file. Not measured when not one line could be answered.
pub fn run(path: &Path) -> Result<Verdict> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).context("read the rows from standard input")?
    } else {
        reading::text_of(path, MAX_DATA_BYTES)
            .with_context(|| format!("read the rows of {}; check --batch", path.display()))?
    };
    let (written, answered) = answers(&text);
    crate::out::stdout::write(&written)?;
    Ok(if answered == 0 { Verdict::NotMeasured } else { Verdict::Good })
}

/// The answers, a line each, and how many are not refusals.
fn answers(text: &str) -> (String, usize) {
    let estimator = Estimator::embedded();
    let (mut written, mut answered) = (String::new(), 0);
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let answer = answer(&estimator, number + 1, line);
        answered += usize::from(answer.get("refused").is_none());
        // Writing to a String cannot fail.
        let _ = writeln!(written, "{answer}");
    }
    (written, answered)
}

fn answer(estimator: &Estimator, number: usize, line: &str) -> Value {
    let row = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(row)) => row,
        Ok(_) => return refusal(Value::Null, &format!("line {number}: not a JSON object")),
        // A row is one line, so that the reader's own count of lines says nothing; NaN is no JSON and ends here.
        Err(error) => {
            let (column, told) = (error.column(), error.to_string());
            let told = told.split(" at line ").next().unwrap_or_default();
            return refusal(Value::Null, &format!("line {number}: no JSON at character {column}: {told}"));
        }
    };
    let id = row.get("id").cloned().unwrap_or(Value::Null);
    let answered = asked(&row).and_then(|asked| estimator.answer(&asked));
    match answered {
        Ok(answer) => {
            let mut all = Map::new();
            all.insert("id".to_owned(), id);
            // An answer is numbers and texts with names: always an object.
            if let Ok(Value::Object(fields)) = serde_json::to_value(&answer) {
                all.extend(fields);
            }
            Value::Object(all)
        }
        Err(reason) => refusal(id, &format!("line {number}: {reason}")),
    }
}

fn refusal(id: Value, reason: &str) -> Value {
    json!({
        "id": id, "tpot_ms": null, "ttft_ms": null, "tok_s_user": null, "tok_s_total": null, "prefill_tok_s": null,
        "binds": null, "refused": reason,
    })
}

/// A row as a question. Numbers may be written as text, as a table's reader leaves them; empty text is absent.
fn asked(row: &Map<String, Value>) -> Result<Asked, String> {
    let text = |name: &str| match row.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(format!("{name} is neither text nor a number")),
    };
    let number = |name: &str| match text(name)? {
        None => Ok(None),
        Some(text) => text.parse::<f64>().map(Some).map_err(|_| format!("{name} is {text:?}, no number")),
    };
    let needed = |name: &str| text(name)?.ok_or_else(|| format!("{name} is missing"));
    Ok(Asked {
        model: needed("model")?,
        hardware: needed("hardware")?,
        n_gpus: number("n_gpus")?,
        tp: number("tp")?,
        ep: number("ep")?,
        attention_dp: number("attention_dp")?,
        engine: text("engine")?,
        engine_version: text("engine_version")?,
        weight_precision: text("weight_precision")?,
        weight_size_gib: number("weight_size_gib")?,
        memory_share: None,
        cache_value_bytes: None,
        concurrency: number("concurrency")?,
        isl: number("isl")?,
        osl: number("osl")?,
        context_depth: number("context_depth")?,
        wait_steps: number("wait_steps")?,
        params_b: number("params_b")?,
        active_params_b: number("active_params_b")?,
        layers: number("layers")?,
        hidden: number("hidden")?,
        kv_heads: number("kv_heads")?,
        head_dim: number("head_dim")?,
        memory_gb: number("memory_gb")?,
        memory_bandwidth_gbps: number("memory_bandwidth_gbps")?,
        tflops: number("tflops")?.or(number("bf16_tflops")?),
        fp8_tflops: number("fp8_tflops")?,
        interconnect_gbps: number("interconnect_gbps")?,
        device_class: text("device_class")?,
        // A row is a name: what is asked in bulk opens no files.
        known_model: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_named_and_the_rest_goes_on() {
        let text = r#"{"id":"a","model":"llama-3.1-8b","hardware":"h100-sxm","n_gpus":"1","engine":"vllm","weight_precision":"fp8","concurrency":8,"isl":1000,"osl":300}
{"id":"b","model":
{"id":"c","model":"llama-3.1-8b","hardware":"h100-sxm","memory_bandwidth_gbps":0}
{"id":"d","model":"llama-3.1-8b","hardware":"new","memory_bandwidth_gbps":1000,"memory_gb":24,"tflops":100,"weight_precision":"Q4_K_M","concurrency":1}

[1]
{"id":"e","hardware":"h100"}
{"id":"f","model":"new-moe","params_b":100,"active_params_b":10,"hardware":"h200","n_gpus":2,"weight_precision":"fp8","concurrency":"x"}"#;
        let (written, answered) = answers(text);
        let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((lines.len(), answered), (7, 2));
        for (line, id) in lines.iter().zip([Some("a"), None, Some("c"), Some("d"), None, Some("e"), Some("f")]) {
            assert_eq!(line["id"].as_str(), id);
        }
        assert!(lines[0]["tpot_ms"]["low"].as_f64() < lines[0]["tpot_ms"]["high"].as_f64());
        let reasons: Vec<&str> = lines.iter().filter_map(|line| line["refused"].as_str()).collect();
        insta::assert_snapshot!("batch_refusals", reasons.join("\n"));
    }
}
