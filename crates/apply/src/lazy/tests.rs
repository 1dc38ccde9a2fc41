//! Snippets on small files, each with the text that it means or the reason why it means none.

use super::*;
use crate::options::Options;
use crate::outcome::{Merged, Outcome};

fn merge(original: &str, update: &str) -> Outcome {
    crate::merge(original.as_bytes(), update.as_bytes(), &Options::default())
}

fn merged(original: &str, update: &str) -> String {
    match merge(original, update) {
        Outcome::Merged(Merged { text, .. }) => text,
        Outcome::Refused(refused) => panic!("{refused}"),
    }
}

/// What a snippet would come to that may be refused as unsure.
fn likeliest(original: &str, update: &str) -> String {
    let read = crate::merge::likeliest(original.as_bytes(), update.as_bytes(), &Options::default());
    read.map(|(merged, _)| merged.text).unwrap_or_else(|refused| panic!("{refused}"))
}

fn refused(original: &str, update: &str) -> Refused {
    match merge(original, update) {
        Outcome::Merged(Merged { text, .. }) => panic!("merged:\n{text}"),
        Outcome::Refused(refused) => refused,
    }
}

const FILE: &str = "\
use std::io;

fn first(a: u32) -> u32 {
    let b = a + 1;
    println!(\"first {b}\");
    b
}

fn second(a: u32) -> u32 {
    let c = a + 2;
    println!(\"second {c}\");
    c
}

fn third(a: u32) -> u32 {
    let d = a + 3;
    println!(\"third {d}\");
    d
}
";

#[test]
fn a_changed_line_between_shown_ones_is_changed() {
    let update = "// ... existing code ...\nfn second(a: u32) -> u32 {\n    let c = a + 20;\n    println!(\"second {c}\");\n// ... existing code ...\n";
    assert_eq!(merged(FILE, update), FILE.replace("a + 2;", "a + 20;"));
}

#[test]
fn a_new_function_stands_after_the_one_that_is_shown() {
    let new = "fn new(a: u32) -> u32 {\n    let c = a + 2;\n    c\n}\n";
    let update = format!(
        "// ... existing code ...\n    println!(\"first {{b}}\");\n    b\n}}\n\n{new}\n// ... existing code ...\n"
    );
    let expected = FILE.replace("fn second", &format!("{new}\nfn second"));
    assert_eq!(likeliest(FILE, &update), expected);
}

#[test]
fn lines_between_adjacent_shown_ones_go() {
    let update = "// ... existing code ...\nfn second(a: u32) -> u32 {\n    let c = a + 2;\n    c\n}\n// ... existing code ...\n";
    assert_eq!(merged(FILE, update), FILE.replace("    println!(\"second {c}\");\n", ""));
}

#[test]
fn a_whole_function_goes_when_its_neighbours_are_shown_together() {
    let update = "// ... existing code ...\n    println!(\"first {b}\");\n    b\n}\n\nfn third(a: u32) -> u32 {\n// ... existing code ...\n";
    let start = FILE.find("fn second").expect("there");
    let end = FILE.find("fn third").expect("there");
    assert_eq!(likeliest(FILE, update), format!("{}{}", &FILE[..start], &FILE[end..]));
}

#[test]
fn a_signature_changes_at_the_edge_of_what_is_shown() {
    let update = "// ... existing code ...\nfn second(a: u64) -> u64 {\n    let c = a + 2;\n// ... existing code ...\n";
    let expected = FILE.replace("fn second(a: u32) -> u32", "fn second(a: u64) -> u64");
    assert_eq!(likeliest(FILE, update), expected);
}

#[test]
fn a_fragment_needs_no_markers() {
    let update = "fn third(a: u32) -> u32 {\n    let d = a * 3;\n    println!(\"third {d}\");\n    d\n}\n";
    assert_eq!(merged(FILE, update), FILE.replace("a + 3", "a * 3"));
}

#[test]
fn a_dedented_snippet_is_brought_to_the_file() {
    let file = "class A:\n    def first(self):\n        return compute(1)\n\n    def second(self):\n        return compute(2)\n";
    let update = "# ... existing code ...\ndef second(self):\n    value = 5\n    return compute(2)\n";
    let expected = file.replace("        return compute(2)", "        value = 5\n        return compute(2)");
    assert_eq!(merged(file, update), expected);
}

#[test]
fn a_place_that_occurs_twice_is_refused_with_both() {
    let block = "if ready {\n    start(engine);\n    wait(engine);\n}\n";
    let file = format!("head one\n{block}middle of it\n{block}the end of it\n");
    let update = "// ...\n    start(engine);\n    check(engine);\n    wait(engine);\n// ...\n";
    let refused = refused(&file, update);
    assert_eq!(refused.code, Code::AmbiguousLocation);
    assert_eq!(refused.candidates, [(4, 4), (9, 9)]);
}

#[test]
fn lines_of_another_file_are_refused() {
    let update =
        "// ... existing code ...\nclass Other {\n    int x = unknown();\n    return x;\n}\n// ... existing code ...\n";
    assert_eq!(refused(FILE, update).code, Code::NoAnchor);
    assert_eq!(refused(FILE, "// ... existing code ...\n").code, Code::NotAnEdit);
}

#[test]
fn a_declaration_goes_when_its_removal_is_asked_for() {
    let start = FILE.find("fn second").expect("there");
    let end = FILE.find("fn third").expect("there");
    let expected = format!("{}{}", &FILE[..start], &FILE[end..]);
    assert_eq!(merged(FILE, "// ... existing code ...\n// remove second\n// ... existing code ...\n"), expected);
    assert_eq!(refused(FILE, "// ... existing code ...\n// remove fourth\n").code, Code::NoAnchor);
}

#[test]
fn merging_the_result_again_changes_nothing() {
    let update = "// ... existing code ...\n    let c = a + 2;\n    check(c);\n    println!(\"second {c}\");\n// ... existing code ...\n";
    let once = merged(FILE, update);
    assert_eq!(merged(&once, update), once);
}

#[test]
fn a_file_of_many_lines_is_searched_around_its_unique_ones() {
    let file: String = (0..20_000).map(|n| format!("    item number {n};\n    same();\n")).collect();
    let update = "// ...\n    item number 15000;\n    new();\n    same();\n    item number 15001;\n// ...\n";
    let expected = file.replace("    item number 15000;\n", "    item number 15000;\n    new();\n");
    assert_eq!(merged(&file, update), expected);
}

#[test]
fn a_line_changed_in_a_function_that_is_shown_whole_is_read_and_one_added_between_two_is_sure() {
    let functions = (0..200).map(|at| format!("export function f{at}(x) {{\n  return {at} + x;\n}}\n"));
    let file = functions.collect::<Vec<_>>().join("\n");
    let update = "// ... existing code ...\nexport function f7(x) {\n  return 7 * x;\n}\n// ... existing code ...\n";
    // What follows the function may be meant to go, as its last line is a bracket: names settle that, where there is a grammar.
    assert_eq!(likeliest(&file, update), file.replace("return 7 + x", "return 7 * x"));
    let lines: String = (0..5000).map(|line| format!("    let value_{line} = compute(\"é\", {line});\n")).collect();
    let file = format!("fn large() {{\n{lines}}}\n");
    let update = "// ... existing code ...\n    let value_2500 = compute(\"é\", 2500);\n    let extra = 1;\n    let value_2501 = compute(\"é\", 2501);\n// ... existing code ...\n";
    let expected = file.replace("    let value_2501", "    let extra = 1;\n    let value_2501");
    assert_eq!(merged(&file, update), expected);
}

mod anything {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_makes_it_panic(original in any_text(), update in any_text()) {
            merge(&original, &update);
        }

        #[test]
        fn lines_of_the_file_in_their_order_change_nothing(lines in prop::collection::vec("[a-d]{4,9} [a-z]{3}", 4..20), from in 0_usize..3) {
            let file: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            let shown: String = lines[from..].iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            if let Outcome::Merged(merged) = merge(&file, &format!("// ... existing code ...\n{shown}")) {
                prop_assert_eq!(merged.text, file);
            }
        }
    }

    /// Text of pieces that mean something to the engine.
    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("// ... existing code ...\n".to_owned()),
            Just("fn name(a: u32) {\n".to_owned()),
            Just("    let 变量 = \"…\";\n".to_owned()),
            Just("}\n".to_owned()),
            Just("\n".to_owned()),
            Just("# ...".to_owned()),
            Just("class 。(\n".to_owned()),
            "\\PC{0,12}\n?",
        ];
        prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
    }
}

