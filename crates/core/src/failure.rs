//! The ways in which a request can fail, as data.
//!
//! It refuses to know how a failure is noticed. Invariant: a failed measurement is a value in a record, never an `Err`.

/// One kind of failure. A request has at most one; the first that was noticed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The host name has no address.
    Dns,
    /// No connection could be opened (refused, unreachable, reset while connecting).
    Connect,
    /// A connection was open, and was closed or reset before any byte of an answer.
    Closed,
    /// Opening the connection took longer than the limit.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// A proxy refused or broke the connection.
    Proxy,
    /// 401, 402 or 403: the key is missing, wrong, or lacks a right or credit.
    Unauthorized,
    /// 404: the path, or something that the request names, does not exist.
    NotFound,
    /// The server does not have the model, as a gateway's settings name it.
    ModelNotFound,
    /// 400, 413, 422: the request was understood and refused.
    BadRequest,
    /// 429 or the dialect's like: a state of its own, neither an error of the model nor a slow answer.
    RateLimited,
    /// 503, 529 or the dialect's like: the server says that it is overloaded.
    Overloaded,
    /// Any other 5xx.
    ServerError,
    /// A status outside the kinds above (redirects included).
    UnexpectedStatus,
    /// A body that is not what the dialect prescribes.
    NotJson,
    /// An answer that was well, and that the client's dialect cannot say.
    Untranslatable,
    /// An error reported inside a stream that had begun well.
    ErrorInStream,
    /// A well-formed answer without any output text.
    Empty,
    /// The body ended before the answer did.
    Truncated,
    /// No byte for longer than the limit.
    Stalled,
    /// No output text within the limit for the first of it.
    FirstTokenTimeout,
    /// The whole request took longer than its limit.
    TimedOut,
    /// The peer broke the rules of HTTP.
    Protocol,
    /// An answer over the size limit.
    TooLarge,
    /// The gateway's own client took nothing of its answer for longer than the limit.
    ClientStalled,
    /// Ended by us: the run was interrupted or its time was up.
    Cancelled,
}

impl FailureKind {
    /// Every kind, in the order in which tables show them.
    pub const ALL: [FailureKind; 26] = [
        FailureKind::Dns,
        FailureKind::Connect,
        FailureKind::Closed,
        FailureKind::ConnectTimeout,
        FailureKind::Tls,
        FailureKind::Proxy,
        FailureKind::Unauthorized,
        FailureKind::NotFound,
        FailureKind::ModelNotFound,
        FailureKind::BadRequest,
        FailureKind::RateLimited,
        FailureKind::Overloaded,
        FailureKind::ServerError,
        FailureKind::UnexpectedStatus,
        FailureKind::NotJson,
        FailureKind::Untranslatable,
        FailureKind::ErrorInStream,
        FailureKind::Empty,
        FailureKind::Truncated,
        FailureKind::Stalled,
        FailureKind::FirstTokenTimeout,
        FailureKind::TimedOut,
        FailureKind::Protocol,
        FailureKind::TooLarge,
        FailureKind::ClientStalled,
        FailureKind::Cancelled,
    ];

    /// The name used in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Dns => "dns",
            FailureKind::Connect => "connect",
            FailureKind::Closed => "closed",
            FailureKind::ConnectTimeout => "connect_timeout",
            FailureKind::Tls => "tls",
            FailureKind::Proxy => "proxy",
            FailureKind::Unauthorized => "unauthorized",
            FailureKind::NotFound => "not_found",
            FailureKind::ModelNotFound => "model_not_found",
            FailureKind::BadRequest => "bad_request",
            FailureKind::RateLimited => "rate_limited",
            FailureKind::Overloaded => "overloaded",
            FailureKind::ServerError => "server_error",
            FailureKind::UnexpectedStatus => "unexpected_status",
            FailureKind::NotJson => "not_json",
            FailureKind::Untranslatable => "untranslatable",
            FailureKind::ErrorInStream => "error_in_stream",
            FailureKind::Empty => "empty",
            FailureKind::Truncated => "truncated",
            FailureKind::Stalled => "stalled",
            FailureKind::FirstTokenTimeout => "first_token_timeout",
            FailureKind::TimedOut => "timed_out",
            FailureKind::Protocol => "protocol",
            FailureKind::TooLarge => "too_large",
            FailureKind::ClientStalled => "client_stalled",
            FailureKind::Cancelled => "cancelled",
        }
    }

    /// What a user can do about it, as half a sentence.
    pub const fn hint(self) -> &'static str {
        match self {
            FailureKind::Dns => "check the host name in --url and the machine's resolver",
            FailureKind::Connect => {
                "check that the server runs and that host and port of --url (or --unix-socket) are right"
            }
            FailureKind::Closed => "look at the server's log: it, or something in between, ended the connection",
            FailureKind::ConnectTimeout => "check firewalls and routes to the host, or raise --connect-timeout",
            FailureKind::Tls => {
                "the message says what does not fit: TLS at all, its version of HTTP, or the certificate (--ca-file names your own)"
            }
            FailureKind::Proxy => "check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY",
            FailureKind::Unauthorized => "check that a key is given (--key-env), and its rights and credit",
            FailureKind::NotFound => "check the path of --url (most end in /v1) and the name in --model",
            FailureKind::ModelNotFound => "check the lane's model in the settings; the provider does not have it",
            FailureKind::BadRequest => "read the server's message; the model may not take one of the options",
            FailureKind::RateLimited => "lower --concurrency or --rate, or ask the provider for a higher limit",
            FailureKind::Overloaded => "the server sheds load; try later or lower the load",
            FailureKind::ServerError => "read the server's message and log",
            FailureKind::UnexpectedStatus => "check --url; redirects are not followed",
            FailureKind::NotJson => "check that --url is an OpenAI-compatible endpoint, not a web page",
            FailureKind::Untranslatable => {
                "ask the gateway in the lane's own dialect; the client's cannot say this answer"
            }
            FailureKind::ErrorInStream => "read the server's message and log",
            FailureKind::Empty => "raise --output-tokens (reasoning may have used them up) or check the model",
            FailureKind::Truncated => "look for a proxy or server time limit that cuts connections",
            FailureKind::Stalled => "look at the server's log, or raise --idle-timeout",
            FailureKind::FirstTokenTimeout => "the lane took too long to begin; raise the limit for the first token",
            FailureKind::TimedOut => "raise --timeout or lower the load",
            FailureKind::Protocol => "look for a proxy that rewrites answers, or try --http 1.1",
            FailureKind::TooLarge => "check the endpoint; answers of this size are refused",
            FailureKind::ClientStalled => {
                "the client read nothing; raise `send` under [gateway.limits] if it needs longer"
            }
            FailureKind::Cancelled => "the run was ended before this request was",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_complete() {
        let names: BTreeSet<&str> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FailureKind::ALL.len());
        assert!(FailureKind::ALL.windows(2).all(|pair| pair[0] < pair[1]), "ALL follows the declaration");
    }
}
