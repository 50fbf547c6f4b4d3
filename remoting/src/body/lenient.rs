//! Reading of members that some clients write in another type: numbers as text, booleans as numbers, enums as ordinals.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, Visitor};

/// An integer, also given as text or with a fraction.
pub fn int<'de, D: Deserializer<'de>, T: TryFrom<i64>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(IntVisitor(PhantomData))
}

/// An optional integer, likewise.
pub fn opt_int<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    int(deserializer).map(Some)
}

/// A boolean, also given as text or number; anything but `true` and 1 is false.
pub fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    deserializer.deserialize_any(BoolVisitor)
}

/// An optional boolean, likewise.
pub fn opt_boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    boolean(deserializer).map(Some)
}

/// Reads an `i32` as [`int`] does.
pub(super) struct IntSeed;

impl<'de> DeserializeSeed<'de> for IntSeed {
    type Value = i32;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<i32, D::Error> {
        int(deserializer)
    }
}

struct IntVisitor<T>(PhantomData<T>);

impl<T: TryFrom<i64>> Visitor<'_> for IntVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, or text of one")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<T, E> {
        T::try_from(value)
            .map_err(|_| E::custom(format_args!("the integer {value} is out of range")))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<T, E> {
        let signed = i64::try_from(value);
        self.visit_i64(
            signed.map_err(|_| E::custom(format_args!("the integer {value} is out of range")))?,
        )
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<T, E> {
        self.visit_i64(value as i64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let value = crate::ext_fields::parse_int(text.trim().as_bytes());
        self.visit_i64(value.ok_or_else(|| E::custom(format_args!("'{text}' is no integer")))?)
    }
}

struct BoolVisitor;

impl Visitor<'_> for BoolVisitor {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a boolean, or text or number of one")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<bool, E> {
        Ok(value == 1)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<bool, E> {
        Ok(value == 1)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<bool, E> {
        Ok(crate::ext_fields::parse_bool(text.as_bytes()))
    }
}

/// Declares an enum that is written by name and read by name or ordinal; what is unknown or missing is `Unknown`.
macro_rules! wire_enum {
    ($(
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $wire:literal $ordinal:literal,)* }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$variant_doc])* #[doc = concat!("`", $wire, "`, ordinal ", $ordinal, ".")] $variant,)*
            /// Missing, or a name or ordinal that is not known.
            #[default]
            Unknown,
        }

        impl $name {
            /// Name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $wire,)*
                    Self::Unknown => "UNKNOWN",
                }
            }

            /// Value of a name on the wire.
            pub fn from_name(name: &str) -> Self {
                match name {
                    $($wire => Self::$variant,)*
                    other => match other.parse::<i64>() {
                        Ok(ordinal) => Self::from_ordinal(ordinal),
                        Err(_) => Self::Unknown,
                    },
                }
            }

            /// Value of an ordinal.
            pub fn from_ordinal(ordinal: i64) -> Self {
                match ordinal {
                    $($ordinal => Self::$variant,)*
                    _ => Self::Unknown,
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Unknown => serializer.serialize_none(),
                    known => serializer.serialize_str(known.name()),
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match serde_json::Value::deserialize(deserializer)? {
                    serde_json::Value::String(name) => Self::from_name(&name),
                    serde_json::Value::Number(n) => n.as_i64().map_or(Self::Unknown, Self::from_ordinal),
                    _ => Self::Unknown,
                })
            }
        }
    )*};
}
pub(super) use wire_enum;
