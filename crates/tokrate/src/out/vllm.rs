//! The layout in which `vllm bench serve --save-result` keeps a result, for tools that read it.
//!
//! It does not invent: a field without a counterpart here is null. Invariant: times are milliseconds over answered
//! requests outside the warm-up. Where the meaning differs from vLLM's (field names after vLLM 0.31,
//! benchmarks/serve.py): `itl` is shared among the tokens of a chunk and pooled over tokens, where vLLM takes the time
//! between two chunks; `ttft` is the first text and not the first chunk; `tpot` starts after the first chunk; token
//! counts are o200k tokens of the text; throughputs are those of the steady window and not of the whole duration;
//! without streaming `ttft`, `tpot` and `itl` are null (`tokrate_streamed` is false then), where vLLM has the time of
//! the whole answer.

use serde_json::{Map, Value, json};
use tokrate_record::run::Load;
use tokrate_record::{PhaseResult, Record};
use tokrate_stats::Distribution;

/// The file: one object for a single load level of a single target, else an array of them.
pub fn of(names: &[String], records: &[Record]) -> String {
    let mut results: Vec<Value> = names
        .iter()
        .zip(records)
        .flat_map(|(name, record)| record.phases.iter().map(move |phase| result(name, record, phase)))
        .collect();
    let document = if results.len() == 1 { results.remove(0) } else { Value::Array(results) };
    format!("{document:#}\n")
}

fn result(name: &str, record: &Record, phase: &PhaseResult) -> Value {
    let conditions = &phase.conditions;
    // vLLM's word for "as fast as the slots allow".
    let rate = if let Load::Open { rate, .. } = phase.load { json!(rate) } else { json!("inf") };
    let concurrency = if let Load::Closed { concurrency } = phase.load { json!(concurrency) } else { Value::Null };
    let seconds = (phase.ended_at_ns - phase.started_at_ns) as f64 / 1e9;
    let through = phase.throughput.as_ref();
    let input = f64::from(conditions.input_tokens);
    let requests_per_second = through.map(|seen| seen.requests_per_second);
    let total = through.map(|seen| seen.tokens_per_second + seen.requests_per_second * input);
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("date", json!(record.started_at));
    put("endpoint_type", json!(conditions.dialect));
    put("backend", json!(conditions.dialect));
    put("label", json!(name));
    put("model_id", json!(conditions.model));
    put("tokenizer_id", json!(conditions.tokenizer));
    put("num_prompts", json!(phase.counts.started));
    put("request_rate", rate);
    put("max_concurrency", concurrency);
    put("duration", json!(seconds));
    put("completed", json!(phase.counts.answered));
    put("failed", json!(phase.counts.failed + phase.counts.rate_limited));
    put("total_input_tokens", json!(phase.counts.answered * u64::from(conditions.input_tokens)));
    put("total_output_tokens", json!(phase.tokens.std_of_all));
    put("request_throughput", json!(requests_per_second));
    put("request_goodput", json!(phase.goodput.as_ref().and_then(|goodput| goodput.per_second)));
    put("output_throughput", json!(through.map(|seen| seen.tokens_per_second)));
    put("total_token_throughput", json!(total));
    put("max_output_tokens_per_s", json!(through.map(|seen| seen.peak_tokens_per_second)));
    put("max_concurrent_requests", json!(phase.concurrency.peak));
    for (name, distribution) in
        [("ttft", &phase.ttft), ("tpot", &phase.tpot), ("itl", &phase.itl), ("e2el", &phase.e2e)]
    {
        times(&mut fields, name, distribution);
    }
    fields.insert("tokrate_streamed".to_owned(), json!(conditions.streaming));
    let checked = conditions.tls.then(|| !tokrate_bench::is_unchecked(record));
    fields.insert("tokrate_certificate_checked".to_owned(), json!(checked));
    fields.insert("tokrate_record".to_owned(), json!(record.schema));
    Value::Object(fields)
}

fn times(fields: &mut Map<String, Value>, name: &str, of: &Distribution) {
    let numbers = [
        ("mean", of.mean),
        ("median", of.p50.nearest_rank()),
        ("std", of.standard_deviation),
        ("p90", of.p90.nearest_rank()),
        ("p95", of.p95.nearest_rank()),
        ("p99", of.p99.nearest_rank()),
    ];
    for (statistic, value) in numbers {
        fields.insert(format!("{statistic}_{name}_ms"), json!(value));
    }
}
