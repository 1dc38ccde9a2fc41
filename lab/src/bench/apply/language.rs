//! Languages of files, as far as a model writing about them needs them: a name and a comment sign.
//!
//! Invariant: files of unknown endings are no cases.

/// Endings, the language's name, and what begins and ends a comment line.
const LANGUAGES: &[(&[&str], &str, Leader)] = &[
    (&["rs"], "Rust", SLASHES),
    (&["py", "pyi"], "Python", HASH),
    (&["js", "mjs", "cjs", "jsx"], "JavaScript", SLASHES),
    (&["ts", "mts", "cts"], "TypeScript", SLASHES),
    (&["tsx"], "TSX", SLASHES),
    (&["go"], "Go", SLASHES),
    (&["java"], "Java", SLASHES),
    (&["c", "h"], "C", SLASHES),
    (&["cc", "cpp", "cxx", "hpp", "hh"], "C++", SLASHES),
    (&["cs"], "C#", SLASHES),
    (&["rb"], "Ruby", HASH),
    (&["php"], "PHP", SLASHES),
    (&["json"], "JSON", SLASHES),
    (&["yml", "yaml"], "YAML", HASH),
    (&["toml"], "TOML", HASH),
    (&["html", "htm"], "HTML", TAG),
    (&["css", "scss"], "CSS", BLOCK),
    (&["sh", "bash"], "shell", HASH),
    (&["md", "markdown"], "Markdown", TAG),
    (&["xml", "svg"], "XML", TAG),
    (&["cmake"], "CMake", HASH),
    (&["kt", "kts"], "Kotlin", SLASHES),
    (&["swift"], "Swift", SLASHES),
    (&["lua"], "Lua", DASHES),
    (&["ex", "exs"], "Elixir", HASH),
    (&["dart"], "Dart", SLASHES),
    (&["scala"], "Scala", SLASHES),
    (&["zig"], "Zig", SLASHES),
    (&["hs"], "Haskell", DASHES),
    (&["tf", "hcl"], "HCL", HASH),
    (&["sql"], "SQL", DASHES),
    (&["proto"], "protobuf", SLASHES),
    (&["vue"], "Vue", TAG),
    (&["svelte"], "Svelte", TAG),
];

/// What begins a comment line and what ends it.
pub type Leader = (&'static str, &'static str);

const SLASHES: Leader = ("//", "");
const HASH: Leader = ("#", "");
const TAG: Leader = ("<!--", " -->");
const DASHES: Leader = ("--", "");
const BLOCK: Leader = ("/*", " */");
/// A comment between the tags of JSX.
pub const JSX: Leader = ("{/*", " */}");

/// Every sign that models use.
pub const LEADERS: &[Leader] = &[SLASHES, HASH, TAG, BLOCK, DASHES, (";", ""), JSX];

/// Name and comment sign of the language of a path.
pub fn of_path(path: &str) -> Option<(&'static str, Leader)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name == "CMakeLists.txt" {
        return Some(("CMake", HASH));
    }
    let (_, ending) = name.rsplit_once('.')?;
    let (_, language, leader) = LANGUAGES.iter().find(|(endings, ..)| endings.contains(&ending))?;
    Some((language, *leader))
}
