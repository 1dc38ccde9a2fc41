//! What a line declares or assigns, by its words alone: `fn foo(` declares foo, `timeout: 30,` assigns timeout.
//!
//! Invariant: a key is a part of its line; lines without one have none, so a wrong key costs an anchor and never
//! invents one.

/// Modifiers before a declaration.
const MODIFIERS: &[&str] = &[
    "pub",
    "pub(crate)",
    "pub(super)",
    "export",
    "default",
    "declare",
    "async",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "final",
    "abstract",
    "override",
    "virtual",
    "sealed",
    "inline",
    "constexpr",
    "unsafe",
    "extern",
    "readonly",
    "partial",
    "suspend",
    "open",
    "data",
    "local",
    "mut",
    "fileprivate",
    "required",
    "convenience",
    "mutating",
    "nonmutating",
    "nonisolated",
    "indirect",
    "lazy",
    "weak",
    "lateinit",
    "actual",
    "expect",
    "companion",
    "infix",
    "operator",
    "tailrec",
    "external",
    "implicit",
    "explicit",
    "friend",
    "late",
    "synchronized",
    "transient",
    "volatile",
];

/// Words after which the name of a type comes, or of what holds others.
const TYPES: &[&str] = &[
    "class",
    "struct",
    "enum",
    "trait",
    "interface",
    "impl",
    "namespace",
    "type",
    "record",
    "object",
    "union",
    "protocol",
    "extension",
];

/// Words after which the name of another declaration comes.
const FUNCTIONS_AND_MODULES: &[&str] =
    &["fn", "def", "function", "function*", "func", "mod", "module", "macro_rules!", "sub", "task"];

/// Words after which the name of a value comes.
const BINDING: &[&str] = &["let", "const", "var", "val", "static", "final", "auto", "local", "my"];

/// Words that begin statements and never declarations.
const STATEMENTS: &[&str] = &[
    "if", "else", "for", "while", "switch", "case", "return", "catch", "new", "throw", "do", "try", "with", "match",
    "elif", "except", "when", "until", "unless", "await", "yield", "delete", "assert", "print", "echo", "raise",
    "import", "from", "use", "using", "require", "include", "#include", "package", "}", "end", "not", "and", "or",
    "in", "lambda", "select",
];

/// Calls whose first text names a block of a test.
const NAMED_CALLS: &[&str] =
    &["test(", "it(", "describe(", "context(", "test.each(", "it.only(", "specify(", "TEST(", "TEST_F("];

/// The name that a line declares or assigns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key<'t> {
    /// It declares something with a body: a function, a type, a test.
    Declares(&'t str),
    /// It gives a value to a name: a variable, a field, an entry.
    Assigns(&'t str),
}

impl<'t> Key<'t> {
    /// The name.
    pub fn name(self) -> &'t str {
        match self {
            Key::Declares(name) | Key::Assigns(name) => name,
        }
    }
}

/// The key of a line.
pub(crate) fn key(line: &str) -> Option<Key<'_>> {
    let line = line.trim();
    let first = line.chars().next()?;
    if !(first.is_alphanumeric() || matches!(first, '<' | '_' | '$' | '"' | '\'' | '@' | '.' | '#' | '-' | '[')) {
        return None;
    }
    if first == '<' {
        return named_element(line);
    }
    named_call(line).or_else(|| declared(line)).or_else(|| assigned(line))
}

/// Words that begin the lines which bring names from elsewhere.
const BRINGING: &[&str] =
    &["import", "from", "use", "using", "#include", "require", "require_relative", "alias", "export"];

/// What a line brings from elsewhere: `import a.b.C;` brings a.b.C, `import { x } from "y"` what is in y.
pub(super) fn brought(line: &str) -> Option<&str> {
    let line = line.trim();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (word, rest) = line.split_once(|letter: char| letter.is_whitespace() || letter == '(')?;
    let rest = rest.trim().strip_prefix("static ").unwrap_or(rest.trim());
    if !BRINGING.contains(&word) {
        return None;
    }
    // The place that things come from stands in quotes, or first.
    let quoted =
        rest.find(['"', '\'', '<']).filter(|at| word != "use" && (*at == 0 || rest[*at..].starts_with(['"', '\''])));
    let name = match quoted {
        Some(at) => rest[at + 1..].split(['"', '\'', '>']).next()?,
        None if word == "export" => return None,
        None => rest.split(|letter: char| letter.is_whitespace() || matches!(letter, ';' | ',' | '{')).next()?,
    };
    (!name.is_empty()).then_some(name)
}

/// The names that a line brings, where they stand apart from the place that they come from: `import { x } from "y"`, `from y import x`.
fn names_brought(line: &str) -> Option<&str> {
    let line = line.trim();
    match line.strip_prefix("from ") {
        Some(rest) => rest.split_once(" import ").map(|(_, names)| names),
        None => line.split_once(" from ").map(|(names, _)| names.strip_prefix("import type ").unwrap_or(names)),
    }
    .map(|names| names.strip_prefix("import ").unwrap_or(names))
}

