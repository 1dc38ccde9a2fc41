//! `tokrate monitor replay` on files of samples: events as JSON lines, and what is said of lines that are none.

use crate::folder::Folder;
use crate::tool::{finish, run, start, tokrate};
use serde_json::{Value, json};
use tokrate_core::{Rng, rfc3339};

/// 2026-01-10 00:00 UTC.
const BEGIN: u64 = 1_768_003_200;

/// Eight samples a day for 45 days; from the 30th on the speed is 0.7 of what it was.
fn samples() -> String {
    let mut rng = Rng::root(5);
    let lines = (0..45 * 8).map(|slot| {
        let speed = 100.0 * (0.15 * rng.normal()).exp() * if slot >= 30 * 8 { 0.7 } else { 1.0 };
        let at = rfc3339(BEGIN + slot * 3 * 3_600 + rng.below(7_200));
        json!({ "at": at, "endpoint": "acme/large", "workload": "1k", "place": "fra", "output_speed": speed, "ok": true }).to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn a_drop_in_a_file_is_one_event() {
    let folder = Folder::new("monitor-drop");
    std::fs::write(folder.join("samples.jsonl"), samples()).expect("room");
    let finished = run(&folder, &["monitor", "replay", "samples.jsonl"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), "tokrate: 1 event in 360 samples\n"));
    let event: Value = serde_json::from_str(finished.stdout.trim()).expect("one line of JSON");
    insta::assert_snapshot!("event", serde_json::to_string_pretty(&event).expect("JSON"));
}

#[test]
fn broken_lines_are_named_and_the_rest_counts() {
    let folder = Folder::new("monitor-broken");
    let hostile = r#"{"at":"2026-01-10T00:00:00Z","endpoint":"<script>\u202e","ttft_ms":1e999}"#;
    let text =
        format!("not JSON\n\n{{\"at\":\"soon\",\"endpoint\":\"a\"}}\n{hostile}\n{}", "[]\n".repeat(6)) + &samples();
    std::fs::write(folder.join("samples.jsonl"), text).expect("room");
    let finished = run(&folder, &["monitor", "replay", "samples.jsonl"]);
    assert_eq!((finished.code, finished.stdout.lines().count()), (Some(0), 1));
    insta::assert_snapshot!("broken", finished.stderr);
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = Folder::new("monitor-refused");
    std::fs::write(folder.join("empty.jsonl"), "\n").expect("room");
    std::fs::write(folder.join("long.jsonl"), "x".repeat(1 << 21)).expect("room");
    let refusals = [
        vec!["empty.jsonl"],
        vec!["missing.jsonl"],
        vec!["long.jsonl"],
        vec!["empty.jsonl", "--false-alarms", "0"],
        vec!["empty.jsonl", "--false-alarms", "NaN"],
    ];
    let mut message = String::new();
    for arguments in refusals {
        let finished = run(&folder, &[&["monitor", "replay"], arguments.as_slice()].concat());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        message += &finished.stderr;
    }
    insta::assert_snapshot!("refused", message);
}

/// The folder's settings: one endpoint at an address.
fn monitor_settings(folder: &Folder, address: &str, more: &str) {
    let text = format!(
        "[monitor]\nendpoints = [\"sim\"]\nworkloads = [\"tiny\"]\nprober = \"p\"\n{more}\n[monitor.workload.tiny]\ninput_tokens = 40\n\
         output_tokens = 40\n[monitor.targets.sim]\nurl = \"http://{address}/v1\"\nmodel = \"sim\"\nprice = {{ input = 0.1, output = 0.4 }}\n"
    );
    std::fs::write(folder.join("m.toml"), text).expect("room");
}

/// A port on which nobody listens.
fn closed_port() -> String {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("bound").to_string()
}

#[test]
fn the_demo_finds_what_was_planted_and_its_store_can_be_replayed() {
    let folder = Folder::new("monitor-demo");
    let finished =
        finish(start(tokrate(&folder, &["monitor", "--demo", "--board", "off"]).env("TMPDIR", folder.path())));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let line = finished.stdout.lines().find(|line| line.starts_with("The probes: ")).expect("it says where");
    let database = line.trim_start_matches("The probes: ").to_owned();
    insta::assert_snapshot!("demo", finished.stdout.replace(&database, "DATABASE"));
    let exported = run(&folder, &["monitor", "export", "--jsonl", "samples.jsonl", "--db", &database]);
    assert_eq!(exported.code, Some(0), "{}", exported.stderr);
    let replayed = run(&folder, &["monitor", "replay", "samples.jsonl"]);
    let kinds = replayed.stdout.lines().map(|line| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        (event["endpoint"].to_string(), event["kind"].to_string())
    });
    let found: std::collections::BTreeSet<(String, String)> = kinds.collect();
    let planted = ["northwind/demo-70b", "delta/demo-70b", "quarry/demo-coder-30b"];
    for endpoint in planted {
        assert!(found.contains(&(format!("\"{endpoint}\""), "\"regression\"".to_owned())), "{endpoint}: {found:?}");
    }
    assert_eq!(found.len(), planted.len(), "quarantined probes are left out: {found:?}");
    let backup = run(&folder, &["monitor", "backup", "copy.db", "--db", &database]);
    assert_eq!((backup.code, folder.join("copy.db").exists()), (Some(0), true));
    let csv = run(&folder, &["monitor", "export", "--csv", "-", "--all", "--db", "copy.db"]);
    assert!(
        csv.stdout.lines().count() > exported.stderr.len() && csv.stdout.starts_with("at,endpoint,workload,place,")
    );
}

#[test]
fn one_cycle_ends_with_what_came_of_it() {
    let folder = Folder::new("monitor-once");
    monitor_settings(&folder, &closed_port(), "");
    let finished = run(&folder, &["monitor", "once", "--config", "m.toml"]);
    assert_eq!(finished.code, Some(2), "nothing was measured: {}", finished.stderr);
    assert!(finished.stdout.contains("sim") && finished.stdout.contains("tiny"), "{}", finished.stdout);
    let host = tokrate_host::Host::start(tokrate_host::HostConfig::default()).expect("a port");
    monitor_settings(&folder, &host.address().to_string(), "");
    let finished = run(&folder, &["monitor", "once", "--config", "m.toml"]);
    // On a machine that is busy with other tests the reference may be off, and then the cycle does not count.
    let is_off = finished.stdout.contains("the client's own error");
    assert_eq!(
        (finished.code, finished.stderr.as_str()),
        (Some(if is_off { 2 } else { 0 }), ""),
        "{}",
        finished.stdout
    );
    assert!(finished.stdout.contains(" tok/s"), "{}", finished.stdout);
    let lines = run(&folder, &["monitor", "export", "--jsonl", "-", "--all"]).stdout;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let oks: Vec<&Value> = rows.iter().map(|row| &row["ok"]).collect();
    assert_eq!(oks, [false, true]);
    assert!(rows[0]["error"].is_string() && rows[0].get("ttft_ms").is_none() && rows[1]["ttft_ms"].is_number());
}

#[test]
fn a_check_says_what_is_sent_and_what_it_costs() {
    let folder = Folder::new("monitor-check");
    monitor_settings(&folder, "127.0.0.1:9", "");
    let plain = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
    monitor_settings(&folder, "127.0.0.1:9", "slots = 24\nusd_per_month = 0.01");
    let tight = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
    monitor_settings(&folder, "127.0.0.1:9", "usd_per_month = 0.00001");
    let short = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
    assert_eq!((plain.code, tight.code, short.code), (Some(0), Some(0), Some(1)));
    insta::assert_snapshot!("check", [plain.stdout, tight.stdout, short.stdout].join("\n---\n"));
}

#[test]
fn settings_that_contradict_each_other_are_refused_with_their_line() {
    let folder = Folder::new("monitor-settings");
    let target = "[monitor.targets.sim]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n";
    let own = |keys: &str| {
        format!(
            "endpoints = [\"sim\"]\nworkloads = [\"own\"]\n{target}[monitor.workload.own]\noutput_tokens = 9\n{keys}"
        )
    };
    let texts = [
        String::new(),
        "endpoints = []\n".to_owned(),
        "endpoints = [\"nobody/at-all\"]\n".to_owned(),
        format!("endpoints = [\"sim\", \"sim\"]\n{target}"),
        format!("endpoints = [\"sim\"]\nslot = 3\n{target}"),
        format!("endpoints = [\"sim\"]\nslots = 0\n{target}"),
        format!("endpoints = [\"sim\"]\nslots = 99999\n{target}"),
        format!("endpoints = [\"sim\"]\nworkloads = [\"1k-1k\", \"2k\"]\n{target}"),
        format!("endpoints = [\"sim\"]\nusd_per_month = 3\n{target}"),
        format!("endpoints = [\"sim\"]\nretention = \"24h\"\n{target}"),
        format!("endpoints = [\"sim\"]\ntimeout = \"soon\"\n{target}"),
        format!("endpoints = [\"sim\"]\nfalse_alarms = 0\n{target}"),
        format!(
            "endpoints = [\"sim\"]\n{target}[monitor.targets.other]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n"
        ),
        own(""),
        own("input_tokens = 9\nprompts = \"p.txt\"\n"),
        own("prompts = \"p.txt\"\n"),
        own("input_tokens = 9\nevery = \"hour\"\n"),
    ];
    let mut refused = String::new();
    for text in texts {
        let text = if text.is_empty() { String::new() } else { format!("[monitor]\n{text}") };
        std::fs::write(folder.join("m.toml"), &text).expect("room");
        let finished = run(&folder, &["monitor", "--check", "--config", "m.toml"]);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{text}");
        refused += &finished.stderr;
    }
    insta::assert_snapshot!("settings_refused", refused);
}

#[test]
fn init_writes_what_check_understands_and_does_so_once() {
    let folder = Folder::new("monitor-init");
    std::fs::write(folder.join("tokrate.toml"), "[bench]\nseed = 3\n").expect("room");
    let first = run(&folder, &["monitor", "init"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let checked = run(&folder, &["monitor", "--check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.contains("sim"), "{}", checked.stdout);
    let again = run(&folder, &["monitor", "init"]);
    assert_eq!(again.code, Some(2));
    insta::assert_snapshot!("init", first.stdout + &again.stderr);
    assert!(std::fs::read_to_string(folder.join("tokrate.toml")).expect("kept").starts_with("[bench]\nseed = 3\n"));
}

#[test]
fn a_database_that_is_damaged_is_set_aside_and_named() {
    let folder = Folder::new("monitor-set-aside");
    monitor_settings(&folder, &closed_port(), "");
    std::fs::write(folder.join("tokrate-monitor.db"), "garbage".repeat(1_000)).expect("room");
    let finished = run(&folder, &["monitor", "once", "--config", "m.toml"]);
    assert!(finished.stderr.contains("tokrate-monitor.db was damaged"), "{}", finished.stderr);
    assert!(finished.stderr.contains("it was moved to tokrate-monitor.db.damaged-"), "{}", finished.stderr);
}
