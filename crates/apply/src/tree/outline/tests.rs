//! Outlines of small texts, one per language.

use super::*;
use crate::tree::parse;

fn shown(language: Language, text: &str) -> String {
    let tree = parse(language, text).expect("within bounds");
    let outline = Outline::of_tree(language, text, &tree);
    let mut out = format!("{} errors\n", errors(&tree).len());
    for declaration in &outline.declarations {
        let depth = std::iter::successors(declaration.parent, |&at| outline.declarations[at].parent).count();
        let Declaration { kind, name, parameters, lines, head, .. } = declaration;
        let parameters = parameters.map_or(String::new(), |count| format!("/{count}"));
        let head = if head.is_empty() { String::new() } else { format!(" head {head:?}") };
        out += &format!("{}{kind:?} {name}{parameters} {lines:?}{head}\n", "  ".repeat(depth));
    }
    out
}

#[test]
fn outlines() {
    let texts = [
        (
            Language::Rust,
            "/// Doc.\n#[inline]\npub fn a(x: u8) {}\n\nimpl T for S {\n    const C: u8 = 1;\n    fn b(&self) {}\n}\nmod m {\n    struct S { f: u8 }\n}\n",
        ),
        (
            Language::Python,
            "X = 1\n\n@d\ndef f(a, b):\n    y = 2\n\nclass A:\n    # why\n    def g(self):\n        pass\n",
        ),
        (Language::JavaScript, "export function f(a) {}\nconst g = () => <a/>;\nclass A {\n  x = 1;\n  m() {}\n}\n"),
        (Language::TypeScript, "interface I { a: string; m(): void }\nenum E { A = 1 }\ntype T = string;\n"),
        (Language::Tsx, "export const A = (p: P) => <div/>;\n"),
        (
            Language::Go,
            "package p\n\n// F does.\nfunc F(a int) {}\n\nfunc (t *T) M() {}\n\ntype T struct {\n\ta int\n}\n\nconst (\n\tC = 1\n)\n",
        ),
        (Language::Java, "class A {\n  int x;\n  /** Doc. */\n  void m(int a, int b) {}\n}\n"),
        (Language::C, "struct s { int a; };\nint *f(int a);\nint *f(int a) { return 0; }\n#define M 1\n"),
        (Language::Cpp, "namespace n {\nclass A { void m(); };\nvoid A::m() {}\n}\n"),
        (Language::CSharp, "namespace N {\n  class A {\n    int P { get; set; }\n    void M(int a) {}\n  }\n}\n"),
        (Language::Ruby, "module M\n  class A\n    def f(a)\n    end\n  end\nend\n"),
        (Language::Php, "<?php\nclass A {\n  const C = 1;\n  public function f($a) {}\n}\n"),
        (Language::Json, "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"),
        (Language::Yaml, "a:\n  b: 1\nc:\n  - d: 2\n"),
        (Language::Toml, "[a]\nb = 1\n\n[[c]]\nd = 2\n"),
        (Language::Html, "<div id=\"x\">\n  <p id=y></p>\n</div>\n"),
        (Language::Css, "a, b { c: d }\n@media x { e { f: g } }\n"),
        (Language::Bash, "f() {\n  :\n}\nfunction g { :; }\n"),
        (Language::Lua, "local function a(x) end\nfunction M.b(y)\nend\nfunction M:c() end\n"),
        (
            Language::Zig,
            "const P = struct {\n    x: i32,\n    pub fn add(self: P) i32 {\n        return 1;\n    }\n};\n",
        ),
        (
            Language::Protobuf,
            "message A {\n  string b = 1;\n  enum C { X = 0; }\n}\nservice S { rpc G(A) returns (A); }\n",
        ),
        (Language::Hcl, "resource \"a\" \"b\" {\n  name = \"x\"\n}\n"),
        (Language::Vue, "<template>\n  <p id=\"x\" @click=\"f\">{{ a }}</p>\n</template>\n"),
    ];
    let all: String =
        texts.iter().map(|(language, text)| format!("# {}\n{}", language.name(), shown(*language, text))).collect();
    insta::assert_snapshot!(all);
}
