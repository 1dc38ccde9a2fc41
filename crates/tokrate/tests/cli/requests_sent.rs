//! What the binary asks for: prompts of an exact length, unique or with a shared beginning, and the options as typed.
//!
//! Invariant: the same seed asks the same.

use crate::scripted::{Server, Then, answer, stream};
use crate::tool::bench;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tokrate_tokens::{Encoding, count};

/// Runs a bench and returns the requests as JSON with their heads, in the order of their index.
fn asked(further: &[&str]) -> Vec<(String, Value)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let server = Server::start(move |asked, stream_to| {
        kept.lock().expect("nobody broke down").push((asked.index(), asked.head.clone(), asked.json()));
        stream_to.write_all(answer("200 OK", "text/event-stream", &stream(3).concat()).as_bytes())?;
        Ok(Then::Keep)
    });
    bench("asked", &server.url(), 2, 8, further).expect(0, &[]);
    let mut seen = std::mem::take(&mut *seen.lock().expect("nobody broke down"));
    seen.sort_by_key(|(index, ..)| *index);
    seen.into_iter().map(|(_, head, json)| (head, json)).collect()
}

fn prompts(asked: &[(String, Value)]) -> Vec<String> {
    let content = |(_, json): &(String, Value)| json["messages"][0]["content"].as_str().expect("text").to_owned();
    asked.iter().map(content).collect()
}

#[test]
fn prompts_have_their_length_and_are_unique() {
    let prompts = prompts(&asked(&[]));
    for prompt in &prompts {
        assert_eq!(count(Encoding::O200kBase, prompt), 50, "{prompt}");
    }
    assert_eq!(prompts.iter().collect::<HashSet<_>>().len(), 8);
    let firsts: HashSet<&str> = prompts.iter().filter_map(|prompt| prompt.split_whitespace().next()).collect();
    assert!(firsts.len() > 1, "no cache of prefixes may help: {firsts:?}");
}

#[test]
fn a_shared_prefix_is_shared_and_no_more() {
    let prompts = prompts(&asked(&["--shared-prefix", "30"]));
    let shared = (0..prompts[0].len())
        .take_while(|&at| prompts.iter().all(|prompt| prompt.as_bytes().get(at) == prompts[0].as_bytes().get(at)))
        .count();
    let tokens = count(Encoding::O200kBase, &prompts[0][..shared]);
    assert!((30..=33).contains(&tokens), "{tokens} tokens are shared");
    assert!(prompts.iter().all(|prompt| count(Encoding::O200kBase, prompt) == 50));
    assert_eq!(prompts.iter().collect::<HashSet<_>>().len(), 8);
}

#[test]
fn the_seed_decides_the_prompts() {
    let (one, again, other) = (asked(&["--seed", "7"]), asked(&["--seed", "7"]), asked(&["--seed", "8"]));
    assert_eq!(prompts(&one), prompts(&again));
    assert_ne!(prompts(&one), prompts(&other));
}

#[test]
fn options_are_sent_as_typed() {
    let typed =
        ["--ignore-eos", "--temperature", "0.5", "--body", "top_k=5", "--body", "stop=[\"x\"]", "--header", "X-A: b c"];
    for (head, json) in asked(&typed) {
        assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("x-a: b c"), "{head}");
        let seen = [&json["model"], &json["stream"], &json["stream_options"], &json["max_completion_tokens"]];
        assert_eq!(seen, [&json!("sim"), &json!(true), &json!({"include_usage": true}), &json!(40)]);
        let seen = [&json["ignore_eos"], &json["temperature"], &json["top_k"], &json["stop"]];
        assert_eq!(seen, [&json!(true), &json!(0.5), &json!(5), &json!(["x"])]);
    }
}

#[test]
fn older_engines_get_what_they_know() {
    for (_, json) in asked(&["--max-tokens-field", "--no-usage"]) {
        assert_eq!(json["max_tokens"], 40);
        assert!(json.get("max_completion_tokens").is_none() && json.get("stream_options").is_none(), "{json}");
    }
}
