//! The declarations of a text: kinds, names and lines, by a table per language.
//!
//! Invariant: declarations come in the order of the text, parents before their children, and every walk is linear in
//! the tree.

use super::rules::{Kind, Name, Rule, is_head, is_wrapper, rules};
use crate::language::Language;
use serde::Serialize;
use std::ops::Range;
use tree_sitter::{Node, Tree, TreeCursor};

/// Longer chains of declarators are not followed, to bound the work.
const MAX_DECLARATORS: usize = 16;

/// Something that is declared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Declaration {
    pub kind: Kind,
    pub name: String,
    /// How many parameters it has, if it can have any.
    pub parameters: Option<usize>,
    /// The text of its parameters without white space, and words such as `static` before its name.
    pub signature: String,
    /// Its lines, counted from 0, without its head.
    pub lines: Range<usize>,
    /// Comments and attributes directly above it.
    pub head: Range<usize>,
    /// The declaration around it.
    pub parent: Option<usize>,
    /// The node around it; equal for siblings only.
    pub scope: usize,
    /// Whether attributes or decorators stand on it.
    pub decorated: bool,
}

/// The declarations of a text.
#[derive(Clone, Debug)]
pub(crate) struct Outline {
    /// In order.
    pub declarations: Vec<Declaration>,
}

/// A node on the way from the root to where the walk is.
struct Frame {
    declaration: Option<usize>,
    scope: usize,
    /// The first line of comments and attributes that end on the line before the next sibling, whether attributes are among
    /// them, and the line after them.
    head: Option<(usize, bool, usize)>,
    /// First line of the wrapper, if this is one.
    wrapper: Option<usize>,
}

impl Outline {
    /// The outline of a text whose tree is there.
    pub(crate) fn of_tree(language: Language, text: &str, tree: &Tree) -> Outline {
        Outline { declarations: Walk { rules: rules(language), text, found: Vec::new() }.all(tree) }
    }

    /// The names of the declarations around one, outermost first, and its own.
    pub(crate) fn path(&self, mut at: usize) -> String {
        let mut names = vec![&*self.declarations[at].name];
        while let Some(parent) = self.declarations[at].parent {
            names.push(&self.declarations[parent].name);
            at = parent;
        }
        names.reverse();
        names.join("\u{1f}")
    }
}

/// The lines of error nodes and missing nodes, in order.
pub(crate) fn errors(tree: &Tree) -> Vec<usize> {
    let mut found = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            found.push(node.start_position().row);
        }
        if node.has_error() && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return found;
            }
        }
    }
}

/// The line of the first head of Python whose block holds nothing but comments: its grammar lets that pass, and Python does not.
pub(crate) fn head_without_block(tree: &Tree) -> Option<usize> {
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        let holds = |block: Node<'_>| {
            (0..block.named_child_count()).any(|at| block.named_child(at as u32).is_some_and(|child| !child.is_extra()))
        };
        if let Some(block) = node.child_by_field_name("body").filter(|block| block.kind() == "block" && !holds(*block))
        {
            return Some(block.start_position().row.min(node.start_position().row));
        }
        if node.named_child_count() > 0 && cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return None;
            }
        }
    }
}

struct Walk<'t> {
    rules: &'static [Rule],
    text: &'t str,
    found: Vec<Declaration>,
}

