//! Merged texts that pass, and such that must not.

use super::*;
use crate::outcome::Code;
use proptest::prelude::*;

/// Verifies the replacement of the only place of `old`.
fn verified(path: &str, text: &str, old: &str, new: &str) -> Result<Checks, Refused> {
    let source = Source::read(text.as_bytes()).expect("text");
    let at = source.text.find(old).expect("it stands there");
    let splices = [Splice { old: at..at + old.len(), new: new.to_owned() }];
    let options = Options { path: Some(path.to_owned()), ..Options::default() };
    verify(&source, &splices, &source.with(&splices), new, Format::UnifiedDiff, &options, &mut |_| None)
}

#[test]
fn a_marker_is_not_left_behind() {
    let refused = verified("x.txt", "a\nb\n", "b\n", "c\n// ... existing code ...\n").expect_err("marker");
    assert_eq!(refused.code, Code::MarkerUnresolved);
    insta::assert_snapshot!(refused.to_string(), @"marker_unresolved: the marker `// ... existing code ...` (line 2 of the update) would be left in the merged text; show a line of the file on each side of the marker");
    let had = "a\n// ... existing code ...\n";
    assert!(verified("x.txt", had, had, "b\n// ... existing code ...\n").is_ok(), "the original has it");
}

#[test]
fn brackets_are_counted_where_no_parser_decides() {
    // Unknown to the parser here: the original has an error of its own.
    let text = "fn f() { let = 1; }\nfn g() {\n    h(\"}\", '}', r#\"\"}\"#); // }\n}\n";
    let checks = verified("x.rs", text, "fn g", "fn k() {}\nfn g").expect("balanced");
    assert_eq!(checks.brackets, Check::Passed);
    let refused = verified("x.rs", text, "// }\n}\n", "// }\n").expect_err("a bracket is gone");
    assert_eq!(refused.code, Code::SyntaxRegression);
    assert!(refused.message.starts_with("line 2: `{`"), "{}", refused.message);
}

proptest! {
    #[test]
    fn nothing_panics(
        text in "[a-z(){}\\[\\]\"'`#/*r\\\\\u{e9}\n:=.-]{0,60}",
        new in "[a-z(){}\\[\\]\"'`#/*r\\\\\u{e9}\n:=.-]{0,40}",
        from in 0usize..60,
        language in 0usize..18,
    ) {
        let source = Source::read(text.as_bytes()).expect("text");
        let from = source.bytes_of(0..from.min(source.line_count())).end;
        let splices = [Splice { old: from..source.text.len(), new: new.clone() }];
        let options = Options { language: Some(crate::Language::ALL[language]), ..Options::default() };
        let _ = verify(&source, &splices, &source.with(&splices), &new, Format::UnifiedDiff, &options, &mut |_| None);
    }
}

#[cfg(feature = "all-languages")]
mod with_trees {
    use super::*;

    #[test]
    fn a_new_syntax_error_is_refused() {
        let refused = verified(
            "x.py",
            "def f():\n    return 1\n\n\ndef g():\n    return 2\n",
            "    return 2\n",
            "    return (2\n",
        )
        .expect_err("an error");
        assert_eq!(refused.code, Code::SyntaxRegression);
        insta::assert_snapshot!(refused.to_string(), @"syntax_regression: line 6: the merged text has a syntax error that the original has not; show the lines around the change whole, with their brackets");
        assert_eq!(refused.candidates.len(), 1);
    }

