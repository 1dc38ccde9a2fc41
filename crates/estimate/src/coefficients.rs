//! The fitted numbers of the formulas: shares of peaks that are reached, and times that no peak explains.
//!
//! Invariant: every coefficient is positive; it is kept as its logarithm.

use crate::csv;
use crate::hardware::{Class, Device};

/// The table that is embedded; `validate` writes it.
const TABLE: &str = include_str!("../data/coefficients.csv");

/// What runs the model, as far as its speed is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// vLLM and what is built on it.
    Vllm,
    /// TensorRT-LLM.
    TensorRt,
    /// SGLang.
    SgLang,
    /// Engines for one's own machine: llama.cpp, Ollama, LM Studio, MLX.
    Local,
}

impl Engine {
    /// An engine by its name; `None` for an unknown one.
    pub fn named(name: &str) -> Option<Engine> {
        let plain = name.to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| plain.contains(part));
        match () {
            () if has(&["vllm", "aphrodite"]) => Some(Engine::Vllm),
            () if has(&["trt", "tensorrt"]) => Some(Engine::TensorRt),
            () if has(&["sglang"]) => Some(Engine::SgLang),
            () if has(&["llama", "ollama", "lm studio", "lmstudio", "mlx", "exllama", "gguf"]) => Some(Engine::Local),
            () => None,
        }
    }

    fn place(self) -> usize {
        match self {
            Engine::Vllm => 0,
            Engine::TensorRt => 1,
            Engine::SgLang => 2,
            Engine::Local => 3,
        }
    }
}

/// Groups of device and engine that have coefficients of their own.
pub const GROUPS: [&str; 7] = [
    "datacentre-server",
    "datacentre-local",
    "consumer-local",
    "apple-local",
    "unified-local",
    "cpu-local",
    "consumer-server",
];
/// The group of consumer and workstation cards behind a server.
pub const WORKSTATIONS: usize = 6;
/// Coefficients of a group: shares of bandwidth (weights, cache), shares of arithmetic (batch, prompt, unpacking of
/// quantised weights), microseconds (a layer, a step, a running request).
pub const OF_GROUP: [&str; 8] = ["e_w", "e_kv", "m_d", "mfu_p", "m_unpack", "t_layer_us", "t_step_us", "t_req_us"];
/// Coefficients that all groups share.
pub const SHARED: [&str; 27] = [
    "expert_skew",
    "link_share",
    "link_latency_us",
    "prefill_interference_vllm",
    "prefill_interference_trtllm",
    "prefill_interference_sglang",
    "prefill_interference_local",
    "moe_vllm",
    "moe_trtllm",
    "moe_sglang",
    "moe_local",
    "moe_prefill",
    "ttft_front_ms",
    "ttft_front_ms_local",
    "ttft_vllm",
    "ttft_trtllm",
    "ttft_sglang",
    "ttft_cold_s",
    "ttft_cold_experts",
    "ceiling",
    "local_prefill_saturation_tflops",
    "moe_layer",
    "older_unpack",
    "older_layer",
    "moe_workstation",
    "moe_prefill_workstation",
    "prompts_recent_vllm",
];
/// Number of coefficients.
pub const COUNT: usize = GROUPS.len() * OF_GROUP.len() + SHARED.len();

/// The places of those that only the TTFT depends on.
pub const OF_TTFT: std::ops::Range<usize> = GROUPS.len() * OF_GROUP.len() + 12..GROUPS.len() * OF_GROUP.len() + 19;

