//! What is asked: a model on devices with an engine, under a load.

use crate::coefficients::Engine;
use crate::hardware::Device;
use crate::model::Model;
use crate::precision::Precision;

/// A question with all its facts.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The model.
    pub model: Model,
    /// The device.
    pub device: Device,
    /// Devices in all.
    pub devices: f64,
    /// Devices that share one copy of the model; `None`: as few as hold it, for a ceiling, else all.
    pub tensor_parallel: Option<f64>,
    /// Copies that share their experts, each with attention and cache of its own (attention data parallelism); 1 of a dense model.
    pub sharing: f64,
    /// Devices over which whole experts are spread; 1 where each expert is cut like any other matrix.
    pub expert_parallel: f64,
    /// Engine.
    pub engine: Engine,
    /// Whether the engine is a vLLM of 0.12 or later.
    pub recent_vllm: bool,
    /// Whether the engine is a vLLM of before 0.8, whose first engine the formulas do not know.
    pub first_vllm: bool,
    /// Storage of weights.
    pub precision: Precision,
    /// Bytes of all weights, where given; else parameters times bytes a weight.
    pub weight_bytes: Option<f64>,
    /// Whether a local engine's version is of 2024 or before.
    pub older: bool,
    /// Share of a device's memory that the engine may use; `None`: what is usual.
    pub memory_share: Option<f64>,
    /// Bytes a value of the cache; `None`: what is usual.
    pub cache_value_bytes: Option<f64>,
    /// Requests running at once, in all; `None`: as many as give the most tokens (a ceiling).
    pub concurrency: Option<f64>,
    /// Prompt, tokens.
    pub isl: Option<f64>,
    /// Answer, tokens.
    pub osl: Option<f64>,
    /// Steps that the engine's settings let a new prompt wait before it is taken in, mean.
    pub wait_steps: f64,
    /// Tokens in the cache while decoding, where the decode speed at a depth is asked, without prompts of others.
    pub context_depth: Option<f64>,
}

/// Kinds of questions whose errors differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// One sequence, or a batch at a fixed depth, on one's own machine.
    SingleStream,
    /// A closed loop of requests against a server.
    Served,
    /// The most tokens per second.
    Ceiling,
    /// On-chip memory; from published speeds.
    Sram,
}

impl Kind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::SingleStream => "single stream",
            Kind::Served => "served",
            Kind::Ceiling => "ceiling",
            Kind::Sram => "on-chip memory",
        }
    }
}

/// Share of a device's memory that a server may use for weights and cache (vLLM's `gpu_memory_utilization` default is 0.9,
/// and 0.92 of it in use is usual), and that a local engine may use.
const SERVER_MEMORY: f64 = 0.9;
const LOCAL_MEMORY: f64 = 0.98;
/// What a driver leaves of a device's memory to those who ask for it: 23.64 of 24 GiB of an RTX 4090, 79.1 of 80 of an H100, as messages of PyTorch
/// that memory is out say (from memory). A server's share is of that.
const LEFT_BY_DRIVER: f64 = 0.985;
/// Activations and buffers of a server, bytes a device: a chunk of 8,192 tokens of some layers, and graphs.
const SERVER_BUFFERS: f64 = 2.0e9;

/// Memory of one copy of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Memory {
    /// Weights, bytes.
    pub weights: f64,
    /// What is left for the cache, bytes; negative when the weights do not fit.
    pub cache_room: f64,
}

impl Question {
    /// Kind of the question.
    pub fn kind(&self) -> Kind {
        match self {
            _ if self.device.layer_latency.is_some() => Kind::Sram,
            Question { concurrency: None, .. } => Kind::Ceiling,
            _ if self.engine == Engine::Local => Kind::SingleStream,
            _ => Kind::Served,
        }
    }

    /// Bytes of all weights.
    pub fn weights(&self) -> f64 {
        self.weight_bytes.unwrap_or(self.model.params * self.precision.bytes)
    }

    /// Bytes a parameter.
    pub fn bytes_a_weight(&self) -> f64 {
        self.weights() / self.model.params
    }

    /// Bytes a value of the cache: servers keep it in 8 bits with 8-bit and 4-bit weights, as published runs do (a 70B model
    /// with 64 prompts of 8,192 tokens on one device of 180 GB needs it); else 16 bits.
    pub fn bytes_a_cache_value(&self) -> f64 {
        let narrow = self.engine != Engine::Local && self.precision.bytes < 1.5;
        self.cache_value_bytes.unwrap_or(if narrow { 1.0 } else { 2.0 })
    }

    /// Bytes of cache that a sequence of `context` tokens takes of the memory of `devices` devices: heads are spread over them, but the one
    /// latent cache of multi-head latent attention lies whole on each (vLLM, SGLang and TensorRT-LLM under tensor parallelism).
    pub fn cache_held(&self, context: f64, devices: f64) -> f64 {
        let whole = self.model.latent.is_some() && self.engine != Engine::Local;
        self.model.cache_bytes(context, self.bytes_a_cache_value()) * if whole { devices } else { 1.0 }
    }

    /// Memory of a copy on `devices` devices.
    pub fn memory(&self, devices: f64) -> Memory {
        // Copies that share their experts hold a part of them each.
        let experts = self.model.expert_params() * self.bytes_a_weight();
        let weights = self.weights() - experts * (1.0 - 1.0 / self.sharing);
        let usable = match self.engine {
            Engine::Local => self.device.memory * self.memory_share.unwrap_or(LOCAL_MEMORY),
            _ => {
                let share = self.memory_share.unwrap_or(SERVER_MEMORY);
                self.device.memory * LEFT_BY_DRIVER * share - SERVER_BUFFERS.min(self.device.memory * 0.05)
            }
        };
        Memory { weights, cache_room: usable * devices - weights }
    }

    /// Devices that share one copy.
    pub fn devices_a_copy(&self) -> f64 {
        if let Some(parallel) = self.tensor_parallel {
            return parallel.clamp(1.0, self.devices);
        }
        if self.concurrency.is_some() {
            return self.devices;
        }
        // A ceiling is reached with as few devices a copy as leave a third of the memory to the cache.
        let mut devices = 1.0;
        while devices < self.devices && self.memory(devices).cache_room < 0.3 * self.device.memory * devices {
            devices *= 2.0;
        }
        devices.min(self.devices)
    }

    /// Copies of the model.
    pub fn copies(&self) -> f64 {
        (self.devices / self.devices_a_copy()).max(1.0)
    }
}
