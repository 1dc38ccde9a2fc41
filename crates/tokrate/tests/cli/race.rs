//! `tokrate race` as somebody meets it who has no key and no settings.
//!
//! It refuses to compare speeds. Invariant: whoever tries it for the first time sees every lane come to its end.

use crate::folder::Folder;
use crate::tool::run;

#[test]
fn a_first_race_has_three_lanes_that_all_come_to_their_end() {
    let folder = Folder::new("race");
    let done = run(&folder, &["race", "Write a haiku", "--output-tokens", "30"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    for lane in ["prompt", "swift", "moody"] {
        let line = done.stdout.lines().find(|line| line.trim_start().starts_with(lane));
        let line = line.unwrap_or_else(|| panic!("{lane} is missing: {}", done.stdout));
        assert!(line.contains("30") && line.contains('$'), "an answer with its price: {line}");
        assert!(!line.contains("stalled") && !line.contains("timed_out"), "{line}");
    }
    assert!(done.stdout.contains("first token: ") && done.stdout.contains("whole answer: "), "{}", done.stdout);
}
