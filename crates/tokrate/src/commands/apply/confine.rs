//! Paths that a model names: kept inside of folders, and away from files that configure other programs, whatever links lie on the
//! way.
//!
//! Invariant: a path that comes out lies, with all links resolved, in one of the roots, and
//! neither as it is written nor as it is resolved has it a protected name that nobody has allowed.

use super::place::Place;
use crate::out::apply::Refusal;
use crate::out::os_error::words;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Component, Path, PathBuf};
use tokrate_apply::{Protected, protected};

/// Folders that are open, without links, and the protected names in them that may be touched.
#[derive(Clone, Debug)]
pub struct Roots {
    folders: Vec<PathBuf>,
    allowed: Vec<String>,
}

impl Roots {
    /// The folders as they were named, and what was named with --allow.
    pub fn new(named: &[PathBuf], allowed: &[String]) -> Result<Roots> {
        let real = |path: &PathBuf| {
            let real =
                path.canonicalize().with_context(|| format!("open the folder {}; check --root", path.display()))?;
            ensure!(real.is_dir(), "open {}: it is no folder; check --root", path.display());
            ensure!(!in_git(&real.join("file")), "open {}: git's own folder is never written", path.display());
            Ok(real)
        };
        for path in allowed {
            check_allowed(path).with_context(|| format!("read --allow {}", quoted(path)))?;
        }
        Ok(Roots { folders: named.iter().map(real).collect::<Result<_>>()?, allowed: allowed.to_vec() })
    }

    /// A file that is there, absolute or below the roots.
    pub fn existing(&self, path: &str) -> Result<Place, Refusal> {
        self.existing_in(&self.folders, path)
    }

