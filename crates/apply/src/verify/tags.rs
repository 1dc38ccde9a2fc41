//! Checks that tags which are closed stay closed, in XML and what is written like it.
//!
//! Skipped for originals with tags that are not closed, as HTML allows. Invariant: one pass over each text.

use super::without_partner;
use crate::language::Language;
use crate::options::Options;
use crate::outcome::{Check, Refused};
use crate::source::Source;
use crate::splice::Splice;
use memchr::{memchr, memmem};

/// Endings of files that hold XML.
const XML: [&str; 15] = [
    "xml", "svg", "xsd", "xsl", "xslt", "xhtml", "plist", "xaml", "resx", "csproj", "props", "targets", "wsdl", "rss",
    "fxml",
];
/// Elements of HTML that have no end.
const VOID: [&str; 14] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
/// Elements of HTML whose text has no tags.
const RAW: [&str; 2] = ["script", "style"];

/// Checks that the merged text (with LF) closes its tags if the original does; none where the file has no tags that must be closed.
pub(super) fn check(
    source: &Source,
    splices: &[Splice],
    text: &str,
    options: &Options,
) -> Option<Result<Check, Refused>> {
    let is_xml = || {
        let ending = options.path.as_deref().and_then(|path| path.rsplit_once('.'));
        ending.is_some_and(|(_, ending)| XML.iter().any(|xml| xml.eq_ignore_ascii_case(ending)))
    };
    let is_html = match options.language() {
        Some(Language::Html | Language::Vue | Language::Svelte) => !is_xml(),
        None if is_xml() => false,
        _ => return None,
    };
    if splices.is_empty() {
        return Some(Ok(Check::Passed));
    }
    if unclosed(&source.text, is_html).is_some() {
        return Some(Ok(Check::Skipped("the original has tags that are not closed")));
    }
    let Some(at) = unclosed(text, is_html) else { return Some(Ok(Check::Passed)) };
    let tag: String = text[at..].chars().take_while(|sign| !sign.is_whitespace() && *sign != '>').collect();
    let found = format!("`{tag}>` has no partner in the merged text, and the original has one for each tag");
    let hint = "show the lines around the change whole, with their tags";
    Some(Err(without_partner(source, splices, text, at, &found, hint)))
}

/// The place of the first tag without a partner.
fn unclosed(text: &str, is_html: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr(b'<', &bytes[at..]) {
        let start = at + found;
        let rest = &text[start..];
        let is_end = rest.as_bytes().get(1) == Some(&b'/');
        let name = name(&rest[1 + usize::from(is_end)..]);
        if let Some(past) = past_other(rest) {
            at = start + past;
            continue;
        }
        if name.is_empty() {
            at = start + 1;
            continue;
        }
        let (past, is_empty) = past_tag(rest.as_bytes());
        at = start + past;
        let is = |other: &&str| name.eq_ignore_ascii_case(other);
        if is_end {
            let is_partner = |other: &str| if is_html { is(&other) } else { name == other };
            if !open.pop().is_some_and(|(_, other)| is_partner(other)) {
                return Some(start);
            }
        } else if !(is_empty || is_html && VOID.iter().any(is)) {
            open.push((start, name));
            if is_html && RAW.iter().any(is) {
                at += end_of_raw(&text[at..], name);
            }
        }
    }
    open.first().map(|(start, _)| *start)
}

/// The name at the beginning of a text.
fn name(text: &str) -> &str {
    let is_name = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | ':' | '-' | '.');
    let end = text.find(|sign: char| !is_name(sign)).unwrap_or(text.len());
    if text.starts_with(|first: char| first.is_alphabetic() || first == '_') { &text[..end] } else { "" }
}

/// The length of a comment, a section of text, a declaration or an instruction that a text begins with.
fn past_other(text: &str) -> Option<usize> {
    let until = |mark: &str| memmem::find(text.as_bytes(), mark.as_bytes()).map_or(text.len(), |end| end + mark.len());
    match text {
        _ if text.starts_with("<!--") => Some(until("-->")),
        _ if text.starts_with("<![CDATA[") => Some(until("]]>")),
        _ if text.starts_with("<?") => Some(until("?>")),
        _ if text.starts_with("<!") => {
            let end = until(">");
            Some(if text[..end].contains('[') { until("]>") } else { end })
        }
        _ => None,
    }
}

/// The length of the tag that bytes begin with, and whether it is an empty element. Attributes in quotes, and in the braces of Svelte, may
/// hold its sign.
fn past_tag(bytes: &[u8]) -> (usize, bool) {
    let (mut at, mut depth) = (1, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' if bytes[at - 1] == b'=' || depth > 0 => {
                at += memchr(byte, &bytes[at + 1..]).map_or(bytes.len(), |end| end + 1);
            }
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'>' if depth == 0 => return (at + 1, bytes[at - 1] == b'/'),
            _ => {}
        }
        at += 1;
    }
    (bytes.len(), false)
}

/// Where the text of an element ends that has no tags.
fn end_of_raw(text: &str, name: &str) -> usize {
    let ends = memmem::find_iter(text.as_bytes(), "</");
    let is_end = |at: &usize| text.get(at + 2..at + 2 + name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name));
    ends.into_iter().find(is_end).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tags_have_partners() {
        for text in [
            "<?xml version=\"1.0\"?>\n<!DOCTYPE a [<!ENTITY b \"<c>\">]>\n<a><b x=\"1 > 0\"/><!-- <c> --><![CDATA[<d>]]></a>\n",
            "a < b and c > d\n",
            "<a\n  b='>'\n></a>",
        ] {
            assert_eq!(unclosed(text, false), None, "{text}");
        }
        assert_eq!(unclosed("<A><br><script>if (a<b) { '<c>' }</script></a>\n<img src=x>", true), None);
        assert_eq!(unclosed("<p on:click={() => a > b}>it's</p>", true), None);
        assert_eq!(unclosed("<a><b></a>", false), Some(6));
        assert_eq!(unclosed("<a><a></a>", false), Some(0));
        assert_eq!(unclosed("<A></a>", false), Some(3));
        assert_eq!(unclosed("</a>", false), Some(0));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[<>/!?a\\[\\]\"'= {}é\n-]{0,40}", is_html: bool) {
            let at = unclosed(&text, is_html);
            prop_assert!(at.is_none_or(|at| text.is_char_boundary(at)));
        }
    }
}
