//! Both paths against goldens from the independent PyTorch program in `oracle/`.

mod common;

use attentive::{
    ForwardOptions, Hops, InstructionSet, KTop, Path, SabLstmConfig, SabState, SabStateRecord, ScoreGradient,
};
use burn::tensor::{DType, Device, TensorData};
use common::{Array, Input, Parameters, Run, compare, difference, run};
use serde_json::Value;

struct Golden {
    name: String,
    config: SabLstmConfig,
    parameters: Parameters,
    input: Input,
    state: Option<SabStateRecord>,
    adjoints: [Array; 2],
    right: Run,
}

/// A safetensors file: the length of a JSON header, the header, the data.
struct GoldenFile {
    header: Value,
    data: Vec<u8>,
}

impl GoldenFile {
    fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/goldens/sab_lstm.safetensors");
        let mut bytes = std::fs::read(path).expect("the goldens are committed");
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
        let data = bytes.split_off(8 + length);
        Self { header: serde_json::from_slice(&bytes[8..]).expect("a JSON header"), data }
    }

    /// Shape and eight-byte numbers of a tensor, if it is there.
    fn numbers<T>(&self, name: &str, dtype: &str, read: fn([u8; 8]) -> T) -> Option<(Vec<usize>, Vec<T>)> {
        let entry = self.header.get(name)?;
        assert_eq!(entry["dtype"], dtype, "{name}");
        let list = |key: &str| -> Vec<usize> { serde_json::from_value(entry[key].clone()).expect("numbers") };
        let offsets = list("data_offsets");
        let values =
            self.data[offsets[0]..offsets[1]].chunks_exact(8).map(|b| read(b.try_into().expect("eight bytes")));
        Some((list("shape"), values.collect()))
    }

    fn array(&self, name: &str) -> Option<Array> {
        self.numbers(name, "F64", f64::from_le_bytes).map(|(shape, values)| Array::new(&shape, values))
    }

    fn integers(&self, name: &str) -> Option<Vec<i64>> {
        self.numbers(name, "I64", i64::from_le_bytes).map(|(_, values)| values)
    }
}

fn load() -> Vec<Golden> {
    let file = GoldenFile::read();
    let metadata = file.header["__metadata__"].as_object().expect("metadata");
    let mut cases: Vec<_> = metadata.iter().filter(|(name, _)| name.starts_with("case_")).collect();
    cases.sort_by_key(|(name, _)| name.to_string());
    let cases = cases.into_iter().map(|(name, description)| (name, description.as_str().expect("a string")));
    // A state of this library holds every memory since the row was fresh; one golden's rows have dropped some.
    cases
        .filter(|(_, what)| !what.contains("dropped old memories"))
        .map(|(name, what)| golden(&file, name, what))
        .collect()
}

fn golden(file: &GoldenFile, name: &str, description: &str) -> Golden {
    let meta: Value = serde_json::from_str(description).expect("JSON");
    let number = |key: &str| meta[key].as_u64().map(|n| n as usize);
    let get = |part: &str| file.array(&format!("{name}/{part}")).unwrap_or_else(|| panic!("{name}/{part}"));
    let k_att = number("k_att").expect("k_att");
    let config = SabLstmConfig::new(number("inputs").expect("inputs"), number("hidden").expect("hidden"))
        .with_k_top(number("k_top").map_or(KTop::All, KTop::Count))
        .with_k_att(k_att)
        .with_k_trunc(number("k_trunc"))
        .with_trunc_phase(number("trunc_phase").expect("phase"))
        .with_mental_updates(meta["mental_updates"].as_bool().expect("mental_updates"))
        .with_score_gradient(if meta["score_gradient"] == "full" {
            ScoreGradient::Full
        } else {
            ScoreGradient::Weights
        })
        .with_hops(if meta["hops"] == "one" { Hops::One } else { Hops::All });
    // PyTorch keeps [out, in], Burn [in, out].
    let parameters = Parameters {
        weight_ih: get("weight_ih").transposed(),
        weight_hh: get("weight_hh").transposed(),
        bias: get("bias"),
        w1: get("w1").transposed(),
        w2: get("w2").transposed(),
        w3: get("w3"),
    };
    let hidden = get("out/hidden");
    let input = match file.integers(&format!("{name}/tokens")) {
        Some(tokens) => Input::Tokens { shape: [hidden.shape[0], hidden.shape[1]], tokens },
        None => Input::Dense(get("x")),
    };
    let data = |array: Array| TensorData::new(array.values, array.shape);
    let state = file.integers(&format!("{name}/state/steps")).map(|steps| SabStateRecord {
        hidden: data(get("state/h")),
        cell: data(get("state/c")),
        memory: data(with_room(get("state/memory"), &steps, k_att)),
        steps: steps.into_iter().map(|s| s as u64).collect(),
        k_att,
    });
    let mut gradients = vec![
        ("weight_ih", get("grad/weight_ih").transposed()),
        ("weight_hh", get("grad/weight_hh").transposed()),
        ("bias", get("grad/bias")),
        ("w1", get("grad/w1").transposed()),
        ("w2", get("grad/w2").transposed()),
        ("w3", get("grad/w3")),
    ];
    if let Some(x) = file.array(&format!("{name}/grad/x")) {
        gradients.push(("x", x));
    }
    let right = Run {
        hidden,
        summary: get("out/summary"),
        last_hidden: get("out/final_h"),
        last_cell: get("out/final_c"),
        memory: get("out/memory"),
        steps: file.integers(&format!("{name}/out/steps")).expect("steps").into_iter().map(|s| s as u64).collect(),
        gradients,
    };
    let adjoints = [get("cotangent/hidden"), get("cotangent/summary")];
    Golden { name: format!("{name} {description}"), config, parameters, input, state, adjoints, right }
}

