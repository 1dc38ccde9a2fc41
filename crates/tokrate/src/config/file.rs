//! `tokrate.toml`: settings that stay the same from run to run. Unknown keys are refused, with their place, and so is a file that
//! merely lies there and names addresses, keys or commands, until its user trusts it.

use super::length::{Length, Prefix};
use super::monitor::rows::RECEIVER_KINDS;
use super::quantity::Share;
use super::{environment, lists};
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use tokrate_judge::nearest;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};
use tokrate_targets::trust::{DEFAULT_NAME, SettingsFile};

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
    /// Settings of `tokrate monitor`.
    pub monitor: Option<super::monitor::rows::MonitorRow>,
    /// Where it was read from.
    #[serde(skip)]
    pub path: PathBuf,
    /// Its text.
    #[serde(skip)]
    pub text: String,
}

/// `[bench]`: the keys are the flags of the command line with `_` for `-`. Where a flag takes a list, a single value may stand alone.
#[derive(Deserialize, Debug, Default, Clone)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bench {
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub targets: Option<Vec<String>>,
    pub dialect: Option<String>,
    pub url: Option<String>,
    pub model: Option<String>,
    pub key_env: Option<String>,
    pub key_file: Option<PathBuf>,
    pub key_cmd: Option<String>,
    #[serde(rename = "header", alias = "headers", default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub headers: Option<Vec<String>>,
    pub http: Option<String>,
    pub new_connections: Option<bool>,
    pub tls_resume: Option<bool>,
    pub lora: Option<String>,
    pub lora_skew: Option<f64>,
    pub connections: Option<u32>,
    pub streams: Option<u32>,
    pub unix_socket: Option<PathBuf>,
    pub proxy: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub insecure: Option<bool>,
    pub server_metrics: Option<String>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub gpu_metrics: Option<Vec<String>>,
    pub metrics_every: Option<String>,
    pub region: Option<String>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<u32>>"))]
    pub concurrency: Option<Vec<u32>>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<f64>>"))]
    pub rate: Option<Vec<f64>>,
    pub arrivals: Option<String>,
    pub burstiness: Option<f64>,
    pub ramp: Option<String>,
    pub ramp_rate: Option<String>,
    pub ramp_growth: Option<String>,
    pub trace: Option<PathBuf>,
    pub clients: Option<PathBuf>,
    pub clients_from: Option<String>,
    pub clients_rate: Option<f64>,
    pub agents: Option<PathBuf>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<u32>>"))]
    pub agents_at_once: Option<Vec<u32>>,
    pub trace_speed: Option<f64>,
    pub trace_limit: Option<u64>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<u32>>"))]
    pub sessions: Option<Vec<u32>>,
    pub turns: Option<u32>,
    pub tool_turns: Option<u32>,
    pub tool_time: Option<String>,
    pub tool_tokens: Option<String>,
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
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub workload: Option<Vec<String>>,
    pub task: Option<String>,
    pub tools: Option<PathBuf>,
    pub schema: Option<PathBuf>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<u32>>"))]
    pub batch: Option<Vec<u32>>,
    pub voice: Option<String>,
    pub audio_format: Option<String>,
    pub stream_format: Option<String>,
    pub sample_rate: Option<u32>,
    pub audio: Option<PathBuf>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<f64>>"))]
    pub audio_seconds: Option<Vec<f64>>,
    pub transcript_format: Option<String>,
    pub output_modality: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Length>"))]
    pub input_tokens: Option<Length>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Length>"))]
    pub output_tokens: Option<Length>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Prefix>"))]
    pub shared_prefix: Option<Prefix>,
    pub prefix_pool: Option<u32>,
    pub prefix_skew: Option<f64>,
    pub prompts: Option<PathBuf>,
    pub column: Option<String>,
    pub answer_column: Option<String>,
    pub prompts_whole: Option<bool>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<u32>>"))]
    pub images: Option<Vec<u32>>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub image_size: Option<Vec<String>>,
    pub image_format: Option<String>,
    pub images_from: Option<PathBuf>,
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Share>"))]
    pub images_shared: Option<Share>,
    pub image_pool: Option<u32>,
    pub partial_images: Option<u32>,
    pub poll: Option<String>,
    pub keep: Option<bool>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub audio_input: Option<Vec<String>>,
    pub no_stream: Option<bool>,
    pub no_usage: Option<bool>,
    pub ignore_eos: Option<bool>,
    pub max_tokens_field: Option<bool>,
    pub temperature: Option<f64>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
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
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub until: Option<Vec<String>>,
    pub max_cost_usd: Option<f64>,
    pub price_input: Option<f64>,
    pub price_output: Option<f64>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub price_of: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub slo: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub assert: Option<Vec<String>>,
    pub baseline: Option<PathBuf>,
    #[serde(default, deserialize_with = "lists::one_or_many")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::OneOrMany<String>>"))]
    pub ignore: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lists::number_or_text")]
    #[cfg_attr(test, schemars(with = "Option<super::reference::forms::Share>"))]
    pub threshold: Option<String>,
    pub save_baseline: Option<PathBuf>,
    pub json: Option<PathBuf>,
    pub jsonl: Option<PathBuf>,
    pub keep_unknown: Option<bool>,
    pub chunks: Option<PathBuf>,
    pub slice: Option<String>,
    pub html: Option<PathBuf>,
    pub no_html: Option<bool>,
    pub csv: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
    pub vllm_json: Option<PathBuf>,
    pub junit: Option<PathBuf>,
    pub badge: Option<PathBuf>,
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
        let text = reading::text_of(path, MAX_SETTINGS_BYTES)
            .with_context(|| format!("read the settings file {}; check --config", path.display()))?;
        File::parse(path, &text)
    }

    /// The default file, if it is there; `instead` is what can be typed in place of trusting it.
    pub fn of_folder(instead: &str) -> Result<File> {
        let path = Path::new(DEFAULT_NAME);
        if !path.is_file() {
            return Ok(File::default());
        }
        let found = SettingsFile::read(path)?;
        let file = File::parse(path, &found.text)?;
        found.ensure_trusted(environment::data_folder().as_deref(), instead)?;
        Ok(file)
    }

    /// Understands the text of a file.
    pub fn parse(path: &Path, text: &str) -> Result<File> {
        let mut text = text.to_owned();
        loop {
            let error = match toml::from_str::<File>(&text) {
                Ok(file) => return Ok(File { path: path.to_path_buf(), text, ..file }),
                Err(error) => error,
            };
            // toml's message names line and column and shows the line.
            text = respelled(&text, &error).ok_or_else(|| {
                anyhow!("understand the settings file {}: {}", path.display(), parse_error_text(&error))
            })?;
        }
    }

    /// How a key of `[bench]` is shown in messages.
    pub fn key(&self, name: &str) -> String {
        format!("bench.{name} in {}", self.path.display())
    }
}

