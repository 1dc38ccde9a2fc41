//! What becomes of the request before the load: it finds permanent errors early, and its duration feeds the forecast.

use crate::abort::is_permanent;
use crate::advice::{Circumstances, advised};
use crate::forecast::ProbeTiming;
use tokrate_core::{FailureKind, Span};
use tokrate_meter::{FailureRow, RequestNumbers};

/// Probes of a server with transient failures.
pub(crate) const MAX_TRIES: u32 = 3;
/// Pause between two of them, without `Retry-After`.
const RETRY_PAUSE: Span = Span::from_secs(1);

/// What to do after a probe.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Next {
    /// The load may begin.
    Begin(Option<ProbeTiming>),
    /// Ask again after this time.
    Again(Span),
    /// The error is permanent: do not start the load.
    GiveUp(String),
}

/// What is done after the `tries`-th probe has ended so, sent with the key from there. A wait is kept up to `longest_wait`.
pub(crate) fn next(numbers: &RequestNumbers, tries: u32, longest_wait: Span, key: Option<&str>) -> Next {
    let Some(failure) = &numbers.failure else { return Next::Begin(timing_of(numbers)) };
    match failure.kind {
        // Few tokens that hold no text are an answer, and the user's interrupt is no failure.
        FailureKind::Empty | FailureKind::Cancelled => Next::Begin(None),
        // Not retried: a timeout took long enough, and a refused connection or request is permanent.
        FailureKind::Stalled | FailureKind::TimedOut | FailureKind::Connect | FailureKind::BadRequest => {
            give_up(failure, tries, key)
        }
        kind if is_permanent(kind) || tries >= MAX_TRIES => give_up(failure, tries, key),
        _ => match failure.retry_after_ns.map_or(RETRY_PAUSE, Span::from_nanos) {
            wait if wait > longest_wait => Next::GiveUp(format!(
                "the provider asks to wait {wait} before the first request, longer than --max-wait {longest_wait}: {}",
                failure.message
            )),
            wait => Next::Again(wait),
        },
    }
}

fn give_up(failure: &FailureRow, tries: u32, key: Option<&str>) -> Next {
    let tried = if tries > 1 { format!(", {tries} times") } else { String::new() };
    let advised = advised(failure.kind, &failure_text(failure), Circumstances { key, alone: true });
    Next::GiveUp(format!("one request before the load failed{tried}: {advised}"))
}

fn failure_text(failure: &FailureRow) -> String {
    match failure.message.as_str() {
        "" => failure.kind.name().replace('_', " "),
        message => message.to_owned(),
    }
}

fn timing_of(numbers: &RequestNumbers) -> Option<ProbeTiming> {
    let whole = numbers.e2e_ns? as f64 / 1e9;
    let opened = numbers.audio.as_ref().and_then(|audio| audio.opened_ns).unwrap_or(0) as f64 / 1e9;
    let tokens = numbers.tokens_reported.unwrap_or(numbers.tokens_std);
    let Some(ttft) = numbers.ttft_ns else {
        let per_token = whole / tokens.max(1) as f64;
        return Some(ProbeTiming { ttft: whole, per_token, is_whole: true, whole, opened });
    };
    let ttft = ttft as f64 / 1e9;
    let further = tokens.checked_sub(1).filter(|tokens| *tokens > 0)?;
    let per_token = (whole - ttft).max(0.0) / further as f64;
    Some(ProbeTiming { ttft, per_token, is_whole: false, whole, opened })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: FailureKind, retry_after: Option<Span>) -> RequestNumbers {
        let retry_after_ns = retry_after.map(Span::as_nanos);
        let failure = Some(FailureRow { kind, message: "HTTP 402: no credit".to_owned(), retry_after_ns });
        RequestNumbers { failure, ..RequestNumbers::default() }
    }

    const LONGEST: Span = Span::from_secs(120);

    #[test]
    fn a_refusal_ends_the_run_at_once_with_the_providers_words() {
        for kind in
            [FailureKind::Unauthorized, FailureKind::NotFound, FailureKind::UnexpectedStatus, FailureKind::Stalled]
        {
            let Next::GiveUp(reason) = next(&failed(kind, None), 1, LONGEST, None) else { panic!("{kind:?} is final") };
            assert!(reason.contains("HTTP 402: no credit"), "{reason}");
        }
    }

    #[test]
    fn an_answer_of_another_dialect_ends_the_run_after_one_request() {
        let message =
            "the answer is not one of the dialect anthropic; it looks like openai-chat: try --dialect openai-chat";
        let failure =
            Some(FailureRow { kind: FailureKind::NotJson, message: message.to_owned(), retry_after_ns: None });
        let row = RequestNumbers { failure, ..RequestNumbers::default() };
        let Next::GiveUp(reason) = next(&row, 1, LONGEST, None) else { panic!("it is final") };
        assert!(reason.ends_with("try --dialect openai-chat"), "{reason}");
    }

    #[test]
    fn transient_failures_are_retried_after_retry_after() {
        for kind in [FailureKind::RateLimited, FailureKind::Overloaded, FailureKind::ServerError] {
            assert_eq!(next(&failed(kind, None), 1, LONGEST, None), Next::Again(Span::from_secs(1)));
            assert_eq!(next(&failed(kind, Some(LONGEST)), 2, LONGEST, None), Next::Again(LONGEST));
            let Next::GiveUp(reason) = next(&failed(kind, None), 3, LONGEST, None) else { panic!("three are enough") };
            assert!(reason.contains("3 times"), "{reason}");
        }
        let hour = failed(FailureKind::RateLimited, Some(Span::from_secs(3600)));
        let Next::GiveUp(reason) = next(&hour, 1, LONGEST, None) else { panic!("an hour is too long") };
        assert!(reason.contains("longer than --max-wait 120 s"), "{reason}");
    }

    #[test]
    fn an_answer_says_how_long_one_takes() {
        let numbers = RequestNumbers {
            e2e_ns: Some(350_000_000),
            ttft_ns: Some(200_000_000),
            tokens_std: 16,
            ..RequestNumbers::default()
        };
        let Next::Begin(Some(seen)) = next(&numbers, 1, LONGEST, None) else { panic!("it answered") };
        assert!((seen.ttft - 0.2).abs() < 1e-12 && (seen.per_token - 0.01).abs() < 1e-12, "{seen:?}");
        assert_eq!(next(&failed(FailureKind::Empty, None), 1, LONGEST, None), Next::Begin(None));
        let whole = RequestNumbers { ttft_ns: None, ..numbers };
        let Next::Begin(Some(seen)) = next(&whole, 1, LONGEST, None) else { panic!("it answered") };
        assert!(seen.is_whole && (seen.at_least(160.0), seen.at_most(160.0)) == (0.35, 3.5), "{seen:?}");
    }
}