/// PyTorch's plain LSTM stores no memories; a state here has room for them.
fn with_room(memory: Array, steps: &[i64], k_att: usize) -> Array {
    let [batch, slots, units] = [memory.shape[0], memory.shape[1], memory.shape[2]];
    let room = steps.iter().map(|steps| 1 + *steps as usize / k_att).max().unwrap_or(1).max(slots);
    let rows = memory.values.chunks_exact(slots * units);
    let values = rows.flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0.0, (room - slots) * units)));
    Array::new(&[batch, room, units], values.collect())
}

fn state_of(golden: &Golden, dtype: DType) -> Option<SabState> {
    let mut record = golden.state.clone()?;
    for data in [&mut record.hidden, &mut record.cell, &mut record.memory] {
        *data = data.clone().convert_dtype(dtype);
    }
    Some(SabState::from_record(record, &Device::flex()).unwrap_or_else(|error| panic!("{}: {error}", golden.name)))
}

fn check(dtype: DType, options: &ForwardOptions, outputs: f64, gradients: f64, floor: f64) {
    let goldens = load();
    assert!(goldens.len() >= 60, "only {} goldens", goldens.len());
    for golden in &goldens {
        let state = state_of(golden, dtype);
        let adjoints = [&golden.adjoints[0], &golden.adjoints[1]];
        let got = run(&golden.config, &golden.parameters, &golden.input, state, adjoints, dtype, options);
        if let Err(why) = compare(&got, &golden.right, outputs, gradients, floor) {
            panic!("{}: {why}", golden.name);
        }
        if golden.config.k_top == KTop::Count(0) {
            continue;
        }
        // Rows fill different numbers of slots; the rest is unspecified.
        let units = golden.config.hidden;
        for (row, steps) in golden.right.steps.iter().enumerate() {
            let slots = 1 + (*steps / golden.config.k_att as u64) as usize;
            let filled = |memory: &Array| {
                let from = row * memory.shape[1] * units;
                Array::new(&[slots, units], memory.values[from..from + slots * units].to_vec())
            };
            let d = difference(&filled(&got.memory), &filled(&golden.right.memory), 1.0);
            assert!(d <= outputs, "{}: memory of row {row} differs by {d:e}", golden.name);
        }
    }
}

#[test]
fn portable_path_in_f64_agrees_with_pytorch() {
    check(DType::F64, &ForwardOptions::new().with_path(Path::Portable), 1e-10, 1e-9, 0.01);
}

#[test]
fn portable_path_in_f32_agrees_with_pytorch() {
    check(DType::F32, &ForwardOptions::new().with_path(Path::Portable), 1e-5, 1e-4, 0.1);
}

#[test]
fn fused_path_agrees_with_pytorch() {
    check(DType::F32, &ForwardOptions::new().with_path(Path::Fused), 1e-5, 1e-4, 0.01);
}

#[test]
fn fused_path_without_vector_instructions_agrees_with_pytorch() {
    let options = ForwardOptions::new().with_path(Path::Fused).with_instructions(InstructionSet::Baseline);
    check(DType::F32, &options, 1e-5, 1e-4, 0.01);
}
