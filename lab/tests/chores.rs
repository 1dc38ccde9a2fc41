//! What the program says when it is called wrongly. That there is such a test has the tests' build make the program, which
//! `cargo xtask test` runs afterwards.

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lab")).args(arguments).output().expect("it starts")
}

#[test]
fn a_chore_that_is_not_known_is_refused_with_those_that_are() {
    for arguments in [&[][..], &["benhc"]] {
        let output = lab(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), message.contains("bench | soak | release")), (Some(2), true), "{message}");
    }
}

#[test]
fn arguments_that_make_no_sense_build_and_measure_nothing() {
    let refused: [(&[&str], &str); 3] = [
        (&["soak", "gateway", "--minutes", "-1"], "--minutes"),
        (&["release", "--try"], "release [--try BINARY]"),
        (&["release", "--fast"], "--fast"),
    ];
    for (arguments, named) in refused {
        let output = lab(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), message.contains(named)), (Some(1), true), "{message}");
    }
}
