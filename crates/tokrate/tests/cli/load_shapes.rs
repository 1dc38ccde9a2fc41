//! Every load shape through the binary, held against what the engine saw.
//!
//! It does not judge how late a shared machine is: due times are exact, sent times only ordered. Invariant: what the
//! engine logged is the truth.

use crate::folder::Folder;
use crate::loopback_truth::{engine, quick, url};
use crate::scripted::{Server, Then, answer, stream};
use crate::tool::{self, Bench, folded, number};
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokrate_core::Span;
use tokrate_host::{RequestTruth, RunningHost};
use tokrate_record::Status;
use tokrate_sim::Law;

/// Runs a bench with a load of its own; everything else is small.
fn measure(folder: Folder, url: &str, load: &str) -> Bench {
    let arguments = format!(
        "bench --url {url} --model sim --calibration off --no-probe --json record.json --jsonl rows.jsonl {load}"
    );
    let finished = tool::run(&folder, &arguments.split_whitespace().collect::<Vec<&str>>());
    Bench::read(folder, finished)
}

fn seen<'h>(truth: &'h tokrate_host::Truth, row: &Value) -> &'h RequestTruth {
    let id = row["request_id"].as_str().expect("an id");
    truth.request(id).unwrap_or_else(|| panic!("the engine never saw {id}"))
}

fn bench(name: &str, host: &RunningHost, load: &str) -> Bench {
    let bench = measure(Folder::new(name), &url(host), load);
    bench.expect(0, &[]);
    bench
}

#[test]
fn gamma_arrivals_keep_their_schedule() {
    let host = engine(quick());
    let load = "--rate 200 --arrivals gamma --burstiness 0.5 --requests 40 --input-tokens 30 --output-tokens 5";
    let one = bench("gamma-1", &host, load);
    let two = bench("gamma-2", &host, load);
    let due = |bench: &Bench| -> Vec<u64> {
        let first = number(&bench.rows[0], "due_at_ns");
        bench.rows.iter().map(|row| number(row, "due_at_ns") - first).collect()
    };
    assert_eq!(due(&one), due(&two), "a seed gives one schedule");
    assert_eq!(one.phase().conditions.arrivals, "gamma, burstiness 0.5");
}

#[test]
fn a_trace_is_replayed_on_its_times_with_its_lengths() {
    let host = engine(quick());
    let folder = Folder::new("trace");
    let rows = [(0, 600, 12), (130, 1030, 5), (130, 90, 31), (700, 40, 8)];
    let lines: String = rows
        .iter()
        .enumerate()
        .map(|(n, (at, input, output))| {
            let blocks: Vec<usize> = (0..(*input as usize).div_ceil(512)).map(|block| block * 10 * n.min(1)).collect();
            format!(
                "{{\"timestamp\": {at}, \"input_length\": {input}, \"output_length\": {output}, \"hash_ids\": {blocks:?}}}\n"
            )
        })
        .collect();
    folder.write("trace.jsonl", &lines);
    let bench = measure(folder, &url(&host), "--trace trace.jsonl --trace-speed 2");
    bench.expect(0, &[]);
    let truth = host.truth();
    let start = number(&bench.rows[0], "due_at_ns");
    for (row, (at, input, output)) in bench.rows.iter().zip(rows) {
        let served = seen(&truth, row);
        assert_eq!(number(row, "due_at_ns") - start, at * 1_000_000 / 2, "twice as fast");
        assert!(served.received_at.as_nanos() >= number(row, "due_at_ns"), "never before it is due");
        assert_eq!((u64::from(served.input_tokens), served.output_limit), (input, Some(output)));
        assert_eq!((number(row, "input_asked"), number(row, "tokens_std")), (input, u64::from(output)));
    }
    let phase = bench.phase();
    assert_eq!(phase.counts.started, 4);
    assert!(phase.conditions.prompts.contains("a trace (Mooncake)"), "{}", phase.conditions.prompts);
}

