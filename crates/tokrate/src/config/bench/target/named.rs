//! Targets by name: `PROVIDER/MODEL`, `ENGINE@HOST:PORT/MODEL`, looked up in the catalog.
//!
//! It refuses to know keys and headers. Invariant: what is returned names a row of the catalog, a dialect that is spoken
//! there, a base and a model; anything less is an error that says what was meant instead.

use crate::config::environment;
use anyhow::{Context, Result, bail, ensure};
use tokrate_catalog::{Endpoint, Kind, Provider};

/// A target as it was typed, taken apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::config) struct Named<'a> {
    pub row: &'static Provider,
    /// Host and port that replace those of a local engine's base.
    pub at: Option<&'a str>,
    /// Without one, `--model` must name it.
    pub model: Option<&'a str>,
}

impl<'a> Named<'a> {
    /// Reads `NAME[@HOST:PORT][/MODEL]`; for a local engine `NAME/MODEL@HOST:PORT` too. A model may hold slashes.
    pub fn parse(typed: &'a str) -> Result<Named<'a>> {
        if typed.contains("://") {
            // It may hold a key, so it is not repeated.
            bail!("read the target: it is a URL; give it as --url URL --model NAME");
        }
        let (name, model) = match typed.split_once('/') {
            Some((name, model)) => (name, Some(model)),
            None => (typed, None),
        };
        let (name, at) = match name.split_once('@') {
            Some((name, at)) => (name, Some(at)),
            None => (name, None),
        };
        let row = tokrate_catalog::provider(name).with_context(|| unknown(typed, name))?;
        let (model, at) = match model.and_then(|model| model.rsplit_once('@')) {
            Some((model, behind)) if at.is_none() && row.kind == Kind::Local && is_place(behind) => {
                (Some(model), Some(behind))
            }
            _ => (model, at),
        };
        if let Some(at) = at {
            ensure!(
                row.kind == Kind::Local,
                "read the target `{typed}`: {} is not an engine of your own; name another address with --url",
                row.title
            );
            ensure!(is_place(at), "read the target `{typed}`: `{at}` is not HOST:PORT, such as 127.0.0.1:8000");
        }
        let example = format!("write {name}/MODEL");
        ensure!(model != Some(""), "read the target `{typed}`: it names no model; {example}");
        Ok(Named { row, at, model })
    }

    /// The endpoint of the dialect asked for, or the default.
    pub fn endpoint(&self, dialect: Option<&str>) -> Result<&'static Endpoint> {
        self.row.endpoint(dialect).with_context(|| {
            format!(
                "read --dialect: {} is not known to speak `{}`; it speaks {}; to try it anyway, give --url instead of a target",
                self.row.title,
                dialect.unwrap_or_default(),
                spoken(self.row)
            )
        })
    }

    /// The endpoint's base, with the user's address and variables in their places.
    pub fn base(&self, endpoint: &Endpoint) -> Result<String> {
        let mut base = endpoint.base.to_owned();
        for variable in self.row.variables {
            let placeholder = format!("{{{}}}", variable.name);
            if base.contains(&placeholder) {
                let value = environment::variable(variable.name).with_context(|| {
                    format!(
                        "find {}: the environment variable {} is not set; it holds {}",
                        self.row.title, variable.name, variable.meaning
                    )
                })?;
                base = base.replace(&placeholder, value.trim().trim_end_matches('/'));
            }
        }
        if let Some(at) = self.at {
            let path = base.split("://").nth(1).and_then(|rest| rest.find('/').map(|slash| &rest[slash..]));
            base = format!("http://{at}{}", path.unwrap_or_default());
        }
        Ok(base)
    }
}

/// The dialects of a row, for a message.
#[inline(never)]
fn spoken(row: &Provider) -> String {
    row.endpoints.iter().map(|endpoint| endpoint.dialect).collect::<Vec<_>>().join(", ")
}

fn unknown(typed: &str, name: &str) -> String {
    let near = match &tokrate_catalog::nearest(name)[..] {
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
        Named::parse(typed).map(|named| (named.row.name, named.at, named.model)).map_err(|error| error.to_string())
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
        let base = |typed: &str, dialect| {
            let named = Named::parse(typed).expect("a target");
            named.base(named.endpoint(dialect).expect("it is spoken")).expect("a base")
        };
        assert_eq!(base("vllm@gpu-1:8001/m", None), "http://gpu-1:8001/v1");
        assert_eq!(base("ollama@gpu-1:1/m", None), "http://gpu-1:1");
        assert_eq!(base("ollama/m@gpu-1:1", Some("openai-chat")), "http://gpu-1:1/v1");
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
