//! Counts, token ends, streams and truncation against `bpe-openai` and against their definitions. It knows the published
//! behaviour only. Invariant: no text is exempt from a comparison.

use bpe_openai::Tokenizer;
use proptest::prelude::*;

use super::*;

const ENCODINGS: [Encoding; 2] = [Encoding::O200kBase, Encoding::Cl100kBase];

/// What the patterns treat specially, close together: contractions, their folded letters, white space of every kind,
/// line breaks, marks, titlecase, modifier and other letters, numbers, symbols, and characters of every width.
const STRESS: &str = "['’sStTrReEvVmMlLdDſKabcABCzZ0-9٣½Ⅷ \t\r\n\u{b}\u{c}\u{85}\u{a0}\u{2003}\u{2028}\u{3000}\u{200b}\
    \u{301}\u{903}\u{20dd}ǅᾼʰªªæßÉéжЖ中文字のカ한글กาअأ😀👩\u{200d}\u{fe0f}🏽🇩/.,!?;:(){}#@_\\-\"\u{0}\u{ad}\u{e000}\u{fffd}\u{10ffff}]";

fn stressing(most: usize) -> impl Strategy<Value = String> {
    proptest::string::string_regex(&format!("{STRESS}{{0,{most}}}")).expect("a pattern that generates")
}

fn oracle(encoding: Encoding) -> &'static Tokenizer {
    match encoding {
        Encoding::O200kBase => bpe_openai::o200k_base(),
        Encoding::Cl100kBase => bpe_openai::cl100k_base(),
    }
}

fn ends(encoding: Encoding, text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    token_ends(encoding, text, &mut ends);
    ends
}

/// The oracle cuts cl100k_base white space at the end of a text after its last line break, where the reference keeps
/// it whole. The pieces differ, the tokens do not: no token of cl100k_base ends otherwise after a line break.
fn oracle_ends(encoding: Encoding, text: &str) -> Vec<usize> {
    let oracle = oracle(encoding);
    let mut end = 0;
    let lengths = oracle.encode(text).into_iter().map(|token| oracle.bpe.token_bytes(token).len());
    lengths
        .map(|length| {
            end += length;
            end
        })
        .collect()
}

fn check(text: &str) {
    for encoding in ENCODINGS {
        let wanted = oracle_ends(encoding, text);
        assert_eq!(ends(encoding, text), wanted, "{encoding} {text:?}");
        assert_eq!(count(encoding, text), wanted.len(), "{encoding} {text:?}");
        assert_eq!(count_within(encoding, text, wanted.len()), Some(wanted.len()));
        if let Some(less) = wanted.len().checked_sub(1) {
            assert_eq!(count_within(encoding, text, less), None);
        }
    }
}

/// At every cut: what has settled is no more than the count so far, and total and final count are exact.
fn check_every_cut(text: &str) {
    for encoding in ENCODINGS {
        let mut counter = StreamCounter::new(encoding);
        let whole = count(encoding, text);
        for (at, character) in text.char_indices() {
            let mut two = counter.clone();
            two.push(&text[at..]);
            assert_eq!(two.finish(), whole, "{encoding} {text:?} cut at {at}");
            counter.push(character.encode_utf8(&mut [0; 4]));
            let now = &text[..at + character.len_utf8()];
            assert_eq!(counter.total(), count(encoding, now), "{encoding} {now:?}");
            assert!(counter.settled() <= counter.total().min(whole), "{encoding} {now:?}");
        }
        assert_eq!(counter.finish(), whole, "{encoding} {text:?}");
    }
}

/// By definition: the longest prefix with exactly that count, else the longest with fewer.
fn truncate_by_definition(encoding: Encoding, text: &str, tokens: usize) -> &str {
    let counts = || {
        (0..=text.len()).rev().filter(|&cut| text.is_char_boundary(cut)).map(|cut| (cut, count(encoding, &text[..cut])))
    };
    let cut = counts().find(|pair| pair.1 == tokens).or_else(|| counts().find(|pair| pair.1 < tokens));
    &text[..cut.map_or(0, |pair| pair.0)]
}

#[test]
fn known_texts_count_as_the_oracle_counts() {
    let texts = [
        "",
        " ",
        "  ",
        "\n",
        "\n ",
        " \n",
        "foo\n  ",
        "a \r\n   b",
        "\r\n\r\n",
        "\t\tif x:\n\t\t\treturn y\n",
        "it's IT'S it'S I'll we'Re they'Ve x'ſ X'ſt 'ſ 'sab 'lLa 'r 've",
        "locale's locale' s",
        "ABCdef ABCDef aBC中ABC 中A中B ",
        "1234567 12 1٣½Ⅷ",
        " ǅabc ʰA ªB A\u{301}b \u{301}\u{301} \u{301}AB \u{301}'s !\u{301}a !!\u{301}",
        "http://a/b//c?d=e#f\r\n/x /\n/",
        "\u{a0}a\u{3000}中\u{2028}\u{85}b",
        "👩\u{200d}👩\u{200d}👧 🇩🇪 ☃️ \u{0} \u{ad} \u{e000} \u{10ffff}",
        "<|endoftext|> <|endofprompt|>",
        "今日はいい天気ですね。東京タワーに行きましょう！",
        "สวัสดีชาวโลก नमस्ते दुनिया مرحبا بالعالم",
    ];
    for text in texts {
        check(text);
        check_every_cut(text);
    }
}

#[test]
fn source_text_counts_as_the_oracle_counts() {
    for text in [
        include_str!("scan.rs"),
        include_str!("tests.rs"),
        include_str!("../examples/generate.rs"),
        include_str!("../Cargo.toml"),
    ] {
        check(text);
    }
}

