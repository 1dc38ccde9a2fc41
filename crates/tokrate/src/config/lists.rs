//! Values that a settings file may write in two ways: a list or its only item, a number or a text that holds one.
//!
//! Invariant: the error of an item is the same as of the item alone.

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// A list, or its only item.
pub fn one_or_many<'de, T, D>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Items(PhantomData)).map(Some)
}

struct Items<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }

    fn visit_i64<E: Error>(self, item: i64) -> Result<Vec<T>, E> {
        T::deserialize(item.into_deserializer()).map(|item| vec![item])
    }

    fn visit_f64<E: Error>(self, item: f64) -> Result<Vec<T>, E> {
        T::deserialize(item.into_deserializer()).map(|item| vec![item])
    }

    fn visit_str<E: Error>(self, item: &str) -> Result<Vec<T>, E> {
        T::deserialize(item.into_deserializer()).map(|item| vec![item])
    }
}

/// A list of names, where a table of one of the names is a common slip; `instead` is the table that was meant.
pub fn names<'de, T, D>(deserializer: D, key: &'static str, instead: &'static str) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Names { key, instead, item: PhantomData })
}

struct Names<T> {
    key: &'static str,
    instead: &'static str,
    item: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Names<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of names: {} = [\"NAME\"]", self.key)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Vec<T>, A::Error> {
        let name = table.next_key::<String>()?.unwrap_or_else(|| "NAME".to_owned());
        let Names { key, instead, .. } = self;
        Err(A::Error::custom(format!(
            "`{key}` is a list of names and no table: write {key} = [\"{name}\"], and what belongs to it in [{instead}.{name}]"
        )))
    }
}

/// A text, or a number as the text that would be typed.
pub fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(Typed).map(Some)
}

struct Typed;

impl Visitor<'_> for Typed {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a text")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}
