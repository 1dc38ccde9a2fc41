//! The lane model against a reference implementation, and its edge cases. The reference keeps every sample and computes
//! each number from all of them: weights by age, least squares by QR, the slope from deviations from weighted means, a
//! sorted histogram.

use super::*;

/// What is asked: second, prompt tokens, calls in flight.
type Asked = (u64, u64, u32);

/// TTFT, its median and 90th percentile (s), speed (tok/s), weight, shared seconds of 200 output tokens.
type Expected = [f64; 6];

#[track_caller]
fn holds(model: &LaneModel, asked: Asked, expected: Expected) {
    let (second, prompt, in_flight) = asked;
    let found = model.expect(at(second), prompt, in_flight).expect("it is known");
    let shared = model.marginal_seconds(at(second), prompt, 200.0, in_flight).expect("it is known");
    let [ttft, p50, p90] = [found.ttft, found.ttft_p50, found.ttft_p90].map(Span::as_secs_f64);
    for (place, (is, should)) in
        [ttft, p50, p90, found.speed, found.weight, shared].into_iter().zip(expected).enumerate()
    {
        assert!(off(is, should) < 1e-6, "number {place} at {asked:?}: {is} instead of {should}");
    }
}

#[track_caller]
fn lasts(found: Option<Span>, expected: f64) {
    let found = found.expect("it is known").as_secs_f64();
    assert!(off(found, expected) < 1e-6, "{found} instead of {expected}");
}

/// Seven streamed answers: second, prompt tokens, calls in flight, TTFT (s), speed (tok/s), output tokens.
fn streamed() -> LaneModel {
    let mut model = model();
    for (second, prompt, in_flight, ttft, speed, tokens) in [
        (0, 200, 1.0, 0.30, 80.0, 16),
        (5, 2_000, 2.0, 0.62, 76.0, 48),
        (9, 800, 4.0, 0.45, 70.0, 200),
        (14, 3_000, 8.0, 0.95, 58.0, 16),
        (15, 500, 3.0, 0.42, 74.0, 400),
        (21, 1_500, 6.0, 0.66, 61.0, 84),
        (24, 100, 2.0, 0.35, 90.0, 32),
    ] {
        model.observe_ttft(at(second), prompt, in_flight, Span::from_secs_f64(ttft));
        model.observe_speed(at(second), in_flight, speed, tokens);
    }
    model
}

fn came_whole(model: &mut LaneModel, second: u64, prompt_tokens: u64, in_flight: f64, duration: f64, tokens: u64) {
    let duration = Span::from_secs_f64(duration);
    let answer = WholeAnswer { prompt_tokens, in_flight, expected_tokens: 100.0, duration };
    model.observe_whole(at(second), &answer, tokens);
}

#[test]
fn streamed_answers_agree_with_the_reference() {
    let mut model = streamed();
    holds(&model, (25, 1_000, 1), [0.494659472, 0.394891002, 0.924704119, 79.9592032, 5.00481972, 3.17886501]);
    holds(&model, (25, 1_000, 4), [0.616911900, 0.492486189, 1.15323977, 70.8923654, 5.00481972, 4.01335343]);
    holds(&model, (30, 100, 9), [0.890203792, 0.710657508, 1.66412484, 56.7432421, 4.94733446, 8.19918487]);
    holds(&model, (60, 4_000, 5), [1.02842161, 0.820998007, 1.92250579, 67.5650602, 4.61602627, 4.97944032]);
    lasts(model.ttft_p90(at(30), 100, 9, 1.0), 1.66412484);
    // A tail, and two requests that were given up.
    model.observe_ttft(at(26), 1_000, 4.0, Span::from_secs(9));
    model.observe_cancelled(at(27), 300, 2.0, Span::from_millis(800));
    model.observe_cancelled(at(28), 300, 5.0, Span::from_secs(6));
    holds(&model, (29, 1_000, 3), [1.54464272, 1.19386133, 12.9970798, 73.9603555, 4.95877845, 8.1591554]);
    holds(&model, (40, 0, 7), [1.93553695, 1.49598524, 16.2861793, 61.8437034, 4.83433719, 6.57738058]);
}

