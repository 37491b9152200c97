//! Values of a configuration that are a number or a word.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::marker::PhantomData;

/// The word that stands for the absence of a number.
pub trait Word {
    /// As it is written in a configuration.
    const WORD: &'static str;
}

/// `"none"`: there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLimit;

/// `"auto"`: the program chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen;

impl Word for NoLimit {
    const WORD: &'static str = "none";
}

impl Word for Chosen {
    const WORD: &'static str = "auto";
}

/// A number, or a word in its place. Every key of a configuration has a value, so that a resolved one shows them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberOr<W, T> {
    number: Option<T>,
    word: PhantomData<W>,
}

/// A number or `"none"`.
pub type Limit<T> = NumberOr<NoLimit, T>;

/// A number or `"auto"`.
pub type Auto<T> = NumberOr<Chosen, T>;

impl<W, T: Copy> NumberOr<W, T> {
    /// The word.
    pub const WORD: Self = Self { number: None, word: PhantomData };

    /// A number.
    pub const fn of(number: T) -> Self {
        Self { number: Some(number), word: PhantomData }
    }

    /// The number, if it is one.
    pub fn get(&self) -> Option<T> {
        self.number
    }
}

impl<W: Word, T: Serialize> Serialize for NumberOr<W, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.number {
            Some(number) => number.serialize(serializer),
            None => serializer.serialize_str(W::WORD),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText<T> {
    Number(T),
    Text(String),
}

impl<'de, W: Word, T: Deserialize<'de>> Deserialize<'de> for NumberOr<W, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = || serde::de::Error::custom(format!("expected a number or \"{}\"", W::WORD));
        match NumberOrText::deserialize(deserializer) {
            Ok(NumberOrText::Number(number)) => Ok(Self { number: Some(number), word: PhantomData }),
            Ok(NumberOrText::Text(text)) if text == W::WORD => Ok(Self { number: None, word: PhantomData }),
            _ => Err(expected()),
        }
    }
}
