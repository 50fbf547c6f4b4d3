//! Writing: a serde serializer that prints as fastjson does. Declare the members of structs in alphabetical order, since
//! that is fastjson's order; null members and entries are left out.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Impossible};

use super::escape::{may_need_escape, put_escape, put_unit};

/// Why a value could not be written. Only values that no JSON has can cause it.
#[derive(Debug, thiserror::Error)]
#[error("cannot be written as JSON: {0}")]
pub struct WriteError(String);

impl ser::Error for WriteError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        WriteError(message.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `JSON.toJSONString(x)`.
    Compact,
    /// `JSON.toJSONString(x, PrettyFormat)`: tabs.
    Pretty,
    /// BrowserCompatible and quoted keys: what is also JSON.
    Standard,
}

/// Compact: bodies of requests and answers.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, WriteError> {
    write(value, Form::Compact)
}

/// Compact, as text.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, WriteError> {
    String::from_utf8(write(value, Form::Compact)?).map_err(|e| WriteError(e.to_string()))
}

/// Indented by tabs: config files.
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, WriteError> {
    write(value, Form::Pretty)
}

/// Compact, with all keys quoted and everything outside ASCII escaped: routes for clients that ask for standard JSON.
pub fn to_vec_standard<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, WriteError> {
    write(value, Form::Standard)
}

fn write<T: Serialize + ?Sized>(value: &T, form: Form) -> Result<Vec<u8>, WriteError> {
    let mut writer = Writer {
        out: Vec::with_capacity(128),
        form,
        depth: 0,
    };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    form: Form,
    depth: usize,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        if self.form == Form::Standard {
            self.ascii_text(text);
        } else {
            self.plain_text(text);
        }
        self.out.push(b'"');
    }

    fn plain_text(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|&b| may_need_escape(b)) {
            self.out.extend_from_slice(&rest[..at]);
            let taken = put_escape(&rest[at..], |bytes| self.out.extend_from_slice(bytes));
            rest = &rest[at + taken..];
        }
        self.out.extend_from_slice(rest);
    }

    fn ascii_text(&mut self, text: &str) {
        for c in text.chars() {
            let mut utf8 = [0; 4];
            let bytes = c.encode_utf8(&mut utf8).as_bytes();
            if !c.is_ascii() {
                let mut units = [0; 2];
                for &mut unit in c.encode_utf16(&mut units) {
                    put_unit(unit, |bytes| self.out.extend_from_slice(bytes));
                }
            } else if may_need_escape(bytes[0]) {
                put_escape(bytes, |bytes| self.out.extend_from_slice(bytes));
            } else {
                self.out.push(bytes[0]);
            }
        }
    }

    fn integer(&mut self, value: impl itoa::Integer) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    fn line(&mut self) {
        if self.form == Form::Pretty {
            self.out.push(b'\n');
            self.out.extend(std::iter::repeat_n(b'\t', self.depth));
        }
    }

    fn open(&mut self, bracket: u8) {
        self.out.push(bracket);
        self.depth += 1;
    }
}

/// A list, map or struct being written.
struct Items<'a> {
    writer: &'a mut Writer,
    close: &'static [u8],
    any: bool,
    /// Length of the output before the last map key, so that an entry with a null value can be taken back.
    key_start: usize,
    key_first: bool,
}

impl<'a> Items<'a> {
    fn new(writer: &'a mut Writer, open: u8, close: &'static [u8]) -> Items<'a> {
        writer.open(open);
        Items {
            writer,
            close,
            any: false,
            key_start: 0,
            key_first: false,
        }
    }

    fn comma(&mut self) {
        if self.any {
            self.writer.out.push(b',');
        }
        self.any = true;
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.comma();
        self.writer.line();
        value.serialize(&mut *self.writer)
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), WriteError> {
        self.key_start = self.writer.out.len();
        self.key_first = !self.any;
        self.comma();
        let before = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        let is_text = self.writer.out.get(before) == Some(&b'"');
        if is_text && self.writer.form == Form::Pretty {
            // fastjson breaks the line before keys that are text, and only before those.
            let key = self.writer.out.split_off(before);
            self.writer.line();
            self.writer.out.extend_from_slice(&key);
        } else if !is_text && self.writer.form == Form::Standard {
            let key = self.writer.out.split_off(before);
            let key = String::from_utf8(key).map_err(|e| WriteError(e.to_string()))?;
            self.writer.text(&key);
        }
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.writer.out.push(b':');
        let before = self.writer.out.len();
        value.serialize(&mut *self.writer)?;
        if &self.writer.out[before..] == b"null" {
            self.writer.out.truncate(self.key_start);
            self.any = !self.key_first;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), WriteError> {
        self.writer.depth -= 1;
        if self.any {
            self.writer.line();
        }
        self.writer.out.extend_from_slice(self.close);
        Ok(())
    }
}

macro_rules! integers {
    ($($method:ident $kind:ty,)*) => {
        $(fn $method(self, value: $kind) -> Result<(), WriteError> {
            self.integer(value);
            Ok(())
        })*
    };
}

impl<'a> ser::Serializer for &'a mut Writer {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Impossible<(), WriteError>;
    type SerializeMap = Items<'a>;
    type SerializeStruct = Items<'a>;
    type SerializeStructVariant = Impossible<(), WriteError>;

    integers! {
        serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64,
        serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), WriteError> {
        self.out
            .extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), WriteError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), WriteError> {
        // Java prints "0.0"; what is no number is null.
        match value.is_finite() {
            true => self.out.extend_from_slice(format!("{value:?}").as_bytes()),
            false => self.out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), WriteError> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), WriteError> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), WriteError> {
        Err(WriteError(
            "bytes have no form of their own; encode them as text".to_owned(),
        ))
    }

    fn serialize_none(self) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), WriteError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), WriteError> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), WriteError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), WriteError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        v: &T,
    ) -> Result<(), WriteError> {
        v.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        let mut items = Items::new(self, b'{', b"}");
        items.key(variant)?;
        items.value(value)?;
        items.finish()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, WriteError> {
        Ok(Items::new(self, b'[', b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, WriteError> {
        Ok(Items::new(self, b'[', b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, WriteError> {
        Ok(Items::new(self, b'[', b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, WriteError> {
        Err(WriteError(
            "tuple variants have no form in fastjson".to_owned(),
        ))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Items<'a>, WriteError> {
        Ok(Items::new(self, b'{', b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, WriteError> {
        Ok(Items::new(self, b'{', b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, WriteError> {
        Err(WriteError(
            "struct variants have no form in fastjson".to_owned(),
        ))
    }
}

impl ser::SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = WriteError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.item(value)
    }
    fn end(self) -> Result<(), WriteError> {
        self.finish()
    }
}

impl ser::SerializeTuple for Items<'_> {
    type Ok = ();
    type Error = WriteError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.item(value)
    }
    fn end(self) -> Result<(), WriteError> {
        self.finish()
    }
}

impl ser::SerializeTupleStruct for Items<'_> {
    type Ok = ();
    type Error = WriteError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.item(value)
    }
    fn end(self) -> Result<(), WriteError> {
        self.finish()
    }
}

impl ser::SerializeMap for Items<'_> {
    type Ok = ();
    type Error = WriteError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), WriteError> {
        self.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        self.value(value)
    }
    fn end(self) -> Result<(), WriteError> {
        self.finish()
    }
}

impl ser::SerializeStruct for Items<'_> {
    type Ok = ();
    type Error = WriteError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        self.key(name)?;
        self.value(value)
    }
    fn end(self) -> Result<(), WriteError> {
        self.finish()
    }
}
