//! Prints how fast counting is, beside the `bpe-openai` crate in the same run: MB/s over texts of every kind, and
//! nanoseconds per small delta of a stream.
//!
//! `cargo run --release -p tokrate-tokens --example speed`
//!
//! The texts are made here, the same in each run: no file outside the crate is read. Each figure is the median of several
//! runs that take turns with the other crate's, so that both see the same machine.

#![allow(clippy::print_stdout, reason = "a tool run by hand")]
#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::hint::black_box;
use std::time::Instant;

use bpe_openai::Tokenizer;
use tokrate_tokens::{Encoding, StreamCounter, count};

/// Size of each text, and how often it is counted by each side.
const TEXT_BYTES: usize = 1_000_000;
const ROUNDS: usize = 9;

fn main() {
    let begin = Instant::now();
    black_box(count(Encoding::O200kBase, "first"));
    let own_start = begin.elapsed();
    let begin = Instant::now();
    black_box(bpe_openai::o200k_base().count("first"));
    println!("first count: own {own_start:?}, bpe-openai {:?}\n", begin.elapsed());

    for (encoding, oracle) in
        [(Encoding::O200kBase, bpe_openai::o200k_base()), (Encoding::Cl100kBase, bpe_openai::cl100k_base())]
    {
        println!("{encoding:<20} {:>9} {:>10} {:>12} {:>13}", "tokens", "own MB/s", "bpe-openai", "ns per delta");
        for (name, text) in texts() {
            compare(encoding, oracle, name, &text);
        }
        println!();
    }
}

fn compare(encoding: Encoding, oracle: &Tokenizer, name: &str, text: &str) {
    let tokens = count(encoding, text);
    let agree = if oracle.count(text) == tokens { "" } else { "  COUNTS DIFFER" };
    let (mut own, mut other, mut stream) = (Vec::new(), Vec::new(), Vec::new());
    let deltas = deltas(text);
    for _ in 0..ROUNDS {
        own.push(seconds(|| count(encoding, black_box(text))));
        other.push(seconds(|| oracle.count(black_box(text))));
        stream.push(seconds(|| {
            let mut counter = StreamCounter::new(encoding);
            deltas.iter().for_each(|delta| counter.push(delta));
            counter.finish()
        }));
    }
    let megabytes = text.len() as f64 / 1e6;
    println!(
        "{name:<20} {tokens:>9} {:>10.1} {:>12.1} {:>13.0}{agree}",
        megabytes / median(own),
        megabytes / median(other),
        median(stream) * 1e9 / deltas.len() as f64
    );
}

fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let begin = Instant::now();
    black_box(work());
    begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The text in chunks of about one token, as an engine streams it.
fn deltas(text: &str) -> Vec<&str> {
    let (mut rest, mut deltas) = (text, Vec::new());
    while !rest.is_empty() {
        let (delta, next) = rest.split_at(rest.ceil_char_boundary(4.min(rest.len())));
        deltas.push(delta);
        rest = next;
    }
    deltas
}

fn texts() -> Vec<(&'static str, String)> {
    let mut random = Random(42);
    let sources = concat!(
        include_str!("../src/scan.rs"),
        include_str!("../src/merge.rs"),
        include_str!("../src/tests.rs"),
        include_str!("generate.rs"),
        include_str!("speed.rs")
    );
    vec![
        ("English", fill(|| sentence(&mut random, ENGLISH))),
        ("code", fill(|| sources.to_owned())),
        ("JSON", fill(|| format!("{{\"id\": {}, \"name\": \"item\", \"ok\": true}},\n", random.below(100_000)))),
        ("German and French", fill(|| sentence(&mut random, EUROPEAN))),
        ("multilingual", fill(|| sentence(&mut random, MULTILINGUAL))),
        ("Chinese, Japanese", fill(|| joined(&mut random, EAST_ASIAN))),
        ("Unicode fuzz", fill(|| any_character(&mut random, 0x11_0000))),
        ("fuzz below U+3000", fill(|| any_character(&mut random, 0x3000))),
        ("ASCII fuzz", fill(|| any_character(&mut random, 128))),
        ("random letters", fill(|| char::from(b'a' + random.below(26) as u8).to_string())),
        ("one letter", "a".repeat(TEXT_BYTES)),
        ("spaces", " ".repeat(TEXT_BYTES)),
        ("line breaks", "\n".repeat(TEXT_BYTES)),
        ("digits", fill(|| random.below(10).to_string())),
        ("punctuation", fill(|| char::from(b"!#$%&*+,-./:;<=>?@^_|~"[random.below(22)]).to_string())),
        ("one emoji", "😀".repeat(TEXT_BYTES / 4)),
    ]
}

const ENGLISH: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "was",
    "as",
    "with",
    "on",
    "be",
    "by",
    "this",
    "which",
    "model",
    "answer",
    "because",
    "people",
    "measured",
    "quickly",
    "information",
    "network",
    "latency",
    "throughput",
    "I'll",
    "don't",
    "Performance",
    "London",
    "between",
    "understanding",
    "however",
    "request",
    "stream",
    "reasonable",
    "seventeen",
    "wavelength",
    "unhurriedly",
    "thermodynamics",
    "perhaps",
    "water",
    "children",
    "government",
    "little",
    "through",
];
const EUROPEAN: &[&str] = &[
    "der",
    "die",
    "und",
    "Geschwindigkeit",
    "Übertragung",
    "nicht",
    "größer",
    "Straße",
    "möglicherweise",
    "le",
    "de",
    "être",
    "français",
    "élève",
    "où",
    "l'eau",
    "aujourd'hui",
    "développement",
    "Zusammenhang",
    "schön",
    "für",
    "naïve",
    "garçon",
];
const MULTILINGUAL: &[&str] = &[
    "скорость",
    "модель",
    "ответ",
    "быстро",
    "ταχύτητα",
    "απάντηση",
    "سرعة",
    "النموذج",
    "गति",
    "उत्तर",
    "मॉडल",
    "ความเร็ว",
    "속도가",
    "빠릅니다",
    "模型的速度",
    "非常快",
    "とても速いです",
    "hız",
    "çok",
    "rychlost",
    "prędkość",
    "đáp",
    "nhanh",
    "מהירות",
    "😀",
    "👩‍👩‍👧",
];
const EAST_ASIAN: &[&str] = &[
    "我们",
    "测量",
    "模型",
    "的",
    "速度",
    "，",
    "然后",
    "公布",
    "结果",
    "。",
    "今日は",
    "いい",
    "天気",
    "ですね",
    "東京",
    "タワー",
    "に",
    "行きました",
    "人工智能",
    "語言",
];

fn fill(mut piece: impl FnMut() -> String) -> String {
    let mut text = String::new();
    while text.len() < TEXT_BYTES {
        text.push_str(&piece());
    }
    text
}

fn sentence(random: &mut Random, words: &[&str]) -> String {
    let mut text = String::new();
    for at in 0..8 + random.below(10) {
        if at > 0 {
            text.push_str(if random.below(9) == 0 { ", " } else { " " });
        }
        text.push_str(words[random.below(words.len())]);
    }
    text + if random.below(5) == 0 { ".\n\n" } else { ". " }
}

fn joined(random: &mut Random, words: &[&str]) -> String {
    (0..20).map(|_| words[random.below(words.len())]).collect()
}

fn any_character(random: &mut Random, limit: usize) -> String {
    char::from_u32(random.below(limit) as u32).map(String::from).unwrap_or_default()
}

/// A multiplicative generator; its high bits are good enough to choose words.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit as u64) as usize
    }
}