#[test]
fn a_new_line_that_stands_elsewhere_does_not_hide_a_second_place() {
    let place = "fn shut(gate: Gate) {\n    gate.wait();\n    gate.close(old);\n    gate.report();\n}\n";
    let far: String = (0..300).map(|at| format!("// filler {at}\n")).collect();
    let file = format!("{place}fn other() {{\n    gate.close(new_way, fast);\n}}\n{far}{place}");
    let update =
        "// ...\nfn shut(gate: Gate) {\n    gate.wait();\n    gate.close(new_way, fast);\n    gate.report();\n// ...\n";
    let refused = refused(&file, update);
    assert_eq!(refused.code, Code::AmbiguousLocation, "{refused}");
}

#[test]
fn a_snippet_stands_in_a_text_that_has_its_parts_once_and_in_order() {
    let text = "use io;\n\nfn a() {\n    one()\n}\n\nfn b() {\n    two()\n}\n";
    for update in [
        "fn a() {\n    one()\n// ...\nfn b() {\n",
        "\n\nuse io;\n\n// ...\n\n    two()\n",
        "// ...\n    one()\n}\n\nfn b() {\n// ...\n",
    ] {
        assert!(is_applied(text, update), "{update}");
    }
    for (update, why) in [
        ("fn b() {\n// ...\nfn a() {\n", "in another order"),
        ("// ...\n}\n", "it stands twice"),
        ("fn a() {\n    two()\n", "its lines stand apart"),
        ("    one(\n", "a part of a line"),
        ("ne()\n", "a part of a line"),
        ("use io;\n// ...\n// remove b\n", "it asks for more"),
    ] {
        assert!(!is_applied(text, update), "{why}: {update}");
    }
}

