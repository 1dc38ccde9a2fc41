//! The live view in a terminal of its own: `script` makes one, and what is written to it is read.
//!
//! It does not look at the pictures, which `tokrate-live` has tests for. Invariant: however a run ends, the terminal is given back.

#![cfg(target_os = "linux")]

use crate::folder::Folder;
use crate::tool::{finish, start, tokrate};
use std::process::Command;

const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";

/// What a bench writes to a terminal of that size; `None` where no `script` makes one.
fn on_terminal(size: &str, environment: &[(&str, &str)], further: &str) -> Option<String> {
    let folder = Folder::new(&format!("live-view-{}", size.replace(' ', "-")));
    let bench = tokrate(&folder, &[]);
    let program = bench.get_program().to_str().expect("a path");
    let run = "bench --duration 400ms --concurrency 1,2 --output-tokens 20 --no-html --calibration off";
    let line = format!("stty {size}; exec {program} {run} {further}");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(folder.path());
    script.env_clear().envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.env("SHELL", "/bin/sh").envs(environment.iter().copied());
    if Command::new("script").arg("--version").output().is_err() {
        return None;
    }
    let finished = finish(start(&mut script));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    Some(finished.stdout)
}

#[test]
fn the_view_is_shown_once_and_the_terminal_is_given_back() {
    let Some(text) = on_terminal("cols 80 rows 24", &[("TERM", "xterm-256color")], "") else { return };
    let (before, after) = text.split_once(ENTER).expect("a page of its own");
    assert!(before.contains("sim: 2 levels"), "the plan stands where it always did: {before}");
    let (view, after) = after.split_once(LEAVE).expect("the first page again");
    assert!(view.contains("tokrate bench") && view.contains("level 1/2: c = 1"), "{view}");
    assert!(view.contains("\u{1b}[0;36m"), "in colours");
    assert!(
        after.contains("How fast") && !after.contains("tokrate bench"),
        "the table, and nothing of the view: {after}"
    );
    let plain =
        on_terminal("cols 70 rows 20", &[("TERM", "xterm"), ("NO_COLOR", "1"), ("LANG", "C")], "").expect("script");
    let (_, view) = plain.split_once(ENTER).expect("a page of its own");
    let (view, _) = view.split_once(LEAVE).expect("the first page again");
    assert!(view.is_ascii() && !view.contains(";36m") && view.contains("TTFT"), "{view}");
}

#[test]
fn a_terminal_that_cannot_show_the_view_gets_a_line_for_each_level() {
    for (size, term, further) in [
        ("cols 80 rows 24", "dumb", ""),
        ("cols 59 rows 24", "xterm", ""),
        ("cols 80 rows 15", "xterm", ""),
        ("cols 90 rows 30", "xterm", "--progress lines"),
    ] {
        let Some(text) = on_terminal(size, &[("TERM", term)], further) else { return };
        assert!(!text.contains(ENTER), "{text}");
        let levels = text.lines().filter(|line| line.starts_with("c = 1: ") || line.starts_with("c = 2: "));
        assert_eq!(levels.count(), 2, "{text}");
    }
    let quiet = on_terminal("cols 91 rows 30", &[("TERM", "xterm")], "--progress none").expect("script");
    assert!(!quiet.contains(ENTER) && !quiet.contains("c = 1: ") && quiet.contains("sim: 2 levels"), "{quiet}");
}
