//! Ranks of synthetic targets with a known order.

mod ranks;

use super::*;
use tokrate_core::{FailureKind, Span};
use tokrate_meter::RequestNumbers;
use tokrate_meter::fixtures::{failed_request, rate_limited_request, steady_request};
use tokrate_record::Suspicion;
use tokrate_record::fixtures::{self, closed};

/// A target whose requests start after about `ttft` and then write a token each `gap` (ms), at each concurrency.
fn target(ttft: u64, gaps: &[(u32, u64)], n: u64) -> Record {
    let phases = gaps.iter().map(|&(concurrency, gap)| {
        let requests: Vec<RequestNumbers> =
            (0..n).map(|i| steady_request(i, i * 4_000, ttft + i * 7 % 11, gap, 40)).collect();
        fixtures::phase(&closed(concurrency), &requests)
    });
    fixtures::record(phases.collect())
}

fn places(ranks: impl Iterator<Item = RankedMedian>) -> Vec<Option<(u32, u32)>> {
    ranks.map(|ranked| ranked.first.zip(ranked.last)).collect()
}

#[test]
fn targets_that_differ_get_places_and_those_that_do_not_share_them() {
    let (quick, same, slow) = (target(100, &[(1, 10)], 30), target(101, &[(1, 10)], 30), target(300, &[(1, 40)], 30));
    let card = Scorecard::of(&[("slow", &slow), ("quick", &quick), ("same", &same)]);
    assert_eq!(card.family, 6, "three pairs, two metrics");
    assert_eq!(card.level.as_deref(), Some("concurrency 1"));
    let expected = [Some((3, 3)), Some((1, 2)), Some((1, 2))];
    assert_eq!(places(card.rows.iter().map(|row| row.output_speed.clone())), expected);
    assert_eq!(places(card.rows.iter().map(|row| row.ttft.clone())), expected);
    let speed = card.rows[0].output_speed.median.expect("30 requests");
    assert!((speed.value - 25.0).abs() < 0.3, "40 ms a token: {speed:?}");
    assert!(speed.low <= Some(speed.value) && speed.high >= Some(speed.value));
}

#[test]
fn too_few_requests_have_no_place_and_take_none_from_others() {
    let (few, many, slow) = (target(10, &[(1, 5)], 5), target(100, &[(1, 10)], 30), target(200, &[(1, 20)], 30));
    let card = Scorecard::of(&[("few", &few), ("many", &many), ("slow", &slow)]);
    assert_eq!(places(card.rows.iter().map(|row| row.ttft.clone())), [None, Some((1, 1)), Some((2, 2))]);
    let described = card.rows[0].ttft.median.expect("a median that describes");
    assert_eq!((described.low, described.high), (None, None));
    let alone = Scorecard::of(&[("many", &many)]);
    assert_eq!((alone.family, alone.rows[0].ttft.first), (0, None), "alone there is no place");
}

#[test]
fn speed_under_load_is_a_share_of_the_speed_alone() {
    let record = target(100, &[(1, 10), (10, 20), (50, 80)], 30);
    let card = Scorecard::of(&[("t", &record)]);
    let kept = &card.rows[0].degradation;
    assert_eq!(kept.iter().map(|seen| seen.concurrency).collect::<Vec<_>>(), [10, 50], "25 was not measured");
    assert!((kept[0].kept.value - 0.5).abs() < 0.01, "{kept:?}");
    assert!(kept[0].kept.low.is_some_and(|low| low <= 0.5) && kept[0].kept.high.is_some_and(|high| high >= 0.5));
    // An eighth is left after log2(50) = 5.64 doublings: 0.125 ^ (1 / 5.64) - 1.
    assert!((kept[1].per_doubling + 0.308).abs() < 0.005, "{kept:?}");
    let crowded_only = Scorecard::of(&[("t", &target(100, &[(10, 20)], 30))]);
    assert!(crowded_only.rows[0].degradation.is_empty(), "nothing is held against a level that was not measured");
}