#[test]
fn steps_of_agents_start_when_those_that_they_wait_for_have_ended_and_their_tools_are_done() {
    let host = engine(quick());
    let folder = Folder::new("agents");
    let step = |name: &str, after: &str, role: &str, tokens: (u32, u32), wait: u32| {
        let (input, output) = tokens;
        format!(
            "{{\"session\": \"s\", \"step\": \"{name}\", \"after\": [{after}], \"role\": \"{role}\", \"input_tokens\": {input}, \
             \"output_tokens\": {output}, \"wait_ms\": {wait}}}\n"
        )
    };
    let trace = step("p", "", "plan", (300, 20), 0)
        + &step("l", "\"p\"", "work", (90, 12), 30)
        + &step("r", "\"p\"", "work", (80, 30), 0)
        + &step("j", "\"l\", \"r\"", "plan", (700, 17), 50);
    folder.write("agents.jsonl", &trace);
    let bench = measure(folder, &url(&host), "--agents agents.jsonl --agents-at-once 2 --html report.html");
    bench.expect(0, &[]);
    let truth = host.truth();
    assert_eq!(bench.rows.len(), 8, "one session in each place, the second with words of its own");
    for session in 0..2_u64 {
        let mut steps: Vec<&Value> = bench.rows.iter().filter(|row| number(row, "session") == session).collect();
        steps.sort_by_key(|row| number(row, "turn"));
        let asked: Vec<(u64, u64)> =
            steps.iter().map(|row| (number(row, "input_asked"), number(row, "output_asked"))).collect();
        assert_eq!(asked, [(300, 20), (90, 12), (80, 30), (700, 17)]);
        for (place, wait) in [(1, 30), (2, 0), (3, 50)] {
            let before = steps[number(steps[place], "released_by") as usize];
            let due = number(steps[place], "due_at_ns");
            // The driver is told of an end a little after it.
            assert!(due >= number(before, "ended_at_ns") + wait * 1_000_000, "{}", steps[place]);
            assert!(seen(&truth, steps[place]).received_at.as_nanos() >= due);
        }
        let last = steps[1..3].iter().map(|row| number(row, "ended_at_ns")).max();
        assert!(Some(number(steps[3], "due_at_ns")) >= last, "it waits for both");
    }
    let agents = bench.phase().agents.as_ref().expect("there were agents");
    assert_eq!(
        (agents.started, agents.completed, agents.steps_mean, agents.path_steps_mean),
        (2, 2, Some(4.0), Some(3.0))
    );
    let shares: f64 = agents.roles.iter().filter_map(|role| role.path_share).sum();
    assert!((shares - agents.model_share.expect("a share")).abs() < 1e-9);
    assert!(bench.phase().conditions.prompts.contains("1 sessions of agents with 4 steps (steps), hash "));
    let page = bench.folder.read("report.html");
    assert!(page.contains("What sessions waited for") && page.contains("Steps by role"));
}

#[test]
fn drawn_lengths_are_what_the_engine_sees_and_a_seed_draws_them_again() {
    let host = engine(quick());
    let load = "-c 3 -n 20 --input-tokens lognormal:90,0.6 --output-tokens uniform:4..30 --shared-prefix 40% --prefix-pool 3 --prefix-skew 1 \
                --html report.html";
    let one = bench("lengths-1", &host, load);
    let truth = host.truth();
    for row in &one.rows {
        let served = seen(&truth, row);
        let (input, output) = (number(row, "input_asked"), number(row, "output_asked"));
        assert_eq!((u64::from(served.input_tokens), served.output_limit.map(u64::from)), (input, Some(output)));
        assert!((4..=30).contains(&output));
    }
    let two = bench("lengths-2", &host, load);
    let asked = |bench: &Bench| -> Vec<(u64, u64)> {
        bench.rows.iter().map(|row| (number(row, "input_asked"), number(row, "output_asked"))).collect()
    };
    assert_eq!(asked(&one), asked(&two));
    let phase = one.phase();
    assert_eq!(
        phase.conditions.prompts,
        "synthetic; lengths lognormal:90,0.6 (1 to 575, mean 107); 3 shared prefixes of 40 % of the prompt, Zipf 1; answers \
         uniform:4..30 (4 to 30, mean 17)"
    );
    let lengths = phase.lengths.as_ref().expect("they differ");
    let mean =
        one.rows.iter().filter(|row| row["warmup"] == false).map(|row| number(row, "input_asked") as f64).sum::<f64>()
            / 20.0;
    assert!(lengths.input_asked.mean.is_some_and(|stated| (stated - mean).abs() < 1e-9));
    let page = one.folder.read("report.html");
    assert!(page.contains("Lengths of prompts and answers"));
}

