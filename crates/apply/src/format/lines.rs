//! Where each line of a file stands, and what is compared of a line.

use crate::source::Source;
use std::collections::HashMap;

/// The lines of a file by their text, white space at their ends left out.
pub(crate) struct LineIndex<'a> {
    pub source: &'a Source,
    /// A number for each text.
    numbers: HashMap<&'a str, u32>,
    /// The number of each line.
    pub ids: Vec<u32>,
    /// Where the lines of a number begin in `places`.
    firsts: Vec<u32>,
    places: Vec<u32>,
}

impl<'a> LineIndex<'a> {
    /// Reads the lines of a file.
    pub fn new(source: &'a Source) -> LineIndex<'a> {
        let mut numbers: HashMap<&str, u32> = HashMap::with_capacity(source.line_count());
        let mut counts: Vec<u32> = Vec::new();
        let mut ids = Vec::with_capacity(source.line_count());
        for line in source.lines() {
            let id = *numbers.entry(core(line)).or_insert_with(|| {
                counts.push(0);
                (counts.len() - 1) as u32
            });
            counts[id as usize] += 1;
            ids.push(id);
        }
        let mut firsts = Vec::with_capacity(counts.len() + 1);
        let mut sum = 0;
        for count in counts {
            firsts.push(sum);
            sum += count;
        }
        firsts.push(sum);
        let mut next = firsts.clone();
        let mut places = vec![0; ids.len()];
        for (line, &id) in ids.iter().enumerate() {
            places[next[id as usize] as usize] = line as u32;
            next[id as usize] += 1;
        }
        LineIndex { source, numbers, ids, firsts, places }
    }

    /// The number of a line; `None` if the file has none like it.
    pub fn id(&self, line: &str) -> Option<u32> {
        self.numbers.get(core(line)).copied()
    }

    /// The lines that equal this one but for white space at their ends, in order.
    pub fn like(&self, line: &str) -> &[u32] {
        let Some(id) = self.id(line) else { return &[] };
        &self.places[self.firsts[id as usize] as usize..self.firsts[id as usize + 1] as usize]
    }
}

/// The lines of a text with LF. A CR at the end of one is its own: of CRLF none is left.
pub(crate) fn lines_of(text: &str) -> Vec<&str> {
    text.split_terminator('\n').collect()
}

/// A line without the white space at its ends.
pub(crate) fn core(line: &str) -> &str {
    line.trim_matches([' ', '\t'])
}

/// The white space that a line begins with.
pub(crate) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// How many blank lines a block begins and ends with; one that is all blank begins with all.
pub(crate) fn blank_edges(block: &[&str]) -> (usize, usize) {
    let leading = block.iter().take_while(|line| core(line).is_empty()).count();
    let trailing = block[leading..].iter().rev().take_while(|line| core(line).is_empty()).count();
    (leading, trailing)
}
