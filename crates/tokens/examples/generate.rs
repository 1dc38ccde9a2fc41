//! Writes the tables in `data/` from the published vocabularies and the Unicode categories of the `regex-syntax` crate.
//!
//! `cargo run --release -p tokrate-tokens --example generate -- <folder of the .tiktoken files> crates/tokens/data`
//!
//! The folder must hold `o200k_base.tiktoken` and `cl100k_base.tiktoken` with the SHA-256 sums that `data/README.md` names
//! (check with `sha256sum`): one token per line, its bytes in base64, a space, its rank. It does not decide anything
//! about how tables are read: that is `src/layout.rs`, shared with the crate. Same input, same output, byte by byte.

#![allow(clippy::print_stdout, reason = "a tool run by hand")]

#[path = "../src/layout.rs"]
#[allow(dead_code, reason = "only the lookup unpacks")]
mod layout;

use std::collections::HashMap;
use std::path::Path;
use std::{env, fs};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use layout::Slot;
use regex_syntax::hir::{Class, HirKind};

/// Tokens per bucket on average, and the share of slots in use: smaller tables take longer to find.
const BUCKET_TOKENS: usize = 4;
const LOAD_PERCENT: usize = 97;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [source, target] = arguments.as_slice() else { panic!("usage: generate <source folder> <data folder>") };
    let (source, target) = (Path::new(source), Path::new(target));
    for name in ["o200k_base", "cl100k_base"] {
        let lines = fs::read_to_string(source.join(format!("{name}.tiktoken"))).expect("a readable vocabulary");
        let tokens: Vec<Vec<u8>> = lines.lines().enumerate().map(|(rank, line)| token(line, rank)).collect();
        check_monotone(&tokens);
        write_vocabulary(name, &tokens, target);
    }
    fs::write(target.join("classes.bin"), class_table()).expect("a writable data folder");
}

fn token(line: &str, rank: usize) -> Vec<u8> {
    let (text, given) = line.split_once(' ').expect("a token and its rank");
    assert_eq!(given.parse(), Ok(rank), "ranks count up without gaps");
    let bytes = BASE64_STANDARD.decode(text).expect("base64");
    assert!((1..=layout::MAX_TOKEN_BYTES).contains(&bytes.len()));
    bytes
}

fn write_vocabulary(name: &str, tokens: &[Vec<u8>], target: &Path) {
    let hashes: Vec<u64> = tokens.iter().map(|token| layout::hash(token)).collect();
    let slots = tokens.len() * 100 / LOAD_PERCENT;
    let (pilots, places) = find_pilots(&hashes, tokens.len() / BUCKET_TOKENS, slots);

    let (mut table, mut text) = (vec![0_u64; slots], Vec::new());
    for (rank, token) in tokens.iter().enumerate() {
        let slot = Slot { rank: rank as u32, offset: text.len(), length: token.len() };
        table[places[rank]] = slot.pack(hashes[rank]);
        text.extend_from_slice(token);
    }
    let write = |kind: &str, bytes: &[u8]| {
        println!("{name}.{kind}.bin: {} bytes", bytes.len());
        fs::write(target.join(format!("{name}.{kind}.bin")), bytes).expect("a writable data folder");
    };
    write("pilots", &pilots.iter().flat_map(|pilot| pilot.to_le_bytes()).collect::<Vec<u8>>());
    write("slots", &table.iter().flat_map(|slot| slot.to_le_bytes()).collect::<Vec<u8>>());
    write("text", &text);
    write("neighbours", &neighbour_table(tokens));
}

