//! A question as it is asked: names and numbers, of which some may be missing; resolved against the tables or refused.

use crate::coefficients::Engine;
use crate::hardware::{Class, Device, GIB};
use crate::model::Model;
use crate::names;
use crate::precision::Precision;
use crate::question::Question;

/// The tables of devices and models.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// Devices.
    pub devices: Vec<Device>,
    /// Models.
    pub models: Vec<Model>,
}

impl Facts {
    /// The embedded tables.
    pub fn embedded() -> Facts {
        Facts { devices: Device::all(), models: Model::all() }
    }
}

/// What was asked. Absent is what was not said.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Asked {
    /// Name of the model.
    pub model: String,
    /// Name of the device.
    pub hardware: String,
    /// Devices in all.
    pub n_gpus: Option<f64>,
    /// Devices a copy.
    pub tp: Option<f64>,
    /// Devices over which whole experts are spread.
    pub ep: Option<f64>,
    /// Copies of the attention over which requests are spread.
    pub attention_dp: Option<f64>,
    /// Name of the engine.
    pub engine: Option<String>,
    /// Version of the engine; a local one of 2024 or before is slower with quantised weights, vLLM from 0.12 has less of a queue.
    pub engine_version: Option<String>,
    /// Name of the storage format.
    pub weight_precision: Option<String>,
    /// Size of all weights, GiB.
    pub weight_size_gib: Option<f64>,
    /// Share of a device's memory that the engine may use.
    pub memory_share: Option<f64>,
    /// Bytes a value of the cache.
    pub cache_value_bytes: Option<f64>,
    /// Requests at once.
    pub concurrency: Option<f64>,
    /// Prompt, tokens.
    pub isl: Option<f64>,
    /// Answer, tokens.
    pub osl: Option<f64>,
    /// Tokens in the cache.
    pub context_depth: Option<f64>,
    /// Steps that the engine's settings let a new prompt wait before it is taken in, so that prompts gather (TensorRT-LLM's
    /// `batch_wait_timeout_iters` and `timeout_iters`, SGLang's `scheduler-recv-interval`); none where it is not said.
    pub wait_steps: Option<f64>,
    /// Parameters, billions.
    pub params_b: Option<f64>,
    /// Parameters a token uses, billions.
    pub active_params_b: Option<f64>,
    /// Layers.
    pub layers: Option<f64>,
    /// Width.
    pub hidden: Option<f64>,
    /// Heads of keys and values.
    pub kv_heads: Option<f64>,
    /// Width of a head.
    pub head_dim: Option<f64>,
    /// Memory of a device, GB.
    pub memory_gb: Option<f64>,
    /// Memory bandwidth of a device, GB/s.
    pub memory_bandwidth_gbps: Option<f64>,
    /// Dense 16-bit peak of a device, TFLOP/s.
    pub tflops: Option<f64>,
    /// Dense 8-bit peak of a device, TFLOP/s.
    pub fp8_tflops: Option<f64>,
    /// Link between devices in one direction, GB/s.
    pub interconnect_gbps: Option<f64>,
    /// Class of the device.
    pub device_class: Option<String>,
    /// Facts of the model, where a file of it was read; its name is then only shown.
    pub known_model: Option<Model>,
}

/// A question whose facts are known, and what was assumed for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Resolved {
    /// The question.
    pub question: Question,
    /// What was not said and assumed, in words.
    pub assumed: Vec<String>,
}

/// Versions of vLLM from 0.12 on let prompts of others count less (coefficient `prompts_recent_vllm`).
const RECENT_VLLM: u32 = 12;
/// With 0.8 (2025-03) the engine that is computed here, V1, became the usual one. Before it a step's scheduling stood beside the kernels,
/// and runs of 0.6.3 take twice the computed time.
const VLLM_V1: u32 = 8;
/// Most devices that one question may have.
const MOST_DEVICES: f64 = 100_000.0;
/// Devices that a link joins in the usual server; racks that join more exist.
const MOST_JOINED: f64 = 8.0;
/// Longest prompt or answer, tokens.
const LONGEST: f64 = 1e8;
/// Most steps that an engine's settings let a prompt wait.
const MOST_WAITED: f64 = 1e4;
/// How much more than the table's dense peak may be given for a device: clocks differ, structured sparsity counts double. Consumer cards are
/// twice as fast where they add in 16 bits, without any.
const MOST_OVER_TABLE: f64 = 1.6;
const MOST_OVER_TABLE_CONSUMER: f64 = 2.5;
/// How near bandwidth and memory of a device that is in no table lie to those of one that is, for its peak to be held against that one's.
const SAME_DEVICE: f64 = 0.04;

