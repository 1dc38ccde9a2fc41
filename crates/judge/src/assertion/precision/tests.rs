//! Syntax of precision conditions, and how well figures of small rounds are known.

use super::*;
use tokrate_meter::fixtures::steady_request;
use tokrate_record::fixtures::{closed, phase};
use tokrate_record::run::by_load;

fn actual(text: &str) -> String {
    match Precision::parse(text) {
        Ok(precision) => precision.to_string(),
        Err(error) => {
            assert!(Precision::parse(&error.example).is_ok(), "the example of {error}");
            format!("{}: {}", error.column, error.message)
        }
    }
}

/// Rounds of ten requests each, whose first token comes after so many milliseconds, give or take a few.
fn rounds(ttfts: &[u64]) -> Vec<PhaseResult> {
    let round = |ttft: &u64| {
        let requests: Vec<_> = (0..10).map(|i| steady_request(i, i * 2_000, ttft + i, 10, 40)).collect();
        phase(&closed(1), &requests)
    };
    ttfts.iter().map(round).collect()
}

fn assessed(text: &str, phases: &[PhaseResult]) -> PrecisionOutcome {
    Precision::parse(text).expect("a condition").assess(&by_load(phases)[0])
}

#[test]
fn conditions_are_read_in_every_spelling() {
    for text in
        ["output_speed_p50 ± 2%", "output_speed.median +- 2 %", "output_speed_p50 <= 2%", "output_speed.p50+/-2%"]
    {
        assert_eq!(actual(text), "output_speed.median ± 2 %", "{text}");
    }
    assert_eq!(actual("ttft_p95 ± 20ms"), "ttft.p95 ± 20 ms");
    assert_eq!(actual("p95(ttft) ± 0.02 s @ concurrency 8"), "ttft.p95 ± 20 ms @ concurrency 8");
    assert_eq!(actual("throughput ± 5% @ rate 2.5"), "throughput.output_tokens_per_second ± 5 % @ rate 2.5");
    assert_eq!(actual("failure_share ± 1%"), "failures.share ± 1 %");
    assert_eq!(actual("output_speed.median ± 3 tok/s"), "output_speed.median ± 3 tok/s");
}

#[test]
fn nonsense_is_refused_with_what_would_do() {
    assert_eq!(actual("ttft_p95 ± 0%"), "12: a width is above 0: no number of requests makes it 0");
    assert_eq!(actual("ttft_p95 ± -3%"), "12: a width is above 0: no number of requests makes it 0");
    assert_eq!(actual("ttft_p95 ± 100%"), "12: a width of 100 % or more says nothing; ask for less");
    assert_eq!(actual("ttft_p95 ± 0.01%"), "12: figures may themselves be off by more than 0.1 %; ask for more");
    assert_eq!(actual("ttft.p95 500ms"), "10: expected ± and a width, found `500ms`");
    assert_eq!(actual("ttft_p95 = 2%"), "10: expected ± and a width, found `= 2%`");
    assert_eq!(actual("speed ± 2%"), "1: `speed` is no metric of a phase; did you mean output_speed or e2e_speed?");
    assert_eq!(actual("ttft.p95"), "9: expected ± and a width, and the text ends");
    for (text, at) in [("output_speed_p50", 17), ("throughput", 11), ("ttft_p95", 9), ("failure_share", 14)] {
        assert_eq!(actual(text), format!("{at}: expected ± and a width, and the text ends"), "{text}");
        assert_eq!(Precision::parse(text).expect_err("no width").example, format!("{text} ± 5%"));
    }
    assert_eq!(actual("tfft_p95 ± 2%"), "1: `tfft` is no metric of a phase; did you mean ttft or tpot or ttfat?");
    assert_eq!(actual("tfft.p95 ± 2%"), "1: `tfft` is no metric of a phase; did you mean ttft or tpot or ttfat?");
    assert_eq!(
        actual("ttft.max ± 2%"),
        "1: `max` has no interval that requests would narrow; p50, p90, p95, p99, p99_9, mean have"
    );
    assert_eq!(actual("counts.started ± 2"), "1: `counts` has no interval that requests would narrow");
    assert_eq!(
        actual("ttft.p95 ± 20"),
        "14: expected a unit behind the number (ms, s or us), or in the name as in ttft_ms.p95"
    );
}

