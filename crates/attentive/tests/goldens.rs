//! Both paths against goldens from the independent PyTorch program in `oracle/`.

mod common;

use attentive::{
    Evict, ForwardOptions, Hops, InstructionSet, KTop, Path, SabLstmConfig, SabState, SabStateRecord, ScoreGradient,
};
use attentive_engine::Drift;
use burn::tensor::{DType, Device, TensorData};
use common::{Array, Input, Parameters, Run, compare, difference, run};
use serde_json::Value;

/// A call before the one with a gradient (R21).
struct EarlierCall {
    config: SabLstmConfig,
    parameters: Parameters,
    input: Input,
}

struct Golden {
    name: String,
    earlier: Vec<EarlierCall>,
    config: SabLstmConfig,
    parameters: Parameters,
    input: Input,
    state: Option<SabStateRecord>,
    adjoints: [Array; 2],
    right: Run,
    /// The drift of all carried memories that have segments; `right` has that of those that gradient entered.
    drift_of_all: Option<Drift>,
}

/// A safetensors file: the length of a JSON header, the header, the data.
struct GoldenFile {
    header: Value,
    data: Vec<u8>,
}

impl GoldenFile {
    fn read(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../oracle/goldens");
        let path = format!("{folder}/{name}.safetensors");
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

    /// The inputs in a folder.
    fn input(&self, folder: &str) -> Input {
        match self.numbers(&format!("{folder}/tokens"), "I64", i64::from_le_bytes) {
            Some((shape, tokens)) => Input::Tokens { shape: [shape[0], shape[1]], tokens },
            None => Input::Dense(self.array(&format!("{folder}/x")).expect("dense inputs")),
        }
    }

    /// The drift of the memories that gradient entered, and of all carried memories that have segments.
    fn drifts(&self, case: &str) -> Option<[Drift; 2]> {
        let drift = self.array(&format!("{case}/out/drift"))?.values;
        let memories = self.integers(&format!("{case}/out/drift_memories")).expect("the number of memories");
        let of =
            |kind: usize| Drift { memories: memories[kind] as usize, mean: drift[2 * kind], most: drift[2 * kind + 1] };
        Some([of(0), of(1)])
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

/// The goldens of a file, except for those with rows without a null slot.
fn load(file: &str, without_null_slot: &[&str]) -> Vec<Golden> {
    let file = GoldenFile::read(file);
    let metadata = file.header["__metadata__"].as_object().expect("metadata");
    let mut cases: Vec<_> = metadata.iter().filter(|(name, _)| name.starts_with("case_")).collect();
    cases.sort_by_key(|(name, _)| name.to_string());
    let cases = cases.into_iter().map(|(name, description)| (name, description.as_str().expect("a string")));
    // A state of this library always holds the null slot.
    let (kept, left_out): (Vec<_>, Vec<_>) = cases.partition(|(name, _)| file.has_null_slots(name));
    let left_out: Vec<&str> = left_out.into_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(left_out, without_null_slot, "rows without a null slot");
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
        .with_hops(if meta["hops"] == "one" { Hops::One } else { Hops::All })
        .with_credit_across_calls(meta["credit_across_calls"] == true);
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
    let earlier = |(number, own): (usize, &Value)| EarlierCall {
        config: config.clone().with_trunc_phase(own["trunc_phase"].as_u64().expect("phase") as usize),
        parameters: Parameters(named(&format!("call_{number}/"))),
        input: file.input(&format!("{name}/call_{number}")),
    };
    let earlier = meta["earlier"].as_array().into_iter().flatten().enumerate().map(earlier).collect();
    let drifts = file.drifts(name);
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
        drift: drifts.map(|[entered, _]| entered),
    };
    let adjoints = [get("cotangent/hidden"), get("cotangent/summary")];
    Golden {
        name: format!("{name} {description}"),
        earlier,
        parameters: Parameters(named("")),
        input: file.input(name),
        config,
        state,
        adjoints,
        right,
        drift_of_all: drifts.map(|[_, all]| all),
    }
}

/// In a state without slot steps a row holds every memory; PyTorch's plain LSTM has stored none.
fn with_room(memory: Array, steps: &[u64], k_att: usize) -> Array {
    let [batch, slots, units] = [memory.shape[0], memory.shape[1], memory.shape[2]];
    let room = steps.iter().map(|steps| 1 + *steps as usize / k_att).max().unwrap_or(1).max(slots);
    let rows = memory.values.chunks_exact(slots * units);
    let values = rows.flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0.0, (room - slots) * units)));
    Array::new(&[batch, room, units], values.collect())
}

