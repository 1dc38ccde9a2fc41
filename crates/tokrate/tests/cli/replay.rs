//! `tokrate replay` on logs made for it, of lanes whose law is known: what is estimated, what is not claimed, and what is said when
//! it cannot be done.
//!
//! Invariant: the log is read, never changed.

use crate::folder::Folder;
use crate::tool::{Finished, run};
use serde_json::Value;
use tokrate_core::Rng;
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis, Sample};
use tokrate_store::Sqlite;

/// 2026-01-10 00:00 UTC.
const DAY: u64 = 1_768_003_200_000;

/// A lane: its name, mean TTFT (s) with its variation, output speed, and prices (USD per million tokens).
struct Lane(&'static str, f64, f64, f64, f64, f64);

const SLOW: Lane = Lane("north", 0.4, 0.2, 25.0, 0.2, 1.0);
const QUICK: Lane = Lane("south", 0.4, 0.2, 100.0, 1.0, 6.0);

/// One call each ten seconds on the lane that is its turn.
fn calls(alias: &str, count: u64, lanes: &[Lane], turn: impl Fn(u64) -> usize) -> Vec<Attempt> {
    let mut rng = Rng::root(3);
    let row = |n: u64| {
        let Lane(name, ttft, variation, speed, input, output) = lanes[turn(n)];
        let (prompt, answer) = (500 + rng.below(1_000), 60 + rng.below(81));
        let ttft = ttft * rng.log_normal(variation);
        Attempt {
            call: format!("{alias}-{n}"),
            won: true,
            alias: alias.to_owned(),
            lane: name.to_owned(),
            sample: Sample {
                started_unix_ms: DAY + n * 10_000,
                provider: name.to_owned(),
                model: "large".to_owned(),
                stream: true,
                in_flight: 1,
                request_bytes: Some(prompt * 4),
                status: Some(200),
                ttft_ns: Some((ttft * 1e9) as u64),
                total_ns: ((ttft + answer as f64 / speed) * 1e9) as u64,
                output_speed: Some(speed),
                input_tokens: Some(prompt),
                output_tokens_std: answer,
                output_tokens: Some(answer),
                cost_usd: Some((prompt as f64 * input + answer as f64 * output) / 1e6),
                cost_basis: CostBasis::Reported,
                ..Sample::default()
            },
            ..Attempt::default()
        }
    };
    (0..count).map(row).collect()
}

fn log(name: &str, rows: &[Attempt]) -> Folder {
    let folder = Folder::new(name);
    let mut store = Sqlite::open(&folder.join("calls.db")).expect("a new log");
    store.append(rows).expect("room");
    folder
}

fn in_turns(name: &str) -> Folder {
    log(name, &calls("chat", 800, &[SLOW, QUICK], |n| n as usize % 2))
}

fn replay(folder: &Folder, arguments: &[&str]) -> Finished {
    run(folder, &[&["replay", "calls.db", "--since", "all"], arguments].concat())
}

fn shown(folder: &Folder, arguments: &[&str]) -> String {
    let finished = replay(folder, arguments);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{}", finished.stdout);
    finished.stdout
}

fn json(folder: &Folder, arguments: &[&str]) -> Value {
    serde_json::from_str(&shown(folder, &[arguments, &["--json"]].concat())).expect("JSON")
}

fn near(value: &Value, expected: f64, error: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() <= error, "{value} is not {expected} +- {error}");
}

#[test]
fn help_says_what_can_be_asked() {
    let finished = run(&Folder::new("replay-help"), &["replay", "--help"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""));
    insta::assert_snapshot!("help", finished.stdout);
}