#[test]
fn a_learned_curve_has_the_percentiles_and_weights_of_its_points() {
    let point = |in_flight, ttft: f64, ttft_p90: f64, output_speed, n| CurvePoint {
        in_flight,
        prompt_tokens: 500,
        ttft: Span::from_secs_f64(ttft),
        ttft_p90: Span::from_secs_f64(ttft_p90),
        output_speed,
        n,
    };
    let points = [point(1, 0.3, 0.45, 80.0, 8), point(4, 0.5, 1.5, 60.0, 40), point(16, 1.6, 20.0, 25.0, 3)];
    let mut learned = model();
    learned.learn(at(0), &points);
    holds(&learned, (0, 500, 1), [0.303737926, 0.228615842, 0.442863210, 78.3759014, 31.0, 3.20073934]);
    holds(&learned, (150, 500, 8), [0.769906666, 0.579489242, 1.12255767, 44.4816748, 21.9203102, 12.1268906]);
    learned.observe_ttft(at(10), 1_200, 4.0, Span::from_millis(900));
    learned.observe_speed(at(10), 4.0, 50.0, 64);
    holds(&learned, (12, 1_200, 4), [1.0168266, 0.74807256, 1.71764971, 57.5138345, 30.9486151, 5.85291265]);
    // Points that nothing was measured at are none.
    let mut other = model();
    other.learn(at(0), &[point(1, 9.0, 9.0, 10.0, 0), point(1, 9.0, 9.0, 0.0, 9), point(1, 9.0, 9.0, -1.0, 9)]);
    assert_eq!(other.expect(at(0), 500, 1), None);
    other.learn(at(0), &points);
    holds(&other, (0, 500, 1), [0.303737926, 0.228615842, 0.442863210, 78.3759014, 31.0, 3.20073934]);
}

#[test]
fn whole_answers_agree_with_the_reference() {
    let mut alone = model();
    for (second, prompt, in_flight, duration, tokens) in
        [(0, 100, 1.0, 1.4, 100), (3, 100, 1.5, 2.6, 200), (6, 2_000, 2.0, 1.1, 40), (9, 400, 3.0, 2.2, 120)]
    {
        came_whole(&mut alone, second, prompt, in_flight, duration, tokens);
    }
    holds(&alone, (10, 100, 2), [0.440204105, 0.440204105, 0.440204105, 70.090106, 3.34148161, 3.55303391]);
    lasts(alone.whole_p90(at(10), 100, 150.0, 2, 1.0), 4.98421852);
    for (second, duration) in [(11, 1.5), (12, 20.0)] {
        let duration = Span::from_secs_f64(duration);
        let answer = WholeAnswer { prompt_tokens: 100, in_flight: 2.0, expected_tokens: 100.0, duration };
        alone.observe_cancelled_whole(at(second), &answer);
    }
    lasts(alone.whole_p90(at(13), 100, 150.0, 2, 1.0), 27.5160099);
}

#[test]
fn whole_answers_among_streamed_ones_weigh_little() {
    let mut mixed = streamed();
    for (second, prompt, in_flight, duration, tokens) in [(25, 100, 2.0, 3.4, 200), (27, 1_000, 4.0, 1.9, 60)] {
        came_whole(&mut mixed, second, prompt, in_flight, duration, tokens);
    }
    holds(&mixed, (28, 500, 3), [0.519316633, 0.414575031, 0.970797603, 72.6632882, 5.18944213, 3.79275621]);
}

#[test]
fn without_whole_answers_the_90th_percentile_comes_from_streamed_ones() {
    let model = streamed();
    // 1.66412484 s to the first token at the most, then 150 tokens at 56.7432421 tok/s.
    lasts(model.whole_p90(at(30), 100, 150.0, 9, 1.0), 1.66412484 + 150.0 / 56.7432421);
    assert_eq!(model.whole_p90(at(30), 100, 150.0, 9, 100.0), None, "not with so few samples");
}

