//! Every way to write a protected name, and names that are only like one.

use super::*;

/// Ways to write `.git` that some file system takes for it.
const GIT: &[&str] = &[
    ".git",
    ".GIT",
    ".Git",
    ".git.",
    ".git ",
    ".git . .",
    ".git...",
    ".git::$INDEX_ALLOCATION",
    ".GIT:stream",
    "git~1",
    "GIT~1",
    "git~12",
    ".g\u{200c}it",
    "\u{200b}.git",
    ".git\u{feff}",
    ".gi\u{2060}t",
    ".gi\u{ad}t",
    ".g\u{131}t",
];

#[test]
fn git_is_never_written_however_it_is_spelt() {
    let everything: Vec<String> = GIT.iter().map(|name| (*name).to_owned()).collect();
    for name in GIT {
        for path in [
            (*name).to_owned(),
            format!("{name}/config"),
            format!("./{name}/hooks/pre-commit"),
            format!("sub/{name}/config"),
            format!("sub\\{name}\\config"),
            format!("sub//{name}//config"),
            format!("{name}/../src/a.rs"),
            format!("/{name}/config"),
        ] {
            assert_eq!(protected(&path, &[]), Some(Protected::Git), "{path:?}");
            assert_eq!(protected(&path, &everything), Some(Protected::Git), "{path:?} is never allowed");
        }
    }
}

#[test]
fn what_other_programs_take_orders_from_is_refused_by_its_name() {
    for (path, named, what) in [
        (".github/workflows/ci.yml", ".github", Kind::Dot),
        (".GitHub/workflows/ci.yml", ".GitHub", Kind::Dot),
        ("a/.github /x", "a/.github ", Kind::Dot),
        ("github~1/workflows/ci.yml", "github~1", Kind::Dot),
        (".gitlab-ci.yml", ".gitlab-ci.yml", Kind::Dot),
        (".gitattributes", ".gitattributes", Kind::Dot),
        ("gitatt~1", "gitatt~1", Kind::Dot),
        (".gitmodules", ".gitmodules", Kind::Dot),
        (".bashrc", ".bashrc", Kind::Dot),
        (".ssh/authorized_keys", ".ssh", Kind::Dot),
        (".envrc", ".envrc", Kind::Dot),
        ("crates/a/.cargo/config.toml", "crates/a/.cargo", Kind::Dot),
        (".vscode\\tasks.json", ".vscode", Kind::Dot),
        ("ba\u{17f}hrc", "ba\u{17f}hrc", Kind::Shell),
        ("dotfiles/zshrc", "dotfiles/zshrc", Kind::Shell),
        ("Microsoft.PowerShell_profile.ps1", "Microsoft.PowerShell_profile.ps1", Kind::Shell),
        ("Jenkinsfile", "Jenkinsfile", Kind::Ci),
        ("ci/Jenkinsfile.release", "ci/Jenkinsfile.release", Kind::Ci),
        ("azure-pipelines.yml", "azure-pipelines.yml", Kind::Ci),
        ("azure-~1.yml", "azure-~1.yml", Kind::Ci),
        ("templates/build.gitlab-ci.yml", "templates/build.gitlab-ci.yml", Kind::Ci),
        ("action.yml ", "action.yml ", Kind::Ci),
        ("sub/HEAD", "sub/HEAD", Kind::Hooks),
        ("githooks/pre-commit", "githooks", Kind::Hooks),
        ("lefthook.yml", "lefthook.yml", Kind::Hooks),
        ("Tokrate.toml", "Tokrate.toml", Kind::Settings),
    ] {
        let expected = Protected::Named { path: named.to_owned(), what };
        assert_eq!(protected(path, &[]), Some(expected), "{path:?}");
    }
}

#[test]
fn names_that_are_only_like_them_are_let_through() {
    for path in [
        "",
        ".",
        "./src/main.rs",
        "../src/main.rs",
        "src/git/config",
        "git/hooks/x",
        "github/workflows/x.yml",
        "a.git.rs",
        "x.git/description",
        "header.h",
        "src/head/mod.rs",
        "docs/HEAD/a.md",
        "profile",
        "a~1.txt",
        "notes.txt~",
        "notes.txt.~1~",
        "git~x",
        ".gitignore",
        "sub/.gitkeep",
        ".editorconfig",
        "...",
        "Makefile",
    ] {
        assert_eq!(protected(path, &[]), None, "{path:?}");
    }
}

#[test]
fn a_name_is_allowed_where_it_was_named_and_nowhere_else() {
    let allowed: Vec<String> = [".github", "sub/.cargo/config.toml", "src"].map(str::to_owned).to_vec();
    for path in [".github/workflows/ci.yml", "./.github/a", ".github", "sub/.cargo/config.toml"] {
        assert_eq!(protected(path, &allowed), None, "{path}");
    }
    for (path, named) in [
        ("a/.github/x", "a/.github"),
        (".GitHub/x", ".GitHub"),
        (".githubx/x", ".githubx"),
        (".github/.hidden/x", ".github/.hidden"),
        ("sub/.cargo/other.toml", "sub/.cargo"),
        ("src/.cargo/config.toml", "src/.cargo"),
        ("x/../.github/ci.yml", "x/../.github"),
    ] {
        let expected = Protected::Named { path: named.to_owned(), what: Kind::Dot };
        assert_eq!(protected(path, &allowed), Some(expected), "{path}");
    }
}
