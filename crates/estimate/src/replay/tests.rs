//! Schedules of small traces, and what cannot be replayed.

use super::*;

const TRACE: &str = "request,arrival_ms,input_tokens,output_tokens\na,0,1000,10\nb,5,100,2\n\nc,900,100,1\n";

fn settings() -> EngineSettings {
    EngineSettings {
        model: Some("llama-3.1-8b".to_owned()),
        hardware: Some("h100-sxm".to_owned()),
        dtype: Some("bfloat16".to_owned()),
        ..EngineSettings::default()
    }
}

fn replayed(settings: &EngineSettings, trace: &str) -> Result<Replayed, String> {
    let trace = parse_trace(trace)?;
    Ok(Replay::new(settings, &Facts::embedded(), &Coefficients::fitted())?.run(&trace))
}

fn times(outcome: &Outcome) -> (f64, Times) {
    match outcome {
        Outcome::Answered { queue_ms, times } => (*queue_ms, *times),
        Outcome::Refused(why) => panic!("refused: {why}"),
    }
}

#[test]
fn each_request_is_answered_in_its_turn() {
    let replayed = replayed(&settings(), TRACE).expect("a trace");
    let [a, b, c] = &replayed.outcomes[..] else { panic!("three rows: {replayed:?}") };
    let ((a_queue, a), (b_queue, b), (c_queue, c)) = (times(a), times(b), times(c));
    assert_eq!((a_queue, c_queue), (0.0, 0.0), "the engine was idle");
    // The second waits for the end of the step that processes the first one's prompt.
    assert!((b_queue - (a.ttft_ms - 5.0)).abs() < 1e-3, "{b_queue}");
    assert!(b.ttft_ms > b_queue && a.latency_ms > a.ttft_ms && a.tpot_ms > 4.0 && a.tpot_ms < 12.0, "{a:?}");
    assert_eq!((c.latency_ms, c.tpot_ms), (c.ttft_ms, 0.0));
    assert!((replayed.seconds - (0.9 + c.latency_ms / 1e3)).abs() < 1e-6);
}

#[test]
fn more_copies_share_the_requests() {
    let trace: String =
        (0..64).fold("arrival_ms,input_tokens,output_tokens\n".to_owned(), |text, _| text + "0,500,50\n");
    let latency = |settings: &EngineSettings| {
        let replayed = replayed(settings, &trace).expect("a trace");
        replayed.outcomes.iter().map(|outcome| times(outcome).1.latency_ms).fold(0.0, f64::max)
    };
    let two = EngineSettings { data_parallel_size: Some(2), ..settings() };
    assert!(latency(&two) < 0.8 * latency(&settings()));
    let serial = EngineSettings { engine: Some("serial".to_owned()), ..settings() };
    assert!(latency(&serial) > 5.0 * latency(&settings()));
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_reason() {
    let trouble = |settings: &EngineSettings, trace: &str| replayed(settings, trace).expect_err("refused");
    assert!(trouble(&settings(), "a,b\n1,2\n").starts_with("line 1 has no column `arrival_ms`"));
    let bad = "arrival_ms,input_tokens,output_tokens\n0,1,1\n\n0,many,1\n";
    assert!(
        trouble(&settings(), bad).starts_with("line 4: `input_tokens` is \"many\""),
        "{}",
        trouble(&settings(), bad)
    );
    assert!(
        trouble(&settings(), "arrival_ms,input_tokens,output_tokens\nNaN,1,1\n").contains("`arrival_ms` is \"NaN\"")
    );
    assert!(trouble(&EngineSettings::default(), TRACE).contains("name no model"));
    let odd = EngineSettings { engine: Some("fast".to_owned()), ..settings() };
    assert!(trouble(&odd, TRACE).contains("one of vllm, sglang, trtllm, static-batch, serial"));
    let drafts = EngineSettings { num_speculative_tokens: Some(3), ..settings() };
    assert!(trouble(&drafts, TRACE).contains("`acceptance`"));
    let long = replayed(&EngineSettings { max_model_len: Some(500), ..settings() }, TRACE).expect("a trace");
    assert!(matches!(&long.outcomes[0], Outcome::Refused(why) if why.contains("max_model_len is 500")));
    assert!(matches!(&long.outcomes[1], Outcome::Answered { .. }));
}
