//! Worked examples of every figure of a request, and properties that hold for any stream.

use super::*;
use crate::fixtures::{MS, RequestBuilder, at, numbers, steady_request};
use proptest::prelude::*;
use tokrate_core::{Rng, TextRange};
use tokrate_tokens::{Encoding, count};

fn kind_of(trace: &RequestTrace) -> Option<FailureKind> {
    trace.failure.as_ref().map(|failure| failure.kind)
}

#[test]
fn an_arrival_costs_sixteen_bytes() {
    assert_eq!(size_of::<Arrival>(), 16);
    assert_eq!(size_of::<Chunk>(), 16);
}

#[test]
fn times_run_from_the_last_byte_sent_and_from_due() {
    let trace = RequestBuilder::sent(10, 30)
        .first_byte(80)
        .event(80, EventKind::Empty)
        .say(130, Channel::Reasoning, "Let me think")
        .answer(230, "Yes")
        .done(330, 335);
    let row = numbers(&trace);
    assert_eq!(row.ttfb_ns, Some(50 * MS), "sent -> first body byte");
    assert_eq!(row.ttft_ns, Some(100 * MS), "sent -> first text, reasoning included, the role-only chunk not");
    assert_eq!(row.ttfat_ns, Some(200 * MS), "sent -> first answer text");
    assert_eq!(row.e2e_ns, Some(300 * MS), "sent -> end mark, not the end of the body");
    assert_eq!(row.e2e_from_due_ns, Some(320 * MS));
    assert_eq!((row.finished_at_ns, row.ended_at_ns), (330 * MS, 335 * MS));
    assert_eq!(row.largest_gap_ns, Some(100 * MS));
    assert_eq!((row.first_text_at_ns, row.last_text_at_ns), (Some(130 * MS), Some(230 * MS)));
}

#[test]
fn empty_deltas_and_roles_never_count_as_first_text() {
    let trace = RequestBuilder::sent(0, 0).event(5, EventKind::Empty).answer(6, "").answer(9, "a").done(9, 9);
    assert_eq!(trace.arrivals, [Arrival { at: at(9), text_end: 1, events: 1, channel: Channel::Answer }]);
    assert_eq!(numbers(&trace).ttft_ns, Some(9 * MS));
}

#[test]
fn an_answer_of_reasoning_alone_has_a_first_text_and_no_first_answer_text() {
    let row = numbers(&RequestBuilder::sent(0, 0).say(5, Channel::Reasoning, "hm").done(6, 6));
    assert_eq!((row.ttft_ns, row.ttfat_ns), (Some(5 * MS), None));
    assert_eq!(numbers(&RequestBuilder::sent(0, 0).say(5, Channel::Tool, "f").done(6, 6)).ttfat_ns, Some(5 * MS));
}

#[test]
fn speeds_of_a_worked_example() {
    // 40 tokens, one each 10 ms from 100 ms on: 39 later tokens in 390 ms; 40 tokens in 490 ms.
    let row = steady_request(0, 0, 100, 10, 40);
    assert_eq!(row.tokens_std, 40);
    assert_eq!(row.output_speed, Some(100.0));
    assert_eq!(row.tpot_ms, Some(10.0));
    assert_eq!(row.output_speed_missing, None);
    assert_eq!(row.e2e_speed, Some(40.0 / 0.490));
    // total latency = TTFT + (tokens - first chunk) / output speed
    assert_eq!(row.e2e_ns, Some(100 * MS + 39 * 10 * MS));
}

#[test]
fn tokens_of_the_first_chunk_do_not_count_as_speed() {
    // 20 tokens at once, then 20 in 400 ms: 50 tok/s, not 100.
    let mut story = RequestBuilder::sent(0, 0).answer(100, &" a".repeat(20));
    for token in 1..=20 {
        story = story.answer(100 + token * 20, " a");
    }
    let row = numbers(&story.done(500, 500));
    assert_eq!((row.tokens_std, row.tokens_first_chunk), (40, 20));
    assert_eq!(row.output_speed, Some(50.0));
    assert_eq!(row.tpot_ms, Some(20.0));
}

