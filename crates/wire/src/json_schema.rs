//! Whether a JSON value is valid by a JSON Schema, of the part of the language that the strict modes of providers take.
//!
//! Invariant: a schema with a keyword that restricts values and is not checked here is refused, so that "valid" never means "looked at in part".
//! What each keyword demands is that of JSON Schema 2020-12 (json-schema.org/draft/2020-12/json-schema-validation).

use serde_json::{Map, Value};
use std::fmt;

/// Keywords that are checked.
const CHECKED: [&str; 22] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "oneOf",
    "properties",
    "required",
    "type",
];

/// Keywords that restrict nothing. `format` is among them, as the standard has it where it is not asked for.
const NOTES: [&str; 17] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "default",
    "definitions",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "strict",
    "title",
    "writeOnly",
];

/// Deepest nesting of schema and value together: more than any value that serde_json reads, so only references without end get there.
const MAX_DEPTH: u32 = 512;

/// A schema whose keywords are all checked.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonSchema(Value);

/// Why a value is not valid: where, and by which keyword.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchemaViolation {
    /// JSON pointer to the part of the value; empty for all of it.
    pub place: String,
    /// The keyword that it breaks.
    pub keyword: &'static str,
}

impl fmt::Display for SchemaViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the value" } else { &self.place };
        write!(out, "{place} breaks `{}`", self.keyword)
    }
}

impl JsonSchema {
    /// A schema.
    ///
    /// # Errors
    /// The keyword that is not checked here, a reference that leads nowhere, or what is no schema, as a sentence.
    pub fn new(schema: Value) -> Result<JsonSchema, String> {
        known(&schema, &schema)?;
        Ok(JsonSchema(schema))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, value: &Value) -> Result<(), SchemaViolation> {
        let violation = Check { root: &self.0 }.find(&self.0, value, 0);
        match violation {
            None => Ok(()),
            Some((mut path, keyword)) => {
                path.reverse();
                let place = path.iter().map(|part| format!("/{}", part.replace('~', "~0").replace('/', "~1")));
                Err(SchemaViolation { place: place.collect(), keyword })
            }
        }
    }
}

/// Checks that all keywords of a schema are known, in the schemas within it too.
fn known(root: &Value, schema: &Value) -> Result<(), String> {
    let object = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(object) => object,
        _ => return Err("a schema is an object, `true` or `false`".to_owned()),
    };
    for (keyword, of) in object {
        let schemas: Vec<&Value> = match (keyword.as_str(), of) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => named.values().collect(),
            ("allOf" | "anyOf" | "oneOf", Value::Array(several)) => several.iter().collect(),
            ("items" | "additionalProperties", one) => vec![one],
            ("$ref", Value::String(reference)) if target(root, reference).is_some() => Vec::new(),
            ("$ref", _) => return Err(format!("`$ref` {of} leads to no part of the schema")),
            ("type", of) if !is_type(of) => return Err(format!("{of} is no type of JSON Schema")),
            (keyword, _) if CHECKED.contains(&keyword) || NOTES.contains(&keyword) => Vec::new(),
            (keyword, _) => return Err(format!("the keyword `{keyword}` is not checked here; leave it out")),
        };
        schemas.into_iter().try_for_each(|schema| known(root, schema))?;
    }
    Ok(())
}

fn is_type(of: &Value) -> bool {
    const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let is_one = |name: &Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
    of.as_array().map_or_else(|| is_one(of), |names| names.iter().all(is_one))
}

fn target<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

struct Check<'s> {
    root: &'s Value,
}

