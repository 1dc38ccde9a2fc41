//! Facts of a model that is in no table, from the file that describes it: a `config.json` as Hugging Face's libraries write it,
//! or the header of a GGUF file. Nothing is read here; texts and bytes are given.
//!
//! Invariant: a model that comes out was checked: its numbers are finite, positive and within what any model has.

pub mod config;
pub mod gguf;

/// The largest number that any field may hold: parameters, tokens and widths of real models are far below.
const MOST: f64 = 1e9;
/// Most layers.
const MOST_LAYERS: f64 = 2000.0;

/// A number of a field, if it is whole and one that a model may have.
///
/// # Errors
/// The field, and what it holds.
fn whole(name: &str, value: f64) -> Result<f64, String> {
    if (0.0..=MOST).contains(&value) && value.fract() == 0.0 {
        Ok(value)
    } else {
        let shown = if value.abs() > MOST { format!("{value:e}") } else { value.to_string() };
        Err(format!("{name} is {shown}; it is a whole number from 0 to {MOST}"))
    }
}
