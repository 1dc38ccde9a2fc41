//! Parses target names: `PROVIDER/MODEL`, `ENGINE@HOST:PORT/MODEL`, looked up in the catalog.
//!
//! Invariant: the result names a row of the catalog, and no error repeats a URL, which may contain a key.

use crate::{Kind, Provider, nearest, provider};
use std::fmt;

/// A parsed target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TargetName<'a> {
    /// The provider.
    pub row: &'static Provider,
    /// Host and port that replace those of the base URL of a local engine.
    pub at: Option<&'a str>,
    /// The model, if one is named.
    pub model: Option<&'a str>,
}

/// Why a text is no target, and what to write instead; completes "failed to".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetNameError(String);

impl<'a> TargetName<'a> {
    /// Parses `NAME[@HOST:PORT][/MODEL]`; for a local engine also `NAME/MODEL@HOST:PORT`. A model may contain slashes.
    ///
    /// # Errors
    /// Describes the mistake, with similar names if the name is unknown.
    pub fn parse(typed: &'a str) -> Result<TargetName<'a>, TargetNameError> {
        if typed.contains("://") {
            // It may contain a key, so it is not repeated.
            return error("read the target: it is a URL; give it as --url URL --model NAME".to_owned());
        }
        let (name, model) = match typed.split_once('/') {
            Some((name, model)) => (name, Some(model)),
            None => (typed, None),
        };
        let (name, at) = match name.split_once('@') {
            Some((name, at)) => (name, Some(at)),
            None => (name, None),
        };
        let Some(row) = provider(name) else { return error(unknown(typed, name)) };
        let (model, at) = match model.and_then(|model| model.rsplit_once('@')) {
            Some((model, suffix)) if at.is_none() && row.kind == Kind::Local && is_host_port(suffix) => {
                (Some(model), Some(suffix))
            }
            _ => (model, at),
        };
        if let Some(at) = at {
            if row.kind != Kind::Local {
                return error(format!(
                    "read the target `{typed}`: {} is not an engine of your own; name another address with --url",
                    row.title
                ));
            }
            if !is_host_port(at) {
                return error(format!("read the target `{typed}`: `{at}` is not HOST:PORT, such as 127.0.0.1:8000"));
            }
        }
        if model == Some("") {
            return error(format!("read the target `{typed}`: it names no model; write {name}/MODEL"));
        }
        Ok(TargetName { row, at, model })
    }
}

impl fmt::Display for TargetName<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.row.name)?;
        if let Some(at) = self.at {
            write!(formatter, "@{at}")?;
        }
        self.model.map_or(Ok(()), |model| write!(formatter, "/{model}"))
    }
}

impl fmt::Display for TargetNameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TargetNameError {}

fn error<T>(message: String) -> Result<T, TargetNameError> {
    Err(TargetNameError(message))
}

fn unknown(typed: &str, name: &str) -> String {
    let near = match &nearest(name)[..] {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    let end = if near.is_empty() { ";" } else { "" };
    format!(
        "read the target `{typed}`: no provider and no engine is called `{name}`{near}{end} `tokrate targets` lists them, and \
         --url takes any endpoint"
    )
}

/// Whether a text is HOST:PORT.
fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
        let named = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        (bracketed || named) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(typed: &str) -> Result<(&str, Option<&str>, Option<&str>), String> {
        TargetName::parse(typed).map(|named| (named.row.name, named.at, named.model)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_may_hold_slashes_colons_and_at_signs() {
        assert_eq!(parsed("groq/openai/gpt-oss-20b"), Ok(("groq", None, Some("openai/gpt-oss-20b"))));
        assert_eq!(parsed("ollama/qwen3:8b"), Ok(("ollama", None, Some("qwen3:8b"))));
        assert_eq!(parsed("openrouter/a/b@c:free"), Ok(("openrouter", None, Some("a/b@c:free"))));
        assert_eq!(parsed("vllm"), Ok(("vllm", None, None)));
    }

    #[test]
    fn an_engine_may_run_on_another_host() {
        assert_eq!(parsed("vllm@10.0.0.5:8001/a/b"), Ok(("vllm", Some("10.0.0.5:8001"), Some("a/b"))));
        assert_eq!(parsed("vllm/a/b@gpu-1:8001"), Ok(("vllm", Some("gpu-1:8001"), Some("a/b"))));
        assert_eq!(parsed("tgi@[::1]:80/m"), Ok(("tgi", Some("[::1]:80"), Some("m"))));
        assert_eq!(parsed("vllm/m@v2"), Ok(("vllm", None, Some("m@v2"))));
    }

    #[test]
    fn invalid_targets_are_rejected() {
        for typed in
            ["", "/", "/m", "gorq/m", "groq/", "groq@h:1/m", "vllm@h/m", "vllm@:1/m", "vllm@h:0/m", "http://h/v1"]
        {
            let error = parsed(typed).expect_err(typed);
            assert!(error.starts_with("read the target"), "{error}");
        }
        assert!(parsed("gorq/m").expect_err("misspelt").contains("did you mean groq?"));
    }
}
