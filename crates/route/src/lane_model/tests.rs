//! Tests of the lane model: known laws are recovered from noisy samples.

use super::*;
use proptest::prelude::*;
use tokrate_core::Rng;

mod reference;

fn at(seconds: u64) -> Tick {
    Tick::from_nanos(seconds * 1_000_000_000)
}

fn model() -> LaneModel {
    LaneModel::new(ModelConfig::default())
}

/// 100 tok/s alone, contention 0.03, coherency 0.0005; 20 streams at most, the others queue for a second each.
fn true_speed(n: u32) -> f64 {
    let n = f64::from(n.min(20));
    100.0 / (1.0 + 0.03 * (n - 1.0) + 0.0005 * n * (n - 1.0))
}

fn true_ttft(prompt: u64, n: u32) -> f64 {
    0.2 + prompt as f64 / 5_000.0 + f64::from(n.saturating_sub(20))
}

/// A model with `samples` noisy samples at each of the loads.
fn taught(loads: &[u32], samples: usize, noise: f64) -> LaneModel {
    let (mut model, mut rng) = (model(), Rng::root(5));
    for sample in 0..samples {
        let n = loads[sample % loads.len()];
        let prompt = 100 + rng.below(3_000);
        let ttft = Span::from_secs_f64(true_ttft(prompt, n) * rng.log_normal(noise));
        model.observe_ttft(at(sample as u64 / 4), prompt, f64::from(n), ttft);
        model.observe_speed(at(sample as u64 / 4), f64::from(n), true_speed(n) / rng.log_normal(noise), 300);
    }
    model
}

fn off(is: f64, should: f64) -> f64 {
    (is / should - 1.0).abs()
}

#[test]
fn a_lane_that_is_given_up_before_it_ever_answers_is_silent_and_tried_again_later() {
    let mut model = LaneModel::new(ModelConfig::default());
    let at = |seconds| Tick::ZERO + Span::from_secs(seconds);
    for second in 0..3 {
        assert!(!model.is_silent(at(second)), "after {second}");
        model.observe_cancelled(at(second), 10, 1.0, Span::from_secs(1));
    }
    // What is given up meanwhile changes nothing.
    model.observe_cancelled(at(200), 10, 1.0, Span::from_secs(1));
    assert!(model.is_silent(at(301)) && !model.is_silent(at(302)));
    model.observe_cancelled(at(310), 10, 1.0, Span::from_secs(1));
    assert!(model.is_silent(at(311)));
    model.observe_ttft(at(312), 10, 1.0, Span::from_secs(2));
    assert!(!model.is_silent(at(312)));
}

#[test]
fn without_recent_samples_nothing_is_known() {
    let mut model = model();
    assert_eq!(model.expect(at(0), 100, 1), None);
    model.observe_ttft(at(0), 100, 1.0, Span::from_millis(300));
    assert_eq!(model.expect(at(0), 100, 1), None, "no speed yet");
    model.observe_speed(at(0), 1.0, 80.0, 300);
    let known = model.expect(at(0), 100, 1).expect("one sample of each");
    assert!(off(known.ttft.as_secs_f64(), 0.3) < 0.01 && off(known.speed, 80.0) < 0.01, "{known:?}");
    assert!(model.expect(at(300), 100, 1).expect("half of it").weight < 0.51);
    assert_eq!(model.expect(at(3_600), 100, 1), None);
}