#[test]
fn a_window_too_small_has_no_speed_but_a_reason() {
    let missing = |row: RequestNumbers| (row.output_speed, row.tpot_ms, row.output_speed_missing);
    let reason = |text: &str| (None, None, Some(text.to_owned()));
    assert_eq!(missing(steady_request(0, 0, 1, 10, 15)), reason("fewer than 16 tokens"));
    assert!(steady_request(0, 0, 1, 1, 16).output_speed.is_some(), "15 ms");
    let chunks = |count: u64| {
        let actual = (0..count).fold(RequestBuilder::sent(0, 0), |story, i| story.answer(i * 100, &" a".repeat(10)));
        numbers(&actual.done(900, 900))
    };
    assert_eq!(missing(chunks(2)), reason("so few chunks that the time of one decides"));
    assert_eq!(chunks(3).output_speed, Some(100.0));
}

#[test]
fn a_gap_is_shared_among_the_tokens_of_the_later_chunk() {
    let trace = RequestBuilder::sent(0, 0).answer(10, " a a").answer(40, " a a a").answer(50, " a").done(50, 50);
    let row = numbers(&trace);
    assert_eq!(row.gaps().collect::<Vec<_>>(), [(30 * MS, 3), (10 * MS, 1)]);
    assert_eq!(row.itl_samples().collect::<Vec<_>>(), [(10 * MS, 3), (10 * MS, 1)]);
}

#[test]
fn the_remainder_of_a_shared_gap_is_not_lost() {
    let mut batch = EventBatch::new();
    batch.push_text(Tick::from_nanos(0), Channel::Answer, " a");
    batch.push_text(Tick::from_nanos(11), Channel::Answer, " a a a");
    let mut meter = RequestMeter::new();
    meter.on(&batch);
    let row = numbers(&meter.finish(Timing::default(), Ending::Complete));
    assert_eq!(row.itl_samples().collect::<Vec<_>>(), [(3, 1), (4, 2)], "3 + 4 + 4 = 11 ns");
}

#[test]
fn a_token_belongs_to_the_chunk_that_carries_its_last_byte() {
    // "Hello world!" has token ends at 5, 11 and 12 bytes.
    let trace =
        RequestBuilder::sent(0, 0).answer(10, "Hel").answer(20, "lo wor").answer(30, "l").answer(40, "d!").done(40, 40);
    let row = numbers(&trace);
    let tokens: Vec<u32> = row.chunk_list.iter().map(|chunk| chunk.tokens).collect();
    assert_eq!(tokens, [0, 1, 0, 2]);
    assert_eq!(row.tokens_std, 3, "counting chunk by chunk would have given more");
    let by_chunk: usize = ["Hel", "lo wor", "l", "d!"].map(|text| count(Encoding::O200kBase, text)).iter().sum();
    assert!(by_chunk > 3);
    // The chunk at 30 ms ends no token, so its gap goes to the next one: 20 ms for two tokens.
    assert_eq!(row.itl_samples().collect::<Vec<_>>(), [(10 * MS, 1), (10 * MS, 2)]);
}

#[test]
fn events_of_one_read_are_one_chunk_and_leave_no_gap() {
    let read = |batch: &mut EventBatch| {
        batch.push_text(at(20), Channel::Reasoning, " a");
        batch.push_text(at(20), Channel::Reasoning, " a");
        batch.push_text(at(20), Channel::Answer, " a");
    };
    let trace = RequestBuilder::sent(0, 0).say(10, Channel::Reasoning, " a").read(read).done(20, 20);
    assert_eq!(trace.arrivals.len(), 3, "one per tick and channel");
    let row = numbers(&trace);
    assert_eq!((row.chunks, row.text_events, row.bursts), (2, 4, 1));
    assert_eq!(row.burst_share, Some(0.75));
    assert_eq!(row.gaps().collect::<Vec<_>>(), [(10 * MS, 3)]);
    assert_eq!((row.tokens_std_reasoning, row.tokens_std_answer), (3, 1));
}

