//! When a finding becomes an alert, and who gets it.

use crate::quiet::QuietHours;
use std::fmt;

/// A rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its name in messages and settings.
    pub name: String,
    /// Endpoints it is about: names, or beginnings of names that end in `*`; empty for all.
    pub endpoints: Vec<String>,
    /// Workloads it is about, written alike.
    pub workloads: Vec<String>,
    /// So many of the latest `of` findings of a place have to be bad.
    pub failing: u32,
    /// How many findings of a place count.
    pub of: u32,
    /// In so many places at once.
    pub places: u32,
    /// How long the first message waits for others that belong to the same incident (ms).
    pub group_wait_ms: u64,
    /// A message again after so long, while it lasts (ms).
    pub remind_after_ms: Option<u64>,
    /// When no message is sent.
    pub quiet: Option<QuietHours>,
    /// Who gets its messages.
    pub receivers: Vec<String>,
}

/// Five minutes: probes of one cycle lie closer together.
const GROUP_WAIT_MS: u64 = 5 * 60_000;
/// Most findings of a place that are looked back at.
pub(crate) const MAX_FINDINGS: u32 = 64;

impl Default for Rule {
    /// About everything, at the first bad finding in one place, without reminders, to nobody.
    fn default() -> Rule {
        Rule {
            name: String::new(),
            endpoints: Vec::new(),
            workloads: Vec::new(),
            failing: 1,
            of: 1,
            places: 1,
            group_wait_ms: GROUP_WAIT_MS,
            remind_after_ms: None,
            quiet: None,
            receivers: Vec::new(),
        }
    }
}

/// A rule that can never fire, or not as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for RuleError {}

impl Rule {
    /// Whether it can fire as it is written.
    ///
    /// # Errors
    /// What is wrong, and what it may be.
    pub fn check(&self) -> Result<(), RuleError> {
        let name = &self.name;
        let wrong = |text: String| Err(RuleError(format!("the rule `{name}`: {text}")));
        if name.is_empty() {
            return Err(RuleError("a rule has no name".to_owned()));
        }
        if self.failing == 0 || self.places == 0 {
            return wrong("give at least 1 failing finding and 1 place".to_owned());
        }
        if self.failing > self.of || self.of > MAX_FINDINGS {
            return wrong(format!("{} of {} findings; at most {MAX_FINDINGS} are kept", self.failing, self.of));
        }
        if self.receivers.is_empty() {
            return wrong("it has no receiver".to_owned());
        }
        if self.remind_after_ms == Some(0) {
            return wrong("a reminder after no time; leave it out for none".to_owned());
        }
        Ok(())
    }

    /// Whether it is about a series.
    pub fn is_about(&self, endpoint: &str, workload: &str) -> bool {
        matches_any(&self.endpoints, endpoint) && matches_any(&self.workloads, workload)
    }
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    patterns.is_empty() || patterns.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        Rule { name: "slow".to_owned(), receivers: vec!["ops".to_owned()], ..Rule::default() }
    }

    #[test]
    fn names_and_beginnings_are_matched() {
        let rule = Rule { endpoints: vec!["groq/*".to_owned(), "own".to_owned()], ..rule() };
        assert!(rule.is_about("groq/llama", "1k") && rule.is_about("own", ""));
        assert!(!rule.is_about("own/llama", "1k"));
        assert!(!Rule { workloads: vec!["10k".to_owned()], ..rule }.is_about("own", "1k"));
    }

    #[test]
    fn rules_that_cannot_fire_are_refused() {
        assert_eq!(rule().check(), Ok(()));
        let wrong = [
            Rule { name: String::new(), ..rule() },
            Rule { failing: 0, ..rule() },
            Rule { failing: 3, of: 2, ..rule() },
            Rule { of: 65, ..rule() },
            Rule { places: 0, ..rule() },
            Rule { receivers: Vec::new(), ..rule() },
            Rule { remind_after_ms: Some(0), ..rule() },
        ];
        for rule in wrong {
            assert!(rule.check().is_err(), "{rule:?}");
        }
    }
}
