//! Small cases, each in a folder of its own: `original.*`, `update.txt`, and `expected.*`, `refused.txt`, or `likeliest.*`: what a snippet would
//! come to that is refused as unsure. With `wrong.*` beside it, what it comes to today instead: a fault that is known and not mended.
//!
//! It does not compare anything but bytes. Invariant: a refusal's file names its code and then the lines in question,
//! each of which the refusal must name, or `however likely` where no points are enough.

use std::fs;
use std::path::{Path, PathBuf};
use tokrate_apply::{Options, Outcome, Refused, likeliest, merge};

/// What a refusal's file says where no points are enough for a merge.
const NEVER: &str = "however likely";

/// The one file of a folder whose name begins so.
fn file(folder: &Path, stem: &str) -> Option<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.file_stem().unwrap() == stem)
}

/// What is wrong with a case, if anything is.
fn fault(folder: &Path) -> Option<String> {
    let original_path = file(folder, "original").expect("a case has an original");
    let (original, update) = (fs::read(&original_path).unwrap(), fs::read(folder.join("update.txt")).unwrap());
    let path = original_path.file_name().unwrap().to_str().unwrap().to_owned();
    let options = Options { path: Some(path), ..Options::default() };
    let outcome = merge(&original, &update, &options);
    if let Some(wanted) = file(folder, "likeliest") {
        let read = likeliest(&original, &update, &options).map(|(merged, _)| merged.text);
        let is_refused = matches!(outcome, Outcome::Refused(_));
        let is_wanted = read.as_ref().is_ok_and(|text| *text.as_bytes() == *fs::read(wanted).unwrap());
        return (!is_refused || !is_wanted).then(|| format!("refused: {is_refused}, and read as {read:?}"));
    }
    if let Some(wrong) = file(folder, "wrong") {
        let is_wrong = matches!(&outcome, Outcome::Merged(merged) if *merged.bytes() == *fs::read(wrong).unwrap());
        return (!is_wrong)
            .then(|| format!("no longer wrong as it was (if it is right now, remove `wrong.*`): {outcome:?}"));
    }
    match (file(folder, "expected"), outcome) {
        (Some(expected), Outcome::Merged(merged)) => {
            let expected = fs::read(expected).unwrap();
            let shown = String::from_utf8_lossy(&expected);
            (*merged.bytes() != *expected).then(|| format!("merged to\n{}\nand not to\n{shown}", merged.text))
        }
        (Some(_), Outcome::Refused(refused)) => Some(format!("refused: {refused}")),
        (None, Outcome::Merged(merged)) => Some(format!("not refused, but merged to\n{}", merged.text)),
        (None, Outcome::Refused(refused)) => {
            let expected = fs::read_to_string(file(folder, "refused").expect("a case expects something")).unwrap();
            let read = expected.contains(NEVER).then(|| likeliest(&original, &update, &options));
            let read = read.and_then(|read| read.ok()).map(|(merged, _)| format!("read as\n{}", merged.text));
            read.or_else(|| fault_of_refusal(&refused, &expected))
        }
    }
}

fn fault_of_refusal(refused: &Refused, expected: &str) -> Option<String> {
    let mut lines = expected.lines();
    let code = lines.next().unwrap();
    // With the grammar of its language a refusal may have another code.
    if !code.split(" or ").any(|code| code == refused.code.name()) {
        return Some(format!("refused, but not as {code}: {refused}"));
    }
    if refused.message.is_empty() {
        return Some("refused without a message".to_owned());
    }
    lines.filter(|lines| *lines != NEVER).find_map(|lines| {
        let (first, last) = lines.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let is_named = refused.candidates.iter().any(|&(from, to)| from <= last && first <= to);
        (!is_named).then(|| format!("lines {lines} are not among the candidates {:?}: {refused}", refused.candidates))
    })
}

#[test]
#[cfg_attr(not(feature = "all-languages"), ignore = "some cases need a grammar")]
fn every_case_comes_out_as_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 40, "only {} cases were found", folders.len());
    let faults: Vec<String> = folders
        .iter()
        .filter_map(|folder| Some(format!("==== {}: {}", folder.file_name().unwrap().display(), fault(folder)?)))
        .collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), folders.len(), faults.join("\n"));
}
