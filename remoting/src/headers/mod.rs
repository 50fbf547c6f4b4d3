//! Typed headers: the ext fields of each request, by family.
//!
//! A header is read by `TryFrom<&ExtFields>` (most easily [`crate::Command::header`]): its texts are slices of the
//! received frame, a field of a plain type must be there, an `Option` may be absent. Fields that are not declared are
//! ignored. It is written by [`Header::write`], which [`crate::Command::with_header`] calls.

use crate::ext_fields::{ExtFields, HeaderError};

mod admin;
mod client;
mod namesrv;
mod offset;
mod pull;
mod query;
mod send;

pub use admin::*;
pub use client::*;
pub use namesrv::*;
pub use offset::*;
pub use pull::*;
pub use query::*;
pub use send::*;

/// A header that can be written to ext fields.
pub trait Header {
    /// Adds the fields in the order of the Java class.
    fn write(&self, ext: &mut ExtFields);
}

/// A type that an ext field can have.
pub trait Field<'a>: Sized {
    /// Reads the field of this name.
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError>;
    /// Adds the field of this name, if it has a value.
    fn write(&self, ext: &mut ExtFields, name: &'static str);
}

impl<'a> Field<'a> for &'a str {
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        ext.require(name)
    }
    fn write(&self, ext: &mut ExtFields, name: &'static str) {
        ext.push(name, self);
    }
}

impl<'a> Field<'a> for i32 {
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        ext.require_i32(name)
    }
    fn write(&self, ext: &mut ExtFields, name: &'static str) {
        ext.push_int(name, i64::from(*self));
    }
}

impl<'a> Field<'a> for i64 {
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        ext.require_i64(name)
    }
    fn write(&self, ext: &mut ExtFields, name: &'static str) {
        ext.push_int(name, *self);
    }
}

impl<'a> Field<'a> for bool {
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        ext.require_bool(name)
    }
    fn write(&self, ext: &mut ExtFields, name: &'static str) {
        ext.push_bool(name, *self);
    }
}

impl<'a, T: Field<'a>> Field<'a> for Option<T> {
    fn read(ext: &'a ExtFields, name: &'static str) -> Result<Self, HeaderError> {
        match T::read(ext, name) {
            Ok(value) => Ok(Some(value)),
            Err(HeaderError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
    fn write(&self, ext: &mut ExtFields, name: &'static str) {
        if let Some(value) = self {
            value.write(ext, name);
        }
    }
}

/// Declares headers: `name: type = "name on the wire"`.
macro_rules! headers {
    ($(
        $(#[$doc:meta])*
        $header:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty = $name:literal,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $header<'a> {
            $($(#[$field_doc])* #[doc = concat!("Ext field `", $name, "`.")] pub $field: $kind,)*
            /// Keeps the lifetime of headers without text.
            pub lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> TryFrom<&'a $crate::ExtFields> for $header<'a> {
            type Error = $crate::HeaderError;
            fn try_from(ext: &'a $crate::ExtFields) -> Result<Self, $crate::HeaderError> {
                Ok($header {
                    $($field: $crate::headers::Field::read(ext, $name)?,)*
                    lifetime: std::marker::PhantomData,
                })
            }
        }

        impl $crate::headers::Header for $header<'_> {
            fn write(&self, ext: &mut $crate::ExtFields) {
                $($crate::headers::Field::write(&self.$field, ext, $name);)*
            }
        }
    )*};
}
pub(crate) use headers;

#[cfg(test)]
mod tests;