#[test]
fn a_burst_of_many_events_is_counted_in_full() {
    let fill = |batch: &mut EventBatch| (0..70_000).for_each(|_| batch.push_text(at(1), Channel::Answer, "a"));
    let row = numbers(&RequestBuilder::sent(0, 0).read(fill).done(1, 1));
    assert_eq!((row.chunks, row.text_events, row.bursts), (1, 70_000, 1));
    assert!(row.one_burst);
}

#[test]
fn a_short_answer_in_one_chunk_is_not_fake_streaming() {
    assert!(!numbers(&RequestBuilder::sent(0, 0).answer(9, &" a".repeat(31)).done(9, 9)).one_burst);
    assert!(numbers(&RequestBuilder::sent(0, 0).answer(9, &" a".repeat(32)).done(9, 9)).one_burst);
}

#[test]
fn channels_are_counted_each_over_its_own_whole_text() {
    // Interleaved, "Hello" + " world!" would be cut in pieces by the reasoning between.
    let trace = RequestBuilder::sent(0, 0)
        .answer(10, "Hel")
        .say(20, Channel::Reasoning, "One two")
        .answer(30, "lo world!")
        .say(40, Channel::Tool, "f(1)")
        .done(40, 40);
    let row = numbers(&trace);
    assert_eq!(row.tokens_std_answer, 3);
    assert_eq!(row.tokens_std_reasoning, count(Encoding::O200kBase, "One two") as u64);
    assert_eq!(row.tokens_std_tool, count(Encoding::O200kBase, "f(1)") as u64);
    assert_eq!(row.tokens_std, row.tokens_std_answer + row.tokens_std_reasoning + row.tokens_std_tool);
    assert_eq!(row.chunk_list.iter().map(|chunk| u64::from(chunk.tokens)).sum::<u64>(), row.tokens_std);
}

#[test]
fn reported_tokens_stand_beside_the_counted_ones_and_hidden_reasoning_enters_no_speed() {
    let usage = |reasoning| Usage {
        input: Some(9),
        output: Some(1_154),
        reasoning: Some(reasoning),
        cached_input: Some(4),
        cache_write_input: None,
    };
    let actual = |reasoning| {
        let story = (0..40).fold(RequestBuilder::sent(0, 0), |story, i| story.answer(100 + i * 10, " a"));
        numbers(&story.event(490, EventKind::Usage(usage(reasoning))).done(490, 490))
    };
    let row = actual(1_114);
    assert_eq!((row.tokens_std, row.tokens_reported, row.reasoning_reported), (40, Some(1_154), Some(1_114)));
    assert_eq!((row.input_reported, row.cached_input_reported), (Some(9), Some(4)));
    assert_eq!((row.output_speed, row.speed_tokens), (Some(100.0), Provenance::Counted));
    assert!(row.reasoning_hidden);
    assert!(!actual(0).reasoning_hidden);
    let silent = steady_request(0, 0, 1, 10, 40);
    assert_eq!((silent.tokens_reported, silent.input_reported), (None, None), "null, not 0");
}