#[test]
fn a_known_law_is_recovered_from_noisy_samples() {
    let model = taught(&[1, 2, 3, 5, 8, 12, 16, 20, 26, 32], 2_000, 0.3);
    for n in [1, 2, 4, 8, 16, 32] {
        let found = model.expect(at(500), 1_000, n).expect("taught");
        let (speed, ttft) = (true_speed(n), true_ttft(1_000, n));
        assert!(off(found.speed, speed) < 0.12, "{n}: {} against {speed} tok/s", found.speed);
        // A queue is taken for a tail at first, and learned the more slowly.
        let tolerance = if n > 20 { 0.4 } else { 0.2 };
        assert!(off(found.ttft.as_secs_f64(), ttft) < tolerance, "{n}: {} against {ttft} s", found.ttft);
    }
    // Where the queue begins is known to within the distance of the loads that were seen.
    let queued = |n| model.expect(at(500), 1_000, n).expect("taught").ttft > Span::from_secs(2);
    assert!(!queued(18) && queued(26));
    let (short, long) = (model.expect(at(500), 100, 4), model.expect(at(500), 3_000, 4));
    let slope = (long.expect("taught").ttft - short.expect("taught").ttft).as_secs_f64() / 2_900.0;
    assert!(off(slope, 1.0 / 5_000.0) < 0.25, "{slope} s per prompt token");
}

#[test]
fn extrapolation_from_few_loads_never_gets_faster() {
    for loads in [&[1][..], &[1, 2], &[6, 7, 8]] {
        let model = taught(loads, 200, 0.1);
        let speed = |n| model.expect(at(50), 1_000, n).expect("taught").speed;
        let seen = *loads.last().expect("not empty");
        assert!(off(speed(seen), true_speed(seen)) < 0.06);
        assert!(speed(2 * seen) < speed(seen) && speed(32) < speed(2 * seen), "{loads:?}");
        assert!(speed(2 * seen) > true_speed(2 * seen) * 0.6, "nor much slower than it is");
    }
}

#[test]
fn the_marginal_cost_is_the_own_time_without_contention_and_far_more_under_saturation() {
    let (mut flat, mut full) = (model(), model());
    for second in 0..400u32 {
        let n = 1 + second % 40;
        for (model, speed) in [(&mut flat, 100.0), (&mut full, 800.0 / f64::from(n.max(8)))] {
            model.observe_ttft(at(u64::from(second)), 100, f64::from(n), Span::from_millis(200));
            model.observe_speed(at(u64::from(second)), f64::from(n), speed, 300);
        }
    }
    let shared = |model: &LaneModel, n| model.marginal_seconds(at(400), 100, 200.0, n).expect("taught");
    let own = |model: &LaneModel, n| model.expect(at(400), 100, n).expect("taught").completion_seconds(200.0);
    assert!(shared(&flat, 20) < own(&flat, 20) * 1.5, "{} of {}", shared(&flat, 20), own(&flat, 20));
    assert!(shared(&full, 4) < own(&full, 4) * 2.0, "{} of {}", shared(&full, 4), own(&full, 4));
    assert!(shared(&full, 30) > own(&full, 30) * 4.9, "{} of {}", shared(&full, 30), own(&full, 30));
    assert_eq!(model().marginal_seconds(at(0), 1, 1.0, 1), None);
}

#[test]
fn quantiles_follow_the_distribution() {
    let model = taught(&[2], 3_000, 0.8);
    let found = model.expect(at(750), 1_000, 2).expect("taught");
    // Log-normal with a coefficient of variation of 0.8: median 0.781 of the mean, 90th percentile 1.927 of it.
    let mean = true_ttft(1_000, 2);
    assert!(off(found.ttft.as_secs_f64(), mean) < 0.2, "{:?}", found.ttft);
    assert!(off(found.ttft_p50.as_secs_f64(), 0.781 * mean) < 0.2, "{:?}", found.ttft_p50);
    assert!(off(found.ttft_p90.as_secs_f64(), 1.927 * mean) < 0.2, "{:?}", found.ttft_p90);
    assert_eq!(model.ttft_p90(at(750), 1_000, 2, 1e9), None, "not believed with so few samples");
}

