//! The answer to a question: numbers with intervals, what binds, what was assumed, and the nearest measured rows.

use crate::asked::{Asked, Facts, Resolved};
use crate::coefficients::{Coefficients, GROUPS, group};
use crate::fit::Output;
use crate::interval::{Factors, Intervals, Value};
use crate::measured::{self, Measured};
use crate::question::{Kind, Question};
use crate::served;
use serde::Serialize;

/// What an estimator knows: facts, fitted coefficients, intervals and the rows they are from.
#[derive(Clone, PartialEq, Debug)]
pub struct Estimator {
    /// Tables of devices and models.
    pub facts: Facts,
    coefficients: Coefficients,
    intervals: Intervals,
    rows: Vec<Measured>,
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// Time a token after the first, ms; `None` for a ceiling.
    pub tpot_ms: Option<Value>,
    /// Time to the first token, ms; `None` for a ceiling.
    pub ttft_ms: Option<Value>,
    /// Tokens/s of one request; `None` for a ceiling.
    pub tok_s_user: Option<Value>,
    /// Tokens/s of all requests.
    pub tok_s_total: Option<Value>,
    /// Prompt tokens/s of one prompt.
    pub prefill_tok_s: Option<Value>,
    /// What binds.
    pub binds: &'static str,
    /// Kind of question.
    pub kind: &'static str,
    /// Share of the memory bandwidth that is used while decoding.
    pub mbu: f64,
    /// Share of peak arithmetic that is used while decoding.
    pub mfu: f64,
    /// Why the interval is wider than what was measured warrants; empty inside of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extrapolated: Vec<String>,
    /// What was not said and assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<String>,
    /// How many of the requests run at once, where some of them wait for room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The nearest measured rows.
    pub nearest: Vec<String>,
}

/// How much wider, in logarithms, an interval is for each reason to call it extrapolated.
const WIDER: f64 = 1.4;
/// Rows shown as nearest.
const NEAREST: usize = 2;

/// The lengths that are taken where none is said.
fn usual_lengths(question: &Question) -> Vec<String> {
    let unsaid = |value: Option<f64>| value.is_none_or(|tokens| tokens <= 0.0);
    let prompts = unsaid(question.isl) && question.context_depth.is_none();
    let prompts = prompts.then(|| format!("a TTFT of prompts of {} tokens", served::USUAL_PROMPT));
    let answers = unsaid(question.osl).then(|| format!("answers of {} tokens", served::USUAL_ANSWER));
    prompts.into_iter().chain(answers).collect()
}

impl Estimator {
    /// With the embedded facts, coefficients and intervals.
    pub fn embedded() -> Estimator {
        let facts = Facts::embedded();
        let (rows, _) = measured::rows(&facts);
        Estimator { facts, coefficients: Coefficients::fitted(), intervals: Intervals::embedded(), rows }
    }

    /// The same with other coefficients, such as those of one's own devices; intervals stay those of cross-validation.
    pub fn with_coefficients(self, coefficients: Coefficients) -> Estimator {
        Estimator { coefficients, ..self }
    }

    /// Answers what was asked.
    ///
    /// # Errors
    /// Why it cannot be answered, and what to give or change.
    pub fn answer(&self, asked: &Asked) -> Result<Answer, String> {
        self.answer_resolved(&asked.resolve(&self.facts)?)
    }

    /// Answers a question whose facts are known.
    ///
    /// # Errors
    /// When the facts give no finite number.
    pub fn answer_resolved(&self, resolved: &Resolved) -> Result<Answer, String> {
        let question = &resolved.question;
        let prediction = served::predict(question, &self.coefficients);
        let kind = question.kind();
        let extrapolated = self.extrapolated(question);
        let wider = WIDER.powi(i32::try_from(extrapolated.len()).unwrap_or(3).min(3));
        let around = |output: Output, value: f64| self.factors(question, output).widened(wider).around(value);
        let mut assumed = resolved.assumed.clone();
        if kind == Kind::Ceiling && (question.isl.is_none() || question.osl.is_none()) {
            let (isl, osl) = served::offline_lengths(&question.model.name);
            assumed.push(format!(
                "prompts of {isl} and answers of {osl} tokens, the means of MLPerf's data set for such a model"
            ));
        }
        if kind == Kind::Served {
            assumed.extend(usual_lengths(question));
        }
        if kind == Kind::Sram && question.concurrency.unwrap_or(1.0) > 1.0 {
            assumed.push("the speed of one request; load on on-chip memory is not modelled".to_owned());
        }
        let tpot = around(Output::Tpot, prediction.tpot);
        let ceiling = kind == Kind::Ceiling;
        let total = if ceiling {
            around(Output::Total, prediction.total)
        } else {
            tpot.inverse().times(prediction.total * prediction.tpot)
        };
        let answer = Answer {
            tpot_ms: (!ceiling).then(|| tpot.times(1e3)),
            ttft_ms: prediction.ttft.map(|ttft| around(Output::Ttft, ttft).times(1e3)),
            tok_s_user: (!ceiling).then(|| tpot.inverse()),
            tok_s_total: Some(total),
            prefill_tok_s: prediction.prefill.map(|speed| around(Output::Prefill, speed)),
            binds: prediction.binds,
            kind: kind.name(),
            mbu: prediction.mbu,
            mfu: prediction.mfu,
            extrapolated,
            assumed,
            waits: prediction.queued.then(|| {
                let (running, asked) = (prediction.running.floor(), question.concurrency.unwrap_or(1.0));
                format!(
                    "{running} of {asked} requests fit in the memory for the cache at once; the others wait for a place"
                )
            }),
            nearest: self.nearest(question),
        };
        let values = [answer.tpot_ms, answer.ttft_ms, answer.tok_s_user, answer.tok_s_total, answer.prefill_tok_s];
        let finite = |value: &Value| [value.low, value.value, value.high].iter().all(|x| x.is_finite() && *x > 0.0);
        if values.iter().flatten().all(finite) {
            Ok(answer)
        } else {
            Err("the facts give no finite speed; check them for sizes that cannot be".to_owned())
        }
    }