#[test]
fn verdicts_follow_the_rules() {
    let say = || RequestBuilder::sent(0, 0).answer(5, "text");
    let finish = EventKind::Finish(FinishReason::Length);
    let ended = |story: RequestBuilder| story.end(9, Ending::Complete);
    assert_eq!(kind_of(&ended(say())), Some(FailureKind::Truncated));
    let unmarked = ended(say().event(6, finish));
    assert_eq!((kind_of(&unmarked), unmarked.anomalies.count(Anomaly::MissingDone)), (None, 1));
    assert_eq!(unmarked.finished_at(), at(9), "without an end mark the answer ends with its body");
    let actual = ended(say().event(6, finish).event(9, EventKind::Anomaly(Anomaly::MissingDone)));
    assert_eq!(actual.anomalies.count(Anomaly::MissingDone), 1, "counted once, whoever notices");
    assert_eq!(kind_of(&ended(say().event(6, EventKind::Done))), None, "some servers give no finish reason");
    assert_eq!(kind_of(&ended(RequestBuilder::sent(0, 0))), Some(FailureKind::Empty));
    assert_eq!(
        kind_of(&ended(RequestBuilder::sent(0, 0).event(5, finish).event(6, EventKind::Done))),
        Some(FailureKind::Empty)
    );
    let large = || RequestBuilder::sent(0, 0).event(5, EventKind::Anomaly(Anomaly::EventTooLarge));
    assert_eq!(kind_of(&ended(large())), Some(FailureKind::TooLarge));
    assert_eq!(kind_of(&ended(large().answer(6, "text").event(7, finish))), None, "what it says beside is whole");
    let odd = || RequestBuilder::sent(0, 0).event(5, EventKind::Anomaly(Anomaly::Malformed));
    assert_eq!(kind_of(&ended(odd())), Some(FailureKind::NotJson));
    assert_eq!(kind_of(&ended(odd().event(6, EventKind::Done))), Some(FailureKind::NotJson));
    assert_eq!(kind_of(&ended(odd().event(6, EventKind::Empty))), Some(FailureKind::Empty));
    assert_eq!(kind_of(&say().failed(FailureKind::Stalled, 9)), Some(FailureKind::Stalled));
    let late = say().event(6, EventKind::Done).failed(FailureKind::Protocol, 9);
    assert_eq!(kind_of(&late), None, "the end mark makes an answer whole whatever the transport does afterwards");
    let bare = RequestBuilder::sent(0, 0).event(6, EventKind::Done).failed(FailureKind::Protocol, 9);
    assert_eq!(kind_of(&bare), Some(FailureKind::Protocol));
}

#[test]
fn a_body_that_tls_did_not_end_is_whole_only_if_it_says_so() {
    let say = || RequestBuilder::sent(0, 0).answer(5, "text");
    let finish = EventKind::Finish(FinishReason::Stop);
    let ended = |story: RequestBuilder| story.end(9, Ending::Unsealed { message: "unsealed".to_owned() });
    let cut = ended(say());
    let failure = cut.failure.as_ref().map(|failure| (failure.kind, failure.message.as_str()));
    assert_eq!(failure, Some((FailureKind::Truncated, "unsealed")));
    let unmarked = ended(say().event(6, finish));
    assert_eq!((kind_of(&unmarked), unmarked.anomalies.count(Anomaly::MissingDone)), (None, 1));
    assert_eq!(kind_of(&ended(say().event(6, EventKind::Done))), None);
    assert_eq!(kind_of(&ended(RequestBuilder::sent(0, 0).event(6, EventKind::Done))), Some(FailureKind::Empty));
    assert_eq!(kind_of(&ended(RequestBuilder::sent(0, 0))), Some(FailureKind::Truncated));
}

#[test]
fn a_body_without_text_says_what_was_wrong_with_it() {
    let kind = |story: RequestBuilder| kind_of(&story.end(9, Ending::Complete));
    let odd = |story: RequestBuilder, anomaly| story.event(5, EventKind::Anomaly(anomaly));
    let cut = || odd(RequestBuilder::sent(0, 0), Anomaly::UnfinishedEvent);
    assert_eq!(kind(cut()), Some(FailureKind::Truncated));
    assert_eq!(kind(odd(cut(), Anomaly::Malformed)), Some(FailureKind::Truncated), "the part of an event is malformed");
    let understood = || RequestBuilder::sent(0, 0).event(4, EventKind::Empty);
    assert_eq!(kind(odd(understood(), Anomaly::Unreadable)), Some(FailureKind::NotJson), "an event was lost");
    assert_eq!(kind(odd(understood(), Anomaly::ExtraChoice)), Some(FailureKind::Empty));
}

