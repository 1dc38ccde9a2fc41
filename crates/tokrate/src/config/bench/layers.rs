//! Settings of the file laid under what was typed, for the flags that are read as if they had been typed.
//!
//! Invariant: a shape of the load that was typed leaves out that of the file and all that
//! belongs to it, and two shapes in one file are refused, as on the command line.

use crate::config::file::{Bench, File};
use crate::flags::bench::{Axis, Flags, Load, Task, Workload};
use anyhow::{Result, anyhow, bail, ensure};
use clap::ValueEnum;

/// What was typed with the file under it, and the flags that the file gave.
pub(super) struct Layers {
    pub flags: Flags,
    from_file: Vec<&'static str>,
}

impl Layers {
    pub fn of(typed: &Flags, file: &File) -> Result<Layers> {
        let mut layers = Layers { flags: typed.clone(), from_file: Vec::new() };
        layers.shape(file)?;
        layers.of_shape(file)?;
        layers.request(file)?;
        layers.remaining(file)?;
        Ok(layers)
    }

    /// Adds to an error about a flag that was not typed the key of the file that set it.
    pub fn with_origin(&self, error: anyhow::Error, file: &File) -> anyhow::Error {
        let text = format!("{error:#}");
        let names = |flag: &&&str| {
            let behind = text.split_once(&format!("read --{}", flag.replace('_', "-"))).map(|(_, behind)| behind);
            behind.is_some_and(|behind| behind.starts_with([':', ' ']))
        };
        match self.from_file.iter().find(names) {
            Some(key) => anyhow!("{text} ({})", file.key(key)),
            None => error,
        }
    }

    /// Gives a flag the file's value, if it has one and nothing was typed.
    fn fill<T: Clone>(&mut self, key: &'static str, of: impl FnOnce(&mut Flags) -> &mut Option<T>, value: Option<T>) {
        let place = of(&mut self.flags);
        if place.is_none() && value.is_some() {
            *place = value;
            self.from_file.push(key);
        }
    }

    fn fill_list<T: Clone>(
        &mut self,
        key: &'static str,
        of: impl FnOnce(&mut Flags) -> &mut Vec<T>,
        value: Option<&[T]>,
    ) {
        let place = of(&mut self.flags);
        if place.is_empty()
            && let Some(value) = value
        {
            *place = value.to_vec();
            self.from_file.push(key);
        }
    }

    fn shape(&mut self, file: &File) -> Result<()> {
        let bench = &file.bench;
        let shapes = shapes_of(bench);
        if let [first, second, ..] = shapes[..] {
            bail!("read {}: {} says already how requests arrive; keep one of them", file.key(second), file.key(first));
        }
        let system = self.flags.request.workload.contains(&Workload::System);
        if shape_typed(&self.flags.load) || system {
            return Ok(());
        }
        let by_time = bench.ramp.is_some() || bench.ramp_rate.is_some();
        let counted = self.flags.load.requests.is_some() || self.flags.load.warmup.is_some();
        let shape = shapes.first().copied().unwrap_or_default();
        ensure!(
            !(by_time && counted),
            "read --requests or --warmup: {} goes by time; give --duration, or a load such as --concurrency 10",
            file.key(shape)
        );
        let request = &self.flags.request;
        let own = request.input_tokens.is_some() || request.output_tokens.is_some() || request.prompts.is_some();
        let recorded = bench.trace.as_ref().map(|_| "trace").or(bench.clients.as_ref().map(|_| "clients"));
        let recorded = recorded.or(bench.agents.as_ref().map(|_| "agents"));
        ensure!(
            !(recorded.is_some() && own),
            "read --input-tokens, --output-tokens or --prompts: {} brings its own; give a load such as --concurrency 10",
            file.key(recorded.unwrap_or_default())
        );
        ensure!(
            !(bench.agents.is_some() && self.flags.load.requests.is_some()),
            "read --requests: {} runs whole sessions; give --trace-limit, or a load such as --concurrency 10",
            file.key("agents")
        );
        ensure!(
            !(bench.search.is_some() && self.flags.load.duration.is_some()),
            "read --duration: {} decides by itself how long it takes; give a load such as --concurrency 10",
            file.key("search")
        );
        self.fill("rate", |flags| &mut flags.load.rate, bench.rate.clone());
        self.fill("ramp", |flags| &mut flags.load.ramp, bench.ramp.clone());
        self.fill("ramp_rate", |flags| &mut flags.load.ramp_rate, bench.ramp_rate.clone());
        self.fill("trace", |flags| &mut flags.load.trace, bench.trace.clone());
        self.fill("clients", |flags| &mut flags.load.clients, bench.clients.clone());
        self.fill("agents", |flags| &mut flags.load.agents, bench.agents.clone());
        self.fill("sessions", |flags| &mut flags.load.sessions, bench.sessions.clone());
        self.fill("search", |flags| &mut flags.load.search, word(file, "search", &bench.search)?);
        Ok(())
    }

