//! Typed headers: the ext fields of each request, by family.

use crate::ext_fields::ExtFields;

/// A header that can be written to ext fields: what we send ourselves.
pub trait Header {
    /// Adds the fields in the order of the Java class.
    fn write(&self, ext: &mut ExtFields);
}
