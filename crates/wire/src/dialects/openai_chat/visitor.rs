//! serde visitors that take any type: each reader names the types it accepts, all others are skipped as malformed.
//!
//! Invariant: only broken syntax stops the parser; a wrong type never does.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Reads one value of whatever type it turns out to have.
pub(super) trait Read<'a>: Sized {
    /// The value as read.
    type Out;

    /// The value is of a type that this reader does not take.
    fn wrong(self) -> Self::Out;

    /// The value is `null`.
    fn null(self) -> Self::Out;

    /// The value is a string.
    fn text(self, _text: Cow<'a, str>) -> Self::Out {
        self.wrong()
    }

    /// The value is an array.
    fn array<A: SeqAccess<'a>>(self, mut array: A) -> Result<Self::Out, A::Error> {
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self.wrong())
    }

    /// The value is an object.
    fn object<A: MapAccess<'a>>(self, mut object: A) -> Result<Self::Out, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(self.wrong())
    }
}

/// Lets a [`Read`] be used as a seed.
pub(super) struct Any<R>(pub(super) R);

impl<'a, R: Read<'a>> DeserializeSeed<'a> for Any<R> {
    type Value = R::Out;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<R::Out, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a, R: Read<'a>> Visitor<'a> for Any<R> {
    type Value = R::Out;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_unit<E: Error>(self) -> Result<R::Out, E> {
        Ok(self.0.null())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<R::Out, E> {
        Ok(self.0.wrong())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<R::Out, E> {
        Ok(self.0.wrong())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<R::Out, E> {
        Ok(self.0.wrong())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<R::Out, E> {
        Ok(self.0.wrong())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<R::Out, E> {
        Ok(self.0.text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<R::Out, E> {
        Ok(self.0.text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<R::Out, E> {
        Ok(self.0.text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, array: A) -> Result<R::Out, A::Error> {
        self.0.array(array)
    }

    fn visit_map<A: MapAccess<'a>>(self, object: A) -> Result<R::Out, A::Error> {
        self.0.object(object)
    }
}

/// Reads a string or `null`; anything else sets the flag.
pub(super) struct Text<'m>(pub(super) &'m mut bool);

impl<'a> Read<'a> for Text<'_> {
    type Out = Option<Cow<'a, str>>;

    fn wrong(self) -> Self::Out {
        *self.0 = true;
        None
    }

    fn null(self) -> Self::Out {
        None
    }

    fn text(self, text: Cow<'a, str>) -> Self::Out {
        Some(text)
    }
}
