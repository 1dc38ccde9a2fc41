//! Values that a JSON Schema allows, drawn from a seed: the arguments of tool calls, and answers that are to follow a schema.
//!
//! Invariant: a value is valid by its schema, or there is an error that names the keyword that is not understood.

use serde_json::{Map, Number, Value, json};
use std::collections::BTreeSet;
use tokrate_core::Rng;
use tokrate_sim::WORDS;

/// A schema that nests deeper is refused.
const MAX_DEPTH: u32 = 12;
/// Nesting from which on optional properties and items are left out, so that recursive schemas end.
const SHALLOW: u32 = 4;
/// Keywords that restrict values in ways that no value is made for.
const UNSUPPORTED: [&str; 10] = [
    "not",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "patternProperties",
    "propertyNames",
    "contains",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// Draws a value of a schema.
///
/// # Errors
/// The keyword that no value is made for, as a sentence.
pub(crate) fn value_of(schema: &Value, seed: u64) -> Result<Value, String> {
    Drawing { root: schema, rng: Rng::root(seed).child("schema"), values: MAX_VALUES, bytes: MAX_BYTES }
        .value(schema, 0)
}

struct Drawing<'a> {
    root: &'a Value,
    rng: Rng,
    /// Values that may still be tried, and bytes of text that may still be written: the engine's thread does this.
    values: usize,
    bytes: usize,
}

