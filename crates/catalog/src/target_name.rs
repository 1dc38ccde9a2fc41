//! Targets as they are named: `PROVIDER/MODEL`, `ENGINE@HOST:PORT/MODEL`, looked up in the catalog.
//!
//! It does not know keys, headers and the environment. Invariant: what is returned names a row of the catalog, and no error
//! repeats a URL, which may hold a key.

use crate::{Kind, Provider, nearest, provider};
use std::fmt;

/// A target as it was typed, taken apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TargetName<'a> {
    /// Who answers.
    pub row: &'static Provider,
    /// Host and port that replace those of a local engine's base.
    pub at: Option<&'a str>,
    /// The model, if one is named.
    pub model: Option<&'a str>,
}

/// Why a text names no target, and what to write instead; fits behind "failed to".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetNameError(String);

impl<'a> TargetName<'a> {
    /// Reads `NAME[@HOST:PORT][/MODEL]`; for a local engine `NAME/MODEL@HOST:PORT` too. A model may hold slashes.
    ///
    /// # Errors
    /// What is wrong, with the names that are nearest where none is known.
    pub fn parse(typed: &'a str) -> Result<TargetName<'a>, TargetNameError> {
        if typed.contains("://") {
            // It may hold a key, so it is not repeated.
            return refused("read the target: it is a URL; give it as --url URL --model NAME".to_owned());
        }
        let (name, model) = match typed.split_once('/') {
            Some((name, model)) => (name, Some(model)),
            None => (typed, None),
        };
        let (name, at) = match name.split_once('@') {
            Some((name, at)) => (name, Some(at)),
            None => (name, None),
        };
        let Some(row) = provider(name) else { return refused(unknown(typed, name)) };
        let (model, at) = match model.and_then(|model| model.rsplit_once('@')) {
            Some((model, behind)) if at.is_none() && row.kind == Kind::Local && is_place(behind) => {
                (Some(model), Some(behind))
            }
            _ => (model, at),
        };
        if let Some(at) = at {
            if row.kind != Kind::Local {
                return refused(format!(
                    "read the target `{typed}`: {} is not an engine of your own; name another address with --url",
                    row.title
                ));
            }
            if !is_place(at) {
                return refused(format!("read the target `{typed}`: `{at}` is not HOST:PORT, such as 127.0.0.1:8000"));
            }
        }
        if model == Some("") {
            return refused(format!("read the target `{typed}`: it names no model; write {name}/MODEL"));
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

fn refused<T>(why: String) -> Result<T, TargetNameError> {
    Err(TargetNameError(why))
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
fn is_place(text: &str) -> bool {
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
    fn an_engine_may_stand_elsewhere() {
        assert_eq!(parsed("vllm@10.0.0.5:8001/a/b"), Ok(("vllm", Some("10.0.0.5:8001"), Some("a/b"))));
        assert_eq!(parsed("vllm/a/b@gpu-1:8001"), Ok(("vllm", Some("gpu-1:8001"), Some("a/b"))));
        assert_eq!(parsed("tgi@[::1]:80/m"), Ok(("tgi", Some("[::1]:80"), Some("m"))));
        assert_eq!(parsed("vllm/m@v2"), Ok(("vllm", None, Some("m@v2"))));
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for typed in
            ["", "/", "/m", "gorq/m", "groq/", "groq@h:1/m", "vllm@h/m", "vllm@:1/m", "vllm@h:0/m", "http://h/v1"]
        {
            let error = parsed(typed).expect_err(typed);
            assert!(error.starts_with("read the target"), "{error}");
        }
        assert!(parsed("gorq/m").expect_err("misspelt").contains("did you mean groq?"));
    }
}
