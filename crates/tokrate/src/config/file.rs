//! `tokrate.toml`: settings that stay the same from run to run. Unknown keys are refused, with their place, and so is a file that
//! merely lies there and names addresses, keys or commands, until its user trusts it.

use super::quantity::Share;
use super::reading::{self, SETTINGS_BYTES_MOST};
use super::trust::{DEFAULT_NAME, Found};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The whole file.
#[derive(Deserialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Settings of `tokrate bench`.
    #[serde(default)]
    pub bench: Bench,
    /// Settings of `tokrate gateway`.
    pub gateway: Option<super::gateway::rows::GatewayRow>,
    /// Where it was read from.
    #[serde(skip)]
    pub path: PathBuf,
}

/// `[bench]`: the keys are the flags of the command line with `_` for `-`; what is asked of one run alone, such as where its results
/// go, has none.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bench {
    pub targets: Option<Vec<String>>,
    pub dialect: Option<String>,
    pub url: Option<String>,
    pub model: Option<String>,
    pub key_env: Option<String>,
    pub key_file: Option<PathBuf>,
    pub key_cmd: Option<String>,
    #[serde(alias = "header")]
    pub headers: Option<Vec<String>>,
    pub http: Option<String>,
    pub new_connections: Option<bool>,
    pub ca_file: Option<PathBuf>,
    pub insecure: Option<bool>,
    pub server_metrics: Option<String>,
    pub region: Option<String>,
    pub concurrency: Option<Vec<u32>>,
    pub rate: Option<Vec<f64>>,
    pub arrivals: Option<String>,
    pub burstiness: Option<f64>,
    pub ramp: Option<String>,
    pub ramp_rate: Option<String>,
    pub ramp_growth: Option<String>,
    pub trace: Option<PathBuf>,
    pub trace_speed: Option<f64>,
    pub trace_limit: Option<u64>,
    pub sessions: Option<Vec<u32>>,
    pub turns: Option<u32>,
    pub think: Option<String>,
    pub max_in_flight: Option<u32>,
    pub refine: Option<u32>,
    pub search: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Share>"))]
    pub slo_share: Option<Share>,
    pub max_load: Option<f64>,
    pub max_requests: Option<u64>,
    pub requests: Option<u64>,
    pub duration: Option<String>,
    pub warmup: Option<u64>,
    pub rounds: Option<u32>,
    pub seed: Option<u64>,
    pub workers: Option<u32>,
    pub workload: Option<Vec<String>>,
    pub input_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub shared_prefix: Option<u32>,
    pub prompts: Option<PathBuf>,
    pub prompts_whole: Option<bool>,
    pub no_stream: Option<bool>,
    pub no_usage: Option<bool>,
    pub ignore_eos: Option<bool>,
    pub max_tokens_field: Option<bool>,
    pub temperature: Option<f64>,
    pub body: Option<Vec<String>>,
    pub connect_timeout: Option<String>,
    pub idle_timeout: Option<String>,
    pub timeout: Option<String>,
    pub max_wait: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Share>"))]
    pub max_failures: Option<Share>,
    pub strict: Option<bool>,
    pub no_probe: Option<bool>,
    pub keep_going: Option<bool>,
    pub calibration: Option<String>,
    pub no_backoff: Option<bool>,
    pub max_cost_usd: Option<f64>,
    pub price_input: Option<f64>,
    pub price_output: Option<f64>,
    pub slo: Option<Vec<String>>,
    pub assert: Option<Vec<String>>,
    pub baseline: Option<PathBuf>,
    pub ignore: Option<Vec<String>>,
    pub threshold: Option<String>,
    pub no_html: Option<bool>,
    pub scorecard: Option<bool>,
    pub wide: Option<bool>,
    pub quiet: Option<bool>,
}

impl File {
    /// Reads the named file, or the default one if it is there and needs no trust or has it.
    pub fn read(named: Option<&Path>) -> Result<File> {
        let Some(path) = named else {
            return File::of_folder("name it by hand: --config tokrate.toml");
        };
        let text = reading::text_of(path, SETTINGS_BYTES_MOST)
            .with_context(|| format!("read the settings file {}; check --config", path.display()))?;
        File::parse(path, &text)
    }

    /// The default file, if it is there; `instead` is what can be typed in place of trusting it.
    pub fn of_folder(instead: &str) -> Result<File> {
        let path = Path::new(DEFAULT_NAME);
        if !path.is_file() {
            return Ok(File::default());
        }
        let found = Found::read(path)?;
        let file = File::parse(path, &found.text)?;
        found.ensure_trusted(instead)?;
        Ok(file)
    }

    /// Understands the text of a file.
    pub fn parse(path: &Path, text: &str) -> Result<File> {
        // toml's message names line and column and shows the line.
        let mut file: File =
            toml::from_str(text).with_context(|| format!("understand the settings file {}", path.display()))?;
        file.path = path.to_path_buf();
        Ok(file)
    }

    /// How a key of `[bench]` is shown in messages.
    pub fn key(&self, name: &str) -> String {
        format!("bench.{name} in {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let error = toml::from_str::<File>("[bench]\nmodel = \"m\"\nconcurency = [1]\n").expect_err("misspelt");
        let message = error.to_string();
        assert!(message.contains("line 3") && message.contains("concurency"), "{message}");
    }
}
