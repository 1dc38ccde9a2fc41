//! Words used around speeds, in lower case.
//!
//! Invariant: no word names two conditions.

/// Prefixes of model names; what follows, such as `3.3 70b instruct`, belongs to the name.
pub(super) const MODELS: &[&str] = &[
    "llama",
    "gpt",
    "qwen",
    "qwq",
    "gemini",
    "claude",
    "mistral",
    "mixtral",
    "ministral",
    "codestral",
    "deepseek",
    "kimi",
    "glm",
    "gemma",
    "phi",
    "grok",
    "nemotron",
    "command-r",
    "command r",
    "falcon",
    "olmo",
    "granite",
    "minimax",
    "mimo",
    "o3",
];

/// Words that go on a model's name after its family or number.
pub(super) const MODEL_PARTS: &[&str] = &[
    "maverick",
    "scout",
    "sonnet",
    "opus",
    "haiku",
    "flash",
    "pro",
    "mini",
    "nano",
    "turbo",
    "instruct",
    "chat",
    "coder",
    "versatile",
    "instant",
    "large",
    "small",
    "medium",
    "nemo",
    "next",
    "thinking",
    "distill",
    "oss",
    "lite",
    "ultra",
    "preview",
    "it",
    "base",
    "air",
    "exp",
    "super",
    "vl",
    "moe",
    "fast",
    "llama",
    "qwen",
];

/// Providers and engines.
pub(super) const PROVIDERS: &[&str] = &[
    "groq",
    "cerebras",
    "sambanova",
    "together ai",
    "together.ai",
    "fireworks ai",
    "fireworks",
    "deepinfra",
    "openai",
    "anthropic",
    "google",
    "vertex ai",
    "vertex",
    "azure",
    "amazon bedrock",
    "bedrock",
    "aws",
    "nebius",
    "novita",
    "hyperbolic",
    "baseten",
    "replicate",
    "lambda labs",
    "openrouter",
    "perplexity",
    "xai",
    "cloudflare",
    "nvidia nim",
    "nvidia",
    "databricks",
    "modal",
    "friendliai",
    "cohere",
    "moonshot",
    "alibaba",
    "vllm",
    "sglang",
    "tensorrt-llm",
    "trt-llm",
    "tensorrt",
    "tgi",
    "ollama",
    "llama.cpp",
    "lm studio",
    "mlx",
    "exllamav2",
    "exllamav3",
    "lmdeploy",
    "ktransformers",
    "nvidia dynamo",
    "dynamo",
];

/// Beginnings of names of hardware.
pub(super) const HARDWARE: &[&str] = &[
    "h100",
    "h200",
    "h800",
    "h20",
    "b100",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "mi210",
    "mi250",
    "mi300",
    "mi325",
    "mi350",
    "mi355",
    "a100",
    "a10g",
    "a10",
    "a6000",
    "l40",
    "l4",
    "t4",
    "v100",
    "rtx",
    "tpu",
    "trainium",
    "inferentia",
    "gaudi",
    "wse",
    "lpu",
    "dgx",
    "strix halo",
    "cpu",
];

/// Apple's, which need the whole word.
pub(super) const CHIPS: &[&str] = &["m1", "m2", "m3", "m4", "m5"];

/// What a number of them counts.
pub(super) const MACHINES: &[&str] = &[
    "gpus",
    "gpu",
    "chips",
    "chip",
    "accelerators",
    "cards",
    "nodes",
    "node",
    "lpus",
    "tpus",
    "devices",
    "cores",
    "threads",
    "cpus",
    "servers",
];

/// Graphics cards that are named by their number alone.
pub(super) const CARDS: &[&str] =
    &["3060", "3070", "3080", "3090", "4060", "4070", "4080", "4090", "5060", "5070", "5080", "5090"];

/// In how many bits.
pub(super) const PRECISIONS: &[&str] = &[
    "fp4",
    "fp8",
    "fp16",
    "fp32",
    "bf16",
    "nvfp4",
    "mxfp4",
    "mxfp8",
    "int4",
    "int8",
    "awq",
    "gptq",
    "gguf",
    "exl2",
    "q2_k",
    "q3_k_m",
    "q4_0",
    "q4_k_m",
    "q4_k_s",
    "q4_k_xl",
    "q4",
    "q5_k_m",
    "q6_k",
    "q8_0",
    "q8",
    "quantized",
    "full precision",
];

