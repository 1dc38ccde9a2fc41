//! Result files: written whole or not at all, so that an interrupt never leaves half a file.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use tokrate_meter::RequestNumbers;

/// Writes a file by way of a neighbour that is renamed over it; `-` is standard output. What is no regular file (a device, a pipe) is
/// written to as it is, and of a link the file that it leads to is replaced.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        let mut stdout = std::io::stdout().lock();
        return stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("write to standard output");
    }
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(path, text).with_context(|| format!("write {}", path.display()));
    }
    let shown = path;
    let target = std::fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let mut name = path.file_name().with_context(|| format!("write {}: it names no file", path.display()))?.to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // On a full disk even a part is in the way; that it cannot be removed says nothing more.
        let _ = std::fs::remove_file(&part);
    }
    written.with_context(|| {
        format!("write {}; check that its folder can be written and its disk is not full", shown.display())
    })
}

/// Fails early if a file could not be written at the end.
pub fn check_writable(path: &Path) -> Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let metadata = std::fs::metadata(folder)
        .with_context(|| format!("write {}: the folder {} is not there", path.display(), folder.display()))?;
    anyhow::ensure!(metadata.is_dir(), "write {}: {} is no folder", path.display(), folder.display());
    anyhow::ensure!(!path.is_dir(), "write {}: it is a folder", path.display());
    Ok(())
}

/// The rows of `--jsonl`, one request a line, flushed after each phase. Of a phase that does not fit nothing stays.
pub struct Rows {
    file: File,
    path: std::path::PathBuf,
    /// Bytes of whole phases.
    whole: u64,
}

/// One line of `--jsonl`.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    phase: &'a str,
    concurrency: Option<u32>,
    rate: Option<f64>,
    request_id: String,
    #[serde(flatten)]
    numbers: &'a RequestNumbers,
}

/// The phase that rows belong to.
pub struct PhaseName<'a> {
    /// The target, where there are several.
    pub target: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its number, from 0.
    pub number: usize,
    /// Requests in flight (closed loop).
    pub concurrency: Option<u32>,
    /// Arrivals per second (open loop).
    pub rate: Option<f64>,
}

impl Rows {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<Rows> {
        let file =
            File::create(path).with_context(|| format!("write {}; check that its folder exists", path.display()))?;
        Ok(Rows { file, path: path.to_path_buf(), whole: 0 })
    }

    /// Adds the requests of a phase.
    pub fn add(&mut self, phase: &PhaseName<'_>, rows: &[RequestNumbers]) -> Result<()> {
        match write_rows(&self.file, phase, rows) {
            Ok(bytes) => self.whole += bytes,
            Err(error) => {
                // A line that breaks off would make the file unreadable; a pipe or a device cannot be cut, and need not be.
                let _ = self.file.set_len(self.whole);
                return Err(error).with_context(|| {
                    format!(
                        "write {}; check that its disk is not full; it holds the levels before",
                        self.path.display()
                    )
                });
            }
        }
        Ok(())
    }
}

/// The bytes that were written.
fn write_rows(file: &File, phase: &PhaseName<'_>, rows: &[RequestNumbers]) -> std::io::Result<u64> {
    let mut out = BufWriter::new(file);
    let mut bytes = 0;
    let mut add = |numbers: &RequestNumbers| -> std::io::Result<()> {
        let row = Row {
            target: phase.target,
            phase: phase.name,
            concurrency: phase.concurrency,
            rate: phase.rate,
            request_id: format!("{}-{}", phase.number, numbers.index),
            numbers,
        };
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        bytes += line.len() as u64;
        out.write_all(&line)
    };
    let written = rows.iter().try_for_each(&mut add).and_then(|()| out.flush());
    // What is buffered would be written when it is dropped, behind the cut.
    let _ = out.into_parts();
    written.map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_its_file_is_replaced_and_a_device_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        let folder = std::env::temp_dir().join(format!("tokrate-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, link) = (folder.join("file.json"), folder.join("link.json"));
        std::fs::write(&file, "old").expect("it can be written");
        std::os::unix::fs::symlink("file.json", &link).expect("a link");
        write(&link, "new").expect("it can be written");
        assert!(std::fs::symlink_metadata(&link).expect("it is there").is_symlink());
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "new");
        // A link to the device, so that a mistake here takes away the link only.
        let null = folder.join("null");
        std::os::unix::fs::symlink("/dev/null", &null).expect("a link");
        write(&null, "gone").expect("it takes all");
        assert!(std::fs::metadata(&null).expect("it is there").file_type().is_char_device());
        let left: Vec<_> =
            std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
        std::fs::remove_dir_all(&folder).expect("it was made here");
    }
}
