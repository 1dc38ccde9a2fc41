//! What each request asks the model for: resolved from flags and settings file.

use super::inputs::Inputs;
use crate::config::file::File;
use crate::flags::bench as flags;
use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use tokrate_bench::RequestOptions;
use tokrate_bench::prompts::{PromptSource, PromptSpec};

pub(super) fn request(flags: &flags::Request, file: &File, embedded: bool) -> Result<RequestOptions> {
    let bench = &file.bench;
    let workload = lengths(flags)?.map(|lengths| lengths.1);
    let output_tokens =
        flags.output_tokens.or(workload).or(bench.output_tokens).unwrap_or(if embedded { 100 } else { 1000 });
    ensure!(output_tokens > 0, "read --output-tokens: at least one token is needed");
    let temperature = flags.temperature.or(bench.temperature);
    ensure!(
        temperature.is_none_or(|temperature| temperature.is_finite() && temperature >= 0.0),
        "read --temperature: it must be a number of at least 0"
    );
    let extra = flags.body.iter().map(|field| body_field(field)).collect::<Result<Vec<_>>>()?;
    Ok(RequestOptions {
        stream: !flags.no_stream,
        include_usage: !flags.no_usage,
        output_tokens,
        ignore_eos: flags.ignore_eos || bench.ignore_eos.unwrap_or(false),
        legacy_max_tokens: flags.max_tokens_field || bench.max_tokens_field.unwrap_or(false),
        temperature,
        extra,
        keep_unknown: false,
    })
}

/// The lengths that a workload sets.
fn lengths(flags: &flags::Request) -> Result<Option<(u32, u32)>> {
    let lengths: Vec<(u32, u32)> = flags.workload.iter().filter_map(|workload| workload.lengths()).collect();
    ensure!(lengths.len() <= 1, "read --workload: several set the lengths; name one of them");
    Ok(lengths.first().copied())
}

/// Reads NAME=JSON.
fn body_field(field: &str) -> Result<(String, String)> {
    let (name, json) = field.split_once('=').with_context(|| format!("read --body: `{field}` is not NAME=JSON"))?;
    serde_json::from_str::<serde_json::Value>(json)
        .with_context(|| format!("read --body: the value of `{name}` is not JSON; quote text as '\"text\"'"))?;
    Ok((name.to_owned(), json.to_owned()))
}

pub(super) fn prompts(flags: &flags::Request, file: &File, embedded: bool, inputs: &Inputs) -> Result<PromptSource> {
    if let Some(trace) = &inputs.trace {
        return Ok(PromptSource::Trace(Arc::clone(trace)));
    }
    if let Some(prompts) = &inputs.prompts {
        ensure!(
            lengths(flags)?.is_none(),
            "read --workload: it sets the length of prompts, and --prompts brings its own"
        );
        return Ok(PromptSource::File(Arc::clone(prompts)));
    }
    let bench = &file.bench;
    let workload = lengths(flags)?.map(|lengths| lengths.0);
    let input_tokens =
        flags.input_tokens.or(workload).or(bench.input_tokens).unwrap_or(if embedded { 200 } else { 1000 });
    ensure!(
        (1..=10_000_000).contains(&input_tokens),
        "read --input-tokens: {input_tokens} is not between 1 and 10,000,000"
    );
    let shared_prefix_tokens = flags.shared_prefix.or(bench.shared_prefix).unwrap_or(0);
    ensure!(
        shared_prefix_tokens <= input_tokens,
        "read --shared-prefix: {shared_prefix_tokens} tokens do not fit into prompts of {input_tokens} (--input-tokens)"
    );
    Ok(PromptSource::Synthetic(PromptSpec { input_tokens, shared_prefix_tokens }))
}
