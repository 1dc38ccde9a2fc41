//! Every fault of the engine and of the link, and what has to become of it.

use tokrate_core::{Anomaly, FailureKind, FinishReason, Span};
use tokrate_dst::{Exchange, LinkLaw, Scenario, checkers, run};
use tokrate_sim::{Emitted, Faults};

fn hold(scenario: &Scenario) -> Vec<Exchange> {
    let history = run(scenario);
    assert_eq!(checkers::check(scenario, &history), Vec::<String>::new());
    history.exchanges
}

fn only(scenario: &Scenario) -> Exchange {
    hold(scenario).pop().expect("one request")
}

fn with_fault(fault: &str) -> Exchange {
    only(&Scenario { link: LinkLaw::with_latency(Span::from_millis(3)), ..Scenario::plain(1).with_faults(&[fault]) })
}

fn kind(exchange: &Exchange) -> Option<FailureKind> {
    exchange.trace.failure.as_ref().map(|failure| failure.kind)
}

fn words(exchange: &Exchange) -> usize {
    exchange.trace.text.split_whitespace().count()
}

#[test]
fn every_engine_fault_gives_its_failure_kind() {
    use FailureKind::*;
    // Fault, kind of failure, words that are kept of 40, anomaly.
    let table = [
        ("rate_limited", Some(RateLimited), 0, None),
        ("server_error", Some(ServerError), 0, None),
        ("stall@0", Some(Stalled), 0, None),
        ("stall@17", Some(Stalled), 17, None),
        ("stall@99", Some(Stalled), 40, None),
        ("disconnect@0", Some(Truncated), 0, None),
        ("disconnect@5", Some(Truncated), 5, None),
        ("disconnect@99", Some(Truncated), 40, None),
        ("malformed@9", None, 40, Some(Anomaly::Unreadable)),
        ("malformed@99", None, 40, Some(Anomaly::Unreadable)),
        ("error_event@0", Some(ServerError), 0, None),
        ("error_event@8", Some(ErrorInStream), 8, None),
        ("missing_usage", None, 40, None),
        ("empty", Some(Empty), 0, None),
        ("no_done", None, 40, Some(Anomaly::MissingDone)),
        ("burst", None, 40, None),
        ("replay", None, 40, None),
        ("repeat", None, 40, None),
        ("other_model", None, 40, None),
        ("same_start", None, 40, None),
        ("short", None, 29, None),
        ("usage_inflated", None, 40, None),
        ("hidden_reasoning", None, 20, None),
    ];
    for (fault, failure, kept, anomaly) in table {
        let exchange = with_fault(fault);
        assert_eq!((kind(&exchange), words(&exchange)), (failure, kept), "{fault}");
        let seen: Vec<(Anomaly, u32)> = exchange.trace.anomalies.seen().collect();
        assert_eq!(seen, anomaly.map(|anomaly| (anomaly, 1)).into_iter().collect::<Vec<_>>(), "{fault}");
    }
    let kinds: Vec<&str> = table.iter().map(|row| row.0.split('@').next().unwrap()).collect();
    assert!(Faults::KINDS.iter().all(|kind| kinds.contains(kind)), "a fault is missing from the table");
}

#[test]
fn missing_data_is_absent_and_reported_data_is_kept() {
    assert_eq!(with_fault("missing_usage").trace.usage, None);
    let reported = |fault| with_fault(fault).trace.usage.map(|usage| (usage.output, usage.reasoning));
    assert_eq!(reported("usage_inflated"), Some((Some(60), None)));
    assert_eq!(reported("hidden_reasoning"), Some((Some(40), Some(20))));
    let model = |fault| with_fault(fault).trace.model;
    assert_eq!(model("other_model").as_deref(), Some("another-model"));
    assert_eq!(model("same_start").as_deref(), Some("sim"));
    assert_eq!(with_fault("short").trace.finish, Some(FinishReason::Stop));
    assert!(with_fault("burst").trace.arrivals.len() == 1, "all at once");
    let refused = with_fault("rate_limited").trace.failure.expect("refused");
    assert_eq!((refused.message.as_str(), refused.retry_after), ("too many requests", Some(Span::from_secs(1))));
    let mut scenario = Scenario::plain(1).with_faults(&["server_error"]);
    scenario.faults.server_error_status = 503;
    assert_eq!(kind(&only(&scenario)), Some(FailureKind::Overloaded));
}

#[test]
fn a_stream_cut_at_any_byte_is_truncated_and_keeps_what_came_before() {
    let whole = only(&Scenario { output_tokens: 4, ..Scenario::plain(1) });
    let length = whole.writes.last().expect("written").end;
    let mut answered = 0;
    for cut in 0..=length {
        let link = LinkLaw { reset: 1.0, reset_from: cut, split: 0.2, ..LinkLaw::ideal() };
        let exchange = only(&Scenario { link, output_tokens: 4, ..Scenario::plain(1) });
        assert_eq!(exchange.reads.last().map_or(0, |read| read.end), cut);
        let done = exchange.trace.done_at.is_some();
        assert_eq!(done, cut + 2 >= length, "cut at {cut} of {length}");
        assert_eq!(kind(&exchange), (!done).then_some(FailureKind::Truncated), "cut at {cut} of {length}");
        assert!(whole.trace.text.starts_with(&exchange.trace.text));
        let kept = whole.writes.iter().filter(|written| written.end <= cut);
        let kept = kept.filter(|written| matches!(written.what, Emitted::Text { .. })).count();
        assert!((kept..=kept + 1).contains(&words(&exchange)), "cut at {cut}: {kept} words came before");
        answered += u64::from(done);
    }
    assert_eq!(answered, 3, "the two line ends of the end mark may be missing");
}

#[test]
fn timeouts_and_refused_connections_have_their_own_failure_kinds() {
    let mut slow = Scenario::plain(1);
    slow.limits.total = Span::from_millis(200);
    assert_eq!(kind(&only(&slow)), Some(FailureKind::TimedOut));
    let mut silent = Scenario::plain(1);
    silent.limits.idle = Span::from_millis(44);
    let exchange = only(&silent);
    assert_eq!(kind(&exchange), Some(FailureKind::Stalled));
    assert_eq!((exchange.trace.timing.ended_at - exchange.started_at).as_nanos(), 44_000_000);
    let refused = only(&Scenario { link: LinkLaw { refused: 1.0, ..LinkLaw::ideal() }, ..Scenario::plain(1) });
    assert_eq!((kind(&refused), refused.sent_at), (Some(FailureKind::Connect), None));
}

#[test]
fn a_phase_with_faults_loses_no_request() {
    let faults =
        ["rate_limited=0.2", "server_error=0.1", "disconnect=0.2", "stall=0.1", "empty=0.1", "error_event=0.2"];
    let link = LinkLaw::with_latency(Span::from_millis(2));
    let scenario = Scenario { link, ..Scenario::plain(300).closed(20).with_faults(&faults) };
    let history = run(&scenario);
    assert_eq!(checkers::check(&scenario, &history), Vec::<String>::new());
    let (_, result) = checkers::summarize(&scenario, &history);
    let counts = result.counts;
    assert_eq!((counts.started, counts.answered + counts.failed + counts.rate_limited), (300, 300));
    assert!(counts.answered > 80 && counts.rate_limited > 30 && result.failures.len() >= 5, "{counts:?}");
}