#[test]
fn hostile_text_counts_as_the_oracle_counts() {
    for unit in [
        "a",
        " ",
        "\n",
        "\t",
        "1",
        "=",
        "ab",
        "é",
        "中",
        "\u{301}",
        "😀",
        "A",
        "'s",
        " \n",
        "aA",
        "中A",
        "\u{0}",
        "abcdefghij",
    ] {
        for length in [100, 1_000, 20_000] {
            check(&unit.repeat(length / unit.len()));
        }
    }
}

#[test]
fn characters_all_count_as_the_oracle_counts() {
    let characters: Vec<char> = (0..=0x10_ffff).filter_map(char::from_u32).collect();
    for chunk in characters.chunks(512).step_by(if cfg!(debug_assertions) { 7 } else { 1 }) {
        let text: String = chunk
            .iter()
            .flat_map(|&character| ['x', character, 'a', 'B', ' ', character, '1', '\'', character])
            .collect();
        check(&text);
    }
}

#[test]
fn a_long_piece_byte_by_byte_is_scanned_in_proportion_to_its_length() {
    for unit in ["a", " ", "\n", "=", "中", "中A", "\u{301}", "A\n \n"] {
        let text = unit.repeat(100_000 / unit.len());
        let mut counter = StreamCounter::new(Encoding::O200kBase);
        for character in text.chars() {
            counter.push(character.encode_utf8(&mut [0; 4]));
        }
        assert!(counter.scanned < 5 * text.len(), "{unit:?}: {} for {}", counter.scanned, text.len());
        assert_eq!(counter.finish(), count(Encoding::O200kBase, &text));
    }
}

#[test]
fn scanning_looks_at_each_byte_a_few_times_at_most() {
    let units =
        ["a", " ", "\n ", "A\u{301}", "\u{301}A", "中AAA", "'", "'l", "!\u{301}", "aA1", " !", "\r\n/", "\u{a0}"];
    for encoding in ENCODINGS {
        for (unit, tail) in units.iter().flat_map(|unit| ["", "a", "A", " ", "\n"].map(|tail| (unit, tail))) {
            let text = unit.repeat(5_000) + tail;
            let (mut at, mut looked) = (0, 0);
            while at < text.len() {
                let piece = piece_at(encoding, text.as_bytes(), at);
                looked += piece.reach - at;
                at = piece.end;
            }
            assert_eq!(at, text.len());
            assert!(looked <= 6 * text.len(), "{encoding} {unit:?} {tail:?}: {looked} for {}", text.len());
        }
    }
}

#[test]
fn a_stream_of_ordinary_text_settles_and_holds_little() {
    let text = include_str!("scan.rs");
    let mut counter = StreamCounter::new(Encoding::O200kBase);
    for (at, character) in text.char_indices() {
        counter.push(character.encode_utf8(&mut [0; 4]));
        let behind = text[..at].len().saturating_sub(200);
        let floor = text.floor_char_boundary(behind);
        assert!(counter.settled() + 2 >= count(Encoding::O200kBase, &text[..floor]), "at {at}");
    }
}

#[test]
fn truncation_gives_exactly_the_count_asked_for() {
    let text = include_str!("truncate.rs");
    for encoding in ENCODINGS {
        for tokens in [0, 1, 2, 10, 99, 100, 101, 500] {
            assert_eq!(count(encoding, truncate(encoding, text, tokens)), tokens);
        }
        assert_eq!(truncate(encoding, text, 1_000_000), text);
        let long = "ab".repeat(5_000);
        for tokens in [1, 7, 1_000] {
            assert_eq!(count(encoding, truncate(encoding, &long, tokens)), tokens);
        }
        assert_eq!(truncate(encoding, "\u{10ffff}", 1), "");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_counts_as_the_oracle_counts(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn stressing_text_counts_as_the_oracle_counts(text in stressing(60)) {
        check(&text);
    }

    #[test]
    fn words_and_spaces_count_as_the_oracle_counts(text in "([A-Z]?[a-z]{1,9}('s|'LL|’s)?[ ,.]|[ \n\r\t]{1,5}|[0-9]{1,5}|[一-龥ぁ-ん]{1,6}|[=*/#-]{1,8}){0,20}") {
        check(&text);
    }

    #[test]
    fn bytes_read_as_text_count_as_the_oracle_counts(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn incremental_counts_are_exact_at_every_cut(text in stressing(40)) {
        check_every_cut(&text);
    }

    #[test]
    fn any_chunking_gives_the_same_count(text in "[a-zA-Z' \n]{0,400}", sizes in proptest::collection::vec(0_usize..90, 1..40)) {
        for encoding in ENCODINGS {
            let mut counter = StreamCounter::new(encoding);
            let mut rest = text.as_str();
            for size in sizes.iter().cycle().take(400) {
                let (chunk, next) = rest.split_at(rest.floor_char_boundary(*size));
                counter.push(chunk);
                rest = next;
            }
            counter.push(rest);
            prop_assert_eq!(counter.finish(), count(encoding, &text));
        }
    }

    #[test]
    fn truncation_is_the_longest_prefix_by_definition(text in stressing(30), tokens in 0_usize..40) {
        for encoding in ENCODINGS {
            prop_assert_eq!(truncate(encoding, &text, tokens), truncate_by_definition(encoding, &text, tokens));
        }
    }

    #[test]
    fn bytes_that_are_not_text_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        for encoding in ENCODINGS {
            prop_assert!(count_bytes(encoding, &bytes) <= bytes.len());
        }
    }
}