#[test]
fn answers_of_a_dataset_say_how_long_the_answers_are_to_be() {
    let host = engine(quick());
    let folder = Folder::new("dataset");
    std::fs::create_dir_all(folder.join("set/data")).expect("a folder");
    let row = |prompt: &str, answer: &str| format!("{{\"instruction\": \"{prompt}\", \"response\": \"{answer}\"}}\n");
    let rows = row("Say one.", "one two three four") + &row("Say more.", "one two three four five six seven");
    folder.write("set/data/train-00000-of-00001.jsonl", &rows);
    let bench = measure(folder, &url(&host), "-c 1 -n 4 --warmup 0 --prompts set --answer-column response");
    bench.expect(0, &[]);
    let mut asked: Vec<u64> = bench.rows.iter().map(|row| number(row, "output_asked")).collect();
    asked.sort_unstable();
    assert_eq!(asked, [4, 4, 7, 7]);
    let typed =
        measure(bench.folder, &url(&host), "-c 1 -n 2 --prompts set --answer-column response --output-tokens 9");
    typed.expect(0, &[]);
    assert!(typed.rows.iter().all(|row| number(row, "tokens_std") == 9), "what is typed wins");
    typed.folder.write("rows.parquet", "PAR1");
    let refused =
        tool::run(&typed.folder, &["bench", "--url", &url(&host), "--model", "sim", "--prompts", "rows.parquet"]);
    assert!(refused.code == Some(2) && folded(&refused.stderr).contains("duckdb -c"), "{refused:?}");
}

#[test]
fn a_trace_that_was_cut_begins_anew_in_the_next_round() {
    let host = engine(quick());
    let folder = Folder::new("trace-rounds");
    let line =
        |at: u32, output: u32| format!("{{\"timestamp\": {at}, \"input_length\": 40, \"output_length\": {output}}}\n");
    folder.write("trace.jsonl", &(line(0, 5) + &line(20, 6) + &line(60_000, 7)));
    let bench = measure(folder, &url(&host), "--trace trace.jsonl --requests 2 --rounds 2");
    assert_eq!(bench.finished.code, Some(0), "{:?}", bench.finished);
    let asked: Vec<u64> = bench.rows.iter().map(|row| number(row, "output_asked")).collect();
    assert_eq!(asked, [5, 6, 5, 6], "the second round sends the first requests on their times");
}

#[test]
fn a_trace_that_is_answered_exactly_as_asked_accuses_nobody() {
    let host = engine(quick());
    let folder = Folder::new("azure");
    // Lengths as the public Azure traces have them, many of a few tokens; each asks for its own.
    let lengths = [(374, 44), (396, 109), (879, 55), (91, 16), (91, 16), (381, 8), (1313, 3), (388, 200)];
    let row = |n: usize| {
        let (input, output) = lengths[n % lengths.len()];
        format!("2023-11-16 18:15:{:02}.{:03}0000,{input},{output}\n", 46 + n / 50, 20 * (n % 50))
    };
    folder.write(
        "azure.csv",
        &("TIMESTAMP,ContextTokens,GeneratedTokens\n".to_owned() + &(0..60).map(row).collect::<String>()),
    );
    for dialect in ["openai-chat", "anthropic"] {
        let load = format!("--trace {} --html report.html --dialect {dialect}", folder.join("azure.csv").display());
        let bench = measure(Folder::new("azure-run"), &url(&host), &load);
        bench.expect(0, &[]);
        for (n, row) in bench.rows.iter().enumerate() {
            let (input, output) = lengths[n % lengths.len()];
            assert_eq!((number(row, "input_asked"), number(row, "output_asked")), (input, output), "{row}");
            assert_eq!(number(row, "tokens_std"), output, "exactly as asked: {row}");
        }
        let phase = bench.phase();
        assert!(phase.suspicions.is_empty() && bench.record.warnings.is_empty(), "{:?}", phase.suspicions);
        let page = bench.folder.read("report.html");
        for said in [&bench.finished.stdout, &page] {
            assert!(!said.contains("shorter or longer") && !said.contains("not what they seem"), "{said}");
        }
        assert!(page.contains("answer length"), "lengths that were asked for are a figure, not a finding");
    }
}

