//! Genuine and manipulated answers, one sign each; rates of false alarms are in docs/method.md.

use super::*;
use crate::fixtures::{closed, phase};
use tokrate_core::Conditions;
use tokrate_meter::fixtures::steady_request;

/// An answer without any sign, of its own text.
fn honest(index: u64) -> RequestNumbers {
    RequestNumbers {
        text_hash: Some(format!("text {index}")),
        text_prefix_hash: Some(format!("prefix {index}")),
        repetition: Some(0.02),
        model: Some("sample".into()),
        finish: Some(FinishReason::Length),
        tokens_reported: Some(100),
        output_asked: Some(100),
        ..steady_request(index, index * 10_000, 100, 10, 100)
    }
}

fn found(requests: &[RequestNumbers]) -> Vec<(SuspicionKind, u64, u64)> {
    let result = phase(&closed(1), requests);
    result.suspicions.iter().map(|it| (it.kind, it.count, it.of)).collect()
}

fn with(change: impl Fn(&mut RequestNumbers)) -> Vec<(SuspicionKind, u64, u64)> {
    let mut requests: Vec<RequestNumbers> = (0..10).map(honest).collect();
    requests[2..5].iter_mut().for_each(change);
    found(&requests)
}

#[test]
fn honest_answers_raise_nothing() {
    assert_eq!(with(|_| ()), []);
    assert_eq!(found(&[]), []);
}

#[test]
fn each_trick_raises_its_own_sign() {
    use SuspicionKind::*;
    let replay = |request: &mut RequestNumbers| {
        request.text_hash = Some("same".into());
        request.text_prefix_hash = Some("same".into());
    };
    assert_eq!(with(replay), [(Replayed, 3, 10)], "the shared beginning of equal texts is not told twice");
    assert_eq!(with(|it| it.text_prefix_hash = Some("same".into())), [(SharedPrefix, 3, 10)]);
    assert_eq!(with(|it| it.repetition = Some(0.8)), [(Repetition, 3, 10)]);
    assert_eq!(with(|it| it.model = Some("sample-mini-2".into())), [], "a variant of the name");
    assert_eq!(with(|it| it.model = Some("other".into())), [(OtherModel, 3, 10)]);
    assert_eq!(with(|it| it.model_changes = 1), [(OtherModel, 3, 10)]);
    assert_eq!(with(|it| it.output_asked = Some(300)), [(LengthNotHonoured, 3, 10)]);
    assert_eq!(with(|it| it.output_asked = Some(50)), [(LengthNotHonoured, 3, 10)]);
    let hide = |it: &mut RequestNumbers| {
        (it.tokens_reported, it.reasoning_reported, it.reasoning_hidden) = (Some(500), Some(400), true);
        it.output_asked = Some(500);
    };
    assert_eq!(with(hide), [(ReasoningHidden, 3, 3)], "what is hidden explains the difference in tokens");
    let inflate = |it: &mut RequestNumbers| (it.tokens_reported, it.output_asked) = (Some(130), Some(130));
    assert_eq!(with(inflate), [(UsageDisagrees, 3, 10)]);
}

#[test]
fn a_prompt_that_the_server_has_in_its_cache_is_a_sign_where_the_workload_shares_nothing() {
    let cached =
        |tokens: u64| RequestNumbers { input_reported: Some(500), cached_input_reported: Some(tokens), ..honest(0) };
    let shares = |shared: u32| Conditions {
        shared_prefix_tokens: shared,
        prompts: ConditionsRow::SYNTHETIC.to_owned(),
        ..Conditions::default()
    };
    let seen =
        |conditions: &Conditions, request: &RequestNumbers| was_cached(&ConditionsRow::from(conditions), request);
    assert_eq!(seen(&shares(0), &cached(16)), Some(false), "the beginning of a chat template");
    assert_eq!(seen(&shares(0), &cached(499)), Some(true));
    assert_eq!(seen(&shares(400), &cached(400)), Some(false));
    assert_eq!(seen(&shares(400), &cached(460)), Some(true));
    assert_eq!(seen(&shares(0), &RequestNumbers { session: Some(1), ..cached(499) }), None, "a turn after others");
    let trace = Conditions { prompts: "words of 3 to 9 tokens as in a trace".to_owned(), ..Conditions::default() };
    assert_eq!(seen(&trace, &cached(499)), None);
    let made_up = |more: &str| Conditions { prompts: format!("synthetic; {more}"), ..Conditions::default() };
    assert_eq!(seen(&made_up("lengths uniform:100..900"), &cached(499)), Some(true));
    assert_eq!(seen(&made_up("20 shared prefixes of 50 % of the prompt, equally often"), &cached(499)), None);
    assert_eq!(seen(&shares(0), &honest(0)), None, "nothing is said of a cache");
    let rows: Vec<RequestNumbers> = (0..3).map(|_| cached(480)).collect();
    let found = examine(&ConditionsRow::from(&shares(0)), &rows.iter().collect::<Vec<_>>());
    assert!(found.iter().any(|seen| seen.kind == SuspicionKind::CachedPrompt && !seen.is_note()), "{found:?}");
}