#[test]
fn an_answer_too_long_to_be_measured_fails_however_it_ends() {
    let mut metadata = StreamMetadata::default();
    metadata.fail_too_large();
    metadata.close(Ending::Complete, true);
    let failure = metadata.failure.expect("it failed");
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::TooLarge, "more than 4 GiB of output text"));
    assert_eq!(metadata.anomalies.count(Anomaly::MissingDone), 0, "of a failed answer no end mark is expected");
}

#[test]
fn an_error_in_the_stream_keeps_its_kind_before_text_and_the_first_failure_counts() {
    let error = |batch: &mut EventBatch| {
        let message = batch.store("too many requests");
        let retry_after = Some(Span::from_secs(3));
        batch.push(at(6), EventKind::Failed { kind: FailureKind::RateLimited, message, retry_after });
    };
    let early = RequestBuilder::sent(0, 0).read(error).failed(FailureKind::Stalled, 9);
    let failure = early.failure.expect("failed");
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::RateLimited, "too many requests"));
    assert_eq!(failure.retry_after, Some(Span::from_secs(3)));
    let late = RequestBuilder::sent(0, 0).answer(5, "text").read(error).done(7, 9);
    assert_eq!(kind_of(&late), Some(FailureKind::ErrorInStream));
}

#[test]
fn a_truncated_row_keeps_what_was_measured() {
    let story = (0..40).fold(RequestBuilder::sent(0, 0).first_byte(90), |story, i| story.answer(100 + i * 10, " a"));
    let row = numbers(&story.end(700, Ending::Complete));
    assert_eq!(row.failure_kind(), Some(FailureKind::Truncated));
    assert_eq!((row.ttfb_ns, row.ttft_ns), (Some(90 * MS), Some(100 * MS)));
    assert_eq!((row.output_speed, row.tokens_std), (Some(100.0), 40));
    assert_eq!((row.e2e_ns, row.e2e_from_due_ns, row.e2e_speed), (None, None, None), "no finish was seen");
}

#[test]
fn a_request_that_was_never_sent_has_no_times() {
    let timing = Timing { due_at: at(1), ended_at: at(4), ..Timing::default() };
    let ending = Ending::Failed { kind: FailureKind::Connect, message: "refused".into(), retry_after: None };
    let row = numbers(&RequestMeter::new().finish(timing, ending));
    assert_eq!((row.sent_at_ns, row.ttfb_ns, row.ttft_ns, row.e2e_ns), (None, None, None, None));
    assert_eq!((row.tokens_std, row.burst_share, row.largest_gap_ns), (0, None, None));
    assert_eq!(row.output_speed_missing.as_deref(), Some("fewer than 16 tokens"));
}

#[test]
fn the_first_model_named_is_kept_and_changes_are_counted() {
    let named = |name: &'static str| {
        move |batch: &mut EventBatch| {
            let range: TextRange = batch.store(name);
            batch.push(at(1), EventKind::Model(range));
        }
    };
    let trace =
        RequestBuilder::sent(0, 0).read(named("one")).read(named("one")).read(named("two")).answer(2, "x").done(3, 3);
    assert_eq!((trace.model.as_deref(), trace.model_changes), (Some("one"), 1));
    let changes = |names: &[&'static str]| {
        let actual = names.iter().fold(RequestBuilder::sent(0, 0), |story, name| story.read(named(name)));
        actual.answer(2, "x").done(3, 3).model_changes
    };
    assert_eq!((changes(&["one", "one", "one"]), changes(&["one", "two", "two", "one"])), (0, 2));
}

