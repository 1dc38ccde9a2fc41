//! Every flag has its key, and what was typed wins.

use super::*;
use crate::config::reference::schema;
use clap::{Args, FromArgMatches};
use std::path::Path;

/// Flags without a key, and why.
const WITHOUT: [(&str, &str); 6] = [
    ("board", "a run is put before others by who starts it, not by a folder"),
    ("config", "it names the file"),
    ("dry_run", "it is a question"),
    ("help", "it is a question"),
    ("progress", "it belongs to a terminal and not to what is measured"),
    ("self_check", "it is a question about this machine and moment"),
];

fn flags(line: &str) -> Flags {
    let command = Flags::augment_args(clap::Command::new("bench"));
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let matches = command.try_get_matches_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
    Flags::from_arg_matches(&matches).expect("flags")
}

fn laid(line: &str, text: &str) -> Result<Flags> {
    let file = File::parse(Path::new("t.toml"), &format!("[bench]\n{text}\n"))?;
    Layers::of(&flags(line), &file).map(|layers| layers.flags)
}

#[test]
fn every_flag_has_a_key_of_its_name_or_a_reason_for_none() {
    let schema = schema();
    let keys = schema["properties"]["bench"]["properties"].as_object().expect("keys");
    let command = Flags::augment_args(clap::Command::new("bench"));
    for flag in command.get_arguments() {
        let name = flag.get_long().unwrap_or("targets").replace('-', "_");
        let excepted = WITHOUT.iter().any(|(flag, _)| *flag == name);
        let has_key = keys.contains_key(&name);
        assert!(has_key != excepted, "{name}: key {has_key}, listed as one without {excepted}");
    }
    assert!(File::parse(Path::new("t.toml"), "[bench]\nheaders = [\"a: b\"]\n").is_ok(), "by its earlier name too");
}

#[test]
fn keys_of_the_file_count_as_if_they_were_typed() {
    let all = laid("", "rate = [2.5, 5.0]\narrivals = \"gamma\"\nburstiness = 0.5\nmax_in_flight = 9\nrefine = 2")
        .expect("flags");
    assert_eq!(all.load.rate, Some(vec![2.5, 5.0]));
    assert_eq!((all.load.burstiness, all.load.max_in_flight, all.load.refine), (Some(0.5), Some(9), Some(2)));
    let search =
        laid("", "search = \"rate\"\nslo_share = \"99%\"\nmax_load = 50.0\nmax_requests = 500").expect("flags");
    assert_eq!((search.load.search, search.load.slo_share), (Some(Axis::Rate), Some(0.99)));
    assert_eq!((search.load.max_load, search.load.max_requests), (Some(50.0), Some(500)));
    let sessions = laid("", "sessions = [3]\nturns = 2\nthink = \"1s\"").expect("flags").load;
    assert_eq!((sessions.sessions, sessions.turns, sessions.think.as_deref()), (Some(vec![3]), Some(2), Some("1s")));
    let trace = laid("", "trace = \"t.jsonl\"\ntrace_speed = 2.0\ntrace_limit = 7").expect("flags").load;
    assert_eq!((trace.trace_speed, trace.trace_limit), (Some(2.0), Some(7)));
    let ramp = laid("", "ramp = \"1..9\"\nramp_growth = \"exponential\"").expect("flags").load;
    assert_eq!((ramp.ramp.as_deref(), ramp.ramp_growth.is_some()), (Some("1..9"), true));
    let text = "no_stream = true\nno_usage = true\nnew_connections = true\nstrict = true\nquiet = true\nno_html = true\n\
                calibration = \"off\"\nbody = [\"a=1\"]\nworkload = [\"1k/1k\"]\nprompts = \"p.txt\"\nprompts_whole = true\n\
                baseline = \"b.json\"\nignore = [\"all\"]\nthreshold = \"5%\"\nscorecard = true\ntargets = [\"vllm/a\", \"vllm/b\"]";
    let other = laid("", text).expect("flags");
    assert!(other.request.no_stream && other.request.no_usage && other.target.new_connections && other.limits.strict);
    assert!(other.output.quiet && other.output.no_html && other.output.scorecard && other.request.prompts_whole);
    assert_eq!((other.request.body.len(), other.request.workload.len()), (1, 1));
    assert_eq!((other.verdict.ignore.len(), other.verdict.threshold.as_deref()), (1, Some("5%")));
    assert!(other.limits.calibration.is_some() && other.verdict.baseline.is_some());
    let files = "json = \"a\"\njsonl = \"b\"\nkeep_unknown = true\nhtml = \"c\"\ncsv = \"d\"\nmarkdown = \"e\"\n\
                 vllm_json = \"f\"\njunit = \"g\"\nbadge = \"h\"\nsave_baseline = \"i\"\nchunks = \"j.csv\"";
    let laid_files = |line| {
        let flags = laid(line, files).expect("flags");
        let output = flags.output;
        let all = [output.json, output.jsonl, output.html, output.csv, output.markdown, output.vllm_json, output.junit];
        let all = all.into_iter().chain([output.badge, flags.verdict.save_baseline, output.chunks]).flatten();
        (all.map(|path| path.display().to_string()).collect::<Vec<_>>().concat(), output.keep_unknown)
    };
    assert_eq!(laid_files(""), ("abcdefghij.csv".to_owned(), true));
    assert_eq!(laid_files("--json x --no-html"), ("xbdefghij.csv".to_owned(), true), "what was typed wins");
}