/// The last word of a path that brings a name of its own: `Item` of `a::b::Item` and `a.b.Item`, `item.hpp` of `a/b/item.hpp`.
fn item(path: &str) -> Option<&str> {
    if let Some((_, file)) = path.rsplit_once('/') {
        return Some(file);
    }
    let (_, item) = path.rsplit_once("::").or_else(|| path.rsplit_once('.'))?;
    item.starts_with(|first: char| first.is_uppercase()).then_some(item)
}

/// Whether both lines bring names from elsewhere, and from different places. Such lines are a set without an order: a new one stands for none
/// of the others.
pub(super) fn bring_others(one: &str, other: &str) -> bool {
    let may = |line: &str| line.trim_start().starts_with(['i', 'f', 'u', '#', 'r', 'a', 'p', 'e']);
    if !may(one) || !may(other) {
        return false;
    }
    // The same names from another place.
    let names = names_brought(one);
    let names_are_same = names.is_some() && names_brought(other) == names;
    let (Some(one), Some(other)) = (brought(one), brought(other)) else { return false };
    // `use a::b::{C, D}` and `import a.b.*` are other forms of `use a::b::C` and `import a.b.C`, and `.b` of `a.b`.
    let is_of = |list: &str, item: &str| {
        let list = list.strip_suffix('*').unwrap_or(list);
        list.ends_with(['.', ':']) && item.starts_with(list)
    };
    let last = |name: &str| name.rsplit(['.', '/']).next().map(str::to_owned);
    let is_form = |near: &str, far: &str| near.starts_with('.') && last(near) == last(far);
    // Of two that bring one name a file has one. Where names stand apart from the place that they come from, the place brings none.
    let names_are_same = names_are_same || names.is_none() && item(one).is_some() && item(one) == item(other);
    one != other
        && !names_are_same
        && ![(one, other), (other, one)].iter().any(|(one, other)| is_of(one, other) || is_form(one, other))
}

/// Whether a word begins statements and never declarations.
pub(super) fn is_statement(word: &str) -> bool {
    STATEMENTS.contains(&word)
}

/// The name that a line declares, if it begins something with a body.
pub(crate) fn declared_name(line: &str) -> Option<&str> {
    let line = line.trim();
    match named_call(line).or_else(|| declared(line))? {
        Key::Declares(name) => Some(name),
        Key::Assigns(_) => None,
    }
}

/// The word behind modifiers that declares or binds a name, or the call that names a test.
pub(super) fn introducing(line: &str) -> Option<&str> {
    let line = line.trim();
    let call = NAMED_CALLS.iter().find(|call| line.starts_with(**call));
    let word = line.split_whitespace().find(|word| !word.starts_with('@') && !MODIFIERS.contains(word));
    let word = word.map(|word| word.split('<').next().unwrap_or(word));
    call.copied().or(word.filter(|word| is_declaring(word) || BINDING.contains(word)))
}

/// Whether a line declares a type, or what holds others.
pub(super) fn declares_type(line: &str) -> bool {
    introducing(line).is_some_and(|word| TYPES.contains(&word))
}

/// Whether the name of a declaration comes after a word.
fn is_declaring(word: &str) -> bool {
    TYPES.contains(&word) || FUNCTIONS_AND_MODULES.contains(&word)
}

/// `<tag id="name"`: the attribute that names an element.
fn named_element(line: &str) -> Option<Key<'_>> {
    let start = [" id=\"", " name=\"", " key=\""].iter().filter_map(|name| line.find(name)).min()? + 1;
    let value = line[start..].find('"')? + start + 1;
    let end = line[value..].find('"')? + value + 1;
    Some(Key::Assigns(&line[start..end]))
}

fn named_call(line: &str) -> Option<Key<'_>> {
    let call = NAMED_CALLS.iter().find(|call| line.starts_with(**call))?;
    let inside = &line[call.len()..];
    let quote = inside.chars().next()?;
    if !matches!(quote, '"' | '\'' | '`') {
        // TEST(Suite, Name)
        let name = inside.split(')').next()?.trim();
        return (!name.is_empty() && call.starts_with("TEST")).then_some(Key::Declares(name));
    }
    let name = inside[1..].split(quote).next()?;
    (!name.is_empty()).then_some(Key::Declares(name))
}

