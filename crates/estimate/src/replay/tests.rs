//! Schedules of small traces, and what cannot be replayed.

use super::*;

const TRACE: &str = "request,arrival_ms,input_tokens,output_tokens\na,0,1000,10\nb,5,100,2\n\nc,900,100,1\n";

fn settings() -> EngineSettings {
    EngineSettings {
        model: Some("llama-3.1-8b".to_owned()),
        hardware: Some("h100-sxm".to_owned()),
        dtype: Some("bfloat16".to_owned()),
        ..EngineSettings::default()
    }
}

fn replayed(settings: &EngineSettings, trace: &str) -> Result<Replayed, String> {
    let trace = parse_trace(trace)?;
    Ok(Replay::new(settings, &Facts::embedded(), &Coefficients::fitted())?.run(&trace))
}

fn times(outcome: &Outcome) -> (f64, Times) {
    match outcome {
        Outcome::Answered { queue_ms, times } => (*queue_ms, *times),
        Outcome::Refused(why) => panic!("refused: {why}"),
    }
}

#[test]
fn each_request_is_answered_in_its_turn() {
    let replayed = replayed(&settings(), TRACE).expect("a trace");
    let [a, b, c] = &replayed.outcomes[..] else { panic!("three rows: {replayed:?}") };
    let ((a_queue, a), (b_queue, b), (c_queue, c)) = (times(a), times(b), times(c));
    assert_eq!((a_queue, c_queue), (0.0, 0.0), "the engine was idle");
    // The second waits for the end of the step that processes the first one's prompt.
    assert!((b_queue - (a.ttft_ms - 5.0)).abs() < 1e-3, "{b_queue}");
    assert!(b.ttft_ms > b_queue && a.latency_ms > a.ttft_ms && a.tpot_ms > 4.0 && a.tpot_ms < 12.0, "{a:?}");
    assert_eq!((c.latency_ms, c.tpot_ms), (c.ttft_ms, 0.0));
    assert!((replayed.seconds - (0.9 + c.latency_ms / 1e3)).abs() < 1e-6);
}

