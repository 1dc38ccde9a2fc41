//! Service level objectives of single requests. How many requests must meet them is [`Goodput`](crate::Goodput)'s concern.
//!
//! Invariant: a failed or rate-limited request misses; an answer that lacks the metric is undecided.
//!
//! Why a rate-limited request misses: whoever sent it got no answer, and a provider that refuses nine requests in ten must
//! not look as if it met every objective. They are counted apart beside the misses all the same.

use crate::expression::{Cursor, ExpressionError, Relation, bound_in, is_speed_unit, milliseconds_in, suggestion};
use std::fmt;
use tokrate_meter::request::RequestNumbers;
use tokrate_record::{Metric, MetricUnit};

/// A bound on a metric of single requests, such as `ttft_ms<500`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Slo {
    /// What is bounded.
    pub metric: Metric,
    /// `<` or `<=` for times, `>` or `>=` for speeds.
    pub relation: Relation,
    /// The bound, in milliseconds or tokens per second.
    pub bound: f64,
}

impl Slo {
    /// Parses an objective: a metric of one request, a relation, a number with its unit. The unit may be a suffix of the name
    /// (`ttft_ms<500`) or with the number (`ttft<500ms`, `ttft<0.5s`); speeds are in tok/s. Metrics: `ttfb`, `ttft`, `ttfat`,
    /// `tpot`, `itl` (the longest wait for a token after the first chunk), `largest_gap`, `e2e`, `e2e_from_due`,
    /// `output_speed`, `e2e_speed`.
    ///
    /// # Errors
    /// The column, what was expected there, and the nearest name of one that does not exist. A bound on the wrong side, such
    /// as `output_speed<30`, is refused too.
    pub fn parse(text: &str) -> Result<Slo, ExpressionError> {
        read(text).map_err(|error| {
            let metric = metric_in(text).unwrap_or(Metric::Ttft);
            error.with_example(format!("{}{}", metric.name(), bound_like(text, metric)))
        })
    }

    /// Parses one objective, or several in the form of `vllm bench serve --goodput` and of AIPerf, such as `ttft:200 tpot:50`:
    /// upper limits in milliseconds, as in those tools.
    ///
    /// # Errors
    /// As [`Slo::parse`].
    pub fn parse_all(text: &str) -> Result<Vec<Slo>, ExpressionError> {
        if !text.contains(':') || text.contains(['<', '>', '≤', '≥']) {
            return Slo::parse(text).map(|slo| vec![slo]);
        }
        let mut cursor = Cursor::new(text);
        let mut slos = Vec::new();
        while !cursor.is_over() {
            let bound = bound_in(text).map_or("200", |(number, _)| number);
            slos.push(pair(&mut cursor).map_err(|error| error.with_example(format!("ttft:{bound} tpot:50")))?);
            cursor.take(',');
        }
        Ok(slos)
    }

    /// Whether a request meets it; `None` for an answer that lacks the metric, and whose bounds do not decide. One that failed, was
    /// refused for its rate or was cancelled does not.
    pub fn kept(&self, request: &RequestNumbers) -> Option<bool> {
        if !request.is_answered() {
            return Some(false);
        }
        match self.metric.of(request) {
            Some(value) => Some(self.relation.holds(value, self.bound)),
            None => self.kept_by_bounds(request),
        }
    }

    /// The same of an answer too quick to be timed: where the least and the most that its time per token can be agree.
    fn kept_by_bounds(&self, request: &RequestNumbers) -> Option<bool> {
        let (least, most) = request.tpot_bounds_ms()?;
        let ends = match self.metric {
            Metric::Tpot => [least, most],
            Metric::OutputSpeed => [1e3 / most, 1e3 / least],
            _ => return None,
        };
        let [low, high] = ends.map(|value| self.relation.holds(value, self.bound));
        (low == high).then_some(low)
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.metric.is_in_milliseconds() { "_ms" } else { "" };
        write!(formatter, "{}{unit} {} {}", self.metric.name(), self.relation.symbol(), self.bound)
    }
}