    /// What belongs to a shape, where the load has it.
    fn of_shape(&mut self, file: &File) -> Result<()> {
        let bench = &file.bench;
        let load = &self.flags.load;
        let spaced = load.rate.is_some() || load.ramp_rate.is_some() || load.search == Some(Axis::Rate);
        let (ramp, trace) = (load.ramp.is_some() || load.ramp_rate.is_some(), load.is_trace());
        let (sessions, search) = (load.sessions.is_some(), load.search.is_some());
        let (agents, clients) = (load.agents.is_some(), load.clients.is_some());
        // A plan that was typed is not one that goes on until something is known.
        let is_planned = load.requests.is_some() || load.rounds.is_some() || load.refine.is_some();
        let concurrency = load.concurrency.as_ref().or(bench.concurrency.as_ref());
        let levels = load.rate.as_ref().map_or_else(|| concurrency.map_or(usize::MAX, Vec::len), Vec::len);
        if spaced {
            self.fill("arrivals", |flags| &mut flags.load.arrivals, word(file, "arrivals", &bench.arrivals)?);
            let gamma = self.flags.load.arrivals == Some(crate::flags::bench::Arrivals::Gamma);
            self.fill("burstiness", |flags| &mut flags.load.burstiness, bench.burstiness.filter(|_| gamma));
        }
        if spaced || trace {
            self.fill("max_in_flight", |flags| &mut flags.load.max_in_flight, bench.max_in_flight);
        }
        if ramp {
            self.fill(
                "ramp_growth",
                |flags| &mut flags.load.ramp_growth,
                word(file, "ramp_growth", &bench.ramp_growth)?,
            );
        }
        if clients {
            self.fill("clients_from", |flags| &mut flags.load.clients_from, bench.clients_from.clone());
            self.fill("clients_rate", |flags| &mut flags.load.clients_rate, bench.clients_rate);
        }
        if agents {
            self.fill("agents_at_once", |flags| &mut flags.load.agents_at_once, bench.agents_at_once.clone());
        }
        if trace || agents {
            self.fill("trace_speed", |flags| &mut flags.load.trace_speed, bench.trace_speed);
            self.fill("trace_limit", |flags| &mut flags.load.trace_limit, bench.trace_limit);
        }
        if sessions {
            self.fill("turns", |flags| &mut flags.load.turns, bench.turns);
            self.fill("think", |flags| &mut flags.load.think, bench.think.clone());
            self.fill("tool_turns", |flags| &mut flags.load.tool_turns, bench.tool_turns);
            if self.flags.load.tool_turns.is_some() {
                self.fill("tool_time", |flags| &mut flags.load.tool_time, bench.tool_time.clone());
                self.fill("tool_tokens", |flags| &mut flags.load.tool_tokens, bench.tool_tokens.clone());
            }
        }
        if !(is_planned || ramp || trace || agents || sessions || search) {
            self.fill_list("until", |flags| &mut flags.limits.until, bench.until.as_deref());
        }
        if search || !self.flags.limits.until.is_empty() {
            self.fill("max_requests", |flags| &mut flags.load.max_requests, bench.max_requests);
        }
        if search {
            self.fill("slo_share", |flags| &mut flags.load.slo_share, bench.slo_share.map(|share| share.0));
            self.fill("max_load", |flags| &mut flags.load.max_load, bench.max_load);
        }
        let system = self.flags.request.workload.contains(&Workload::System);
        if !(ramp || trace || sessions || search || system) && levels > 1 && self.flags.limits.until.is_empty() {
            self.fill("refine", |flags| &mut flags.load.refine, bench.refine);
        }
        Ok(())
    }

