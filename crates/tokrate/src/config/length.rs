//! Lengths of prompts and answers as people type them: `1000`, `lognormal:800,1.2`, `empirical:FILE`.
//!
//! Invariant: the file is read when the run is resolved, not when flags are read.

use super::quantity::Written;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use std::path::PathBuf;
use std::str::FromStr;
use tokrate_bench::prompts::{Lengths, PrefixLength};
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

/// A length or a distribution of lengths.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(try_from = "Written")]
pub enum Length {
    /// Given in full.
    Given(Lengths),
    /// As often as in a file.
    InFile(PathBuf),
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        match text.trim().strip_prefix("empirical:") {
            Some("") => Err("name the file behind `empirical:`".to_owned()),
            Some(path) => Ok(Length::InFile(path.into())),
            None => Lengths::parse(text).map(Length::Given),
        }
    }
}

impl TryFrom<Written> for Length {
    type Error = String;

    fn try_from(written: Written) -> Result<Length, String> {
        written.into_text().parse()
    }
}

impl Length {
    /// The distribution, read from its file if it is in one. `flag` names it in errors.
    pub fn resolve(&self, flag: &str) -> Result<Lengths> {
        let path = match self {
            Length::Given(lengths) => return Ok(lengths.clone()),
            Length::InFile(path) => path,
        };
        let place = || format!("read {flag} empirical:{}", path.display());
        let text = reading::text_of(path, MAX_DATA_BYTES).with_context(place)?;
        Lengths::empirical(&text).map_err(|bad| anyhow!("{}: {bad}", place()))
    }
}

/// The length of a shared prefix: tokens, or a share of each prompt such as `50%`.
#[derive(Deserialize, Clone, Copy, PartialEq, Debug)]
#[serde(try_from = "Written")]
pub struct Prefix(pub PrefixLength);

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let text = text.trim();
        if text.ends_with('%') {
            let share = super::quantity::share(text).map_err(|error| error.to_string())?;
            return Ok(Prefix(PrefixLength::Share(share)));
        }
        let tokens = text
            .parse()
            .map_err(|_| format!("`{text}` is no length; write a number of tokens, or a share such as 50%"))?;
        Ok(Prefix(PrefixLength::Tokens(tokens)))
    }
}

impl TryFrom<Written> for Prefix {
    type Error = String;

    fn try_from(written: Written) -> Result<Prefix, String> {
        written.into_text().parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_file_holds_a_number_or_a_distribution() {
        let read = |value: &str| {
            toml::from_str::<crate::config::file::File>(&format!("bench.input_tokens = {value}\n"))
                .map(|file| file.bench.input_tokens)
        };
        assert_eq!(read("500").expect("a length"), Some(Length::Given(Lengths::Fixed(500))));
        let drawn = Length::Given(Lengths::Uniform { from: 5, to: 9 });
        assert_eq!(read("\"uniform:5..9\"").expect("a distribution"), Some(drawn));
        assert_eq!(read("\"empirical:a.txt\"").expect("a file"), Some(Length::InFile("a.txt".into())));
        let error = read("0").expect_err("no token").to_string();
        assert!(error.contains("0 is not between 1 and 10,000,000"), "{error}");
    }

    #[test]
    fn a_prefix_is_a_number_of_tokens_or_a_share() {
        let read = |text: &str| text.parse::<Prefix>().map(|prefix| prefix.0);
        assert_eq!(read("512"), Ok(PrefixLength::Tokens(512)));
        assert_eq!(read("50%"), Ok(PrefixLength::Share(0.5)));
        assert!(read("half").is_err_and(|error| error.contains("a share such as 50%")));
        assert!(read("150%").is_err());
    }
}
