//! Requests of a bench are read by the same queries as attempts of a gateway.
//!
//! Invariant: what the store works out of them is what the bench's own rows say.

use crate::folder::Folder;
use crate::rows::filled;
use tokrate_core::{Conditions, FailureKind, Price};
use tokrate_meter::fixtures::{failed_request, steady_request};
use tokrate_record::{Attempt, AttemptEnd, Metric, RunFrame, Sample, TargetPrice};
use tokrate_store::{Grouping, Query, Store};

fn attempt(number: usize, sample: Sample) -> Attempt {
    let end = if sample.failure.is_some() { AttemptEnd::Failed } else { AttemptEnd::Answered };
    Attempt {
        call: format!("bench-{number}"),
        alias: "bench".to_owned(),
        lane: "north".to_owned(),
        end,
        sample,
        ..Attempt::default()
    }
}

#[test]
fn a_summary_of_a_benchs_requests_has_the_benchs_figures() {
    let folder = Folder::new("of-bench");
    let conditions = Conditions {
        model: "large".to_owned(),
        provider: "north".to_owned(),
        dialect: "openai-chat".to_owned(),
        streaming: true,
        tokenizer: "o200k_base".to_owned(),
        region: "eu".to_owned(),
        ..Conditions::default()
    };
    let mut requests: Vec<_> = (0..9).map(|n| steady_request(n, 2_000 * n, 100 + 10 * n, 20 + n, 40)).collect();
    requests.push(failed_request(9, 18_000, 18_100, FailureKind::RateLimited));
    let conditions = (&conditions).into();
    let frame = RunFrame::new(
        &conditions,
        0,
        1_800_000_000_000,
        Price::from_usd_per_million(1.0, 10.0).map(|price| TargetPrice::of_tokens(price, "", "")),
    );
    let rows: Vec<Attempt> =
        frame.samples(&requests).into_iter().enumerate().map(|(number, sample)| attempt(number, sample)).collect();
    let store = filled(&folder, &rows);
    assert_eq!(store.attempts(&Query::default()).expect("readable"), rows, "nothing of a sample is lost");
    let all = store.summarise(&Query::default(), Grouping::default()).expect("readable").remove(0);
    let median = |metric: Metric| {
        let mut values: Vec<f64> = requests.iter().filter_map(|row| metric.of(row)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    assert_eq!(all.ttft.p50.nearest_rank(), Some(median(Metric::Ttft)));
    let tpot = all.tpot.p50.nearest_rank().expect("nine speeds");
    assert!((tpot / median(Metric::Tpot) - 1.0).abs() < 1e-6, "{tpot}");
    assert_eq!((all.answered, all.failures(), all.cost_unknown), (9, 1, 0));
    let tokens: u64 = requests.iter().map(|row| row.tokens_std).sum();
    assert_eq!((all.output_tokens_std, all.cost_estimated), (tokens, 9));
    assert!((all.cost_usd - 10.0 * tokens as f64 / 1e6).abs() < 1e-9, "{}", all.cost_usd);
    let (before, after) = store.sides(&Query::default(), 1_800_000_010_000).expect("readable");
    assert_eq!((before.levels.len(), after.levels.len()), (1, 1), "all of them are alike");
    assert_eq!(before.levels[0].times(Metric::Ttft).sorted.len(), 5);
}