/// Two bits for each pair of bytes: 1 where a token has them side by side, 2 where that is the border of a character of
/// which the token holds only some bytes.
fn neighbour_table(tokens: &[Vec<u8>]) -> Vec<u8> {
    let mut table = vec![0_u8; 65_536 / 4];
    let mut mark = |pair: &[u8], bit: u8| {
        let index = usize::from(pair[0]) << 8 | usize::from(pair[1]);
        table[index / 4] |= bit << (index % 4 * 2);
    };
    for token in tokens {
        let is_inside = |at: usize| token[at] & 0xc0 == 0x80;
        let begins_inside = (0..token.len()).take_while(|&at| is_inside(at)).count();
        for at in 1..token.len() {
            let width = match token[at] {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            mark(&token[at - 1..=at], if at <= begins_inside || at + width > token.len() { 3 } else { 1 });
        }
    }
    table
}

/// Panics unless merging the bytes of each token ends with two parts of lower rank that make the token. `src/merge.rs`
/// relies on it.
fn check_monotone(tokens: &[Vec<u8>]) {
    let ranks: HashMap<&[u8], usize> =
        tokens.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank)).collect();
    for (rank, token) in tokens.iter().enumerate().filter(|(_, token)| token.len() > 1) {
        let mut borders: Vec<usize> = (0..=token.len()).collect();
        while borders.len() > 3 {
            let joined = borders.windows(3).map(|parts| ranks.get(&token[parts[0]..parts[2]]).copied());
            let lowest = joined.enumerate().filter_map(|(at, rank)| Some((rank?, at))).min();
            borders.remove(lowest.expect("a token is reached by merging").1 + 1);
        }
        let parts = [&token[..borders[1]], &token[borders[1]..]];
        assert!(parts.iter().all(|part| ranks[part] < rank), "token {rank} is not above its parts");
    }
}

/// For each bucket, largest first, the smallest pilot that sends its tokens to free slots of their own.
/// Returns the pilots and the slot of each token.
fn find_pilots(hashes: &[u64], buckets: usize, slots: usize) -> (Vec<u16>, Vec<usize>) {
    let mut members = vec![Vec::new(); buckets];
    for (index, &hash) in hashes.iter().enumerate() {
        members[layout::bucket(hash, buckets)].push(index);
    }
    let mut order: Vec<usize> = (0..buckets).collect();
    order.sort_by_key(|&bucket| std::cmp::Reverse(members[bucket].len()));

    let (mut pilots, mut places, mut taken) = (vec![0_u16; buckets], vec![0; hashes.len()], vec![false; slots]);
    for bucket in order {
        let mut wanted = Vec::new();
        let pilot = (0..=u16::MAX).find(|&pilot| {
            wanted.clear();
            members[bucket].iter().all(|&index| {
                let slot = layout::slot(hashes[index], pilot, slots);
                let free = !taken[slot] && !wanted.contains(&slot);
                wanted.push(slot);
                free
            })
        });
        pilots[bucket] = pilot.expect("a pilot exists: else raise BUCKET_TOKENS or lower LOAD_PERCENT");
        for (&index, &slot) in members[bucket].iter().zip(&wanted) {
            taken[slot] = true;
            places[index] = slot;
        }
    }
    (pilots, places)
}

/// Block numbers of two bytes for each 128 code points, then the distinct blocks, one class byte per code point.
/// The bits are those of `src/class.rs`.
fn class_table() -> Vec<u8> {
    let sets = [
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", 1),
        (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", 1 << 1),
        (r"\p{L}", 1 << 2),
        (r"\p{N}", 1 << 3),
        (r"\s", 1 << 4),
        (r"[\r\n]", 1 << 5),
    ];
    let mut classes = vec![0_u8; 0x11_0000];
    for (pattern, bit) in sets {
        let hir = regex_syntax::Parser::new().parse(pattern).expect("a class parses");
        let HirKind::Class(Class::Unicode(class)) = hir.kind() else { panic!("{pattern} is not a class") };
        for range in class.ranges() {
            classes[range.start() as usize..=range.end() as usize].iter_mut().for_each(|class| *class |= bit);
        }
    }
    let (mut stage_one, mut blocks, mut known) = (Vec::new(), Vec::new(), HashMap::new());
    for block in classes.chunks(128) {
        let next = known.len() as u16;
        let number = *known.entry(block).or_insert_with(|| {
            blocks.extend_from_slice(block);
            next
        });
        stage_one.extend_from_slice(&number.to_le_bytes());
    }
    println!("classes.bin: {} blocks", known.len());
    stage_one.extend(blocks);
    stage_one
}
