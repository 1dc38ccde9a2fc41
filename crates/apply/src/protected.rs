//! Names of files and folders that other programs run or take orders from: git's own folder, dot-folders, shell start-up files,
//! definitions of CI. A model may not write them unless a person has allowed it.
//!
//! Invariant: names that a common file system treats as equal are treated alike.

use std::fmt;

/// Why a path is not to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protected {
    /// It lies in a `.git`, or is one; nobody can allow that.
    Git,
    /// A part of it is such a name.
    Named {
        /// The path up to that name, as it is written.
        path: String,
        /// The kind of the name.
        what: Kind,
    },
}

/// The kind of a protected name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Its name begins with a dot: settings of some program, which may name commands.
    Dot,
    /// A shell reads it when it starts.
    Shell,
    /// CI runs its commands.
    Ci,
    /// git or a related tool runs its commands, or takes the folder for a repository.
    Hooks,
    /// An editor or tokrate itself takes settings from it, which may name commands.
    Settings,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Dot => "begins with a dot, and such names hold settings that can run commands",
            Kind::Shell => "is run by a shell when it starts",
            Kind::Ci => "says what CI runs",
            Kind::Hooks => "says what git runs",
            Kind::Settings => "holds settings that can run commands",
        })
    }
}

/// Dot-files that hold nothing but patterns, or nothing at all: no program runs anything for what they say.
const HARMLESS: &[&str] = &[
    ".gitignore",
    ".gitkeep",
    ".keep",
    ".mailmap",
    ".dockerignore",
    ".npmignore",
    ".prettierignore",
    ".eslintignore",
    ".helmignore",
    ".editorconfig",
    ".clang-format",
    ".rustfmt.toml",
];

/// Names without a dot, folded.
const NAMED: &[(&str, Kind)] = &[
    ("bashrc", Kind::Shell),
    ("bash.bashrc", Kind::Shell),
    ("zshrc", Kind::Shell),
    ("zshenv", Kind::Shell),
    ("zprofile", Kind::Shell),
    ("zlogin", Kind::Shell),
    ("config.fish", Kind::Shell),
    ("profile.ps1", Kind::Shell),
    ("profile.d", Kind::Shell),
    ("jenkinsfile", Kind::Ci),
    ("action.yml", Kind::Ci),
    ("action.yaml", Kind::Ci),
    ("appveyor.yml", Kind::Ci),
    ("azure-pipelines.yml", Kind::Ci),
    ("azure-pipelines.yaml", Kind::Ci),
    ("bitbucket-pipelines.yml", Kind::Ci),
    ("bitrise.yml", Kind::Ci),
    ("buildspec.yml", Kind::Ci),
    ("buildspec.yaml", Kind::Ci),
    ("circle.yml", Kind::Ci),
    ("cloudbuild.yaml", Kind::Ci),
    ("cloudbuild.yml", Kind::Ci),
    ("cloudbuild.json", Kind::Ci),
    ("codefresh.yml", Kind::Ci),
    ("codemagic.yaml", Kind::Ci),
    ("codeship-services.yml", Kind::Ci),
    ("codeship-steps.yml", Kind::Ci),
    ("screwdriver.yaml", Kind::Ci),
    ("wercker.yml", Kind::Ci),
    ("lefthook.yml", Kind::Hooks),
    ("lefthook.yaml", Kind::Hooks),
    ("lefthook.toml", Kind::Hooks),
    ("lefthook.json", Kind::Hooks),
    ("githooks", Kind::Hooks),
    ("git-hooks", Kind::Hooks),
    ("tokrate.toml", Kind::Settings),
];

/// The file by which git recognises a repository: with `objects` and `refs` beside it, and a `config` that can name commands. A folder of
/// this name is a folder.
const HEAD: &str = "head";

/// Ends of names without a dot, folded.
const ENDINGS: &[(&str, Kind)] = &[
    ("_profile.ps1", Kind::Shell),
    (".jenkinsfile", Kind::Ci),
    (".gitlab-ci.yml", Kind::Ci),
    (".gitlab-ci.yaml", Kind::Ci),
    (".code-workspace", Kind::Settings),
];

