//! Inputs of the fuzz targets: seeds and corpus in the repository, and the folders of single inputs that libFuzzer works on.
//!
//! Invariant: seeds are written by people and never changed here; the corpus has the smallest inputs that together reach the
//! most code, up to a size that keeps the repository small.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::corpus;

/// Size of a target's corpus file, which keeps the repository small (bytes).
const MAX_CORPUS_BYTES: usize = 48 * 1024;

/// Inputs may become at least this long, even if the seeds are shorter (bytes).
const MIN_INPUT_BYTES: usize = 256;

/// The working folder of a search, outside of the repository's files.
pub fn folder(root: &Path) -> PathBuf {
    root.join("target/fuzz")
}

/// The folder of inputs that a target's search begins from and adds to.
pub fn found(folder: &Path, name: &str) -> PathBuf {
    folder.join("corpus").join(name)
}

fn file(root: &Path, kind: &str, name: &str) -> PathBuf {
    root.join("fuzz/data").join(kind).join(name).with_extension("txt")
}

/// The targets: each has a file of seeds, which a test checks.
pub fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/data/seeds");
    let context = || format!("list {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// Writes the seeds and corpus of a target into its folder, beside inputs of earlier searches; the longest input that its search
/// may try (bytes): as long as its longest seed.
pub fn unpack(root: &Path, name: &str) -> Result<usize> {
    let folder = found(&folder(root), name);
    let seeds = read(&file(root, "seeds", name))?;
    lay(&seeds, &folder)?;
    lay(&read(&file(root, "corpus", name))?, &folder)?;
    Ok(seeds.iter().map(Vec::len).fold(MIN_INPUT_BYTES, usize::max))
}

/// Writes the inputs of a target's folder that reach new code into the repository; `merge` adds such inputs of one folder to
/// another.
pub fn pack(root: &Path, name: &str, merge: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
    let (seeds, out) = (read(&file(root, "seeds", name))?, folder(root).join("merged").join(name));
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("empty {}", out.display()))?;
    }
    lay(&seeds, &out)?;
    merge(&out, &found(&folder(root), name))?;
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&out).with_context(|| format!("list {}", out.display()))? {
        let path = entry.with_context(|| format!("list {}", out.display()))?.path();
        inputs.push(fs::read(&path).with_context(|| format!("read {}", path.display()))?);
    }
    inputs.retain(|input| !seeds.contains(input));
    inputs.sort_unstable_by_key(|input| (corpus::write(std::slice::from_ref(input)).len(), input.clone()));
    let mut room = MAX_CORPUS_BYTES;
    inputs.retain(|input| {
        let length = corpus::write(std::slice::from_ref(input)).len();
        let fits = length <= room;
        room -= if fits { length } else { room };
        fits
    });
    let path = file(root, "corpus", name);
    fs::create_dir_all(path.parent().expect("it lies in a folder"))
        .with_context(|| format!("make {}", path.display()))?;
    fs::write(&path, corpus::write(&inputs)).with_context(|| format!("write {}", path.display()))
}

/// The inputs of a file; none if there is none.
fn read(path: &Path) -> Result<Vec<Vec<u8>>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    corpus::read(&text).with_context(|| format!("understand {}", path.display()))
}

/// Writes each input into a file of its own, named by a hash.
fn lay(inputs: &[Vec<u8>], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for input in inputs {
        let path = folder.join(format!("kept-{:016x}", hash(input)));
        fs::write(&path, input).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// FNV-1a, 64 bits: only a name.
fn hash(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_kept_beside_the_seeds_and_the_smallest_first() {
        let root = std::env::temp_dir().join(format!("tokrate-kept-{}", std::process::id()));
        let seeds = file(&root, "seeds", "one");
        fs::create_dir_all(seeds.parent().expect("a folder")).expect("a folder");
        fs::write(&seeds, "# for people\nseed\n").expect("a file");
        assert_eq!(targets(&root).expect("a target"), ["one"]);
        assert_eq!(unpack(&root, "one").expect("unpacked"), MIN_INPUT_BYTES);
        let large = "x".repeat(MAX_CORPUS_BYTES);
        pack(&root, "one", |out, found| {
            assert_eq!(fs::read_dir(found).expect("the seed").count(), 1);
            fs::write(out.join("a"), "found\n").expect("a file");
            fs::write(out.join("b"), &large).expect("a file");
            Ok(())
        })
        .expect("packed");
        assert_eq!(fs::read_to_string(file(&root, "corpus", "one")).expect("it is there"), "found\\n\n");
        assert_eq!(fs::read_to_string(&seeds).expect("it is there"), "# for people\nseed\n");
        fs::remove_dir_all(&root).expect("it can be removed");
    }
}
