//! Dotted keys: setting them, laying one table over another, and the error for a key that does not exist.

use crate::error::{LabError, Result};
use crate::suggest::nearest;
use toml::{Table, Value};

/// The key and the value of `--set key=value`.
pub fn parse_change(text: &str) -> Result<(String, Value)> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(LabError::Config(format!("`--set {text}` has no `=`: write --set key=value")));
    };
    Ok((key.trim().to_string(), parse_value(value.trim())))
}

/// A value as TOML reads it; any other text is a plain word.
pub fn parse_value(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_string()))
}

/// Puts a value at a dotted key.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<()> {
    let (mut place, mut rest) = (table, key);
    while let Some((head, tail)) = rest.split_once('.') {
        let inner = place.entry(head.to_string()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else {
            return Err(LabError::Config(format!("`{key}` cannot be set: `{head}` is a value, not a section")));
        };
        (place, rest) = (inner, tail);
    }
    place.insert(rest.to_string(), value);
    Ok(())
}

/// Lays `given` over `known`. A key that `known` does not have is an error that names the nearest one.
pub(crate) fn merge(known: &mut Table, given: Table, origin: &str) -> Result<()> {
    let all: Vec<String> = flatten(known).into_iter().map(|(key, _)| key).collect();
    merge_section(known, given, "", &all, origin)
}

fn merge_section(known: &mut Table, given: Table, prefix: &str, all: &[String], origin: &str) -> Result<()> {
    for (key, value) in given {
        let path = format!("{prefix}{key}");
        match (known.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(given)) => {
                merge_section(inner, given, &format!("{path}."), all, origin)?;
            }
            (Some(Value::Table(_)), _) => {
                return Err(LabError::Config(format!(
                    "`{path}` in {origin} is a section: write [{path}] and keys below it"
                )));
            }
            (Some(place), value) => *place = same_kind(place, value),
            (None, _) => return Err(LabError::Config(unknown(&path, all, origin))),
        }
    }
    Ok(())
}

/// A whole number where the default has a fraction is that number.
fn same_kind(known: &Value, given: Value) -> Value {
    match (known, given) {
        (Value::Float(_), Value::Integer(whole)) => Value::Float(whole as f64),
        (_, given) => given,
    }
}

fn unknown(path: &str, all: &[String], origin: &str) -> String {
    // Names count, not their sections: `task.length` is not like `task.name`.
    fn name(path: &str) -> &str {
        path.rsplit('.').next().unwrap_or_default()
    }
    let found = nearest(name(path), all.iter().map(|known| name(known)));
    match found.and_then(|found| all.iter().find(|known| name(known) == found)) {
        Some(known) => format!("there is no key `{path}` ({origin}); did you mean `{known}`?"),
        None => format!("there is no key `{path}` here ({origin}); the keys are {}", all.join(", ")),
    }
}

/// All values of a table with their dotted keys.
pub(crate) fn flatten(table: &Table) -> Vec<(String, Value)> {
    let of_entry = |(key, value): (&String, &Value)| match value {
        Value::Table(inner) => {
            flatten(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect::<Vec<_>>()
        }
        value => vec![(key.clone(), value.clone())],
    };
    table.iter().flat_map(of_entry).collect()
}
