//! Metric names of each inference engine.
//!
//! Invariant: every name is in the engine's documentation or source (docs/targets.md says where); a quantity that an engine
//! does not publish is missing, never derived from another.

/// A quantity that a server may publish.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Quantity {
    /// Requests that ended well (counter).
    Requests,
    /// Prompt tokens read (counter).
    InputTokens,
    /// Tokens written (counter).
    OutputTokens,
    /// Prompt tokens looked up in the prefix cache (counter).
    CacheQueries,
    /// Those of them that were there (counter).
    CacheHits,
    /// Seconds of reading prompts, over all requests (counter).
    PrefillSeconds,
    /// Seconds of writing, over all requests (counter).
    DecodeSeconds,
    /// Arrival to first token (histogram, s).
    Ttft,
    /// Arrival to last token (histogram, s).
    E2e,
    /// Arrival to the begin of work (histogram, s).
    Queue,
    /// Requests being worked on (gauge).
    Running,
    /// Requests waiting (gauge).
    Waiting,
    /// Share of the key-value cache in use, 0 to 1 (gauge; engines of several ranks publish one each).
    CacheUse,
    /// Requests that lost their place in the batch (counter).
    Preemptions,
    /// Tokens that a draft proposed (counter).
    DraftTokens,
    /// Those of them that were accepted (counter).
    AcceptedTokens,
}

/// The names that an engine gives its metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Family {
    /// Its name in the catalog.
    pub name: &'static str,
    /// Where its metrics' names begin.
    prefix: &'static str,
    /// Each quantity's names, the newest first; the first that a page has counts. Histograms without suffix.
    names: &'static [(Quantity, &'static [&'static str])],
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 5] = [VLLM, SGLANG, TGI, LLAMA_CPP, TRTLLM];

    /// The family of that name.
    pub fn by_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name == name)
    }

    /// The family whose names a page has.
    pub fn of<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<Family> {
        names.find_map(|name| {
            let prefix =
                |family: &Family| name.get(..family.prefix.len()).is_some_and(|part| same_name(part, family.prefix));
            Family::ALL.into_iter().find(prefix)
        })
    }

    /// What a quantity may be called.
    pub fn names(&self, quantity: Quantity) -> &'static [&'static str] {
        self.names.iter().find(|(known, _)| *known == quantity).map_or(&[], |(_, names)| names)
    }
}

/// Whether two names are the same but for `:` and `_`, which some servers and scrapers write for each other.
pub(super) fn same_name(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if byte == b':' { b'_' } else { byte };
    a.len() == b.len() && a.bytes().map(plain).eq(b.bytes().map(plain))
}

const VLLM: Family = Family {
    name: "vllm",
    prefix: "vllm:",
    names: &[
        (Quantity::Requests, &["vllm:request_success_total"]),
        (Quantity::InputTokens, &["vllm:prompt_tokens_total"]),
        (Quantity::OutputTokens, &["vllm:generation_tokens_total"]),
        (Quantity::CacheQueries, &["vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"]),
        (Quantity::CacheHits, &["vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"]),
        (Quantity::Ttft, &["vllm:time_to_first_token_seconds"]),
        (Quantity::E2e, &["vllm:e2e_request_latency_seconds"]),
        (Quantity::Queue, &["vllm:request_queue_time_seconds"]),
        (Quantity::Running, &["vllm:num_requests_running"]),
        (Quantity::Waiting, &["vllm:num_requests_waiting"]),
        (Quantity::CacheUse, &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"]),
        (Quantity::Preemptions, &["vllm:num_preemptions_total"]),
        (Quantity::DraftTokens, &["vllm:spec_decode_num_draft_tokens_total"]),
        (Quantity::AcceptedTokens, &["vllm:spec_decode_num_accepted_tokens_total"]),
    ],
};

const SGLANG: Family = Family {
    name: "sglang",
    prefix: "sglang:",
    names: &[
        (Quantity::Requests, &["sglang:num_requests_total"]),
        (Quantity::InputTokens, &["sglang:prompt_tokens_total"]),
        (Quantity::OutputTokens, &["sglang:generation_tokens_total"]),
        (Quantity::CacheQueries, &["sglang:prompt_tokens_total"]),
        (Quantity::CacheHits, &["sglang:cached_tokens_total"]),
        (Quantity::Ttft, &["sglang:time_to_first_token_seconds"]),
        (Quantity::E2e, &["sglang:e2e_request_latency_seconds"]),
        (Quantity::Queue, &["sglang:queue_time_seconds"]),
        (Quantity::Running, &["sglang:num_running_reqs"]),
        (Quantity::Waiting, &["sglang:num_queue_reqs"]),
        (Quantity::CacheUse, &["sglang:token_usage"]),
        // `num_retracted_reqs` is a gauge of the last batch.
        (Quantity::Preemptions, &["sglang:num_retracted_requests_total"]),
    ],
};

/// TGI publishes no time to first token.
const TGI: Family = Family {
    name: "tgi",
    prefix: "tgi_",
    names: &[
        (Quantity::Requests, &["tgi_request_success", "tgi_request_success_total"]),
        (Quantity::InputTokens, &["tgi_request_input_length_sum"]),
        (Quantity::OutputTokens, &["tgi_request_generated_tokens_sum"]),
        (Quantity::E2e, &["tgi_request_duration"]),
        (Quantity::Queue, &["tgi_request_queue_duration"]),
        (Quantity::Running, &["tgi_batch_current_size"]),
        (Quantity::Waiting, &["tgi_queue_size"]),
    ],
};

/// llama.cpp publishes neither requests nor times of single ones, only sums.
const LLAMA_CPP: Family = Family {
    name: "llama-cpp",
    prefix: "llamacpp:",
    names: &[
        (Quantity::InputTokens, &["llamacpp:prompt_tokens_total"]),
        (Quantity::OutputTokens, &["llamacpp:tokens_predicted_total"]),
        (Quantity::PrefillSeconds, &["llamacpp:prompt_seconds_total"]),
        (Quantity::DecodeSeconds, &["llamacpp:tokens_predicted_seconds_total"]),
        (Quantity::Running, &["llamacpp:requests_processing"]),
        (Quantity::Waiting, &["llamacpp:requests_deferred"]),
        // Versions before the middle of 2025.
        (Quantity::CacheUse, &["llamacpp:kv_cache_usage_ratio"]),
        (Quantity::DraftTokens, &["llamacpp:spec_decode_num_draft_tokens_total"]),
        (Quantity::AcceptedTokens, &["llamacpp:spec_decode_num_accepted_tokens_total"]),
    ],
};

const TRTLLM: Family = Family {
    name: "trtllm",
    prefix: "trtllm_",
    names: &[
        (Quantity::Requests, &["trtllm_request_success_total"]),
        (Quantity::InputTokens, &["trtllm_prompt_tokens_total"]),
        (Quantity::OutputTokens, &["trtllm_generation_tokens_total"]),
        (Quantity::CacheQueries, &["trtllm_prompt_tokens_total"]),
        (Quantity::CacheHits, &["trtllm_prompt_cached_tokens_total"]),
        (Quantity::Ttft, &["trtllm_time_to_first_token_seconds"]),
        (Quantity::E2e, &["trtllm_e2e_request_latency_seconds"]),
        (Quantity::Queue, &["trtllm_request_queue_time_seconds"]),
        (Quantity::Running, &["trtllm_num_requests_running", "trtllm_num_active_requests"]),
        (Quantity::Waiting, &["trtllm_num_requests_waiting", "trtllm_server_queue_length"]),
        (Quantity::CacheUse, &["trtllm_kv_cache_utilization"]),
    ],
};