/// Where a violation is, innermost first, and its keyword.
type Found = Option<(Vec<String>, &'static str)>;

impl Check<'_> {
    fn find(&self, schema: &Value, value: &Value, depth: u32) -> Found {
        let object = match schema {
            Value::Bool(allows) => return (!allows).then(|| (Vec::new(), "false")),
            Value::Object(object) => object,
            _ => return None,
        };
        if depth > MAX_DEPTH {
            return Some((Vec::new(), "$ref"));
        }
        if let Some(keyword) = plain_violation(object, value) {
            return Some((Vec::new(), keyword));
        }
        self.in_others(object, value, depth).or_else(|| self.in_members(object, value, depth))
    }

    /// What schemas say that are named beside the value: references, all, any or one of several.
    fn in_others(&self, object: &Map<String, Value>, value: &Value, depth: u32) -> Found {
        let list = |keyword: &str| object.get(keyword).and_then(Value::as_array);
        let valid =
            |schemas: &[Value]| schemas.iter().filter(|schema| self.find(schema, value, depth + 1).is_none()).count();
        let reference = object.get("$ref").and_then(Value::as_str).and_then(|reference| target(self.root, reference));
        if let Some(found) = reference.and_then(|schema| self.find(schema, value, depth + 1)) {
            return Some(found);
        }
        if let Some(found) = list("allOf").into_iter().flatten().find_map(|part| self.find(part, value, depth + 1)) {
            return Some(found);
        }
        if list("anyOf").is_some_and(|schemas| valid(schemas) == 0) {
            return Some((Vec::new(), "anyOf"));
        }
        list("oneOf").is_some_and(|schemas| valid(schemas) != 1).then(|| (Vec::new(), "oneOf"))
    }

    /// What schemas say of the members of an object and the items of a list.
    fn in_members(&self, object: &Map<String, Value>, value: &Value, depth: u32) -> Found {
        let none = Map::new();
        let properties = object.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let at = |found: Found, name: &str| {
            found.map(|(mut path, keyword)| {
                path.push(name.to_owned());
                (path, keyword)
            })
        };
        match value {
            Value::Object(members) => members.iter().find_map(|(name, member)| match properties.get(name) {
                Some(schema) => at(self.find(schema, member, depth + 1), name),
                None => match object.get("additionalProperties") {
                    Some(Value::Bool(false)) => Some((vec![name.clone()], "additionalProperties")),
                    Some(schema) => at(self.find(schema, member, depth + 1), name),
                    None => None,
                },
            }),
            Value::Array(items) => {
                let schema = object.get("items")?;
                (0_usize..)
                    .zip(items)
                    .find_map(|(place, item)| at(self.find(schema, item, depth + 1), &place.to_string()))
            }
            _ => None,
        }
    }
}

/// The keyword that a value breaks of those that have no schemas in them.
fn plain_violation(object: &Map<String, Value>, value: &Value) -> Option<&'static str> {
    if object.get("type").is_some_and(|kind| !has_type(kind, value)) {
        return Some("type");
    }
    if object.get("const").is_some_and(|only| !equal(only, value)) {
        return Some("const");
    }
    let choices = object.get("enum").and_then(Value::as_array);
    if choices.is_some_and(|choices| !choices.iter().any(|choice| equal(choice, value))) {
        return Some("enum");
    }
    let bound = |keyword: &str| object.get(keyword).and_then(Value::as_f64);
    let counted = |count: usize, [least, most]: [&'static str; 2]| {
        let count = count as f64;
        if bound(least).is_some_and(|least| count < least) {
            return Some(least);
        }
        bound(most).filter(|bound| count > *bound).map(|_| most)
    };
    match value {
        Value::Number(number) => number_violation(&bound, number.as_f64()?),
        // A length is one of characters.
        Value::String(text) => counted(text.chars().count(), ["minLength", "maxLength"]),
        Value::Array(items) => counted(items.len(), ["minItems", "maxItems"]),
        Value::Object(members) => {
            let required = object.get("required").and_then(Value::as_array);
            let is_missing = |name: &Value| name.as_str().is_some_and(|name| !members.contains_key(name));
            if required.is_some_and(|names| names.iter().any(is_missing)) {
                return Some("required");
            }
            counted(members.len(), ["minProperties", "maxProperties"])
        }
        Value::Null | Value::Bool(_) => None,
    }
}

fn number_violation(bound: &dyn Fn(&str) -> Option<f64>, number: f64) -> Option<&'static str> {
    let broken = [
        ("minimum", bound("minimum").is_some_and(|bound| number < bound)),
        ("maximum", bound("maximum").is_some_and(|bound| number > bound)),
        ("exclusiveMinimum", bound("exclusiveMinimum").is_some_and(|bound| number <= bound)),
        ("exclusiveMaximum", bound("exclusiveMaximum").is_some_and(|bound| number >= bound)),
    ]
    .into_iter()
    .find(|(_, is_broken)| *is_broken);
    // Decimal steps such as 0.01 are no binary numbers: what is off by less than a billionth of a step is a multiple.
    let is_multiple = |step: f64| {
        let steps = number / step;
        step <= 0.0 || (steps - steps.round()).abs() < 1e-9 * steps.abs().max(1.0)
    };
    let multiple = bound("multipleOf").filter(|step| !is_multiple(*step)).map(|_| "multipleOf");
    broken.map(|(keyword, _)| keyword).or(multiple)
}

fn has_type(kind: &Value, value: &Value) -> bool {
    let is = |name: &str| match (name, value) {
        // 1.0 is an integer.
        ("integer", Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        ("null", Value::Null) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => true,
        ("string", Value::String(_)) | ("array", Value::Array(_)) | ("object", Value::Object(_)) => true,
        _ => false,
    };
    match kind {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

/// Whether two values are the same; 1 and 1.0 are.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| equal(one, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests;