/// Reads one objective.
fn read(text: &str) -> Result<Slo, ExpressionError> {
    let mut cursor = Cursor::new(text);
    let (metric, unit) = metric_name(&mut cursor)?;
    let sign_at = cursor.here();
    let relation = cursor.relation().map_err(|error| match of_many(cursor.text()) {
        Some(message) => cursor.error(sign_at, message),
        None => error,
    })?;
    if relation.is_upper() == metric.row().more_is_better {
        let (worse, right) = if metric.is_speed() { ("a lower speed", ">") } else { ("a longer time", "<") };
        let message = format!("{worse} is no objective; write {} {right} ...", metric.name());
        return Err(cursor.error(sign_at, message));
    }
    let number_at = cursor.here();
    let number = cursor.number()?;
    if number < 0.0 {
        return Err(cursor.error(number_at, "expected a number that is not negative".to_owned()));
    }
    let bound = scaled(&mut cursor, metric.row().unit, unit, number)?;
    cursor.end("the end of the objective")?;
    Ok(Slo { metric, relation, bound })
}

/// Reads `KEY:VALUE`, a bound in milliseconds (tok/s of a speed).
fn pair(cursor: &mut Cursor<'_>) -> Result<Slo, ExpressionError> {
    let at = cursor.here();
    let word = cursor.word(&[]);
    let name = word.to_lowercase();
    // The unit of this form may hang on the name.
    let metric = Metric::from_other_tools_name(name.strip_suffix("_ms").unwrap_or(&name)).ok_or_else(|| {
        let unknown = || format!("`{word}` is no metric of a request{}", suggestion(&name, &["ttft", "tpot", "e2el"]));
        cursor.error(at, of_many(word).unwrap_or_else(unknown))
    })?;
    let sign_at = cursor.here();
    if !cursor.take(':') {
        return Err(cursor.error(sign_at, format!("expected a colon and milliseconds{}", cursor.found(sign_at))));
    }
    let number_at = cursor.here();
    let bound = cursor.number()?;
    if bound < 0.0 {
        return Err(cursor.error(number_at, "expected a number that is not negative".to_owned()));
    }
    let relation = if metric.is_speed() { Relation::AtLeast } else { Relation::AtMost };
    if cursor.text_here().starts_with(char::is_alphabetic) {
        let unit_at = cursor.here();
        let unit = cursor.word(&['/']);
        if unit != "ms" || !metric.is_in_milliseconds() {
            let message = format!("`{unit}` stands behind a number that is in {} in this form", metric.unit());
            return Err(cursor.error(unit_at, message));
        }
    }
    Ok(Slo { metric, relation, bound })
}

/// A bound of a metric with the number of the text, as the end of an example.
fn bound_like(text: &str, metric: Metric) -> String {
    let usual = match metric.row().unit {
        MetricUnit::Milliseconds => ("500", "ms"),
        MetricUnit::Factor => ("1", ""),
        _ => ("30", ""),
    };
    let (number, unit) = bound_in(text).unwrap_or(usual);
    match metric.row().unit {
        MetricUnit::Factor => format!("<{number}"),
        _ if metric.is_speed() => format!(">{number}"),
        _ => format!("<{number}{}", if milliseconds_in(unit).is_some() { unit } else { "ms" }),
    }
}

/// The metric that a text names somewhere, for an example like it.
fn metric_in(text: &str) -> Option<Metric> {
    let lower = text.to_lowercase();
    let named = Metric::of_requests().filter(|metric| lower.contains(metric.name()));
    named.max_by_key(|metric| metric.name().len())
}

/// The error for a percentile, mean or extreme: these are statistics of many requests, not objectives of one.
fn of_many(text: &str) -> Option<String> {
    let left = text.split(['<', '>', '=', '≤', '≥']).next().unwrap_or_default();
    let demand = crate::assertion::canonical_spelling(left).unwrap_or_else(|| left.trim().to_lowercase());
    let (metric, statistic) = demand.split_once('.')?;
    let metric = metric.rsplit_once('_').filter(|(_, unit)| milliseconds_in(unit).is_some()).map_or(metric, |it| it.0);
    Metric::of_requests_from_name(metric)?;
    let share = statistic.strip_prefix('p').and_then(|percent| percent.replace('_', ".").parse::<f64>().ok());
    let share = share.map_or_else(String::new, |percent| {
        format!(" (a search asks for {percent} % of them with --slo-share {percent}%)")
    });
    let bound = bound_like(text, Metric::of_requests_from_name(metric)?);
    Some(format!(
        "{statistic} is of many requests, an objective of each one: write --slo '{metric}{bound}'{share}, or --assert '{metric}.{statistic}{bound}'"
    ))
}

