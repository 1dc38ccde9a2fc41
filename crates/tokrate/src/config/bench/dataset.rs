//! The files of a dataset as they lie in a local folder: shards of JSON Lines or Parquet, as the Hugging Face hub keeps them.
//!
//! Invariant: what cannot be read is named by its file; of several splits none is chosen in silence.

use anyhow::{Context, Result, anyhow, bail, ensure};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use tokrate_bench::prompts::Columns;
use tokrate_targets::reading::MAX_DATA_BYTES;

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
    // `data/train` means `data/train-00000-of-00002.parquet` and the others.
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

/// The rows of a Parquet file as JSON Lines; of columns that are named, no others.
pub(super) fn rows_of(path: &Path, columns: &Columns) -> Result<String> {
    let reader =
        SerializedFileReader::new(File::open(path)?).map_err(|error| anyhow!("it is no Parquet file: {error}"))?;
    let projection = columns.prompt.as_ref().map(|prompt| {
        let wanted: Vec<&str> = columns.answer.iter().chain([prompt]).map(String::as_str).collect();
        projected(reader.metadata().file_metadata().schema(), &wanted)
    });
    let rows =
        reader.get_row_iter(projection.transpose()?).map_err(|error| anyhow!("{}", in_words(&error.to_string())))?;
    let mut text = String::new();
    for (place, row) in rows.enumerate() {
        let row = row.map_err(|error| anyhow!("row {}: {}", place + 1, in_words(&error.to_string())))?;
        text.push_str(&object_of(&row).to_string());
        text.push('\n');
        if text.len() as u64 > MAX_DATA_BYTES {
            bail!("its prompts have more than {MAX_DATA_BYTES} bytes; name their column with --column");
        }
    }
    Ok(text)
}

/// The schema with these columns only.
fn projected(schema: &Type, wanted: &[&str]) -> Result<Type> {
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    if let Some(missing) = wanted.iter().find(|name| !names.contains(name)) {
        bail!("it has no column `{missing}`; there is {}", names.join(", "));
    }
    let fields = schema.get_fields().iter().filter(|field| wanted.contains(&field.name())).cloned().collect();
    Type::group_type_builder(schema.name()).with_fields(fields).build().context("read its schema")
}

/// What the library says of a file that it cannot read, with what to do.
fn in_words(error: &str) -> String {
    let codec = ["zstd", "gzip", "flate2", "brotli", "lz4"]
        .into_iter()
        .find(|codec| error.to_ascii_lowercase().contains(codec));
    match codec {
        Some(codec) => format!(
            "it is compressed with {codec}, and Parquet is read plain or with Snappy here; write it anew, such as with \
             `duckdb -c \"COPY (FROM 'a.parquet') TO 'b.parquet'\"`"
        ),
        None => error.to_owned(),
    }
}

fn object_of(row: &Row) -> Value {
    let fields = row.get_column_iter().map(|(name, field)| (name.clone(), value_of(field)));
    Value::Object(fields.collect::<Map<String, Value>>())
}

fn value_of(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(truth) => Value::Bool(*truth),
        Field::Str(text) => Value::String(text.clone()),
        Field::Group(row) => object_of(row),
        Field::ListInternal(list) => list.elements().iter().map(value_of).collect(),
        Field::MapInternal(map) => {
            let entries = map
                .entries()
                .iter()
                .filter_map(|(key, value)| Some((value_of(key).as_str()?.to_owned(), value_of(value))));
            Value::Object(entries.collect())
        }
        // Pictures and sounds are known to be there; their bytes are no text.
        Field::Bytes(bytes) => Value::String(format!("{} bytes", bytes.len())),
        number => serde_json::from_str(&number.to_string()).unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::parquet::{Kind, ParquetFile};
    use serde_json::json;
    use tokrate_bench::prompts::{FileKind, PromptFile};

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

    #[test]
    fn rows_of_a_parquet_file_are_prompts() {
        let root = folder("parquet");
        let path = root.join("train.parquet");
        const COLUMNS: [(&str, Kind); 4] =
            [("id", Kind::Count), ("instruction", Kind::Text), ("response", Kind::Text), ("score", Kind::Number)];
        let mut file = ParquetFile::new(File::create(&path).expect("a file"), &COLUMNS).expect("columns");
        for n in 0..3 {
            let row = [json!(n), json!(format!("do thing {n}")), json!("it is done"), Value::Null];
            file.push(row).expect("a row");
        }
        file.finish().expect("an end");
        let columns = Columns { prompt: None, answer: Some("response".to_owned()) };
        let text = rows_of(&path, &columns).expect("rows");
        assert_eq!(
            text.lines().next(),
            Some(r#"{"id":0,"instruction":"do thing 0","response":"it is done","score":null}"#)
        );
        let read = PromptFile::parse_columns(&text, FileKind::Parquet, &columns).expect("prompts");
        assert_eq!(
            (read.prompts().len(), read.prompts()[2].input_tokens, read.prompts()[2].output_tokens),
            (3, 4, Some(3))
        );
        let only = Columns { prompt: Some("response".to_owned()), answer: None };
        assert_eq!(rows_of(&path, &only).expect("rows").lines().next(), Some(r#"{"response":"it is done"}"#));
        let missing = Columns { prompt: Some("text".to_owned()), answer: None };
        let error = rows_of(&path, &missing).expect_err("no such column").to_string();
        assert_eq!(error, "it has no column `text`; there is id, instruction, response, score");
        std::fs::write(&path, "PAR1").expect("a file");
        assert!(rows_of(&path, &only).expect_err("it was cut").to_string().starts_with("it is no Parquet file"));
        std::fs::remove_dir_all(root).expect("it was made here");
    }
}
