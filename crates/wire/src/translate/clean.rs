//! A request gone through field by field, by the table of its dialect: what is understood stays, what means nothing
//! elsewhere goes, and anything else is an error that names its place.
//!
//! It refuses to know how the target spells anything. Invariant: no field is left out that its table does not name.

use super::TranslateError;
use super::wish::{Wanted, read_wish};
use crate::dialect::Dialect;
use crate::error::WireError;
use crate::object::{Object, read_array, read_text};
use crate::remainder::Members;

/// What becomes of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
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
    Needs(Need, &'static Rule),
    /// The address of a picture, which may be the picture itself.
    Picture,
    /// An array of pictures in base64, as a dialect has them that tells the kind of none.
    Pictures,
    /// Something that every dialect says differently, or not at all.
    Wish,
    /// Whether the arguments of the tool around it must follow its schema.
    Strict,
}

/// The kinds of object that may stand at a place.
#[derive(Debug)]
pub(super) struct Table {
    /// The field that names the kind; empty if there is one kind.
    pub(super) tag: &'static str,
    /// The kind of an object without that field.
    pub(super) default: &'static str,
    pub(super) kinds: &'static [Kind],
}

/// One kind of object.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) names: &'static [&'static str],
    pub(super) fields: &'static [(&'static str, Rule)],
    /// What becomes of fields that are not named; an error if nothing is said.
    pub(super) rest: Option<Rule>,
    /// What the whole object needs.
    pub(super) need: Option<Need>,
    /// The whole object goes.
    pub(super) dropped: bool,
}

impl Kind {
    pub(super) const fn of(names: &'static [&'static str], fields: &'static [(&'static str, Rule)]) -> Kind {
        Kind { names, fields, rest: None, need: None, dropped: false }
    }

    pub(super) const fn needing(
        need: Need,
        names: &'static [&'static str],
        fields: &'static [(&'static str, Rule)],
    ) -> Kind {
        Kind { names, fields, rest: None, need: Some(need), dropped: false }
    }
}

/// What not every dialect has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Tools, calls of them, and their results.
    Tools,
    /// A picture.
    Picture,
    /// A picture by its address.
    PictureByAddress,
    /// A picture in the result of a tool.
    PictureInResult,
}

impl Need {
    /// Whether a dialect has it.
    fn is_met_by(self, to: Dialect) -> bool {
        use Dialect::*;
        match self {
            Need::Tools => matches!(to, OpenAiChat | OpenAiResponses | Anthropic | Gemini | OllamaChat),
            Need::Picture => !matches!(to, OpenAiCompletions | LlamaCompletion),
            Need::PictureByAddress => matches!(to, OpenAiChat | OpenAiResponses | Anthropic | Gemini),
            Need::PictureInResult => matches!(to, OpenAiResponses | Anthropic | Gemini),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Need::Tools => "tools",
            Need::Picture => "pictures",
            Need::PictureByAddress => "pictures by their address",
            Need::PictureInResult => "pictures in the result of a tool",
        }
    }
}

/// A request on its way through its table.
pub(super) struct Cleaner {
    pub(super) from: Dialect,
    pub(super) to: Dialect,
    /// The place that is looked at, such as `messages[2].content[0]`.
    path: String,
    pub(super) wishes: Vec<Wanted>,
    /// Whether the arguments of a tool must follow its schema: which tool, whether, and where it is said.
    pub(super) strict: Vec<(usize, bool, String)>,
}

impl Cleaner {
    pub(super) fn new(from: Dialect, to: Dialect) -> Cleaner {
        Cleaner { from, to, path: String::new(), wishes: Vec::new(), strict: Vec::new() }
    }

    /// The body with what is understood.
    pub(super) fn clean(&mut self, body: &[u8], table: &Table) -> Result<String, TranslateError> {
        let text = std::str::from_utf8(body).map_err(|error| self.unreadable(WireError::NotJson(error.to_string())))?;
        let object = Object::read(text).map_err(|error| self.unreadable(error.into()))?;
        let object = object.ok_or_else(|| self.unreadable(WireError::NotAnObject))?;
        let cleaned = self.object(&object, table)?;
        Ok(cleaned.unwrap_or_else(|| "{}".to_owned()))
    }

    pub(super) fn unreadable(&self, error: WireError) -> TranslateError {
        TranslateError::unreadable(self.from, self.to, &error)
    }

    /// An error about the place that is looked at.
    fn no_place(&self, why: impl Into<String>) -> TranslateError {
        TranslateError { from: self.from, to: self.to, field: self.path.clone(), why: why.into() }
    }

    fn need(&self, need: Need) -> Result<(), TranslateError> {
        if need.is_met_by(self.to) {
            return Ok(());
        }
        Err(self.no_place(format!("{} has no place for {}", self.to.name(), need.name())))
    }

    /// An object with what is understood of it; `None` if the whole of it goes.
    fn object(&mut self, object: &Object<'_>, table: &Table) -> Result<Option<String>, TranslateError> {
        let kind = self.kind(object, table)?;
        if kind.dropped {
            return Ok(None);
        }
        if let Some(need) = kind.need {
            self.need(need)?;
        }
        let mut cleaned = Members::new();
        let length = self.path.len();
        for (name, json) in object.fields().filter(|(_, json)| *json != "null") {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let name = self.spelling(name);
            let rule = kind.fields.iter().find(|(field, _)| *field == name).map(|(_, rule)| *rule).or(kind.rest);
            let rule = rule.ok_or_else(|| {
                self.no_place(format!("it is not known how {} would say it; leave it out", self.to.name()))
            })?;
            self.field(&name, json, rule, &mut cleaned)?;
            self.path.truncate(length);
        }
        Ok(Some(cleaned.end()))
    }