#[test]
fn a_median_is_known_by_how_much_its_rounds_differ() {
    let phases = rounds(&[100, 101, 99, 100, 101, 99]);
    let outcome = assessed("ttft_p50 ± 2%", &phases);
    // Logarithms of 104 +- 0.894 (standard deviation of 0, 1, -1, 0, 1, -1): 3.003 * 0.894 / sqrt(6) / 104 = 1.05 %.
    assert!(outcome.half_width.is_some_and(|half| (half - 0.0105).abs() < 3e-4), "{outcome:?}");
    assert_eq!((outcome.status, outcome.rounds, outcome.requests), (PrecisionStatus::Reached, 6, 60));
    let finer = assessed("ttft_p50 ± 0.5%", &phases);
    // Some eighteen rounds: 2.4 * 0.0086 / sqrt(18) = 0.49 %.
    assert_eq!(finer.status, PrecisionStatus::NotReached);
    assert!(finer.more_requests.is_some_and(|more| (90..=150).contains(&more)), "{finer:?}");
    assert!(finer.sentence.contains("± 0.5 % not reached after 60 requests; about"), "{}", finer.sentence);
    let few = assessed("ttft_p50 ± 20%", &phases[..5]);
    assert_eq!((few.status, few.more_requests), (PrecisionStatus::NotReached, Some(10)), "six rounds are the least");
    assert!(
        few.sentence.contains("which is as narrow as was asked (± 20.0 %), but of 5 rounds: an interval counts from 6 rounds on; about 10 more"),
        "{}",
        few.sentence
    );
    assert!(!few.sentence.contains("not reached"), "{}", few.sentence);
}

#[test]
fn a_tail_needs_the_requests_from_which_it_is_stated() {
    let phases = rounds(&[100; 12]);
    let few = assessed("ttft_p95 ± 20 ms", &phases);
    assert_eq!(few.status, PrecisionStatus::NotReached, "120 of 130 requests: {few:?}");
    assert!(
        few.sentence.contains("but of 120 requests: ttft.p95 counts from 130 on; about 10 more"),
        "{}",
        few.sentence
    );
    let enough = assessed("ttft_p95 ± 20 ms", &rounds(&[100; 40]));
    assert_eq!(enough.status, PrecisionStatus::Reached, "{enough:?}");
}

#[test]
fn what_was_never_measured_is_not_reachable() {
    let phases = rounds(&[100]);
    let absent = assessed("item_throughput ± 2%", &phases);
    assert_eq!(absent.status, PrecisionStatus::NotReachable);
    assert!(absent.sentence.contains("is not known at concurrency 1: "), "{}", absent.sentence);
    let share = |width: &str| assessed(&format!("failure_share ± {width}"), &rounds(&[100; 6])).status;
    assert_eq!((share("30%"), share("1%")), (PrecisionStatus::Reached, PrecisionStatus::NotReached), "60 requests");
}

#[test]
fn a_round_that_was_cut_off_is_in_no_interval() {
    let mut phases = rounds(&[100, 101, 99, 100, 101, 99, 20]);
    let whole = assessed("ttft_p50 ± 2%", &phases[..6]);
    phases[6].interrupted = true;
    let cut = assessed("ttft_p50 ± 2%", &phases);
    assert_eq!((cut.status, cut.half_width, cut.rounds, cut.requests), (whole.status, whole.half_width, 6, 60));
    assert_eq!(cut.sentence, format!("{}; a round that was cut off is left out", whole.sentence));
    let alone = assessed("ttft_p50 ± 2%", &phases[6..]);
    assert_eq!((alone.status, alone.value), (PrecisionStatus::NotReached, None));
    let words =
        "ttft.p50 is not known at concurrency 1: no round came to its end; a round that was cut off is left out";
    assert_eq!(alone.sentence, words);
}