#[test]
fn a_quicker_lane_is_told_with_what_it_would_have_cost() {
    let folder = in_turns("replay-quicker");
    let text = shown(&folder, &["--policy", "own-completion"]);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    insta::assert_snapshot!("own_completion", text);
    let all = json(&folder, &["--policy", "own-completion"]);
    assert_eq!((&all["schema"], &all["instead"]), (&"tokrate.replay.v1".into(), &"own-completion".into()));
    let chat = &all["aliases"][0];
    // By the law of the lanes: 100 tokens at 25 or at 100 tok/s after 0.4 s; the first calls are spent on getting to know them.
    near(&chat["measured_covered"]["completion_ms"], 2_900.0, 100.0);
    near(&chat["estimated"]["completion_ms"], 1_400.0, 50.0);
    near(&chat["estimated"]["usd_per_call"], 0.0016, 0.0001);
    near(&chat["lanes"][0]["fitted_input_usd_per_million"], 0.2, 1e-6);
    near(&chat["lanes"][1]["fitted_output_usd_per_million"], 6.0, 1e-6);
    near(&chat["coverage"], 1.0, 0.02);
    // 100 tokens at 100 tok/s after a median of 0.392 s; of the highest percentile no interval is told, for 400 attempts.
    let p50 = &chat["percentiles"]["completion_ms"]["p50"];
    near(&p50["estimated"], 1_395.0, 40.0);
    let interval = [&p50["low"], &p50["high"]].map(|end| end.as_f64().expect("a number"));
    assert!(interval[0] < 1_395.0 && 1_395.0 < interval[1] && interval[1] - interval[0] < 100.0, "{interval:?}");
    let p99 = &chat["percentiles"]["completion_ms"]["p99"];
    assert_eq!((&p99["low"], &p99["descriptive"]), (&Value::Null, &true.into()));
    assert!(chat["ttft_standard_error_ms"].is_number() && chat["usd_standard_error"].is_number());
}

#[test]
fn the_cheapest_lane_that_is_quick_enough_is_found() {
    let folder = in_turns("replay-cheapest");
    let cheapest = ["--policy", "cheapest"];
    near(&json(&folder, &cheapest)["aliases"][0]["estimated"]["usd_per_call"], 0.0003, 0.00005);
    let quick = json(&folder, &[&cheapest[..], &["--speed-least", "50"]].concat());
    assert_eq!(quick["instead"], "cheapest, at least 50 tok/s of output speed");
    near(&quick["aliases"][0]["estimated"]["usd_per_call"], 0.0016, 0.0001);
}

/// Two lanes whose first token is sometimes very late.
fn tails(name: &str) -> Folder {
    let lanes = [Lane("north", 1.0, 1.0, 50.0, 1.0, 4.0), Lane("south", 1.0, 1.0, 50.0, 1.0, 4.0)];
    log(name, &calls("chat", 800, &lanes, |n| n as usize % 2))
}

#[test]
fn a_race_and_a_hedge_are_told_with_their_extra_attempts() {
    let folder = tails("replay-race");
    insta::assert_snapshot!(
        "race",
        shown(&folder, &["--policy", "fixed", "--mode", "race=2", "--lanes", "south,north"])
    );
    let race = json(&folder, &["--policy", "fixed", "--mode", "race"]);
    let race = &race["aliases"][0];
    // The mean of the lesser of two log-normal draws of mean 1 and variation 1: 0.556 s.
    near(&race["estimated"]["ttft_ms"], 556.0, 60.0);
    assert_eq!((&race["estimated"]["attempts_per_call"], &race["as_done"]), (&2.0.into(), &Value::Null));
    let hedge = json(&folder, &["--policy", "fixed", "--mode", "hedge"]);
    near(&hedge["aliases"][0]["estimated"]["attempts_per_call"], 1.1, 0.01);
}