/// The name of a metric with its unit suffix, if any.
fn metric_name<'t>(cursor: &mut Cursor<'t>) -> Result<(Metric, Option<&'t str>), ExpressionError> {
    let at = cursor.here();
    let word = cursor.word(&[]);
    if word.is_empty() {
        let message = format!("expected a metric such as ttft_ms{}", cursor.found(at));
        return Err(cursor.error(at, message));
    }
    let named = |name: &str| {
        let name = name.to_lowercase();
        Metric::of_requests_from_name(&name).or_else(|| Metric::from_other_tools_name(&name))
    };
    let found = match (named(word), word.rsplit_once('_')) {
        (Some(metric), _) => Some((metric, None)),
        (None, Some((name, unit))) if milliseconds_in(unit).is_some() => {
            named(name).filter(|metric| metric.is_in_milliseconds()).map(|it| (it, Some(unit)))
        }
        _ => None,
    };
    found.ok_or_else(|| {
        if let Some(message) = of_many(cursor.text()) {
            return cursor.error(at, message);
        }
        let known = Metric::of_requests().map(Metric::name).collect::<Vec<&str>>();
        cursor.error(at, format!("`{word}` is no metric of a request{}", suggestion(&word.to_lowercase(), &known)))
    })
}

/// A number in the unit after it or in its name, converted to milliseconds or tok/s.
pub(crate) fn scaled(
    cursor: &mut Cursor<'_>,
    wanted: MetricUnit,
    named: Option<&str>,
    number: f64,
) -> Result<f64, ExpressionError> {
    let at = cursor.here();
    let unit = cursor.word(&['/', 'µ']);
    let is_time = wanted == MetricUnit::Milliseconds;
    match (is_time, named, unit) {
        (false, _, "") => Ok(number),
        (false, _, unit) if wanted == MetricUnit::TokensPerSecond && is_speed_unit(unit) => Ok(number),
        (false, ..) if wanted != MetricUnit::TokensPerSecond => {
            Err(cursor.error(at, format!("`{unit}` stands behind a number that has no unit here")))
        }
        (false, ..) => Err(cursor.error(at, format!("`{unit}` is no unit of a speed; write tok/s or nothing"))),
        (true, Some(named), "") => Ok(number * milliseconds_in(named).unwrap_or(1.0)),
        (true, None, "") => {
            let message = "expected a unit behind the number (ms, s or us), or in the name as in ttft_ms";
            Err(cursor.error(at, message.to_owned()))
        }
        (true, Some(named), unit) if named != unit => {
            Err(cursor.error(at, format!("the name says {named} and the number `{unit}`; leave one of them out")))
        }
        (true, _, unit) => milliseconds_in(unit)
            .map(|each| number * each)
            .ok_or_else(|| cursor.error(at, format!("`{unit}` is no unit of time; those are ms, s and us"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokrate_core::{FailureKind, Span};
    use tokrate_meter::fixtures::{failed_request, rate_limited_request, steady_request};
    use tokrate_meter::request::NoSpeedReason;

    fn actual(text: &str) -> String {
        match Slo::parse_all(text) {
            Ok(slos) => slos.iter().map(Slo::to_string).collect::<Vec<String>>().join(", "),
            Err(error) => {
                assert!(Slo::parse_all(&error.example).is_ok(), "the example of {error}");
                format!("{}: {}; '{}'", error.column, error.message, error.example)
            }
        }
    }

    #[test]
    fn pairs_of_other_tools_are_read_as_they_mean_them() {
        assert_eq!(actual("ttft:200 tpot:50"), "ttft_ms <= 200, tpot_ms <= 50");
        assert_eq!(actual("ttft:200,e2el:1000"), "ttft_ms <= 200, e2e_ms <= 1000");
        assert_eq!(
            actual("time_to_first_token:75 inter_token_latency:19.75 request_latency:900ms"),
            "ttft_ms <= 75, tpot_ms <= 19.75, e2e_ms <= 900"
        );
        assert_eq!(actual("output_token_throughput_per_user:30"), "output_speed >= 30");
        assert_eq!(actual("ttft_ms:400 e2el_ms:2000"), "ttft_ms <= 400, e2e_ms <= 2000");
        // GuideLLM's.
        assert_eq!(actual("time_to_first_token_ms<400"), "ttft_ms < 400");
        assert_eq!(actual("inter_token_latency_ms<=20"), "tpot_ms <= 20");
        assert_eq!(actual("time_per_output_token_ms<20"), "tpot_ms < 20");
        assert_eq!(actual("request_latency<2s"), "e2e_ms < 2000");
        assert_eq!(actual("ttft<400us"), "ttft_ms < 0.4");
        assert_eq!(actual("ttft<5e8ns"), "ttft_ms < 500");
        // Nothing keeps it, and yet it is a bound.
        assert_eq!((actual("ttft:0"), actual("ttft_ms<=0")), ("ttft_ms <= 0".to_owned(), "ttft_ms <= 0".to_owned()));
        assert!(actual("p99_ttft_ms:400").starts_with("1: p99 is of many requests, an objective of each one"));
        for odd in ["ttft:200s", "itl:20", "ttft:", "ttft:200 tpot", "p95:3", "ttft:-1"] {
            assert!(Slo::parse_all(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn objectives_are_read_with_the_unit_in_either_place() {
        for text in ["ttft_ms<500", "ttft<500ms", "TTFT < 0.5 s", "ttft_s<0.5", "ttft_ms < 500 ms"] {
            assert_eq!(actual(text), "ttft_ms < 500", "{text}");
        }
        assert_eq!(actual("output_speed>30"), "output_speed > 30");
        assert_eq!(actual("output_speed >= 30 tok/s"), "output_speed >= 30");
        assert_eq!(actual("e2e_from_due<=1min"), "e2e_from_due_ms <= 60000");
        assert_eq!(actual("itl<40ms"), "itl_ms < 40");
    }

    #[test]
    fn a_text_that_is_no_objective_is_refused_with_its_column() {
        insta::assert_snapshot!(
            "refused",
            [
                "",
                "tftf<500ms",
                "output_sped>30",
                "ttft 500",
                "ttft<",
                "ttft<500",
                "ttft<500 parsecs",
                "ttft_ms<500s",
                "output_speed<30",
                "tpot>50ms",
                "output_speed>30ms",
                "ttft<500ms or so",
                "ttft<-1ms",
                "output_speed_ms>3",
                "ttft_p95<400ms",
                "p95(ttft)<400ms",
                "ttft.p99_9<400ms",
                "median_output_speed>30",
                "itl:20",
                "ttft:200s",
            ]
            .map(actual)
            .join("\n")
        );
    }

    #[test]
    fn a_failed_request_misses_and_one_without_the_metric_is_undecided() {
        let kept = |text: &str, request: &RequestNumbers| Slo::parse(text).expect("an objective").kept(request);
        // 40 tokens: the first after 100 ms, then one each 20 ms.
        let request = steady_request(0, 0, 100, 20, 40);
        for (met, missed) in
            [("ttft_ms<=100", "ttft_ms<100"), ("itl_ms<=20", "itl_ms<20"), ("output_speed>=50", "output_speed>50")]
        {
            assert_eq!((kept(met, &request), kept(missed, &request)), (Some(true), Some(false)), "{met}");
        }
        // 40 tokens in 7.8 ms: 0.195 to 0.206 ms each.
        let mut quick = steady_request(0, 0, 100, 1, 40);
        (quick.output_speed, quick.tpot_ms) = (None, None);
        quick.output_speed_missing = Some(NoSpeedReason::ShortWindow.reason().to_owned());
        quick.last_text_at_ns = quick.first_text_at_ns.map(|first| first + 7_800_000);
        assert_eq!([kept("tpot_ms<0.21", &quick), kept("output_speed>4800", &quick)], [Some(true); 2]);
        assert_eq!([kept("tpot_ms<0.19", &quick), kept("output_speed>5200", &quick)], [Some(false); 2]);
        assert_eq!(
            [kept("tpot_ms<0.2", &quick), kept("output_speed>5000", &quick), kept("itl<1s", &quick)][..2],
            [None; 2]
        );
        let short = steady_request(0, 0, 100, 20, 2);
        assert_eq!(kept("ttft_ms<200", &short), Some(true));
        assert_eq!(kept("tpot_ms<1000", &short), None, "two tokens have no tpot");
        let failed = failed_request(0, 0, 50, FailureKind::Stalled);
        let refused = rate_limited_request(0, 0, 5, Span::from_secs(1));
        for request in [failed, refused] {
            assert_eq!((kept("e2e_ms<1000", &request), kept("tpot_ms<1000", &request)), (Some(false), Some(false)));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_its_length(text in "\\PC{0,24}") {
            if let Err(error) = Slo::parse(&text) {
                prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
            }
        }

        #[test]
        fn a_written_value_reads_back(metric in prop::sample::select(Metric::of_requests().collect::<Vec<Metric>>()), bound in 0.0..1e6_f64) {
            let relation = if metric.is_speed() { Relation::AtLeast } else { Relation::Below };
            let slo = Slo { metric, relation, bound };
            prop_assert_eq!(Slo::parse(&slo.to_string()), Ok(slo));
        }
    }
}