fn declared(line: &str) -> Option<Key<'_>> {
    let mut rest = line;
    let mut is_modified = false;
    loop {
        let word = rest.split_whitespace().next()?;
        if word.starts_with('@') || MODIFIERS.contains(&word) {
            is_modified |= !word.starts_with('@');
            rest = rest[word.len()..].trim_start();
            continue;
        }
        if STATEMENTS.contains(&word.split('(').next().unwrap_or(word)) {
            return None;
        }
        // `impl<T>`: what a word is bound to is no part of it.
        let word = word.split('<').next().unwrap_or(word);
        if is_declaring(word) {
            return after_declaring(rest[word.len()..].trim_start());
        }
        if BINDING.contains(&word) {
            let value = rest[word.len()..].trim_start();
            // `const val` of Kotlin.
            let value = ["val ", "var "].iter().find_map(|word| value.strip_prefix(word)).unwrap_or(value);
            return bound(value).or_else(|| signature(rest));
        }
        return signature(rest).or_else(|| member(rest).filter(|_| is_modified));
    }
}

/// `Type name;`, `Type name = value;`, `Type Name { get; set; }` behind a modifier, as fields and properties are written, and `$name` of PHP.
fn member(rest: &str) -> Option<Key<'_>> {
    let end = rest.find(['=', ';', '{']).unwrap_or(rest.len());
    let head = rest[..end].trim_end();
    if end == rest.len() || head.contains(['(', '"', '\'']) {
        return None;
    }
    let name = head.rsplit(char::is_whitespace).next()?;
    let is_typed = name.starts_with('$') || name.len() < head.len();
    let is_name = name.chars().all(|sign| sign.is_alphanumeric() || matches!(sign, '_' | '$'));
    (is_typed && is_name && !name.is_empty()).then_some(Key::Declares(name))
}

/// The name after `fn`, `class`, `impl` and their like.
fn after_declaring(rest: &str) -> Option<Key<'_>> {
    // A receiver: `func (r *Router) Name(`.
    let rest = match rest.strip_prefix('(') {
        Some(receiver) => receiver.split_once(')')?.1.trim_start(),
        None => rest,
    };
    // Parameters of a type: `impl<T> Name<T> for X`. The whole head identifies such blocks.
    let rest = if rest.starts_with('<') { rest.split_once('>')?.1.trim_start() } else { rest };
    let end = rest
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | ':' | '?' | '!')))
        .unwrap_or(rest.len());
    let name = rest[..end].trim_end_matches(':');
    let name = match rest.split_once(" for ") {
        Some((_, subject)) if !name.is_empty() && !rest.contains('(') => {
            let head = rest.len() - subject.len() + subject.find(['{', ' ']).unwrap_or(subject.len());
            rest[..head].trim_end()
        }
        _ => name,
    };
    (!name.is_empty()).then_some(Key::Declares(name))
}

/// `const name = (…) => {` declares a function; anything else that is bound only assigns.
fn bound(rest: &str) -> Option<Key<'_>> {
    let rest = rest.strip_prefix("mut ").unwrap_or(rest);
    let name = name_at(rest)?;
    let after = rest[name.len()..].trim_start();
    // A type before a name, as in `const std::string name()`, is no name.
    if !after.is_empty() && (after.starts_with("::") || !after.starts_with(['=', ':', ';', ',', '?', '!'])) {
        return None;
    }
    let value = rest[name.len()..].split_once('=').map_or("", |(_, value)| value.trim());
    let function = (value.contains("=>") && value.ends_with('{'))
        || value.starts_with("function")
        || value.starts_with("async function");
    Some(if function { Key::Declares(name) } else { Key::Assigns(name) })
}

/// `Type name(parameters) {` as C, Java and their like write it.
fn signature(rest: &str) -> Option<Key<'_>> {
    let has_body = rest.contains(") {") || rest.contains(") const {");
    if !(rest.ends_with('{') || rest.ends_with(')') || rest.ends_with(") const") || has_body) {
        return None;
    }
    let (head, _) = rest.split_once('(')?;
    if head.contains(['=', '"', '\'', ';', ',']) || head.contains("->") {
        return None;
    }
    let start = head
        .char_indices()
        .rev()
        .find(|(_, c)| !(c.is_alphanumeric() || matches!(c, '_' | '~' | ':' | '$' | '#')))
        .map_or(0, |(at, c)| at + c.len_utf8());
    let name = &head[start..];
    let typed = !head[..start].trim().is_empty();
    // A method of a class in JavaScript has no type before it, and a call ends without a brace.
    let declares = if typed { !head[..start].trim_end().ends_with('.') } else { rest.ends_with('{') };
    (declares && !name.is_empty() && !STATEMENTS.contains(&name)).then_some(Key::Declares(name))
}

