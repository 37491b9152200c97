//! Tensors in safetensors files: the model as PyTorch orders it, and checkpoints.

use super::Parameter;
use crate::data::hexadecimal;
use crate::error::{LabError, Result};
use attentive::{Cell, Owner, SabLstmConfig, Scorer};
use safetensors::{Dtype, SafeTensors, View};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// The one key of a file's metadata: a JSON text, so that a file's bytes do not depend on the order of a map.
const METADATA: &str = "sab";

/// Files larger than this are not ours.
const LARGEST: u64 = 16 << 30;

/// Names of a [`SabModel`](super::SabModel)'s parameters: here, and in the file. Those of the layer follow from what
/// its parts declare.
fn names() -> Vec<(String, String)> {
    let layers = Cell::ALL.iter().flat_map(|cell| Scorer::ALL.iter().map(move |scorer| (*cell, *scorer)));
    let declared =
        layers.flat_map(|(cell, scorer)| SabLstmConfig::new(1, 1).with_cell(cell).with_scorer(scorer).parameters());
    let of_layer = declared.map(|parameter| {
        let part = match parameter.owner {
            Owner::Cell => "lstm",
            Owner::Scorer => "attention",
        };
        (format!("lstm.{}", parameter.name), format!("{part}.{}", parameter.name))
    });
    let of_readout = ["v1", "v2", "bias"].map(|name| (format!("readout.{name}"), format!("output.{name}")));
    of_layer.chain(of_readout).collect()
}

/// Names and orders parameters as PyTorch does, which keeps matrices as `[d_output, d_input]`. Those of a Transformer
/// keep Burn's.
pub fn to_pytorch(parameters: Vec<Parameter>) -> Vec<Parameter> {
    renamed(parameters, names())
}

/// The inverse of [`to_pytorch`].
pub fn from_pytorch(parameters: Vec<Parameter>) -> Vec<Parameter> {
    renamed(parameters, names().into_iter().map(|(ours, theirs)| (theirs, ours)).collect())
}

/// Gives parameters with a name in `names` the other name and the other order.
fn renamed(parameters: Vec<Parameter>, names: Vec<(String, String)>) -> Vec<Parameter> {
    let turn = |parameter: Parameter| match names.iter().find(|(name, _)| *name == parameter.name) {
        Some((_, other)) => turned(Parameter { name: other.clone(), ..parameter }),
        None => parameter,
    };
    parameters.into_iter().map(turn).collect()
}

/// A matrix with its rows and columns exchanged; a vector as it is.
fn turned(parameter: Parameter) -> Parameter {
    match parameter.shape[..] {
        [rows, columns] => {
            let mut values = Vec::with_capacity(parameter.values.len());
            for column in 0..columns {
                values.extend((0..rows).map(|row| parameter.values[row * columns + column]));
            }
            Parameter { shape: vec![columns, rows], values, ..parameter }
        }
        _ => parameter,
    }
}

/// The name of a carried state among the tensors of a checkpoint. Its bytes are those of a record.
const STATE: &str = "carried_state";

