//! Claims in the style of press releases, model cards and benchmark posts.

use super::*;
use proptest::prelude::*;

mod clauses;
mod measured;

/// What was read, on one line.
fn read(text: &str) -> String {
    let claim = match Claim::parse(text) {
        Ok(claim) => claim,
        Err(error) => return error.to_string(),
    };
    let meaning = |stated: &StatedValue| stated.meaning.map_or("?", Meaning::name);
    let mut parts: Vec<String> =
        claim.speeds.iter().map(|stated| format!("{} ({})", stated.shown("tok/s"), meaning(stated))).collect();
    parts.extend(claim.first_tokens.iter().map(|stated| format!("TTFT {}", stated.shown("ms"))));
    parts.extend(claim.conditions.iter().map(|(condition, text)| format!("{}: {text}", condition.name())));
    parts.extend(claim.not_understood.iter().map(|text| format!("not understood: {text}")));
    parts.join(" | ")
}

const SENTENCES: &[&str] = &[
    // The examples of the help.
    "800 tok/s",
    "10,500 tok/s throughput on 8 x H100, batch 64",
    "120 tok/s per user",
    // Press releases.
    "Cerebras runs Llama 3.1 70B at 2,100 tokens per second",
    "Groq delivers over 1,600 tok/s on Llama-3.3-70B with speculative decoding",
    "up to 10,500 tokens per second on 8 x H100",
    "SambaNova serves DeepSeek R1 671B at 198 tokens/second/user",
    "more than 30,000 tokens/s of aggregate throughput on a single DGX B200",
    "1.8M tokens/min across 16 GPUs",
    "Mercury generates 1000+ tokens/sec on NVIDIA H100s",
    "Gemini 2.5 Flash streams 350 t/s, first token in 0.2 s",
    "a peak of 2,500 TPS/user on Llama 4 Maverick with 8 B200 GPUs",
    "2.5x faster than before: 1,200 tok/s instead of 480 tok/s",
    "Fireworks: 300 tok/s, $0.90/M tokens",
    "TTFT 200ms",
    "TTFT of 0.35 seconds at 1k input",
    "200 ms time to first token, 90 tok/s afterwards",
    "p95 TTFT < 500 ms and 50-120 tok/s",
    "time-to-first-token: 180–250 ms",
    // Model cards and engines.
    "Qwen3-30B-A3B in Q4_K_M runs at 45 t/s on an RTX 4090 with 32k context",
    "~55 tokens/s with llama.cpp on an M4 Max, 4-bit",
    "Mac Studio M3 Ultra: 18 tok/s, DeepSeek V3 4bit MLX",
    "eval rate: 45.23 tokens/s",
    "prompt eval rate: 1204.55 tokens/s",
    "pp512: 7,100.4 t/s, tg128: 120.5 t/s",
    "Mixtral 8x7B at fp8: 12 ms/token",
    "TPOT 25 ms at concurrency 32",
    "ITL of 10-20ms with 64 concurrent users",
    "gpt-oss-120b MXFP4 on 2x RTX PRO 6000: 180 output tokens/s single stream",
    // Benchmark posts.
    "vLLM 0.6 reaches 2,300 output tokens/s for Llama 3 8B on 1 x A100-80GB (batch size 256)",
    "SGLang: 22.3k input tokens/s and 5.6k output tokens/s per node",
    "52.3k input tokens per second per node and 22.3k output tokens per second per node",
    "ISL/OSL 1k/1k, 64 concurrent requests, 4,200 tok/s/GPU on GB200",
    "1024 input tokens, 512 output tokens, 16 req/s: 8,192 total tokens/s",
    "median 85 tok/s over 200 requests, 1,000-token prompts, us-east-1, June 2025",
    "throughput of 1.2k tok/s (average of 50 runs, bs=32, isl=2048, osl=256)",
    "e2e speed 62 tok/s at concurrency 8, prompts of 1,000 tokens, answers of 300 tokens",
    "tp8 on 8xMI300X gives 14000 tok/s at 512 concurrency",
    "0.8–1.2k tok/s",
    "1-2k tokens/s",
    "500 to 750 tok/s",
    "90th percentile 40 tok/s, o200k_base tokens",
    "3 million tokens per hour on one L40S",
    "2 users at 3.5 t/s",
    "10\u{202f}500 tok/s",
    "speed of 75 tok/s measured for 10 min",
    "90 tok/s for all users together, 1k in / 2k out",
    "in 5 tests, 200 in total, 90 tok/s",
    "Llama 3.1 405B on 16 x H100 80GB: 1,900 tok/s, 99.9% uptime",
    // In two ways, or not at all.
    "10.500 tok/s",
    "1,5 tok/s",
    "8 500 tok/s",
    "",
    "fast",
    "800",
    "800 requests/s",
    "0 tok/s",
    "70b at 32",
    "done in 200 ms",
];

#[test]
fn sentences_are_parsed_or_reported_as_not_understood() {
    let table: Vec<String> = SENTENCES.iter().map(|text| format!("{text:?}\n    {}", read(text))).collect();
    insta::assert_snapshot!("sentences", table.join("\n"));
}

#[test]
fn stated_conditions_are_not_asked_for() {
    let claim = Claim::parse("800 tok/s throughput on llama-3.3-70b, fp8, 8 x H100, batch 64, median, 1k input")
        .expect("a claim");
    assert_eq!(claim.speeds[0].meaning, Some(Meaning::Throughput));
    let missing: Vec<Condition> = claim.missing().collect();
    assert_eq!(missing, [Condition::OutputTokens, Condition::Sample, Condition::Tokens, Condition::Place]);
    assert_eq!(Claim::parse("800 tok/s").expect("a claim").missing().count(), Condition::ALL.len());
}

#[test]
fn the_arithmetic_is_right() {
    let claim = Claim::parse("800 tok/s").expect("a claim");
    assert_eq!(claim.speeds[0].meanings().len(), 4);
    assert!(
        Meaning::OutputSpeed.implications(800.0)[0]
            .starts_with("1.25 ms per token after the first; an answer of 500 tokens takes 624 ms")
    );
    assert_eq!(
        Meaning::Throughput.implications(800.0)[0],
        "Shared evenly: 80.0 tok/s each for 10, 12.5 tok/s each for 64, 3.13 tok/s each for 256."
    );
    assert!(
        Meaning::PrefillSpeed.implications(800.0)[0]
            .starts_with("A prompt of 1,000 tokens is read in 1.25 s, one of 100,000 in 2 min 05 s")
    );
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        let _ = Claim::parse(&text);
    }

    #[test]
    fn any_words_of_the_trade_are_read_or_refused(words in prop::collection::vec(prop::sample::select(&WORDS), 0..14)) {
        let text = words.concat();
        if let Ok(claim) = Claim::parse(&text) {
            for stated in claim.speeds.iter().chain(&claim.first_tokens) {
                prop_assert!(stated.low > 0.0 && stated.low <= stated.high && stated.high.is_finite(), "{}: {:?}", text, stated);
            }
        }
    }
}

const WORDS: [&str; 30] = [
    "800", "1.5", "0", "10,500", "é", " ", " ", " ", "tok/s", "k", "M", "-", "to ", "ms", "ttft", "per ", "user", "x",
    "h100", "llama", "70b", "/", ", ", "batch ", "$", "tokens", "(", "%", "…", "bit",
];