/// Where the fit starts and what it is pulled to, by group. A judgement: usual shares of peaks, from memory, and for local
/// engines what the measured rows show by eye, so the prior is not blind to them.
const PRIOR: [[f64; 8]; 7] = [
    [0.80, 0.75, 0.60, 0.55, 1.0, 30.0, 700.0, 20.0],
    [0.65, 0.60, 0.25, 0.70, 0.20, 60.0, 300.0, 200.0],
    [0.92, 0.75, 0.25, 1.00, 0.20, 40.0, 300.0, 200.0],
    [0.88, 0.70, 0.30, 0.60, 0.10, 60.0, 300.0, 300.0],
    [0.90, 0.75, 0.25, 0.45, 0.20, 60.0, 300.0, 300.0],
    [0.75, 0.60, 0.40, 0.40, 0.20, 60.0, 300.0, 300.0],
    // The last row, workstations, is what kernels reach (`OVERLAP_OF_WORKSTATIONS` names the measurement).
    [0.80, 0.76, 0.85, 0.80, 1.0, 15.0, 700.0, 20.0],
];
/// How sure that is: standard deviation of the logarithm, by coefficient.
const PRIOR_SD: [f64; 8] = [0.12, 0.15, 0.35, 0.30, 0.35, 0.40, 0.50, 0.80];
/// The same for the shared coefficients: value and standard deviation of the logarithm.
const SHARED_PRIOR: [(f64, f64); 27] = [
    (0.90, 0.10),
    (0.60, 0.40),
    (8.0, 0.40),
    (1.0, 0.15),
    (1.0, 0.15),
    (1.0, 0.15),
    (1.0, 0.15),
    // Of experts so narrow that nothing else counts (`step::narrow`).
    (1.40, 0.50),
    (1.40, 0.50),
    (1.40, 0.50),
    (1.25, 0.25),
    (0.50, 0.50),
    // From arrival to the queue 9.3 ms, and 1.8 ms back: the traces of 13 runs of vLLM on H100 (github inference-sim/training@ed5c1d2
    // output/fit/coefficients.json, 2026-02-17).
    (11.0, 0.20),
    (15.0, 0.70),
    (1.00, 0.30),
    (1.00, 0.30),
    (1.00, 0.30),
    // A cold engine compiles, tunes and captures in its first batch; a judgement.
    (0.70, 0.70),
    (1.50, 0.50),
    (0.90, 0.20),
    (250.0, 0.40),
    (1.60, 0.30),
    (0.70, 0.30),
    // Before its graphs (2024-05) llama.cpp launched every kernel by itself.
    (1.60, 0.30),
    // What the kernels of experts reach on a workstation card, against those of dense layers: 1,478 GB/s and 267 TFLOP/s of
    // 1,792 GB/s and 468 TFLOP/s (`OVERLAP_OF_EXPERTS` names the measurement).
    (1.00, 0.15),
    (0.74, 0.20),
    // Measured loops draw from few prompts (aiperf: 100), and vLLM finds the known ones in its cache: half of them, before any row says more.
    (0.50, 0.60),
];

/// The coefficients as logarithms, in the order of the groups, then the shared ones.
#[derive(Clone, PartialEq, Debug)]
pub struct Coefficients(pub [f64; COUNT]);

/// The coefficients of one device with one engine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Chosen {
    /// Share of the memory bandwidth that streaming weights reaches.
    pub e_w: f64,
    /// Share of it that reading the cache reaches.
    pub e_kv: f64,
    /// Share of peak arithmetic in decode steps.
    pub m_d: f64,
    /// Share of peak arithmetic in prompts.
    pub mfu_p: f64,
    /// Share of peak arithmetic in steps whose weights are unpacked first.
    pub m_unpack: f64,
    /// Seconds a layer.
    pub t_layer: f64,
    /// Seconds a step.
    pub t_step: f64,
    /// Seconds a running request and step.
    pub t_req: f64,
    /// Exponent of the tokens that choose experts.
    pub expert_skew: f64,
    /// Share of the link's rate that collectives reach.
    pub link_share: f64,
    /// Seconds an all-reduce takes at least.
    pub link_latency: f64,
    /// Share of other requests' prompts that delays a running one.
    pub interference: f64,
    /// Factor of the time of weights where experts are chosen that are very narrow.
    pub moe: f64,
    /// Factor of the share of peak arithmetic in prompts where experts are chosen.
    pub moe_prefill: f64,
    /// Seconds that a server's front end takes before a prompt begins.
    pub ttft_front: f64,
    /// Seconds that the requests which begin a loop wait for an engine that was cold.
    pub ttft_cold: f64,
    /// Factor of the TTFT: what an engine's batching of prompts and its front end add.
    pub ttft_factor: f64,
    /// Factor of the wait for a cold engine where experts are chosen.
    pub ttft_cold_experts: f64,
    /// Share of the computed ceiling that is reached.
    pub ceiling: f64,
    /// Peak arithmetic at which local engines' prompts stop gaining, FLOP/s.
    pub local_saturation: f64,
    /// Factor of the time a layer where experts are chosen.
    pub moe_layer: f64,
    /// Factor of the unpacking's share of arithmetic with a local engine of 2024 or before.
    pub older_unpack: f64,
    /// Factor of the time a layer with a local engine of 2024 or before.
    pub older_layer: f64,
    /// Share of other requests' prompts that counts with vLLM from 0.12 on: the published runs of it wait less for them than
    /// their arithmetic takes, which a prefix cache that holds repeated prompts would explain.
    pub recent_prompts: f64,
}

