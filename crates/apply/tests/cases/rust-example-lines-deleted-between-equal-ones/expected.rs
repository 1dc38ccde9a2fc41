/// # extern crate serde_json;
/// #
/// # fn main() {
/// let big = i64::max_value() as u64 + 10;
/// let v = json!({ "a": 64 });
pub fn one() {}

/// # extern crate serde_json;
/// #
/// # use std::i64;
/// #
/// # fn main() {
/// let big = i64::MAX as u64 + 20;
/// let v = json!({ "b": 64 });
pub fn two() {}
