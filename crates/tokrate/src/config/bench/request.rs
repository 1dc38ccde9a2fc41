//! What each request asks the model for: resolved from flags and settings file.

use super::inputs::Inputs;
use super::texts::{refused, text_of};
use super::{attachments, batch, items};
use crate::config::file::File;
use crate::config::length::Length;
use crate::flags::bench as flags;
use anyhow::{Context, Result, anyhow, ensure};
use std::path::Path;
use std::sync::Arc;
use tokrate_bench::prompts::{Lengths, MAX_GROUPS, PrefixLength, PrefixPool, PromptSource, SyntheticPrompts};
use tokrate_bench::{Adapters, RequestOptions};
use tokrate_wire::ItemTask;

pub(super) fn request(flags: &flags::Request, file: &File, embedded: bool) -> Result<RequestOptions> {
    let bench = &file.bench;
    let items = items::asked(flags)?;
    let workload = lengths(flags)?.map(|lengths| Length::Given(Lengths::Fixed(lengths.1)));
    // A limit that cuts an answer makes it invalid.
    let is_short = (embedded || items.is_some_and(|items| items.task == ItemTask::Batch))
        && !matches!(flags.task, Some(flags::Task::Tools | flags::Task::Json));
    let default = Length::Given(Lengths::Fixed(if is_short { 100 } else { 1000 }));
    let output_tokens = flags.output_tokens.clone().or(workload).or_else(|| bench.output_tokens.clone());
    let output_tokens = output_tokens.unwrap_or(default).resolve("--output-tokens")?;
    let temperature = flags.temperature.or(bench.temperature);
    ensure!(
        temperature.is_none_or(|temperature| temperature.is_finite() && temperature >= 0.0),
        "read --temperature: it must be a number of at least 0"
    );
    let extra = flags.body.iter().map(|field| body_field(field)).collect::<Result<Vec<_>>>()?;
    Ok(RequestOptions {
        batches: batch::asked(flags)?,
        images: attachments::made(flags)?,
        audio: None,
        structure: None,
        attachments: None,
        adapters: adapters(flags, bench)?,
        tool_turns: None,
        stream: !flags.no_stream && items.is_none(),
        include_usage: !flags.no_usage,
        items,
        output_tokens,
        ignore_eos: flags.ignore_eos || bench.ignore_eos.unwrap_or(false),
        legacy_max_tokens: flags.max_tokens_field || bench.max_tokens_field.unwrap_or(false),
        temperature,
        extra,
        keep_unknown: false,
    })
}

/// Several models that requests ask for.
fn adapters(flags: &flags::Request, bench: &crate::config::file::Bench) -> Result<Option<Arc<Adapters>>> {
    let named = flags.lora.as_ref().or(bench.lora.as_ref());
    let skew = flags.lora_skew.or(bench.lora_skew.filter(|_| named.is_some()));
    ensure!(
        named.is_some() || skew.is_none(),
        "read --lora-skew: it says how often each model of --lora is asked for; give that too"
    );
    let Some(named) = named else { return Ok(None) };
    let read = match named.strip_prefix("file:") {
        Some(path) => {
            let text = text_of("--lora", Path::new(path))?;
            Adapters::parse_file(&text).map_err(|bad| refused("--lora", Path::new(path), &bad))?
        }
        None => Adapters::parse(named)
            .map_err(|reason| anyhow!("read --lora: {reason}; write NAME,NAME:WEIGHT or file:FILE"))?,
    };
    ensure!(
        skew.is_none_or(|skew| (0.0..=10.0).contains(&skew)),
        "read --lora-skew: it is between 0 (all equally often) and 10"
    );
    Ok(Some(Arc::new(match skew {
        Some(skew) => read.by_zipf(skew),
        None => read,
    })))
}

/// The lengths that a workload sets.
fn lengths(flags: &flags::Request) -> Result<Option<(u32, u32)>> {
    let lengths: Vec<(u32, u32)> = flags.workload.iter().filter_map(|workload| workload.lengths()).collect();
    ensure!(lengths.len() <= 1, "read --workload: several set the lengths; name one of them");
    Ok(lengths.first().copied())
}

/// Reads NAME=JSON.
fn body_field(field: &str) -> Result<(String, String)> {
    let named = field.split_once('=').filter(|(name, _)| !name.trim().is_empty());
    let (name, json) = named.with_context(|| format!("read --body: `{field}` is not NAME=JSON"))?;
    serde_json::from_str::<serde_json::Value>(json)
        .with_context(|| format!("read --body: the value of `{name}` is not JSON; quote text as '\"text\"'"))?;
    Ok((name.to_owned(), json.to_owned()))
}

pub(super) fn prompts(flags: &flags::Request, file: &File, embedded: bool, inputs: &Inputs) -> Result<PromptSource> {
    if let Some(trace) = &inputs.trace {
        return Ok(PromptSource::Trace(Arc::clone(trace)));
    }
    if let Some(trace) = &inputs.agents {
        return Ok(PromptSource::Agents(Arc::clone(trace)));
    }
    if let Some(prompts) = &inputs.prompts {
        ensure!(
            lengths(flags)?.is_none(),
            "read --workload: it sets the length of prompts, and --prompts brings its own"
        );
        return Ok(PromptSource::File(Arc::clone(prompts)));
    }
    let bench = &file.bench;
    let workload = lengths(flags)?.map(|lengths| Length::Given(Lengths::Fixed(lengths.0)));
    let is_short = embedded || items::asked(flags)?.is_some();
    // Some sentences: ten seconds of speech or more.
    let is_said = matches!(flags.task, Some(flags::Task::Speech | flags::Task::Realtime));
    let default = if is_said {
        40
    } else if is_short {
        200
    } else {
        1000
    };
    let default = Length::Given(Lengths::Fixed(default));
    let input = flags.input_tokens.clone().or(workload).or_else(|| bench.input_tokens.clone());
    let input = input.unwrap_or(default).resolve("--input-tokens")?;
    let prefix = prefix(flags, file)?;
    if let PrefixLength::Tokens(tokens) = prefix.length {
        ensure!(
            tokens <= input.most(),
            "read --shared-prefix: {tokens} tokens do not fit into prompts of {} (--input-tokens)",
            input.most()
        );
    }
    Ok(PromptSource::Synthetic(SyntheticPrompts { input, prefix }))
}

/// What made-up prompts share.
fn prefix(flags: &flags::Request, file: &File) -> Result<PrefixPool> {
    let bench = &file.bench;
    let length = flags.shared_prefix.or(bench.shared_prefix).map(|prefix| prefix.0);
    ensure!(
        length.is_some() || flags.prefix_pool.is_none(),
        "read --prefix-pool: say how long the prefixes are with --shared-prefix, such as 500 or 50%"
    );
    let groups = flags.prefix_pool.or(bench.prefix_pool.filter(|_| length.is_some())).unwrap_or(1);
    ensure!(
        (1..=MAX_GROUPS).contains(&groups),
        "read --prefix-pool: {groups} is not between 1 and {MAX_GROUPS} prefixes"
    );
    ensure!(
        groups > 1 || flags.prefix_skew.is_none(),
        "read --prefix-skew: it says how often each of several prefixes is used; give --prefix-pool too"
    );
    let skew = flags.prefix_skew.or(bench.prefix_skew.filter(|_| groups > 1)).unwrap_or(0.0);
    ensure!((0.0..=10.0).contains(&skew), "read --prefix-skew: {skew} is not between 0 (all equally often) and 10");
    Ok(PrefixPool { length: length.unwrap_or(PrefixLength::Tokens(0)), groups, skew })
}