    fn existing_in(&self, folders: &[PathBuf], path: &str) -> Result<Place, Refusal> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut outside = false;
        for candidate in candidates(folders, path)? {
            self.check_written(path, &candidate)?;
            match candidate.canonicalize() {
                Ok(real) if contains(folders, &real) => found.push(real),
                Ok(_) => outside = true,
                Err(_) => outside |= !nearest(&candidate).is_some_and(|real| contains(folders, &real)),
            }
        }
        found.dedup();
        match (&found[..], outside) {
            ([], true) => Err(self.outside(path)),
            ([], false) => Err(Refusal::new("no_such_file", format!("there is no file {path}"), "check the path")),
            (found, _) if !found.iter().any(|real| real.is_file()) => {
                Err(Refusal::new("not_a_file", format!("{path} is no regular file"), "name a file"))
            }
            ([real], _) => self.open(path, real),
            _ => {
                let message = format!("{path} lies in several of the folders");
                Err(Refusal::new("ambiguous_path", message, "write the absolute path"))
            }
        }
    }

    /// The file, its folder held open.
    fn open(&self, path: &str, real: &Path) -> Result<Place, Refusal> {
        let (root, relative) = self.check_real(path, real)?;
        Place::below(root, relative).map_err(|error| {
            let message = format!("{path} cannot be opened: {}", words(&error));
            Refusal::new("not_opened", message, "see whether something else changes the folders meanwhile")
        })
    }

    /// A path below the first root where nothing is yet, without links.
    pub fn vacant(&self, path: &str) -> Result<PathBuf, Refusal> {
        self.vacant_in(&self.folders[0], path, path)
    }

    /// The same, absolute below any of the roots as well.
    pub fn vacant_anywhere(&self, path: &str) -> Result<PathBuf, Refusal> {
        let below = |root: &PathBuf| Some((root.clone(), Path::new(path).strip_prefix(root).ok()?.to_str()?));
        match self.folders.iter().filter_map(below).min_by_key(|(_, rest)| rest.len()) {
            Some((root, rest)) => self.vacant_in(&root, path, rest),
            None => self.vacant(path),
        }
    }

    fn vacant_in(&self, root: &Path, path: &str, relative: &str) -> Result<PathBuf, Refusal> {
        let place = root.join(self.plain(path, relative)?);
        self.check_written(path, &place)?;
        if place.symlink_metadata().is_ok() {
            let hint = "update the file instead, or choose another path";
            return Err(Refusal::new("file_exists", format!("{path} is there already"), hint));
        }
        match nearest(&place) {
            Some(real) if contains(&self.folders, &real) && real.is_dir() => {
                // What is not there has no links, so the rest of the path is as it is written.
                let base = nearest_name(&place).expect("it was found just now");
                let rest = place.strip_prefix(base).expect("it is above");
                let real = real.join(rest);
                self.check_real(path, &real)?;
                Ok(real)
            }
            _ => Err(self.outside(path)),
        }
    }

    /// The part of a path that is vacant below the root that it lies in, and that root.
    pub fn split<'p>(&'p self, real: &'p Path) -> (&'p Path, &'p Path) {
        let around = self.folders.iter().filter(|root| real.starts_with(root));
        let root = around.max_by_key(|root| root.as_os_str().len()).unwrap_or(&self.folders[0]).as_path();
        (root, real.strip_prefix(root).unwrap_or(real))
    }

    /// A file below the first root that is there, named without detours and itself no link.
    pub fn own(&self, path: &str) -> Result<Place, Refusal> {
        let place = self.relative(path)?;
        let found = self.existing_in(&self.folders[..1], path)?;
        if place.is_symlink() {
            let message = format!("{path} is a symbolic link");
            return Err(Refusal::new("symbolic_link", message, "name the file that it leads to"));
        }
        Ok(found)
    }

    /// A relative path without `..`, below the first root.
    fn relative(&self, path: &str) -> Result<PathBuf, Refusal> {
        Ok(self.folders[0].join(self.plain(path, path)?))
    }

    /// A relative path, checked to have no detours.
    fn plain<'p>(&self, path: &str, relative: &'p str) -> Result<&'p Path, Refusal> {
        let mut parts = Path::new(relative).components();
        let plain = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || relative.is_empty() || relative.contains('\0') {
            return Err(self.outside(path));
        }
        Ok(Path::new(relative))
    }

    /// The path as it is written: below the root that it goes through.
    fn check_written(&self, path: &str, candidate: &Path) -> Result<(), Refusal> {
        let leads = |above: &&Path| above.canonicalize().is_ok_and(|real| contains(&self.folders, &real));
        let is_root = |above: &&Path| above.canonicalize().is_ok_and(|real| self.folders.contains(&real));
        let above = candidate.ancestors().find(is_root).or_else(|| {
            // The highest that lies in a root, if links lead past its head.
            candidate.ancestors().filter(leads).last()
        });
        // One that leads into no root is outside, whatever its folders are called; that is reported where its links are resolved.
        let Some(above) = above else { return Ok(()) };
        self.check(path, candidate.strip_prefix(above).unwrap_or(candidate))
    }

    /// The path without links; gives its root and the rest.
    fn check_real<'p>(&'p self, path: &str, real: &'p Path) -> Result<(&'p Path, &'p Path), Refusal> {
        // The innermost, as that one was named.
        let root = self.folders.iter().filter(|root| real.starts_with(root)).max_by_key(|root| root.as_os_str().len());
        let (root, rest) =
            root.and_then(|root| Some((root, real.strip_prefix(root).ok()?))).ok_or_else(|| self.outside(path))?;
        self.check(path, rest)?;
        if in_git(real) {
            return Err(refused(path, Protected::Git));
        }
        Ok((root, rest))
    }

    fn check(&self, path: &str, rest: &Path) -> Result<(), Refusal> {
        protected(&rest.to_string_lossy(), &self.allowed).map_or(Ok(()), |why| Err(refused(path, why)))
    }

    fn outside(&self, path: &str) -> Refusal {
        let roots: Vec<String> = self.folders.iter().map(|root| root.display().to_string()).collect();
        let shown: String = path.chars().take(200).collect();
        let message = format!("{shown} lies outside of the folders that are open here");
        Refusal::new("outside_root", message, format!("name a file below {}", roots.join(" or ")))
    }
}