#[test]
fn cancelled_requests_do_not_make_a_lane_look_faster() {
    let (mut cut, mut whole, mut rng) = (model(), model(), Rng::root(8));
    for sample in 0..2_000 {
        let seconds = rng.log_normal(1.5);
        whole.observe_ttft(at(sample / 8), 0, 1.0, Span::from_secs_f64(seconds));
        match seconds > 2.0 {
            true => cut.observe_cancelled(at(sample / 8), 0, 1.0, Span::from_secs(2)),
            false => cut.observe_ttft(at(sample / 8), 0, 1.0, Span::from_secs_f64(seconds)),
        }
    }
    let p90 = |model: &LaneModel| model.ttft_p90(at(250), 0, 1, 10.0).expect("taught").as_secs_f64();
    assert!(p90(&cut) >= 1.9, "{}", p90(&cut));
    assert!(p90(&cut) < p90(&whole) * 1.3, "{} against {}", p90(&cut), p90(&whole));
}

#[test]
fn a_slowdown_is_tracked_within_seconds_and_so_is_the_recovery() {
    let mut model = taught(&[4], 1_200, 0.1);
    let speed = |model: &LaneModel, now| model.expect(at(now), 1_000, 4).expect("taught").speed;
    for sample in 0..60 {
        model.observe_speed(at(300 + sample / 4), 4.0, true_speed(4) / 2.0, 300);
    }
    assert!(speed(&model, 315) < true_speed(4) * 0.65, "{}", speed(&model, 315));
    for sample in 0..160 {
        model.observe_speed(at(315 + sample / 4), 4.0, true_speed(4), 300);
    }
    assert!(off(speed(&model, 355), true_speed(4)) < 0.1, "{}", speed(&model, 355));
}