#[test]
fn a_whole_answer_completes_a_partial_estimate() {
    let first_tokens = |more: &[u64]| {
        let mut model = model();
        model.observe_ttft(at(0), 0, 1.0, Span::from_millis(500));
        more.iter().for_each(|&ms| model.observe_ttft(at(1), 0, 1.0, Span::from_millis(ms)));
        model
    };
    // The rest of 1.6 s is that of 50 tokens, at a third of a sample's weight.
    let mut model = first_tokens(&[700]);
    came_whole(&mut model, 2, 0, 1.0, 1.6, 50);
    holds(&model, (2, 0, 1), [0.748515312, 0.808845363, 0.866829661, 51.0517291, 0.253108934, 4.75943255]);
    // A whole answer that was quicker than a first token: a tenth of it is the other tokens'.
    let mut model = first_tokens(&[]);
    came_whole(&mut model, 2, 0, 1.0, 0.45, 50);
    holds(&model, (2, 0, 1), [0.466897041, 0.487568339, 0.504762400, 1345.67901, 0.379663063, 0.627831312]);
    let speeds = |all: &[f64]| {
        let mut model = super::model();
        all.iter().zip([0, 2]).for_each(|(&speed, second)| model.observe_speed(at(second), 1.0, speed, 48));
        model
    };
    let mut model = speeds(&[100.0, 80.0]);
    came_whole(&mut model, 3, 0, 1.0, 1.6, 50);
    holds(&model, (3, 0, 1), [1.01075098, 1.01075098, 1.01075098, 83.5243809, 1.0, 3.47336662]);
    let mut model = speeds(&[100.0]);
    came_whole(&mut model, 2, 0, 1.0, 0.2, 50);
    holds(&model, (2, 0, 1), [0.00392156863, 0.00392156863, 0.00392156863, 164.252567, 1.0, 1.24598972]);
}

#[test]
fn invalid_speeds_are_ignored() {
    let mut model = model();
    model.observe_ttft(at(0), 0, 1.0, Span::from_millis(300));
    for speed in [0.0, -5.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        model.observe_speed(at(0), 1.0, speed, 300);
        assert_eq!(model.expect(at(0), 0, 1), None, "{speed} tok/s");
    }
}

#[test]
fn tails_are_clipped_from_five_samples_on() {
    let after = |samples: u64| {
        let mut model = model();
        (0..samples).for_each(|_| model.observe_ttft(at(0), 0, 1.0, Span::from_millis(500)));
        model.observe_speed(at(0), 1.0, 100.0, 300);
        model.observe_ttft(at(0), 0, 1.0, Span::from_secs(50));
        model.base_ttft.value(1.0).expect("samples")
    };
    // The law is met at a load of its own: a mean. Of four and one of 50 s it is 10.4 s; of five and one that counts 1.5 s, 0.667 s.
    assert!(off(after(4), (4.0 * 0.5 + 50.0) / 5.0) < 1e-9, "{}", after(4));
    assert!(off(after(5), (5.0 * 0.5 + 1.5) / 6.0) < 1e-9, "{}", after(5));
}

#[test]
fn a_quarter_of_a_sample_suffices_and_so_does_exactly_the_minimum() {
    let mut model = model();
    let ttft = Span::from_millis(300);
    let point = CurvePoint { in_flight: 1, prompt_tokens: 0, ttft, ttft_p90: ttft, output_speed: 50.0, n: 1 };
    model.learn(at(0), &[point]);
    assert!(model.expect(at(600), 0, 1).is_some(), "two half-lives ago");
    assert_eq!(model.expect(at(601), 0, 1), None);
    model.ttft_ratios = DecayingHistogram::new(LOWEST_RATIO_OCTAVE, ModelConfig::default().half_life);
    (0..10).for_each(|_| model.ttft_ratios.add(at(0), 1.0, 1.0));
    assert!(model.ttft_p90(at(0), 0, 1, 10.0).is_some());
    assert_eq!(model.ttft_p90(at(0), 0, 1, 10.1), None);
}

#[test]
fn empty_answers_leave_the_time_per_token_unchanged() {
    let (mut plain, mut with_empty) = (model(), model());
    came_whole(&mut with_empty, 0, 0, 1.0, 0.05, 0);
    for model in [&mut plain, &mut with_empty] {
        for (in_flight, speed) in [(1.0, 100.0), (1.2, 70.0), (4.0, 90.0), (16.0, 20.0)] {
            model.tpot.add(at(1), in_flight, 1.0 / speed, 1.0);
        }
    }
    for load in [1.0, 1.1, 2.0, 4.0] {
        assert_eq!(with_empty.tpot.value(load), plain.tpot.value(load), "at {load}");
    }
}
