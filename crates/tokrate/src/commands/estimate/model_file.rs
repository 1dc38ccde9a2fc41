//! `--model` as the path of a file that describes a model: a `config.json`, a folder that holds one, or a GGUF file.
//!
//! Invariant: of a large file only the beginning is read; nothing is fetched.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tokrate_estimate::Asked;
use tokrate_estimate::hardware::GIB;
use tokrate_estimate::model_file::config::{ConfigFile, model};
use tokrate_estimate::model_file::gguf::{Header, HeaderError, Weights};
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// How much of a GGUF file is read at first: of most, all metadata. It is four times as much as long as that is not enough.
const FIRST_BYTES: u64 = 4 << 20;
/// The longest header that is read: vocabularies of a million words are a tenth of it.
const MOST_HEADER_BYTES: u64 = 256 << 20;

/// The question with the facts of its model's file, where `model` is the path of one; else as it is.
///
/// # Errors
/// The file cannot be read or understood, or the fact that it lacks.
pub fn with_file(asked: Asked) -> Result<Asked> {
    let path = Path::new(&asked.model);
    let ends = |end: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
    let known = match () {
        () if path.is_dir() => of_config(&path.join("config.json")),
        () if ends("json") => of_config(path),
        // Benchmarks name models by their files, which need not be here.
        () if ends("gguf") && path.exists() => of_gguf(path),
        () => return Ok(asked),
    };
    let (model, bytes) = known.with_context(|| {
        format!("read the model {} (or name one of the table, or give --params-b with a name)", path.display())
    })?;
    let weight_size_gib =
        asked.weight_size_gib.or(bytes.filter(|_| asked.weight_precision.is_none()).map(|it| it / GIB));
    Ok(Asked { model: model.name.clone(), weight_size_gib, known_model: Some(model), ..asked })
}

type Known = (tokrate_estimate::model::Model, Option<f64>);

fn of_config(path: &Path) -> Result<Known> {
    let text = reading::text_of(path, MAX_SETTINGS_BYTES)?;
    let file: ConfigFile = serde_json::from_str(&text)?;
    // A file of this name lies in the folder of its model.
    let absolute = path.canonicalize()?;
    let folder =
        absolute.parent().and_then(Path::file_name).filter(|_| path.file_name() == Some("config.json".as_ref()));
    let name = folder.or(path.file_stem()).unwrap_or_default().to_string_lossy().into_owned();
    Ok((model(&name, &file).map_err(|error| anyhow!("{error}"))?, None))
}

fn of_gguf(path: &Path) -> Result<Known> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?;
    let mut most = FIRST_BYTES;
    let header = loop {
        let missing = most - bytes.len() as u64;
        let is_whole = (&mut file).take(missing).read_to_end(&mut bytes)? as u64 == missing;
        match Header::read(&bytes) {
            Ok(header) => break header,
            Err(HeaderError::Truncated) if is_whole && most < MOST_HEADER_BYTES => most *= 4,
            Err(HeaderError::Truncated) if is_whole => bail!("its header is longer than {MOST_HEADER_BYTES} bytes"),
            Err(HeaderError::Truncated) => bail!("it ends within its header; fetch the file again"),
            Err(HeaderError::Invalid(message)) => bail!(message),
        }
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let Weights { model, bytes } = header.model(&name).map_err(|error| anyhow!("{error}"))?;
    Ok((model, Some(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &Path) -> Asked {
        Asked { model: path.display().to_string(), ..Asked::default() }
    }

    const CONFIG: &str = r#"{"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

    #[test]
    fn a_config_is_found_by_its_path_and_by_its_folder() {
        let folder = std::env::temp_dir().join(format!("tokrate-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("config.json");
        std::fs::write(&path, CONFIG).expect("written");
        for shown in [&folder, &path] {
            let found = with_file(asked(shown)).expect("read");
            assert!(found.known_model.is_some_and(|model| (model.params / 8.03e9 - 1.0).abs() < 0.001));
            assert!(found.model.starts_with("tokrate-config-"), "{}", found.model);
        }
        std::fs::write(&path, "{\"hidden_size\": 4096}").expect("written");
        let error = format!("{:#}", with_file(asked(&path)).expect_err("a fact is missing"));
        assert!(error.contains("it lacks num_hidden_layers") && error.contains("--params-b"), "{error}");
        std::fs::write(&path, "{\"hidden_size\": [4096]}").expect("written");
        let error = format!("{:#}", with_file(asked(&path)).expect_err("a list"));
        assert!(error.contains("line 1 column"), "{error}");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(with_file(asked(&path)).is_err(), "no such file");
    }

    #[test]
    fn a_file_that_is_no_model_is_refused_and_a_name_is_left_alone() {
        let path = std::env::temp_dir().join(format!("tokrate-{}.gguf", std::process::id()));
        for (bytes, expected) in
            [(&b"PK\x03\x04"[..], "does not begin as a GGUF"), (b"GGUF\x03\0\0\0", "ends within its header")]
        {
            std::fs::write(&path, bytes).expect("written");
            let error = format!("{:#}", with_file(asked(&path)).expect_err("no header"));
            assert!(error.contains(expected), "{error}");
        }
        std::fs::remove_file(&path).expect("removed");
        for name in ["llama-3.3-70b", "Qwen3-8B-Q4_K_M.gguf"] {
            assert_eq!(with_file(asked(Path::new(name))).expect("a name").model, name);
        }
    }
}
