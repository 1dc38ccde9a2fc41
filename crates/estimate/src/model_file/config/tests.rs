//! Shapes as real files have them, and what is refused.

use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Model, String> {
    let file: ConfigFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    model("a model", &file)
}

const DENSE: &str = r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072, "sliding_window": null, "rope_scaling": {"factor": 8.0}}"#;

/// A text with a piece in another's place.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn a_dense_model_is_what_the_table_has() {
    let found = read(DENSE).expect("a model");
    let known = Model::named(&Model::all(), "llama-3.1-8b").expect("in the table");
    assert!((found.params / known.params - 1.0).abs() < 0.001, "{}", found.params);
    assert_eq!((found.active, found.kv_heads, found.head_dim, found.tied), (found.params, 8.0, 128.0, false));
    assert_eq!(found.cache_bytes(1.0, 2.0), known.cache_bytes(1.0, 2.0));
    assert_eq!((found.native.as_str(), found.max_context), ("bfloat16", Some(131_072.0)));
    // Two names of one field, as some files have them.
    let more = "\"dtype\": \"bfloat16\", \"num_experts\": 0, \"num_local_experts\": 0, \"torch_dtype\"";
    assert_eq!(read(&with(DENSE, "\"torch_dtype\"", more)), Ok(found.clone()));
    let tied =
        read(&with(DENSE, "{\"model_type\"", "{\"tie_word_embeddings\": true, \"model_type\"")).expect("a model");
    assert_eq!(found.params - tied.params, 128_256.0 * 4096.0);
}

#[test]
fn experts_and_latent_attention_are_counted() {
    let text = r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "vocab_size": 129280,
        "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;
    let found = read(text).expect("a model");
    // 671 billion, 37 active.
    assert!((found.params / 671e9 - 1.0).abs() < 0.005 && (found.active / 37.5e9 - 1.0).abs() < 0.03, "{found:?}");
    assert_eq!((found.latent, found.native.as_str()), (Some(576.0), "fp8"));
    assert!(read(&with(text, "\"num_experts_per_tok\": 8", "\"num_experts_per_tok\": 800")).is_err());
    let lacking = read(&with(text, "\"v_head_dim\": 128", "\"x\": 1")).expect_err("a field is missing");
    assert_eq!(lacking, "it lacks v_head_dim");
}

#[test]
fn windows_are_told_apart_from_full_layers() {
    let depth = |more: &str| {
        let found = read(&with(DENSE, "\"sliding_window\": null", more)).expect("a model");
        (found.full_layers, found.window)
    };
    assert_eq!(depth("\"sliding_window\": null"), (32.0, None));
    assert_eq!(depth("\"sliding_window\": 4096"), (32.0, None), "which layers have it is not said");
    assert_eq!(depth("\"hybrid_layer_pattern\": [0, 1, 1], \"sliding_window\": 4096"), (30.0, Some(4096.0)));
    let mistral = with(DENSE, "\"model_type\": \"llama\"", "\"model_type\": \"mistral\"");
    let mistral = read(&with(&mistral, "\"sliding_window\": null", "\"sliding_window\": 4096")).expect("a model");
    assert_eq!((mistral.full_layers, mistral.window), (0.0, Some(4096.0)));
    assert_eq!(depth("\"sliding_window\": 4096, \"use_sliding_window\": false"), (32.0, None));
    assert_eq!(depth("\"sliding_window\": 1024, \"sliding_window_pattern\": 6"), (5.0, Some(1024.0)));
    let types = |word: &str| format!("\"full_attention\", {}", vec![format!("\"{word}\""); 31].join(", "));
    let list = |word: &str| format!("\"sliding_window\": 128, \"layer_types\": [{}]", types(word));
    assert_eq!(depth(&list("sliding_attention")), (1.0, Some(128.0)));
    assert_eq!(
        depth(&list("chunked_attention").replace("\"sliding_window\": 128", "\"attention_chunk_size\": 8192")),
        (1.0, Some(8192.0))
    );
}