/// The state before the call with a gradient.
fn state_of(golden: &Golden, dtype: DType, options: &ForwardOptions) -> Option<SabState> {
    let device = Device::flex().autodiff();
    let go_on = |state: Option<SabState>, call: &EarlierCall| {
        let (input, _) = call.input.tensor(dtype, &device);
        let out = call.parameters.layer(&call.config, dtype, &device).forward_with(input, state, options);
        Some(out.unwrap_or_else(|error| panic!("{}: {error}", golden.name)).state)
    };
    golden.earlier.iter().fold(given_state(golden, dtype), go_on)
}

fn given_state(golden: &Golden, dtype: DType) -> Option<SabState> {
    let mut record = golden.state.clone()?;
    for data in [&mut record.hidden, &mut record.memory].into_iter().chain(&mut record.cell) {
        *data = data.clone().convert_dtype(dtype);
    }
    Some(SabState::from_record(record, &Device::flex()).unwrap_or_else(|error| panic!("{}: {error}", golden.name)))
}

/// How a path runs, and how close it comes.
#[derive(Clone, Copy)]
struct Setting {
    path: Path,
    dtype: DType,
    instructions: InstructionSet,
    outputs: f64,
    gradients: f64,
    /// The share of the largest gradient that a small one is compared with.
    floor: f64,
}

const ENGINE: Setting = Setting {
    path: Path::Fused,
    dtype: DType::F32,
    instructions: InstructionSet::Detect,
    outputs: 1e-5,
    gradients: 1e-4,
    floor: 0.01,
};
const ENGINE_BASELINE: Setting = Setting { instructions: InstructionSet::Baseline, ..ENGINE };
const PORTABLE_F32: Setting = Setting { path: Path::Portable, floor: 0.1, ..ENGINE };
const PORTABLE_F64: Setting =
    Setting { path: Path::Portable, dtype: DType::F64, outputs: 1e-10, gradients: 1e-9, ..ENGINE };

fn check(goldens: &[Golden], setting: &Setting) {
    let &Setting { path, dtype, instructions, outputs, gradients, floor } = setting;
    let options = &ForwardOptions::new().with_path(path).with_instructions(instructions);
    for golden in goldens {
        let state = state_of(golden, dtype, options);
        let adjoints = [&golden.adjoints[0], &golden.adjoints[1]];
        let got = run(&golden.config, &golden.parameters, &golden.input, state, adjoints, dtype, options);
        if let Err(why) = compare(&got, &golden.right, outputs, gradients, floor) {
            panic!("{}: {why}", golden.name);
        }
        check_drift(golden, got.drift, setting);
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

/// The engine replays the memories that gradient enters, the portable path all that have segments.
fn check_drift(golden: &Golden, got: Option<Drift>, setting: &Setting) {
    let right = if setting.path == Path::Portable { golden.drift_of_all } else { golden.right.drift };
    assert_eq!(got.is_some(), right.is_some(), "{}", golden.name);
    if let (Some(got), Some(right)) = (got, right) {
        let off = (got.mean - right.mean).abs().max((got.most - right.most).abs());
        assert!(got.memories == right.memories && off <= 1e-5, "{}: {got:?} instead of {right:?}", golden.name);
    }
}

fn check_one_call(setting: &Setting) {
    // Two goldens have rows that have dropped the null slot.
    let goldens = load("sab_lstm", &["case_069", "case_135"]);
    assert!(goldens.len() >= 146, "only {} goldens", goldens.len());
    check(&goldens, setting);
}

fn check_several_calls(setting: &Setting) {
    let goldens = load("credit", &[]);
    assert!(goldens.len() >= 18, "only {} goldens", goldens.len());
    assert!(goldens.iter().all(|golden| golden.config.credit_across_calls && !golden.earlier.is_empty()));
    check(&goldens, setting);
}

#[test]
fn portable_path_in_f64_agrees_with_pytorch() {
    check_one_call(&PORTABLE_F64);
}

#[test]
fn portable_path_in_f32_agrees_with_pytorch() {
    check_one_call(&PORTABLE_F32);
}

#[test]
fn fused_path_agrees_with_pytorch() {
    check_one_call(&ENGINE);
}

#[test]
fn fused_path_without_vector_instructions_agrees_with_pytorch() {
    check_one_call(&ENGINE_BASELINE);
}

#[test]
fn r21_credit_across_calls_agrees_with_pytorch_on_the_portable_path() {
    check_several_calls(&PORTABLE_F32);
    // Segments hold single precision, whatever type the layer computes in.
    check_several_calls(&Setting { gradients: 1e-6, ..PORTABLE_F64 });
}

#[test]
fn r21_credit_across_calls_agrees_with_pytorch_on_the_engine() {
    check_several_calls(&ENGINE);
    check_several_calls(&ENGINE_BASELINE);
}
