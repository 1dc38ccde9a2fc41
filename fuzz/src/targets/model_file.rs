//! Files that describe models: a `config.json`, and the header of a GGUF file.
//!
//! Invariant: what is read is a possible model with finite sizes; everything else is refused without a panic.

use crate::text;
use tokrate_estimate::model::Model;
use tokrate_estimate::model_file::{config, gguf};

/// Panics if a property does not hold.
pub fn run(bytes: &[u8]) {
    if let Ok(Ok(found)) = gguf::Header::read(bytes).map(|header| header.model("file")) {
        check(&found.model);
        assert!(found.bytes.is_finite() && found.bytes >= 0.0);
    }
    if let Ok(file) = serde_json::from_str::<config::ConfigFile>(text(bytes))
        && let Ok(model) = config::model("file", &file)
    {
        check(&model);
    }
}

fn check(model: &Model) {
    model.check().expect("checked when it was read");
    assert!(model.active <= model.params * 1.001 && model.full_layers <= model.layers);
    assert!(
        model.cache_bytes(1e6, 2.0).is_finite()
            && model.dense_streamed().is_finite()
            && model.experts_touched(8.0, 1.0).is_finite()
    );
}