/// A number in so few digits that it is read at a glance.
fn plain(value: f64) -> String {
    if value.abs() >= 1e15 { format!("{value:e}") } else { value.to_string() }
}

impl Asked {
    /// Finds the facts.
    ///
    /// # Errors
    /// Which fact is unknown, missing or impossible, and what to give.
    pub fn resolve(&self, facts: &Facts) -> Result<Resolved, String> {
        if let Some((count, name)) = names::counted(&self.hardware) {
            let count = f64::from(count);
            if let Some(other) = self.n_gpus.filter(|other| *other != count) {
                return Err(format!("{:?} are {count} devices, and n_gpus is {other}; say it once", self.hardware));
            }
            return Asked { hardware: name.to_owned(), n_gpus: Some(count), ..self.clone() }.resolve(facts);
        }
        self.check_numbers()?;
        let mut assumed = Vec::new();
        let device = self.device(facts)?;
        device.check()?;
        let precision = self.precision(facts, &mut assumed)?;
        let model = self.model(facts, precision, &mut assumed)?;
        model.check()?;
        let engine = self.engine(&device, &mut assumed);
        let local = engine == Engine::Local;
        let devices = self.n_gpus.or(self.tp).unwrap_or(1.0);
        let spread = self.attention_dp.filter(|dp| *dp > 1.0).map(|dp| (devices / dp).max(1.0));
        // Local engines put layers after one another over all devices. Some engines name the devices of all copies of the
        // attention as tensor parallelism.
        let tensor_parallel = match (self.tp, spread) {
            _ if local => Some(devices),
            (Some(tp), Some(spread)) => Some(tp.min(spread)),
            (tp, spread) => tp.or(spread),
        };
        let copies = (devices / tensor_parallel.unwrap_or(devices)).max(1.0);
        let sharing = self.attention_dp.filter(|_| model.sparse() && !local).unwrap_or(1.0).clamp(1.0, copies);
        let expert_parallel = match self.ep {
            Some(ep) => ep.clamp(1.0, devices),
            None => sharing,
        };
        let concurrency = self.concurrency.or(local.then_some(1.0)).or(device.layer_latency.map(|_| 1.0));
        let vllm_minor = self.engine_version.as_deref().filter(|_| engine == Engine::Vllm).and_then(vllm_minor);
        let question = Question {
            model,
            device,
            devices,
            tensor_parallel,
            sharing,
            expert_parallel,
            engine,
            recent_vllm: vllm_minor.is_some_and(|minor| minor >= RECENT_VLLM),
            first_vllm: vllm_minor.is_some_and(|minor| minor < VLLM_V1),
            older: local && self.engine_version.as_deref().is_some_and(is_before_graphs),
            precision,
            weight_bytes: self.weight_size_gib.map(|size| size * GIB),
            memory_share: self.memory_share,
            cache_value_bytes: self.cache_value_bytes,
            concurrency,
            isl: self.isl,
            osl: self.osl.filter(|osl| *osl > 0.0),
            wait_steps: self.wait_steps.unwrap_or(0.0),
            context_depth: self.context_depth,
        };
        if let Some(longest) = question.model.max_context
            && question.isl.unwrap_or(0.0) > longest
        {
            assumed.push(format!("the prompt is longer than the model's context of {longest} tokens"));
        }
        let joined = question.devices_a_copy();
        if !local && joined > MOST_JOINED {
            assumed
                .push(format!("one link joins all {joined} devices of a copy; in most servers it joins {MOST_JOINED}"));
        }
        fits(&question)?;
        Ok(Resolved { question, assumed })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let positive = [
            ("n_gpus", self.n_gpus, MOST_DEVICES),
            ("tp", self.tp, MOST_DEVICES),
            ("ep", self.ep, MOST_DEVICES),
            ("attention_dp", self.attention_dp, MOST_DEVICES),
            ("gpu_memory_utilization", self.memory_share, 1.0),
            ("weight_size_gib", self.weight_size_gib, 1e6),
            ("concurrency", self.concurrency, 1e7),
            ("params_b", self.params_b, 1e5),
            ("active_params_b", self.active_params_b, 1e5),
            ("layers", self.layers, 1e4),
            ("hidden", self.hidden, 1e6),
            ("kv_heads", self.kv_heads, 1e4),
            ("head_dim", self.head_dim, 1e4),
            ("memory_gb", self.memory_gb, 1e6),
            ("memory_bandwidth_gbps", self.memory_bandwidth_gbps, 3e7),
            ("tflops", self.tflops, 3e5),
            ("fp8_tflops", self.fp8_tflops, 3e5),
            ("interconnect_gbps", self.interconnect_gbps, 1e6),
        ];
        for (name, value, most) in positive {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0 && *value <= most)) {
                return Err(format!("{name} is {}; it must be above 0 and at most {most}", plain(value)));
            }
        }
        let counts = [
            ("isl", self.isl, LONGEST),
            ("osl", self.osl, LONGEST),
            ("context_depth", self.context_depth, LONGEST),
            ("wait_steps", self.wait_steps, MOST_WAITED),
        ];
        for (name, value, most) in counts {
            if let Some(value) = value.filter(|value| !(value.is_finite() && (0.0..=most).contains(value))) {
                return Err(format!("{name} is {}; it must be from 0 to {most}", plain(value)));
            }
        }
        if let Some((tp, devices)) = self.tp.zip(self.n_gpus).filter(|(tp, devices)| tp > devices) {
            return Err(format!("tp is {tp}, more than the {devices} devices of n_gpus"));
        }
        Ok(())
    }

    fn device(&self, facts: &Facts) -> Result<Device, String> {
        let named = Device::named(&facts.devices, &self.hardware);
        let mut device = match (named, self.memory_bandwidth_gbps) {
            (Ok(device), _) => {
                self.dense(&device)?;
                device
            }
            (Err(_), Some(bandwidth)) => {
                let given = self.given_device(bandwidth)?;
                let near = |a: f64, b: f64| (a / b - 1.0).abs() <= SAME_DEVICE;
                let like = |other: &&Device| near(given.bandwidth, other.bandwidth) && near(given.memory, other.memory);
                facts.devices.iter().filter(like).try_for_each(|other| self.dense(other))?;
                given
            }
            (Err(error), None) => return Err(error),
        };
        if let Some(bandwidth) = self.memory_bandwidth_gbps {
            device.bandwidth = bandwidth * 1e9;
        }
        if let Some(memory) = self.memory_gb {
            device.memory = memory * GIB;
        }
        if let Some(tflops) = self.tflops {
            device.bf16 = tflops * 1e12;
        }
        if self.fp8_tflops.is_some() {
            device.fp8 = self.fp8_tflops.map(|value| value * 1e12);
        }
        if self.interconnect_gbps.is_some() {
            device.link = self.interconnect_gbps.map(|value| value * 1e9);
        }
        Ok(device)
    }

    /// Holds the peaks that were given against those of a device in the table: its makers also name twice as much, with sparsity.
    fn dense(&self, device: &Device) -> Result<(), String> {
        let given = [("tflops", self.tflops, Some(device.bf16)), ("fp8_tflops", self.fp8_tflops, device.fp8)];
        let most = if device.class == Class::Consumer { MOST_OVER_TABLE_CONSUMER } else { MOST_OVER_TABLE };
        for (name, given, dense) in given {
            if let Some((given, dense)) = given.zip(dense).filter(|(given, dense)| given * 1e12 > dense * most) {
                return Err(format!(
                    "{name} is {given}, {:.1} times the dense peak of {} ({:.0}); a figure with sparsity counts double, give the dense one",
                    given * 1e12 / dense,
                    device.name,
                    dense / 1e12
                ));
            }
        }
        Ok(())
    }

    /// A device that is in no table.
    fn given_device(&self, bandwidth: f64) -> Result<Device, String> {
        let missing = |name: &str| format!("unknown hardware {:?}: its {name} is missing", self.hardware);
        let memory = self.memory_gb.ok_or_else(|| missing("memory_gb"))?;
        let tflops = self.tflops.ok_or_else(|| missing("tflops (dense, 16 bits)"))?;
        let class = match &self.device_class {
            Some(name) => Class::named(name).filter(|class| *class != Class::Sram).ok_or_else(|| {
                format!("unknown device_class {name:?}; one of datacentre, consumer, apple, unified, cpu")
            })?,
            // High-bandwidth memory begins where the widest graphics memory ends.
            None if bandwidth > 1900.0 => Class::Datacentre,
            None if tflops < 12.0 && bandwidth < 700.0 => Class::Cpu,
            None => Class::Consumer,
        };
        Ok(Device {
            name: self.hardware.clone(),
            aliases: String::new(),
            class,
            memory: memory * GIB,
            bandwidth: bandwidth * 1e9,
            bf16: tflops * 1e12,
            fp8: self.fp8_tflops.map(|value| value * 1e12),
            fp4: None,
            link: self.interconnect_gbps.map(|value| value * 1e9),
            dollars_hour: None,
            reached: 1.0,
            layer_latency: None,
            source: "given with the question".to_owned(),
        })
    }

    fn precision(&self, facts: &Facts, assumed: &mut Vec<String>) -> Result<Precision, String> {
        if let Some(name) = self.weight_precision.as_deref().filter(|name| !name.trim().is_empty()) {
            return Precision::named(name).ok_or_else(|| {
                format!(
                    "unknown weight precision {name:?}; such as bf16, fp8, nvfp4, mxfp4, int8, int4, awq, Q8_0, Q4_K_M"
                )
            });
        }
        if let Some(found) = Precision::in_file_name(&self.model).filter(|_| self.known_model.is_none()) {
            return Ok(found);
        }
        let known = self.known_model.clone().or_else(|| Model::named(&facts.models, &self.model).ok());
        let native = known.map(|model| model.native);
        let name = native.filter(|name| Precision::named(name).is_some()).unwrap_or_else(|| "bf16".to_owned());
        assumed.push(format!("weights as {name}"));
        Precision::named(&name).ok_or_else(|| format!("unknown weight precision {name:?}"))
    }

    fn model(&self, facts: &Facts, precision: Precision, assumed: &mut Vec<String>) -> Result<Model, String> {
        let known = self.known_model.clone().ok_or(());
        let mut model = match (known.or_else(|()| Model::named(&facts.models, &self.model)), self.params_b) {
            (Ok(mut model), given) => {
                model.params = given.map_or(model.params, |b| b * 1e9);
                model.active = self.active_params_b.map_or(model.active.min(model.params), |b| b * 1e9);
                model
            }
            (Err(_), Some(params)) => {
                Model::of_params(&self.model, params * 1e9, self.active_params_b.map(|b| b * 1e9))
            }
            (Err(error), None) => self.sized_model(precision, assumed).ok_or(error)?,
        };
        model.layers = self.layers.unwrap_or(model.layers);
        if self.layers.is_some() {
            model.full_layers = model.layers;
        }
        model.hidden = self.hidden.unwrap_or(model.hidden);
        model.kv_heads = self.kv_heads.unwrap_or(model.kv_heads);
        model.head_dim = self.head_dim.unwrap_or(model.head_dim);
        Ok(model)
    }

    /// An unknown model of which the size of the file is given: its parameters follow, and its shape is assumed. Its name
    /// may say how many of them are active; a mixture of experts that does not say so is not known by this.
    fn sized_model(&self, precision: Precision, assumed: &mut Vec<String>) -> Option<Model> {
        let bytes = self.weight_size_gib? * GIB;
        let active = names::params_b(&self.model).and_then(|(_, active)| active);
        let params = bytes / precision.bytes;
        assumed.push(format!(
            "{} is not in the table: {:.1} billion parameters by the size of its weights, the shape of a usual {} model",
            self.model,
            params / 1e9,
            if active.is_some() { "mixture-of-experts" } else { "dense" }
        ));
        Some(Model::of_params(&self.model, params, active.map(|b| b * 1e9)))
    }

    fn engine(&self, device: &Device, assumed: &mut Vec<String>) -> Engine {
        let named = self.engine.as_deref().filter(|name| !name.trim().is_empty());
        if let Some(engine) = named.and_then(Engine::named) {
            return engine;
        }
        let (engine, shown) = match device.class {
            Class::Datacentre | Class::Sram => (Engine::Vllm, "vLLM"),
            _ => (Engine::Local, "llama.cpp"),
        };
        if device.class != Class::Sram {
            assumed.push(format!(
                "an engine like {shown}{}",
                named.map_or(String::new(), |name| format!(" ({name} is unknown)"))
            ));
        }
        engine
    }
}