    fn request(&mut self, file: &File) -> Result<()> {
        let bench = &file.bench;
        let names = bench.workload.as_deref().unwrap_or_default();
        let mut workload = names.iter().map(|name| named(file, "workload", name)).collect::<Result<Vec<Workload>>>()?;
        let load = &self.flags.load;
        if shape_typed(load) || self.from_file.iter().any(|key| SHAPES.contains(key)) {
            workload.retain(|workload| *workload != Workload::System);
        }
        if self.flags.request.prompts.is_some() || load.is_trace() || load.agents.is_some() {
            workload.retain(|workload| workload.lengths().is_none());
        }
        if !workload.is_empty() {
            self.fill_list("workload", |flags| &mut flags.request.workload, Some(&workload));
        }
        if self.flags.request.workload.contains(&Workload::System) {
            self.fill("max_load", |flags| &mut flags.load.max_load, bench.max_load);
        }
        self.fill("task", |flags| &mut flags.request.task, word(file, "task", &bench.task)?);
        if self.flags.request.task == Some(Task::Tools) {
            self.fill("tools", |flags| &mut flags.request.tools, bench.tools.clone());
        }
        if self.flags.request.task == Some(Task::Json) {
            self.fill("schema", |flags| &mut flags.request.schema, bench.schema.clone());
        }
        if self.flags.request.task.is_some_and(|task| !task.is_of_chat()) {
            self.fill("batch", |flags| &mut flags.request.batch, bench.batch.clone());
        }
        self.attachments(file)?;
        if self.flags.request.task == Some(Task::Batch) {
            self.fill("poll", |flags| &mut flags.request.batches.poll, bench.poll.clone());
            self.flags.request.batches.keep |= bench.keep.unwrap_or(false);
        }
        if matches!(self.flags.request.task, Some(Task::Speech | Task::Realtime)) {
            self.fill("voice", |flags| &mut flags.audio.voice, bench.voice.clone());
        }
        if self.flags.request.task == Some(Task::Realtime) {
            let kind = word(file, "output_modality", &bench.output_modality)?;
            self.fill("output_modality", |flags| &mut flags.audio.output_modality, kind);
        }
        if self.flags.request.task == Some(Task::Speech) {
            let format = word(file, "audio_format", &bench.audio_format)?;
            self.fill("audio_format", |flags| &mut flags.audio.audio_format, format);
            let form = word(file, "stream_format", &bench.stream_format)?;
            self.fill("stream_format", |flags| &mut flags.audio.stream_format, form);
            self.fill("sample_rate", |flags| &mut flags.audio.sample_rate, bench.sample_rate);
        }
        if matches!(self.flags.request.task, Some(Task::Transcription | Task::Realtime)) {
            let is_made_up = self.flags.audio.audio_seconds.is_some();
            let files = bench.audio.clone().filter(|_| !is_made_up);
            self.fill("audio", |flags| &mut flags.audio.audio, files);
            let seconds = bench.audio_seconds.clone().filter(|_| self.flags.audio.audio.is_none());
            self.fill("audio_seconds", |flags| &mut flags.audio.audio_seconds, seconds);
        }
        if self.flags.request.task == Some(Task::Transcription) {
            let form = word(file, "transcript_format", &bench.transcript_format)?;
            self.fill("transcript_format", |flags| &mut flags.audio.transcript_format, form);
        }
        self.fill_list("body", |flags| &mut flags.request.body, bench.body.as_deref());
        let set = |value: Option<bool>| value.unwrap_or(false);
        let request = &mut self.flags.request;
        request.no_stream |= set(bench.no_stream);
        request.no_usage |= set(bench.no_usage);
        let prompts = request.prompts.is_some() || (bench.prompts.is_some() && request.input_tokens.is_none());
        request.prompts_whole |= set(bench.prompts_whole) && prompts;
        Ok(())
    }

    /// Images and sound, where prompts may bring any. What was typed of images leaves out what the file says of their origin.
    fn attachments(&mut self, file: &File) -> Result<()> {
        let bench = &file.bench;
        if self.flags.request.task == Some(Task::Images) {
            self.fill("image_size", |flags| &mut flags.request.attached.image_size, bench.image_size.clone());
            self.fill("partial_images", |flags| &mut flags.request.attached.partial_images, bench.partial_images);
        }
        if self.flags.request.task.is_some_and(|task| !task.is_of_chat()) {
            return Ok(());
        }
        let attached = &self.flags.request.attached;
        let is_made = attached.image_size.is_some() || attached.image_format.is_some();
        let (from, is_read) = (bench.images_from.clone().filter(|_| !is_made), attached.images_from.is_some());
        self.fill("images", |flags| &mut flags.request.attached.images, bench.images.clone());
        self.fill("audio_input", |flags| &mut flags.request.attached.audio_input, bench.audio_input.clone());
        if self.flags.request.attached.images.is_none() {
            return Ok(());
        }
        self.fill("images_from", |flags| &mut flags.request.attached.images_from, from);
        if !is_read && self.flags.request.attached.images_from.is_none() {
            self.fill("image_size", |flags| &mut flags.request.attached.image_size, bench.image_size.clone());
            let format = word(file, "image_format", &bench.image_format)?;
            self.fill("image_format", |flags| &mut flags.request.attached.image_format, format);
        }
        let shared = bench.images_shared.map(|share| share.0);
        self.fill("images_shared", |flags| &mut flags.request.attached.images_shared, shared);
        if self.flags.request.attached.images_shared.is_some() {
            self.fill("image_pool", |flags| &mut flags.request.attached.image_pool, bench.image_pool);
        }
        Ok(())
    }

