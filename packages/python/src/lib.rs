//! The merge engine as a Python module: one function, and tuples that the Python side gives names to.
//!
//! Invariant: Python's lock is not held while an edit is merged.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokrate_apply::{Format, Outcome};

/// Text, whether it is another one, and changed lines; or code, message, lines in question and hint.
type Merged = (String, bool, Vec<(usize, usize, usize, usize)>);
type Refused = (String, String, Vec<(usize, usize)>, String);

#[pyfunction]
fn edit(
    python: Python<'_>,
    path: &str,
    text: &str,
    update: &str,
    format: Option<&str>,
) -> PyResult<(Option<Merged>, Option<Refused>)> {
    let format = match format.map(|name| (name, Format::from_name(name))) {
        Some((name, None)) => {
            let known = Format::ALL.map(Format::name).join(", ");
            return Err(PyValueError::new_err(format!("{name:?} is no format; write one of {known}")));
        }
        named => named.and_then(|(_, format)| format),
    };
    Ok(match python.detach(|| tokrate_apply::edit(path, text, update, format)) {
        Outcome::Merged(merged) => {
            let changed = !merged.is_unchanged();
            let edits =
                merged.edits.iter().map(|it| (it.old_start, it.old_count, it.new_start, it.new_count)).collect();
            (Some((merged.text, changed, edits)), None)
        }
        Outcome::Refused(it) => (None, Some((it.code.name().to_owned(), it.message, it.candidates, it.hint))),
    })
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(edit, module)?)
}
