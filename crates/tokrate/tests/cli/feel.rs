//! `tokrate feel`: the text at the speed that was asked for.
//!
//! It does not judge a speed by feel. Invariant: nothing is shown faster than asked.

use crate::folder::Folder;
use crate::tool::{finish, run, start, tokrate};
use std::io::Read;
use std::time::{Duration, Instant};

#[test]
fn text_appears_at_the_speed_that_was_asked_for() {
    let folder = Folder::new("feel");
    std::fs::write(folder.join("text.txt"), "One two three four five six seven eight nine ten élan 🜚 end.")
        .expect("written");
    let began = Instant::now();
    let finished = run(&folder, &["feel", "50", "--text", "text.txt", "--ttft", "100ms"]);
    let took = began.elapsed();
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines[0], "-- 50 tok/s for one reader: fluid (30 to 50 tok/s) --");
    assert_eq!(lines[1], "One two three four five six seven eight nine ten élan 🜚 end.");
    let tokens: u32 = lines[2].split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a count of tokens");
    assert_eq!(tokens as usize, tokrate_tokens::count(tokrate_tokens::Encoding::O200kBase, lines[1]));
    assert!(took >= Duration::from_millis(100) + Duration::from_millis(20) * (tokens - 1), "{took:?} for {tokens}");
}

#[test]
fn an_interrupt_ends_it_at_once_and_tells_what_was_shown() {
    let folder = Folder::new("feel-interrupt");
    let mut child = start(&mut tokrate(&folder, &["feel", "0.02", "5"]));
    // The first token is shown at once, the second only after 50 s, which is longer than any test waits.
    let mut shown = Vec::new();
    let stdout = child.stdout.as_mut().expect("piped");
    while shown.last() != Some(&b'A') {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("the head and the first token");
        shown.extend(byte);
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    let finished = finish(child);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    assert!(finished.stdout.contains("-- 1 token shown --") && !finished.stdout.contains("-- 5 tok/s"), "{finished:?}");
}
