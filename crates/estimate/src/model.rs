//! Facts of models and what follows from them: weights streamed, experts touched, cache read, arithmetic of a prompt.

use crate::csv;
use crate::names;

/// The table that is embedded.
const TABLE: &str = include_str!("../data/models.csv");

/// A model.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    /// Name in the table, or as asked where the facts came with the question.
    pub name: String,
    /// Other names, separated by `|`.
    pub aliases: String,
    /// Parameters.
    pub params: f64,
    /// Parameters that a token uses.
    pub active: f64,
    /// Layers.
    pub layers: f64,
    /// Width of the residual stream.
    pub hidden: f64,
    /// Query heads.
    pub heads: f64,
    /// Heads of keys and values.
    pub kv_heads: f64,
    /// Width of a head.
    pub head_dim: f64,
    /// Words of the vocabulary.
    pub vocab: f64,
    /// Experts of a layer, and how many of them a token uses; zero for a dense model.
    pub experts: f64,
    /// Experts a token uses.
    pub experts_per_token: f64,
    /// Layers whose cache grows with the whole context.
    pub full_layers: f64,
    /// Positions that the sliding-window layers keep; `None` when the other layers keep a constant state.
    pub window: Option<f64>,
    /// Width of the compressed cache of multi-head latent attention, with the rotary part.
    pub latent: Option<f64>,
    /// Whether input and output share one embedding.
    pub tied: bool,
    /// The format the weights were published in.
    pub native: String,
    /// The longest context, tokens.
    pub max_context: Option<f64>,
    /// Where the facts are from, and when they were looked up.
    pub source: String,
}

impl Model {
    /// All models of the embedded table.
    pub fn all() -> Vec<Model> {
        csv::rows(TABLE).iter().filter_map(Model::of_row).collect()
    }

    fn of_row(row: &csv::Row) -> Option<Model> {
        let number = |column: &str| row.number(column);
        let params = number("params_b")? * 1e9;
        let layers = number("layers")?;
        let latent = number("kv_lora_rank").map(|rank| rank + number("qk_rope_head_dim").unwrap_or(0.0));
        let (experts, used) = (number("experts").unwrap_or(0.0), number("experts_per_token").unwrap_or(0.0));
        // Three matrices an expert: gate, up, down.
        let expert_params = 3.0
            * number("hidden")?
            * number("moe_ffn").unwrap_or(0.0)
            * experts
            * (layers - number("dense_layers").unwrap_or(0.0));
        let idle_share = if experts > 0.0 { 1.0 - used / experts } else { 0.0 };
        Some(Model {
            name: row.text("name").to_owned(),
            aliases: row.text("aliases").to_owned(),
            params,
            active: number("active_params_b")
                .map_or((params - expert_params * idle_share).max(params * 0.01), |b| b * 1e9),
            layers,
            hidden: number("hidden")?,
            heads: number("heads")?,
            kv_heads: number("kv_heads")?,
            head_dim: number("head_dim")?,
            vocab: number("vocab")?,
            experts,
            experts_per_token: used,
            full_layers: number("full_attention_layers").unwrap_or(layers),
            window: number("sliding_window"),
            latent,
            tied: row.text("tie_embeddings") == "True",
            native: row.text("native_weight_dtype").to_owned(),
            max_context: number("max_context"),
            source: format!("{}; {} ({})", row.text("params_note"), row.text("source"), row.text("date")),
        })
    }

    /// A model by a name of it.
    ///
    /// # Errors
    /// The nearest names, where none fits.
    pub fn named(models: &[Model], name: &str) -> Result<Model, String> {
        let exact = models.iter().position(|model| model.name.eq_ignore_ascii_case(name.trim()));
        match exact.or_else(|| names::find(name, models.iter().map(|model| model.aliases.as_str()))) {
            Some(place) => Ok(models[place].clone()),
            None => {
                let near =
                    names::nearest(name, models.iter().map(|model| (model.name.as_str(), model.aliases.as_str())));
                let near = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
                Err(format!("unknown model {name:?}{near}; or give params_b (and active_params_b for experts)"))
            }
        }
    }