#[test]
fn a_return_above_hidden_lines_is_doubted() {
    let file = "def load(path):\n    text = read(path)\n    return parse(text)\n\ndef save(path):\n    write(path)\n";
    let update = |line| format!("# ...\ndef load(path):\n{line}\n# ...\n");
    for line in ["    return {}", "    raise NotFound(path)"] {
        let refused = refused(file, &update(line));
        assert_eq!((refused.code, refused.candidates[0]), (Code::AmbiguousDeletion, (2, 2)), "{line}");
    }
    for line in ["    check(path)", "    if not path:\n        return {}", "    return {} if path else None"] {
        let expected = file.replacen("(path):\n", &format!("(path):\n{line}\n"), 1);
        assert_eq!(likeliest(file, &update(line)), expected, "{line}");
    }
}

#[test]
fn brackets_that_close_what_is_shown_may_stand_alone() {
    let file =
        "const a = {\n  port: 1,\n  deep: {\n    x: 1,\n  },\n};\n\nconst b = {\n  deep: {\n    x: 2,\n  },\n};\n";
    let update = "const a = {\n  port: 2,\n  deep: {\n    // ...\n  },\n};\n// ...\n";
    assert_eq!(merged(file, update), file.replace("port: 1", "port: 2"));
    // What opens them is not shown: lines between them may be meant to go.
    let refused = refused(file, "const a = {\n  port: 2,\n// ...\n  },\n};\n// ...\n");
    assert_eq!(refused.code, Code::AmbiguousDeletion, "{refused}");
}

#[test]
fn what_is_removed_may_stand_above_what_changes_beside_a_line_like_a_marker() {
    let rest = "fn bbbbb() {\n    two_things();\n}\n\n// ... existing code ...\n";
    let file = format!("fn aaaaa() {{\n    one_thing();\n}}\n\n{rest}fn ccccc() {{\n    three_things();\n}}\n");
    let shown = "fn ccccc() {\n    three_things();\n    four_things();\n}\n";
    let text = merged(&file, &format!("// remove aaaaa\n// ... existing code ...\n{shown}"));
    assert_eq!(text, format!("{rest}{shown}"));
    // What is removed may also be what changes.
    let _ = refused(&file, &format!("// remove ccccc\n// ... existing code ...\n{shown}"));
}

#[test]
fn what_merges_otherwise_into_its_own_result_is_refused() {
    // The file has the marker itself, so that the result reads it as a line to insert.
    let file = "use a;\n// ... existing code ...\nuse b;\n\nfn c() {\n    old_way();\n    wait();\n}\n";
    let update = "// ... existing code ...\n    new_way();\n    wait();\n}\n";
    assert!(!is_applied(&file.replace("old", "new"), update));
    if let Outcome::Merged(first) = merge(file, update)
        && let Outcome::Merged(again) = merge(&first.text, update)
    {
        assert_eq!(again.text, first.text);
    }
}

