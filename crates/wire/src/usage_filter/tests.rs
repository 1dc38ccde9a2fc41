//! What is withheld, what passes, and that the cuts do not matter.

use super::*;
use crate::{Decoder, Dialect, Shape};
use proptest::prelude::*;
use tokrate_core::{EventBatch, EventKind, Tick};

const TEXT: &str =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a[]b\"}}],\"usage\":null}\n\n";
const COUNTS: &str = "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn passed(parts: &[&[u8]]) -> (Vec<u8>, u64) {
    let (mut filter, mut sent) = (UsageFilter::new(), Vec::new());
    for part in parts {
        let mut out = Vec::new();
        match filter.push(part, &mut out) {
            Passage::AsItCame => {
                assert!(out.is_empty());
                sent.extend_from_slice(part);
            }
            Passage::Rewritten => sent.append(&mut out),
        }
    }
    filter.end(&mut sent);
    (sent, filter.withheld())
}

#[test]
fn the_event_of_counts_is_withheld_and_everything_else_passes_as_it_came() {
    let stream = [TEXT, ": ping\n\n", TEXT, COUNTS, DONE].concat();
    let expected = [TEXT, ": ping\n\n", TEXT, DONE].concat();
    for at in 0..=stream.len() {
        let (sent, withheld) = passed(&[&stream.as_bytes()[..at], &stream.as_bytes()[at..]]);
        assert_eq!((String::from_utf8(sent).unwrap(), withheld), (expected.clone(), 1), "cut at {at}");
    }
    let bytes: Vec<&[u8]> = stream.as_bytes().chunks(1).collect();
    assert_eq!(passed(&bytes).0, expected.as_bytes());
    // The decoder beside it sees the counts.
    let (mut decoder, mut batch) = (Decoder::new(Dialect::OpenAiChat, Shape::Stream), EventBatch::new());
    decoder.push(Tick::ZERO, stream.as_bytes(), &mut batch);
    assert!(batch.events().iter().any(|event| matches!(event.kind, EventKind::Usage(_))));
}

#[test]
fn only_an_event_of_nothing_but_counts_is_withheld() {
    for passes in [
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"error\":{\"message\":\"x\"}}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"choices\\\":[],\\\"usage\\\":{}\"}}]}\n\n",
        "data: {\"x\":{\"choices\":[],\"usage\":{}}}\n\n",
        "data: {\"choices\":[],\"usage\":{}\n\n",
        "{\"error\":{\"message\":\"no stream\",\"x\":[]}}",
    ] {
        assert_eq!(passed(&[passes.as_bytes()]), (passes.as_bytes().to_vec(), 0), "{passes}");
    }
    for withheld in [
        COUNTS,
        "data:{\"usage\": {\"prompt_tokens\":1}, \"choices\": [] }\r\n\r\n",
        "id: 7\rdata: {\"choices\":[],\rdata: \"usage\":{}}\r\r",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"timings\":{\"predicted_n\":2}}",
    ] {
        assert_eq!(passed(&[withheld.as_bytes()]), (Vec::new(), 1), "{withheld}");
    }
}

#[test]
fn a_read_of_whole_events_is_not_copied_and_a_beginning_waits_only_while_it_may_be_the_one() {
    let (mut filter, mut out) = (UsageFilter::new(), Vec::new());
    assert_eq!(filter.push(TEXT.as_bytes(), &mut out), Passage::AsItCame, "a mark in a text");
    assert_eq!(filter.push(DONE.as_bytes(), &mut out), Passage::AsItCame);
    // Here it is not known yet what kind of event it is.
    assert_eq!(filter.push(b"data: {\"id\":\"x\",\"choices\":[", &mut out), Passage::Rewritten);
    assert_eq!(out, b"");
    assert_eq!(filter.push(b"{\"index\":0", &mut out), Passage::Rewritten);
    assert_eq!(out, b"data: {\"id\":\"x\",\"choices\":[{\"index\":0", "now it is");
    out.clear();
    assert_eq!(filter.push(b",\"delta\":{\"content\":\"x\"}}]}", &mut out), Passage::AsItCame);
    assert_eq!(filter.push(b"\n\n", &mut out), Passage::AsItCame);
    assert_eq!(filter.push(COUNTS.as_bytes(), &mut out), Passage::Rewritten);
    assert_eq!((out.as_slice(), filter.withheld()), (b"".as_slice(), 1));
    let endless = [b"data: \"".as_slice(), &[b'x'; MAX_HELD_BYTES]].concat();
    assert_eq!(filter.push(&endless, &mut out), Passage::AsItCame, "nothing is held without a limit");
}

/// The stream without the events that hold counts only, by a look at the whole of it.
fn reference(stream: &str) -> String {
    let mut events = stream.split_inclusive("\n\n");
    let kept = events.by_ref().filter(|event| {
        let data: String = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        let tree: Result<serde_json::Value, _> = serde_json::from_str(&data);
        !tree.is_ok_and(|tree| {
            tree["choices"].as_array().is_some_and(Vec::is_empty)
                && tree["usage"].is_object()
                && tree["error"].is_null()
        })
    });
    kept.collect()
}

fn event() -> impl Strategy<Value = String> {
    let choices = prop::sample::select(vec!["[]", "[{\"index\":0,\"delta\":{\"content\":\"[]\"}}]", "[{}]", "7"]);
    let usage = prop::sample::select(vec!["null", "{}", "{\"prompt_tokens\":5}", "[]"]);
    let chunk = (choices, usage, any::<bool>()).prop_map(|(choices, usage, first)| {
        let (one, other) = (format!("\"choices\":{choices}"), format!("\"usage\":{usage}"));
        let (one, other) = if first { (one, other) } else { (other, one) };
        format!("data: {{\"id\":\"x\",{one},{other}}}\n\n")
    });
    prop_oneof![
        6 => chunk,
        1 => prop::sample::select(vec![DONE, ": []\n\n", ":\n\n", "event: x\ndata: []\n\n", "data: {\"choices\":[]\n\n"]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_chunking_lets_the_same_bytes_pass(
        events in prop::collection::vec(event(), 0..8),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let stream = events.concat();
        let expected = reference(&stream).replace('\n', end);
        let stream = stream.replace('\n', end);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).chain([0, stream.len()]).collect();
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &stream.as_bytes()[pair[0]..pair[1]]).collect();
        let (sent, _) = passed(&parts);
        prop_assert_eq!(String::from_utf8(sent).unwrap(), expected);
    }

    #[test]
    fn garbage_passes_as_it_came_however_it_is_cut(
        body in "[dateri: {}\\[\\]\"\n\r\\x00é]{0,80}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let bytes = body.as_bytes();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        ends.sort_unstable();
        let parts: Vec<&[u8]> = ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(passed(&parts).0, bytes);
    }
}