#[test]
fn images_sound_and_batches_of_the_file_count_where_the_task_has_a_place_for_them() {
    let text = "images = [0, 2]\nimage_size = \"64x64\"\nimage_format = \"jpeg\"\nimages_shared = \"50%\"\nimage_pool = 3\n\
                audio_input = [\"1s\", \"5s\"]\npartial_images = 2\npoll = \"5s\"\nkeep = true\n";
    let chat = laid("", text).expect("flags").request;
    let attached = &chat.attached;
    assert_eq!(
        (attached.images.clone(), attached.image_pool, attached.images_shared),
        (Some(vec![0, 2]), Some(3), Some(0.5))
    );
    assert!(attached.image_format.is_some() && attached.audio_input.as_ref().is_some_and(|lengths| lengths.len() == 2));
    assert_eq!((attached.partial_images, chat.batches.poll, chat.batches.keep), (None, None, false));
    let made = laid("--task images", text).expect("flags").request;
    assert_eq!((made.attached.partial_images, made.attached.images.clone()), (Some(2), None));
    assert_eq!(made.attached.image_size, Some(vec!["64x64".to_owned()]));
    let batch = laid("--task batch", text).expect("flags").request;
    assert_eq!(
        (batch.batches.poll.as_deref(), batch.batches.keep, batch.attached.images.clone()),
        (Some("5s"), true, None)
    );
    let files = laid("--images-from photos", text).expect("flags").request.attached;
    assert_eq!((files.image_size, files.image_format.is_some(), files.images), (None, false, Some(vec![0, 2])));
}

#[test]
fn a_load_that_was_typed_leaves_out_that_of_the_file() {
    let text = "rate = [5.0]\narrivals = \"constant\"\nmax_in_flight = 3\nrefine = 3";
    let typed = laid("--concurrency 4", text).expect("flags").load;
    assert_eq!((typed.rate, typed.concurrency), (None, Some(vec![4])));
    assert_eq!(
        (typed.arrivals, typed.max_in_flight, typed.refine),
        (None, None, None),
        "they belong to what was left out"
    );
    let typed = laid("--rate 9", text).expect("flags").load;
    assert_eq!((typed.rate, typed.max_in_flight), (Some(vec![9.0]), Some(3)));
    let typed = laid("--workload system", "search = \"rate\"").expect("flags").load;
    assert_eq!(typed.search, None);
    assert!(laid("vllm/a", "scorecard = true").is_ok_and(|flags| !flags.output.scorecard), "one target has none");
    assert_eq!(laid("--search rate --slo-share 90%", "slo_share = 0.5").expect("flags").load.slo_share, Some(0.9));
}

#[test]
fn what_cannot_stand_together_is_refused_with_its_key() {
    let refused = |line: &str, text: &str| laid(line, text).expect_err(text).to_string();
    let messages = [
        refused("", "rate = [5.0]\nconcurrency = [3]"),
        refused("", "arrivals = \"often\"\nrate = [5.0]"),
        refused("--requests 5", "ramp = \"1..9\""),
        refused("--input-tokens 5", "trace = \"t.jsonl\""),
        refused("--duration 5s", "search = \"rate\""),
        refused("", "workload = [\"huge\"]"),
    ];
    insta::assert_snapshot!("refused", messages.join("\n"));
}