#[test]
fn an_update_of_many_parts_of_lines_that_stand_often_ends_in_a_refusal() {
    // Each part could stand in thousands of places: what is compared to place them is bounded for all of them together.
    let file: String = (0..4_000).map(|line| format!("    value = read(source, {});\n", line % 7)).collect();
    let part = |number: usize| {
        let lines: String =
            (0..12).map(|line| format!("    value = read(source, {});\n", (line + number) % 7)).collect();
        format!("{lines}    changed({number});\n{lines}// ... existing code ...\n")
    };
    let update: String = (0..150).map(part).collect();
    refused(&file, &update);
}

#[test]
fn a_blank_line_among_brackets_alone_does_not_go() {
    let method = "        int head(int depth) {\n            return depth;\n        }\n";
    let file = format!(
        "class Collector {{\n    static class Finder {{\n{method}\n{}    }}\n\n}}\n",
        method.replace("head", "tail")
    );
    refused(&file, "        // ... existing code ...\n        }\n    }\n}\n");
}

#[test]
fn an_annotation_above_a_line_that_is_shown_below_a_blank_one_is_doubted() {
    let file = "import pytest\n\n\n@pytest.mark.slow\ndef test_hook(manager):\n    class Hooks:\n        def first(arg):\n            pass\n\n\ndef test_other(manager):\n    manager.close()\n";
    let update = "# ... existing code ...\n\n\ndef test_hook(manager):\n    class Hooks:\n        def first(self, arg):\n            pass\n# ... existing code ...\n";
    refused(file, update);
    let shown = update.replace("\n\n\ndef", "\n\n\n@pytest.mark.slow\ndef");
    assert_eq!(likeliest(file, &shown), file.replace("first(arg)", "first(self, arg)"));
}

#[test]
fn a_blank_line_that_may_be_the_files_or_a_new_one_beside_it_is_refused() {
    let file = "fn run(engine: Engine) {\n    engine.load();\n    let value = ready(engine);\n\n    start(value);\n    wait(value);\n}\n";
    let update = "fn run(engine: Engine) {\n    // ... existing code ...\n    let value = ready(engine);\n\n    check(value);\n    // ... existing code ...\n}\n";
    refused(file, update);
}

#[test]
fn a_declaration_under_a_common_annotation_may_end_a_file() {
    let file = "#[test]\nfn first_is_read() {\n    assert_eq!(read(1), 1);\n}\n\n#[test]\nfn second_is_read() {\n    assert_eq!(read(2), 2);\n}\n";
    let new = "\n#[test]\nfn third_is_read() {\n    assert_eq!(read(3), 3);\n}\n";
    assert_eq!(likeliest(file, &format!("// ... existing code ...\n{new}")), format!("{file}{new}"));
}

/// How many unchanged lines are shown at the ends of an update, and how uneven they are.
fn width_of(file: &str, update: &str) -> (i32, i32) {
    let read = crate::merge::likeliest(file.as_bytes(), update.as_bytes(), &Options::default());
    let evidence = read.ok().and_then(|(_, evidence)| evidence).expect("it is read");
    (evidence.width, evidence.uneven)
}

#[test]
fn as_many_unchanged_lines_at_each_end_are_regular() {
    let file: String = (0..20).map(|line| format!("value_{line} = {line}\n")).collect();
    let shown = |lines: std::ops::Range<usize>| -> String {
        lines.map(|line| format!("value_{line} = {}\n", if line == 8 { 80 } else { line })).collect()
    };
    let update = |lines| format!("# ...\n{}# ...\n", shown(lines));
    assert_eq!(width_of(&file, &update(6..11)), (2, 0));
    assert_eq!(width_of(&file, &update(7..10)), (1, 0));
    let (_, uneven) = width_of(&file, &update(7..12));
    assert!(uneven > 0);
    // What an edge of the file cuts off is as wide as it can be.
    let file = file.replacen(
        "value_0 = 0\nvalue_1 = 1\nvalue_2 = 2\nvalue_3 = 3\nvalue_4 = 4\nvalue_5 = 5\nvalue_6 = 6\n",
        "",
        1,
    );
    assert_eq!(width_of(&file, &format!("{}# ...\n", shown(7..11))), (2, 0));
}

#[test]
fn a_blank_line_that_is_shown_next_to_a_marker_is_an_unchanged_line_at_the_end() {
    let file = "first = 1\n\n# of the second\nsecond = 2\nthird = 3\nfourth = 4\n";
    let shown = "# of the second\nsecond = 20\nthird = 3\n# ...\n";
    assert_eq!(width_of(file, &format!("# ...\n{shown}")), (1, 0));
    assert_eq!(width_of(file, &format!("# ...\n\n{shown}")), (1, 1));
}

