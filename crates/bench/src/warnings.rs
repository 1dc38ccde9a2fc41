//! Warnings and notes on a run's results, as sentences.
//!
//! Invariant: what makes a result invalid is kept apart from what only asks for care.

use crate::config::Target;
use crate::prompts::PromptSource;
use crate::shown_figures::shows;
use tokrate_charts::format;
use tokrate_core::Anomaly;
use tokrate_meter::{FigureValidity, GivenUpBatch, GivenUpEnd};
use tokrate_record::run::{Counts, UnreadableEvents, by_load};
use tokrate_record::{Metric, PhaseResult, Record, Suspicion};

/// A sentence about one level.
struct LevelSentence {
    level: String,
    sentence: String,
}

fn at_level(phase: &PhaseResult, sentence: String) -> LevelSentence {
    LevelSentence { level: phase.name.clone(), sentence }
}

/// Further levels that a sentence names; a run of many rounds has dozens of them.
const LEVELS_NAMED: usize = 6;

/// Merges sentences that differ in their numbers only: the first one, then the levels of the others.
fn merge_repeated(all: Vec<LevelSentence>) -> Vec<String> {
    let mut groups: Vec<(String, LevelSentence, Vec<String>)> = Vec::new();
    for at_level in all {
        let skeleton: String = at_level.sentence.chars().filter(|symbol| !symbol.is_ascii_digit()).collect();
        match groups.iter_mut().find(|(known, ..)| *known == skeleton) {
            Some((_, _, others)) => others.push(at_level.level),
            None => groups.push((skeleton, at_level, Vec::new())),
        }
    }
    let sentences = groups.into_iter().map(|(_, LevelSentence { level, sentence }, others)| match others.as_slice() {
        [] => format!("{level}: {sentence}"),
        others => {
            let named = others.iter().take(LEVELS_NAMED).cloned().collect::<Vec<String>>().join(", ");
            let more = others.len().saturating_sub(LEVELS_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{level}: {sentence}; the same at {named}{more}")
        }
    });
    sentences.collect()
}

/// Invalid results: phases with contradictory figures, and figures of the table by load that the client's own error distorts.
pub(crate) fn invalid_results(phases: &[PhaseResult]) -> Vec<String> {
    let mut found = Vec::new();
    for phase in phases {
        for violation in &phase.gate {
            found.push(format!(
                "{}: the numbers contradict each other, a bug of tokrate: {:?} should be {}, is {}",
                phase.name, violation.check, violation.expected, violation.seen
            ));
        }
    }
    let shown = invalid_figures(phases, shows);
    if !shown.is_empty() {
        found.push(format!("not valid by the client's own error: {shown}; the other figures stand"));
    }
    found
}

/// That figures are not valid which only the detailed tables show.
pub(crate) fn invalid_details(phases: &[PhaseResult]) -> Option<String> {
    let details = invalid_figures(phases, |figure| !shows(figure));
    (!details.is_empty()).then(|| {
        format!("not valid by the client's own error, in the full tables alone (--wide, report, record): {details}")
    })
}

/// The invalid figures of some kind, level by level, with how far each could be off.
fn invalid_figures(phases: &[PhaseResult], is_meant: fn(&FigureValidity) -> bool) -> String {
    let of_phase = |phase: &PhaseResult| {
        let invalid = phase.client_error.iter().flat_map(|error| error.invalid()).filter(|figure| is_meant(figure));
        let reasons: Vec<String> = invalid.map(FigureValidity::reason).collect();
        (!reasons.is_empty()).then(|| format!("{}: {}", phase.name, reasons.join(", ")))
    };
    phases.iter().filter_map(of_phase).collect::<Vec<String>>().join("; ")
}

/// That a proxy stood between, whose time nobody can tell from the server's.
pub(crate) fn proxied(place: Option<&str>) -> Option<String> {
    place.map(|place| format!("every request went through the proxy {place}, and its time is part of every figure"))
}

/// The warning of a run that did not check the certificate.
const UNCHECKED: &str = "the certificate of the endpoint was not checked (--insecure)";

/// Whether nobody knows who answered: the certificate was not checked.
pub fn is_unchecked(record: &Record) -> bool {
    record.warnings.iter().any(|warning| warning == UNCHECKED)
}

/// That nobody knows who answered.
pub(crate) fn unchecked(target: &Target) -> Option<String> {
    let remote = target.remote().filter(|remote| remote.insecure)?;
    Some(match remote.base.is_tls() {
        true => UNCHECKED.to_owned(),
        false => "--insecure means nothing for an http:// endpoint, which shows no certificate".to_owned(),
    })
}

/// Warnings: failures, rate limits, arrivals that were not sent.
pub(crate) fn cautions(phases: &[PhaseResult]) -> Vec<String> {
    let mut found = Vec::new();
    for rounds in by_load(phases) {
        let (share, failures) = (rounds.counts().failed_share().unwrap_or(0.0), rounds.failures());
        if share > Counts::FAILURE_LIMIT {
            let kinds: Vec<String> =
                failures.iter().map(|failure| format!("{} {}", failure.count, failure.kind.name())).collect();
            let hint = failures.first().map_or("", |failure| failure.hint.as_str());
            let percent = share * 100.0;
            found.push(LevelSentence {
                level: rounds.name().to_owned(),
                sentence: format!("{percent:.1} % of the requests failed ({}); {hint}", kinds.join(", ")),
            });
        }
    }
    for phase in phases {
        if phase.rate_limited.count > 0 {
            let limited = phase.rate_limited.count;
            found.push(at_level(
                phase,
                format!(
                    "{} rate-limited; the level measures the provider's limit, not its speed",
                    if limited == 1 { "1 request was".to_owned() } else { format!("{limited} requests were") }
                ),
            ));
        }
        if phase.counts.withheld > 0 {
            let withheld = phase.counts.withheld;
            found.push(at_level(
                phase,
                format!(
                    "{withheld} arrivals were not sent because the provider had asked to wait (--no-backoff sends them)"
                ),
            ));
        }
        let held = phase.rate_limited.held_back_share.filter(|share| *share > 0.0);
        if let (Some(share), Some(seconds)) = (held, phase.rate_limited.held_back_seconds) {
            let share = share * 100.0;
            found.push(at_level(
                phase,
                format!(
                    "the load was held back for {} ({share:.0} % of the level) because the provider asked to wait",
                    format::seconds(seconds)
                ),
            ));
        }
        if phase.counts.forfeited > 0 {
            found.push(at_level(
                phase,
                format!(
                    "{} arrivals were forfeited: --max-in-flight requests were open, or nothing had been answered yet",
                    phase.counts.forfeited
                ),
            ));
        }
    }
    for phase in phases {
        let warnings = phase.server.iter().flat_map(|server| &server.warnings);
        found.extend(warnings.map(|warning| at_level(phase, warning.clone())));
    }
    let mut found = merge_repeated(found);
    found.extend(given_up_batches(phases));
    found.extend(unreadable_events(phases).into_iter().chain(events_too_large(phases)));
    let doubtful = suspicions(phases).into_iter().filter(|suspicion| !suspicion.is_note());
    found.extend(doubtful.map(|suspicion| suspicion.sentence));
    found
}

/// How many events of all levels could not be read, and how one began.
fn unreadable_events(phases: &[PhaseResult]) -> Option<String> {
    let UnreadableEvents { events, answers, example } =
        UnreadableEvents::sum(phases.iter().filter_map(|phase| phase.unreadable.clone()))?;
    let of: u64 = phases.iter().map(|phase| phase.counts.answered).sum();
    let what = if events == 1 { "1 event".to_owned() } else { format!("{events} events") };
    let example = example.map_or_else(String::new, |example| format!(", such as `{example}`"));
    Some(format!(
        "{what} in {answers} of {of} answers could not be read (no JSON object){example}; what such an event held is in no figure"
    ))
}

/// What became of batches at the server whose end was not waited for, a sentence for each way.
fn given_up_batches(phases: &[PhaseResult]) -> Vec<String> {
    let given_up: Vec<&GivenUpBatch> =
        phases.iter().filter_map(PhaseResult::batches).flat_map(|batches| &batches.given_up).collect();
    let sentence = |end: GivenUpEnd| {
        let names: Vec<&str> = given_up.iter().filter(|it| it.end == end).map(|it| it.id.as_str()).collect();
        let (what, it, is, was) = match names.as_slice() {
            [] => return None,
            [one] => (format!("the batch {one}"), "it", "is", "was"),
            several => (format!("the batches {}", several.join(", ")), "they", "are", "were"),
        };
        Some(match end {
            GivenUpEnd::Cancelled => {
                format!(
                    "{what} had not ended and {was} cancelled at the server; what {it} had answered by then may be billed"
                )
            }
            GivenUpEnd::Ended => {
                format!("{what} had ended at the server when {it} {was} to be cancelled, and {is} billed")
            }
            GivenUpEnd::MayGoOn => {
                let calls: Vec<&str> =
                    given_up.iter().filter(|it| it.end == end).map(|it| it.cancel.as_str()).collect();
                format!(
                    "{what} could not be cancelled: {it} may go on and cost money; send, with the key, {}",
                    calls.join(" and ")
                )
            }
        })
    };
    [GivenUpEnd::MayGoOn, GivenUpEnd::Cancelled, GivenUpEnd::Ended].into_iter().filter_map(sentence).collect()
}

/// How many events of all levels were longer than is read.
fn events_too_large(phases: &[PhaseResult]) -> Option<String> {
    let events: u64 = phases.iter().filter_map(|phase| phase.anomalies.get(Anomaly::EventTooLarge.name())).sum();
    let what = if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") };
    (events > 0).then(|| format!("{what} too large to be read; what such an event held is in no figure"))
}

/// The findings of the integrity checks of all phases, each once.
fn suspicions(phases: &[PhaseResult]) -> Vec<Suspicion> {
    Suspicion::pooled(phases.iter().flat_map(|phase| &phase.suspicions))
}

/// That prompts were sent more than once, if they were.
pub(crate) fn reused_prompts(source: &PromptSource, used: u64) -> Option<String> {
    let prompts = source.len().filter(|prompts| used > *prompts)?;
    Some(format!(
        "{used} requests used {prompts} {}, so some were sent again; a server that caches prompts answers those faster",
        if prompts == 1 { "prompt" } else { "prompts" }
    ))
}

/// That conversations of a file go on after what is sent of them, if they do.
pub(crate) fn cut_conversations(source: &PromptSource) -> Option<String> {
    let PromptSource::File(file) = source else { return None };
    let (cut, all) = (file.cut(), file.prompts().len());
    (cut > 0).then(|| {
        format!("{cut} of {all} conversations go on after their first answer; only what stands before it was sent (--sessions sends turns)")
    })
}

/// That a trace held requests without tokens, if it did.
pub(crate) fn omitted_trace_requests(source: &PromptSource) -> Option<String> {
    let left_out = match source {
        PromptSource::Trace(trace) => trace.left_out,
        PromptSource::Agents(trace) if trace.left_out > 0 => {
            let left_out = trace.left_out;
            return Some(format!("{left_out} model calls of the agents' trace have no token counts and were left out"));
        }
        _ => return None,
    };
    match left_out {
        0 => None,
        1 => Some("1 request of the trace has no tokens (it failed when it was taken) and was left out".to_owned()),
        n => {
            Some(format!("{n} requests of the trace have no tokens (they failed when it was taken) and were left out"))
        }
    }
}

/// Note for a run without streaming.
const NOT_STREAMED: &str = "the answers were not streamed: each came in one piece, so there is no TTFT, TPOT, ITL or output speed; E2E is \
     the wait for all of it";

/// That the end of a level cut sessions short, if it did. Of a level that was cut off itself that goes without saying.
fn cut_sessions(phase: &PhaseResult) -> Option<String> {
    let of_turns = phase.sessions.as_ref().map(|sessions| (sessions.cut, sessions.started));
    let of_agents = phase.agents.as_ref().map(|sessions| (sessions.cut, sessions.started));
    let (cut, started) = of_turns.or(of_agents).filter(|(cut, _)| *cut > 0 && !phase.interrupted)?;
    let were = if cut == 1 { "was" } else { "were" };
    Some(format!(
        "{cut} of {started} sessions {were} cut short, as --requests and --duration end a level in the middle of its last sessions; without them \
         every session runs to its end"
    ))
}

/// Notes on the results.
pub(crate) fn notes(phases: &[PhaseResult]) -> Vec<String> {
    let stale = phases.iter().filter(|phase| phase.connections.stale > 0).map(|phase| {
        let stale = phase.connections.stale;
        at_level(
            phase,
            format!(
                "the server had closed {stale} kept connections {}; their requests were sent on others and are timed from then",
                if phase.streams().is_some() { "before it took the request (GOAWAY, or without saying so)" } else { "without saying so" }
            ),
        )
    });
    let of_one_model = phases.iter().filter(|phase| phase.adapters.is_empty());
    let mismatched = of_one_model.filter_map(|phase| {
        let asked = &phase.conditions.model;
        let other = phase.models.iter().filter_map(|seen| seen.name.as_ref()).find(|name| *name != asked)?;
        Some(at_level(phase, format!("the answers name the model `{other}`, requested was `{asked}`")))
    });
    let invalid = phases.iter().filter_map(|phase| Some(at_level(phase, invalid_answers(phase)?)));
    let whole =
        phases.iter().find(|phase| !phase.conditions.streaming && phase.is_text()).map(|_| NOT_STREAMED.to_owned());
    let speeds = phases.iter().filter(|phase| phase.conditions.streaming).filter_map(missing_speeds);
    let sentences = suspicions(phases).into_iter().filter(Suspicion::is_note).map(|suspicion| suspicion.sentence);
    let waits = phases.iter().filter_map(|phase| Some(at_level(phase, stream_waits(phase)?)));
    let cut = phases.iter().filter_map(|phase| Some(at_level(phase, cut_sessions(phase)?)));
    let by_level =
        merge_repeated(stale.chain(waits).chain(cut).chain(mismatched).chain(invalid).chain(speeds).collect());
    whole.into_iter().chain(by_level).chain(sentences).collect()
}

/// That requests waited for streams of HTTP/2, so that fewer were with the server than the load says.
fn stream_waits(phase: &PhaseResult) -> Option<String> {
    let streams = phase.streams().filter(|streams| streams.waited > 0)?;
    let longest = streams
        .stream_wait
        .max
        .map_or_else(String::new, |longest| format!(", at most {}", format::seconds(longest / 1e3)));
    let allowed = streams.allowed.map_or_else(String::new, |allowed| format!(" (the server allows {allowed} on each)"));
    Some(format!(
        "{} of {} requests waited for a stream of {} HTTP/2 connection{}{allowed}{longest}; that is the client's wait and in no TTFT",
        streams.waited,
        streams.stream_wait.n,
        streams.connections,
        if streams.connections == 1 { "" } else { "s" }
    ))
}

/// How many answers are not the calls or the JSON that was asked for, and why most of them.
fn invalid_answers(phase: &PhaseResult) -> Option<String> {
    let structure = phase.structure.as_ref().filter(|structure| structure.valid < structure.n)?;
    let reasons =
        structure.invalid.iter().take(3).filter_map(|seen| Some(format!("{}: {}", seen.count, seen.name.as_ref()?)));
    let reasons: Vec<String> = reasons.collect();
    let (invalid, n) = (structure.n - structure.valid, structure.n);
    Some(format!("{invalid} of {n} answers are not what was asked for ({})", reasons.join("; ")))
}

/// Which answers of a level are not in its output speed. Why there is none at all stands where it would stand
/// ([`tokrate_record::missing_figures`]).
fn missing_speeds(phase: &PhaseResult) -> Option<LevelSentence> {
    let speed = &phase.output_speed;
    if phase.missing_reason(Metric::OutputSpeed).is_some() {
        return None;
    }
    let without: u64 = speed.missing.iter().map(|missing| missing.count).sum();
    let why: Vec<&str> = speed.missing.iter().map(|missing| missing.reason.as_str()).collect();
    (without > 0).then(|| {
        let all = speed.n + without;
        let bounded = match speed.bounded {
            0 => String::new(),
            quick if quick == without => "; they count by a bound".to_owned(),
            quick => format!("; the {quick} that could not be timed count by a bound"),
        };
        at_level(phase, format!("{without} of {all} answers have no output speed ({}){bounded}", why.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;
    use tokrate_meter::{ClientError, RequestNumbers};
    use tokrate_record::fixtures::{closed, phase};
    use tokrate_record::{Load, PhaseInput};

    #[test]
    fn only_a_figure_that_the_first_table_shows_is_a_warning() {
        let figure = |name: &str, unit: &str| FigureValidity {
            figure: name.to_owned(),
            unit: unit.to_owned(),
            value: 6.0,
            moved: 0.5,
            allowed: 0.12,
            valid: false,
        };
        let phase = |figures: Vec<FigureValidity>| {
            let mut record =
                Record::parse(include_str!("../../tokrate/src/out/testdata/record.json")).expect("a record");
            let mut phase = record.phases.swap_remove(0);
            phase.client_error = Some(ClientError { figures, client_limited: true, ..ClientError::default() });
            vec![phase]
        };
        let tail = phase(vec![figure("ITL p99", "ms")]);
        assert_eq!(invalid_results(&tail), Vec::<String>::new(), "no table of the summary shows it");
        let note = invalid_details(&tail).expect("the tables of every number show it");
        assert!(note.ends_with("concurrency 2: ITL p99 of 6.00 ms could be off by 500 µs"), "{note}");
        let both = phase(vec![figure("TTFT p50", "ms"), figure("ITL p99", "ms")]);
        let warning = "not valid by the client's own error: concurrency 2: TTFT p50 of 6.00 ms could be off by 500 µs; the other figures stand";
        assert_eq!(invalid_results(&both), [warning]);
        assert!(invalid_details(&both).is_some_and(|note| !note.contains("TTFT")));
        for shown in ["E2E p50", "TPOT p50", "throughput"] {
            assert!(shows(&figure(shown, "ms")), "{shown}");
        }
    }

    #[test]
    fn events_that_could_not_be_read_are_said_once_with_how_one_began() {
        let mut record = Record::parse(include_str!("../../tokrate/src/out/testdata/record.json")).expect("a record");
        record.phases.truncate(2);
        assert!(unreadable_events(&record.phases).is_none());
        for phase in &mut record.phases {
            phase.counts.answered = 20;
            phase.unreadable =
                Some(UnreadableEvents { events: 40, answers: 20, example: Some("{\"choices\": [".to_owned()) });
        }
        let said: Vec<String> =
            cautions(&record.phases).into_iter().filter(|said| said.contains("could not be read")).collect();
        let words = "80 events in 40 of 40 answers could not be read (no JSON object), such as `{\"choices\": [`; what such an event held is in no figure";
        assert_eq!(said, [words]);
    }

    #[test]
    fn sessions_that_the_end_of_a_level_cut_short_are_counted_in_a_note() {
        let load = Load::Sessions { sessions: 2, turns: 2 };
        let turn = |session, turn| RequestNumbers {
            session: Some(session),
            turn: Some(turn),
            ..steady_request(session * 2 + u64::from(turn), session * 1_000, 20, 10, 40)
        };
        let of =
            |rows: &[RequestNumbers]| phase(&PhaseInput { load, name: "2 sessions".to_owned(), ..closed(2) }, rows);
        let mut cut = of(&[turn(0, 0), turn(0, 1), turn(1, 0)]);
        let said = notes(std::slice::from_ref(&cut)).join(" ");
        assert!(said.contains("2 sessions: 1 of 2 sessions was cut short, as --requests"), "{said}");
        cut.interrupted = true;
        let whole = of(&[turn(0, 0), turn(0, 1)]);
        for silent in [cut, whole] {
            let said = notes(&[silent]).join(" ");
            assert!(!said.contains("cut short"), "{said}");
        }
    }

    #[test]
    fn repeated_sentences_are_merged() {
        let at_level =
            |level: &str, sentence: &str| LevelSentence { level: level.to_owned(), sentence: sentence.to_owned() };
        let all = vec![
            at_level("concurrency 1", "3 of 20 failed"),
            at_level("concurrency 8", "70 of 160 failed"),
            at_level("concurrency 8", "the model is another"),
            at_level("concurrency 9", "1 of 2 failed"),
        ];
        assert_eq!(
            merge_repeated(all),
            [
                "concurrency 1: 3 of 20 failed; the same at concurrency 8, concurrency 9",
                "concurrency 8: the model is another"
            ]
        );
        let rounds = (1..=9).map(|round| at_level(&format!("round {round}"), "1 failed")).collect();
        assert_eq!(
            merge_repeated(rounds),
            ["round 1: 1 failed; the same at round 2, round 3, round 4, round 5, round 6, round 7 and 2 more"]
        );
    }
}