impl Drawing<'_> {
    fn value(&mut self, schema: &Value, depth: u32) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("the schema nests deeper than the simulated engine follows".to_owned());
        }
        self.values = self.values.checked_sub(1).ok_or_else(too_large)?;
        let object = match schema {
            Value::Bool(true) => return Ok(json!({})),
            Value::Bool(false) => return Err("a schema that is `false` allows no value".to_owned()),
            Value::Object(object) => object,
            _ => return Err("a schema is an object".to_owned()),
        };
        if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| object.contains_key(**keyword)) {
            return Err(format!("the simulated engine makes no value for the keyword `{keyword}` of a schema"));
        }
        if let Some(value) = object.get("const") {
            return Ok(value.clone());
        }
        if let Some(values) = object.get("enum").and_then(Value::as_array) {
            let value = self.one_of(values).cloned();
            return value.ok_or_else(|| "an empty `enum` allows no value".to_owned());
        }
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            let target = self.resolve(reference)?;
            return self.beside(object, "$ref", &[target], depth);
        }
        if let Some(parts) = object.get("allOf").and_then(Value::as_array) {
            return self.beside(object, "allOf", parts, depth);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(choices) = object.get(keyword).and_then(Value::as_array) {
                return self.choice(object, keyword, choices, depth);
            }
        }
        match self.type_of(object, depth)?.as_str() {
            "object" => self.object(object, depth),
            "array" => self.array(object, depth),
            "string" => self.string(object).map(Value::String),
            "integer" => self.number(object, true),
            "number" => self.number(object, false),
            "boolean" => Ok(Value::Bool(self.rng.chance(0.5))),
            "null" => Ok(Value::Null),
            other => Err(format!("`{other}` is no type of a schema")),
        }
    }

    fn one_of<'v, T>(&mut self, values: &'v [T]) -> Option<&'v T> {
        if values.is_empty() { None } else { values.get(self.rng.below(values.len() as u64) as usize) }
    }

    /// The type of the value: of several one, null last where nesting need not end.
    fn type_of(&mut self, object: &Map<String, Value>, depth: u32) -> Result<String, String> {
        let named = match object.get("type") {
            Some(Value::String(kind)) => Some(kind.clone()),
            Some(Value::Array(kinds)) => {
                let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
                let wanted = kinds.iter().copied().find(|kind| (*kind == "null") == (depth >= SHALLOW));
                Some(wanted.or_else(|| kinds.first().copied()).ok_or("a list of types is empty")?.to_owned())
            }
            Some(_) => return Err("`type` is a name or a list of names".to_owned()),
            None => None,
        };
        let implied = || {
            let has = |keywords: &[&str]| keywords.iter().any(|keyword| object.contains_key(*keyword));
            match () {
                () if has(&["properties", "required", "additionalProperties"]) => "object",
                () if has(&["items", "prefixItems", "minItems", "maxItems"]) => "array",
                () if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) => "number",
                () => "string",
            }
        };
        Ok(named.unwrap_or_else(|| implied().to_owned()))
    }

    /// A schema elsewhere in the document: `#`, `#/$defs/Name`, `#/definitions/Name`.
    fn resolve(&self, reference: &str) -> Result<Value, String> {
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) => self.root.pointer(pointer),
            None => None,
        };
        target.cloned().ok_or_else(|| format!("`$ref` {reference} names no part of this schema"))
    }

    /// A value of schemas that a keyword names, and of what stands beside the keyword.
    fn beside(
        &mut self,
        object: &Map<String, Value>,
        keyword: &str,
        parts: &[Value],
        depth: u32,
    ) -> Result<Value, String> {
        let has_more = object.keys().any(|other| other != keyword && !NOTES.contains(&other.as_str()));
        match parts {
            [only] if !has_more => self.value(only, depth + 1),
            _ => {
                let merged = self.merged(object, keyword, parts)?;
                self.value(&merged, depth + 1)
            }
        }
    }

    /// One schema with the keywords of several.
    fn merged(&self, object: &Map<String, Value>, keyword: &str, parts: &[Value]) -> Result<Value, String> {
        let mut all = object.clone();
        all.remove(keyword);
        all.retain(|other, _| !NOTES.contains(&other.as_str()));
        for part in parts {
            let resolved = match part.get("$ref").and_then(Value::as_str) {
                Some(reference) => self.resolve(reference)?,
                None => part.clone(),
            };
            let Value::Object(part) = resolved else { return Err("a schema is an object".to_owned()) };
            for (keyword, value) in part.into_iter().filter(|(other, _)| !NOTES.contains(&other.as_str())) {
                match (all.get_mut(&keyword), value) {
                    (Some(Value::Object(known)), Value::Object(more)) if keyword == "properties" => {
                        if more.iter().any(|(name, schema)| known.get(name).is_some_and(|other| other != schema)) {
                            return Err("the simulated engine makes no value where two schemas restrict one property"
                                .to_owned());
                        }
                        known.extend(more);
                    }
                    (Some(Value::Array(known)), Value::Array(more)) if keyword == "required" => known.extend(more),
                    (Some(known), value) if *known == value => {}
                    (Some(_), _) => {
                        return Err(format!(
                            "the simulated engine makes no value where two schemas differ in `{keyword}`"
                        ));
                    }
                    (None, value) => drop(all.insert(keyword, value)),
                }
            }
        }
        Ok(Value::Object(all))
    }

    /// The first choice that a value can be made for; deep down the simplest first.
    fn choice(
        &mut self,
        object: &Map<String, Value>,
        keyword: &str,
        choices: &[Value],
        depth: u32,
    ) -> Result<Value, String> {
        let mut order: Vec<&Value> = choices.iter().collect();
        let is_simple = |schema: &&Value| {
            schema.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "object" && kind != "array")
        };
        if depth >= SHALLOW {
            order.sort_by_key(|schema| !is_simple(schema));
        } else if !order.is_empty() {
            let first = self.rng.below(order.len() as u64) as usize;
            order.rotate_left(first);
        }
        let mut problem = "an empty list of choices allows no value".to_owned();
        for schema in order {
            match self.beside(object, keyword, std::slice::from_ref(schema), depth) {
                Ok(value) => return Ok(value),
                Err(error) if self.values == 0 => return Err(error),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// All properties that are required, and near the top the others too.
    fn object(&mut self, object: &Map<String, Value>, depth: u32) -> Result<Value, String> {
        let empty = Map::new();
        let properties = object.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required = object.get("required").and_then(Value::as_array);
        let required: BTreeSet<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        let most = whole(object, "maxProperties")?.unwrap_or(usize::MAX);
        let optional = if depth < SHALLOW { most.saturating_sub(required.len()) } else { 0 };
        let mut value = Map::new();
        let mut taken = 0;
        for (name, schema) in properties {
            let is_required = required.contains(name.as_str());
            if is_required || taken < optional {
                match self.value(schema, depth + 1) {
                    Ok(member) => {
                        taken += usize::from(!is_required);
                        value.insert(name.clone(), member);
                    }
                    Err(error) if is_required || self.values == 0 => return Err(error),
                    Err(_) => {}
                }
            }
        }
        let more = object.get("additionalProperties");
        for name in required.iter().filter(|name| !properties.contains_key(**name)) {
            let member = match more {
                Some(schema @ Value::Object(_)) => self.value(schema, depth + 1)?,
                Some(Value::Bool(false)) => return Err(format!("`{name}` is required and has no schema")),
                _ => Value::String(self.words(1, 3)),
            };
            value.insert((*name).to_owned(), member);
        }
        let least = whole(object, "minProperties")?.unwrap_or(0);
        if least > MAX_VALUES || value.len() > most || value.len() < least && more == Some(&Value::Bool(false)) {
            return Err("no object has as few or as many properties as the schema asks".to_owned());
        }
        let mut number = 0;
        while value.len() < least {
            self.values = self.values.checked_sub(1).ok_or_else(too_large)?;
            let member = match more {
                Some(schema @ Value::Object(_)) => self.value(schema, depth + 1)?,
                _ => Value::String(self.words(1, 2)),
            };
            value.entry(format!("more{number}")).or_insert(member);
            number += 1;
        }
        Ok(Value::Object(value))
    }

    fn array(&mut self, object: &Map<String, Value>, depth: u32) -> Result<Value, String> {
        let least = whole(object, "minItems")?.unwrap_or(0);
        let most = whole(object, "maxItems")?.unwrap_or(usize::MAX);
        if least > most || least > MAX_ITEMS {
            return Err(format!("an array of {least} items at least is not made"));
        }
        let prefix = object.get("prefixItems").and_then(Value::as_array).cloned().unwrap_or_default();
        let any = json!({"type": "string"});
        // `items: false` allows none beyond those that are named one by one.
        let most = if object.get("items") == Some(&Value::Bool(false)) { most.min(prefix.len()) } else { most };
        if least > most {
            return Err("no list has as few or as many items as the schema asks".to_owned());
        }
        let wanted = if depth >= SHALLOW { least } else { (1 + self.rng.below(3) as usize).clamp(least, most) };
        let items = object.get("items").filter(|items| !items.is_boolean()).unwrap_or(&any);
        let is_unique = object.get("uniqueItems") == Some(&Value::Bool(true));
        let mut array: Vec<Value> = Vec::new();
        // As text, so that a list of a thousand is not searched for each of its items.
        let mut seen = BTreeSet::new();
        let mut tries = 0;
        while array.len() < wanted.max(prefix.len().min(most)) {
            let item = self.value(prefix.get(array.len()).unwrap_or(items), depth + 1)?;
            tries += 1;
            if !is_unique || seen.insert(item.to_string()) {
                array.push(item);
            } else if tries > MAX_TRIES + array.len() {
                match array.len() >= least {
                    true => break,
                    false => return Err("there are too few values for `uniqueItems`".to_owned()),
                }
            }
        }
        Ok(Value::Array(array))
    }

    fn string(&mut self, object: &Map<String, Value>) -> Result<String, String> {
        let least = whole(object, "minLength")?.unwrap_or(0);
        let most = whole(object, "maxLength")?.unwrap_or(usize::MAX);
        let fits = |text: &String| (least..=most).contains(&text.chars().count());
        if least > most || least > self.bytes {
            return Err(format!("no text has from {least} to {most} characters, or it is too long to be made"));
        }
        if let Some(pattern) = object.get("pattern").and_then(Value::as_str) {
            for _ in 0..MAX_TRIES {
                let text = crate::pattern::text_of(pattern, &mut self.rng)?;
                self.values = self.values.checked_sub(1).ok_or_else(too_large)?;
                if fits(&text) {
                    return Ok(text);
                }
            }
            return Err(format!("no text of the pattern `{pattern}` was found that has the length that is asked for"));
        }
        let digits = |rng: &mut Rng, count: usize, base: u64| -> String {
            (0..count).map(|_| char::from_digit(rng.below(base) as u32, 16).expect("a digit")).collect()
        };
        let day = format!("20{:02}-{:02}-{:02}", self.rng.below(40), 1 + self.rng.below(12), 1 + self.rng.below(28));
        let time = format!("{:02}:{:02}:{:02}Z", self.rng.below(24), self.rng.below(60), self.rng.below(60));
        let word = self.words(1, 1);
        let made = match object.get("format").and_then(Value::as_str) {
            Some("date") => day,
            Some("time") => time,
            Some("date-time") => format!("{day}T{time}"),
            Some("duration") => format!("PT{}M", 1 + self.rng.below(59)),
            Some("email" | "idn-email") => format!("{word}@example.com"),
            Some("hostname" | "idn-hostname") => format!("{word}.example.com"),
            Some("ipv4") => format!("192.0.2.{}", self.rng.below(256)),
            Some("ipv6") => format!("2001:db8::{}", digits(&mut self.rng, 4, 16)),
            Some("uri" | "url" | "iri" | "uri-reference") => format!("https://example.com/{word}"),
            Some("uuid") => {
                let rng = &mut self.rng;
                let [one, two, three, four] = [8, 4, 3, 3].map(|count| digits(rng, count, 16));
                format!("{one}-{two}-4{three}-8{four}-{}", digits(rng, 12, 16))
            }
            _ => return self.free_text(least, most),
        };
        match fits(&made) {
            true => Ok(made),
            false => Err("a text of this format does not have the length that is asked for".to_owned()),
        }
    }

    /// Words, from `least` to `most` characters.
    fn free_text(&mut self, least: usize, most: usize) -> Result<String, String> {
        let mut text = self.words(1, 5);
        while text.len() < least {
            text.push(' ');
            text.push_str(&self.words(1, 5));
        }
        // Words are of ASCII letters.
        text.truncate(most);
        self.bytes = self.bytes.checked_sub(text.len()).ok_or_else(too_large)?;
        Ok(text)
    }

    /// So many words.
    fn words(&mut self, least: u64, most: u64) -> String {
        let count = least + self.rng.below(most - least + 1);
        let words: Vec<&str> =
            (0..count).map(|_| WORDS[self.rng.below(WORDS.len() as u64) as usize].trim_start()).collect();
        words.join(" ")
    }

    fn number(&mut self, object: &Map<String, Value>, is_integer: bool) -> Result<Value, String> {
        let bound = |keyword: &str| object.get(keyword).and_then(Value::as_f64);
        let step = bound("multipleOf").filter(|step| *step > 0.0).unwrap_or(if is_integer { 1.0 } else { 0.01 });
        // In whole steps; an exclusive bound is half a step further in.
        let low = [
            bound("minimum").map(|low| (low / step).ceil()),
            bound("exclusiveMinimum").map(|low| (low / step).floor() + 1.0),
        ];
        let high = [
            bound("maximum").map(|high| (high / step).floor()),
            bound("exclusiveMaximum").map(|high| (high / step).ceil() - 1.0),
        ];
        let low = low.into_iter().flatten().reduce(f64::max);
        let high = high.into_iter().flatten().reduce(f64::min);
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            (Some(low), None) => (low, low + 100.0),
            (None, Some(high)) => (high - 100.0, high),
            (None, None) => (0.0, 100.0),
        };
        if low > high {
            return Err("no number lies between the bounds of the schema".to_owned());
        }
        let steps = low + (self.rng.unit() * (high - low + 1.0)).floor().min(high - low);
        if is_integer && step.fract() == 0.0 {
            return Ok(json!((steps * step) as i64));
        }
        // As many digits as the step has, so that it is a multiple as text too.
        let rounded = format!("{:.6}", steps * step).parse::<f64>().ok().and_then(Number::from_f64);
        rounded.map(Value::Number).ok_or_else(|| "no number lies between the bounds of the schema".to_owned())
    }
}

/// Most items that an array is given because its schema asks for them.
const MAX_ITEMS: usize = 1_000;
/// Most values that are tried for one answer, and most bytes of its texts: some milliseconds of the engine's thread.
const MAX_VALUES: usize = 10_000;
const MAX_BYTES: usize = 256 * 1024;
/// How often another text or item is drawn where the first does not fit.
const MAX_TRIES: usize = 200;
/// Keywords that say nothing about a value.
const NOTES: [&str; 10] =
    ["$defs", "definitions", "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated"];

fn too_large() -> String {
    "the schema asks for a larger value than the simulated engine makes".to_owned()
}

/// A keyword whose value is a whole number.
fn whole(object: &Map<String, Value>, keyword: &str) -> Result<Option<usize>, String> {
    let Some(number) = object.get(keyword) else { return Ok(None) };
    let whole =
        number.as_u64().or_else(|| number.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0).map(|it| it as u64));
    let whole = whole.ok_or_else(|| format!("`{keyword}` of a schema is a whole number, not {number}"))?;
    Ok(Some(usize::try_from(whole).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests;
