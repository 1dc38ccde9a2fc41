//! Kept cases with lines of their files and updates changed, moved, doubled and taken away: no line of a file is lost that nothing in the
//! update stands for.
//!
//! The oracle knows the three texts and where lines changed, and shares no code with the engine's own law. How often it is asked is said by
//! `PROPTEST_CASES`. Invariant: lines that go lie between two lines that the update shows in one part, or have a word in common with
//! what takes their place.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use tokrate_apply::{Edit, Format, Options, Outcome, merge};

/// The files and updates that are changed.
static CASES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let read = |folder: &Path| {
        let update = fs::read_to_string(folder.join("update.txt")).ok()?;
        let mut files = fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path());
        let original = files.find(|path| path.file_stem().is_some_and(|stem| stem == "original"))?;
        Some((fs::read_to_string(original).ok()?, update))
    };
    folders.iter().filter_map(|folder| read(folder)).filter(|(original, _)| original.len() < 8_000).collect()
});

const MARKER: &str = "// ... existing code ...";

/// One change of a line of a text; `other` is the text that lines are borrowed from.
fn mutate(lines: &mut Vec<String>, other: &[String], (kind, at, from): (u8, u16, u16)) {
    let at = usize::from(at) % (lines.len() + 1);
    let there = at.min(lines.len().saturating_sub(1));
    let borrowed = |lines: &[String]| lines.get(usize::from(from) % lines.len().max(1)).cloned().unwrap_or_default();
    match kind % 10 {
        _ if lines.is_empty() => lines.push(borrowed(other)),
        0 | 1 => drop(lines.remove(there)),
        2 => lines.insert(at, borrowed(lines)),
        3 | 4 => lines.insert(at, borrowed(other)),
        5 => {
            let other = usize::from(from) % lines.len();
            lines.swap(there, other);
        }
        6 => lines.insert(at, if from % 2 == 0 { MARKER.to_owned() } else { String::new() }),
        7 => lines[there] = lines[there].replacen(char::is_alphanumeric, "q", 1 + usize::from(from % 3)),
        8 => lines[there] = format!("    {}", lines[there]),
        _ => lines[there] = borrowed(other),
    }
}

/// Whether a line stands for others: dots come first, or it speaks of what is there. `# Loading the file...` is a comment.
fn is_marker(line: &str) -> bool {
    let words = line.trim_start_matches([' ', '\t', '/', '#', '*', '<', '!', '-', '{', ';', '%', '(']);
    let has_dots = line.contains("...") || line.contains('…');
    has_dots && (words.starts_with(['.', '…']) || line.contains("existing"))
}

/// The lines with text, without the white space at their ends.
fn texts<'l>(lines: &[&'l str]) -> Vec<&'l str> {
    lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Whether the update shows a line above and one below in one part, with no marker between them; none is the edge of the file.
fn is_enclosed(update: &[&str], above: Option<&str>, below: Option<&str>) -> bool {
    let part = |from: usize| update[from..].iter().take_while(|line| !is_marker(line));
    let reaches = |from: usize| match below {
        Some(below) => part(from).any(|line| *line == below),
        None => from + part(from).count() == update.len(),
    };
    match above {
        Some(above) => (0..update.len()).any(|at| update[at] == above && reaches(at + 1)),
        None => reaches(0),
    }
}

/// The first line that is gone although nothing in the update stands for it.
fn lost<'l>(old: &[&'l str], new: &[&'l str], edits: &[Edit], update: &[&str]) -> Option<&'l str> {
    let shown: Vec<&str> = texts(update);
    // A fence around all of it is none of it.
    let is_fence = |line: Option<&&str>| line.is_some_and(|line| line.starts_with("```"));
    let shown = match is_fence(shown.first()) && is_fence(shown.last()) {
        true => &shown[1..shown.len().max(2) - 1],
        false => &shown,
    };
    let comes = |edit: &Edit| texts(&new[edit.new_start - 1..edit.new_start - 1 + edit.new_count]);
    edits.iter().enumerate().find_map(|(number, edit)| {
        let gone = texts(&old[edit.old_start - 1..edit.old_start - 1 + edit.old_count]);
        // What stands around it before and after: an edit beside it has brought lines as well.
        let first = |lines: &[&'l str]| texts(lines).first().copied();
        let last = |lines: &[&'l str]| texts(lines).last().copied();
        let above = [last(&old[..edit.old_start - 1]), last(&new[..edit.new_start - 1])];
        let below =
            [first(&old[edit.old_start - 1 + edit.old_count..]), first(&new[edit.new_start - 1 + edit.new_count..])];
        // A line that is kept between, if only a blank one, makes two edits of what was one change.
        let beside = &edits[number.saturating_sub(1)..edits.len().min(number + 2)];
        let known: BTreeSet<&str> = beside.iter().flat_map(comes).flat_map(words).collect();
        let is_between = |at: usize| {
            let aboves = gone[..at].iter().copied().map(Some).chain(above);
            let belows = || gone[at + 1..].iter().copied().map(Some).chain(below);
            aboves.into_iter().any(|above| belows().any(|below| is_enclosed(shown, above, below)))
        };
        // What moved is not lost.
        let is_lost = |at: &usize| {
            let line = gone[*at];
            words(line).next().is_some()
                && !new.iter().any(|kept| kept.trim() == line)
                && !words(line).any(|word| known.contains(word))
                && !is_between(*at)
        };
        (0..gone.len()).find(is_lost).map(|at| gone[at])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_is_lost_that_nothing_in_the_update_stands_for(
        case in any::<u16>(),
        of_file in prop::collection::vec((0..10_u8, any::<u16>(), any::<u16>()), 0..4),
        of_update in prop::collection::vec((0..10_u8, any::<u16>(), any::<u16>()), 0..5),
    ) {
        let (original, update) = &CASES[usize::from(case) % CASES.len()];
        let split = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
        let (mut file, mut edit) = (split(original), split(update));
        let other = file.clone();
        of_file.iter().for_each(|&change| mutate(&mut file, &other, change));
        of_update.iter().for_each(|&change| mutate(&mut edit, &other, change));
        let (file, edit) = (file.join("\n") + "\n", edit.join("\n") + "\n");
        let options = Options { without_tree: true, ..Options::default() };
        if let Outcome::Merged(merged) = merge(file.as_bytes(), edit.as_bytes(), &options)
            && matches!(merged.how.format, Format::Lazy | Format::Fragment)
            && !edit.contains("remove")
            // What a file holds of markers may be content, and is tried by cases of its own.
            && !file.lines().any(is_marker)
            && !edit.lines().any(|line| is_marker(line) && line.contains(['(', '{', ':', '=']))
        {
            let lines = |text| -> Vec<&str> { str::trim_start_matches(text, '\u{feff}').lines().collect() };
            let (old, new) = (lines(file.as_str()), lines(merged.text.as_str()));
            let update = lines(edit.as_str());
            let gone = lost(&old, &new, &merged.edits, &update);
            prop_assert!(gone.is_none(), "{gone:?} is lost\n--- file\n{file}--- update\n{edit}--- merged\n{}", merged.text);
        }
    }
}
