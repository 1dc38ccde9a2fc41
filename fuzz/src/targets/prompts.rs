//! Files of prompts: every prompt that is read has text and its length, and what is refused is refused at a place of the file.
//!
//! It does not know what makes a good prompt. Invariant: the first byte of the input says the kind of file; a byte order mark
//! before the rest changes nothing.

use crate::text;
use tokrate_bench::prompts::{FileKind, PromptFile};
use tokrate_tokens::{Encoding, count};

const KINDS: [FileKind; 4] = [FileKind::Json, FileKind::JsonLines, FileKind::Lines, FileKind::Whole];

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&kind, bytes)) = input.split_first() else { return };
    let (kind, text) = (KINDS[usize::from(kind) % KINDS.len()], text(bytes));
    // Nothing but one mark is taken off.
    if text.starts_with('\u{feff}') {
        return;
    }
    let read = PromptFile::parse(text, kind);
    let marked = PromptFile::parse(&format!("\u{feff}{text}"), kind);
    match (&read, &marked) {
        (Ok(file), Ok(marked)) => {
            assert_eq!(file.prompts(), marked.prompts());
            assert!(!file.prompts().is_empty());
            for prompt in file.prompts() {
                let texts = prompt.messages.iter().flat_map(|message| message.texts());
                let tokens: usize = texts.map(|text| count(Encoding::O200kBase, text)).sum();
                assert!(tokens > 0 && prompt.input_tokens == tokens as u64);
            }
        }
        (Err(bad), Err(marked)) => {
            assert_eq!(bad, marked);
            let lines = text.split('\n').count();
            assert!((1..=lines).contains(&bad.line), "{bad} of {lines} lines");
            let longest = text.split('\n').nth(bad.line - 1).map_or(0, |line| line.len());
            assert!((1..=longest + 1).contains(&bad.column), "{bad} in a line of {longest} bytes");
        }
        (read, marked) => panic!("{read:?} without a byte order mark, and with it {marked:?}"),
    }
}
