//! The serialised form of a sketch.
//!
//! Invariant: deserialising what was serialised gives the same sketch; inconsistent parts are rejected.

use serde::{Deserialize, Serialize};
use tokrate_core::Sketch;

/// A mergeable histogram as it stands in a record: OpenTelemetry's exponential buckets, bucket i covering
/// `(2^(i/64), 2^((i+1)/64)]` of the sketch's own whole-numbered unit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
#[cfg_attr(feature = "schema", schemars(with = "Written"))]
pub struct SketchParts(pub Sketch);

/// OpenTelemetry's scales are signed.
const SCALE: i32 = Sketch::SCALE as i32;

/// The fields in JSON.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Sketch"))]
struct Written {
    /// OpenTelemetry's scale: 6, or 64 buckets per octave.
    scale: i32,
    /// How many values were zero.
    zeros: u64,
    /// Index and count of each bucket that is not empty, rising.
    buckets: Vec<(u16, u64)>,
    /// The sum of all values, exact up to 2^64 - 1.
    sum: u64,
    /// The smallest value; 0 when there is none.
    min: u64,
    /// The largest value; 0 when there is none.
    max: u64,
}

impl From<SketchParts> for Written {
    fn from(SketchParts(sketch): SketchParts) -> Written {
        Written {
            scale: SCALE,
            zeros: sketch.zeros(),
            buckets: sketch.buckets().collect(),
            sum: u64::try_from(sketch.sum()).unwrap_or(u64::MAX),
            min: sketch.min().unwrap_or(0),
            max: sketch.max().unwrap_or(0),
        }
    }
}

impl TryFrom<Written> for SketchParts {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<SketchParts, Self::Error> {
        if written.scale != SCALE {
            return Err("a sketch has another scale than 6; read it with the version of tokrate that wrote it");
        }
        Sketch::from_parts(written.zeros, written.buckets, u128::from(written.sum), written.min, written.max)
            .map(SketchParts)
            .ok_or("the parts of a sketch do not fit together; the record is damaged")
    }
}
