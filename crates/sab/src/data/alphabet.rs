//! [`Alphabet`]: the characters a text is made of, and their numbers.

use super::error::{DataError, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// The most symbols an alphabet may have; their numbers fit into `u16`.
pub const MOST_SYMBOLS: usize = 65_000;

/// A number that no symbol has.
const NO_SYMBOL: u16 = u16::MAX;

/// The characters of a text in a fixed order: a symbol's number is its place. Serialised as one string.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Alphabet {
    symbols: Vec<char>,
    /// The numbers of the ASCII characters: nearly all of nearly every text, so they get by without hashing.
    ascii: [u16; 128],
    others: HashMap<char, u16>,
}

impl PartialEq for Alphabet {
    fn eq(&self, other: &Self) -> bool {
        self.symbols == other.symbols
    }
}

impl Eq for Alphabet {}

impl Alphabet {
    /// Makes an alphabet of at least one and at most [`MOST_SYMBOLS`] different characters.
    pub fn new(symbols: Vec<char>) -> Result<Self> {
        if symbols.is_empty() {
            return Err(DataError::Invalid("an alphabet needs at least one symbol".into()));
        }
        if symbols.len() > MOST_SYMBOLS {
            let text = format!("an alphabet of {} symbols is too large: {MOST_SYMBOLS} is the most", symbols.len());
            return Err(DataError::Invalid(text));
        }
        let (mut ascii, mut others) = ([NO_SYMBOL; 128], HashMap::new());
        for (&symbol, number) in symbols.iter().zip(0u16..) {
            let earlier = match ascii.get_mut(symbol as usize) {
                Some(slot) => std::mem::replace(slot, number) != NO_SYMBOL,
                None => others.insert(symbol, number).is_some(),
            };
            if earlier {
                return Err(DataError::Invalid(format!("symbol {symbol:?} stands twice in an alphabet")));
            }
        }
        Ok(Self { symbols, ascii, others })
    }

    /// The alphabet of all characters that occur, in the order of their code points.
    pub fn of(characters: impl IntoIterator<Item = char>) -> Result<Self> {
        let (mut seen, mut others) = ([false; 128], BTreeSet::new());
        for character in characters {
            match seen.get_mut(character as usize) {
                Some(slot) => *slot = true,
                None => _ = others.insert(character),
            }
        }
        let ascii = ('\0'..='\x7f').zip(seen).filter(|(_, seen)| *seen).map(|(character, _)| character);
        Self::new(ascii.chain(others).collect())
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
    pub fn number_of(&self, character: char) -> Option<u16> {
        match self.ascii.get(character as usize) {
            Some(&number) => (number != NO_SYMBOL).then_some(number),
            None => self.others.get(&character).copied(),
        }
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