#[test]
fn connection_timing_is_in_the_row() {
    let timing = Timing {
        due_at: at(1),
        sent_at: Some(at(60)),
        first_byte_at: Some(at(90)),
        ended_at: at(95),
        connection_new: true,
        stale_connections: 2,
        dns: Span::from_millis(3),
        connect: Span::from_millis(14),
        tls: Span::from_millis(31),
        ..Timing::default()
    };
    let row = numbers(&RequestMeter::new().finish(timing, Ending::Complete));
    assert_eq!((row.connection, row.stale_connections), (ConnectionState::New, 2));
    assert_eq!((row.dns_ns, row.connect_ns, row.tls_ns), (3 * MS, 14 * MS, 31 * MS));
    let kept = Timing { connection_new: false, ..timing };
    assert_eq!(numbers(&RequestMeter::new().finish(kept, Ending::Complete)).connection, ConnectionState::Reused);
}

#[test]
fn stream_metadata_is_in_the_row() {
    let timings = ServerTimings {
        queue: Some(Span::from_millis(1)),
        load: Some(Span::from_millis(2)),
        prefill: Some(Span::from_millis(3)),
        decode: Some(Span::from_millis(4)),
        total: Some(Span::from_millis(10)),
        prefill_tokens: Some(512),
        decode_tokens: Some(64),
    };
    let stored = |name: &'static str, json: &'static str| {
        move |batch: &mut EventBatch| {
            let (name, json) = (batch.store(name), batch.store(json));
            batch.push(at(2), EventKind::Unknown { name, json });
        }
    };
    let named = |name: &'static str| {
        move |batch: &mut EventBatch| {
            let name = batch.store(name);
            batch.push(at(1), EventKind::Model(name));
        }
    };
    let story = RequestBuilder::sent(0, 0).read(named("one")).read(named("two")).answer(2, "x");
    let story = story.read(stored("cost", "1")).read(stored("cost", "{\"usd\":0.5}")).read(stored("odd", "{cut"));
    let row = numbers(&story.read(|batch| batch.push_timings(at(3), timings)).done(3, 3));
    assert_eq!((row.model.as_deref(), row.model_changes), (Some("one"), 1));
    let times = [row.server_queue_ns, row.server_load_ns, row.server_prefill_ns, row.server_decode_ns];
    assert_eq!(times, [Some(MS), Some(2 * MS), Some(3 * MS), Some(4 * MS)]);
    assert_eq!(row.server_total_ns, Some(10 * MS));
    assert_eq!((row.server_prefill_tokens, row.server_decode_tokens), (Some(512), Some(64)));
    let unknown = serde_json::json!({ "cost": { "usd": 0.5 }, "odd": "{cut" });
    assert_eq!(serde_json::to_value(&row.unknown).expect("JSON"), unknown, "the last value; what is no JSON is a text");
    let silent = numbers(&RequestBuilder::sent(0, 0).answer(2, "x").done(3, 3));
    assert_eq!((silent.server_total_ns, silent.server_decode_tokens, silent.model), (None, None, None));
}

#[test]
fn an_answer_that_took_no_time_has_no_speed() {
    let row = numbers(&RequestBuilder::sent(5, 5).answer(5, "Yes").done(5, 5));
    assert_eq!((row.e2e_ns, row.ttft_ns, row.e2e_speed), (Some(0), Some(0), None));
}

#[test]
fn a_tick_that_falls_becomes_no_gap() {
    let trace = RequestBuilder::sent(0, 0).answer(20, " a").answer(10, " a").say(5, Channel::Tool, "f").done(30, 30);
    assert!(trace.arrivals.is_sorted_by_key(|arrival| arrival.at));
    assert_eq!(numbers(&trace).gaps().count(), 0);
}

