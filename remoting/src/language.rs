//! Language of the sender of a frame (class LanguageCode).

/// Language that a frame's sender names. Only informative, except that a request marked CPP asks for the list form
/// of some bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Language {
    #[default]
    Java = 0,
    Cpp = 1,
    DotNet = 2,
    Python = 3,
    Delphi = 4,
    Erlang = 5,
    Ruby = 6,
    /// Also what any unknown name or number is read as: a new client language must not cost the connection.
    Other = 7,
    Http = 8,
    Go = 9,
    Php = 10,
    Oms = 11,
    Rust = 12,
    NodeJs = 13,
}

const NAMES: [(&str, Language); 14] = [
    ("JAVA", Language::Java),
    ("CPP", Language::Cpp),
    ("DOTNET", Language::DotNet),
    ("PYTHON", Language::Python),
    ("DELPHI", Language::Delphi),
    ("ERLANG", Language::Erlang),
    ("RUBY", Language::Ruby),
    ("OTHER", Language::Other),
    ("HTTP", Language::Http),
    ("GO", Language::Go),
    ("PHP", Language::Php),
    ("OMS", Language::Oms),
    ("RUST", Language::Rust),
    ("NODE_JS", Language::NodeJs),
];

impl Language {
    /// Number in the binary header.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Name in the JSON header.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }

    /// Language of a binary header's number; unknown numbers are [`Language::Other`].
    pub fn from_code(code: i64) -> Language {
        usize::try_from(code)
            .ok()
            .and_then(|i| NAMES.get(i))
            .map_or(Language::Other, |&(_, l)| l)
    }

    /// Language of a JSON header's name; unknown names are [`Language::Other`].
    pub fn from_name(name: &str) -> Language {
        NAMES
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map_or(Language::Other, |&(_, l)| l)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_agree() {
        for (i, &(name, language)) in NAMES.iter().enumerate() {
            assert_eq!(language.code() as usize, i);
            assert_eq!(language.name(), name);
            assert_eq!(Language::from_code(i as i64), language);
            assert_eq!(Language::from_name(name), language);
        }
        assert_eq!(Language::from_code(200), Language::Other);
        assert_eq!(Language::from_code(-1), Language::Other);
        assert_eq!(Language::from_name("ZIG"), Language::Other);
    }
}
