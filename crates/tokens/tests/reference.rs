//! The counts of Python tiktoken 0.14.0, kept as a fixture, so that the reference itself is part of the test suite. It knows
//! only the public functions. `fixtures/make_reference.py` says how the fixture is made.

use tokrate_tokens::{Encoding, StreamCounter, count, token_ends};

fn text(hexadecimal: &str) -> String {
    let digit = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).expect("hexadecimal");
    String::from_utf8((0..hexadecimal.len()).step_by(2).map(digit).collect()).expect("UTF-8")
}

#[test]
fn tokens_end_where_those_of_the_reference_end() {
    let mut texts = 0;
    for line in include_str!("fixtures/reference.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [bytes, o200k, cl100k] = columns.as_slice() else { panic!("three columns: {line}") };
        let text = text(bytes);
        for (encoding, wanted) in [(Encoding::O200kBase, o200k), (Encoding::Cl100kBase, cl100k)] {
            let wanted: Vec<usize> = wanted.split_whitespace().map(|end| end.parse().expect("an offset")).collect();
            let mut ends = Vec::new();
            token_ends(encoding, &text, &mut ends);
            assert_eq!(ends, wanted, "{encoding} {text:?}");
            assert_eq!(count(encoding, &text), wanted.len(), "{encoding} {text:?}");
            let mut stream = StreamCounter::new(encoding);
            text.chars().for_each(|character| stream.push(character.encode_utf8(&mut [0; 4])));
            assert_eq!(stream.finish(), wanted.len(), "{encoding} {text:?}");
        }
        texts += 1;
    }
    assert!(texts > 400, "only {texts} texts in the fixture");
}
