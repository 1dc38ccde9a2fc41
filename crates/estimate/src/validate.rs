//! Cross-validation: every row is predicted by coefficients fitted without its model, and again without its device.

use crate::coefficients::{Coefficients, group};
use crate::fit::{self, Output};
use crate::hardware::Class;
use crate::measured::Measured;
use crate::question::{Kind, Question};
use crate::served;

/// A row that was left out, and what was predicted for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Residual {
    /// Place of the row.
    pub row: usize,
    /// The model or the device that was left out.
    pub left_out: String,
    /// What was predicted.
    pub output: Output,
    /// Kind of question.
    pub kind: Kind,
    /// Class of the device.
    pub class: Class,
    /// Group of coefficients.
    pub group: usize,
    /// Whether the model has experts.
    pub experts: bool,
    /// Whether more requests were asked for than fit or were run at once.
    pub queued: bool,
    /// Measured.
    pub measured: f64,
    /// Predicted without the row's model or device.
    pub predicted: f64,
    /// Predicted by bare peaks.
    pub naive: f64,
}

impl Residual {
    /// Logarithm of measured over predicted.
    pub fn log(&self) -> f64 {
        (self.measured / self.predicted).ln()
    }

    /// Error as a share of what was measured.
    pub fn relative(&self) -> f64 {
        (self.predicted / self.measured - 1.0).abs()
    }

    /// The same for the naive roofline.
    pub fn relative_naive(&self) -> f64 {
        (self.naive / self.measured - 1.0).abs()
    }
}

/// Leaves out every model, then every device, and predicts the rows left out, each as `asked` puts its question. The same rows give the
/// same residuals.
pub fn cross_validate(rows: &[Measured], asked: fn(&Question) -> Question) -> Vec<Residual> {
    let model = |row: &Measured| format!("model {}", row.question.model.name);
    let device = |row: &Measured| format!("device {}", row.question.device.name);
    let mut left_out: Vec<String> = rows.iter().flat_map(|row| [model(row), device(row)]).collect();
    left_out.sort();
    left_out.dedup();
    let mut residuals = Vec::new();
    for name in left_out {
        let is_out = |row: &Measured| model(row) == name || device(row) == name;
        let kept: Vec<&Measured> = rows.iter().filter(|row| !is_out(row)).collect();
        let fitted = fit::fit(&kept).coefficients;
        for (place, row) in rows.iter().enumerate().filter(|(_, row)| is_out(row)) {
            residuals.extend(of_row(place, row, (&name, &fitted), &asked(&row.question)));
        }
    }
    residuals
}

fn of_row(place: usize, row: &Measured, (left_out, fitted): (&str, &Coefficients), asked: &Question) -> Vec<Residual> {
    let prediction = served::predict(asked, fitted);
    let naive = served::naive(asked);
    let of = |output: Output| {
        Some(Residual {
            row: place,
            left_out: left_out.to_owned(),
            output,
            kind: row.question.kind(),
            class: row.question.device.class,
            group: group(row.question.device.class, row.question.engine),
            experts: row.question.model.sparse(),
            queued: prediction.queued || row.queue_limited,
            measured: output.measured(row)?,
            predicted: output.predicted(&prediction)?,
            naive: output.predicted(&naive)?,
        })
    };
    Output::ALL.into_iter().filter_map(of).collect()
}
