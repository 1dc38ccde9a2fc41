//! Whole files, and what only looks like one.

use super::*;

fn whole(original: &str, update: &str) -> Result<Located, Refused> {
    locate(&Source::read(original.as_bytes()).expect("text"), update, &Options::default())
}

#[test]
fn only_lines_that_differ_are_touched() {
    let located = whole("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n").expect("a file");
    let changes: Vec<(usize, usize, &str)> =
        located.splices.iter().map(|it| (it.old.start, it.old.end, it.new.as_str())).collect();
    assert_eq!(changes, [(2, 4, "x\n"), (8, 8, "e\n")]);
    assert_eq!(whole("a\nb\n", "a\nb").map(|it| it.splices), Ok(Vec::new()), "nothing to do is no mistake");
    assert_eq!(whole("", "a").map(|it| it.splices[0].new.clone()), Ok("a\n".into()));
}

#[test]
fn declarations_have_names() {
    assert_eq!(declared("pub(crate) async fn merge<T>(a: T) {"), Some("merge"));
    assert_eq!(declared("    def __init__(self):"), Some("__init__"));
    assert_eq!(declared("export default class App extends B {"), Some("App"));
    assert_eq!(declared("func (s *Server) Serve() {"), Some("Serve"));
    assert_eq!(declared("the function is called once"), None);
    assert_eq!(declared("type"), None);
    assert_eq!(declared("const = "), None);
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let file: String = (0..6).map(|number| format!("fn f{number}() {{\n    go();\n}}\n")).collect();
    let cut: String = (0..2).map(|number| format!("fn f{number}() {{\n    go();\n}}\n")).collect();
    let refused = whole(&file, &cut).expect_err("four of six are lost");
    insta::assert_snapshot!(format!("{refused} {:?}", refused.candidates));
    assert!(
        whole(&file, &file.replace("f1", "g1").replace("f2", "g2").replace("f3", "g3")).is_ok(),
        "half of them stay"
    );
}

#[test]
fn markers_are_refused_unless_the_file_has_them() {
    let marker = "// ... existing code ...";
    let refused = whole("a\nb\n", &format!("a\n{marker}\n")).expect_err("a marker");
    insta::assert_snapshot!(refused.to_string());
    assert!(whole(&format!("a\n  {marker}\n"), &format!("b\n{marker}\n")).is_ok());
}
