//! Names of parts. A family of parts (cells, scorers, sparsifiers, stores) lists its members once. Everything that
//! looks them up by name follows from this list.

/// Declares a family: an enum of its members, with a name and an implementation for each. The first is the default.
macro_rules! registry {
    ($(#[$doc:meta])* $family:ident ($what:literal): dyn $interface:ident {
        $($(#[$member_doc:meta])* $member:ident = $name:literal => $part:expr,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $family {
            $($(#[$member_doc])* $member,)+
        }

        impl $family {
            /// All members, the default first.
            pub const ALL: &'static [$family] = &[$($family::$member),+];

            /// Its name in configuration files.
            pub fn name(self) -> &'static str {
                match self {
                    $($family::$member => $name,)+
                }
            }

            /// Its implementation.
            pub(crate) fn part(self) -> &'static dyn $interface {
                match self {
                    $($family::$member => &$part,)+
                }
            }
        }

        impl Default for $family {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl std::fmt::Display for $family {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $family {
            type Err = String;

            fn from_str(name: &str) -> std::result::Result<Self, String> {
                Self::ALL.iter().copied().find(|member| member.name() == name).ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|member| member.name()).collect();
                    format!("there is no {} \"{name}\"; choose one of {}", $what, names.join(", "))
                })
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $family {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $family {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                name.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use registry;

#[cfg(test)]
mod tests {
    use crate::{Cell, Evict, Scorer, Sparsifier, Store};

    #[test]
    fn every_name_means_its_part_and_a_wrong_one_lists_the_right_ones() {
        assert!(Cell::ALL.iter().all(|part| part.name().parse() == Ok(*part)));
        assert!(Scorer::ALL.iter().all(|part| part.name().parse() == Ok(*part)));
        assert!(Sparsifier::ALL.iter().all(|part| part.name().parse() == Ok(*part)));
        assert!(Store::ALL.iter().all(|part| part.name().parse() == Ok(*part)));
        assert!(Evict::ALL.iter().all(|part| part.name().parse() == Ok(*part)));
        let wrong = "dott".parse::<Scorer>().expect_err("no such scorer");
        assert!(wrong.starts_with("there is no scorer \"dott\"; choose one of additive, dot, cosine"), "{wrong}");
        assert_eq!((Cell::default(), Store::default()), (Cell::Lstm, Store::Every));
    }
}
