//! Iterator over the fields of a protobuf message, borrowed from its bytes.
//!
//! Encoding (protobuf.dev/programming-guides/encoding): a key is `number << 3 | type`; type 0 is a varint, 1 eight bytes,
//! 2 length-prefixed bytes, 5 four bytes.

use std::borrow::Cow;

/// The content of one field.
#[derive(Clone, Copy)]
pub(crate) enum FieldValue<'a> {
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// A fixed32 or fixed64, which no field read here has.
    Skipped,
}

/// The fields of one message in order, with their numbers. Ends after the first error.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> FieldValue<'a> {
    /// Returns the fields of an embedded message.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields(self.bytes())
    }

    /// Returns the text; bytes that are not UTF-8 become replacement characters.
    pub(crate) fn text(self) -> Cow<'a, str> {
        let bytes = self.bytes();
        std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
    }

    /// Returns an int64, an int32 or a bool; 0 for other types.
    pub(crate) fn number(self) -> i64 {
        match self {
            FieldValue::Number(number) => number.cast_signed(),
            _ => 0,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            FieldValue::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

impl<'a> Fields<'a> {
    /// Returns the last field `number` of a message; empty bytes if it has none.
    pub(crate) fn find(message: &'a [u8], number: u32) -> Result<FieldValue<'a>, String> {
        let mut found = FieldValue::Bytes(&[]);
        for field in Fields(message) {
            match field? {
                (at, value) if at == number => found = value,
                _ => {}
            }
        }
        Ok(found)
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u32, FieldValue<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => FieldValue::Number(self.varint()?),
            1 => self.take(8).map(|_| FieldValue::Skipped)?,
            2 => {
                let length = self.varint()?;
                FieldValue::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| FieldValue::Skipped)?,
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, FieldValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| "the protobuf is damaged or truncated".to_owned()))
    }
}