/// The text with a key spelled as in the file that was spelled as its flag is, with `-` for `_`; `None` if the error is another. The
/// text stays as long, so that every place in it keeps its line and column.
fn respelled(text: &str, error: &toml::de::Error) -> Option<String> {
    let (typed, known) = unknown_key(error)?;
    let meant = typed.replace('-', "_");
    let place = error.span()?;
    let written = text.get(place.clone())?;
    let is_key = written.trim_matches(['"', '\'']) == typed;
    if meant == typed || !is_key || !known.contains(&meant.as_str()) {
        return None;
    }
    Some([&text[..place.start], &written.replace('-', "_"), &text[place.end..]].concat())
}

/// The key that is not known here, and those that are.
fn unknown_key(error: &toml::de::Error) -> Option<(&str, Vec<&str>)> {
    let unknown = error.message().strip_prefix("unknown field `");
    let (typed, known) = unknown.and_then(|rest| rest.split_once("`, expected "))?;
    Some((typed, known.split('`').skip(1).step_by(2).collect()))
}

/// The message, with the nearest key in place of all of them where one is not known.
fn parse_error_text(error: &toml::de::Error) -> String {
    let shown = error.to_string();
    if error.message() == "missing field `kind`" {
        let hint =
            "write what kind of receiver it is, such as kind = \"webhook\" (also slack, alertmanager, email, command)";
        return shown.trim_end().replace(error.message(), &format!("it has no `kind`: {hint}"));
    }
    let Some((typed, known)) = unknown_key(error) else { return shown.trim_end().to_owned() };
    let (near, shown) = match (meant(typed, &known), &nearest(typed, &known)[..]) {
        (Some(meant), _) => (format!("; {meant}"), without_value(&shown)),
        (None, []) => ("; docs/configuration.md lists those that there are".to_owned(), shown),
        (None, near) => (format!("; did you mean {}?", near.join(" or ")), shown),
    };
    shown.trim_end().replace(error.message(), &format!("there is no key `{typed}` here{near}"))
}