enum Bytes<'a> {
    Parameter(&'a Parameter),
    State(&'a [u8], [usize; 1]),
}

impl View for Bytes<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Self::Parameter(_) => Dtype::F32,
            Self::State(..) => Dtype::U8,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Self::Parameter(parameter) => &parameter.shape,
            Self::State(_, shape) => shape,
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Parameter(parameter) => Cow::Owned(parameter.values.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Self::State(bytes, _) => Cow::Borrowed(bytes),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Self::Parameter(parameter) => parameter.values.len() * size_of::<f32>(),
            Self::State(bytes, _) => bytes.len(),
        }
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Envelope<T> {
    /// Of all tensors, so that a damaged file is noticed.
    sha256: String,
    #[serde(flatten)]
    content: T,
}

/// The bytes of a safetensors file with some facts in its metadata.
pub fn to_bytes(parameters: &[Parameter], facts: &impl serde::Serialize) -> Result<Vec<u8>> {
    to_bytes_with_state(parameters, None, facts)
}

/// [`to_bytes`] for a checkpoint that holds a carried state, as the bytes of a record.
pub fn to_bytes_with_state(
    parameters: &[Parameter], state: Option<&[u8]>, facts: &impl serde::Serialize,
) -> Result<Vec<u8>> {
    let wrong = |why: String| LabError::Run(format!("cannot make a safetensors file: {why}"));
    let envelope = Envelope { sha256: digest(parameters, state), content: facts };
    let text = serde_json::to_string(&envelope).map_err(|why| wrong(why.to_string()))?;
    let tensors = parameters.iter().map(|parameter| (parameter.name.as_str(), Bytes::Parameter(parameter)));
    let tensors = tensors.chain(state.map(|state| (STATE, Bytes::State(state, [state.len()]))));
    safetensors::serialize(tensors, Some(HashMap::from([(METADATA.to_string(), text)])))
        .map_err(|why| wrong(why.to_string()))
}

/// The content of a safetensors file.
#[derive(Debug)]
pub struct Content<T> {
    /// Its tensors.
    pub parameters: Vec<Parameter>,
    /// The bytes of a carried state, if it has one.
    pub state: Option<Vec<u8>>,
    /// The facts in its metadata, if it was written here.
    pub facts: Option<T>,
}

/// Reads a safetensors file. `hint` says what to do about a bad one.
pub fn read<T: serde::de::DeserializeOwned>(path: &Path, hint: &str) -> Result<Content<T>> {
    let size = std::fs::metadata(path).map_err(|why| LabError::file("read", path, &why))?.len();
    let wrong = |why: String| LabError::Run(format!("{} {why}; {hint}", path.display()));
    if size > LARGEST {
        return Err(wrong(format!("has {size} bytes, more than any model here")));
    }
    let bytes = std::fs::read(path).map_err(|why| LabError::file("read", path, &why))?;
    from_bytes(&bytes).map_err(wrong)
}

/// [`read`] for bytes; the error says what is wrong with them.
pub fn from_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> std::result::Result<Content<T>, String> {
    let (_, header) =
        SafeTensors::read_metadata(bytes).map_err(|why| format!("is not a safetensors file or is damaged ({why})"))?;
    let file = SafeTensors::deserialize(bytes).map_err(|why| format!("is damaged ({why})"))?;
    let (mut parameters, mut state) = (Vec::new(), None);
    for (name, tensor) in file.iter() {
        if (name, tensor.dtype()) == (STATE, Dtype::U8) {
            state = Some(tensor.data().to_vec());
            continue;
        }
        if tensor.dtype() != Dtype::F32 {
            return Err(format!("holds `{name}` as {:?}, not as F32", tensor.dtype()));
        }
        let four = tensor.data().chunks_exact(size_of::<f32>());
        let values: Vec<f32> = four.map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
        if values.iter().any(|x| !x.is_finite()) {
            return Err(format!("holds a NaN or an infinity in `{name}`"));
        }
        parameters.push(Parameter { name: name.to_string(), shape: tensor.shape().to_vec(), values });
    }
    // A file may have any order; sorted by name, it no longer depends on the program that wrote the file.
    parameters.sort_by(|a, b| a.name.cmp(&b.name));
    let Some(text) = header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA)) else {
        return Ok(Content { parameters, state, facts: None });
    };
    let envelope: Envelope<T> =
        serde_json::from_str(text).map_err(|why| format!("has metadata that this version cannot read ({why})"))?;
    match digest(&parameters, state.as_deref()) == envelope.sha256 {
        true => Ok(Content { parameters, state, facts: Some(envelope.content) }),
        false => Err("is damaged: its tensors do not have the digest in its header".into()),
    }
}

/// SHA-256 over names, shapes and numbers, by name, and then over the carried state.
fn digest(parameters: &[Parameter], state: Option<&[u8]>) -> String {
    let mut sorted: Vec<&Parameter> = parameters.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut hash = Sha256::new();
    for parameter in sorted {
        hash.update(parameter.name.as_bytes());
        hash.update(format!("{:?}", parameter.shape));
        let bytes: Vec<u8> = parameter.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    if let Some(state) = state {
        hash.update(STATE);
        hash.update(state);
    }
    hexadecimal(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<Parameter> {
        let values = (0..6).map(|x| x as f32).collect();
        vec![
            Parameter { name: "lstm.w1".into(), shape: vec![2, 3], values },
            Parameter { name: "lstm.w3".into(), shape: vec![2], values: vec![0.5, -0.5] },
        ]
    }

    #[test]
    fn matrices_are_turned_for_pytorch_and_back() {
        let theirs = to_pytorch(some());
        assert_eq!((theirs[0].name.as_str(), &theirs[0].shape[..]), ("attention.w1", &[3, 2][..]));
        assert_eq!(theirs[0].values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(from_pytorch(theirs), some());
    }

    #[derive(serde::Serialize, serde::Deserialize, Debug)]
    struct Fact {
        update: u64,
    }

    #[test]
    fn tensors_and_facts_come_back() {
        for state in [None, Some(&b"any bytes"[..])] {
            let bytes = to_bytes_with_state(&some(), state, &Fact { update: 7 }).expect("written");
            let content: Content<Fact> = from_bytes(&bytes).expect("read");
            assert_eq!((content.parameters, content.facts.map(|fact| fact.update)), (some(), Some(7)));
            assert_eq!(content.state.as_deref(), state);
        }
    }

    #[test]
    fn any_damage_is_an_error_or_changes_no_tensor() {
        let state = Some(&b"any bytes"[..]);
        let good = to_bytes_with_state(&some(), state, &Fact { update: 7 }).expect("written");
        for length in 0..good.len() {
            assert!(from_bytes::<Fact>(&good[..length]).is_err(), "cut at {length}");
        }
        for (place, bit) in (0..good.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut bad = good.clone();
            bad[place] ^= 1 << bit;
            // A flip in the facts can be another fact, and one in their key a file from elsewhere.
            if let Ok(Content { parameters, state: read, facts: Some(_) }) = from_bytes::<Fact>(&bad) {
                assert_eq!((parameters, read.as_deref()), (some(), state), "byte {place}, bit {bit}");
            }
        }
        assert!(from_bytes::<Fact>(&u64::MAX.to_le_bytes()).is_err());
    }
}