#[test]
fn attempts_of_which_the_first_token_was_not_awaited_are_told() {
    let lanes = [Lane("north", 1.0, 1.0, 50.0, 1.0, 4.0), Lane("south", 1.0, 1.0, 50.0, 1.0, 4.0)];
    let mut rows = calls("chat", 400, &lanes, |n| n as usize % 2);
    let lost = rows[..30].iter().map(|row| Attempt {
        attempt: 1,
        role: AttemptRole::Hedge,
        end: AttemptEnd::Lost,
        won: false,
        sample: Sample {
            ttft_ns: None,
            output_speed: None,
            output_tokens_std: 0,
            cost_usd: None,
            cost_basis: CostBasis::Free,
            ..row.sample.clone()
        },
        ..row.clone()
    });
    rows.extend(lost.collect::<Vec<_>>());
    let folder = log("replay-lost", &rows);
    let text = shown(&folder, &["--policy", "fixed"]);
    assert!(text.contains("aborted before their first output: 30 attempts"), "{text}");
    let chat = &json(&folder, &["--policy", "fixed"])["aliases"][0];
    // Each of the first thirty calls had one extra attempt, which cost nothing.
    near(&chat["measured_covered"]["attempts_per_call"], 1.0 + 30.0 / 400.0, 1e-9);
    assert!(chat["measured_covered"]["usd_per_call"].is_number(), "free is a known cost");
}

#[test]
fn what_is_like_what_was_cannot_be_told_from_chance() {
    let text = shown(&tails("replay-same"), &["--policy", "round-robin"]);
    assert!(text.contains("which may be chance"), "{text}");
}

#[test]
fn nothing_is_claimed_where_too_little_was_measured() {
    // The quick lane was asked only in the first ten minutes.
    let folder = log("replay-seldom", &calls("chat", 800, &[SLOW, QUICK], |n| usize::from(n < 60 && n % 2 == 1)));
    let finished = replay(&folder, &["--policy", "own-completion"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""));
    insta::assert_snapshot!("seldom", finished.stderr);
    let finished = replay(&folder, &["--policy", "own-completion", "--json"]);
    let chat = &serde_json::from_str::<Value>(&finished.stdout).expect("JSON")["aliases"][0];
    assert_eq!(
        (finished.code, &chat["estimated"], &chat["completion_difference_ms"]),
        (Some(2), &Value::Null, &Value::Null)
    );
    assert!(chat["refusal"].as_str().is_some_and(|why| why.starts_with("nothing is known of chat")), "{chat}");
    let few = log("replay-few", &calls("chat", 20, &[QUICK], |_| 0));
    let finished = replay(&few, &["--policy", "fixed"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("only 20 calls could be estimated, and 30 are needed"), "{}", finished.stderr);
}

#[test]
fn names_are_replayed_each_by_itself() {
    let mut rows = calls("chat", 200, &[SLOW, QUICK], |n| n as usize % 2);
    rows.extend(
        calls("code", 200, &[QUICK], |_| 0).into_iter().map(|row| Attempt {
            sample: Sample { cost_usd: None, cost_basis: CostBasis::Unknown, ..row.sample },
            ..row
        }),
    );
    let folder = log("replay-names", &rows);
    let text = shown(&folder, &["--policy", "fixed"]);
    assert!(text.contains("chat: 200 answered calls") && text.contains("code: 200 answered calls"), "{text}");
    assert!(text.contains("the log's costs do not follow one price on: south"), "{text}");
    let code = json(&folder, &["--policy", "fixed", "--alias", "code"]);
    assert_eq!(code["aliases"].as_array().map(Vec::len), Some(1));
    assert_eq!(code["aliases"][0]["estimated"]["usd_per_call"], Value::Null, "an unknown cost is not nothing");
    near(&code["aliases"][0]["completion_difference_ms"], 0.0, 20.0);
}

#[test]
fn what_cannot_be_replayed_is_said_with_what_to_do() {
    let folder = in_turns("replay-refused");
    folder.write("letter.db", "a letter");
    let lines: [&[&str]; 12] = [
        &["other.db", "--policy", "fixed"],
        &["letter.db", "--policy", "fixed"],
        &["calls.db", "--policy", "fixed", "--since", "2026-02-01"],
        &["calls.db", "--policy", "fixed", "--since", "all", "--alias", "poems"],
        &["calls.db", "--policy", "quickest"],
        &["calls.db", "--policy", "fixed", "--ttft-most", "1s"],
        &["calls.db", "--policy", "weighted"],
        &["calls.db", "--policy", "fixed", "--mode", "both"],
        &["calls.db", "--policy", "fixed", "--since", "all", "--mode", "race=3"],
        &["calls.db", "--policy", "fixed", "--since", "all", "--lanes", "west"],
        &["calls.db", "--policy", "fixed", "--since", "all", "--lanes", "north,north"],
        &["calls.db", "--policy", "fixed", "--since", "yesterday"],
    ];
    let mut message = String::new();
    for line in lines {
        let finished = run(&folder, &[&["replay"], line].concat());
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(2), ""), "{line:?}");
        message += &format!("$ tokrate replay {}\n{}\n", line.join(" "), finished.stderr);
    }
    insta::assert_snapshot!("refusals", message);
}