#[test]
fn a_row_reads_back_as_it_was_written() {
    let usage =
        Usage { input: Some(12), output: Some(40), reasoning: None, cached_input: None, cache_write_input: None };
    let story = (0..40).fold(RequestBuilder::sent(0, 1).first_byte(90), |story, i| story.answer(100 + i * 10, " a"));
    let mut row = numbers(
        &story.event(490, EventKind::Usage(usage)).event(490, EventKind::Anomaly(Anomaly::AfterFinish)).done(490, 495),
    );
    row.chunk_list.clear();
    let text = serde_json::to_string(&row).expect("a row can be written");
    assert_eq!(serde_json::from_str::<RequestNumbers>(&text).expect("and read"), row);
    insta::assert_json_snapshot!("row", row);
    let failed = numbers(&RequestBuilder::sent(0, 0).failed(FailureKind::Dns, 3));
    let text = serde_json::to_string(&failed).expect("a row can be written");
    assert_eq!(serde_json::from_str::<RequestNumbers>(&text).expect("and read"), failed);
    let unknown = text.replace("\"dns\"", "\"dnss\"");
    let error = serde_json::from_str::<RequestNumbers>(&unknown).expect_err("no such kind").to_string();
    assert!(error.contains("unknown name `dnss`") && error.contains("rate_limited"), "{error}");
}

/// Text events: time since the one before, channel, text.
fn events() -> impl Strategy<Value = Vec<(u64, Channel, String)>> {
    let channel = prop_oneof![Just(Channel::Answer), Just(Channel::Reasoning), Just(Channel::Tool)];
    let pause = prop_oneof![Just(0_u64), 1..50_000_000_u64];
    prop::collection::vec((pause, channel, "[a-z é日\n.]{0,12}"), 0..40)
}

fn metered(events: &[(u64, Channel, String)], reads: &mut Rng) -> RequestTrace {
    let (mut meter, mut batch, mut tick) = (RequestMeter::new(), EventBatch::new(), 0);
    for (pause, channel, text) in events {
        tick += pause;
        batch.push_text(Tick::from_nanos(tick), *channel, text);
        if reads.below(2) == 0 {
            meter.on(&batch);
            batch.clear();
        }
    }
    batch.push(Tick::from_nanos(tick), EventKind::Done);
    meter.on(&batch);
    let timing = Timing { sent_at: Some(Tick::ZERO), ended_at: Tick::from_nanos(tick), ..Timing::default() };
    meter.finish(timing, Ending::Complete)
}

proptest! {
    #[test]
    fn gaps_and_itl_sum_to_last_minus_first_and_no_token_is_lost(events in events(), seed in 0_u64..8) {
        let row = numbers(&metered(&events, &mut Rng::root(seed)));
        let window = row.last_text_at_ns.unwrap_or(0) - row.first_text_at_ns.unwrap_or(0);
        prop_assert_eq!(row.gaps().map(|(gap, _)| gap).sum::<u64>(), window);
        prop_assert_eq!(row.itl_samples().map(|(value, count)| value * u64::from(count)).sum::<u64>(), window);
        let samples: u64 = row.itl_samples().map(|(_, count)| u64::from(count)).sum();
        prop_assert_eq!(samples, row.tokens_std - row.tokens_first_chunk);
        let of_chunks: u64 = row.chunk_list.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        prop_assert_eq!(of_chunks, row.tokens_std);
        prop_assert!(row.gaps().all(|(gap, _)| gap > 0), "gaps are never invented");
    }

    #[test]
    fn counts_are_those_of_the_whole_text_whatever_the_chunks(events in events()) {
        let row = numbers(&metered(&events, &mut Rng::root(1)));
        let whole = |wanted: Channel| {
            let texts = events.iter().filter(|(_, channel, _)| *channel == wanted).map(|(_, _, text)| text.as_str());
            count(Encoding::O200kBase, &texts.collect::<String>()) as u64
        };
        prop_assert_eq!(row.tokens_std_answer, whole(Channel::Answer));
        prop_assert_eq!(row.tokens_std_reasoning, whole(Channel::Reasoning));
        prop_assert_eq!(row.tokens_std_tool, whole(Channel::Tool));
    }

    #[test]
    fn how_reads_are_handed_over_changes_nothing(events in events(), seed in 0_u64..1_000) {
        prop_assert_eq!(metered(&events, &mut Rng::root(seed)), metered(&events, &mut Rng::root(seed + 1)));
    }
}