#[test]
fn a_new_function_below_a_marker_alone_is_put_behind_all_others() {
    let new =
        "/// The fourth.\nfn fourth(a: u32) -> u32 {\n    let e = a + 4;\n    println!(\"fourth {e}\");\n    e\n}\n";
    assert_eq!(merged(FILE, &format!("// ... existing code ...\n\n{new}")), format!("{FILE}\n{new}"));
    // Without a blank line it is not said whether one is to be above it.
    refused(FILE, &format!("// ... existing code ...\n{new}"));
}

#[test]
fn new_lines_below_a_marker_alone_are_refused_where_they_may_belong_elsewhere() {
    let new = "// ... existing code ...\n\nfn fourth(a: u32) -> u32 {\n    a + 4\n}\n";
    // Behind a call that ends the file nobody puts a function, statements and halves of blocks may be anything, and a method lies in some block.
    let script = "def first(a):\n    return a + 1\n\n\nif __name__ == \"__main__\":\n    first(2)\n";
    let method = "// ... existing code ...\n\n    fn fourth(a: u32) -> u32 {\n        a + 4\n    }\n";
    for (file, update) in [
        (script, "# ... existing code ...\n\n\ndef second(a):\n    return a + 2\n"),
        (FILE, "// ... existing code ...\n\nassert_eq!(first(1), 2);\n"),
        (FILE, "// ... existing code ...\n\nfn fourth(a: u32) -> u32 {\n    a + 4\n"),
        (FILE, method),
        ("just = 1\nlines = 2\nof = 3\n", new),
    ] {
        refused(file, update);
    }
}

#[test]
fn nearly_a_whole_file_without_its_last_line_is_no_excerpt_that_keeps_it() {
    let (rest, last) = FILE.rsplit_once("fn third").expect("three functions");
    let file = format!("{rest}fn third{last}\nexport!(third);\n");
    let without = file.replace("\nexport!(third);\n", "").replace("a + 2", "a + 20");
    let refused = refused(&file, &without);
    assert_eq!((refused.code, refused.candidates.as_slice()), (Code::AmbiguousDeletion, &[(21, 21)][..]), "{refused}");
    // A marker says that it stays.
    let marked = format!("{without}\n// ... existing code ...\n");
    assert_eq!(merged(&file, &marked), file.replace("a + 2", "a + 20"));
}

#[test]
fn new_declarations_stand_where_the_blocks_that_are_shown_say() {
    let file = "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n\n\nclass B:\n    def three(self):\n        return 3\n";
    let at_end =
        "class A:\n    # ... existing code ...\n\n    def four(self):\n        return 4\n\n\n# ... existing code ...\n";
    let expected = file.replace("return 2\n", "return 2\n\n    def four(self):\n        return 4\n");
    assert_eq!(merged(file, at_end), expected);
    let below = "# ... existing code ...\n    def two(self):\n        return 2\n\n    def four(self):\n        return 4\n\n\nclass B:\n# ... existing code ...\n";
    assert_eq!(merged(file, below), expected);
    let first = "class B:\n    def four(self):\n        return 4\n\n    # ... existing code ...\n";
    assert_eq!(merged(file, first), file.replace("class B:\n", "class B:\n    def four(self):\n        return 4\n\n"));
}

#[test]
fn new_declarations_are_not_put_before_what_documents_a_block_nor_behind_what_leaves_it() {
    let file = "class A:\n    \"\"\"Says what it is.\"\"\"\n\n    def one(self):\n        return 1\n";
    refused(file, "class A:\n    def two(self):\n        return 2\n\n    # ... existing code ...\n");
    let file = "def make(a):\n    def one():\n        return a\n\n    return one\n\n\ndef other():\n    return 1\n";
    refused(file, "def make(a):\n    # ... existing code ...\n\n    def two():\n        return a + 1\n");
}

#[test]
fn a_changed_statement_below_a_new_declaration_is_not_added_beside_the_old_one() {
    let file =
        "const app = express();\n\napp.get('/', (req, res) => {\n  res.send(1);\n});\n\napp.listen(3000, ready);\n";
    let new = "// ... existing code ...\n\napp.get('/health', (req, res) => {\n  res.send('ok');\n});\n";
    assert_eq!(merged(file, new), format!("{file}{}", new.split_once('\n').expect("a marker").1));
    refused(file, &format!("{new}\napp.listen(8080, ready);\n"));
}
