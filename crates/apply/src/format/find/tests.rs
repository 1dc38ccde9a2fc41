//! Blocks that stand once, several times, or nearly.

use super::*;

fn found(text: &str, block: &str, near: Option<usize>) -> Result<Range<usize>, Code> {
    let source = Source::read(text.as_bytes()).expect("text");
    let finder = Finder::new(&source);
    let block: Vec<&str> = block.lines().collect();
    let wanted = Wanted { near, ..Wanted::anywhere("the block", &source) };
    finder.find(&block, &wanted).map(|place| place.lines).map_err(|refused| refused.code)
}

#[test]
fn one_exact_place_wins_over_loose_ones() {
    assert_eq!(found("  a\na\na \n", "a", None), Ok(1..2));
    assert_eq!(found("  a\na \n", "a", None), Ok(1..2), "an indentation is more than a blank");
    assert_eq!(found("  a\n", "a", None), Ok(0..1));
    assert_eq!(found("  a\n    a\n", "a", None), Err(Code::AmbiguousLocation));
    assert_eq!(found("a\nb\na\nb\n", "a\nb", None), Err(Code::AmbiguousLocation));
    assert_eq!(found("a\na\na\n", "a\na", None), Err(Code::AmbiguousLocation), "places that overlap");
}

#[test]
fn the_indentation_shifts_as_one() {
    assert_eq!(found("\tif x\n\t\ty\n", "if x\n\ty", None), Ok(0..2));
    assert_eq!(found("  if x\n      y\n", "if x\n  y", None), Err(Code::NoAnchor));
    assert_eq!(found("  if x\n    y\n", "\tif x\n\t\ty", None), Err(Code::NoAnchor), "tabs are no number of spaces");
}

#[test]
fn case_and_inner_lines_are_not_forgiven() {
    assert_eq!(found("Foo\n", "foo", None), Err(Code::NoAnchor));
    assert_eq!(found("a\nb\nc\n", "a\nx\nc", None), Err(Code::NoAnchor));
    assert_eq!(found("a\n\nb\n", "a\nb", None), Err(Code::NoAnchor));
}

#[test]
fn a_number_chooses_only_if_one_place_is_near() {
    let text = "a\n".to_owned() + &"x\n".repeat(18) + "a\n";
    assert_eq!(found(&text, "a", Some(3)), Ok(0..1));
    assert_eq!(found(&text, "a", Some(15)), Ok(19..20));
    assert_eq!(found(&text, "a", Some(9)), Err(Code::AmbiguousLocation), "both are in reach");
    assert_eq!(found(&text, "a", Some(usize::MAX - 20)), Err(Code::AmbiguousLocation));
}

#[test]
fn hostile_repetition_ends() {
    let text = "a\n".repeat(1 << 18);
    let source = Source::read(text.as_bytes()).expect("text");
    let finder = Finder::new(&source);
    let block = vec!["a"; 1 << 17];
    let wanted = Wanted::anywhere("the block", &source);
    assert_eq!(finder.find(&block, &wanted).map_err(|it| it.code), Err(Code::AmbiguousLocation));
    // Every place is tried to its last line.
    let text = ("a\n".repeat(999) + "b\n").repeat(1000);
    let source = Source::read(text.as_bytes()).expect("text");
    let finder = Finder::new(&source);
    let block = vec!["a"; 1000];
    let wanted = Wanted::anywhere("the block", &source);
    assert!(finder.find(&block, &wanted).is_err());
}
