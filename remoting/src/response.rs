//! An answer under construction.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::codes::response_code;
use crate::command::Command;
use crate::ext_fields::HeaderError;

/// Value of one ext field of an answer. All are texts on the wire; numbers are written without an intermediate string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// Text.
    Str(Cow<'static, str>),
    /// Decimal text of a 64-bit integer.
    I64(i64),
    /// Decimal text of a 32-bit integer.
    I32(i32),
    /// `true` or `false`.
    Bool(bool),
    /// Offset message id of a store host and a physical offset: 32 or 56 upper-case hex digits.
    OffsetId(SocketAddr, i64),
    /// Text that is a slice of a received frame; not UTF-8 is written as empty.
    Shared(Bytes),
}

impl From<&'static str> for FieldValue {
    fn from(v: &'static str) -> Self {
        FieldValue::Str(Cow::Borrowed(v))
    }
}
impl From<String> for FieldValue {
    fn from(v: String) -> Self {
        FieldValue::Str(Cow::Owned(v))
    }
}
impl From<i64> for FieldValue {
    fn from(v: i64) -> Self {
        FieldValue::I64(v)
    }
}
impl From<i32> for FieldValue {
    fn from(v: i32) -> Self {
        FieldValue::I32(v)
    }
}
impl From<bool> for FieldValue {
    fn from(v: bool) -> Self {
        FieldValue::Bool(v)
    }
}

/// Ext fields of an answer, in order.
pub type ResponseFields = SmallVec<[(Cow<'static, str>, FieldValue); 6]>;

/// An answer: code, remark, ext fields, and a body given as slices that are sent one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Response {
    /// Response code.
    pub code: i32,
    /// Text for people.
    pub remark: Option<Cow<'static, str>>,
    /// Ext fields.
    pub fields: ResponseFields,
    /// Whether the header has a map of ext fields even when there is no field.
    pub has_fields: bool,
    /// The body's parts.
    pub body: SmallVec<[Bytes; 4]>,
}

impl Response {
    /// Success.
    pub fn ok() -> Response {
        Response::code(response_code::SUCCESS)
    }

    /// A code without remark.
    pub fn code(code: i32) -> Response {
        Response {
            code,
            ..Response::default()
        }
    }

    /// A refusal or failure with its reason.
    pub fn error(code: i32, remark: impl Into<Cow<'static, str>>) -> Response {
        Response {
            code,
            remark: Some(remark.into()),
            ..Response::default()
        }
    }

    /// What a broker says to a request code that it does not know, in Java's words (blank included).
    pub fn unsupported(code: i32) -> Response {
        Response::error(
            response_code::REQUEST_CODE_NOT_SUPPORTED,
            format!(" request type {code} not supported"),
        )
    }

    /// Passes on what somebody else answered.
    pub fn relay(answer: &Command) -> Response {
        let mut response = Response::code(answer.code);
        response.remark = answer.remark.clone().map(Cow::Owned);
        response.has_fields = answer.ext.is_present();
        for (name, value) in answer.ext.iter() {
            response = response.field_named(name.to_owned(), value.to_owned());
        }
        response.body(answer.body.clone())
    }

    /// Sets the remark.
    pub fn remark(mut self, remark: impl Into<Cow<'static, str>>) -> Response {
        self.remark = Some(remark.into());
        self
    }

    /// Adds an ext field.
    pub fn field(mut self, name: &'static str, value: impl Into<FieldValue>) -> Response {
        self.fields.push((Cow::Borrowed(name), value.into()));
        self
    }

    /// Adds an ext field whose name is made at run time.
    pub fn field_named(mut self, name: String, value: impl Into<FieldValue>) -> Response {
        self.fields.push((Cow::Owned(name), value.into()));
        self
    }

    /// Writes a map of ext fields even if it is empty: some clients need one to be there.
    pub fn with_fields(mut self) -> Response {
        self.has_fields = true;
        self
    }

    /// Adds a part of the body.
    pub fn body(mut self, part: impl Into<Bytes>) -> Response {
        let part = part.into();
        if !part.is_empty() {
            self.body.push(part);
        }
        self
    }

    /// Length of the body, in bytes.
    pub fn body_len(&self) -> usize {
        self.body.iter().map(Bytes::len).sum()
    }
}

/// A request whose header is not whole is answered with 1 and the field's name.
impl From<HeaderError> for Response {
    fn from(error: HeaderError) -> Self {
        Response::error(response_code::SYSTEM_ERROR, error.to_string())
    }
}
