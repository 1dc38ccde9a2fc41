//! Ctrl-C in the middle of a run: everything measured until then is kept, whole and labelled.
//!
//! Invariant: the signal is sent when the server has seen a certain request, not after a time.

use crate::folder::Folder;
use crate::scripted::{CHUNKED, LAST_CHUNK, Server, Then, chunk, delta, stream};
use crate::tool::{BOUND, Bench, bench_arguments, finish, number, start, tokrate};
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use tokrate_record::Status;

/// Answers 20 requests; the 21st begins, is told to the test, and never ends.
fn hanging_server(reached: std::sync::mpsc::Sender<()>) -> Server {
    let reached = Mutex::new(reached);
    Server::start(move |asked, stream_to| {
        stream_to.write_all(CHUNKED.as_bytes())?;
        if asked.number < 20 {
            stream_to.write_all(&chunk(stream(3).concat().as_bytes()))?;
            stream_to.write_all(LAST_CHUNK)?;
            return Ok(Then::Keep);
        }
        stream_to.write_all(&chunk(delta(" word").as_bytes()))?;
        let _ = reached.lock().expect("nobody broke down").send(());
        // Until the client leaves.
        let _ = stream_to.read(&mut [0; 1]);
        Ok(Then::Close)
    })
}

fn interrupted(name: &str, further: &[&str]) -> Bench {
    let (sender, reached) = channel();
    let server = hanging_server(sender);
    let folder = Folder::new(name);
    let mut arguments = bench_arguments(&server.url(), 1, 1000);
    // The level 1 is there already; further ones are added to it.
    arguments.extend(further.iter().map(|&argument| argument.to_owned()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let child = start(&mut tokrate(&folder, &arguments));
    reached.recv_timeout(BOUND).expect("the last request is reached");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill is there").success());
    Bench::read(folder, finish(child))
}

#[test]
fn an_interrupt_leaves_a_partial_record_that_is_valid() {
    let bench = interrupted("interrupt", &["--html", "report.html"]);
    assert_eq!(bench.record.status, Status::Partial);
    assert!(bench.record.reason.as_deref().is_some_and(|reason| reason.contains("interrupted")));
    assert!(bench.phase().interrupted);
    let kinds = bench.failures();
    assert_eq!((kinds.len(), kinds["cancelled"]), (1, 1));
    assert_eq!(bench.phase().counts.answered, 20);
    assert_eq!(bench.finished.code, Some(3), "a part, and it holds: {:?}", bench.finished);
    let cut = bench.row(20);
    assert_eq!(number(cut, "chunks"), 1, "what had arrived is kept: {cut}");
    assert!(bench.finished.stdout.contains("PARTIAL"), "{}", bench.finished.stdout);
    assert!(bench.folder.read("report.html").contains("Partial result"));
    let names = bench.folder.names();
    assert!(!names.iter().any(|name| name.ends_with(".part")), "half-written files stay: {names:?}");
}

#[test]
fn an_interrupt_in_the_first_of_several_levels_says_that_levels_are_missing() {
    let bench = interrupted("interrupt-sweep", &["--concurrency", "2,3"]);
    assert_eq!(bench.record.status, Status::Partial);
    assert_eq!(bench.record.phases.len(), 1);
}
