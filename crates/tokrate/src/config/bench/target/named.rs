//! Where a target of the catalog is reached: its endpoint in a dialect, and the base with the user's address and variables.
//!
//! Invariant: a dialect that is not spoken there, and a variable that is not set, are errors that say what to do.

use crate::config::environment;
use anyhow::{Context, Result};
use tokrate_catalog::{Endpoint, Provider, TargetName};

/// The endpoint of the dialect asked for, or the default.
pub(in crate::config) fn endpoint(row: &Provider, dialect: Option<&str>) -> Result<&'static Endpoint> {
    row.endpoint(dialect).with_context(|| {
        format!(
            "read --dialect: {} is not known to speak `{}`; it speaks {}; to try it anyway, give --url instead of a target",
            row.title,
            dialect.unwrap_or_default(),
            spoken(row)
        )
    })
}

/// The endpoint's base, with the user's address and variables in their places.
pub(in crate::config) fn base(named: &TargetName<'_>, endpoint: &Endpoint) -> Result<String> {
    let mut base = endpoint.base.to_owned();
    for variable in named.row.variables {
        let placeholder = format!("{{{}}}", variable.name);
        if base.contains(&placeholder) {
            let value = environment::variable(variable.name).with_context(|| {
                format!(
                    "find {}: the environment variable {} is not set; it holds {}",
                    named.row.title, variable.name, variable.meaning
                )
            })?;
            base = base.replace(&placeholder, value.trim().trim_end_matches('/'));
        }
    }
    if let Some(at) = named.at {
        let path = base.split("://").nth(1).and_then(|rest| rest.find('/').map(|slash| &rest[slash..]));
        base = format!("http://{at}{}", path.unwrap_or_default());
    }
    Ok(base)
}

/// The dialects of a row, for a message.
#[inline(never)]
fn spoken(row: &Provider) -> String {
    row.endpoints.iter().map(|endpoint| endpoint.dialect).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_may_stand_elsewhere() {
        let base_of = |typed: &str, dialect| {
            let named = TargetName::parse(typed).expect("a target");
            base(&named, endpoint(named.row, dialect).expect("it is spoken")).expect("a base")
        };
        assert_eq!(base_of("vllm@gpu-1:8001/m", None), "http://gpu-1:8001/v1");
        assert_eq!(base_of("ollama@gpu-1:1/m", None), "http://gpu-1:1");
        assert_eq!(base_of("ollama/m@gpu-1:1", Some("openai-chat")), "http://gpu-1:1/v1");
    }
}
