//! Merging against its own definition, and how much work it is. It knows no text patterns. Invariant: every way of merging
//! gives what the definition gives.

use super::*;
use crate::Encoding;

const ENCODINGS: [Encoding; 2] = [Encoding::O200kBase, Encoding::Cl100kBase];

/// The definition of byte-pair merging, taken literally.
fn merge_by_definition(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<usize> {
    let mut borders: Vec<usize> = (0..=piece.len()).collect();
    loop {
        let lowest = borders.windows(3).map(|parts| vocabulary.rank(&piece[parts[0]..parts[2]])).enumerate();
        match lowest.filter(|pair| pair.1 != NO_RANK).min_by_key(|&(at, rank)| (rank, at)) {
            Some((at, _)) => borders.remove(at + 1),
            None => return borders.split_off(1),
        };
    }
}

fn sample(seed: u64, length: usize, alphabet: &[u8]) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[(state >> 33) as usize % alphabet.len()]
    };
    (0..length).map(|_| next()).collect()
}

const ALPHABETS: [&[u8]; 6] = [b"a", b"ab", b"etaoinshrdlu", b" ", b"=-*_#", b"\xe4\xb8\xad\xa0\xf0\x9f\x98\x80"];

#[test]
fn all_three_ways_follow_the_definition() {
    for encoding in ENCODINGS {
        let vocabulary = Vocabulary::of(encoding);
        let mut merger = Merger::for_text();
        for alphabet in ALPHABETS {
            for (seed, length) in
                [2, 3, 7, SHORT - 1, SHORT, SHORT + 1, 200, WINDOW, WINDOW + 1, 2600].into_iter().enumerate()
            {
                let piece = sample(seed as u64, length, alphabet);
                let wanted = merge_by_definition(vocabulary, &piece);
                merger.merge_long(vocabulary, &piece);
                assert_eq!(merger.ends, wanted, "{encoding} {alphabet:?} {length}");
                if length <= SHORT {
                    let mut next = [0; SHORT];
                    let count = merger.merge_short(vocabulary, &piece, &mut next);
                    let mut ends = vec![usize::from(next[0])];
                    while ends.len() < count {
                        ends.push(next[ends[ends.len() - 1]].into());
                    }
                    assert_eq!(ends, wanted, "{encoding} {alphabet:?} {length}");
                }
            }
        }
    }
}

#[test]
fn windows_that_were_cut_wrongly_are_merged_again() {
    let mut refused = 0;
    for encoding in ENCODINGS {
        let vocabulary = Vocabulary::of(encoding);
        for (seed, alphabet) in ALPHABETS.iter().enumerate() {
            let piece = sample(seed as u64, 3_000, alphabet);
            let wanted = merge_by_definition(vocabulary, &piece);
            for window in [257, 300, 301] {
                let mut merger = Merger::for_text();
                // Without a margin the last token of each window is often one that should have gone on.
                merger.merge_windows(vocabulary, &piece, window, 0);
                assert_eq!(merger.ends, wanted, "{encoding} {alphabet:?} {window}");
                refused += merger.refused;
            }
        }
    }
    assert!(refused > 20, "the case of this test came up {refused} times only");
}

#[test]
fn whole_characters_at_the_start_change_nothing() {
    let characters: Vec<char> =
        "的是一中国人在，。、日の本がですカタ한국어ไทยกाहिन्दीعربيпростоéßđὀ€“…👍 aſ".chars().collect();
    for encoding in ENCODINGS {
        let vocabulary = Vocabulary::of(encoding);
        let mut merger = Merger::for_text();
        for seed in 0..400 {
            let picks: Vec<u8> = (0..characters.len() as u8).collect();
            let text: String = sample(seed, 8 + seed as usize % 30, &picks)
                .iter()
                .map(|&pick| characters[usize::from(pick)])
                .collect();
            // Cut inside characters too: windows are.
            let piece = &text.as_bytes()[seed as usize % 3..];
            let wanted = merge_by_definition(vocabulary, piece);
            merger.merge_long(vocabulary, piece);
            assert_eq!(merger.ends, wanted, "{encoding} {text}");
            if piece.len() <= SHORT {
                assert_eq!(merger.merge_short(vocabulary, piece, &mut [0; SHORT]), wanted.len(), "{encoding} {text}");
            }
        }
    }
}

#[test]
fn lookups_grow_with_the_length_of_a_hostile_piece() {
    for alphabet in ALPHABETS {
        let lookups = |length: usize| {
            let mut merger = Merger::for_text();
            merger.count(Vocabulary::of(Encoding::O200kBase), &sample(7, length, alphabet));
            merger.lookups
        };
        let (short, long) = (lookups(20_000), lookups(200_000));
        assert!(long < 11 * short + 1_000, "{alphabet:?}: {short} lookups became {long}");
        assert!(long < 5 * 200_000, "{alphabet:?}: {long} lookups");
    }
}

#[test]
fn every_token_is_found_and_has_its_own_rank() {
    for (encoding, oracle) in
        [(Encoding::O200kBase, bpe_openai::o200k_base()), (Encoding::Cl100kBase, bpe_openai::cl100k_base())]
    {
        let vocabulary = Vocabulary::of(encoding);
        for rank in 0..oracle.bpe.num_tokens() as u32 {
            assert_eq!(vocabulary.rank(oracle.bpe.token_bytes(rank)), rank, "{encoding}");
        }
    }
}