/// The group of a device's class with an engine.
pub fn group(class: Class, engine: Engine) -> usize {
    let local = engine == Engine::Local;
    match class {
        Class::Datacentre if local => 1,
        Class::Datacentre | Class::Sram => 0,
        Class::Consumer if local => 2,
        Class::Consumer => WORKSTATIONS,
        Class::Apple => 3,
        Class::Unified => 4,
        Class::Cpu => 5,
    }
}

impl Coefficients {
    /// The embedded ones, fitted to the measured rows.
    pub fn fitted() -> Coefficients {
        let mut all = Coefficients::prior();
        let names = Coefficients::names();
        for row in csv::rows(TABLE) {
            let place = names.iter().position(|name| name == row.text("name"));
            if let Some((place, value)) = place.zip(row.number("value")).filter(|(_, value)| *value > 0.0) {
                all.0[place] = value.ln();
            }
        }
        all
    }

    /// Where the fit starts: the priors.
    pub fn prior() -> Coefficients {
        let mut all = [0.0; COUNT];
        let groups = PRIOR.iter().flatten().copied();
        let values = groups.chain(SHARED_PRIOR.iter().map(|(value, _)| *value));
        all.iter_mut().zip(values).for_each(|(slot, value): (&mut f64, f64)| *slot = value.ln());
        Coefficients(all)
    }

    /// Standard deviations of the logarithms of the prior.
    pub fn prior_sd() -> [f64; COUNT] {
        let mut all = [0.0; COUNT];
        let groups = (0..GROUPS.len()).flat_map(|_| PRIOR_SD.iter().copied());
        let values = groups.chain(SHARED_PRIOR.iter().map(|(_, sd)| *sd));
        all.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
        all
    }

    /// Names such as `e_w.consumer-local`, in order.
    pub fn names() -> Vec<String> {
        let groups = GROUPS.iter().flat_map(|group| OF_GROUP.iter().map(move |name| format!("{name}.{group}")));
        groups.chain(SHARED.iter().map(|name| (*name).to_owned())).collect()
    }

    /// Those of a device with an engine.
    pub fn of(&self, device: &Device, engine: Engine) -> Chosen {
        let group = group(device.class, engine);
        let own = |place: usize| self.0[group * OF_GROUP.len() + place].exp();
        let shared = |place: usize| self.0[GROUPS.len() * OF_GROUP.len() + place].exp();
        let of_engine = |first: usize| shared(first + engine.place());
        let workstation = group == WORKSTATIONS;
        // What kernels of one kind of card say of it is what engines with such kernels reach.
        let reached = if workstation { device.reached } else { 1.0 };
        Chosen {
            e_w: own(0) * reached,
            e_kv: own(1) * reached,
            m_d: own(2) * reached,
            mfu_p: own(3) * reached,
            m_unpack: own(4),
            t_layer: own(5) * 1e-6,
            t_step: own(6) * 1e-6,
            t_req: own(7) * 1e-6,
            expert_skew: shared(0).min(1.0),
            link_share: shared(1),
            link_latency: shared(2) * 1e-6,
            interference: of_engine(3),
            moe: if workstation { shared(24) } else { of_engine(7) },
            moe_prefill: if workstation { shared(25) } else { shared(11) },
            ttft_front: shared(if engine == Engine::Local { 13 } else { 12 }) * 1e-3,
            ttft_factor: if engine == Engine::Local { 1.0 } else { of_engine(14) },
            ttft_cold: if engine == Engine::Local { 0.0 } else { shared(17) },
            ttft_cold_experts: shared(18),
            ceiling: shared(19),
            local_saturation: shared(20) * 1e12,
            moe_layer: shared(21),
            older_unpack: shared(22),
            older_layer: shared(23),
            recent_prompts: shared(26).min(1.0),
        }
    }
}