#[test]
fn a_ramp_opens_slot_after_slot_and_has_no_throughput() {
    let host = engine(quick());
    let load = "--ramp 1..4 --duration 1s --input-tokens 30 --output-tokens 5";
    let bench = bench("ramp", &host, load);
    let start = bench.phase().started_at_ns;
    for row in &bench.rows {
        let since = number(row, "due_at_ns") - start;
        let busy = |other: &&Value| {
            number(other, "due_at_ns") <= number(row, "due_at_ns")
                && number(other, "ended_at_ns") > number(row, "due_at_ns")
        };
        let open = since / 250_000_000 + 1;
        let busy = bench.rows.iter().filter(busy).count() as u64;
        assert!(busy <= open && since < 1_000_000_000, "{busy} in flight after {since} ns");
    }
    let phase = bench.phase();
    assert!(phase.throughput.is_none());
    let why = phase.steady_missing.as_deref().unwrap_or_default();
    assert!(why.contains("the load of a ramp changes all the time"), "{why}");
}

#[test]
fn a_session_sends_what_was_said_and_heard() {
    let host = engine(quick());
    let load = "--sessions 2 --turns 3 --think 30ms --input-tokens 30 --output-tokens 8";
    let bench = bench("sessions", &host, load);
    assert_eq!(bench.rows.len(), 6);
    let truth = host.truth();
    for session in 0..2 {
        let mut turns: Vec<&Value> = bench.rows.iter().filter(|row| number(row, "session") == session).collect();
        turns.sort_by_key(|row| number(row, "turn"));
        for (turn, row) in (0..).zip(&turns) {
            assert_eq!(number(row, "turn"), turn);
            let tokens = u64::from(seen(&truth, row).input_tokens);
            assert_eq!(tokens, 30 * (turn + 1) + 8 * turn, "prompts of 30 tokens, answers of 8");
            assert_eq!(number(row, "input_asked"), tokens);
        }
        for pair in turns.windows(2) {
            // From when the plan hears of the end, which is a little after it.
            let thought = number(pair[1], "due_at_ns") - number(pair[0], "ended_at_ns");
            assert!((30_000_000..1_000_000_000).contains(&thought), "thinks for 30 ms, not {thought} ns");
        }
    }
    let sessions = bench.phase().sessions.as_ref().expect("sessions");
    assert_eq!((sessions.started, sessions.completed, sessions.failed), (2, 2, 0));
    let lengths: Vec<Option<f64>> = sessions.turns.iter().map(|turn| turn.input_tokens_mean).collect();
    assert_eq!(lengths, [Some(30.0), Some(68.0), Some(106.0)]);
}