    /// A name as the tables have it: Gemini's fields have two spellings.
    fn spelling(&self, name: &str) -> String {
        if self.from != Dialect::Gemini || !name.contains('_') {
            return name.to_owned();
        }
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| {
            let mut letters = word.chars();
            let capital = letters.next().map(|letter| letter.to_ascii_uppercase());
            name + &capital.into_iter().chain(letters).collect::<String>()
        })
    }

    fn kind<'t>(&self, object: &Object<'_>, table: &'t Table) -> Result<&'t Kind, TranslateError> {
        if table.tag.is_empty() {
            return Ok(&table.kinds[0]);
        }
        let tag = object.text(table.tag, &mut false).ok().flatten();
        let tag = tag.as_deref().unwrap_or(table.default);
        let kind = table.kinds.iter().find(|kind| kind.names.contains(&tag));
        kind.ok_or_else(|| {
            let known: Vec<&str> = table.kinds.iter().flat_map(|kind| kind.names).copied().collect();
            let tag: String = tag.chars().take(60).collect();
            self.no_place(format!("{} `{tag}` cannot be translated (these can: {})", table.tag, known.join(", ")))
        })
    }

    fn field(&mut self, name: &str, json: &str, rule: Rule, out: &mut Members) -> Result<(), TranslateError> {
        match rule {
            Rule::Keep => out.json(name, json),
            Rule::KeepUnless(nothing) if nothing.contains(&json) => {}
            Rule::KeepUnless(_) => out.json(name, json),
            Rule::Drop => {}
            Rule::Only(nothing) => {
                let compact = crate::object::without_blanks(json);
                if !nothing.contains(&&*compact) {
                    let values = nothing.join(" or ");
                    let to = self.to.name();
                    return Err(self.no_place(format!("{to} has no place for it unless it is {values}")));
                }
            }
            Rule::One(table) => {
                // An object of which nothing stays (all of it were wishes) is none.
                if let Some(cleaned) = self.one(json, table)?.filter(|cleaned| cleaned != "{}") {
                    out.json(name, &cleaned);
                }
            }
            Rule::Many(table) => out.json(name, &self.many(json, table)?),
            Rule::Rename(other) => out.json(other, json),
            Rule::Needs(need, inner) => {
                if json != "[]" {
                    self.need(need)?;
                    self.field(name, json, *inner, out)?;
                }
            }
            Rule::Picture => {
                let here = self.text(json)?.starts_with("data:");
                self.need(if here { Need::Picture } else { Need::PictureByAddress })?;
                out.json(name, json);
            }
            Rule::Pictures => {
                for picture in self.elements(json)? {
                    let away = self.text(picture)?.starts_with("http");
                    self.need(if away { Need::PictureByAddress } else { Need::Picture })?;
                }
                out.json(name, json);
            }
            Rule::Wish => {
                let wishes = read_wish(self.from, &self.path, json).map_err(|why| self.no_place(why))?;
                let path = &self.path;
                self.wishes.extend(wishes.into_iter().map(|wish| Wanted { wish, path: path.clone() }));
            }
            Rule::Strict => {
                let tool = self.path.strip_prefix("tools[").and_then(|rest| rest.split_once(']')?.0.parse().ok());
                let strict = json.parse().map_err(|_| self.no_place("it must be true or false"))?;
                self.strict.push((tool.unwrap_or(0), strict, self.path.clone()));
            }
        }
        Ok(())
    }

    fn text(&self, json: &str) -> Result<String, TranslateError> {
        let text = read_text(json).map_err(|error| self.unreadable(error.into()))?;
        text.map(String::from).ok_or_else(|| self.no_place("it must be a string"))
    }

    fn elements<'j>(&self, json: &'j str) -> Result<Vec<&'j str>, TranslateError> {
        let elements = read_array(json).map_err(|error| self.unreadable(error.into()))?;
        elements.ok_or_else(|| self.no_place("it must be an array"))
    }

    fn one(&mut self, json: &str, table: &Table) -> Result<Option<String>, TranslateError> {
        if json.starts_with('"') {
            return Ok(Some(json.to_owned()));
        }
        let object = Object::read(json).map_err(|error| self.unreadable(error.into()))?;
        let object = object.ok_or_else(|| self.no_place("it must be an object"))?;
        self.object(&object, table)
    }

    fn many(&mut self, json: &str, table: &Table) -> Result<String, TranslateError> {
        if json.starts_with(['"', '{']) {
            // A text, or in Gemini's requests one object in place of an array of one.
            return Ok(self.one(json, table)?.unwrap_or_else(|| "[]".to_owned()));
        }
        let mut cleaned = String::from("[");
        let length = self.path.len();
        for (index, element) in self.elements(json)?.into_iter().enumerate() {
            self.path.push_str(&format!("[{index}]"));
            if let Some(element) = self.one(element, table)? {
                if cleaned.len() > 1 {
                    cleaned.push(',');
                }
                cleaned.push_str(&element);
            }
            self.path.truncate(length);
        }
        cleaned.push(']');
        Ok(cleaned)
    }
}