/// Sessions of ten calls on two lanes alike; one call in three goes to the other lane and finds nothing of its prompt in the cache.
fn sessions() -> Vec<Attempt> {
    let mut rng = Rng::root(9);
    let mut rows = Vec::new();
    for session in 0..40 {
        let mut lane = rng.below(2);
        for turn in 0..10 {
            let prompt = 1_000 + 300 * turn;
            let is_moved = turn > 0 && rng.chance(0.33);
            lane = if is_moved { 1 - lane } else { lane };
            let cached = if turn == 0 || is_moved { 0 } else { prompt * (85 + rng.below(10)) / 100 };
            let answer = 60 + rng.below(81);
            let ttft = (0.1 + (prompt - cached) as f64 * 1e-4) * rng.log_normal(0.2);
            let usd = ((prompt - cached) as f64 + cached as f64 * 0.1 + answer as f64 * 4.0) / 1e6;
            rows.push(Attempt {
                call: format!("chat-{session}-{turn}"),
                won: true,
                alias: "chat".to_owned(),
                session: Some(format!("task-{session}")),
                lane: ["north", "south"][lane as usize].to_owned(),
                sample: Sample {
                    started_unix_ms: DAY + session * 300_000 + turn * 20_000,
                    stream: true,
                    status: Some(200),
                    ttft_ns: Some((ttft * 1e9) as u64),
                    total_ns: ((ttft + answer as f64 / 50.0) * 1e9) as u64,
                    input_tokens: Some(prompt),
                    cached_tokens: Some(cached),
                    output_tokens_std: answer,
                    output_tokens: Some(answer),
                    cost_usd: Some(usd),
                    cost_basis: CostBasis::Reported,
                    ..Sample::default()
                },
                ..Attempt::default()
            });
        }
    }
    rows
}

#[test]
fn the_policy_cache_says_what_sessions_that_moved_have_cost() {
    let folder = log("replay-sessions", &sessions());
    let text = shown(&folder, &["--policy", "cache"]);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    insta::assert_snapshot!("sessions", text);
    let chat = &json(&folder, &["--policy", "cache"])["sessions"][0];
    // Nine tenths of about 2,600 tokens, of which each cached one costs nine tenths of a millionth less and takes 0.1 ms less.
    near(&chat["usd_per_call"]["difference"], -0.0021, 0.0004);
    near(&chat["ttft_ms"]["difference"], -235.0, 60.0);
    assert!(chat["ttft_ms"]["high"].as_f64().is_some_and(|most| most < -150.0), "{chat}");
    assert_eq!(replay(&folder, &["--policy", "cache", "--mode", "hedge"]).code, Some(2));
    let without = replay(&in_turns("replay-no-sessions"), &["--policy", "cache"]);
    assert_eq!((without.code, without.stdout.as_str()), (Some(2), ""));
    assert!(without.stderr.contains("x-tokrate-session"), "{}", without.stderr);
}