#[test]
fn a_measured_curve_is_used_at_once_and_outweighed_by_live_samples() {
    let mut model = model();
    let point = |in_flight| CurvePoint {
        in_flight,
        prompt_tokens: 1_000,
        ttft: Span::from_millis(400),
        ttft_p90: Span::from_millis(800),
        output_speed: true_speed(in_flight),
        n: 200,
    };
    model.learn(at(0), &[1, 4, 16].map(point));
    for n in [1, 4, 8, 16] {
        let known = model.expect(at(0), 1_000, n).expect("learned");
        assert!(off(known.speed, true_speed(n)) < 0.1 && off(known.ttft.as_secs_f64(), 0.4) < 0.1, "{n}: {known:?}");
        assert!(known.ttft_p90 > known.ttft_p50);
    }
    for second in 0..300 {
        model.observe_speed(at(second), 4.0, 30.0, 300);
        model.observe_ttft(at(second), 1_000, 4.0, Span::from_millis(400));
    }
    assert!(off(model.expect(at(300), 1_000, 4).expect("seen").speed, 30.0) < 0.1);
    model.learn(at(300), &[CurvePoint { n: 0, output_speed: 0.0, ..point(1) }]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn expectations_are_finite_and_positive_for_any_input(
        samples in proptest::collection::vec((0..40u64, 1..300u32, 1..1_000_000u64, 0..90_000u64, 1e-3..1e6f64), 1..80),
        in_flight in 0..5_000u32,
    ) {
        let (mut model, mut now) = (model(), 0);
        for (passes, n, microseconds, prompt, speed) in samples {
            now += passes;
            let load = f64::from(n);
            match microseconds % 3 {
                0 => model.observe_cancelled(at(now), prompt, load, Span::from_micros(microseconds)),
                _ => model.observe_ttft(at(now), prompt, load, Span::from_micros(microseconds)),
            }
            model.observe_speed(at(now), load, speed, 200);
            if let Some(expected) = model.expect(at(now), prompt, in_flight) {
                prop_assert!(expected.speed.is_finite() && expected.speed > 0.0, "{expected:?}");
                prop_assert!(expected.ttft > Span::ZERO && expected.ttft < Span::MAX, "{expected:?}");
                prop_assert!(expected.ttft_p50 <= expected.ttft_p90, "{expected:?}");
                prop_assert!(expected.completion_seconds(100.0).is_finite());
            }
        }
    }
}

/// An answer of a lane whose first token takes `first` seconds and each further one `tpot`.
fn whole(first: f64, tpot: f64, tokens: u64, expected_tokens: f64) -> WholeAnswer {
    let duration = Span::from_secs_f64(first + tpot * tokens as f64);
    WholeAnswer { prompt_tokens: 0, in_flight: 1.0, expected_tokens, duration }
}

#[test]
fn non_streamed_answers_give_total_times_and_hedge_times() {
    let mut learned = model();
    let mut rng = Rng::root(4);
    for call in 0..300 {
        let tokens = 20 + rng.below(400);
        learned.observe_whole(at(call), &whole(0.4, 0.01, tokens, 220.0), tokens);
    }
    let expected = learned.expect(at(300), 0, 1).expect("it is known");
    for tokens in [20.0, 100.0, 220.0, 400.0] {
        let truth = 0.4 + 0.01 * tokens;
        let estimate = expected.completion_seconds(tokens);
        assert!((estimate / truth - 1.0).abs() < 0.2, "{tokens} tokens: {estimate} against {truth}");
    }
    assert!(learned.ttft_p90(at(300), 0, 1, 10.0).is_none(), "no first token was ever seen");
    // Nine of ten calls have fewer than 380 tokens.
    let after = learned.whole_p90(at(300), 0, 220.0, 1, 10.0).expect("it is known").as_secs_f64();
    assert!((3.6..5.0).contains(&after), "{after}");
}

#[test]
fn a_non_streamed_answer_is_no_first_token() {
    let mut streamed = model();
    for call in 0..60 {
        streamed.observe_ttft(at(call), 0, 1.0, Span::from_millis(300));
        streamed.observe_speed(at(call), 1.0, 100.0, 200);
    }
    let mut mixed = streamed.clone();
    for call in 60..120 {
        mixed.observe_whole(at(call), &whole(0.3, 0.01, 500, 200.0), 500);
    }
    let before = streamed.expect(at(120), 0, 1).expect("it is known");
    let after = mixed.expect(at(120), 0, 1).expect("it is known");
    assert!((after.ttft.as_secs_f64() / before.ttft.as_secs_f64() - 1.0).abs() < 0.05, "{after:?} after {before:?}");
    assert!((after.speed / before.speed - 1.0).abs() < 0.05, "{after:?} after {before:?}");
    let p90 = |model: &LaneModel| model.ttft_p90(at(120), 0, 1, 10.0).expect("it is known").as_secs_f64();
    assert!((p90(&mixed) / p90(&streamed) - 1.0).abs() < 0.05);
}

#[test]
fn a_cancelled_answer_delays_hedges() {
    let learned = || {
        let mut model = model();
        (0..20).for_each(|call| model.observe_whole(at(call), &whole(0.5, 0.01, 50, 50.0), 50));
        model
    };
    let (plain, mut slow) = (learned(), learned());
    for call in 20..26 {
        slow.observe_cancelled_whole(at(call), &whole(3.0, 0.0, 0, 50.0));
    }
    let p90 = |model: &LaneModel| model.whole_p90(at(26), 0, 50.0, 1, 10.0).expect("it is known").as_secs_f64();
    assert!(p90(&slow) > 2.0 * p90(&plain), "{} after {}", p90(&slow), p90(&plain));
}

#[test]
fn answers_without_output_do_not_change_the_time_per_token() {
    let mut embeddings = model();
    for call in 0..20 {
        embeddings.observe_whole(at(call), &whole(0.05, 0.0, 0, 0.0), 0);
    }
    assert!(embeddings.expect(at(20), 0, 1).is_none(), "there is no output speed");
    embeddings.observe_speed(at(21), 1.0, 100.0, 200);
    let expected = embeddings.expect(at(22), 0, 1).expect("now it is known");
    assert!((expected.ttft.as_secs_f64() / 0.05 - 1.0).abs() < 0.1, "{expected:?}");
}
