//! A request gone through field by field, by the table of its dialect: what is understood stays, what means nothing
//! elsewhere goes, and anything else is an error that names its place.
//!
//! Invariant: no field is left out that its table does not name.

use super::TranslateError;
use super::setting::{LocatedSetting, SettingsRead, read_setting};
use super::table::{Feature, Kind, Rule, Table};
use crate::dialect::Dialect;
use crate::error::WireError;
use crate::object::{Object, read_array, read_text};
use crate::remainder::Members;

/// Whether requests of a dialect may carry a feature.
fn is_met(need: Feature, to: Dialect) -> bool {
    let features = to.descriptor().request;
    match need {
        Feature::Tools => features.tools,
        Feature::Image => features.images,
        Feature::ImageUrl => features.image_urls,
        Feature::ToolResultImage => features.tool_result_images,
    }
}

fn name_of(need: Feature) -> &'static str {
    match need {
        Feature::Tools => "tools",
        Feature::Image => "pictures",
        Feature::ImageUrl => "pictures by their address",
        Feature::ToolResultImage => "pictures in the result of a tool",
    }
}

/// A request on its way through its table.
pub(super) struct Cleaner {
    pub(super) from: Dialect,
    pub(super) to: Dialect,
    /// The place that is looked at, such as `messages[2].content[0]`.
    path: String,
    pub(super) settings: Vec<LocatedSetting>,
    /// Whether the arguments of a tool must follow its schema: which tool, whether, and its path.
    pub(super) strict: Vec<(usize, bool, String)>,
}

impl Cleaner {
    pub(super) fn new(from: Dialect, to: Dialect) -> Cleaner {
        Cleaner { from, to, path: String::new(), settings: Vec::new(), strict: Vec::new() }
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

    fn need(&self, need: Feature) -> Result<(), TranslateError> {
        if is_met(need, self.to) {
            return Ok(());
        }
        Err(self.no_place(format!("{} has no place for {}", self.to.name(), name_of(need))))
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

    /// A name as the tables have it: some dialects read each field in two spellings.
    fn spelling(&self, name: &str) -> String {
        if !self.from.descriptor().request.snake_case_aliases || !name.contains('_') {
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
                let compact = crate::object::without_whitespace(json);
                if !nothing.contains(&&*compact) {
                    let values = nothing.join(" or ");
                    let to = self.to.name();
                    return Err(self.no_place(format!("{to} has no place for it unless it is {values}")));
                }
            }
            Rule::One(table) => {
                // An object of which nothing stays (all of it were settings) is none.
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
            Rule::Image => {
                let is_data = self.text(json)?.starts_with("data:");
                self.need(if is_data { Feature::Image } else { Feature::ImageUrl })?;
                out.json(name, json);
            }
            Rule::Images => {
                for picture in self.elements(json)? {
                    let is_url = self.text(picture)?.starts_with("http");
                    self.need(if is_url { Feature::ImageUrl } else { Feature::Image })?;
                }
                out.json(name, json);
            }
            Rule::Setting => self.settings(read_setting(&self.path, json))?,
            Rule::SettingBy(read) => self.settings(read(json))?,
            Rule::Strict => {
                let tool = self.path.strip_prefix("tools[").and_then(|rest| rest.split_once(']')?.0.parse().ok());
                let strict = json.parse().map_err(|_| self.no_place("it must be true or false"))?;
                self.strict.push((tool.unwrap_or(0), strict, self.path.clone()));
            }
        }
        Ok(())
    }

    /// Keeps the settings that a field holds.
    fn settings(&mut self, read: SettingsRead) -> Result<(), TranslateError> {
        let settings = read.map_err(|why| self.no_place(why))?;
        let path = &self.path;
        self.settings.extend(settings.into_iter().map(|setting| LocatedSetting { setting, path: path.clone() }));
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
