//! Declarations by their names, each with what comes of it.

use super::*;

/// The text that an update makes of a file; none if no declaration of it can be placed.
fn named(language: Language, original: &str, update: &str) -> Option<String> {
    let source = Source::read(original.as_bytes()).expect("text");
    let located = locate(&source, update, language)?;
    assert_eq!(located.stage, Stage::Tree);
    let splices = crate::splice::in_order(located.splices, |byte| source.line_of(byte)).expect("apart");
    Some(source.with(&splices))
}

const RUST: &str = "\
struct A;

impl A {
    /// Makes one.
    #[must_use]
    fn new() -> A {
        A
    }

    fn size(&self) -> usize {
        let mut size = 0;
        size += 1;
        size
    }
}

const LIMITS: [usize; 2] = [
    1,
    2,
];
";

fn rust(update: &str) -> Option<String> {
    named(Language::Rust, RUST, update)
}

#[test]
fn a_whole_declaration_takes_the_place_of_its_name() {
    let merged = rust("// ...\n    fn size(&self) -> usize {\n        1\n    }\n// ...\n").expect("located");
    assert_eq!(merged, RUST.replace("        let mut size = 0;\n        size += 1;\n        size\n", "        1\n"));
    let beside = "    fn size(&self) -> usize {\n        1\n    }\n\n    fn len(&self) -> usize {\n        2\n    }\n";
    assert!(rust(beside).expect("a new one below").contains("        1\n    }\n\n    fn len"));
}

#[test]
fn heads_stay_unless_they_are_shown() {
    let kept = rust("    fn new() -> A {\n        A {}\n    }\n").expect("located");
    assert!(kept.contains("    /// Makes one.\n    #[must_use]\n    fn new() -> A {\n        A {}\n    }\n"), "{kept}");
    let shown = "    /// Makes one.\n    /// Or two.\n    #[must_use]\n    fn new() -> A {\n        A {}\n    }\n";
    let merged = rust(shown).expect("located");
    assert_eq!(merged.matches("must_use").count(), 1, "{merged}");
    assert!(merged.contains(shown), "{merged}");
    assert_eq!(rust(&shown.replace("    #[must_use]\n", "")), None, "an attribute would be lost");
    assert_eq!(rust(&shown.replace("Makes one", "Other").replace("    #[must_use]\n", "")), None);
}

#[test]
fn what_is_not_one_whole_thing_is_not_placed() {
    let size = "    fn size(&self) -> usize {\n        1\n    }\n";
    for (update, why) in [
        ("    fn size(&self) -> usize {\n        1\n", "its end is missing"),
        (&format!("    let x = 1;\n{size}"), "a statement is beside it"),
        (&size.replace("    ", "  "), "it is further out"),
        (&format!("impl B {{\n    // ...\n{size}    // ...\n}}\n"), "it is shown in another scope"),
        ("    fn other(&self) -> usize {\n        1\n    }\n", "the file does not know it"),
        (
            "    fn size(&self) -> usize {\n        let mut size = 0;\n        size += 1;\n        size\n    }\n",
            "nothing changes",
        ),
        ("impl A {\n    fn size(&self) -> usize {\n        1\n    }\n}\n", "what else was in it would be lost"),
        ("const LIMITS: [usize; 2] = [\n    3,\n    4,\n];\n\nconst MORE: usize = 3;\n", "a value is new"),
        (&format!("// remove new\n// ...\n{size}"), "it asks for more than lines"),
    ] {
        assert_eq!(rust(update), None, "{why}");
    }
    let twice = format!("{RUST}\nimpl B {{\n{size}}}\n");
    assert_eq!(
        named(Language::Rust, &twice, "    fn size(&self) -> usize {\n        2\n    }\n"),
        None,
        "two have the name"
    );
}

#[test]
fn a_block_without_an_end_of_its_own_ends_as_it_did() {
    let text = "def f(a):\n    b = a\n    return b\n\ndef g():\n    pass\n";
    let of = |update| named(Language::Python, text, update);
    assert_eq!(
        of("def f(a):\n    return a + 1\n").as_deref(),
        Some("def f(a):\n    return a + 1\n\ndef g():\n    pass\n")
    );
    assert_eq!(of("def f(a):\n    c = a\n"), None, "the rest of it may be left out");
}

#[test]
fn other_parts_are_located_by_their_lines() {
    let size = "// ...\n    fn size(&self) -> usize {\n        1\n    }\n// ...\n";
    let above = "struct A;\nstruct B;\n\nimpl A {\n    /// Makes one.\n    #[must_use]\n    fn new() -> A {\n";
    let merged = rust(&format!("{above}{size}")).expect("located");
    let expected = RUST.replace("        let mut size = 0;\n        size += 1;\n        size\n", "        1\n");
    assert_eq!(merged, expected.replace("struct A;\n", "struct A;\nstruct B;\n"));
    // What is located neither way leaves the whole update unlocated.
    assert_eq!(rust(&format!("{size}    3,\n    4,\n// ...\n")), None);
}
