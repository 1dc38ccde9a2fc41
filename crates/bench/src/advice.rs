//! What can be done about a failure that ends a run.
//!
//! Invariant: it names nothing that was not there: no key of a run without one, no load that could be lowered before the load.

use tokrate_core::FailureKind;

/// What was known when requests failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    /// Where the key that was sent comes from, in words; `None` if no header was sent that could hold one.
    pub key: Option<&'a str>,
    /// There was no load beside the request.
    pub alone: bool,
}

/// A failure's message with what can be done about it.
pub(crate) fn advised(kind: FailureKind, message: &str, seen: Circumstances<'_>) -> String {
    let hint = match kind {
        // The message says it.
        FailureKind::Tls => return message.to_owned(),
        FailureKind::NotJson if message.contains("--dialect") || message.contains("--url") => {
            return message.to_owned();
        }
        FailureKind::Unauthorized if message.starts_with("HTTP 402") => "add credit to the account, or ask for less",
        FailureKind::Unauthorized => match seen.key {
            None => "no key was sent: name its variable with --key-env, or its file with --key-file",
            Some(key) => {
                return format!(
                    "{message}; the server refused {key}: check that it is the right one, its rights and its credit"
                );
            }
        },
        FailureKind::RateLimited if seen.alone => {
            "there was no load yet: try again later, or ask the provider for a higher limit"
        }
        // A peer that took the connection is no matter of firewalls; the message says which of both it was.
        FailureKind::ConnectTimeout => "check what listens there, firewalls and routes, or raise --connect-timeout",
        kind => kind.hint(),
    };
    format!("{message}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_advised_that_was_not_there() {
        let advice = |kind, message, key, alone| advised(kind, message, Circumstances { key, alone });
        let with_key = Some("the key from the environment variable KEY");
        let without = advice(FailureKind::Unauthorized, "HTTP 401: who?", None, true);
        assert!(without.contains("no key was sent"), "{without}");
        let with = advice(FailureKind::Unauthorized, "HTTP 401: who?", with_key, true);
        assert!(
            with.starts_with("HTTP 401: who?; the server refused the key from the environment variable KEY: "),
            "{with}"
        );
        let poor = advice(FailureKind::Unauthorized, "HTTP 402: no credit", with_key, true);
        assert!(poor.ends_with("; add credit to the account, or ask for less"), "{poor}");
        let early = advice(FailureKind::RateLimited, "HTTP 429: slowly", with_key, true);
        assert!(!early.contains("--concurrency"), "{early}");
        assert!(advice(FailureKind::RateLimited, "HTTP 429: slowly", with_key, false).contains("--concurrency"));
        let foreign = "it looks like openai-chat: try --dialect openai-chat";
        assert_eq!(advice(FailureKind::NotJson, foreign, None, true), foreign);
        let odd = advice(FailureKind::NotJson, "the body is not what the dialect prescribes", None, true);
        assert!(odd.ends_with("; check --url and --dialect: the answer is none of the API that was asked"), "{odd}");
        let compressed = "the answer is compressed (gzip), which was not asked for; look at --url";
        assert_eq!(advice(FailureKind::NotJson, compressed, None, true), compressed);
        assert_eq!(advice(FailureKind::Tls, "no TLS here; use http://", None, true), "no TLS here; use http://");
    }
}