#[test]
fn prompts_of_a_file_are_sent_as_they_stand() {
    let prompts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen_prompts = std::sync::Arc::clone(&prompts);
    let server = Server::start(move |asked, connection| {
        let content = asked.json()["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        seen_prompts.lock().expect("whole").push(content);
        let body = stream(3).concat();
        connection.write_all(answer("200 OK", "text/event-stream", &body).as_bytes()).map(|()| Then::Close)
    });
    let folder = Folder::new("prompts");
    folder
        .write("prompts.jsonl", "{\"prompt\": \"one\"}\n{\"text\": \"number two\"}\n{\"question\": \"and three?\"}\n");
    let load = "--prompts prompts.jsonl --concurrency 1 --requests 4 --warmup 0";
    let bench = measure(folder, &server.url(), load);
    bench.expect(0, &[]);
    let mut prompts = prompts.lock().expect("whole").clone();
    assert_eq!(prompts[0], prompts[3], "after the last the first");
    prompts.truncate(3);
    prompts.sort();
    assert_eq!(prompts, ["and three?", "number two", "one"]);
    let conditions = &bench.record.conditions;
    assert_eq!(conditions.input_tokens, 2, "the mean of 1, 2 and 3 tokens");
    assert!(conditions.prompts.starts_with("3 prompts of 1 to 3 tokens from a JSON Lines file, hash "));
    let notes = bench.record.notes.join("\n");
    assert!(notes.contains("4 requests used 3 prompts"), "{notes}");
}

#[test]
fn a_wait_that_a_refusal_asks_for_is_kept_unless_told_otherwise() {
    let refusing = || {
        Server::start(|asked, connection| {
            if asked.number == 0 {
                let head =
                    "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\nConnection: close\r\n";
                connection.write_all(format!("{head}\r\n{{}}").as_bytes())?;
            } else {
                connection.write_all(answer("200 OK", "text/event-stream", &stream(3).concat()).as_bytes())?;
            }
            Ok(Then::Close)
        })
    };
    let load = "--concurrency 1 --requests 3 --warmup 0 --input-tokens 20 --wide";
    let polite = measure(Folder::new("polite"), &refusing().url(), load);
    polite.expect(0, &[("rate_limited", 1)]);
    let gap = |bench: &Bench| number(bench.row(1), "due_at_ns") - number(bench.row(0), "ended_at_ns");
    assert!(gap(&polite) >= 1_000_000_000, "{} ns", gap(&polite));
    let limited = &polite.phase().rate_limited;
    let seconds = limited.held_back_seconds.expect("it waited");
    assert!((seconds - 1.0).abs() < 1e-6 && limited.held_back_share.is_some_and(|share| share > 0.1), "{limited:?}");
    assert!(folded(&polite.finished.stdout).contains("held back by 429"), "{}", polite.finished.stdout);

    let began = Instant::now();
    let load = format!("{load} --no-backoff");
    let rude = measure(Folder::new("rude"), &refusing().url(), &load);
    assert!(gap(&rude) < 900_000_000 || began.elapsed() > Duration::from_secs(5), "{} ns", gap(&rude));
    assert_eq!(rude.phase().rate_limited.held_back_seconds, None);
}

#[test]
fn an_open_loop_withholds_what_is_due_during_a_wait() {
    let server = Server::start(|asked, connection| {
        if asked.index() == 0 {
            let head = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\nConnection: close\r\n";
            connection.write_all(format!("{head}\r\n{{}}").as_bytes())?;
        } else {
            connection.write_all(answer("200 OK", "text/event-stream", &stream(3).concat()).as_bytes())?;
        }
        Ok(Then::Close)
    });
    let load = "--rate 4 --arrivals constant --requests 10 --input-tokens 20";
    let bench = measure(Folder::new("withheld"), &server.url(), load);
    let counts = bench.phase().counts;
    assert_eq!(counts.started + counts.withheld, 10, "{counts:?}");
    assert!(counts.withheld >= 3, "a second of four arrivals: {counts:?}");
    let first = number(bench.row(0), "due_at_ns");
    for row in &bench.rows {
        let index = number(row, "index");
        assert_eq!(number(row, "due_at_ns") - first, index * 250_000_000, "the schedule is not moved");
    }
}

#[test]
fn money_runs_out_before_the_limit_is_passed() {
    let host = engine(quick());
    // A request may cost 100 * 10 + 40 * 100 = 5,000 millionths of a dollar; three of them fit into 16,000.
    let load = "--concurrency 1 --requests 50 --warmup 0 --input-tokens 100 --output-tokens 40 --price-input 10 \
                --price-output 100 --max-cost-usd 0.016";
    let bench = measure(Folder::new("money"), &url(&host), load);
    assert_eq!(bench.rows.len(), 3, "{:?}", bench.finished);
    assert_eq!(bench.record.status, Status::Partial);
    let reason = bench.record.reason.as_deref().unwrap_or_default();
    assert!(reason.starts_with("stopped by --max-cost-usd 0.016") && reason.contains("0.015000 USD"), "{reason}");
    let spending = bench.record.spending.expect("it is known");
    assert_eq!((spending.input_tokens, spending.output_tokens, spending.requests_reported), (300, 120, 3));
    assert!((spending.usd - 0.015).abs() < 1e-12 && spending.limit_usd == Some(0.016), "{spending:?}");
}

#[test]
fn a_reference_workload_sets_the_lengths() {
    let host = engine(quick());
    let bench = bench("workload", &host, "--workload 100/300 --output-tokens 7 --concurrency 1 --requests 2");
    let conditions = &bench.record.conditions;
    assert_eq!((conditions.input_tokens, conditions.output_tokens), (100, 7), "what is typed wins");
}

/// A server that answers four at once, each in 5 ms, and refuses whoever comes beside them, on however slow a machine.
fn four_at_once() -> Server {
    let running = Arc::new(AtomicUsize::new(0));
    Server::start(move |_, connection| {
        let refused = running.fetch_add(1, SeqCst) >= 4;
        std::thread::sleep(Duration::from_millis(if refused { 0 } else { 5 }));
        let (status, media, body) = match refused {
            true => ("503 Service Unavailable", "application/json", "{}".to_owned()),
            false => ("200 OK", "text/event-stream", stream(31).concat()),
        };
        // Before its client can know of the end and ask again.
        running.fetch_sub(1, SeqCst);
        connection.write_all(answer(status, media, &body).as_bytes()).map(|()| Then::Close)
    })
}

#[test]
fn a_search_finds_where_the_objectives_break() {
    let server = four_at_once();
    let load = "--search concurrency --slo ttft_ms<2000 --max-load 8 --input-tokens 20 --output-tokens 31";
    let bench = measure(Folder::new("search"), &server.url(), load);
    let found = bench.record.search.as_ref().expect("a search");
    assert_eq!((found.highest_met, found.lowest_missed), (Some(4.0), Some(5.0)), "{found:?}");
    let levels: Vec<f64> = found.levels.iter().map(|level| level.load).collect();
    assert_eq!(levels, [1.0, 2.0, 4.0, 5.0, 6.0, 8.0], "doubled, then halved");
    assert!(bench.record.notes.contains(&found.sentence), "{:?}", bench.record.notes);
    // On standard output it is wrapped.
    let printed: Vec<&str> = bench.finished.stdout.split_whitespace().collect();
    let sentence: Vec<&str> = found.sentence.split_whitespace().collect();
    assert!(printed.windows(sentence.len()).any(|words| words == sentence), "{}", bench.finished.stdout);
    let phases = &bench.record.phases;
    assert!(phases.len() >= 6 && phases[0].counts.measured >= 73, "enough to tell: {found:?}");
    for level in &found.levels {
        let of = |phase: &&tokrate_record::PhaseResult| phase.load_level().load == level.load;
        let judged: u64 = phases.iter().filter(of).filter_map(|phase| Some(phase.goodput.as_ref()?.of)).sum();
        assert_eq!(level.of, judged, "all rounds of a level count");
    }
}

#[test]
fn a_search_finds_where_a_queue_breaks_the_objectives() {
    // One alone has its first token in 20 ms; of two, each waits for the 620 ms that the other one takes.
    let law = Law { slots: 1, base_delay: Span::from_millis(20), stream_tokens_per_second: 50.0, ..quick() };
    let host = engine(law);
    let load =
        "--search concurrency --slo ttft_ms<300 --slo-share 0.5 --max-load 8 --input-tokens 20 --output-tokens 31";
    let bench = measure(Folder::new("search-queue"), &url(&host), load);
    let found = bench.record.search.as_ref().expect("a search");
    assert_eq!((found.highest_met, found.lowest_missed), (Some(1.0), Some(2.0)), "{found:?}");
    assert!(bench.record.notes.contains(&found.sentence), "{:?}", bench.record.notes);
    let slow = bench.record.phases.iter().filter(|phase| phase.load_level().load == 2.0);
    let failed: u64 = slow.filter_map(|phase| Some(phase.goodput.as_ref()?.missed_failed)).sum();
    assert_eq!(failed, 0, "they missed by time alone");
}

#[test]
fn a_sweep_is_refined_and_says_why() {
    let law = Law { slots: 6, ..quick() };
    let host = engine(law);
    let load = "--concurrency 1,4,24 --refine=1 --requests 48 --input-tokens 20 --output-tokens 40";
    let bench = measure(Folder::new("refine"), &url(&host), load);
    let levels: Vec<f64> = bench.record.phases.iter().map(|phase| phase.load_level().load).collect();
    assert_eq!(levels[..3], [1.0, 4.0, 24.0]);
    assert_eq!(levels.len(), 4, "{levels:?}");
    let why = format!("level {} was added between ", levels[3]);
    assert!(bench.record.notes.iter().any(|note| note.starts_with(&why)), "{:?}", bench.record.notes);
}

#[test]
fn a_system_load_test_doubles_up_to_its_cap() {
    let host = engine(quick());
    let load = "--workload system --max-load 4 --requests 8 --input-tokens 20 --output-tokens 5";
    let bench = measure(Folder::new("system"), &url(&host), load);
    let levels: Vec<f64> = bench.record.phases.iter().map(|phase| phase.load_level().load).collect();
    assert_eq!((levels, bench.finished.code), (vec![1.0, 2.0, 4.0], Some(0)));
    assert_eq!(bench.record.status, Status::Complete);
}