/// `name = value`, `name: value`, `"name": value`.
fn assigned(line: &str) -> Option<Key<'_>> {
    let line = line.strip_prefix("- ").unwrap_or(line);
    let quote = line.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (name, rest) = match quote {
        Some(quote) => {
            let end = line[1..].find(quote)? + 2;
            (&line[..end], &line[end..])
        }
        None => {
            let name = name_at(line)?;
            (name, &line[name.len()..])
        }
    };
    if STATEMENTS.contains(&name) {
        return None;
    }
    let rest = rest.trim_start();
    let assigns = match rest.chars().next()? {
        ':' => !rest.starts_with("::"),
        '=' => !rest.starts_with("==") && !rest.starts_with("=>"),
        _ => false,
    };
    assigns.then_some(Key::Assigns(name))
}

/// The dotted name at the beginning.
fn name_at(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-' | '@' | '[' | ']')))
        .unwrap_or(text.len());
    let name = text[..end].trim_end_matches('-');
    (name.chars().any(char::is_alphanumeric)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declares(line: &str) -> Option<&str> {
        declared_name(line)
    }

    #[test]
    fn declarations_of_many_languages_have_their_names() {
        for (line, name) in [
            ("pub(crate) async fn foo(a: u32) -> Bar {", "foo"),
            ("    def bar(self, x):", "bar"),
            ("export default class Widget extends Base {", "Widget"),
            ("func (r *Router) Handle(path string) {", "Handle"),
            ("impl<T> Display for Wrapper<T> {", "Display for Wrapper<T>"),
            ("impl Wrapper {", "Wrapper"),
            ("public static final List<String> names(int n) {", "names"),
            ("const load = async (id) => {", "load"),
            ("it('loads the user', async () => {", "loads the user"),
            ("TEST(Suite, Name) {", "Suite, Name"),
            ("  render() {", "render"),
            ("static int count_words(const char *text)", "count_words"),
            ("interface Options {", "Options"),
            ("public string Name { get; set; } = new();", "Name"),
            ("private readonly Map<Method, Handler> handlers = new HashMap<>();", "handlers"),
            ("protected $table = 'users';", "$table"),
            ("private int count;", "count"),
            ("fileprivate class Cart: Equatable {", "Cart"),
            ("mutating func add(_ item: Item) {", "add"),
        ] {
            assert_eq!(declares(line), Some(name), "{line}");
        }
        for line in [
            "if (x) {",
            "return foo(bar)",
            "foo(bar);",
            "} else if (a) {",
            "x = foo(",
            "import a from 'b'",
            "for (;;) {",
            "",
            "}",
        ] {
            assert_eq!(declares(line), None, "{line}");
        }
    }

    #[test]
    fn lines_that_bring_names_from_elsewhere_stand_for_none_of_another_place() {
        for (one, other) in [
            ("import a.b.Cart;", "import a.b.Item;"),
            ("use std::io;", "use std::fmt;"),
            ("using Shop.Cart;", "using Shop;"),
            ("import { a } from './one';", "import { b } from './two';"),
            ("#include <vector>", "#include <string>"),
            ("#include \"cart.Hpp\"", "#include \"shop/item.Hpp\""),
            ("from shop import cart", "from store import item"),
        ] {
            assert!(bring_others(one, other) && bring_others(other, one), "{one} {other}");
        }
        for (one, other) in [
            ("use std::io::Read;", "use std::io::{Read, Write};"),
            ("import { a } from './one';", "import { a, b } from './one';"),
            ("from shop import cart", "from shop import cart, item"),
            ("from shop.cart import add", "from .cart import add"),
            ("import { a } from './one';", "import { a } from './two';"),
            ("import { a } from './one';", "import type { a } from './two';"),
            ("from shop import cart", "from store import cart"),
            ("use serde::de::Deserialize;", "use serde_core::de::Deserialize;"),
            ("alias Shop.Cart", "alias Store.Trade.Cart"),
            ("import shop.items.Cart", "import shop.items.*"),
            ("require 'shop/cart'", "require 'shop/items/cart'"),
            ("#include <shop/cart.hpp>", "#include <store/cart.hpp>"),
            ("import a.b.Cart;", "items.add(one);"),
        ] {
            assert!(!bring_others(one, other) && !bring_others(other, one), "{one} {other}");
        }
    }

    #[test]
    fn values_have_the_name_that_they_are_given_to() {
        for (line, name) in [
            ("let mut total = 0;", "total"),
            ("timeout: 30,", "timeout"),
            ("\"version\": \"1.0\",", "\"version\""),
            ("self.count = 3", "self.count"),
            ("name = \"x\"", "name"),
            ("  - key: value", "key"),
            ("private lateinit var cart: Cart", "cart"),
            ("public actual val ZERO: Offset = Offset(0)", "ZERO"),
            ("internal const val HOURS = 24", "HOURS"),
        ] {
            assert_eq!(key(line), Some(Key::Assigns(name)), "{line}");
        }
        for line in ["a == b", "foo::bar()", "x => y", "} else {", "// a: b", "return a = b"] {
            assert_eq!(key(line), None, "{line}");
        }
    }
}