/// Why a path is not to be written, if it is not. `allowed` are paths that a person has named, relative to the same folder.
///
/// A name is allowed where a path in `allowed` holds it and leads to this path or to a folder above it; each protected name needs
/// that. Both signs between folders count everywhere, as a path written here may be carried out there.
pub fn protected(path: &str, allowed: &[String]) -> Option<Protected> {
    let parts: Vec<&str> = parts(path).collect();
    if parts.iter().any(|part| is_git(&folded(part))) {
        return Some(Protected::Git);
    }
    let allowed_parts =
        allowed.iter().map(|path| self::parts(path).collect::<Vec<&str>>()).filter(|named| parts.starts_with(named));
    // Each is a part of the path from its head, so that the longest holds all that the others do.
    let named_by_hand = allowed_parts.map(|named| named.len()).max().unwrap_or(0);
    parts.iter().enumerate().skip(named_by_hand).find_map(|(at, part)| {
        let name = folded(part);
        let is_head = name == HEAD && at + 1 == parts.len();
        let what = kind(&name).or(is_head.then_some(Kind::Hooks))?;
        Some(Protected::Named { path: parts[..=at].join("/"), what })
    })
}

/// The names in a path.
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".")
}

/// A name as the file systems compare it that are free with names: without the name of a stream, code points that are ignored,
/// dots and blanks at its end, and case.
fn folded(part: &str) -> String {
    if part == ".." {
        return part.to_owned();
    }
    let file = part.split(':').next().unwrap_or_default();
    let seen: String = file.chars().filter(|sign| !is_ignorable(*sign)).collect();
    // Up before down: some signs have a capital that is a plain letter, and are small ones themselves.
    let folded: String = seen.chars().flat_map(char::to_uppercase).collect::<String>().to_lowercase();
    folded.trim_end_matches([' ', '.']).to_owned()
}

/// Code points that leave no trace: Unicode's Default_Ignorable_Code_Point, of which HFS+ and the case-folding of ext4 and f2fs
/// drop some or all.
fn is_ignorable(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn is_git(folded: &str) -> bool {
    folded == ".git" || short_of(folded).is_some_and(|stem| stem == "git")
}

fn kind(folded: &str) -> Option<Kind> {
    if folded.starts_with('.') && folded != ".." {
        return (!HARMLESS.contains(&folded)).then_some(Kind::Dot);
    }
    let named = NAMED.iter().find(|(name, _)| *name == folded).map(|(_, what)| *what);
    let ended = || ENDINGS.iter().find(|(end, _)| folded.ends_with(end)).map(|(_, what)| *what);
    let jenkins = || folded.starts_with("jenkinsfile.").then_some(Kind::Ci);
    named.or_else(ended).or_else(jenkins).or_else(|| short_kind(folded))
}

/// The short name that FAT and NTFS give a file beside its own, such as `github~1` for `.github`, is judged as the names that it
/// may stand for. Those in which a hash stands are found only once links and names are resolved.
fn short_kind(folded: &str) -> Option<Kind> {
    const DOT: &[&str] =
        &["github", "gitlab", "gitatt", "gitmod", "vscode", "circle", "husky", "cargo", "envrc", "npmrc", "ssh"];
    let stem = short_of(folded)?;
    let stands_for = |name: &str| name.chars().filter(|sign| *sign != '.').take(6).eq(stem.chars());
    let named = NAMED.iter().find(|(name, _)| name.len() > 8 && stands_for(name)).map(|(_, what)| *what);
    DOT.contains(&stem).then_some(Kind::Dot).or(named)
}

/// The part before `~1` in a short name.
fn short_of(folded: &str) -> Option<&str> {
    let (stem, rest) = folded.split_once('~')?;
    let number = rest.split('.').next().unwrap_or_default();
    let is_short = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    (is_short && !stem.is_empty()).then_some(stem)
}

#[cfg(test)]
mod tests;
