//! Realtime sessions through the binary: how long they take to open, when a turn's first text and sound came, and several turns of one session.
//!
//! Invariant: the engine's own log is the truth of when each piece was written.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{Server, Then};
use crate::tool::{self, Bench, folded, number};
use std::io::Write;
use tokrate_core::Span;
use tokrate_sim::Law;

/// Runs a bench; everything but what is given is small.
fn measure(folder: Folder, url: &str, more: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl --warmup 0 --task realtime {more}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

#[test]
fn turns_are_timed_from_the_event_that_asks_for_the_answer() {
    let host = engine(quick());
    for (name, more) in [
        ("said", ""),
        ("written", "--output-modality text"),
        ("heard", "--audio-seconds 1"),
        ("noted", "--audio-seconds 1 --output-modality text"),
    ] {
        let more = format!("--body max_output_tokens=20 -c 2 -n 10 --html report.html --csv levels.csv {more}");
        let bench = measure(Folder::new(&format!("realtime-{name}")), &url(&host), &more);
        assert_eq!(bench.finished.code, Some(0), "{name}: {:?}", bench.finished);
        let phase = &bench.record.phases[0];
        assert_eq!((phase.conditions.task.as_str(), phase.conditions.streaming), ("realtime", true));
        assert!(phase.gate.is_empty() && phase.failures.is_empty(), "{name}: {:?}", phase.gate);
        assert_eq!((phase.audio.session_open.n, phase.counts.measured), (10, 10), "a session a request");
        let truth = host.truth();
        for row in &bench.rows {
            let served = truth.request(row["request_id"].as_str().expect("an id")).expect("the engine saw it");
            let audio = &row["audio"];
            assert_eq!(served.writes.iter().map(|write| write.tokens).sum::<u32>(), 20, "{row}");
            let first = served.writes.first().expect("pieces").written_at.as_nanos();
            let sent = number(row, "sent_at_ns");
            assert!((sent + number(row, "ttft_ns")).abs_diff(first) < 30_000_000, "{row}");
            assert!(number(row, "ttft_ns") <= number(row, "e2e_ns") && number(audio, "opened_ns") > 0, "{row}");
            assert!(sent >= number(row, "due_at_ns") + number(audio, "opened_ns"), "the session is open before: {row}");
            match name {
                // A token of the engine has 20 ms of sound.
                "said" | "heard" => {
                    assert_eq!((number(audio, "plays_ns"), audio["format"].as_str()), (400_000_000, Some("pcm")));
                    assert!(number(audio, "first_ns") >= number(row, "ttft_ns"), "{row}");
                }
                _ => assert!(audio["first_ns"].is_null(), "{row}"),
            }
            let is_heard = ["heard", "noted"].contains(&name);
            assert_eq!(audio["heard_ns"].as_u64(), is_heard.then_some(1_000_000_000), "{row}");
        }
        let is_sent = ["heard", "noted"].contains(&name);
        // An answer in text has no factor, whatever was said before.
        let with_factor = if ["said", "heard"].contains(&name) { 10 } else { 0 };
        assert_eq!(phase.audio.real_time_factor.n, with_factor, "{name}");
        let text = folded(&bench.finished.stdout);
        assert!(text.contains("first text after"), "{text}");
        let heading = if is_sent { "synthetic sound of 1 s, realtime" } else { "texts of 40 tokens, realtime" };
        assert!(text.contains(heading), "{text}");
        assert!(bench.folder.read("report.html").contains("opening of the session"));
        assert!(bench.folder.read("levels.csv").contains("session_open_p50_ms"));
    }
}

#[test]
fn the_plan_of_turns_with_sound_goes_by_the_whole_time_of_the_one_before_the_load() {
    // 50 tokens at 100 a second behind 100 ms: the answer takes six times as long as its first text.
    let host = engine(Law { base_delay: Span::from_millis(100), stream_tokens_per_second: 100.0, ..quick() });
    let arguments = format!(
        "bench --url {} --model sim --calibration off --warmup 0 --task realtime --audio-seconds 2 --body max_output_tokens=50 -c 1 -n 4",
        url(&host)
    );
    let folder = Folder::new("realtime-plan");
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    let plan = folded(&finished.stderr);
    let seconds = plan.split_once("about ").and_then(|(_, rest)| rest.split_once(" s")).map(|(seconds, _)| seconds);
    let seconds: f64 = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{plan}"));
    // 2.4 s, rounded up; the first text alone would make it 1.
    assert!((3.0..10.0).contains(&seconds), "{plan}");
    insta::assert_snapshot!("plan", plan.replace(&format!("about {seconds} s"), "about [time]"));
}

#[test]
fn a_session_is_opened_once_for_all_of_its_turns() {
    let host = engine(quick());
    // Without a limit of requests each session runs to its end: a limit would cut one short, by which is quicker.
    let more = "--body max_output_tokens=5 --output-modality text --input-tokens 12 --sessions 4 --turns 3";
    let bench = measure(Folder::new("realtime-turns"), &url(&host), more);
    assert_eq!(bench.finished.code, Some(0), "{:?}", bench.finished);
    for row in &bench.rows {
        let is_first = row["turn"] == 0;
        assert_eq!(row["audio"]["opened_ns"].is_u64(), is_first, "{row}");
    }
    // The conversation grows by the question and the answer before it.
    let inputs = |turn: u64| -> Vec<u64> {
        let of_turn = bench.rows.iter().filter(|row| row["turn"] == turn);
        of_turn.map(|row| number(row, "input_reported")).collect()
    };
    assert!(inputs(0).iter().all(|tokens| *tokens == 12), "{:?}", inputs(0));
    assert!(inputs(1).iter().all(|tokens| *tokens > 24), "{:?}", inputs(1));
    assert!(inputs(2).iter().min() > inputs(1).iter().max(), "{:?} {:?}", inputs(1), inputs(2));
    assert_eq!((bench.rows.len() as u64, bench.record.phases[0].audio.session_open.n), (12, 4));
}

#[test]
fn a_turn_that_was_refused_for_the_rate_goes_on_in_its_session() {
    // A third of the turns are refused, within the session that is open.
    let mut faults = tokrate_sim::Faults::default();
    faults.set("rate_limited=0.3").expect("a fault");
    let config = tokrate_host::HostConfig { law: quick(), faults, ..tokrate_host::HostConfig::default() };
    let host = tokrate_host::Host::start(config).expect("it starts");
    let more = "--body max_output_tokens=5 --output-modality text --input-tokens 12 --sessions 1 --turns 12 -n 12";
    let bench = measure(Folder::new("realtime-limited"), &url(&host), more);
    let phase = &bench.record.phases[0];
    let refused: Vec<&serde_json::Value> = bench.rows.iter().filter(|row| !row["failure"].is_null()).collect();
    assert!(!refused.is_empty() && refused.iter().all(|row| row["failure"]["kind"] == "rate_limited"), "{refused:?}");
    assert_eq!((phase.counts.rate_limited, phase.counts.failed), (refused.len() as u64, 0));
    let opened = bench.rows.iter().filter(|row| row["audio"]["opened_ns"].is_u64()).count();
    assert_eq!((opened, phase.audio.session_open.n), (1, 1), "one session");
    // Nothing was said twice: each turn's prompt is longer than that of the turn before it by its question and its answer.
    let mut inputs: Vec<(u64, u64)> = Vec::new();
    let answered = bench.rows.iter().filter(|row| row["failure"].is_null());
    inputs.extend(answered.map(|row| (number(row, "turn"), number(row, "input_reported"))));
    inputs.sort_unstable();
    let growth: Vec<u64> = inputs.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    assert!(growth.len() >= 6 && growth.iter().all(|more| (12..=22).contains(more)), "{growth:?}");
    host.stop();
}

#[test]
fn a_server_that_opens_no_session_and_one_that_ends_it_are_failures_with_their_words() {
    let refusal = "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 36\r\n\r\n{\"error\":{\"message\":\"no such path\"}}";
    let server = Server::start(move |_, stream| stream.write_all(refusal.as_bytes()).map(|()| Then::Close));
    let bench = measure(Folder::new("realtime-refused"), &server.url(), "-c 1 -n 2");
    assert!(bench.rows.iter().all(|row| row["failure"]["kind"] == "not_found"), "{:?}", bench.rows);
    let plain = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    let server = Server::start(move |_, stream| stream.write_all(plain.as_bytes()).map(|()| Then::Close));
    let bench = measure(Folder::new("realtime-plain"), &server.url(), "-c 1 -n 2");
    assert!(
        bench
            .rows
            .iter()
            .all(|row| row["failure"]["message"].as_str().is_some_and(|why| why.contains("opened no WebSocket"))),
        "{:?}",
        bench.rows
    );
    let folder = Folder::new("realtime-flags");
    let remote = "--url http://127.0.0.1:9/v1 --model m --task realtime";
    for (more, why) in [
        ("--output-modality text".to_owned(), "--output-modality: it belongs to --task realtime"),
        (format!("{remote} --output-modality text --voice alloy"), "nothing is said"),
        (format!("{remote} --output-modality text --slo time_to_first_audio<1s"), "text has no time_to_first_audio"),
        (format!("{remote} --audio-seconds 2 --input-tokens 5"), "sends sound and no text"),
        (format!("{remote} --no-stream"), "the body comes as it is made"),
    ] {
        let arguments = format!("bench {more}");
        let refused = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
        assert_eq!(refused.code, Some(2), "{more}: {refused:?}");
        assert!(folded(&refused.stderr).contains(why), "{more}: {}", refused.stderr);
    }
}
