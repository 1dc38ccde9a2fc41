//! What each dialect's requests may consist of, field by field, and what becomes of each field in a translation.
//!
//! The tables stand in the dialects' folders. Invariant: a row that drops a field has its reason in `docs/dialects.md`.

use super::setting::ReadSetting;

/// What becomes of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// [`crate::decode_request`] understands it.
    Keep,
    /// Understood, unless its JSON is one of these, which mean nothing.
    KeepUnless(&'static [&'static str]),
    /// Its absence changes nothing.
    Drop,
    /// Its absence changes nothing if its JSON is one of these; any other value has no place elsewhere.
    Only(&'static [&'static str]),
    /// An object.
    One(&'static Table),
    /// An array of objects. Texts in it, and a text in its place, are understood.
    Many(&'static Table),
    /// Understood under another name.
    Rename(&'static str),
    /// Something that not every dialect has.
    Needs(Feature, &'static Rule),
    /// The URL of a picture, which may be a `data:` URL.
    Image,
    /// An array of pictures in base64, in a dialect without media types.
    Images,
    /// A setting that every dialect spells differently or lacks, known by its name.
    Setting,
    /// The same, read by this function.
    SettingBy(ReadSetting),
    /// Whether the arguments of the tool around it must follow its schema.
    Strict,
}

/// The kinds of object that may stand at a place.
#[derive(Debug)]
pub(crate) struct Table {
    /// The field that names the kind; empty if there is one kind.
    pub(crate) tag: &'static str,
    /// The kind of an object without that field.
    pub(crate) default: &'static str,
    pub(crate) kinds: &'static [Kind],
}

/// One kind of object.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) names: &'static [&'static str],
    pub(crate) fields: &'static [(&'static str, Rule)],
    /// What becomes of fields that are not named; an error if there is no rule.
    pub(crate) rest: Option<Rule>,
    /// What the whole object needs.
    pub(crate) need: Option<Feature>,
    /// The whole object goes.
    pub(crate) dropped: bool,
}

impl Kind {
    pub(crate) const fn of(names: &'static [&'static str], fields: &'static [(&'static str, Rule)]) -> Kind {
        Kind { names, fields, rest: None, need: None, dropped: false }
    }

    pub(crate) const fn needing(
        need: Feature,
        names: &'static [&'static str],
        fields: &'static [(&'static str, Rule)],
    ) -> Kind {
        Kind { names, fields, rest: None, need: Some(need), dropped: false }
    }
}

/// What not every dialect has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feature {
    /// Tools, calls of them, and their results.
    Tools,
    /// A picture.
    Image,
    /// A picture by its URL.
    ImageUrl,
    /// A picture in the result of a tool.
    ToolResultImage,
}

/// A table with one kind of object.
pub(crate) const fn single(kinds: &'static [Kind]) -> Table {
    Table { tag: "", default: "", kinds }
}
