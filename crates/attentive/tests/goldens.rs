//! Both paths against goldens from the independent PyTorch program in `oracle/`.

mod common;

use attentive::{
    Evict, ForwardOptions, Hops, InstructionSet, KTop, Path, SabLstmConfig, SabState, SabStateRecord, ScoreGradient,
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

    /// Shape and eight-byte numbers of a tensor, if it exists.
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

    /// For each row of a state, the steps of its memories; older cases do not have them.
    fn slot_steps(&self, state: &str) -> Option<Vec<Vec<u64>>> {
        let (shape, values) = self.numbers(&format!("{state}/slot_steps"), "I64", i64::from_le_bytes)?;
        let filled = |row: &[i64]| row.iter().filter(|step| **step >= 0).map(|step| *step as u64).collect();
        Some(values.chunks_exact(shape[1]).map(filled).collect())
    }

    /// For each row of a state, the received weights of its memories.
    fn received(&self, state: &str) -> Vec<Vec<f32>> {
        let received = self.array(&format!("{state}/received")).expect("received");
        let slots = self.integers(&format!("{state}/slots")).expect("slots");
        let rows = received.values.chunks_exact(received.shape[1]).zip(slots);
        rows.map(|(row, slots)| row[..slots as usize].iter().map(|x| *x as f32).collect()).collect()
    }

    /// Whether no row of a case starts without its null slot.
    fn has_null_slots(&self, case: &str) -> bool {
        let description = self.header["__metadata__"][case].as_str().expect("a string");
        match self.slot_steps(&format!("{case}/state")) {
            Some(rows) => rows.iter().all(|row| row.first() == Some(&0)),
            None => !description.contains("dropped old memories"),
        }
    }
}

fn load() -> Vec<Golden> {
    let file = GoldenFile::read();
    let metadata = file.header["__metadata__"].as_object().expect("metadata");
    let mut cases: Vec<_> = metadata.iter().filter(|(name, _)| name.starts_with("case_")).collect();
    cases.sort_by_key(|(name, _)| name.to_string());
    let cases = cases.into_iter().map(|(name, description)| (name, description.as_str().expect("a string")));
    // A state of this library always holds the null slot; the rows of two goldens have dropped it.
    let (kept, left_out): (Vec<_>, Vec<_>) = cases.partition(|(name, _)| file.has_null_slots(name));
    let left_out: Vec<&str> = left_out.into_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left_out, ["case_069", "case_135"], "rows without a null slot");
    kept.into_iter().map(|(name, what)| golden(&file, name, what)).collect()
}

/// The model that a case's metadata describes.
fn config_of(meta: &Value) -> SabLstmConfig {
    let number = |key: &str| meta[key].as_u64().map(|n| n as usize);
    let word = |key: &str| meta[key].as_str().unwrap_or_else(|| panic!("{key}")).to_string();
    let config = SabLstmConfig::new(number("inputs").expect("inputs"), number("hidden").expect("hidden"))
        .with_cell(word("cell").parse().expect("a cell"))
        .with_scorer(word("scorer").parse().expect("a scorer"))
        .with_sparsifier(word("sparsifier").parse().expect("a sparsifier"))
        .with_store(word("store").parse().expect("a store"))
        .with_capacity(number("capacity"))
        .with_evict(word("evict").parse().expect("an eviction rule"))
        .with_k_top(number("k_top").map_or(KTop::All, KTop::Count))
        .with_k_att(number("k_att").expect("k_att"))
        .with_k_trunc(number("k_trunc"))
        .with_trunc_phase(number("trunc_phase").expect("phase"))
        .with_mental_updates(meta["mental_updates"].as_bool().expect("mental_updates"))
        .with_score_gradient(if meta["score_gradient"] == "full" {
            ScoreGradient::Full
        } else {
            ScoreGradient::Weights
        })
        .with_hops(if meta["hops"] == "one" { Hops::One } else { Hops::All });
    let novelty = meta["novelty"].as_f64().unwrap_or(config.novelty);
    SabLstmConfig { novelty, ..config }
}

