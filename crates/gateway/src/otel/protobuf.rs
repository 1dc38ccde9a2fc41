//! Encodes and decodes protobuf messages by field numbers, without a schema.
//!
//! Invariant: decoding ends for any input and never reads beyond it.

/// A message that is being encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(Vec<u8>);

/// Wire types.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Sized = 2,
    Fixed32 = 5,
}

impl Message {
    /// The encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// An integer, a boolean or an enum.
    pub fn number(&mut self, field: u32, value: u64) {
        self.tag(field, Wire::Varint);
        self.varint(value);
    }

    /// A `fixed64`.
    pub fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, Wire::Fixed64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A `fixed32`.
    pub fn fixed32(&mut self, field: u32, value: u32) {
        self.tag(field, Wire::Fixed32);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A `double`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// Bytes or a string.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, Wire::Sized);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// A string.
    pub fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// A nested message.
    pub fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }

    /// Packed `fixed64` values.
    pub fn fixed_list(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        let bytes: Vec<u8> = values.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes);
    }

    /// Packed `double` values.
    pub fn double_list(&mut self, field: u32, values: impl Iterator<Item = f64>) {
        self.fixed_list(field, values.map(f64::to_bits));
    }

    fn tag(&mut self, field: u32, wire: Wire) {
        self.varint(u64::from(field) << 3 | wire as u64);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A decoded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    Number(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message in order, up to the first that is malformed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<(u64, Value<'a>)> {
        let found = self.read();
        if found.is_none() {
            self.0 = &[];
        }
        found
    }
}

impl<'a> Fields<'a> {
    fn read(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for index in 0..10 {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_written_as_the_specification_shows_them() {
        let mut message = Message::default();
        message.number(1, 150);
        message.text(2, "testing");
        message.message(3, |inner| inner.number(1, 150));
        let expected = b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01";
        assert_eq!(message.into_bytes(), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn encoded_fields_are_decoded(field in 1u32..1 << 29, number: u64, bytes: Vec<u8>, values: Vec<f64>) {
            let mut message = Message::default();
            message.number(field, number);
            message.fixed(1, number);
            message.fixed32(2, number as u32);
            message.bytes(field, &bytes);
            message.double_list(2, values.iter().copied());
            let written = message.into_bytes();
            let read: Vec<_> = Fields(&written).collect();
            let list: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let field = u64::from(field);
            let expected =
                [(field, Value::Number(number)), (1, Value::Fixed64(number)), (2, Value::Fixed32(number as u32)), (field, Value::Bytes(&bytes)), (2, Value::Bytes(&list))];
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn decoding_ends_for_any_input(bytes: Vec<u8>) {
            prop_assert!(Fields(&bytes).count() <= bytes.len());
        }
    }
}