    /// A model of which only the numbers of parameters are known, with the shape that dense models of that size have:
    /// width 128 (P/10^9 · 1000)^0.4 within a factor of 1.3 of those in the table, layers P/(12 h²), 8 heads of keys and values.
    pub fn of_params(name: &str, params: f64, active: Option<f64>) -> Model {
        let hidden = (112.0 * (params / 1e6).powf(0.4)).clamp(512.0, 16_384.0);
        let layers = (active.unwrap_or(params).max(params / 8.0) / (12.0 * hidden * hidden)).clamp(8.0, 130.0).round();
        let experts = if active.is_some_and(|active| active < params) { 128.0 } else { 0.0 };
        Model {
            name: name.to_owned(),
            aliases: String::new(),
            params,
            active: active.unwrap_or(params).min(params),
            layers,
            hidden,
            heads: hidden / 128.0,
            kv_heads: 8.0,
            head_dim: 128.0,
            vocab: 128_000.0,
            experts,
            experts_per_token: if experts > 0.0 { 8.0 } else { 0.0 },
            full_layers: layers,
            window: None,
            latent: None,
            tied: params < 4e9,
            native: String::new(),
            max_context: None,
            source: "parameters as given; the shape of a usual model of that size".to_owned(),
        }
    }

    /// Checks the facts.
    ///
    /// # Errors
    /// Which fact is impossible.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("impossible model {}: {what}", self.name));
        let positive = [self.params, self.active, self.layers, self.hidden, self.heads, self.kv_heads, self.head_dim];
        if positive.iter().any(|value| !(value.is_finite() && *value > 0.0)) {
            return wrong("parameters, layers and widths must be positive");
        }
        if self.active > self.params * 1.001 {
            return wrong("more active parameters than parameters");
        }
        if self.params > 1e14 {
            return wrong("more than 100,000 billion parameters");
        }
        Ok(())
    }

    /// Whether only some experts work on a token.
    pub fn sparse(&self) -> bool {
        self.experts > self.experts_per_token && self.experts_per_token > 0.0 && self.active < self.params
    }

    /// Parameters of all experts that routing chooses among: from P = D + X and A = D + X K/E follows X = (P - A)/(1 - K/E).
    pub fn expert_params(&self) -> f64 {
        if !self.sparse() {
            return 0.0;
        }
        ((self.params - self.active) / (1.0 - self.experts_per_token / self.experts)).min(self.params)
    }

    /// Width of an expert's matrices: X = 3 h w E L, over all layers. Infinite of a dense model.
    pub fn expert_width(&self) -> f64 {
        let each = 3.0 * self.hidden * self.experts * self.layers;
        if self.sparse() && each > 0.0 { self.expert_params() / each } else { f64::INFINITY }
    }

    /// Expected share of the experts that `tokens` tokens of one step touch: u = 1 - (1 - K/E)^(B^s). With `skew` s = 1
    /// routing is uniform, an upper bound; real routing is skewed (s < 1).
    pub fn experts_touched(&self, tokens: f64, skew: f64) -> f64 {
        if !self.sparse() {
            return 1.0;
        }
        1.0 - (1.0 - self.experts_per_token / self.experts).powf(tokens.max(1.0).powf(skew))
    }

    /// Parameters outside the experts that a decode step streams from memory: without the input embedding, of which a token
    /// reads one row; a tied one is read as the output's.
    pub fn dense_streamed(&self) -> f64 {
        let embedding = if self.tied { 0.0 } else { self.vocab * self.hidden };
        (self.params - self.expert_params() - embedding).max(self.params * 0.01)
    }

    /// How many times the mean the busiest of `devices` devices streams, where whole experts are spread over them and a share
    /// `touched` of all is used: E/n experts a device, each used at random, so that the largest of n binomial numbers is
    /// 1 + sqrt(2 ln n (1-u)/(u E/n)) times the mean, and at most all of them.
    pub fn imbalance(&self, devices: f64, touched: f64) -> f64 {
        if devices <= 1.0 || !self.sparse() || touched <= 0.0 {
            return 1.0;
        }
        let each = (self.experts / devices).max(1.0);
        let spread = 2.0 * devices.ln() * (1.0 - touched).max(0.0) / (touched * each);
        (1.0 + spread.sqrt()).min(1.0 / touched)
    }

    /// Bytes of cache that one sequence of `context` tokens holds and a decode step reads, at `bytes` a value.
    /// Grouped and multi-head attention: 2 kv_heads head_dim a layer and token; latent attention: kv_lora_rank + rope_dim;
    /// sliding-window layers min(context, window) tokens; linear layers a constant state, left out.
    pub fn cache_bytes(&self, context: f64, bytes: f64) -> f64 {
        let width = self.latent.unwrap_or(2.0 * self.kv_heads * self.head_dim);
        let windowed =
            self.window.map_or(0.0, |window| (self.layers - self.full_layers).max(0.0) * context.min(window));
        width * bytes * (self.full_layers * context + windowed)
    }

    /// FLOPs of a prompt of `tokens` tokens: 2 A S for the weights, 4 L heads head_dim S²/2 for causal attention. Neither the
    /// input embedding nor the output's is multiplied: only the last token of a prompt needs logits.
    pub fn prompt_flops(&self, tokens: f64) -> f64 {
        let embeddings = self.vocab * self.hidden * if self.tied { 1.0 } else { 2.0 };
        let weights = 2.0 * (self.active - embeddings).max(self.active * 0.1) * tokens;
        let windowed =
            self.window.map_or(0.0, |window| (self.layers - self.full_layers).max(0.0) * tokens.min(2.0 * window));
        weights + 2.0 * self.heads * self.head_dim * tokens * (self.full_layers * tokens + windowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> Model {
        Model::named(&Model::all(), name).expect("in the table")
    }

    #[test]
    fn every_row_of_the_table_is_possible_and_found_by_its_name() {
        let all = Model::all();
        for model in &all {
            model.check().expect("a row of the table");
            let found = Model::named(&all, &model.name).expect("by its own name");
            assert_eq!(found.name, model.name);
        }
    }

    #[test]
    fn cache_bytes_are_those_computed_by_hand() {
        // Llama 3.1 8B: 2 · 8 heads · 128 · 2 bytes · 32 layers = 131,072 bytes a token.
        assert_eq!(model("llama-3.1-8b").cache_bytes(1.0, 2.0), 131_072.0);
        // Llama 2 7B, all heads: 524,288.
        assert_eq!(model("llama-2-7b").cache_bytes(1.0, 2.0), 524_288.0);
        // DeepSeek V3: (512 + 64) · 2 · 61 = 70,272.
        assert_eq!(model("deepseek-v3").cache_bytes(1.0, 2.0), 70_272.0);
        // Gemma 3 27B: 10 full layers, 52 of a window of 1,024: 8,192 bytes a layer and token.
        assert_eq!(model("gemma-3-27b-it").cache_bytes(2048.0, 2.0), 8192.0 * (10.0 * 2048.0 + 52.0 * 1024.0));
    }

    #[test]
    fn experts_and_embeddings_count_as_by_hand() {
        let mixtral = model("mixtral-8x7b");
        assert!((mixtral.experts_touched(1.0, 1.0) - 0.25).abs() < 1e-12);
        assert!((mixtral.experts_touched(2.0, 1.0) - 0.4375).abs() < 1e-12);
        // One token streams what it uses, without the input embedding of 32,000 · 4,096.
        let one = mixtral.dense_streamed() + mixtral.expert_params() * mixtral.experts_touched(1.0, 1.0);
        assert!((one - (12.88e9 - 131_072_000.0)).abs() < 1e6);
        // 45.1e9 weights of experts over 3 · 4,096 · 8 · 32: 14,336 wide.
        assert!((mixtral.expert_width() / 14_336.0 - 1.0).abs() < 0.01, "{}", mixtral.expert_width());
        let llama = model("llama-3.1-8b");
        assert_eq!(llama.expert_width(), f64::INFINITY);
        assert!((llama.dense_streamed() - (8.03e9 - 128_256.0 * 4096.0)).abs() < 1.0);
        assert_eq!((llama.expert_params(), llama.imbalance(8.0, 0.5)), (0.0, 1.0));
        assert_eq!(model("qwen3-0.6b").dense_streamed(), 0.6e9);
        // 128 experts on 8 devices, half of them used: 1 + sqrt(2 ln 8 · 0.5/(0.5 · 16)) = 1.51; all used: balanced.
        let qwen = model("qwen3-235b-a22b");
        assert!((qwen.imbalance(8.0, 0.5) - 1.5098).abs() < 1e-3);
        assert_eq!((qwen.imbalance(8.0, 1.0), qwen.imbalance(1.0, 0.1)), (1.0, 1.0));
    }

    #[test]
    fn prompt_flops_are_those_computed_by_hand() {
        // 2 · (8.03e9 - 2 · 525,336,576) · 1,000 + 2 · 32 · 128 · 1,000 · 32 · 1,000.
        let expected = 2.0 * (8.03e9 - 2.0 * 525_336_576.0) * 1000.0 + 8192.0 * 32.0 * 1e6;
        assert!((model("llama-3.1-8b").prompt_flops(1000.0) / expected - 1.0).abs() < 1e-12);
    }

    #[test]
    fn an_unknown_model_is_refused_with_near_names() {
        let error = Model::named(&Model::all(), "llama-9-8b").expect_err("unknown");
        assert!(error.contains("nearest") && error.contains("params_b"), "{error}");
    }
}
