//! Lanes chosen by what they hold of a prompt: a conversation goes on where it was, and the head says why.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_whole, whole};
use serde_json::{Value, json};
use tokrate_core::Span;
use tokrate_gateway::{CurvePoint, LaneConfig, Mode, Policy};
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";

fn alike(name: &str, scripted: &Scripted) -> LaneConfig {
    let ttft = Span::from_millis(100);
    let point = CurvePoint { in_flight: 1, prompt_tokens: 1_000, ttft, ttft_p90: ttft, output_speed: 100.0, n: 20 };
    LaneConfig { curve: vec![point], ..lane(name, scripted.address, &[Dialect::OpenAiChat]) }
}

/// A conversation of so many turns of 4 KiB each.
fn conversation(name: &str, turns: usize) -> String {
    let messages: Vec<Value> = (0..turns)
        .map(|turn| json!({"role": "user", "content": format!("{name} {turn} {}", "word ".repeat(800))}))
        .collect();
    json!({"model": "all", "messages": messages}).to_string()
}

fn gateway(policy: Policy) -> (TestGateway, [Scripted; 3]) {
    let answering = || Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let lanes = [answering(), answering(), answering()];
    let names = ["one", "two", "three"];
    let mut config = configured(names.iter().zip(&lanes).map(|(name, lane)| alike(name, lane)).collect(), Mode::Off);
    config.aliases[0].policy = policy;
    (TestGateway::start(config), lanes)
}

#[test]
fn a_conversation_goes_on_where_its_beginning_is() {
    let (mut gateway, _lanes) = gateway(Policy::Cache);
    for name in ["ann", "bob", "cat", "dan", "eve", "fay"] {
        let first = post(gateway.address, PATH, &conversation(name, 1));
        assert_eq!((first.status, first.header("x-tokrate-cache-expected")), (200, Some("0")), "{}", first.text());
        let winner = first.header("x-tokrate-winner").expect("a lane").to_owned();
        for turns in 2..5_usize {
            let next = post(gateway.address, PATH, &conversation(name, turns));
            assert_eq!(next.header("x-tokrate-winner"), Some(winner.as_str()), "{name}, turn {turns}");
            let expected = next.header("x-tokrate-cache-expected").and_then(|tokens| tokens.parse::<usize>().ok());
            // 1,000 tokens a turn, but for the last part of a block of 128.
            let before = (turns - 1) * 1_000;
            assert!(expected.is_some_and(|tokens| (before - 150..=before + 50).contains(&tokens)), "{expected:?}");
        }
    }
    // The provider counts 5 tokens in every prompt, of which the rows name shares: none of the first, half, two thirds, three quarters.
    let expected: Vec<_> = gateway.rows().iter().map(|row| row.expected_cached_tokens).collect();
    let wanted = [0, 2, 3, 4].map(Some).repeat(6);
    assert_eq!(expected, wanted);
}

#[test]
fn aliases_of_another_objective_say_nothing_of_caches() {
    let (mut gateway, _lanes) = gateway(Policy::Completion);
    for turns in 1..3 {
        let answer = post(gateway.address, PATH, &conversation("ann", turns));
        assert_eq!((answer.status, answer.header("x-tokrate-cache-expected")), (200, None));
    }
    assert!(gateway.rows().iter().all(|row| row.expected_cached_tokens.is_none()));
}
