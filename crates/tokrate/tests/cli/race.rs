//! `tokrate race` as somebody meets it who has no key and no settings.
//!
//! It does not compare speeds. Invariant: whoever tries it for the first time sees every lane come to its end.

use crate::folder::Folder;
use crate::scripted::{Server, Then};
use crate::tool::run;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

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
    assert!(
        done.stdout.contains("won by the first token: ") && done.stdout.contains("won by completion: "),
        "{}",
        done.stdout
    );
}

#[test]
fn a_lane_that_works_on_the_prompt_and_closes_has_failed_and_is_not_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::start(move |_, _| {
        count.fetch_add(1, SeqCst);
        // Longer than a connection that was closed before would have taken to say so.
        std::thread::sleep(Duration::from_millis(200));
        Ok(Then::Close)
    });
    let folder = Folder::new("dropped");
    let settings = format!("[gateway.lanes.drops]\nurl = \"{}\"\nmodel = \"m\"\n", server.url());
    folder.write("race.toml", &settings);
    let done = run(&folder, &["race", "Write a haiku", "drops", "--config", "race.toml"]);
    assert_eq!(asked.load(SeqCst), 1, "{} {}", done.stdout, done.stderr);
    assert!(done.code != Some(0) && done.stdout.contains("closed"), "{:?} {} {}", done.code, done.stdout, done.stderr);
}
