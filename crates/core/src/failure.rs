//! The ways in which a request can fail, as data.
//!
//! Invariant: a failed measurement is a value in a record, never an `Err`.

/// A kind of failure. A request has at most one: the first that was noticed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The host name has no address.
    Dns,
    /// The connection could not be opened (refused, unreachable, reset while connecting).
    Connect,
    /// An open connection was closed or reset before any byte of a response.
    Closed,
    /// Opening the connection took longer than the limit.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// A proxy refused or broke the connection.
    Proxy,
    /// 401, 402 or 403: the key is missing, wrong, or lacks a right or credit.
    Unauthorized,
    /// 404: the path, or something named in the request, does not exist.
    NotFound,
    /// The provider does not have the model that the lane is configured with.
    ModelNotFound,
    /// 400, 413, 422: the request was understood and refused.
    BadRequest,
    /// 422 of a merge engine: the edit was understood and cannot be merged without a model.
    EditRefused,
    /// 429 or its equivalent in the dialect: neither an error of the model nor a slow answer.
    RateLimited,
    /// 503, 529 or its equivalent in the dialect: the server reports overload.
    Overloaded,
    /// Any other 5xx.
    ServerError,
    /// Any other unexpected status (redirects included).
    UnexpectedStatus,
    /// A body that is not valid for the dialect.
    NotJson,
    /// A valid answer that cannot be expressed in the client's dialect.
    Untranslatable,
    /// An error reported within a stream.
    ErrorInStream,
    /// A well-formed answer without any output text.
    Empty,
    /// The body ended before the answer did.
    Truncated,
    /// No byte for longer than the limit.
    Stalled,
    /// No output text within the first-token limit.
    FirstTokenTimeout,
    /// The whole request took longer than its limit.
    TimedOut,
    /// The peer violated HTTP.
    Protocol,
    /// An answer over the size limit.
    TooLarge,
    /// The client of the gateway read nothing for longer than the limit.
    ClientStalled,
    /// Cancelled by us: the run was interrupted or its time was up.
    Cancelled,
}

impl FailureKind {
    /// Every kind, in the order in which tables show them.
    pub const ALL: [FailureKind; 27] = [
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
        FailureKind::EditRefused,
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
            FailureKind::EditRefused => "edit_refused",
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

    /// What a user can do about it; completes a sentence.
    pub const fn hint(self) -> &'static str {
        match self {
            FailureKind::Dns => "check the host name in --url and the machine's resolver",
            FailureKind::Connect => {
                "check that the server runs and that host and port of --url (or --unix-socket) are right"
            }
            FailureKind::Closed => "look at the server's log: it, or a proxy in between, closed the connection",
            FailureKind::ConnectTimeout => "check firewalls and routes to the host, or raise --connect-timeout",
            FailureKind::Tls => {
                "the message says what does not fit: TLS at all, its version of HTTP, or the certificate (--ca-file names your own)"
            }
            FailureKind::Proxy => "check --proxy, or HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY",
            FailureKind::Unauthorized => "check the key that is sent (--key-env), its rights and its credit",
            FailureKind::NotFound => "check the path of --url (most end in /v1) and the name in --model",
            FailureKind::ModelNotFound => {
                "check the model of the lane in the configuration; the provider does not have it"
            }
            FailureKind::BadRequest => "read the server's message; the model may not take one of the options",
            FailureKind::EditRefused => {
                "name a lane with a model behind the merge engine's, which then gets such edits"
            }
            FailureKind::RateLimited => "lower --concurrency or --rate, or ask the provider for a higher limit",
            FailureKind::Overloaded => "the server sheds load; try later or lower the load",
            FailureKind::ServerError => "read the server's message and log",
            FailureKind::UnexpectedStatus => "check --url; redirects are not followed",
            FailureKind::NotJson => "check --url and --dialect: the answer is none of the API that was asked",
            FailureKind::Untranslatable => {
                "call the gateway in the lane's own dialect; the client's dialect cannot express this answer"
            }
            FailureKind::ErrorInStream => "read the server's message and log",
            FailureKind::Empty => "raise --output-tokens (reasoning may have used them up) or check the model",
            FailureKind::Truncated => "look for a proxy or server time limit that cuts connections",
            FailureKind::Stalled => "look at the server's log, or raise --idle-timeout",
            FailureKind::FirstTokenTimeout => "the lane was too slow to start; raise the limit for the first token",
            FailureKind::TimedOut => "raise --timeout or lower the load",
            FailureKind::Protocol => "look for a proxy that rewrites answers, or try --http 1.1",
            FailureKind::TooLarge => "check the endpoint; answers of this size are refused",
            FailureKind::ClientStalled => {
                "the client read nothing; raise `send` under [gateway.limits] if it needs longer"
            }
            FailureKind::Cancelled => "the run ended before this request did",
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
