//! Which words belong to a number.

use super::read;

#[track_caller]
fn all(sentences: &[(&str, &str)]) {
    for (text, understood) in sentences {
        assert_eq!(read(text), *understood, "{text:?}");
    }
}

#[test]
fn typesetting_is_a_blank_unless_it_parts_thousands() {
    all(&[
        ("batch\u{a0}64, 90\u{202f}tok/s", "90 tok/s (?) | load: batch 64"),
        ("batch\u{a0}500, 90 tok/s", "90 tok/s (?) | load: batch 500"),
        ("\u{a0}500 tok/s", "500 tok/s (?)"),
        ("10\u{202f}5000 tok/s", "5,000 tok/s (?) | not understood: 10 5000"),
    ]);
}

#[test]
fn a_number_that_stands_behind_a_name_or_apart_is_one_of_its_own() {
    all(&[
        ("8  500 tok/s", "500 tok/s (?) | not understood: 8"),
        ("llama-8 500 tok/s", "500 tok/s (?) | model: llama-8"),
        ("tp8 500 tok/s", "500 tok/s (?)"),
        ("vLLM 64 users: 90 tok/s", "90 tok/s (?) | provider or hardware: vLLM | load: 64 users"),
        ("vLLM 2.5 ms/token", "400 tok/s (output speed) | provider or hardware: vLLM"),
        ("Llama 3 70 tok/s", "70 tok/s (?) | model: Llama 3"),
    ]);
}

#[test]
fn a_word_says_something_of_the_numbers_of_its_own_clause() {
    all(&[
        ("high throughput; 90 tok/s", "90 tok/s (?)"),
        ("90 tok/s, throughput unknown", "90 tok/s (?)"),
        ("the decoder does 90 tok/s", "90 tok/s (?)"),
        ("ppl 5.2 at 90 tok/s", "90 tok/s (?) | not understood: 5.2 at"),
        ("myttft 200 ms, 90 tok/s", "90 tok/s (?) | not understood: 200 ms"),
        ("25 ms TPOT", "40 tok/s (output speed)"),
        ("12 ms/token", "83.333 tok/s (output speed)"),
        ("25 ms/token/gpu", "40 tok/s (throughput)"),
        ("Llama 3 (pp512: 7,100 t/s)", "7,100 tok/s (prefill speed) | model: Llama 3"),
        ("fast;tg128: 120 t/s", "120 tok/s (output speed)"),
        ("TPOT < 25 ms", "at least 40 tok/s (output speed)"),
        ("TTFT 0 ms, 90 tok/s", "90 tok/s (?) | not understood: 0 ms"),
    ]);
}

#[test]
fn a_condition_is_reported_once_and_in_full() {
    all(&[
        ("H100 against H100: 90 tok/s", "90 tok/s (?) | provider or hardware: H100"),
        ("8 x NVIDIA H100: 90 tok/s", "90 tok/s (?) | provider or hardware: 8 x NVIDIA H100"),
        ("TPU v5e: 90 tok/s", "90 tok/s (?) | provider or hardware: TPU v5e"),
        ("TPU v6e: 90 tok/s", "90 tok/s (?) | provider or hardware: TPU v6e"),
        ("70B at 90 tok/s", "90 tok/s (?) | model: 70B"),
        ("30B-A3B at 90 tok/s", "90 tok/s (?) | model: 30B-A3B"),
        ("measured 2025-06-01: 90 tok/s", "90 tok/s (?) | time and place: 2025-06-01"),
        ("90 tok/s at batch 64.", "90 tok/s (?) | load: batch 64"),
        ("concurrency 64 users: 90 tok/s", "90 tok/s (?) | load: concurrency 64 users"),
        ("90 tok/s with n=50 requests", "90 tok/s (?) | sample: 50 requests"),
        ("ctx 64 users, 90 tok/s", "90 tok/s (?) | load: 64 users"),
        ("90 tok/s over 2 thousand requests", "90 tok/s (?) | sample: 2 thousand requests"),
        ("75 tok/s over 10 m runs", "75 tok/s (?) | not understood: 10 m"),
    ]);
}

#[test]
fn scales_belong_to_their_number_and_are_shared_where_only_one_is_written() {
    all(&[
        ("10ktok/s", "10,000 tok/s (?)"),
        ("800-1.2k tok/s", "800 to 1,200 tok/s (?)"),
        ("1k-2M tokens/min", "16.667 to 33,333.333 tok/s (?)"),
        ("6000 TPM", "100 tok/s (?)"),
    ]);
    for unclear in ["100-10.500 tok/s", "10.500-20 tok/s", "1,55 tok/s"] {
        assert!(read(unclear).contains("can be read in two ways"), "{unclear}");
    }
    assert!(read("1,55 tok/s").contains("`1,55`"));
    for none in ["5 t per second", "10 ktok/s"] {
        assert!(read(none).contains("holds no number"), "{none}: {}", read(none));
    }
}
