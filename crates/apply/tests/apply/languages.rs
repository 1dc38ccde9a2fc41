//! Each language with a grammar of its own crate: a good edit is merged and parsed, one that breaks the syntax is refused.
//!
//! Those that are not part of this build are passed over. Invariant: every case is parsed without an error as it stands.

use tokrate_apply::{Check, Code, Language, Merged, Options, Outcome, merge};

/// A language, a file, what is replaced in it, by what, and by what would break it.
const EDITS: [(&str, &str, &str, &str, &str); 13] = [
    ("lua", "local M = {}\nfunction M.area(w, h)\n  return w + h\nend\nreturn M\n", "w + h\n", "w * h\n", "w * h)\n"),
    ("zig", "pub fn area(w: u32, h: u32) u32 {\n    return w + h;\n}\n", "w + h;\n", "w * h;\n", "w * h)\n"),
    ("elixir", "defmodule A do\n  def area(w, h) do\n    w + h\n  end\nend\n", "w + h\n", "w * h\n", "(w * h\n"),
    (
        "protobuf",
        "syntax = \"proto3\";\nmessage A {\n  string b = 1;\n}\n",
        "  string b = 1;\n",
        "  string c = 2;\n",
        "  string c 2;\n",
    ),
    ("hcl", "resource \"a\" \"b\" {\n  name = \"x\"\n}\n", "\"x\"\n", "\"y\"\n", "\"y\n"),
    ("dockerfile", "FROM debian:12\nRUN true\nCOPY a b\n", "RUN true\n", "RUN false\n", "RAN false\n"),
    (
        "svelte",
        "<script>\n  let a = 1;\n</script>\n{#if a}\n<p>{a}</p>\n{/if}\n",
        "{a}</p>\n",
        "{a + 1}</p>\n",
        "{a + 1</p>\n",
    ),
    (
        "vue",
        "<template>\n  <p :id=\"a\">{{ a }}</p>\n</template>\n",
        "{{ a }}</p>\n",
        "{{ b }}</p>\n",
        "{{ b }}</p\n<<\n",
    ),
    (
        "kotlin",
        "class A {\n    fun area(w: Int, h: Int): Int {\n        return w + h\n    }\n}\n",
        "w + h\n",
        "w * h\n",
        "(w * h\n",
    ),
    (
        "swift",
        "struct A {\n    func area(w: Int, h: Int) -> Int {\n        return w + h\n    }\n}\n",
        "w + h\n",
        "w * h\n",
        "(w * h\n",
    ),
    ("dart", "class A {\n  int area(int w, int h) {\n    return w + h;\n  }\n}\n", "w + h;\n", "w * h;\n", "(w * h;\n"),
    ("scala", "class A {\n  def area(w: Int, h: Int): Int = {\n    w + h\n  }\n}\n", "w + h\n", "w * h\n", "(w * h\n"),
    ("haskell", "module A where\n\narea :: Int -> Int\narea w = w + 1\n", "w + 1\n", "w * 2\n", "(w * 2\n"),
];

fn merged(language: Language, text: &str, update: &str) -> Outcome {
    merge(text.as_bytes(), update.as_bytes(), &Options { language: Some(language), ..Options::default() })
}

fn pair(old: &str, new: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\"").replace('\n', "\\n"));
    format!("{{\"old_string\": {}, \"new_string\": {}}}", quoted(old), quoted(new))
}

#[test]
fn a_good_edit_is_merged_and_one_that_breaks_the_syntax_is_refused() {
    for (name, text, old, good, bad) in EDITS {
        let language = Language::from_name(name).expect(name);
        if !language.is_built_in() {
            continue;
        }
        match merged(language, text, &pair(old, good)) {
            Outcome::Merged(Merged { text: merged, checks, .. }) => {
                assert_eq!((merged, checks.parse), (text.replace(old, good), Check::Passed), "{name}");
            }
            Outcome::Refused(refused) => panic!("{name}: {refused}"),
        }
        match merged(language, text, &pair(old, bad)) {
            Outcome::Merged(Merged { text, checks, .. }) => panic!("{name}: {checks:?}\n{text}"),
            Outcome::Refused(refused) => assert_eq!(refused.code, Code::SyntaxRegression, "{name}: {refused}"),
        }
    }
}

/// A language, a line before a function of two, and its lines, the second of which comes to be others.
const FUNCTIONS: [(&str, &str, [&str; 3], &str); 5] = [
    ("lua", "local M = {}\n", ["function M.area(w, h)", "  local sum = w + h", "end"], ""),
    ("zig", "const a = 1;\n", ["pub fn area(w: u32, h: u32) u32 {", "    return w + h;", "}"], ""),
    ("kotlin", "class A {\n", ["    fun area(w: Int, h: Int): Int {", "        return w + h", "    }"], "}\n"),
    ("swift", "class A {\n", ["    func area(w: Int, h: Int) -> Int {", "        return w + h", "    }"], "}\n"),
    ("scala", "class A {\n", ["  def area(w: Int, h: Int): Int = {", "    math.abs(w + h)", "  }"], "}\n"),
];

#[test]
fn a_function_written_anew_takes_the_place_of_the_one_of_its_name() {
    for (name, first, [head, body, end], last) in FUNCTIONS {
        let language = Language::from_name(name).expect(name);
        if !language.is_built_in() {
            continue;
        }
        let function = |head: &str, body: &str| format!("{head}\n{body}\n{end}\n\n");
        let other = function(&head.replace("area", "size"), body);
        let text = format!("{first}{}{other}{last}", function(head, body));
        let new =
            function(&head.replace("w: ", "width: ").replace("(w,", "(width,"), &body.replace("w + h", "width + h"));
        let update = format!("// ... existing code ...\n{new}// ... existing code ...\n");
        let merged = match merged(language, &text, &update) {
            Outcome::Merged(merged) => merged,
            Outcome::Refused(refused) => panic!("{name}: {refused}"),
        };
        assert_eq!(merged.text, format!("{first}{new}{other}{last}"), "{name}");
    }
}
