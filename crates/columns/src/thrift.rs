//! Thrift's compact protocol, as far as headers and footer of a Parquet file need it.
//!
//! Invariant: fields of a structure come in rising order of their numbers. Format:
//! <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// Types of fields and of elements of lists.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
pub(crate) const BINARY: u8 = 8;
const LIST: u8 = 9;
pub(crate) const STRUCT: u8 = 12;

/// The fields of a structure; its end is written by [`Struct::end`].
pub(crate) struct Struct<'a> {
    out: &'a mut Vec<u8>,
    last: i16,
}

impl<'a> Struct<'a> {
    pub fn begin(out: &'a mut Vec<u8>) -> Struct<'a> {
        Struct { out, last: 0 }
    }

    pub fn i32(&mut self, field: i16, value: i32) {
        self.header(field, I32);
        put_varint(self.out, zigzag(i64::from(value)));
    }

    pub fn i64(&mut self, field: i16, value: i64) {
        self.header(field, I64);
        put_varint(self.out, zigzag(value));
    }

    pub fn truth(&mut self, field: i16, value: bool) {
        self.header(field, if value { TRUE } else { FALSE });
    }

    pub fn text(&mut self, field: i16, value: &str) {
        self.header(field, BINARY);
        put_text(self.out, value);
    }

    pub fn structure(&mut self, field: i16, fields: impl FnOnce(&mut Struct<'_>)) {
        self.header(field, STRUCT);
        put_struct(self.out, fields);
    }

    /// A list; `each` writes an element as its type prescribes.
    pub fn list<T>(
        &mut self,
        field: i16,
        element: u8,
        values: impl ExactSizeIterator<Item = T>,
        mut each: impl FnMut(&mut Vec<u8>, T),
    ) {
        self.header(field, LIST);
        match u8::try_from(values.len()) {
            Ok(length @ 0..=14) => self.out.push(length << 4 | element),
            _ => {
                self.out.push(0xF0 | element);
                put_varint(self.out, values.len() as u64);
            }
        }
        for value in values {
            each(self.out, value);
        }
    }

    fn header(&mut self, field: i16, kind: u8) {
        // No structure of the format skips more than fourteen fields.
        let step = u8::try_from(field - self.last).expect("fields rise by at most 14");
        self.out.push(step << 4 | kind);
        self.last = field;
    }
}

/// A structure by itself, or as an element of a list.
pub(crate) fn put_struct(out: &mut Vec<u8>, fields: impl FnOnce(&mut Struct<'_>)) {
    let mut structure = Struct::begin(out);
    fields(&mut structure);
    out.push(0);
}

/// A text as an element of a list.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A number of an enumeration as an element of a list.
pub(crate) fn put_i32(out: &mut Vec<u8>, value: i32) {
    put_varint(out, zigzag(i64::from(value)));
}

/// ULEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small numbers of either sign as small ones without a sign.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
