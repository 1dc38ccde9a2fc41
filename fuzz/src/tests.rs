//! The kept inputs through their targets: what once failed, what was written by hand, and what the search has found to reach
//! something new.

use crate::{TARGETS, target};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::corpus;

/// Inputs written by hand or taken from recordings, that each target has at least.
const SEEDS_LEAST: usize = 4;
/// All kept inputs together (bytes), so that the repository stays small.
const KEPT_BYTES_MOST: u64 = 1_572_864;

fn data(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(kind)
}

/// The inputs of a target's file; none if there is no file.
fn inputs(kind: &str, name: &str) -> Vec<Vec<u8>> {
    let path = data(kind).join(name).with_extension("txt");
    let Ok(text) = fs::read_to_string(&path) else { return Vec::new() };
    corpus::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Runs what is kept for a target.
fn holds(name: &str) {
    let target = target(name).expect("it is in the table");
    let seeds = inputs("seeds", name);
    assert!(seeds.len() >= SEEDS_LEAST, "{name} has {} seeds", seeds.len());
    (target.run)(&[]);
    for input in seeds.iter().chain(&inputs("corpus", name)) {
        (target.run)(input);
    }
}

/// A test for each target, so that they run side by side and a failure names it.
macro_rules! kept_inputs_hold_for {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        mod kept_inputs_hold_for {
            $(#[test] fn $name() { super::holds(stringify!($name)); })*
        }
    };
}

kept_inputs_hold_for! {
    admin_query agents apply apply_host batches clients decoder event_stream expression frame gateway_request http_client http_server items mcp media model_file otlp_reply
    prompts push_batch record request request_peek samples server_metrics socks_proxy sound target_name tokens trace trace_context transcript translate
    websocket
}

#[test]
fn every_target_is_tested_and_every_file_belongs_to_one() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, TESTED);
    assert!(names.is_sorted());
    for kind in ["seeds", "corpus"] {
        for entry in fs::read_dir(data(kind)).into_iter().flatten() {
            let path = entry.expect("it can be listed").path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            assert!(target(name).is_some(), "{} belongs to no target", path.display());
        }
    }
}

#[test]
fn what_is_kept_stays_small() {
    let files = ["seeds", "corpus"].into_iter().flat_map(|kind| fs::read_dir(data(kind)).into_iter().flatten());
    let bytes: u64 = files.map(|entry| entry.and_then(|entry| entry.metadata()).expect("it can be read").len()).sum();
    assert!(bytes <= KEPT_BYTES_MOST, "{bytes} bytes are kept");
}

#[test]
fn a_property_that_does_not_hold_is_a_panic() {
    // An input of every target that fails would be a bug; this is what finding one looks like.
    let failed = std::panic::catch_unwind(|| {
        crate::drive::Driver::default().finish(Box::pin(std::future::pending::<()>()).as_mut(), "it")
    });
    let panic = failed.expect_err("it waits for ever");
    assert!(panic.downcast_ref::<String>().is_some_and(|panic| panic.contains("will never come")));
}
