//! Cases: a file, an update of it, and what must come of the two.
//!
//! Invariant: cases are numbered in the order in which they are made, which the seed decides.

use super::chance::Chance;
use super::change::Change;
use super::history::Version;
use super::sketch::Place;
use super::{formats, freely, language, lazy, refuse, scoped, twist};
use std::sync::Arc;

/// The format of snippets that are cut as a diff would.
pub const CUT: &str = "snippet cut as a diff";
/// The format of snippets shaped as models write them.
pub const SCOPED: &str = "snippet as models write";

/// The format of snippets that are written freely.
pub const FREE: &str = "snippet written freely";

/// Where a case comes from.
pub struct Origin {
    /// Name of the repository.
    pub repository: String,
    /// The commit.
    pub commit: String,
    /// Path inside of the repository.
    pub path: String,
    /// The language.
    pub language: &'static str,
}

/// What must come of a case.
#[derive(Clone)]
pub enum Wanted {
    /// This text; a refusal is no answer, and another text is wrong.
    Text(Arc<str>),
    /// This text or a refusal.
    TextOrRefusal(Arc<str>),
    /// A refusal.
    Refusal,
}

/// A case.
pub struct Case {
    /// Its number.
    pub id: usize,
    /// Where it comes from.
    pub origin: Arc<Origin>,
    /// The format of the update.
    pub format: &'static str,
    /// How it is written.
    pub style: &'static str,
    /// The file.
    pub original: Arc<str>,
    /// The update.
    pub update: String,
    /// What must come of them.
    pub wanted: Wanted,
    /// How well the update names its place.
    pub place: Place,
}

/// The cases of versions, at most so many.
pub fn cases(versions: &[Version], seed: u64, most: usize) -> Vec<Case> {
    let changes: Vec<(&Version, Change)> =
        versions.iter().filter_map(|version| Some((version, Change::of(version)?))).collect();
    let mut cases = Vec::new();
    for (number, (version, change)) in changes.iter().enumerate() {
        if cases.len() >= most {
            break;
        }
        let Some((language, leader)) = language::of_path(&version.path) else { continue };
        let origin = Arc::new(Origin {
            repository: version.repository.clone(),
            commit: version.commit.clone(),
            path: version.path.clone(),
            language,
        });
        let mut chance = Chance::of(seed, &format!("{}{}", version.commit, version.path));
        let others = changes[number + 1..].iter().chain(&changes[..number]);
        let other = others
            .take(100)
            .find(|(other, _)| other.repository == version.repository && is_another(&other.path, &version.path))
            .map(|(_, change)| change);
        let mut of_this = Maker { origin, change, cases: Vec::new() };
        of_this.make(leader, other, &mut chance);
        cases.append(&mut of_this.cases);
    }
    cases.truncate(most);
    for (id, case) in cases.iter_mut().enumerate() {
        case.id = id;
    }
    cases
}

/// Whether a path is of another file in the same language.
fn is_another(other: &str, path: &str) -> bool {
    other != path && language::of_path(other).map(|(name, _)| name) == language::of_path(path).map(|(name, _)| name)
}

struct Maker<'c> {
    origin: Arc<Origin>,
    change: &'c Change,
    cases: Vec<Case>,
}

impl Maker<'_> {
    fn make(&mut self, leader: language::Leader, other: Option<&Change>, chance: &mut Chance) {
        let path = self.origin.path.clone();
        let (original, truth) = (self.change.file(&self.change.old), self.change.file(&self.change.new));
        let (original, truth): (Arc<str>, Arc<str>) = (original.into(), truth.into());
        for lazy::Snippet { style, text, place } in lazy::snippets(self.change, &path, leader, chance) {
            let wanted =
                if style == lazy::BARE { Wanted::TextOrRefusal(truth.clone()) } else { Wanted::Text(truth.clone()) };
            self.add(CUT, style, original.clone(), text, wanted, place);
        }
        for scoped::Snippet { style, text, truth, place } in scoped::snippets(self.change, leader, chance) {
            self.add(SCOPED, style, original.clone(), text, Wanted::Text(truth.into()), place);
        }
        let mut freely = Chance::of(1, &format!("{}{path}", self.origin.commit));
        for scoped::Snippet { style, text, truth, place } in freely::snippets(self.change, leader, &mut freely) {
            self.add(FREE, style, original.clone(), text, Wanted::Text(truth.into()), place);
        }
        for written in formats::all(self.change, &path, chance) {
            let wanted = Wanted::Text(truth.clone());
            self.add(written.format, written.style, original.clone(), written.text, wanted, written.place);
        }
        if let Some((written, truth)) = formats::replace_all(self.change, chance) {
            let wanted = Wanted::Text(truth.into());
            self.add(written.format, written.style, original.clone(), written.text, wanted, written.place);
        }
        for twisted in twist::all(self.change) {
            let (original, wanted): (Arc<str>, _) = (twisted.original.into(), Wanted::Text(twisted.truth.into()));
            if let Some(plain) = lazy::plain(self.change, leader) {
                self.add(CUT, twisted.style, original.clone(), plain.text, wanted.clone(), plain.place);
            }
            let chosen = *chance.one_of(&["aider", "right numbers", "without headers"]);
            let written = formats::all(self.change, &path, chance).into_iter().find(|it| it.style == chosen);
            if let Some(written) = written {
                self.add(written.format, twisted.style, original, written.text, wanted, written.place);
            }
        }
        for refusal in refuse::all(self.change, &path, leader, other, chance) {
            let original = refusal.original.into();
            self.add(refusal.format, refusal.style, original, refusal.update, Wanted::Refusal, Place::default());
        }
    }

    fn add(
        &mut self,
        format: &'static str,
        style: &'static str,
        original: Arc<str>,
        update: String,
        wanted: Wanted,
        place: Place,
    ) {
        self.cases.push(Case { id: 0, origin: self.origin.clone(), format, style, original, update, wanted, place });
    }
}
