//! Files changed whole or not at all: new text goes into a neighbour that is renamed over the old one.
//!
//! Invariant: whenever the process ends, every file is there as it was or as it is to be; what may be left behind is a
//! hidden neighbour, which the next change in that folder removes. Mode, owner and extended attributes stay, but
//! for what makes a program run as another user.
//!
//! Between the look whether a file is what its edit was made from and the rename, its lock is held, so that of two processes
//! of this program that edit one file at the same time the second one sees what the first has written.

use super::MAX_FILE_BYTES;
use super::attributes::Attributes;
use super::place::Place;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The number of the next neighbour of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// How often a lock is tried, and the pause between two tries: ten seconds in all.
const TRIES: u32 = 2_000;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);
/// How many neighbours are made until one is not cleared away before it is locked.
const NEIGHBOURS: u32 = 100;

/// The points between two of which something was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The neighbour is there, and empty.
    Made,
    /// It holds half of the text.
    Half,
    /// It holds all of the text.
    Written,
    /// It has the mode and the owner of the file.
    Attributed,
    /// The disk has it.
    Synced,
    /// It stands where it belongs.
    Moved,
}

/// Called after each step; an error ends the work there.
pub type Watch<'w> = &'w dyn Fn(Step) -> io::Result<()>;

/// A change that is prepared: its text is on the disk, under another name.
#[derive(Debug)]
pub struct Staged {
    target: Place,
    what: What,
    /// What is to be said of the file.
    note: Option<String>,
    /// The name of the neighbour, until it is moved; held open, and so locked.
    neighbour: Option<(OsString, File)>,
    /// The neighbour that was moved: still locked, so that nobody builds on what may yet be undone.
    moved: Option<File>,
}

#[derive(Debug)]
enum What {
    Replace { old: Vec<u8>, like: Attributes },
    Create,
    Remove { old: Vec<u8>, like: Attributes },
}

/// Replaces the text of a file if it still is what it was. Gives what is to be said of it.
pub fn replace(place: Place, old: &[u8], new: &[u8]) -> Result<Option<String>> {
    replace_watched(place, old, new, &|_| Ok(()))
}

fn replace_watched(place: Place, old: &[u8], new: &[u8], watch: Watch<'_>) -> Result<Option<String>> {
    let mut staged = Staged::replace(place, old, new, watch)?;
    let _held = locked(std::slice::from_ref(&staged), &mut patience())?;
    staged.commit(watch)?;
    Ok(staged.note.take())
}

/// Carries out all of them, or none: what was done is undone when one fails. Gives what is to be said of them.
pub fn all_or_none(staged: Vec<Staged>) -> Result<Vec<String>> {
    all_or_none_waiting(staged, &mut patience())
}

fn all_or_none_waiting(mut staged: Vec<Staged>, pause: &mut dyn FnMut() -> bool) -> Result<Vec<String>> {
    let _held = locked(&staged, pause)?;
    for at in 0..staged.len() {
        if let Err(error) = staged[at].commit(&|_| Ok(())) {
            for done in staged[..at].iter_mut().rev() {
                done.undo().with_context(|| format!("undo after a failure ({error:#})"))?;
            }
            return Err(error);
        }
    }
    let said = |one: &Staged| Some(format!("{}: {}", one.target.path().display(), one.note.as_ref()?));
    Ok(staged.iter().filter_map(said).collect())
}

/// Locks all files that change, in the order of their paths: two patches never wait for each other. `pause` is called after
/// each try that failed, and says whether there is to be another one.
fn locked(staged: &[Staged], pause: &mut dyn FnMut() -> bool) -> Result<Vec<File>> {
    let there = staged.iter().filter(|one| !matches!(one.what, What::Create));
    let mut targets: Vec<&Place> = there.map(|one| &one.target).collect();
    targets.sort_by_key(|target| target.path());
    targets.dedup_by_key(|target| target.path());
    let mut held = Vec::with_capacity(targets.len());
    for target in targets {
        let shown = target.path().display();
        while !target.lock(&mut held).with_context(|| format!("read {shown} again"))? {
            ensure!(
                pause(),
                "write {shown}: another program has kept it locked for {} s; end that program or wait for it, then run this \
                 again",
                (TRIES * BETWEEN_TRIES).as_secs()
            );
        }
    }
    Ok(held)
}

/// Waits between two tries, until it is too long.
fn patience() -> impl FnMut() -> bool {
    let mut left = TRIES;
    move || {
        std::thread::sleep(BETWEEN_TRIES);
        left = left.saturating_sub(1);
        left > 0
    }
}

impl Staged {
    /// New text for a file that is there.
    pub fn replace(target: Place, old: &[u8], new: &[u8], watch: Watch<'_>) -> Result<Staged> {
        let like = target.writable();
        let like = like.with_context(|| format!("write {}; check its permissions", target.path().display()))?;
        let names = like.other_names();
        let (given, bits) = like.clone().of_other_text();
        let said: Vec<String> = names.into_iter().chain(bits.map(str::to_owned)).collect();
        let note = (!said.is_empty()).then(|| said.join("; "));
        let what = What::Replace { old: old.to_vec(), like };
        let mut staged = Staged { target, what, note, neighbour: None, moved: None };
        staged.prepare(new, Some(&given), watch)?;
        Ok(staged)
    }

