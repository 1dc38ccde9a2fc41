//! The measured rows that the coefficients are fitted to, each with its source.

use crate::asked::{Asked, Facts};
use crate::csv;
use crate::question::Question;

/// The table that is embedded.
const TABLE: &str = include_str!("../data/measured.csv");

/// A measured row.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Identifier in the table.
    pub id: String,
    /// The question that the measurement answers.
    pub question: Question,
    /// Seconds a token.
    pub tpot: Option<f64>,
    /// Seconds to the first token.
    pub ttft: Option<f64>,
    /// Tokens/s of all requests, of a ceiling.
    pub total: Option<f64>,
    /// Prompt tokens/s.
    pub prefill: Option<f64>,
    /// Whether its source says that requests waited for a place, as the engine ran fewer at once than were sent.
    pub queue_limited: bool,
}

/// A row of a table with the columns of `measured.csv` as it would be asked.
pub fn asked(row: &csv::Row) -> Asked {
    let text = |column: &str| Some(row.text(column).to_owned()).filter(|text| !text.is_empty());
    Asked {
        model: row.text("model").to_owned(),
        hardware: row.text("hardware").to_owned(),
        n_gpus: row.number("n_gpus"),
        tp: row.number("tp"),
        ep: row.number("ep"),
        attention_dp: row.number("attention_dp"),
        engine: text("engine"),
        engine_version: text("engine_version"),
        weight_precision: text("weight_precision"),
        weight_size_gib: row.number("weight_size_gib"),
        concurrency: row.number("concurrency"),
        isl: row.number("isl"),
        osl: row.number("osl"),
        context_depth: row.number("context_depth"),
        wait_steps: row.number("wait_steps"),
        ..Asked::default()
    }
}

/// The rows that were measured (claims are left out) and can be asked, and those that are refused, with the reason.
pub fn rows(facts: &Facts) -> (Vec<Measured>, Vec<(String, String)>) {
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for row in csv::rows(TABLE).iter().filter(|row| row.text("kind") == "measured") {
        let id = row.text("id").to_owned();
        match asked(row).resolve(facts) {
            Ok(resolved) => rows.push(measured(id, row, resolved.question)),
            Err(reason) => refused.push((id, reason)),
        }
    }
    (rows, refused)
}

fn measured(id: String, row: &csv::Row, question: Question) -> Measured {
    let ceiling = question.concurrency.is_none();
    let user = row.number("tok_s_user").filter(|speed| *speed > 0.0).map(|speed| 1.0 / speed);
    Measured {
        id,
        tpot: row.number("tpot_ms").map(|ms| ms / 1e3).or(user).filter(|_| !ceiling),
        ttft: row.number("ttft_ms").map(|ms| ms / 1e3),
        total: row.number("tok_s_total").filter(|_| ceiling),
        prefill: row.number("prefill_tok_s"),
        queue_limited: row.text("note").contains("queue_limited"),
        question,
    }
}