    fn remaining(&mut self, file: &File) -> Result<()> {
        let bench = &file.bench;
        self.fill("calibration", |flags| &mut flags.limits.calibration, word(file, "calibration", &bench.calibration)?);
        self.fill("baseline", |flags| &mut flags.verdict.baseline, bench.baseline.clone());
        if self.flags.verdict.baseline.is_some() {
            self.fill_list("ignore", |flags| &mut flags.verdict.ignore, bench.ignore.as_deref());
            self.fill("threshold", |flags| &mut flags.verdict.threshold, bench.threshold.clone());
        }
        self.fill_list("price_of", |flags| &mut flags.limits.price_of, bench.price_of.as_deref());
        self.fill("save_baseline", |flags| &mut flags.verdict.save_baseline, bench.save_baseline.clone());
        self.fill("json", |flags| &mut flags.output.json, bench.json.clone());
        self.fill("jsonl", |flags| &mut flags.output.jsonl, bench.jsonl.clone());
        self.fill("gpu_metrics", |flags| &mut flags.target.gpu_metrics, bench.gpu_metrics.clone());
        self.fill("connections", |flags| &mut flags.target.connections, bench.connections);
        self.fill("streams", |flags| &mut flags.target.streams, bench.streams);
        self.fill("metrics_every", |flags| &mut flags.target.metrics_every, bench.metrics_every.clone());
        self.fill("slice", |flags| &mut flags.output.slice, bench.slice.clone());
        self.fill("chunks", |flags| &mut flags.output.chunks, bench.chunks.clone());
        let html = bench.html.clone().filter(|_| !self.flags.output.no_html);
        self.fill("html", |flags| &mut flags.output.html, html);
        self.fill("csv", |flags| &mut flags.output.csv, bench.csv.clone());
        self.fill("markdown", |flags| &mut flags.output.markdown, bench.markdown.clone());
        self.fill("vllm_json", |flags| &mut flags.output.vllm_json, bench.vllm_json.clone());
        self.fill("junit", |flags| &mut flags.output.junit, bench.junit.clone());
        self.fill("badge", |flags| &mut flags.output.badge, bench.badge.clone());
        let set = |value: Option<bool>| value.unwrap_or(false);
        let flags = &mut self.flags;
        flags.output.keep_unknown |= set(bench.keep_unknown) && flags.output.jsonl.is_some();
        flags.target.new_connections |= set(bench.new_connections);
        flags.target.tls_resume |= set(bench.tls_resume);
        flags.limits.strict |= set(bench.strict);
        flags.limits.no_probe |= set(bench.no_probe);
        flags.limits.keep_going |= set(bench.keep_going);
        flags.output.wide |= set(bench.wide);
        flags.output.no_html |= set(bench.no_html) && flags.output.html.is_none();
        flags.output.quiet |= set(bench.quiet);
        let named = if flags.target.targets.is_empty() { bench.targets.as_ref() } else { Some(&flags.target.targets) };
        flags.output.scorecard |= set(bench.scorecard) && named.is_some_and(|targets| targets.len() > 1);
        Ok(())
    }
}

/// The keys that say how requests arrive; only one of them can.
const SHAPES: [&str; 9] =
    ["concurrency", "rate", "ramp", "ramp_rate", "trace", "clients", "agents", "sessions", "search"];

fn shapes_of(bench: &Bench) -> Vec<&'static str> {
    let there = [
        bench.concurrency.is_some(),
        bench.rate.is_some(),
        bench.ramp.is_some(),
        bench.ramp_rate.is_some(),
        bench.trace.is_some(),
        bench.clients.is_some(),
        bench.agents.is_some(),
        bench.sessions.is_some(),
        bench.search.is_some(),
    ];
    SHAPES.into_iter().zip(there).filter(|(_, there)| *there).map(|(key, _)| key).collect()
}

fn shape_typed(load: &Load) -> bool {
    load.concurrency.is_some()
        || load.rate.is_some()
        || load.ramp.is_some()
        || load.ramp_rate.is_some()
        || load.is_trace()
        || load.agents.is_some()
        || load.sessions.is_some()
        || load.search.is_some()
}

/// A value of a flag that takes one of several names.
fn word<T: ValueEnum>(file: &File, key: &str, text: &Option<String>) -> Result<Option<T>> {
    text.as_deref().map(|text| named(file, key, text)).transpose()
}

fn named<T: ValueEnum>(file: &File, key: &str, text: &str) -> Result<T> {
    T::from_str(text, false).map_err(|_| {
        let names = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        anyhow!("read {}: `{text}` is none of {}", file.key(key), names.join(", "))
    })
}

#[cfg(test)]
mod tests;