/// Whether the version of a local engine is a date before it had graphs of kernels.
fn is_before_graphs(version: &str) -> bool {
    version.contains("2024-") || version.contains("2023-")
}

/// The second number of a version such as `0.12.0` or `v0.19`, as long as the first is 0; a larger first is above every one. `None`
/// of what is no version, a date among them.
fn vllm_minor(version: &str) -> Option<u32> {
    let mut parts = version.trim().trim_start_matches('v').split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(0)), Some(Ok(minor))) => Some(minor),
        (Some(Ok(major)), _) if (1..1000).contains(&major) => Some(u32::MAX),
        _ => None,
    }
}

/// Refuses a model that does not fit, with by how much, and what would.
fn fits(question: &Question) -> Result<(), String> {
    if question.device.layer_latency.is_some() {
        return Ok(());
    }
    let copy = question.devices_a_copy();
    let memory = question.memory(copy);
    let context = question.context_depth.unwrap_or(question.isl.unwrap_or(0.0) + question.osl.unwrap_or(1.0));
    let held = |devices: f64| question.cache_held(context.max(1.0), devices);
    let one = held(copy);
    if memory.cache_room >= one {
        return Ok(());
    }
    let short = (one - memory.cache_room) / GIB;
    let needed = (1..=1024).map(f64::from).find(|devices| question.memory(*devices).cache_room >= held(*devices));
    let devices = match needed {
        // Tensor parallelism wants a power of two.
        Some(devices) if question.engine != Engine::Local => {
            format!("{} devices would hold it", devices.log2().ceil().exp2())
        }
        Some(devices) => format!("{devices} devices would hold it"),
        None => "no number of these devices holds it".to_owned(),
    };
    let formats: &[&str] =
        if question.engine == Engine::Local { &["Q8_0", "Q6_K", "Q4_K_M", "Q3_K_M", "Q2_K"] } else { &["fp8", "int4"] };
    // The widest format that fits on the fewest devices.
    let on = |count: f64| {
        let room = question.memory(count).cache_room + memory.weights - held(count);
        formats.iter().find(|name| {
            let bytes = Precision::named(name).map_or(f64::MAX, |precision| precision.bytes * question.model.params);
            bytes < memory.weights && bytes <= room
        })
    };
    let fewest = needed.unwrap_or(1024.0) as u32;
    let smaller = (1..fewest).map(f64::from).find_map(|count| on(count.max(copy)).map(|name| (count.max(copy), name)));
    let smaller = smaller.map_or(String::new(), |(count, name)| format!(", or {name} on {count}"));
    Err(format!(
        "{} does not fit in the memory of {copy} x {}: weights {:.1} GiB and {:.1} GiB of cache for one request are {short:.1} GiB too much; {devices}{smaller}",
        question.model.name,
        question.device.name,
        memory.weights / GIB,
        one / GIB,
    ))
}