    /// A file that is not there yet, with the mode and owner of another one if it takes its place.
    pub fn create(target: Place, new: &[u8], like: Option<&Attributes>) -> Result<Staged> {
        let mut staged = Staged { target, what: What::Create, note: None, neighbour: None, moved: None };
        staged.prepare(new, like, &|_| Ok(()))?;
        Ok(staged)
    }

    /// A file that goes.
    pub fn remove(target: Place, old: &[u8], like: Attributes) -> Staged {
        let note = like.other_names();
        Staged { target, what: What::Remove { old: old.to_vec(), like }, note, neighbour: None, moved: None }
    }

    fn prepare(&mut self, new: &[u8], like: Option<&Attributes>, watch: Watch<'_>) -> Result<()> {
        let shown = self.target.path().display().to_string();
        let (_, file) = self
            .neighbour
            .insert(neighbour(&self.target, &mut |_| {}).with_context(|| format!("write beside {shown}"))?);
        fill(file, new, like, watch).with_context(|| format!("write {shown} with its mode, owner and attributes"))
    }

    /// Puts the change where it belongs; the lock of what is there is held.
    fn commit(&mut self, watch: Watch<'_>) -> Result<()> {
        let shown = self.target.path().display().to_string();
        if let What::Replace { old, .. } | What::Remove { old, .. } = &self.what {
            let now = read(&self.target)?;
            ensure!(now == *old, "write {shown}: it was changed meanwhile by someone else; run this again");
        }
        let moved = match (&self.what, &self.neighbour) {
            (What::Remove { .. }, _) => self.target.remove(),
            (What::Replace { .. }, Some((neighbour, _))) => self.target.replace_by(neighbour),
            (What::Create, Some((neighbour, _))) => self.target.fill_by(neighbour),
            (_, None) => bail!("write {shown}: it was written already"),
        };
        moved.with_context(|| format!("write {shown}"))?;
        self.moved = self.neighbour.take().map(|(_, file)| file);
        watch(Step::Moved).with_context(|| format!("write {shown}"))?;
        self.target.sync_folder();
        Ok(())
    }

    /// Makes a change undone that was carried out; its own lock, which came to the name with it, is still held.
    fn undo(&mut self) -> Result<()> {
        let nothing: Watch<'_> = &|_| Ok(());
        let target = self.target.clone();
        match &self.what {
            What::Create => target.remove().with_context(|| format!("remove {}", target.path().display())),
            What::Remove { old, like } => Staged::create(target, old, Some(like))?.commit(nothing),
            What::Replace { old, like } => {
                let what = What::Replace { old: read(&target)?, like: like.clone() };
                let mut back = Staged { target, what, note: None, neighbour: None, moved: None };
                // All that the file was, what an edit takes away included.
                back.prepare(old, Some(like), nothing)?;
                back.commit(nothing)
            }
        }
    }
}

fn read(place: &Place) -> Result<Vec<u8>> {
    let read = place.read(MAX_FILE_BYTES).with_context(|| format!("read {} again", place.path().display()));
    Ok(read?.0)
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((neighbour, _)) = &self.neighbour {
            // What is left behind is only clutter.
            let _ = self.target.remove_beside(neighbour);
        }
    }
}

/// A new file beside the other, locked. Another process may take it for one that was left behind until it is: `made` is called
/// between the two.
fn neighbour(target: &Place, made: &mut dyn FnMut(&OsStr)) -> io::Result<(OsString, File)> {
    target.remove_abandoned(is_neighbour);
    let mut cleared = 0;
    loop {
        let number = NEXT.fetch_add(1, Relaxed);
        let name = OsString::from(format!(".tokrate-{}-{number}.part", std::process::id()));
        let file = match target.create_beside(&name) {
            // Left behind by a process of this number that was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        made(&name);
        if target.lock_beside(&name, &file) {
            return Ok((name, file));
        }
        // Whoever holds it is about to remove it.
        cleared += 1;
        if cleared == NEIGHBOURS {
            return Err(io::Error::other("other programs remove or lock each new file in its folder; run this again"));
        }
    }
}

/// Whether a file has the name of a neighbour.
fn is_neighbour(name: &str) -> bool {
    let numbers = name.strip_prefix(".tokrate-").and_then(|rest| rest.strip_suffix(".part")?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn fill(mut file: &File, text: &[u8], like: Option<&Attributes>, watch: Watch<'_>) -> io::Result<()> {
    if like.is_some() {
        // Until it has the owner of the file, nobody else is to read it.
        hide(file)?;
    }
    watch(Step::Made)?;
    let (first, second) = text.split_at(text.len() / 2);
    file.write_all(first)?;
    watch(Step::Half)?;
    file.write_all(second)?;
    watch(Step::Written)?;
    if let Some(like) = like {
        like.give(file)?;
    }
    watch(Step::Attributed)?;
    file.sync_all()?;
    watch(Step::Synced)
}

#[cfg(unix)]
fn hide(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn hide(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