#[test]
fn a_burst_is_a_sign_when_it_is_long_and_no_accident_of_the_network() {
    let burst = |index, first| RequestNumbers {
        tokens_std: 200,
        tokens_first_chunk: first,
        tokens_reported: Some(200),
        output_asked: Some(200),
        ..honest(index)
    };
    let of = |bursts: u64, all: u64, first: u64| -> Vec<RequestNumbers> {
        (0..all).map(|index| burst(index, if index < bursts { first } else { 4 })).collect()
    };
    let all = [(SuspicionKind::OneBurst, 10, 10)];
    assert_eq!(found(&of(10, 10, 190)), all);
    assert_eq!(found(&of(10, 10, 150)), [], "a fast engine behind a proxy");
    // P(B >= 3) = 0.012 and P(B >= 4) = 0.001028, P(B >= 5) = 0.00006 for B ~ Binomial(10, 0.05).
    assert_eq!(found(&of(4, 10, 190)), []);
    assert_eq!(found(&of(5, 10, 190)), [(SuspicionKind::OneBurst, 5, 10)]);
}

#[test]
fn counts_of_another_tokenizer_accuse_nobody() {
    let counted = |tokens| RequestNumbers { tokens_reported: None, tokens_std: tokens, ..honest(0) };
    let missed = |tokens| length_missed(&ConditionsRow::from(&Conditions::default()), &counted(tokens));
    assert_eq!([30, 190, 208].map(missed), [Some(false); 3]);
    assert_eq!([20, 209].map(missed), [Some(true); 2]);
}

#[test]
fn equal_answers_to_one_prompt_are_no_replay() {
    let same = |prompt: Option<&str>| RequestNumbers {
        text_hash: Some("same".into()),
        prompt_hash: prompt.map(str::to_owned),
        ..honest(0)
    };
    assert_eq!(found(&[same(Some("p")), same(Some("p"))]), []);
    assert_eq!(found(&[same(Some("p")), same(Some("q"))]), [(SuspicionKind::Replayed, 2, 2)]);
    assert_eq!(found(&[same(None), same(None)]), [(SuspicionKind::Replayed, 2, 2)]);
}

#[test]
fn an_early_stop_is_a_sign_only_with_ignore_eos() {
    let stopped = RequestNumbers { finish: Some(FinishReason::Stop), output_asked: Some(1_000), ..honest(0) };
    let missed = |ignore_eos: bool| {
        let conditions = Conditions { ignore_eos, output_tokens: 1_000, ..Conditions::default() };
        length_missed(&ConditionsRow::from(&conditions), &stopped)
    };
    assert_eq!((missed(false), missed(true)), (Some(false), Some(true)));
}

#[test]
fn names_of_one_model_are_distinguished_from_those_of_another() {
    assert!(is_same_model("gpt-4o", "gpt-4o-2024-08-06"));
    assert!(is_same_model("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"));
    assert!(!is_same_model("llama-3.3-70b", "llama-3.1-8b-instant"));
    assert!(!is_same_model("gpt-4o", "gpt-4.1"));
}