impl Walk<'_> {
    fn all(mut self, tree: &Tree) -> Vec<Declaration> {
        let mut cursor = tree.walk();
        let mut frames = vec![Frame { declaration: None, scope: tree.root_node().id(), head: None, wrapper: None }];
        if !cursor.goto_first_child() {
            return self.found;
        }
        loop {
            if self.enter(&cursor, &mut frames) && cursor.goto_first_child() {
                continue;
            }
            frames.pop();
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() || frames.len() <= 1 {
                    return self.found;
                }
                frames.pop();
            }
        }
    }

    /// Reads a node and opens its frame; whether to descend into it.
    fn enter(&mut self, cursor: &TreeCursor<'_>, frames: &mut Vec<Frame>) -> bool {
        let node = cursor.node();
        let kind = node.kind();
        let up = frames.last_mut().expect("the root's frame stays");
        let (first, last) = (node.start_position().row, node.end_position().row);
        // A comment belongs to a declaration that begins on its last line or the next.
        let mut head = up.head.filter(|&(_, _, next)| first == next);
        if is_head(kind) {
            let attribute = !kind.contains("comment");
            // A comment that ends with its line has its end on the next one.
            let next = if node.end_position().column == 0 { last } else { last + 1 };
            up.head = Some(match head {
                Some((start, before, _)) => (start, before || attribute, next),
                None => (first, attribute, next),
            });
        } else {
            up.head = None;
        }
        let is_wrapped = up.wrapper.is_some();
        if head.is_none() && is_wrapped {
            head = up.wrapper.filter(|&start| start < first).map(|start| (start, true, first));
        }
        let (parent, outer) = (up.declaration, up.scope);
        let rule = self.rules.iter().find(|rule| rule.0 == kind);
        let declared = rule.and_then(|rule| self.declaration(node, *rule, parent, outer));
        let mut frame = Frame { declaration: parent, scope: node.id(), head: None, wrapper: None };
        let mut inside = true;
        if let Some(mut declaration) = declared {
            if let Some((start, attribute, _)) = head {
                declaration.head = start..first;
                declaration.decorated |= attribute;
            }
            inside = !matches!(declaration.kind, Kind::Function | Kind::Signature);
            self.found.push(declaration);
            frame.declaration = Some(self.found.len() - 1);
        } else if is_wrapper(kind) {
            frame.scope = outer;
            frame.wrapper = Some(head.map_or(first, |(start, ..)| start));
        }
        frames.push(frame);
        inside
    }

    fn declaration(&self, node: Node<'_>, rule: Rule, parent: Option<usize>, scope: usize) -> Option<Declaration> {
        let Rule(_, mut kind, from) = rule;
        // C names a struct wherever it is used; it is declared where its body is.
        if node.kind().ends_with("_specifier") && node.child_by_field_name("body").is_none() {
            return None;
        }
        let name = self.name(node, from)?;
        let mut list = node.child_by_field_name("parameters");
        if from == Name::Declarator {
            list = declarators(node)
                .filter(|it| it.kind() == "function_declarator")
                .last()
                .and_then(|it| it.child_by_field_name("parameters"));
            if list.is_none() && kind == Kind::Signature {
                kind = Kind::Constant;
            }
        }
        let mut signature = String::new();
        for at in 0..node.child_count().min(4) {
            let word = node.child(at).map_or("", |child| child.kind());
            if matches!(word, "static" | "get" | "set" | "async" | "*") {
                signature.push_str(word);
            }
        }
        signature.extend(list.map_or("", |list| self.part(list)).chars().filter(|c| !c.is_whitespace()));
        let lines = node.start_position().row..end_line(node);
        Some(Declaration {
            kind,
            name,
            parameters: list.map(|list| list.named_child_count()),
            signature,
            head: lines.start..lines.start,
            lines,
            parent,
            scope,
            decorated: false,
        })
    }

    fn name(&self, node: Node<'_>, from: Name) -> Option<String> {
        let field = |name: &str| node.child_by_field_name(name).map(|it| self.part(it));
        let name = match from {
            Name::In(name) => field(name)?.to_owned(),
            Name::First => self.part(node.named_child(0)?).to_owned(),
            Name::Declarator => {
                let last = declarators(node).last()?;
                self.part(last).to_owned()
            }
            Name::Impl => match field("trait") {
                Some(of) => format!("{of} for {}", field("type")?),
                None => field("type")?.to_owned(),
            },
            Name::Method => {
                let receiver = field("receiver")?.trim_matches(['(', ')']);
                let of = receiver.rsplit([' ', '*']).next().unwrap_or_default();
                format!("{of}.{}", field("name")?)
            }
            Name::Id => self.id(node)?,
        };
        // Long keys and destructured names are no names.
        (name.len() <= 256 && !name.contains('\n')).then_some(name)
    }

    fn id(&self, element: Node<'_>) -> Option<String> {
        let tag = element.named_child(0)?;
        let mut cursor = tag.walk();
        let attribute =
            tag.named_children(&mut cursor).find(|it| it.named_child(0).is_some_and(|it| self.part(it) == "id"))?;
        Some(self.part(attribute.named_child(1)?).trim_matches(['"', '\'']).to_owned())
    }

    fn part(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

fn declarators<'t>(node: Node<'t>) -> impl Iterator<Item = Node<'t>> {
    std::iter::successors(node.child_by_field_name("declarator"), |it| {
        it.child_by_field_name("declarator")
            .or_else(|| (it.kind() == "reference_declarator").then(|| it.named_child(0)).flatten())
    })
    .take(MAX_DECLARATORS)
}

/// The line after the last one of a node.
fn end_line(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 && end.row > node.start_position().row { end.row } else { end.row + 1 }
}

#[cfg(all(test, feature = "all-languages"))]
mod tests;
