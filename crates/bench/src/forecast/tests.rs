//! Forecasts worked out by hand.

use super::*;
use crate::audio::{AudioTask, Clips, Realtime, Transcription};
use crate::plan::{Backoff, Growth, Ramp, Think};
use crate::prompts::{Lengths, PromptSource};
use crate::schedule::{Axis, Search};
use crate::{Calibration, Embedded, Limits, RequestOptions, Target};
use std::sync::Arc;
use tokrate_core::{RequestsPerSecond, Rng, Span};
use tokrate_sim::{Faults, Law};
use tokrate_wire::transcription::TranscriptForm;

fn config(load: Load, extent: Extent, warmup: u64) -> Config {
    let time = Span::from_secs(1);
    Config {
        target: Target::Embedded(Box::new(Embedded { law: Law::default(), faults: Faults::default() })),
        phases: vec![PhaseSpec { load, extent, warmup, backoff: Backoff::Obey }],
        schedule_mode: ScheduleMode::Listed,
        request: RequestOptions {
            batches: None,
            images: None,
            structure: None,
            attachments: None,
            adapters: None,
            tool_turns: None,
            items: None,
            audio: None,
            stream: true,
            include_usage: true,
            output_tokens: Lengths::Fixed(101),
            ignore_eos: false,
            legacy_max_tokens: false,
            temperature: None,
            extra: Vec::new(),
            keep_unknown: false,
        },
        prompts: PromptSource::synthetic(50, 0),
        limits: Limits { connect: time, idle: time, total: time, wait: time, max_body_bytes: 1 },
        probe: true,
        keep_going: false,
        slos: Vec::new(),
        max_cost_usd: None,
        workers: None,
        sampling: crate::config::Sampling::default(),
        calibration: Calibration::Off,
        seed: 0,
        text_seed: 0,
        host: String::new(),
        machine: String::new(),
        region: String::new(),
        version: String::new(),
    }
}

/// An answer takes 0.5 s to its first token and 100 more of 10 ms: 1.5 s.
const SEEN: ProbeTiming = ProbeTiming { ttft: 0.5, per_token: 0.01, is_whole: false, whole: 0.65, opened: 0.0 };

fn total(load: Load, extent: Extent, warmup: u64, seen: Option<ProbeTiming>) -> [Option<f64>; 4] {
    let total = Forecast::of(&config(load, extent, warmup), seen).total();
    [total.requests, total.input_tokens, total.output_tokens, total.seconds.map(|s| (s * 1e6).round() / 1e6)]
}

#[test]
fn a_closed_loop_takes_as_many_rounds_as_its_requests_need() {
    let load = || Load::Closed { concurrency: 4 };
    let counted = [Some(22.0), Some(1100.0), Some(2222.0)];
    let [rest @ .., seconds] = total(load(), Extent::Requests(20), 2, Some(SEEN));
    assert_eq!((rest, seconds), (counted, Some(9.0)), "six rounds of 1.5 s");
    assert_eq!(total(load(), Extent::Requests(20), 2, None)[3], None, "nobody knows before the first answer");
    let minute = Extent::Duration(Span::from_secs(60));
    assert_eq!(total(load(), minute, 0, None), [None, None, None, Some(60.0)]);
    let [requests, .., seconds] = total(load(), minute, 0, Some(SEEN));
    assert_eq!((requests, seconds), (Some(160.0), Some(61.5)), "at most as many as without load");
}

#[test]
fn an_answer_in_one_piece_says_the_least_and_the_most_that_a_longer_one_takes() {
    // 16 tokens in 0.8 s, so 101 of them in 0.8 to 5.05 s.
    let whole = ProbeTiming { ttft: 0.8, per_token: 0.05, is_whole: true, whole: 0.8, opened: 0.0 };
    let load = || Load::Closed { concurrency: 4 };
    assert_eq!(total(load(), Extent::Requests(20), 0, Some(whole))[3], Some(25.25), "five rounds at the most");
    let minute = Extent::Duration(Span::from_secs(60));
    let [requests, .., seconds] = total(load(), minute, 0, Some(whole));
    assert_eq!((requests, seconds), (Some(300.0), Some(65.05)), "and money for as many as there can be");
    assert!(Forecast::of(&config(load(), minute, 0), Some(whole)).is_time_at_most);
}

#[test]
fn sound_that_is_sent_has_no_tokens_to_foretell() {
    let clips = Arc::new(Clips::synthetic(&[1.0], 16_000, &Rng::root(0)));
    let mut config = config(Load::Closed { concurrency: 4 }, Extent::Requests(20), 2);
    let transcription = Transcription { clips, form: TranscriptForm::Json, stream: true };
    config.request.audio = Some(AudioTask::Transcription(transcription));
    let total = Forecast::of(&config, Some(SEEN)).total();
    assert_eq!((total.requests, total.input_tokens, total.usd), (Some(22.0), None, None));
}

#[test]
fn a_turn_with_sound_takes_as_long_as_the_one_before_the_load_and_a_session_is_opened_once() {
    let seen = ProbeTiming { ttft: 0.5, per_token: 0.01, is_whole: false, whole: 2.5, opened: 0.3 };
    let forecast = |load, extent| {
        let mut config = config(load, extent, 0);
        let clips = Some(Arc::new(Clips::synthetic(&[2.0], 24_000, &Rng::root(0))));
        config.request.audio = Some(AudioTask::Realtime(Realtime { clips, wants_sound: true, voice: "v".to_owned() }));
        Forecast::of(&config, Some(seen))
    };
    let alone = forecast(Load::Closed { concurrency: 4 }, Extent::Requests(20));
    let rounded = |forecast: &Forecast| forecast.total().seconds.map(|seconds| (seconds * 1e6).round() / 1e6);
    assert_eq!((rounded(&alone), alone.is_time_as_seen), (Some(14.0), true), "five rounds of 2.5 s and an opening");
    let sessions = Load::Sessions { sessions: 2, turns: 3, think: Think::Fixed(Span::ZERO), tools: None };
    assert_eq!(rounded(&forecast(sessions, Extent::Sessions(4))), Some(15.6), "two of three turns and an opening");
}

