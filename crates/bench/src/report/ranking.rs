//! Bar charts of targets, best first, and speed against cost. Ranks come from the scorecard.
//!
//! Invariant: a target without a value has a bar that says so.

use tokrate_charts::{Axis, Bar, BarChart, Block, LineChart, Point, Series, SeriesStyle};
use tokrate_judge::scorecard::{RankedMedian, ScoreRow, Scorecard};
use tokrate_record::curve::Measured;

/// The cost of one is too small a number to read.
const ANSWERS: f64 = 1_000.0;
const COSTS: &str = "What completed answers of this run have cost, warm-up and failures included.";

/// The pictures of a scorecard.
pub fn ranking(card: &Scorecard) -> Vec<Block> {
    let Some(level) = &card.level else { return Vec::new() };
    let bars = |title: String, axis, of: fn(&ScoreRow) -> &RankedMedian, more_is_better| {
        Block::chart(&BarChart {
            title,
            // Said once, with the first of the two.
            description: match more_is_better {
                true => {
                    "The best first. Bars whose intervals overlap may well stand the other way round: the ranks below say so."
                }
                false => "The best first.",
            }
            .to_owned(),
            axis,
            bars: ranked(card, of, more_is_better),
        })
    };
    let speed = Axis::linear("Output speed of one request, median", "tok/s");
    let ttft = Axis::linear("Time to first token, median", "ms");
    let mut blocks = vec![
        bars(format!("Output speed at {level}"), speed, |row| &row.output_speed, true),
        bars(format!("Time to first token at {level}"), ttft, |row| &row.ttft, false),
    ];
    blocks.extend(speed_against_cost(card, level).as_ref().map(Block::chart));
    blocks
}

fn ranked(card: &Scorecard, of: fn(&ScoreRow) -> &RankedMedian, more_is_better: bool) -> Vec<Bar> {
    let mut rows: Vec<(&str, Option<Measured>)> =
        card.rows.iter().map(|row| (row.target.as_str(), of(row).median)).collect();
    let worst = if more_is_better { f64::NEG_INFINITY } else { f64::INFINITY };
    let value = |median: Option<Measured>| median.map_or(worst, |median| median.value);
    rows.sort_by(|(_, a), (_, b)| {
        let rising = value(*a).total_cmp(&value(*b));
        if more_is_better { rising.reverse() } else { rising }
    });
    let bar = |(target, median): (&str, Option<Measured>)| Bar {
        label: target.to_owned(),
        value: median.map(|median| median.value),
        low: median.and_then(|median| median.low),
        high: median.and_then(|median| median.high),
        note: match median {
            Some(Measured { low: None, .. }) => "too few requests for an interval".to_owned(),
            Some(_) => String::new(),
            None => "no request has it".to_owned(),
        },
    };
    rows.into_iter().map(bar).collect()
}

/// Output speed over what a completed answer cost; `None` unless two targets have both.
fn speed_against_cost(card: &Scorecard, level: &str) -> Option<LineChart> {
    let series = card.rows.iter().filter_map(|row| {
        let median = row.output_speed.median?;
        let point = Point {
            x: ANSWERS * row.usd_per_answer?,
            y: Some(median.value),
            low: median.low,
            high: median.high,
            ..Point::default()
        };
        Some(Series { name: row.target.clone(), points: vec![point], style: SeriesStyle::Measured })
    });
    let series: Vec<Series> = series.collect();
    (series.len() > 1).then(|| LineChart {
        title: format!("Output speed against cost at {level}"),
        description: match &card.unlike_lengths {
            None => format!("Faster is higher, cheaper is further left. {COSTS}"),
            Some(lengths) => format!("Faster is higher; costs do not compare, as {lengths}. {COSTS}"),
        },
        // From 0, so that equal prices do not look far apart.
        x: Axis::linear(format!("Cost of {ANSWERS} completed answers"), "USD").holding([0.0]),
        y: Axis::linear("Output speed", "tok/s"),
        series,
        ..LineChart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, speed: Option<f64>, usd: Option<f64>) -> ScoreRow {
        let median = speed.map(|value| Measured { value, low: Some(value - 1.0), high: Some(value + 1.0) });
        let ranked = RankedMedian { n: 30, median, ..RankedMedian::default() };
        ScoreRow {
            target: target.to_owned(),
            output_speed: ranked.clone(),
            ttft: ranked,
            degradation: Vec::new(),
            ttft_tail: Default::default(),
            gap_tail: Default::default(),
            failed: Default::default(),
            rate_limited: Default::default(),
            price: None,
            usd_per_answer: usd,
            answer_tokens: None,
            suspicions: Vec::new(),
        }
    }

    fn card(rows: Vec<ScoreRow>) -> Scorecard {
        Scorecard {
            schema: Scorecard::SCHEMA.to_owned(),
            level: Some("concurrency 1".to_owned()),
            rows,
            unlike: Vec::new(),
            unlike_lengths: None,
            rounds: None,
            detectable: Vec::new(),
            family: 0,
            alpha: 0.05,
        }
    }

    #[test]
    fn the_best_stands_first_and_one_without_a_number_last() {
        let card = card(vec![row("a", Some(50.0), None), row("none", None, None), row("b", Some(90.0), None)]);
        let labels = |bars: Vec<Bar>| bars.into_iter().map(|bar| bar.label).collect::<Vec<String>>();
        assert_eq!(labels(ranked(&card, |row| &row.output_speed, true)), ["b", "a", "none"]);
        assert_eq!(labels(ranked(&card, |row| &row.ttft, false)), ["a", "b", "none"]);
        assert_eq!(ranked(&card, |row| &row.ttft, false)[2].note, "no request has it");
        assert_eq!(ranking(&card).len(), 2, "nobody's cost is known");
    }

    #[test]
    fn speed_stands_against_cost_where_two_targets_have_a_price() {
        let priced =
            vec![row("a", Some(50.0), Some(0.001)), row("b", Some(90.0), Some(0.004)), row("c", Some(70.0), None)];
        let chart = speed_against_cost(&card(priced), "concurrency 1").expect("two prices");
        assert_eq!(chart.series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(chart.series[1].points[0].x, 4.0);
        assert_eq!(speed_against_cost(&card(vec![row("a", Some(50.0), Some(0.001))]), ""), None);
    }

    #[test]
    fn costs_of_answers_of_different_lengths_are_not_called_cheaper() {
        let lengths = "answers differ in length: 36 against 60 tokens".to_owned();
        let rows = vec![row("a", Some(50.0), Some(0.001)), row("b", Some(90.0), Some(0.004))];
        let described = |card: &Scorecard| speed_against_cost(card, "").expect("two prices").description;
        let alike = card(rows);
        assert!(described(&alike).contains("cheaper"));
        let unlike = described(&Scorecard { unlike_lengths: Some(lengths.clone()), ..alike });
        assert!(unlike.contains(&lengths) && !unlike.contains("cheaper"), "{unlike}");
    }

    #[test]
    fn targets_without_a_load_in_common_have_no_bars() {
        let card = Scorecard { level: None, ..card(vec![row("a", Some(50.0), None)]) };
        assert!(ranking(&card).is_empty());
    }
}