#[test]
fn speed_kept_is_shown_at_the_loads_that_were_measured_and_common() {
    let gaps = |levels: &[u32]| levels.iter().map(|&level| (level, 10 + u64::from(level))).collect::<Vec<_>>();
    let shown = |levels: &[&[u32]]| -> Vec<(u32, u32)> {
        let records: Vec<Record> = levels.iter().map(|levels| target(100, &gaps(levels), 6)).collect();
        let named: Vec<(&str, &Record)> = ["a", "b"].into_iter().zip(&records).collect();
        Scorecard::of(&named).rows[0].degradation.iter().map(|kept| (kept.of, kept.concurrency)).collect()
    };
    assert_eq!(shown(&[&[2, 4, 8]]), [(2, 4), (2, 8)], "none of them is 10, 25 or 50");
    assert_eq!(shown(&[&[1, 2, 4, 8, 16, 32, 64]]), [(1, 2), (1, 8), (1, 64)], "the next, a middle one, the highest");
    assert_eq!(shown(&[&[1, 4, 16], &[1, 8, 16]]), [(1, 16)], "only what both have");
    assert_eq!(shown(&[&[1, 4], &[2, 8]]), []);
    // 14 ms a token at 4 in flight, 18 at 8: 0.778 in one doubling.
    let kept = &Scorecard::of(&[("t", &target(100, &gaps(&[4, 8]), 30))]).rows[0].degradation[0];
    assert!((kept.per_doubling + 0.222).abs() < 0.01, "{kept:?}");
}

#[test]
fn levels_that_are_not_common_have_no_places() {
    let (one, other) = (target(100, &[(1, 10)], 30), target(100, &[(2, 10)], 30));
    let card = Scorecard::of(&[("one", &one), ("other", &other)]);
    assert_eq!((card.level, card.family), (None, 0));
    assert!(card.rows.iter().all(|row| row.ttft.median.is_none() && row.ttft_tail.ratio.is_none()));
}

#[test]
fn failures_refusals_and_money_are_those_of_all_levels() {
    let mut requests: Vec<RequestNumbers> = (0..16).map(|i| steady_request(i, i * 100, 10, 10, 5)).collect();
    requests.extend((16..19).map(|i| failed_request(i, i * 100, i * 100 + 5, FailureKind::ServerError)));
    requests.push(rate_limited_request(19, 1_900, 1_905, Span::from_millis(5)));
    let mut record =
        fixtures::record(vec![fixtures::phase(&closed(1), &requests), fixtures::phase(&closed(1), &requests)]);
    record.spending = Some(Spending { usd: 0.64, ..Spending::default() });
    let row = &Scorecard::of(&[("t", &record)]).rows[0];
    assert_eq!((row.failed.count, row.rate_limited.count, row.failed.of), (6, 2, 40));
    assert_eq!(row.failed.share, Some(0.15));
    let interval = row.failed.interval.expect("of 40");
    assert!(interval.low > 0.06 && interval.high < 0.30, "{interval:?}");
    assert_eq!(row.usd_per_answer, Some(0.02), "32 answers");
    assert_eq!(row.price, None);
}

#[test]
fn a_tail_of_few_samples_is_marked() {
    let few = Tail::of_sorted(&[1.0, 1.0, 3.0]);
    assert_eq!((few.ratio, few.stated), (Some(3.0), false));
    let many: Vec<f64> = (0..1_000).map(|i| if i < 980 { 2.0 } else { 8.0 }).collect();
    let many = Tail::of_sorted(&many);
    assert_eq!((many.ratio, many.stated), (Some(4.0), true));
    assert_eq!(Tail::of_sorted(&[]), Tail::default());
    assert_eq!(Tail::of_sorted(&[0.0, 0.0]).ratio, None, "a median of 0 has no multiple");
}

#[test]
fn a_scorecard_reads_back_equal() {
    let (one, other) = (target(100, &[(1, 10)], 30), target(130, &[(1, 12)], 30));
    let card = Scorecard::of(&[("one", &one), ("other", &other)]);
    let text = serde_json::to_string(&card).expect("plain data");
    assert_eq!(serde_json::from_str::<Scorecard>(&text).expect("as written"), card);
    assert!(!text.contains("NaN"));
}