/// The message without what stands behind `=` in the line that it shows, which may be a key or an address that is one.
fn without_value(shown: &str) -> String {
    let lines = shown.lines().map(|line| match line.split_once('=') {
        Some((before, _)) if before.trim_start().starts_with(|first: char| first.is_ascii_digit()) => {
            format!("{before}= …")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// What a key means that other programs have, where a table has these `known` ones.
fn meant(typed: &str, known: &[&str]) -> Option<String> {
    let has = |key: &str| known.contains(&key);
    // The keys of a receiver of alerts.
    if has("kind") && has("url_env") && RECEIVER_KINDS.contains(&typed) {
        let rest = if typed == "email" { "url = \"smtps://HOST\", from and to" } else { "url = \"…\" (or url_env)" };
        return Some(format!("write kind = \"{typed}\" and {rest}"));
    }
    let is_key = matches!(typed, "key" | "api_key" | "apikey" | "token" | "password" | "secret");
    if is_key && has("key_env") {
        return Some(
            "keys do not stand in this file; name where one is: key_env = \"VARIABLE\", key_file or key_cmd".to_owned(),
        );
    }
    let instead = match typed {
        "base_url" | "endpoint" | "address" | "host" => "url",
        "interval" | "cadence" | "frequency" | "schedule" => "slots",
        "budget" => "usd_per_month",
        "db" | "store" => "database",
        "region" | "location" => "place",
        // What an alias had in version 0.1.
        "second_look" => "hold_share",
        _ => return None,
    };
    has(instead).then(|| format!("what it means is called `{instead}` here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_races_that_has_another_name_now_is_refused_with_that_name() {
        let text = "[gateway.aliases.auto]\nlanes = [\"a\"]\nmode = \"race\"\nsecond_look = \"1s\"\n";
        let refused = File::parse(Path::new("t.toml"), text).expect_err("an old name");
        let refused = format!("{refused:#}");
        assert!(refused.contains("no key `second_look` here; what it means is called `hold_share` here"), "{refused}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let refused = |text: &str| File::parse(Path::new("t.toml"), text).expect_err("misspelt").to_string();
        let message = refused("[bench]\nmodel = \"m\"\nconcurency = [1]\n");
        let end = "there is no key `concurency` here; did you mean concurrency?";
        assert!(message.contains("line 3") && message.ends_with(end), "{message}");
        let message = refused("[bench]\nmax-falures = 0.1\n");
        assert!(message.ends_with("`max-falures` here; did you mean max_failures?"), "{message}");
        let message = refused("[bench]\ncolour = 1\n");
        assert!(message.ends_with("`colour` here; docs/configuration.md lists those that there are"), "{message}");
    }

    #[test]
    fn a_key_may_be_spelled_as_its_flag_is_in_every_section() {
        let text = "[bench]\nmax-failures = 0.5\noutput-tokens = 20\n\"key-env\" = \"A\"\n[monitor.targets.my-one]\nkey-env = \"B\"\nurl = 5\n";
        let message = File::parse(Path::new("t.toml"), text).expect_err("the address is a number").to_string();
        assert!(message.contains("line 7, column 7"), "places stay: {message}");
        let read = File::parse(Path::new("t.toml"), &text.replace("url = 5\n", "")).expect("both spellings");
        assert_eq!(read.bench.output_tokens, Some(Length::Given(tokrate_bench::prompts::Lengths::Fixed(20))));
        assert!(read.monitor.is_some(), "names of the user's own keep their hyphens");
        let twice = File::parse(Path::new("t.toml"), "[bench]\noutput-tokens = 1\noutput_tokens = 2\n");
        assert!(twice.expect_err("one key").to_string().contains("duplicate key"));
    }

    #[test]
    fn a_slip_that_many_make_is_answered_with_what_to_write() {
        let slips = [
            "[monitor.endpoints.mine]\nurl = \"http://a/v1\"\n",
            "[monitor]\nendpoints = \"openai/gpt-5\"\n",
            "[monitor.workloads.long]\ninput_tokens = 5\n",
            "[monitor.alerts.receivers.ops]\nwebhook = \"https://hook.example/\"\n",
            "[monitor.alerts.receivers.ops]\nemail = \"me@a.example\"\n",
            "[monitor.alerts.receivers.ops]\nurl = \"https://hook.example/\"\n",
            "[monitor.targets.mine]\napi_key = \"sk\"\n",
            "[monitor.targets.mine]\nbase_url = \"http://a/v1\"\n",
            "[monitor]\ninterval = \"1h\"\n",
            "[monitor]\nbudget = 5\n",
            "[monitor]\ndb = \"x.db\"\n",
            "[monitor.push]\nhub = \"https://a\"\ntoken = \"t\"\n",
        ];
        let refused = |text: &&str| File::parse(Path::new("t.toml"), text).expect_err("no such key").to_string();
        insta::assert_snapshot!(slips.iter().map(refused).collect::<Vec<_>>().join("\n\n"));
    }

    #[test]
    fn a_single_value_stands_for_a_list_and_a_number_for_a_share() {
        let bench = |text: &str| toml::from_str::<File>(&format!("[bench]\n{text}\n")).map(|file| file.bench);
        let plain =
            bench("rate = 5\nconcurrency = 1\nsessions = [2]\nthreshold = 0.05\nslo = \"ttft<1s\"").expect("read");
        assert_eq!((plain.rate, plain.concurrency, plain.sessions), (Some(vec![5.0]), Some(vec![1]), Some(vec![2])));
        assert_eq!((plain.threshold.as_deref(), plain.slo), (Some("0.05"), Some(vec!["ttft<1s".to_owned()])));
        let lists = bench("rate = [5, 7.5]\nthreshold = \"5%\"\nheader = \"a: b\"").expect("read");
        assert_eq!((lists.rate, lists.threshold.as_deref()), (Some(vec![5.0, 7.5]), Some("5%")));
        assert_eq!(lists.headers, Some(vec!["a: b".to_owned()]));
        for bad in ["concurrency = -1", "concurrency = \"many\"", "rate = true", "threshold = [1]", "slo = 5"] {
            assert!(bench(bad).is_err(), "{bad}");
        }
    }
}
