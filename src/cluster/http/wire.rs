//! The fields of a protobuf message, borrowed from its bytes.
//!
//! Source: the published encoding of protocol buffers: a key is `number << 3 | type`, and the types are 0 a number, 1 eight
//! bytes, 2 bytes with their length in front, 5 four bytes.

use std::borrow::Cow;

/// The content of one field.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Of a type that no field this tool reads has.
    Skipped,
}

/// The fields of one message in the order in which they stand, by number. Ends after the first error.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// The fields of a message.
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields(self.bytes())
    }

    /// Text; what is not UTF-8 in it becomes replacement characters.
    pub(crate) fn text(self) -> Cow<'a, str> {
        let bytes = self.bytes();
        std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
    }

    /// An int64, an int32 or a bool.
    pub(crate) fn number(self) -> i64 {
        match self {
            Value::Number(number) => number.cast_signed(),
            _ => 0,
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

impl<'a> Fields<'a> {
    /// Field `number` of a message, empty when it is missing.
    pub(crate) fn find(message: &'a [u8], number: u32) -> Result<Value<'a>, String> {
        let mut found = Value::Bytes(&[]);
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

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Skipped)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Skipped)?,
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), String>;

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