#[test]
fn a_query_is_read_with_each_document() {
    let mut config = config(Load::Closed { concurrency: 1 }, Extent::Requests(3), 0);
    config.request.items = Some(Items { task: ItemTask::Rerank, batch: 4 });
    assert_eq!(Forecast::of(&config, None).total().input_tokens, Some(3.0 * 4.0 * (50.0 + 20.0)));
}

#[test]
fn an_open_loop_asks_at_its_rate() {
    let rate = RequestsPerSecond::new(5.0).expect("a rate");
    let load = || Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 9 };
    let minute = Extent::Duration(Span::from_secs(60));
    assert_eq!(total(load(), minute, 0, None), [Some(300.0), Some(15_000.0), Some(30_300.0), Some(60.0)]);
    assert_eq!(total(load(), Extent::Requests(50), 0, Some(SEEN))[3], Some(11.5));
}

#[test]
fn a_ramp_is_reckoned_by_its_mean() {
    let ramp = Ramp { from: 1.0, to: 9.0, growth: Growth::Linear, over: Span::from_secs(60) };
    let ramped = || config(Load::ClosedRamp { ramp }, Extent::Duration(Span::from_secs(60)), 0);
    let level = Forecast::of(&ramped(), Some(SEEN)).total();
    assert_eq!((level.basis, level.requests), (Basis::AtMost, Some(209.0)), "5 of 1.5 s for a minute, and the last 9");
    let unseen = Forecast::of(&ramped(), None);
    assert_eq!((unseen.total().requests, unseen.assumed), (None, false), "the embedded engine costs nobody anything");
    let exponential = Ramp { growth: Growth::Exponential, ..ramp };
    assert!((exponential.mean() - 8.0 / 9.0_f64.ln()).abs() < 1e-12);
}

#[test]
fn what_is_added_is_bounded() {
    let closed =
        |schedule_mode| Config { schedule_mode, ..config(Load::Closed { concurrency: 1 }, Extent::Requests(20), 1) };
    let total = |mode| {
        let forecast = Forecast::of(&closed(mode), None);
        let total = forecast.total();
        assert_eq!(total.basis, Basis::AtMost);
        (forecast.added.map(|added| added.name).unwrap_or_default(), total.requests)
    };
    assert_eq!(total(ScheduleMode::Refine { max_levels: 3 }), ("up to 3 more".to_owned(), Some(84.0)));
    // 1 to 64 and 128: each as many as asked for, or three for each slot, and one for each to warm up.
    let system = f64::from(20 + 20 + 20 + 24 + 48 + 96 + 192 + 384 + 255);
    assert_eq!(total(ScheduleMode::System { max_concurrency: 130 }), ("up to 8 levels".to_owned(), Some(system)));
    let search = |max_load, max_requests| {
        total(ScheduleMode::Search(Search { axis: Axis::Concurrency, share: 0.95, max_load, max_requests }))
    };
    let (name, few) = search(1.0, 88);
    assert_eq!((name.as_str(), few), ("1 level", Some(89.0)), "88 tell 95 %, and one to warm up");
    let (name, many) = search(8.0, 200);
    // 1, 2, 4, 8, and 6 and 7 between the last two; each in two or three rounds.
    assert_eq!(name, "up to 6 levels");
    assert!(many.is_some_and(|many| (1200.0..1400.0).contains(&many)), "{many:?}");
}

#[test]
fn a_search_for_a_rate_takes_two_hours_at_most_where_nothing_else_is_asked() {
    let rate = RequestsPerSecond::new(1.0).expect("a rate");
    let load = Load::Open { rate, arrivals: Arrivals::Poisson, in_flight_limit: 256 };
    let search = Search { axis: Axis::Rate, share: 0.95, max_load: 100.0, max_requests: 2_000 };
    let config = Config { schedule_mode: ScheduleMode::Search(search), ..config(load, Extent::Requests(20), 0) };
    let total = Forecast::of(&config, None).total();
    assert_eq!(total.basis, Basis::AtMost);
    assert!(total.seconds.is_some_and(|seconds| (3_000.0..7_200.0).contains(&seconds)), "{total:?}");
    assert!(total.requests.is_some_and(|requests| (10_000.0..30_000.0).contains(&requests)), "{total:?}");
}

#[test]
fn several_targets_are_summed_up_and_no_more_is_spent_than_allowed() {
    let one = Forecast::of(&config(Load::Closed { concurrency: 4 }, Extent::Requests(20), 2), Some(SEEN));
    let sum = Forecast::together(&[one.clone(), one]);
    assert_eq!((sum.name.as_str(), sum.requests, sum.seconds), ("all 2 targets", Some(44.0), Some(18.0)));
}

#[test]
fn a_turn_of_a_session_holds_those_before_it() {
    let load = Load::Sessions { sessions: 2, turns: 3, think: Think::Fixed(Span::ZERO), tools: None };
    let [requests, input, output, _] = total(load, Extent::Sessions(2), 0, None);
    // Of each session 50, 50 + 151 and 50 + 302 tokens.
    assert_eq!((requests, input, output), (Some(6.0), Some(1206.0), Some(606.0)));
}