/// Before or behind a number of requests at a time.
pub(super) const LOAD_BEFORE: &[&str] =
    &["batch", "bs", "concurrency", "concurrent requests", "concurrent users", "batch-size", "max concurrency"];
/// Behind such a number.
pub(super) const LOAD_AFTER: &[&str] = &[
    "concurrent requests",
    "concurrent users",
    "concurrent streams",
    "concurrent",
    "concurrency",
    "simultaneous",
    "simultaneous users",
    "simultaneous requests",
    "parallel requests",
    "parallel",
    "users",
    "user",
    "streams",
    "stream",
    "clients",
    "sessions",
    "requests in flight",
    "in flight",
    "requests at once",
    "requests at a time",
    "batch",
    "batch size",
    "concurrents",
    "sequences",
    "parallel streams",
    "parallel users",
    "requests in parallel",
];
/// A load without a number.
pub(super) const LOAD_WORDS: &[&str] =
    &["single stream", "single-stream", "single user", "single-user", "single request", "one user", "unloaded"];

/// Before the length of a prompt.
pub(super) const INPUT_BEFORE: &[&str] = &[
    "input",
    "isl",
    "prompt",
    "prompts",
    "context",
    "ctx",
    "input tokens",
    "prompt tokens",
    "context window",
    "n_ctx",
    "input sequence",
];
/// Behind it.
pub(super) const INPUT_AFTER: &[&str] = &[
    "input tokens",
    "input",
    "prompt tokens",
    "prompt",
    "prompts",
    "token prompts",
    "token prompt",
    "token input",
    "token inputs",
    "tokens in",
    "tokens of input",
    "context",
    "ctx",
    "token context",
    "tokens of context",
    "context length",
    "context window",
    "in",
    "tokens input",
    "tokens prompt",
    "isl",
];
/// Before the length of an answer.
pub(super) const OUTPUT_BEFORE: &[&str] =
    &["output", "osl", "answers", "output tokens", "max tokens", "max_tokens", "responses", "completions"];
/// Behind it.
pub(super) const OUTPUT_AFTER: &[&str] = &[
    "output tokens",
    "output",
    "tokens out",
    "tokens of output",
    "token output",
    "token outputs",
    "token responses",
    "token response",
    "token answers",
    "token answer",
    "token completions",
    "out",
    "tokens output",
    "osl",
    "generated tokens",
];

/// Behind the size of a sample.
pub(super) const SAMPLE_AFTER: &[&str] = &[
    "requests",
    "runs",
    "samples",
    "prompts in total",
    "trials",
    "queries",
    "repetitions",
    "measurements",
    "calls",
    "iterations",
    "tests",
    "conversations",
];

/// Which of many.
pub(super) const STATISTICS: &[&str] = &[
    "median",
    "mean",
    "average",
    "averaged",
    "avg",
    "p50",
    "p75",
    "p90",
    "p95",
    "p99",
    "p99.9",
    "peak",
    "best",
    "slowest",
    "sustained",
    "typical",
    "maximum",
    "max",
    "minimum",
    "at best",
    "percentile",
];

/// Whose tokens.
pub(super) const TOKENS: &[&str] = &[
    "o200k",
    "o200k_base",
    "cl100k",
    "cl100k_base",
    "native tokens",
    "reasoning tokens",
    "including reasoning",
    "tiktoken",
];

/// Where.
pub(super) const PLACES: &[&str] =
    &["us-east", "us-west", "us-central", "eu-west", "eu-central", "eu-north", "ap-southeast", "ap-northeast"];

/// The most there is.
pub(super) const AT_MOST: &[&str] = &[
    "up to",
    "as much as",
    "as high as",
    "as many as",
    "max",
    "maximum",
    "peak",
    "peaks at",
    "peaking at",
    "peak of",
    "at most",
    "maximum of",
    "a peak of",
];
/// The least there is.
pub(super) const AT_LEAST: &[&str] = &[
    "over",
    "more than",
    "at least",
    "exceeding",
    "exceeds",
    "above",
    "well over",
    "upwards of",
    "surpassing",
    "surpasses",
];
/// Those that mean the best of many.
pub(super) const UP_TO: &[&str] = &["up to", "as much as", "as high as", "as many as", "at most"];