#[test]
fn every_finding_has_a_sentence_of_its_own() {
    let sentences = SuspicionKind::ALL.map(|kind| Suspicion::new(kind, 3, 10).sentence);
    let words: BTreeSet<&str> =
        sentences.iter().filter_map(|sentence| sentence.strip_prefix("3 of 10 answers (30 %) ")).collect();
    assert!(words.len() == SuspicionKind::ALL.len() && words.iter().all(|words| words.len() > 20), "{words:?}");
}

#[test]
fn a_beginning_in_common_is_a_sign_from_one_answer_in_twenty_on_and_a_repetition_in_one_alone() {
    let of_forty = |count: usize, change: fn(&mut RequestNumbers)| {
        let mut requests: Vec<RequestNumbers> = (0..40).map(honest).collect();
        requests[..count].iter_mut().for_each(change);
        found(&requests)
    };
    let shared = |request: &mut RequestNumbers| request.text_prefix_hash = Some("same".into());
    // A pair in 41 is 4.9 %.
    let mut requests: Vec<RequestNumbers> = (0..41).map(honest).collect();
    requests[..2].iter_mut().for_each(shared);
    assert_eq!(found(&requests), []);
    assert_eq!(of_forty(2, shared), [(SuspicionKind::SharedPrefix, 2, 40)]);
    let repeats = |request: &mut RequestNumbers| request.repetition = Some(0.8);
    assert_eq!(of_forty(1, repeats), [(SuspicionKind::Repetition, 1, 40)]);
}

#[test]
fn exactly_at_a_limit_nothing_is_seen() {
    let streaming = |streaming| ConditionsRow::from(&Conditions { streaming, ..Conditions::default() });
    let shows = |kind, request: &RequestNumbers| seen(kind, &streaming(true), request);
    for (repetition, is_seen) in [(0.5, false), (0.51, true)] {
        let request = RequestNumbers { repetition: Some(repetition), ..honest(0) };
        assert_eq!(shows(SuspicionKind::Repetition, &request), Some(is_seen), "{repetition}");
    }
    let burst = |first| RequestNumbers { tokens_std: 400, tokens_first_chunk: first, ..honest(0) };
    assert_eq!(shows(SuspicionKind::OneBurst, &burst(200)), Some(false));
    assert_eq!(shows(SuspicionKind::OneBurst, &burst(201)), Some(true));
    assert_eq!(seen(SuspicionKind::OneBurst, &streaming(false), &burst(400)), None, "it was to come whole");
    let whole = RequestNumbers { ttft_missing: Some(NOT_STREAMED.to_owned()), ..burst(400) };
    assert_eq!(shows(SuspicionKind::OneBurst, &whole), None, "it came whole, and says so");
    for (reported, is_seen) in [(100, false), (110, false), (120, false), (121, true), (80, false), (79, true)] {
        let request = RequestNumbers { tokens_std: 100, tokens_reported: Some(reported), ..honest(0) };
        assert_eq!(shows(SuspicionKind::UsageDisagrees, &request), Some(is_seen), "{reported} reported");
    }
    for (tokens, is_missed) in [(50, false), (49, true), (118, false), (119, true)] {
        let request = RequestNumbers { tokens_reported: Some(tokens), ..honest(0) };
        assert_eq!(length_missed(&streaming(true), &request), Some(is_missed), "{tokens} of 100");
    }
}

#[test]
fn signs_of_several_phases_are_counted_together() {
    use SuspicionKind::*;
    let of_one = [Suspicion::new(Replayed, 2, 10), Suspicion::new(UsageDisagrees, 1, 5)];
    let of_other = [Suspicion::new(UsageDisagrees, 3, 5), Suspicion::new(OneBurst, 4, 8)];
    let pooled = Suspicion::pooled(of_one.iter().chain(&of_other));
    assert_eq!(pooled, [of_one[0].clone(), of_other[1].clone(), Suspicion::new(UsageDisagrees, 4, 10)]);
    let notes: Vec<bool> = pooled.iter().map(Suspicion::is_note).collect();
    assert_eq!(notes, [false, false, true]);
    assert!(Suspicion::new(ReasoningHidden, 1, 1).is_note());
}