#[test]
fn formats_are_read_from_whatever_names_them() {
    let native = |text: &str| {
        let more = format!("\"quantization_config\": {text}, \"sliding_window\": null");
        read(&with(DENSE, "\"sliding_window\": null", &more)).expect("a model").native
    };
    assert_eq!(native(r#"{"quant_method": "gptq", "bits": 4}"#), "int4");
    assert_eq!(native(r#"{"quant_method": "awq", "bits": 8}"#), "int8");
    assert_eq!(native(r#"{"quant_method": "mxfp4"}"#), "mxfp4");
    assert_eq!(native(r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#), "4bit");
    assert_eq!(native(r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#), "nvfp4");
    let groups = r#"{"quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}"#;
    assert_eq!(native(groups), "fp8");
    assert_eq!(native(r#"{"quant_method": "new"}"#), "bfloat16", "an unknown one is what the weights are kept in");
}

#[test]
fn what_cannot_be_is_refused_by_its_name() {
    let error = |from: &str, to: &str| read(&with(DENSE, from, to)).expect_err("refused");
    let lines = [
        error("\"hidden_size\": 4096", "\"x\": 1"),
        error("\"hidden_size\": 4096", "\"hidden_size\": 0"),
        error("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 32.5"),
        error("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1e300"),
        error("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 90000"),
        error("\"num_hidden_layers\": 32", "\"num_hidden_layers\": -32"),
        error("\"num_hidden_layers\": 32", "\"num_hidden_layers\": \"many\""),
        error("\"intermediate_size\": 14336", "\"ssm_state_size\": 128"),
        error("\"intermediate_size\": 14336", "\"x\": 1"),
        error("\"sliding_window\": null", "\"layer_types\": [\"full_attention\"]"),
        error("\"sliding_window\": null", "\"is_encoder_decoder\": true"),
        error("\"sliding_window\": null", "\"num_experts\": 8"),
    ];
    insta::assert_snapshot!("config_refused", lines.join("\n"));
}

proptest! {
    #[test]
    fn any_numbers_give_a_possible_model_or_an_error(
        sizes in prop::collection::vec(prop_oneof![Just(0.0), 1.0..200_000.0f64, Just(f64::MAX), Just(-1.0)], 12),
        is_whole in any::<bool>(),
    ) {
        let at = |place: usize| Some(if is_whole { sizes[place].round() } else { sizes[place] });
        let file = ConfigFile {
            hidden_size: at(0),
            num_hidden_layers: at(1),
            num_attention_heads: at(2),
            num_key_value_heads: at(3),
            intermediate_size: at(4),
            vocab_size: at(5),
            num_experts: at(6),
            num_experts_per_tok: at(7),
            moe_intermediate_size: at(8),
            sliding_window: at(9),
            sliding_window_pattern: at(10),
            full_attention_interval: at(11),
            ..ConfigFile::default()
        };
        if let Ok(found) = model("any", &file) {
            prop_assert!(found.check().is_ok());
            prop_assert!(found.full_layers <= found.layers && found.cache_bytes(1e6, 2.0).is_finite());
        }
    }
}

#[test]
fn experts_of_a_narrower_width_and_dense_layers_of_their_own_are_counted() {
    let text = r#"{"hidden_size": 1000, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 100,
        "intermediate_size": 300, "dense_intermediate_size": 3000, "first_k_dense_replace": 1, "moe_intermediate_size": 300,
        "num_experts": 10, "num_experts_per_token": 2, "num_shared_experts": 1, "routed_expert_hidden_size": 500, "vocab_size": 1000,
        "linear_attn_config": {"full_attn_layers": [4], "num_heads": 8, "head_dim": 100, "kda_layers": [1, 2, 3]}}"#;
    let found = read(text).expect("a model");
    let embeddings = 2.0 * 1000.0 * 1000.0;
    let attention = 1000.0 * 100.0 * 32.0 + 3.0 * 1000.0 * 5.0 * 800.0;
    let expert = 3.0 * 500.0 * 300.0;
    let sparse = 3.0 * (10.0 * expert + 3.0 * 1000.0 * 300.0 + 2.0 * 1000.0 * 500.0 + 1000.0 * 10.0);
    assert_eq!(found.params, embeddings + attention + sparse + 3.0 * 1000.0 * 3000.0);
    assert_eq!(found.active, found.params - 3.0 * 8.0 * expert);
    assert_eq!((found.full_layers, found.layers, found.window), (1.0, 4.0, None));
}
