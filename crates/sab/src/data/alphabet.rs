//! [`Alphabet`]: the characters of a text and their numbers.

use super::error::{DataError, Result};
use serde::{Deserialize, Serialize};

/// The most symbols an alphabet may have; their numbers fit into `u16`.
pub const MOST_SYMBOLS: usize = 65_000;

/// A number that no symbol has.
const NO_SYMBOL: u16 = u16::MAX;

/// The characters of a text in a fixed order: a symbol's number is its position. Serialised as one string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alphabet {
    symbols: Vec<char>,
    /// The number of each code point up to the largest of a symbol.
    numbers: Vec<u16>,
}

impl Alphabet {
    /// An alphabet of at least one and at most [`MOST_SYMBOLS`] different characters.
    pub fn new(symbols: Vec<char>) -> Result<Self> {
        if symbols.is_empty() {
            return Err(DataError::Invalid("an alphabet needs at least one symbol".into()));
        }
        if symbols.len() > MOST_SYMBOLS {
            let text = format!("an alphabet of {} symbols is too large: {MOST_SYMBOLS} is the most", symbols.len());
            return Err(DataError::Invalid(text));
        }
        let largest = symbols.iter().map(|symbol| *symbol as usize).max().unwrap_or(0);
        let mut numbers = vec![NO_SYMBOL; largest + 1];
        for (&symbol, number) in symbols.iter().zip(0u16..) {
            if std::mem::replace(&mut numbers[symbol as usize], number) != NO_SYMBOL {
                return Err(DataError::Invalid(format!("symbol {symbol:?} occurs twice in an alphabet")));
            }
        }
        Ok(Self { symbols, numbers })
    }

    /// The alphabet of all characters that occur, in the order of their code points.
    pub fn of(characters: impl IntoIterator<Item = char>) -> Result<Self> {
        let mut seen = vec![false; char::MAX as usize + 1];
        characters.into_iter().for_each(|character| seen[character as usize] = true);
        Self::new(('\0'..=char::MAX).filter(|character| seen[*character as usize]).collect())
    }

    /// The symbols in order.
    pub fn symbols(&self) -> &[char] {
        &self.symbols
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// Whether there are no symbols; never the case.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The number of a character.
    fn number_of(&self, character: char) -> Option<u16> {
        self.numbers.get(character as usize).copied().filter(|number| *number != NO_SYMBOL)
    }

    /// The numbers of a text's characters; a character outside the alphabet is an error that names it and its place.
    pub fn encode(&self, text: &str) -> Result<Vec<u16>> {
        let mut numbers = Vec::with_capacity(text.len());
        for (position, character) in text.chars().enumerate() {
            let unknown = || DataError::UnknownCharacter { character, position, symbols: self.len() };
            numbers.push(self.number_of(character).ok_or_else(unknown)?);
        }
        Ok(numbers)
    }

    /// The text of the numbers; a number outside the alphabet becomes the replacement character U+FFFD.
    pub fn decode(&self, numbers: &[u16]) -> String {
        let symbol = |&number: &u16| self.symbols.get(usize::from(number)).copied();
        numbers.iter().map(|number| symbol(number).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

impl TryFrom<String> for Alphabet {
    type Error = DataError;

    fn try_from(symbols: String) -> Result<Self> {
        Self::new(symbols.chars().collect())
    }
}

impl From<Alphabet> for String {
    fn from(alphabet: Alphabet) -> Self {
        alphabet.symbols.into_iter().collect()
    }
}