fn golden(file: &GoldenFile, name: &str, description: &str) -> Golden {
    let meta: Value = serde_json::from_str(description).expect("JSON");
    let config = config_of(&meta);
    let get = |part: &str| file.array(&format!("{name}/{part}")).unwrap_or_else(|| panic!("{name}/{part}"));
    let steps = |part: &str| -> Option<Vec<u64>> {
        Some(file.integers(&format!("{name}/{part}"))?.into_iter().map(|s| s as u64).collect())
    };
    // The parameters that the layer declares. PyTorch stores [out, in], Burn [in, out].
    let layer = config.init(&Device::flex());
    let named = |folder: &str| -> Vec<(&'static str, Array)> {
        let array = |name: &str, rank: usize| match (get(&format!("{folder}{name}")), rank) {
            (array, 2) => array.transposed(),
            (array, _) => array,
        };
        layer.declared().iter().map(|own| (own.name, array(own.name, own.shape.len()))).collect()
    };
    let hidden = get("out/hidden");
    let input = match file.integers(&format!("{name}/tokens")) {
        Some(tokens) => Input::Tokens { shape: [hidden.shape[0], hidden.shape[1]], tokens },
        None => Input::Dense(get("x")),
    };
    let data = |array: Array| TensorData::new(array.values, array.shape);
    let counted = config.capacity.is_some() && config.evict == Evict::LeastAttended;
    let state = steps("state/steps").map(|steps| {
        let slot_steps = file.slot_steps(&format!("{name}/state"));
        let memory = get("state/memory");
        let memory = if slot_steps.is_some() { memory } else { with_room(memory, &steps, config.k_att) };
        SabStateRecord {
            hidden: data(get("state/h")),
            cell: file.array(&format!("{name}/state/c")).map(data),
            memory: data(memory),
            steps,
            k_att: config.k_att,
            slot_steps: slot_steps.unwrap_or_default(),
            received: if counted { file.received(&format!("{name}/state")) } else { Vec::new() },
            segments: None,
        }
    });
    let mut gradients = named("grad/");
    gradients.extend(file.array(&format!("{name}/grad/x")).map(|x| ("x", x)));
    let steps = steps("out/steps").expect("steps");
    // A plain recurrent network of PyTorch stores nothing; here its states are stored too.
    let slot_steps = file.slot_steps(&format!("{name}/out")).filter(|_| config.k_top != KTop::Count(0));
    let stored = |row: usize| -> Vec<u64> {
        let carried = state.as_ref().filter(|state| !state.slot_steps.is_empty());
        let (before, slots) = carried.map_or((0, vec![0]), |state| (state.steps[row], state.slot_steps[row].clone()));
        slots.into_iter().chain((before + 1..=steps[row]).filter(|step| step % config.k_att as u64 == 0)).collect()
    };
    let slot_steps = slot_steps.unwrap_or_else(|| (0..steps.len()).map(stored).collect());
    let right = Run {
        hidden,
        summary: get("out/summary"),
        last_hidden: get("out/final_h"),
        last_cell: file.array(&format!("{name}/out/final_c")).unwrap_or_else(|| Array::new(&[0], Vec::new())),
        memory: get("out/memory"),
        slot_steps,
        received: if counted { file.received(&format!("{name}/out")) } else { vec![Vec::new(); steps.len()] },
        steps,
        gradients,
    };
    let adjoints = [get("cotangent/hidden"), get("cotangent/summary")];
    let parameters = Parameters(named(""));
    Golden { name: format!("{name} {description}"), config, parameters, input, state, adjoints, right }
}

/// In a state without slot steps a row holds every memory; PyTorch's plain LSTM has stored none.
fn with_room(memory: Array, steps: &[u64], k_att: usize) -> Array {
    let [batch, slots, units] = [memory.shape[0], memory.shape[1], memory.shape[2]];
    let room = steps.iter().map(|steps| 1 + *steps as usize / k_att).max().unwrap_or(1).max(slots);
    let rows = memory.values.chunks_exact(slots * units);
    let values = rows.flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0.0, (room - slots) * units)));
    Array::new(&[batch, room, units], values.collect())
}

fn state_of(golden: &Golden, dtype: DType) -> Option<SabState> {
    let mut record = golden.state.clone()?;
    for data in [&mut record.hidden, &mut record.memory].into_iter().chain(&mut record.cell) {
        *data = data.clone().convert_dtype(dtype);
    }
    Some(SabState::from_record(record, &Device::flex()).unwrap_or_else(|error| panic!("{}: {error}", golden.name)))
}

fn check(dtype: DType, options: &ForwardOptions, outputs: f64, gradients: f64, floor: f64) {
    let goldens = load();
    assert!(goldens.len() >= 146, "only {} goldens", goldens.len());
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
        for (row, slots) in golden.right.slot_steps.iter().map(Vec::len).enumerate() {
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
