//! The files of a dataset as they lie in a local folder: shards of JSON Lines, as the Hugging Face hub names them.
//!
//! Invariant: what cannot be read is named by its file; of several splits none is chosen in silence.

use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What data files end in.
const ENDINGS: [&str; 5] = ["parquet", "jsonl", "ndjson", "json", "txt"];
/// JSON files of a dataset that hold no rows.
const METADATA: [&str; 4] = ["dataset_info", "dataset_infos", "dataset_dict", "state"];

/// The data files that a path means: itself, the shards of a split that it names, or those of a folder with one split.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        return of_folder(path);
    }
    if path.exists() {
        return Ok(vec![path.to_owned()]);
    }
    // `data/train` means `data/train-00000-of-00002.jsonl` and the others.
    let folder = path.parent().filter(|folder| folder.is_dir());
    let name = path.file_name().and_then(|name| name.to_str());
    let shards = folder.zip(name).and_then(|(folder, name)| splits_of(folder).ok()?.remove(name));
    // What is not there either is an error of reading it.
    Ok(shards.unwrap_or_else(|| vec![path.to_owned()]))
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut splits = splits_of(folder)?;
    let data = folder.join("data");
    if splits.is_empty() && data.is_dir() {
        splits = splits_of(&data)?;
    }
    let names: Vec<&str> = splits.keys().map(String::as_str).collect();
    ensure!(!names.is_empty(), "find no file of {} in it or its folder `data`", ENDINGS.join(", "));
    ensure!(
        names.len() == 1,
        "it holds several splits or files: {}; name one of them behind the folder's name",
        names.join(", ")
    );
    Ok(splits.into_values().flatten().collect())
}

/// The data files of a folder by their split: what stands before `-00000-of-00002`, else the name without its ending.
fn splits_of(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut splits: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_data = path.is_file() && ENDINGS.contains(&ending.as_str()) && !METADATA.contains(&stem);
        if is_data && !stem.starts_with('.') {
            let split =
                stem.split_once("-of-").and_then(|(before, _)| Some(before.rsplit_once('-')?.0)).unwrap_or(stem);
            splits.entry(split.to_owned()).or_default().insert(path);
        }
    }
    Ok(splits.into_iter().map(|(split, files)| (split, files.into_iter().collect())).collect())
}

/// Why a Parquet file is refused: its reader is 0.8 MB of program, for what a line of another tool writes anew.
pub(super) const PARQUET_IS_NOT_READ: &str = "Parquet is not read here; write JSON Lines of it, such as with \
     `duckdb -c \"COPY (FROM 'a.parquet') TO 'a.jsonl'\"`";

/// Whether a file is Parquet by its name.
pub(super) fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tokrate-dataset-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("data")).expect("a folder");
        folder
    }

    fn names(files: &[PathBuf]) -> Vec<&str> {
        files.iter().filter_map(|file| file.file_name()?.to_str()).collect()
    }

    #[test]
    fn a_folder_means_the_shards_of_its_only_split_and_several_are_named() {
        let root = folder("splits");
        for name in
            ["data/train-00001-of-00002.jsonl", "data/train-00000-of-00002.jsonl", "README.md", "dataset_info.json"]
        {
            std::fs::write(root.join(name), "{\"prompt\": \"a\"}\n").expect("a file");
        }
        let shards = ["train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"];
        assert_eq!(names(&files_of(&root).expect("one split")), shards);
        std::fs::write(root.join("data/test-00000-of-00001.jsonl"), "").expect("a file");
        let error = files_of(&root).expect_err("two splits").to_string();
        assert!(error.starts_with("it holds several splits or files: test, train; name one"), "{error}");
        assert_eq!(names(&files_of(&root.join("data/train")).expect("it is named")), shards);
        assert_eq!(names(&files_of(&root.join("data/none")).expect("reading fails")), ["none"]);
        std::fs::remove_dir_all(root).expect("it was made here");
    }
}