    #[test]
    fn a_copy_beside_the_old_is_refused() {
        let cases = [
            ("x.rs", "fn a() {}\nfn b() {}\n", "fn b", "fn a() { b() }\nfn b"),
            ("x.rs", "impl X {\n    fn a() {}\n}\n", "    fn a", "    fn a() {}\n    fn a"),
            (
                "x.py",
                "class A:\n    def f(self): pass\n    def g(self): pass\n",
                "    def g",
                "    def f(self): return 1\n    def g",
            ),
            ("x.js", "function a() {}\nfunction b() {}\n", "function b", "function a() {}\nfunction b"),
            ("x.go", "package p\nfunc (t *T) A() {}\nfunc b() {}\n", "func b", "func (t *T) A() {}\nfunc b"),
            ("X.java", "class X {\n  void a(int x) {}\n  void b() {}\n}\n", "  void b", "  void a(int x) {}\n  void b"),
            ("x.json", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "  \"b\"", "  \"a\": 3,\n  \"b\""),
            ("x.yaml", "a:\n  b: 1\n  c: 2\n", "  c", "  b: 3\n  c"),
            ("x.toml", "[a]\nb = 1\nc = 2\n", "c", "b = 3\nc"),
            ("x.sh", "f() { :; }\ng() { :; }\n", "g()", "f() { ls; }\ng()"),
            ("x.c", "int f(void) { return 1; }\nint g;\n", "int g", "int f(void) { return 2; }\nint g"),
            ("x.rb", "class A\n  def f; end\n  def g; end\nend\n", "  def g", "  def f; 1; end\n  def g"),
            (
                "x.php",
                "<?php\nclass A {\n  function f() {}\n  function g() {}\n}\n",
                "  function g",
                "  function f() {}\n  function g",
            ),
        ];
        for (path, text, old, new) in cases {
            let source_at = text.find(old).expect("there");
            let refused = verified(path, text, &text[source_at..], &text[source_at..].replacen(old, new, 1));
            assert_eq!(refused.map_err(|refused| refused.code), Err(Code::SyntaxRegression), "{path}");
        }
    }

    #[test]
    fn what_languages_let_stand_twice_passes() {
        let cases = [
            ("x.rs", "#[cfg(a)]\nfn a() {}\n", "#[cfg(a)]\nfn a() {}\n#[cfg(not(a))]\nfn a() {}\n"),
            ("x.rs", "impl X {}\n", "impl X {}\nimpl X {}\nimpl A for X {}\n"),
            (
                "x.py",
                "class A:\n    @property\n    def f(self): pass\n",
                "class A:\n    @property\n    def f(self): pass\n    @f.setter\n    def f(self, x): pass\n",
            ),
            ("x.py", "x = 1\n", "x = 1\nx = x + 1\n"),
            ("x.ts", "function f(a: string): void\n", "function f(a: string): void\nfunction f(a: any) {}\n"),
            ("x.js", "class A { get x() {} }\n", "class A { get x() {}\nset x(v) {}\nstatic x() {} }\n"),
            ("X.java", "class X { void a() {} }\n", "class X { void a() {}\nvoid a(int x) {}\nvoid a(String x) {} }\n"),
            ("x.c", "int f(void);\n", "int f(void);\nint f(void) { return 1; }\n"),
            (
                "x.go",
                "package p\nfunc init() {}\nvar _ = 1\n",
                "package p\nfunc init() {}\nfunc init() {}\nvar _ = 1\nvar _ = 2\n",
            ),
            ("x.css", "a { b: c }\n", "a { b: c }\na { d: e }\n"),
            ("x.toml", "[[a]]\nb = 1\n", "[[a]]\nb = 1\n[[a]]\nb = 2\n"),
            ("x.yaml", "- a: 1\n", "- a: 1\n- a: 2\n"),
        ];
        for (path, text, new) in cases {
            let checks = verified(path, text, text, new).unwrap_or_else(|refused| panic!("{path}: {refused}"));
            assert_eq!(checks.parse, Check::Passed, "{path}");
        }
    }

    #[test]
    fn deep_nesting_ends() {
        for (path, open) in
            [("x.js", "("), ("x.json", "["), ("x.rs", "{"), ("x.py", "[{("), ("x.html", "<a>"), ("x.cpp", "a<")]
        {
            let text = open.repeat(100_000) + "\n";
            let _ = verified(path, &text, "\n", "\nx\n");
        }
    }
}
