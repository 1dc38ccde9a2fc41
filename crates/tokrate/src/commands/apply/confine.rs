//! Paths that are kept inside of folders, whatever links lie on the way.
//!
//! It refuses to read files. Invariant: a path that comes out lies, with all links resolved, in one of the roots.

use crate::out::apply::Refusal;
use anyhow::{Context, Result, ensure};
use std::path::{Component, Path, PathBuf};

/// Folders that are open, without links.
#[derive(Clone, Debug)]
pub struct Roots(Vec<PathBuf>);

impl Roots {
    /// The folders as they were named.
    pub fn new(named: &[PathBuf]) -> Result<Roots> {
        let real = |path: &PathBuf| {
            let real =
                path.canonicalize().with_context(|| format!("open the folder {}; check --root", path.display()))?;
            ensure!(real.is_dir(), "open {}: it is no folder; check --root", path.display());
            Ok(real)
        };
        Ok(Roots(named.iter().map(real).collect::<Result<_>>()?))
    }

    /// A file that is there, absolute or below the roots.
    pub fn existing(&self, path: &str) -> Result<PathBuf, Refusal> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut outside = false;
        for candidate in self.candidates(path)? {
            match candidate.canonicalize() {
                Ok(real) if self.contains(&real) => found.push(real),
                Ok(_) => outside = true,
                Err(_) => outside |= !nearest(&candidate).is_some_and(|real| self.contains(&real)),
            }
        }
        found.dedup();
        match (&found[..], outside) {
            ([], true) => Err(self.outside(path)),
            ([], false) => Err(Refusal::new("no_such_file", format!("there is no file {path}"), "check the path")),
            (found, _) if !found.iter().any(|real| real.is_file()) => {
                Err(Refusal::new("not_a_file", format!("{path} is no regular file"), "name a file"))
            }
            ([real], _) => Ok(real.clone()),
            _ => {
                let message = format!("{path} lies in several of the folders");
                Err(Refusal::new("ambiguous_path", message, "write the absolute path"))
            }
        }
    }

    /// A place below the first root where nothing is yet.
    pub fn vacant(&self, path: &str) -> Result<PathBuf, Refusal> {
        let place = self.relative(path)?;
        if place.symlink_metadata().is_ok() {
            let hint = "update the file instead, or choose another path";
            return Err(Refusal::new("file_exists", format!("{path} is there already"), hint));
        }
        match nearest(&place) {
            Some(real) if self.contains(&real) && real.is_dir() => {
                // What is not there has no links, so the rest of the path is as it is written.
                let base = nearest_name(&place).expect("it was found just now");
                let rest = place.strip_prefix(base).expect("it is above");
                Ok(real.join(rest))
            }
            _ => Err(self.outside(path)),
        }
    }

    /// A file below the first root that is there, named without detours and itself no link.
    pub fn own(&self, path: &str) -> Result<PathBuf, Refusal> {
        let place = self.relative(path)?;
        let real = Roots(vec![self.0[0].clone()]).existing(path)?;
        if place.is_symlink() {
            let message = format!("{path} is a symbolic link");
            return Err(Refusal::new("symbolic_link", message, "name the file that it leads to"));
        }
        Ok(real)
    }

    /// A relative path without `..`, below the first root.
    pub fn relative(&self, path: &str) -> Result<PathBuf, Refusal> {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain || path.is_empty() || path.contains('\0') {
            return Err(self.outside(path));
        }
        Ok(self.0[0].join(path))
    }

    fn candidates(&self, path: &str) -> Result<Vec<PathBuf>, Refusal> {
        if path.is_empty() || path.contains('\0') {
            return Err(Refusal::new("no_such_file", "the path is empty or none", "name a file"));
        }
        // Joining an absolute path gives that path.
        let mut joined: Vec<PathBuf> = self.0.iter().map(|root| root.join(path)).collect();
        joined.dedup();
        Ok(joined)
    }

    fn contains(&self, real: &Path) -> bool {
        self.0.iter().any(|root| real.starts_with(root))
    }

    fn outside(&self, path: &str) -> Refusal {
        let roots: Vec<String> = self.0.iter().map(|root| root.display().to_string()).collect();
        let shown: String = path.chars().take(200).collect();
        let message = format!("{shown} lies outside of the folders that are open here");
        Refusal::new("outside_root", message, format!("name a file below {}", roots.join(" or ")))
    }
}

/// The nearest part of a path that is there, without links.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find_map(|above| above.canonicalize().ok())
}

/// The same as it is written.
fn nearest_name(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| above.canonicalize().is_ok())
}