/// The file that a person has named, without links. What they named themselves they may change, but not `.git`; where a link leads
/// to is not what they named.
pub fn named_by_hand(path: &Path) -> Result<Result<PathBuf, Refusal>> {
    let shown = path.display().to_string();
    let real = path.canonicalize().with_context(|| format!("find {shown}"))?;
    // Some keep a working tree inside of `.git`.
    let written_in_git = is_git(path) && !is_git(tree_of(&real).0);
    if in_git(&real) || written_in_git {
        return Ok(Err(refused(&shown, Protected::Git)));
    }
    let below = tree_of(&real).1;
    let here = Path::new(".").canonicalize().context("find the folder that this was started in")?;
    let written: Vec<Component<'_>> = here.components().chain(path.components()).collect();
    let is_protected = |part: &Component<'_>| protected(&part.as_os_str().to_string_lossy(), &[]).is_some();
    let named = path.components().any(|part| is_protected(&part));
    let led_to = below.components().find(|part| is_protected(part) && !written.contains(part));
    match led_to.filter(|_| !named).and_then(|part| protected(&part.as_os_str().to_string_lossy(), &[])) {
        None => Ok(Ok(real)),
        Some(why) => {
            let refusal = refused(&shown, why);
            let hint = format!("name the file that the link leads to, if you mean it: {}", real.display());
            Ok(Err(Refusal { hint, ..refusal }))
        }
    }
}

fn refused(path: &str, why: Protected) -> Refusal {
    let shown: String = path.chars().take(200).collect();
    match why {
        Protected::Git => Refusal::new(
            "protected_path",
            format!("{shown} lies in git's own folder, or may be taken for it"),
            "nothing there is ever written; change it by hand",
        ),
        Protected::Named { path, what } => Refusal::new(
            "protected_path",
            format!("{shown} is not touched: {} {what}", path.rsplit('/').next().unwrap_or_default()),
            format!("whoever started this can allow it with --allow {}", quoted(&path)),
        ),
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "._-/".contains(sign);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// What may be named with --allow: a path below the root, and not all of it.
fn check_allowed(path: &str) -> Result<()> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let names = Path::new(path).components().any(|part| matches!(part, Component::Normal(_)));
    ensure!(plain && names, "name a file or a folder below the root, such as .github");
    match protected(path, &[]) {
        Some(Protected::Git) => bail!("git's own folder is never written, and cannot be allowed"),
        Some(Protected::Named { .. }) => Ok(()),
        None => bail!("no name in it is protected; leave it out"),
    }
}

/// Whether a file lies in a `.git` or in another folder that git takes for a repository: a bare one, or one that a `.git` elsewhere
/// leads to.
fn in_git(real: &Path) -> bool {
    let is_repository = |folder: &Path| {
        let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
        there("HEAD") && folder.join("objects").is_dir() && folder.join("refs").is_dir()
    };
    is_git(tree_of(real).1) || real.ancestors().skip(1).take_while(|folder| !has_git(folder)).any(is_repository)
}

fn is_git(path: &Path) -> bool {
    protected(&path.to_string_lossy(), &[]) == Some(Protected::Git)
}

/// The working tree that a file lies in, and the rest of its path; names above it are not the project's.
fn tree_of(real: &Path) -> (&Path, &Path) {
    let top = real.ancestors().skip(1).find(|above| has_git(above)).unwrap_or(Path::new(""));
    (top, real.strip_prefix(top).unwrap_or(real))
}

/// Whether a folder is the head of a working tree.
fn has_git(folder: &Path) -> bool {
    folder.join(".git").symlink_metadata().is_ok()
}

fn candidates(folders: &[PathBuf], path: &str) -> Result<Vec<PathBuf>, Refusal> {
    if path.is_empty() || path.contains('\0') {
        return Err(Refusal::new("no_such_file", "the path is empty or none", "name a file"));
    }
    // Joining an absolute path gives that path.
    let mut joined: Vec<PathBuf> = folders.iter().map(|root| root.join(path)).collect();
    joined.dedup();
    Ok(joined)
}

fn contains(folders: &[PathBuf], real: &Path) -> bool {
    folders.iter().any(|root| real.starts_with(root))
}

/// The nearest part of a path that is there, without links.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find_map(|above| above.canonicalize().ok())
}

/// The same as it is written.
fn nearest_name(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| above.canonicalize().is_ok())
}
