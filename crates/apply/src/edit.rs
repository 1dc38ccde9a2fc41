//! The call that most programs need: a path, a text and an update.

use crate::merge::merge;
use crate::options::Options;
use crate::outcome::{Format, Outcome};

/// Merges an update into the text of a file.
///
/// The path is only looked at for the language of the file. Without a format the update's own text tells which it is.
///
/// ```
/// use tokrate_apply::{Outcome, edit};
///
/// let text = "def area(w, h):\n    return w + h\n";
/// let update = "<<<<<<< SEARCH\n    return w + h\n=======\n    return w * h\n>>>>>>> REPLACE\n";
/// match edit("shapes.py", text, update, None) {
///     Outcome::Merged(merged) => assert_eq!(merged.text, "def area(w, h):\n    return w * h\n"),
///     Outcome::Refused(refused) => panic!("{refused}"),
/// }
///
/// // What names no place is refused, with what to do about it.
/// let Outcome::Refused(refused) = edit("shapes.py", text, "    return 7\n", None) else { panic!("a guess") };
/// assert!(!refused.hint.is_empty());
/// ```
pub fn edit(path: &str, text: &str, update: &str, format: Option<Format>) -> Outcome {
    let options = Options { path: Some(path.to_owned()), format, ..Options::default() };
    merge(text.as_bytes(), update.as_bytes(), &options)
}