#[test]
fn more_copies_share_the_requests() {
    let trace: String =
        (0..64).fold("arrival_ms,input_tokens,output_tokens\n".to_owned(), |text, _| text + "0,500,50\n");
    let latency = |settings: &EngineSettings| {
        let replayed = replayed(settings, &trace).expect("a trace");
        replayed.outcomes.iter().map(|outcome| times(outcome).1.latency_ms).fold(0.0, f64::max)
    };
    let two = EngineSettings { data_parallel_size: Some(2), ..settings() };
    assert!(latency(&two) < 0.8 * latency(&settings()));
    let serial = EngineSettings { engine: Some("serial".to_owned()), ..settings() };
    assert!(latency(&serial) > 5.0 * latency(&settings()));
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_reason() {
    let trouble = |settings: &EngineSettings, trace: &str| replayed(settings, trace).expect_err("refused");
    assert!(trouble(&settings(), "a,b\n1,2\n").starts_with("line 1 has no column `arrival_ms`"));
    let bad = "arrival_ms,input_tokens,output_tokens\n0,1,1\n\n0,many,1\n";
    assert!(
        trouble(&settings(), bad).starts_with("line 4: `input_tokens` is \"many\""),
        "{}",
        trouble(&settings(), bad)
    );
    assert!(
        trouble(&settings(), "arrival_ms,input_tokens,output_tokens\nNaN,1,1\n").contains("`arrival_ms` is \"NaN\"")
    );
    assert!(trouble(&EngineSettings::default(), TRACE).contains("name no model"));
    let odd = EngineSettings { engine: Some("fast".to_owned()), ..settings() };
    assert!(trouble(&odd, TRACE).contains("one of vllm, sglang, trtllm, static-batch, serial"));
    let drafts = EngineSettings { num_speculative_tokens: Some(3), ..settings() };
    assert!(trouble(&drafts, TRACE).contains("`acceptance`"));
    let long = replayed(&EngineSettings { max_model_len: Some(500), ..settings() }, TRACE).expect("a trace");
    assert!(matches!(&long.outcomes[0], Outcome::Refused(why) if why.contains("max_model_len is 500")));
    assert!(matches!(&long.outcomes[1], Outcome::Answered { .. }));
}

#[test]
fn settings_are_honoured_under_the_names_that_vllm_gives_them() {
    let file =
        |text: &str| -> EngineSettings { serde_json::from_str::<SettingsFile>(text).expect("settings").settings() };
    let base = r#""model": "qwen3-30b-a3b", "dtype": "bfloat16""#;
    let engine = |more: &str| {
        let settings = file(&format!(r#"{{"hardware": "rtx-pro-6000", "engine_kwargs": {{{base}{more}}}}}"#));
        Replay::new(&settings, &Facts::embedded(), &Coefficients::fitted())
    };
    let args = |more: &str| engine(more).map(|replay| replay.args).expect("can run");
    let usual = args("");
    assert_eq!((usual.max_num_batched_tokens, usual.max_num_seqs, usual.block_size), (8_192, 1_024, 16));
    assert_eq!(args(r#", "block_size": 32"#).num_blocks, usual.num_blocks / 2);
    assert_eq!(args(r#", "kv_cache_dtype": "fp8""#).num_blocks / 2, usual.num_blocks);
    assert!(args(r#", "gpu_memory_utilization": 0.8"#).num_blocks < usual.num_blocks * 8 / 10);
    assert_eq!(args(r#", "num_gpu_blocks_override": 900"#).num_blocks, 900);
    assert_eq!(args(r#", "long_prefill_token_threshold": 512"#).long_prefill_token_threshold, 512);
    assert!(!args(r#", "enable_prefix_caching": false, "enable_chunked_prefill": false"#).chunked_prefill);
    let drafts = args(r#", "speculative_config": {"num_speculative_tokens": 3, "acceptance": 0.7}"#);
    assert_eq!(drafts.speculation, Some(Speculation { draft_tokens: 3, acceptance: 0.7 }));
    // Two copies share their experts: more than half of the weights makes room in each.
    assert!(args(r#", "data_parallel_size": 2"#).num_blocks > usual.num_blocks * 3 / 2);
    let trouble = |more: &str| engine(more).map(|_| ()).expect_err("refused");
    assert!(trouble(r#", "pipeline_parallel_size": 2"#).contains("pipelines are not modelled"));
    assert!(trouble(r#", "kv_cache_dtype": "int3""#).contains("unknown kv_cache_dtype"));
    assert!(trouble(r#", "gpu_memory_utilization": 1.5"#).contains("at most 1"));
    let logged = file(r#"{"model": "llama-3.1-8b", "kv_cache": {"num_gpu_blocks": 777}}"#);
    assert_eq!(logged.num_gpu_blocks, Some(777));
}

#[test]
fn settings_are_read_however_their_file_spells_them() {
    let file = |text: &str| serde_json::from_str::<SettingsFile>(text).map(SettingsFile::settings);
    let dashed = file(
        r#"{"source": "a run", "model": "llama-3.1-8b", "hardware": null, "tp": 2, "engine_args": {"max-num-seqs": "64",
            "max-num-batched-tokens": 2048.0, "max-model-len": "auto", "enable-expert-parallel": "false", "seed": 7,
            "gpu-memory-utilization": "0.85", "block_size": null, "unknown": {"x": [1]}}}"#,
    )
    .expect("settings");
    let expected = EngineSettings {
        model: Some("llama-3.1-8b".to_owned()),
        tensor_parallel_size: Some(2),
        max_num_seqs: Some(64),
        max_num_batched_tokens: Some(2_048),
        enable_expert_parallel: Some(false),
        gpu_memory_utilization: Some(0.85),
        ..EngineSettings::default()
    };
    assert_eq!(dashed, expected);
    for wrong in [
        r#"{"max_num_seqs": 1.5}"#,
        r#"{"max_num_seqs": "many"}"#,
        r#"{"enforce_eager": 2}"#,
        r#"{"max_num_seqs": -1}"#,
    ] {
        assert!(file(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_card_with_better_kernels_than_its_group_is_faster_by_them() {
    let facts = Facts::embedded();
    let device = |name: &str| Device::named(&facts.devices, name).expect("in the table");
    let of = |name: &str| Coefficients::fitted().of(&device(name), crate::coefficients::Engine::Vllm);
    let (ada, blackwell) = (of("rtx-4090"), of("rtx-pro-6000"));
    assert!((ada.e_w / blackwell.e_w - 1.17).abs() < 1e-9 && (ada.mfu_p / blackwell.mfu_p - 1.17).abs() < 1e-9);
    // Of a local engine nothing says so.
    let local = Coefficients::fitted().of(&device("rtx-4090"), crate::coefficients::Engine::Local);
    assert_eq!(local.e_w, Coefficients::fitted().of(&device("rtx-3090"), crate::coefficients::Engine::Local).e_w);
}

#[test]
fn two_cards_without_nvlink_and_experts_take_the_time_of_their_parts() {
    let one = "arrival_ms,input_tokens,output_tokens\n0,1000,50\n";
    let tpot = |settings: &EngineSettings| times(&replayed(settings, one).expect("a trace").outcomes[0]).1.tpot_ms;
    let card = |tensor: u32, model: &str| EngineSettings {
        model: Some(model.to_owned()),
        hardware: Some("rtx-pro-6000".to_owned()),
        tensor_parallel_size: Some(tensor),
        ..settings()
    };
    let quotient = tpot(&card(2, "qwen3-32b")) / tpot(&card(1, "qwen3-32b"));
    // Half of the weights each, and 128 all-reduces over PCIe.
    assert!((0.5..0.75).contains(&quotient), "{quotient}");
    // One token streams 3.3 of 30.5 billion parameters.
    let experts = tpot(&card(1, "qwen3-30b-a3b"));
    assert!((3.5..10.0).contains(&experts), "{experts} ms");
    let spread = EngineSettings { enable_expert_parallel: Some(true), ..card(2, "qwen3-30b-a3b") };
    assert!(tpot(&spread) > tpot(&card(2, "qwen3-30b-a3b")), "whole experts are not spread evenly");
}