    /// The fitted coefficients.
    pub fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    /// Factors of the interval of a time a token, wider where the question lies outside of what was measured.
    pub fn tpot_factors(&self, question: &Question) -> Factors {
        let reasons = i32::try_from(self.extrapolated(question).len()).unwrap_or(3).min(3);
        self.factors(question, Output::Tpot).widened(WIDER.powi(reasons))
    }

    /// Factors of the interval of an output inside of what was measured.
    fn factors(&self, question: &Question, output: Output) -> Factors {
        self.intervals.factors(question.kind(), output, question.device.class, question.model.sparse())
    }

    /// In what the question lies outside of what was measured.
    fn extrapolated(&self, question: &Question) -> Vec<String> {
        let own = group(question.device.class, question.engine);
        let like: Vec<&Question> = self
            .rows
            .iter()
            .map(|row| &row.question)
            .filter(|other| group(other.device.class, other.engine) == own && other.kind() == question.kind())
            .collect();
        if question.kind() == Kind::Sram {
            return Vec::new();
        }
        if like.is_empty() {
            return vec![format!("nothing was measured of the group {}, kind {}", GROUPS[own], question.kind().name())];
        }
        let mut reasons = Vec::new();
        if question.first_vllm {
            reasons.push(
                "engine: vLLM before 0.8, whose first engine is not computed; runs of 0.6.3 take twice as long"
                    .to_owned(),
            );
        }
        let mut outside = |what: &str, of: &dyn Fn(&Question) -> Option<f64>, slack: f64| {
            let Some(value) = of(question) else { return };
            let known: Vec<f64> = like.iter().filter_map(|other| of(other)).collect();
            let most = known.iter().copied().fold(f64::MIN, f64::max);
            let least = known.iter().copied().fold(f64::MAX, f64::min);
            if !known.is_empty() && (value > most * slack || value < least / slack) {
                reasons.push(format!("{what}: {value:.0}, measured from {least:.0} to {most:.0}"));
            }
        };
        outside("parameters (billions)", &|other| Some(other.model.params / 1e9), 2.0);
        outside("requests a copy", &|other| other.concurrency.map(|concurrency| concurrency / other.copies()), 4.0);
        outside("prompt tokens", &|other| other.isl.filter(|isl| *isl > 0.0), 4.0);
        outside("bandwidth (GB/s)", &|other| Some(other.device.bandwidth / 1e9), 1.5);
        reasons
    }

    /// The measured rows most like a question: same kind and engine first, then by size, bandwidth, load and lengths.
    pub fn nearest(&self, question: &Question) -> Vec<String> {
        let apart = |a: f64, b: f64| (a.max(1e-9) / b.max(1e-9)).ln().abs();
        let distance = |other: &Question| {
            let kind = if other.kind() == question.kind() { 0.0 } else { 5.0 };
            let engine = if other.engine == question.engine { 0.0 } else { 0.7 };
            let load = apart(other.concurrency.unwrap_or(256.0), question.concurrency.unwrap_or(256.0));
            let prompt = apart(other.isl.unwrap_or(512.0) + 256.0, question.isl.unwrap_or(512.0) + 256.0);
            kind + engine
                + apart(other.model.active, question.model.active)
                + apart(other.device.bandwidth * other.devices, question.device.bandwidth * question.devices)
                + apart(other.bytes_a_weight(), question.bytes_a_weight())
                + 0.5 * load
                + 0.3 * prompt
        };
        let mut rows: Vec<(f64, &str)> =
            self.rows.iter().map(|row| (distance(&row.question), row.id.as_str())).collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.into_iter().take(NEAREST).map(|(_, id)| id.to_owned()).collect()
    }
}
