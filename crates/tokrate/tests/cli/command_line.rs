//! What the binary says to what is typed: help, and a message for everything that is wrong.
//!
//! Invariant: what is wrong starts nothing, writes nothing and ends with 2.

use crate::folder::Folder;
use crate::tool::{finish, folded, run, start, tokrate};
use std::fmt::Write;
use std::net::TcpListener;

/// Runs each line of arguments and shows what was said to it. `'` holds words together.
fn refusals(folder: &Folder, lines: &[&str]) -> String {
    let before = folder.names();
    let mut shown = String::new();
    for line in lines {
        let arguments = words(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let finished = finish(start(tokrate(folder, &arguments).env("SPACED_KEY", "sk-se cret").env("GOOD_KEY", "sk")));
        assert_eq!(finished.code, Some(2), "{line}: {finished:?}");
        assert_eq!(finished.stdout, "", "{line}");
        assert!(!folded(&finished.stderr).contains("se cret"), "{line} shows a key: {}", finished.stderr);
        assert!(!finished.stderr.contains("panicked"), "{line}: {}", finished.stderr);
        writeln!(shown, "$ tokrate {line}\n{}", finished.stderr).expect("a string takes all");
    }
    assert_eq!(folder.names(), before, "nothing was written");
    shown
}

fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let mut words = Vec::new();
    for (number, part) in parts {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Arguments of a bench of an endpoint where nobody is; none of these may ever get there.
const REMOTE: &str = "bench --url http://127.0.0.1:9/v1 --model m";

fn after(prefix: &str, lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| format!("{prefix} {line}")).collect()
}

fn shown(folder: &Folder, prefix: &str, lines: &[&str]) -> String {
    let lines = after(prefix, lines);
    refusals(folder, &lines.iter().map(String::as_str).collect::<Vec<&str>>())
}

#[test]
fn help_says_it_all() {
    let folder = Folder::new("help");
    for (name, arguments) in [
        ("help", vec!["--help"]),
        ("apply_help", vec!["apply", "--help"]),
        ("mcp_help", vec!["mcp", "--help"]),
        ("bench_help", vec!["bench", "--help"]),
        ("claim_help", vec!["claim", "--help"]),
        ("estimate_help", vec!["estimate", "--help"]),
        ("estimate_speed_help", vec!["estimate", "speed", "--help"]),
        ("estimate_replay_help", vec!["estimate", "replay", "--help"]),
        ("estimate_capacity_help", vec!["estimate", "capacity", "--help"]),
        ("estimate_cost_help", vec!["estimate", "cost", "--help"]),
        ("estimate_what_if_help", vec!["estimate", "what-if", "--help"]),
        ("estimate_claim_help", vec!["estimate", "claim", "--help"]),
        ("estimate_chain_help", vec!["estimate", "chain", "--help"]),
        ("estimate_fleet_help", vec!["estimate", "fleet", "--help"]),
        ("estimate_fit_api_help", vec!["estimate", "fit-api", "--help"]),
        ("estimate_calibrate_help", vec!["estimate", "calibrate", "--help"]),
        ("claim", vec!["claim", "800 tok/s"]),
        (
            "claim_with_conditions",
            vec!["claim", "10.5k tok/s throughput on 8 x H100, llama-70b, batch 64, median of 200 runs"],
        ),
        ("monitor_help", vec!["monitor", "--help"]),
        ("monitor_export_help", vec!["monitor", "export", "--help"]),
        ("monitor_replay_help", vec!["monitor", "replay", "--help"]),
        ("feel_help", vec!["feel", "--help"]),
        ("sim_help", vec!["sim", "--help"]),
        ("targets_help", vec!["targets", "--help"]),
        ("trust_help", vec!["trust", "--help"]),
    ] {
        let finished = run(&folder, &arguments);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
        assert!(finished.stdout.lines().all(|line| line.chars().count() <= 120), "{}", finished.stdout);
        insta::assert_snapshot!(name, finished.stdout);
    }
}

#[test]
fn the_version_is_named() {
    let finished = run(&Folder::new("version"), &["--version"]);
    assert_eq!(finished.code, Some(0));
    assert_eq!(finished.stdout, format!("tokrate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn unknown_words_are_refused() {
    let folder = Folder::new("unknown");
    let lines = [
        "",
        "bnech",
        "bench --concurency 3",
        "bench --http 3",
        "bench --calibration maybe",
        "sim --slot 3",
        "bench now",
    ];
    insta::assert_snapshot!("unknown_words", refusals(&folder, &lines));
}

#[test]
fn a_target_that_makes_no_sense_is_refused() {
    let folder = Folder::new("target");
    let lines = [
        "bench --url http://127.0.0.1:9/v1",
        "bench --model m",
        "bench --url http://127.0.0.1:9/v1 --model ''",
        "bench --url ftp://host/v1 --model m",
        "bench --url localhost:8000 --model m",
        "bench --url http:// --model m",
        "bench --url http://host:99999/v1 --model m",
        "bench --url http://user:sk-secret@host/v1 --model m",
        "bench --url http://host/v1?x=1 --model m",
        "bench --url https://127.0.0.1:9/v1 --model m --ca-file nowhere.pem",
        "bench --url https://127.0.0.1:9/v1 --model m --ca-file .",
        "bench --url https://127.0.0.1:9/v1 --model m --ca-file settings.toml",
        "bench --url http://127.0.0.1:9/v1 --model m --ca-file nowhere.pem",
        "bench --url http://127.0.0.1:9/v1 --model m --ca-file settings.toml",
        "bench --ca-file nowhere.pem --dry-run",
        "bench --url http://localhost/v1 --model m --unix-socket nowhere.sock",
        "bench --url http://localhost/v1 --model m --unix-socket settings.toml",
        "bench --unix-socket nowhere.sock",
        "bench vllm/m sglang/m --unix-socket nowhere.sock",
        "bench --url http://host/v1 --model m --proxy socks4://user:sk-secret@host",
        "bench --url http://host/v1 --model m --proxy http://user:sk#secret@host",
        "bench --url http://host/v1 --model m --proxy off --unix-socket nowhere.sock",
        "bench --proxy http://host:3128",
    ];
    folder.write("settings.toml", "[bench]\n");
    let shown = refusals(&folder, &lines);
    let printed: Vec<&str> = shown.lines().filter(|line| !line.starts_with('$')).collect();
    assert!(!printed.iter().any(|line| line.contains("secret")), "{printed:?}");
    insta::assert_snapshot!("target", shown);
}

#[test]
fn a_header_that_makes_no_sense_is_refused_without_its_value() {
    let folder = Folder::new("header");
    let lines = ["--header nocolon", "--header 'bad name: sk-value'", "--header 'x: sk-a\nb'", "--header ': sk-value'"];
    let shown = shown(&folder, REMOTE, &lines);
    let printed: Vec<&str> = shown.lines().filter(|line| line.starts_with("tokrate")).collect();
    assert!(!printed.iter().any(|line| line.contains("sk-")), "{printed:?}");
    insta::assert_snapshot!("header", shown);
}

#[test]
fn a_load_that_makes_no_sense_is_refused() {
    let folder = Folder::new("load");
    let lines = [
        "--concurrency 0",
        "--concurrency 1,,2",
        "--concurrency -1",
        "--concurrency 1000000",
        "--concurrency 4294967296",
        "--concurrency 1 --rate 5",
        "--rate 0",
        "--rate nan",
        "--concurrency 1-10",
        "--rate inf",
        "--rate -3",
        "--arrivals constant",
        "--duration 3parsecs",
        "--duration 0s",
        "--duration -3s",
        "--duration 1e400s",
        "--requests 0",
        "--requests 5 --duration 3s",
        "--workers 0",
        "--rate 5 --max-in-flight 0",
        "--metrics-every 0",
        "--slice 20ms",
    ];
    insta::assert_snapshot!("load", shown(&folder, REMOTE, &lines));
}

#[test]
fn a_shape_that_makes_no_sense_is_refused() {
    let folder = Folder::new("shape");
    folder.write("columns.csv", "a,b\n1,2\n");
    folder.write("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,many,1\n");
    folder.write("cut.jsonl", "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5}\n{\"timestamp\": 1}\n");
    folder.write("prompts.json", "[{\"prompt\": \"a\"},\n  {\"other\": 3}]\n");
    folder.write("empty.txt", "\n");
    std::fs::write(folder.join("latin.txt"), b"good\nna\xefve\n").expect("written");
    let lines = [
        "--rate 5 --arrivals gamma --burstiness 0",
        "--rate 5 --burstiness 2",
        "--ramp 1..50 --concurrency 3",
        "--ramp 1-50",
        "--ramp 0..50",
        "--ramp 1.5..3",
        "--ramp 1..9 --requests 3",
        "--ramp-rate 1..x",
        "--ramp-growth linear",
        "--trace nowhere.jsonl",
        "--trace columns.csv",
        "--trace azure.csv",
        "--trace cut.jsonl",
        "--trace cut.jsonl --trace-limit 1 --trace-speed 0",
        "--trace-limit 3",
        "--sessions 0",
        "--sessions 2 --turns 0",
        "--sessions 2 --think later",
        "--turns 3",
        "--prompts prompts.json",
        "--prompts empty.txt",
        "--prompts latin.txt",
        "--prompts-whole",
        "--prompts empty.txt --input-tokens 3",
        "--workload huge",
        "--workload 1k/1k,100/300",
        "--workload system --concurrency 3",
        "--search concurrency",
        "--search concurrency --slo ttft_ms<500 --slo-share 1",
        "--search rate --slo ttft_ms<500 --rate 3",
        "--search rate --slo ttft_ms<500 --max-load 0",
        "--assert ttft_ms.p99<500 --requests 20",
        "--assert ttft_ms.p50<500 --requests 5",
        "--assert 'ttft_ms.p50<500 @ concurrency 99' --concurrency 1 --requests 20",
        "--assert 'ttft_ms.p50<500 @ rate 5' --concurrency 1,10 --requests 20 --refine",
        "--assert 'ttft_ms.p50<500 @ concurrency 33' --search concurrency --slo ttft_ms<500 --max-load 32",
        "--assert 'ttft_ms.p50<500 @ concurrency 33' --workload system --max-load 32",
        "--assert throughput>100",
        "--json result --csv ./result",
        "--assert 'output_speed.slowest_5_percent>9 @ concurrency 10' --concurrency 1,10 --requests 129",
        "--assert tpot_ms.p50<7 --output-tokens 15",
        "--slo output_speed>7 --output-tokens 15",
        "--slo itl_ms<7 --no-stream",
        "--max-load 3",
        "--refine --concurrency 3",
        "--refine=0 --concurrency 3,9",
        "--max-cost-usd 1",
        "--max-cost-usd 0 --price-input 1 --price-output 1",
        "--price-input 1",
        "--price-input -1 --price-output 1",
    ];
    insta::assert_snapshot!("shape", shown(&folder, REMOTE, &lines));
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let folder = Folder::new("request");
    let lines = [
        "--input-tokens 0",
        "--input-tokens 99999999",
        "--output-tokens 0",
        "--output-tokens many",
        "--input-tokens 100 --shared-prefix 300",
        "--body x",
        "--body =1",
        "--body a=b",
        "--temperature nan",
        "--temperature=-1",
        "--idle-timeout 0s",
        "--connect-timeout soon",
        "--timeout 0",
        "--max-failures 2",
        "--max-failures nan",
    ];
    insta::assert_snapshot!("request", shown(&folder, REMOTE, &lines));
}

#[test]
fn a_settings_file_is_refused_with_its_line() {
    let folder = Folder::new("settings");
    folder.write("key.toml", "[bench]\nmodel = \"m\"\nconcurency = [1]\n");
    folder.write("table.toml", "[bnech]\nmodel = \"m\"\n");
    folder.write("type.toml", "[bench]\nmodel = 3\n");
    folder.write("broken.toml", "[bench\nmodel = \"m\"\n");
    folder.write("value.toml", "[bench]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nduration = \"3parsecs\"\n");
    folder.write("http.toml", "[bench]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nhttp = \"3\"\n");
    folder.write("limit.toml", "[bench]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\nidle_timeout = \"0s\"\n");
    let files = ["key", "table", "type", "broken", "value", "http", "limit", "nowhere"];
    let lines: Vec<String> = files.iter().map(|name| format!("--config {name}.toml")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    insta::assert_snapshot!("settings", shown(&folder, "bench", &lines));
}

#[test]
fn the_settings_file_of_the_folder_is_read() {
    let folder = Folder::new("default-settings");
    folder.write("tokrate.toml", "[bench]\nmodel = \"m\"\nconcurency = [1]\n");
    insta::assert_snapshot!("default_settings", refusals(&folder, &["bench"]));
}

#[test]
fn a_key_that_cannot_be_had_is_named_by_its_place() {
    let folder = Folder::new("key");
    folder.write("empty", "\n");
    let lines = [
        "--key-env NOT_SET_ANYWHERE",
        "--key-env SPACED_KEY",
        "--key-file nowhere",
        "--key-file empty",
        "--key-cmd 'exit 3'",
        "--key-cmd 'true'",
        "--key-env GOOD_KEY --key-file empty",
    ];
    insta::assert_snapshot!("key", shown(&folder, REMOTE, &lines));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_run() {
    let folder = Folder::new("files");
    std::fs::create_dir(folder.join("folder")).expect("created");
    let lines = [
        "--json nowhere/record.json",
        "--json folder",
        "--jsonl nowhere/rows.jsonl",
        "--html nowhere/report.html",
        "--html report.html --no-html",
        "--jsonl -",
        "--html -",
    ];
    insta::assert_snapshot!("files", shown(&folder, REMOTE, &lines));
}

#[test]
fn a_sim_that_makes_no_sense_is_refused() {
    let folder = Folder::new("sim-refused");
    let lines = [
        "--listen here",
        "--fault fire=0.1",
        "--fault stall=2",
        "--fault burst@3=0.1",
        "--slots 0",
        "--speed 0",
        "--speed fast",
        "--delay soon",
        "--jitter -1",
        "--tokens-per-chunk 0",
        "--key-env NOT_SET_ANYWHERE",
        "--truth-log nowhere/truth.jsonl",
    ];
    insta::assert_snapshot!("sim", shown(&folder, "sim", &lines));
}

#[test]
fn a_claim_that_makes_no_sense_is_refused() {
    let folder = Folder::new("claim-refused");
    std::fs::write(folder.join("record.json"), "{\n \"schema\": 7}").expect("written");
    let lines = ["", "fast", "'800'", "'800 tok/s' --record nowhere.json", "'800 tok/s' --record record.json"];
    insta::assert_snapshot!("claim_refused", shown(&folder, "claim", &lines));
}

#[test]
fn an_apply_that_makes_no_sense_is_refused() {
    let folder = Folder::new("apply-flags-refused");
    folder.write("a.rs", "fn a() {}\n");
    folder.write("u.txt", "x\n");
    let lines = [
        "",
        "nowhere.rs --update u.txt",
        ". --update u.txt",
        "a.rs --update nowhere.txt",
        "a.rs --update u.txt --language cobol",
        "a.rs --diff --check",
        "a.rs --batch cases.jsonl",
        "a.rs --output results.jsonl",
        "--patch nowhere.txt",
        "--patch u.txt --root nowhere",
        "--patch u.txt --root u.txt",
        "--patch u.txt --language rust",
        "--batch nowhere.jsonl",
        "--batch a.rs --in-place",
        "--serve here",
        "--serve 127.0.0.1:0 --json",
        "--serve 127.0.0.1:0 --on-refuse maybe",
        "--serve 127.0.0.1:0 --max-body-bytes 0",
        "--serve 127.0.0.1:0 --max-body-bytes many",
        "a.rs --key-env GOOD_KEY",
        "a.rs --update u.txt --fallback http://127.0.0.1:9/v1",
        "a.rs --update u.txt --fallback ftp://127.0.0.1,m",
        "a.rs --update u.txt --fallback http://127.0.0.1:9/v1,m --key-env NOT_SET_ANYWHERE",
        "a.rs --update u.txt --fallback http://127.0.0.1:9/v1,m --key-env SPACED_KEY",
    ];
    insta::assert_snapshot!("apply", shown(&folder, "apply", &lines));
    insta::assert_snapshot!("mcp", shown(&folder, "mcp", &["--root nowhere", "--root a.rs", "now"]));
}

#[test]
fn personas_that_make_no_sense_are_refused() {
    let folder = Folder::new("personas-refused");
    folder.write("good.toml", "[[persona]]\nname = \"a\"\n");
    folder.write("empty.toml", "");
    folder.write("key.toml", "[[persona]]\nname = \"a\"\nport = 8401\n");
    folder.write("value.toml", "[[persona]]\nname = \"a\"\n[persona.law]\nslots = 0\n");
    folder.write("secret.toml", "[[persona]]\nname = \"a\"\nkey_env = \"NOT_SET_ANYWHERE\"\n");
    std::fs::write(folder.join("bytes.toml"), [0xff, 0xfe]).expect("written");
    let lines = [
        "--personas nowhere.toml",
        "--personas empty.toml",
        "--personas bytes.toml",
        "--personas key.toml",
        "--personas value.toml",
        "--personas secret.toml",
        "--personas good.toml --listen here",
        "--personas good.toml --speed 3",
        "--personas good.toml --fault stall",
        "--personas good.toml --model m",
    ];
    insta::assert_snapshot!("personas", shown(&folder, "sim", &lines));
}

#[test]
fn a_feel_that_makes_no_sense_is_refused() {
    let folder = Folder::new("feel-refused");
    std::fs::write(folder.join("bytes.txt"), [0xff, 0xfe]).expect("written");
    std::fs::write(folder.join("empty.txt"), "").expect("written");
    let lines = [
        "",
        "fast",
        "0",
        "-3",
        "nan",
        "1e9",
        "30 --ttft soon",
        "30 --seconds 0",
        "30 --text nowhere.txt",
        "30 --text bytes.txt",
        "30 --text empty.txt",
    ];
    insta::assert_snapshot!("feel", shown(&folder, "feel", &lines));
}

#[test]
fn a_sim_on_a_taken_address_says_so() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let shown = refusals(&Folder::new("taken"), &[&format!("sim --listen {address}")]);
    insta::assert_snapshot!("taken", shown.replace(&address, "[address]"));
}

/// A file that never ends, such as a link to a device in a folder of somebody else's.
#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_refused_and_named() {
    let folder = Folder::new("endless");
    std::fs::write(folder.path().join("a.txt"), "a\n").expect("it can be written");
    let bench = ["bench", "--url", "http://127.0.0.1:9/v1", "--model", "m"];
    let with = |more: &[&'static str]| [&bench[..], more].concat();
    let lines = [
        vec!["gateway", "--check", "--config", "/dev/zero"],
        with(&["--config", "/dev/zero"]),
        with(&["--key-file", "/dev/zero"]),
        vec!["bench", "--url", "https://127.0.0.1:9/v1", "--model", "m", "--ca-file", "/dev/zero"],
        vec!["sim", "--personas", "/dev/zero"],
        vec!["apply", "a.txt", "--update", "/dev/zero"],
        vec!["apply", "--patch", "/dev/zero"],
    ];
    for line in lines {
        let finished = finish(start(&mut tokrate(&folder, &line)));
        assert_eq!(finished.code, Some(2), "{line:?}: {}", finished.stderr);
        assert!(
            finished.stderr.contains("/dev/zero") && folded(&finished.stderr).contains("it has more than"),
            "{line:?}: {}",
            finished.stderr
        );
    }
}
