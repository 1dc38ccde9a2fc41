//! Supported languages, by name and by file extension; the text is not inspected.

use serde::Serialize;

/// A language with a grammar; each is behind a feature of its own name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript, with JSX.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Go.
    Go,
    /// Java.
    Java,
    /// C.
    C,
    /// C++.
    Cpp,
    /// C#.
    CSharp,
    /// Ruby.
    Ruby,
    /// PHP, in HTML or alone.
    Php,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// HTML.
    Html,
    /// CSS.
    Css,
    /// Bash, and shells near to it.
    Bash,
    /// Lua.
    Lua,
    /// Zig.
    Zig,
    /// Elixir.
    Elixir,
    /// Protocol Buffers.
    Protobuf,
    /// HCL, as Terraform has it.
    Hcl,
    /// Dockerfile.
    Dockerfile,
    /// Svelte.
    Svelte,
    /// Vue, as HTML is read.
    Vue,
    /// Kotlin.
    Kotlin,
    /// Swift.
    Swift,
    /// Dart.
    Dart,
    /// Scala.
    Scala,
    /// Haskell.
    Haskell,
}

/// A language, its name, whether its grammar is built in, its file endings and its file names, all in lower case.
struct Row(Language, &'static str, bool, &'static [&'static str], &'static [&'static str]);

const TABLE: [Row; 31] = [
    Row(Language::Rust, "rust", cfg!(feature = "rust"), &["rs"], &[]),
    Row(Language::Python, "python", cfg!(feature = "python"), &["py", "pyi", "pyw"], &["sconstruct", "sconscript"]),
    Row(Language::JavaScript, "javascript", cfg!(feature = "javascript"), &["js", "jsx", "mjs", "cjs"], &["jakefile"]),
    Row(Language::TypeScript, "typescript", cfg!(feature = "typescript"), &["ts", "mts", "cts"], &[]),
    Row(Language::Tsx, "tsx", cfg!(feature = "tsx"), &["tsx"], &[]),
    Row(Language::Go, "go", cfg!(feature = "go"), &["go"], &[]),
    Row(Language::Java, "java", cfg!(feature = "java"), &["java"], &[]),
    Row(Language::C, "c", cfg!(feature = "c"), &["c", "h"], &[]),
    Row(
        Language::Cpp,
        "cpp",
        cfg!(feature = "cpp"),
        &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp"],
        &[],
    ),
    Row(Language::CSharp, "csharp", cfg!(feature = "csharp"), &["cs", "csx"], &[]),
    Row(
        Language::Ruby,
        "ruby",
        cfg!(feature = "ruby"),
        &["rb", "rake", "gemspec", "ru"],
        &["gemfile", "rakefile", "podfile", "vagrantfile", "guardfile"],
    ),
    Row(Language::Php, "php", cfg!(feature = "php"), &["php", "phtml"], &[]),
    Row(Language::Json, "json", cfg!(feature = "json"), &["json", "webmanifest", "geojson"], &[".prettierrc"]),
    Row(Language::Yaml, "yaml", cfg!(feature = "yaml"), &["yml", "yaml"], &[".clang-format", ".clang-tidy"]),
    Row(
        Language::Toml,
        "toml",
        cfg!(feature = "toml"),
        &["toml"],
        &["cargo.lock", "poetry.lock", "uv.lock", "pipfile"],
    ),
    Row(Language::Html, "html", cfg!(feature = "html"), &["html", "htm", "xhtml"], &[]),
    Row(Language::Css, "css", cfg!(feature = "css"), &["css"], &[]),
    Row(
        Language::Bash,
        "bash",
        cfg!(feature = "bash"),
        &["sh", "bash", "bats"],
        &[".bashrc", ".bash_profile", ".profile", ".bash_aliases"],
    ),
    Row(Language::Lua, "lua", cfg!(feature = "lua"), &["lua", "rockspec"], &[]),
    Row(Language::Zig, "zig", cfg!(feature = "zig"), &["zig", "zon"], &[]),
    Row(Language::Elixir, "elixir", cfg!(feature = "elixir"), &["ex", "exs"], &[]),
    Row(Language::Protobuf, "protobuf", cfg!(feature = "protobuf"), &["proto"], &[]),
    Row(Language::Hcl, "hcl", cfg!(feature = "hcl"), &["tf", "tfvars", "hcl"], &[]),
    Row(
        Language::Dockerfile,
        "dockerfile",
        cfg!(feature = "dockerfile"),
        &["dockerfile", "containerfile"],
        &["dockerfile", "containerfile"],
    ),
    Row(Language::Svelte, "svelte", cfg!(feature = "svelte"), &["svelte"], &[]),
    Row(Language::Vue, "vue", cfg!(feature = "vue"), &["vue"], &[]),
    Row(Language::Kotlin, "kotlin", cfg!(feature = "kotlin"), &["kt", "kts"], &[]),
    Row(Language::Swift, "swift", cfg!(feature = "swift"), &["swift"], &[]),
    Row(Language::Dart, "dart", cfg!(feature = "dart"), &["dart"], &[]),
    Row(Language::Scala, "scala", cfg!(feature = "scala"), &["scala", "sc", "sbt"], &[]),
    Row(Language::Haskell, "haskell", cfg!(feature = "haskell"), &["hs"], &[]),
];

impl Language {
    /// Every language.
    pub const ALL: [Language; 31] = {
        let mut all = [Language::Rust; 31];
        let mut at = 0;
        while at < all.len() {
            all[at] = TABLE[at].0;
            at += 1;
        }
        all
    };

    /// The language of a path, by its name or ending.
    pub fn of_path(path: &str) -> Option<Language> {
        let name = path.rsplit(['/', '\\']).next()?.to_ascii_lowercase();
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        TABLE
            .iter()
            .find(|row| row.4.contains(&&*name))
            .or_else(|| TABLE.iter().find(|row| row.3.contains(&ending)))
            .map(|row| row.0)
    }

    /// The name used in flags and answers.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The language of such a name.
    pub fn from_name(name: &str) -> Option<Language> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Whether its grammar is part of this build.
    pub fn is_built_in(self) -> bool {
        self.row().2
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_own_row_and_name() {
        for (at, language) in Language::ALL.into_iter().enumerate() {
            assert_eq!(language as usize, at);
            assert_eq!(Language::from_name(language.name()), Some(language));
        }
        assert_eq!(Language::from_name("cobol"), None);
    }

    #[test]
    fn paths_tell_the_language() {
        let of = |path| Language::of_path(path).map(Language::name);
        assert_eq!(of("a/b/main.rs"), Some("rust"));
        assert_eq!(of("C:\\x\\Program.CS"), Some("csharp"));
        assert_eq!(of("x.test.tsx"), Some("tsx"));
        assert_eq!(of("Gemfile"), Some("ruby"));
        assert_eq!(of("Cargo.lock"), Some("toml"));
        assert_eq!(of("docker/Dockerfile"), Some("dockerfile"));
        assert_eq!(of("app.dockerfile"), Some("dockerfile"));
        assert_eq!(of("main.tf"), Some("hcl"));
        assert_eq!(of("rs"), None, "no ending");
        assert_eq!(of("notes.md"), None);
        assert_eq!(of(""), None);
    }
}