#[test]
fn conditions_that_differ_are_listed_but_for_those_that_name_the_target() {
    let with = |model: &str, seed: u64, options: &str, tokens: u32| {
        let mut record = target(100, &[(1, 10)], 6);
        let conditions = &mut record.conditions;
        (conditions.model, conditions.seed, conditions.options) = (model.into(), seed, options.into());
        (conditions.provider, conditions.endpoint) = (format!("of {model}"), format!("http://{model}/v1"));
        conditions.output_tokens = tokens;
        record
    };
    let records = [with("m", 1, "", 40), with("n", 2, "", 40), with("o", 3, "hot", 80)];
    let listed = |records: &[&Record]| -> Vec<(String, Vec<String>)> {
        differing_conditions(records).into_iter().map(|condition| (condition.name, condition.values)).collect()
    };
    let values = |all: [&str; 3]| all.map(str::to_owned).to_vec();
    let expected =
        [("output_tokens".to_owned(), values(["40", "40", "80"])), ("options".to_owned(), values(["", "", "hot"]))];
    assert_eq!(listed(&records.each_ref()), expected);
    assert_eq!(listed(&[&records[0], &records[1]]), []);
    assert_eq!(listed(&[]), []);
    let named: Vec<(&str, &Record)> = ["a", "b", "c"].into_iter().zip(&records).collect();
    assert_eq!(Scorecard::of(&named).unlike.len(), 2, "a scorecard has the same list");
}

#[test]
fn a_row_has_the_tails_of_its_level() {
    // 30 requests at each of two levels; alone, 3 of them start after 400 ms instead of 100, and 3 write every 50 ms instead of
    // every 10. So p99 / p50 is 4 and 5 there, and 1 at the other level, each within twice 0.55 %.
    let level = |concurrency: u32, late: u64, slow: u64| {
        let one = |i: u64| match i {
            0..3 => steady_request(i, i * 4_000, late, 10, 40),
            3..6 => steady_request(i, i * 4_000, 100, slow, 40),
            _ => steady_request(i, i * 4_000, 100, 10, 40),
        };
        fixtures::phase(&closed(concurrency), &(0..30).map(one).collect::<Vec<RequestNumbers>>())
    };
    let record = fixtures::record(vec![level(1, 400, 50), level(10, 100, 10)]);
    let row = &Scorecard::of(&[("t", &record)]).rows[0];
    let near = |tail: &Tail, expected: f64| (tail.ratio.expect("samples") / expected - 1.0).abs() < 0.011;
    assert!(near(&row.ttft_tail, 4.0) && near(&row.gap_tail, 5.0), "{row:?}");
    assert_eq!((row.ttft_tail.n, row.ttft_tail.stated), (30, false));
    assert_eq!((row.gap_tail.n, row.gap_tail.stated), (30 * 39, true), "39 gaps between 40 tokens");
}

#[test]
fn without_any_request_there_is_no_share_and_no_price_of_an_answer() {
    let mut record = fixtures::record(vec![fixtures::phase(&closed(1), &[])]);
    record.spending = Some(Spending { usd: 0.5, ..Spending::default() });
    let row = &Scorecard::of(&[("t", &record)]).rows[0];
    assert_eq!(row.failed, Share::default());
    assert_eq!(row.usd_per_answer, None, "nothing was answered");
}

#[test]
fn answers_of_different_lengths_are_named_beside_their_cost() {
    let of = |tokens: u64| {
        let requests: Vec<RequestNumbers> = (0..12).map(|i| steady_request(i, i * 4_000, 100, 10, tokens)).collect();
        fixtures::record(vec![fixtures::phase(&closed(1), &requests)])
    };
    let (long, short) = (of(60), of(36));
    let card = Scorecard::of(&[("long", &long), ("short", &short)]);
    assert_eq!(card.rows.iter().map(|row| row.answer_tokens).collect::<Vec<_>>(), [Some(60.0), Some(36.0)]);
    assert_eq!(card.unlike_lengths.as_deref(), Some("answers differ in length: 36 against 60 tokens"));
    assert_eq!(Scorecard::of(&[("long", &long), ("again", &long)]).unlike_lengths, None);
}

#[test]
fn each_suspicion_of_any_level_is_named_once() {
    let actual = |kinds: &[SuspicionKind]| {
        let suspicion = |&kind| Suspicion { kind, count: 1, of: 2, share: 0.5, sentence: String::new() };
        let suspicions = kinds.iter().map(suspicion).collect();
        PhaseResult { suspicions, ..fixtures::phase(&closed(1), &[]) }
    };
    use SuspicionKind::{OneBurst, OtherModel, Replayed};
    let record = fixtures::record(vec![actual(&[OneBurst, Replayed]), actual(&[]), actual(&[OtherModel, Replayed])]);
    assert_eq!(Scorecard::of(&[("t", &record)]).rows[0].suspicions, [Replayed, OtherModel, OneBurst]);
}
