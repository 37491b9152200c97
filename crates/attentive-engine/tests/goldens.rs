//! The engine against goldens from the independent PyTorch program in `oracle/`.

mod common;

use attentive_engine::{
    Cell, Drift, Evict, Hops, InstructionSet, KTop, Model, Replay, RowStart, ScoreGradient, Scorer, Sparsifier, Store,
    StoreRule,
};
use common::{Example, Input, State};
use serde_json::Value;

/// A safetensors file: the length of a JSON header, the header, the data.
struct GoldenFile {
    header: Value,
    data: Vec<u8>,
}

/// A tensor of eight-byte numbers.
struct Tensor<T> {
    shape: Vec<usize>,
    values: Vec<T>,
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

    fn tensor<T>(&self, name: &str, dtype: &str, read: fn([u8; 8]) -> T) -> Option<Tensor<T>> {
        let entry = self.header.get(name)?;
        assert_eq!(entry["dtype"], dtype, "{name}");
        let list = |key: &str| -> Vec<usize> { serde_json::from_value(entry[key].clone()).expect("numbers") };
        let offsets = list("data_offsets");
        let numbers = self.data[offsets[0]..offsets[1]].chunks_exact(8);
        let values = numbers.map(|bytes| read(bytes.try_into().expect("eight bytes"))).collect();
        Some(Tensor { shape: list("shape"), values })
    }

    fn cases(&self) -> Vec<Case<'_>> {
        let metadata = self.header["__metadata__"].as_object().expect("metadata");
        let cases = metadata.iter().filter(|(name, _)| name.starts_with("case_"));
        let case = |(name, what): (&String, &Value)| {
            let meta = serde_json::from_str(what.as_str().expect("a string")).expect("JSON");
            Case { file: self, name: name.clone(), meta }
        };
        cases.map(case).collect()
    }
}

/// One case of the file, or an earlier call of a case.
struct Case<'a> {
    file: &'a GoldenFile,
    name: String,
    meta: Value,
}

impl Case<'_> {
    /// The calls before the one with a gradient (R21).
    fn earlier(&self) -> Vec<Self> {
        let calls = self.meta["earlier"].as_array().into_iter().flatten();
        let call = |(number, own): (usize, &Value)| {
            let mut meta = self.meta.clone();
            for (key, value) in own.as_object().expect("what the call has for itself") {
                meta[key] = value.clone();
            }
            Self { file: self.file, name: format!("{}/call_{number}", self.name), meta }
        };
        calls.enumerate().map(call).collect()
    }

    fn floats(&self, name: &str) -> Option<Tensor<f64>> {
        self.file.tensor(&format!("{}/{name}", self.name), "F64", f64::from_le_bytes)
    }

    fn integers(&self, name: &str) -> Option<Tensor<i64>> {
        self.file.tensor(&format!("{}/{name}", self.name), "I64", i64::from_le_bytes)
    }

    fn values(&self, name: &str) -> Vec<f64> {
        self.floats(name).unwrap_or_else(|| panic!("{}/{name}", self.name)).values
    }

    fn narrow(&self, name: &str) -> Vec<f32> {
        self.values(name).into_iter().map(|value| value as f32).collect()
    }

    /// A parameter or its gradient. PyTorch stores matrices as `[out, in]`, the engine as `[in, out]`.
    fn parameter(&self, name: &str) -> Vec<f64> {
        let Tensor { shape, values } = self.floats(name).unwrap_or_else(|| panic!("{}/{name}", self.name));
        match shape[..] {
            [rows, columns] => (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect(),
            _ => values,
        }
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.meta[key].as_u64().map(|number| number as usize)
    }

    /// A part by its name; a missing one is the default.
    fn part<T: std::str::FromStr<Err = String> + Default>(&self, key: &str) -> T {
        self.meta[key].as_str().map_or_else(T::default, |name| name.parse().expect("a part"))
    }

    fn model(&self) -> Model {
        let size = |key: &str| self.number(key).unwrap_or_else(|| panic!("{}: {key}", self.name));
        let default = StoreRule::default();
        Model {
            cell: self.part::<Cell>("cell"),
            scorer: self.part::<Scorer>("scorer"),
            sparsifier: self.part::<Sparsifier>("sparsifier"),
            store: StoreRule {
                store: self.part::<Store>("store"),
                k_att: size("k_att"),
                novelty: self.meta["novelty"].as_f64().unwrap_or(default.novelty),
                capacity: self.number("capacity"),
                evict: self.part::<Evict>("evict"),
            },
            k_top: self.number("k_top").map_or(KTop::All, KTop::Count),
            k_trunc: self.number("k_trunc").into(),
            phase: size("trunc_phase"),
            mental_updates: self.meta["mental_updates"].as_bool().expect("mental_updates"),
            score_gradient: if self.meta["score_gradient"] == "full" {
                ScoreGradient::Full
            } else {
                ScoreGradient::Weights
            },
            hops: if self.meta["hops"] == "one" { Hops::One } else { Hops::All },
            credit_across_calls: self.meta["credit_across_calls"] == true,
            ..Model::new(size("inputs"), size("hidden"))
        }
    }

    /// The state in `state/` or `out/`, without h and c; `None` if there is none.
    fn memories(&self, model: &Model, place: &str) -> Option<State> {
        let steps = self.integers(&format!("{place}/steps"))?.values;
        let get = |name: &str| self.integers(&format!("{place}/{name}"));
        let slots = get("slots").expect("slots").values;
        let memory = self.floats(&format!("{place}/memory")).expect("a memory");
        let room = memory.shape[1];
        let (slot_steps, received) = (get("slot_steps"), self.floats(&format!("{place}/received")));
        let mut state = State::fresh(steps.len(), model.hidden);
        for (row, &slots) in slots.iter().enumerate() {
            let (slots, steps, k_att) = (slots as usize, steps[row] as u64, model.store.k_att as u64);
            let of_row = row * room..row * room + slots;
            let mut slot_steps: Vec<u64> = match &slot_steps {
                Some(slot_steps) => slot_steps.values[of_row.clone()].iter().map(|step| *step as u64).collect(),
                // The row's last memories; old cases do not give their steps.
                None => (0..slots as u64).map(|back| (steps / k_att - back.min(steps / k_att)) * k_att).rev().collect(),
            };
            // Rows that have dropped their oldest memories: the engine takes the first slot as the null slot, whatever
            // it holds.
            slot_steps[0] = 0;
            let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
            let received = received.as_ref().map(|received| narrow(&received.values[of_row.clone()]));
            state.rows[row] = RowStart { steps, slot_steps, received: received.unwrap_or_default() };
            state.memories[row] = narrow(&memory.values[of_row.start * model.hidden..of_row.end * model.hidden]);
        }
        Some(state)
    }

    fn example(&self, instructions: InstructionSet) -> Example {
        let model = self.model();
        let size = |key: &str| self.number(key).expect(key);
        let narrow = |values: Vec<f64>| values.into_iter().map(|value| value as f32).collect();
        let mut state = self.memories(&model, "state").unwrap_or_else(|| State::fresh(size("batch"), model.hidden));
        if self.floats("state/h").is_some() {
            state.hidden = self.narrow("state/h");
            state.cell = self.floats("state/c").map_or_else(Vec::new, |c| narrow(c.values));
        }
        Example {
            model,
            time: size("time"),
            parameters: model.parameters().iter().map(|parameter| narrow(self.parameter(parameter.name))).collect(),
            input: match self.integers("tokens") {
                Some(tokens) => Input::Tokens(tokens.values.iter().map(|token| *token as u32).collect()),
                None => Input::Dense(self.narrow("x")),
            },
            state,
            // An earlier call has none.
            adjoints: ["hidden", "summary"]
                .map(|of| self.floats(&format!("cotangent/{of}")).map_or_else(Vec::new, |d| narrow(d.values))),
            instructions,
            replay: Replay::Auto,
        }
    }
}

/// The largest error, relative to the largest expected number or to `least`.
fn difference(got: &[f32], right: &[f64], least: f64) -> f64 {
    assert_eq!(got.len(), right.len());
    let largest = right.iter().fold(least, |largest, x| largest.max(x.abs()));
    got.iter().zip(right).map(|(got, right)| (f64::from(*got) - right).abs()).fold(0.0, f64::max) / largest
}

fn check_case(case: &Case<'_>, instructions: InstructionSet) {
    let (what, example) = (format!("{} {}", case.name, case.meta), case.example(instructions));
    let model = example.model;
    let weights = |example: &Example| example.weights(1).expect("good weights");
    let mut state = example.state.of_engine(&model).unwrap_or_else(|error| panic!("{what}: {error}"));
    for earlier in case.earlier() {
        let earlier = earlier.example(instructions);
        state =
            earlier.run_from(state, &weights(&earlier), 2, false).unwrap_or_else(|error| panic!("{what}: {error}")).1;
    }
    let got = example.run_from(state, &weights(&example), 2, true);
    let got = got.unwrap_or_else(|error| panic!("{what}: {error}")).0;
    let after = &got.after;
    let mut outputs = vec![("out/hidden", &got.hidden), ("out/summary", &got.summary), ("out/final_h", &after.hidden)];
    if model.cell.carries() {
        outputs.push(("out/final_c", &after.cell));
    }
    for (name, values) in outputs {
        let off = difference(values, &case.values(name), 1.0);
        assert!(off <= 1e-5, "{what}: {name} is off by {off:e}");
    }
    // The oracle does not store memories that no step can be reminded of. The engine reports them nevertheless.
    if model.attends() {
        check_memories(case, &model, after, &what);
    }
    let names = model.parameters().into_iter().map(|parameter| parameter.name);
    let mut right: Vec<Vec<f64>> = names.map(|name| case.parameter(&format!("grad/{name}"))).collect();
    right.extend(case.floats("grad/x").map(|x| x.values));
    let largest = right.iter().flatten().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    assert_eq!(got.gradients.len(), right.len(), "{what}");
    for ((name, gradient), right) in got.gradients.iter().zip(&right) {
        let off = difference(gradient, right, (0.01 * largest).max(f64::MIN_POSITIVE));
        assert!(off <= 1e-4, "{what}: the gradient of {name} is off by {off:e}");
    }
    check_drift(case, got.drift, &what);
}

/// The drift of the memories that gradient entered is the first of two in the file.
fn check_drift(case: &Case<'_>, got: Option<Drift>, what: &str) {
    let right = case.floats("out/drift").map(|drift| drift.values);
    assert_eq!(got.is_some(), right.is_some(), "{what}");
    if let (Some(got), Some(right)) = (got, right) {
        let memories = case.integers("out/drift_memories").expect("the number of memories").values[0];
        assert_eq!(got.memories as i64, memories, "{what}");
        let off = (got.mean - right[0]).abs().max((got.most - right[1]).abs());
        assert!(off <= 1e-5, "{what}: {got:?} is off by {off:e}");
    }
}

fn check_memories(case: &Case<'_>, model: &Model, after: &State, what: &str) {
    let right = case.memories(model, "out").expect("a state");
    for (row, (got, right)) in after.rows.iter().zip(&right.rows).enumerate() {
        assert_eq!((got.steps, &got.slot_steps), (right.steps, &right.slot_steps), "{what}: row {row}");
        let counts = model.store.capacity.is_some() && model.store.evict.counts_received();
        assert_eq!(got.received.is_empty(), !counts, "{what}: row {row}");
        if counts {
            let received: Vec<f64> = right.received.iter().map(|received| f64::from(*received)).collect();
            let off = difference(&got.received, &received, 1.0);
            assert!(off <= 1e-5, "{what}: the received weights of row {row} are off by {off:e}");
        }
    }
    for (row, (got, right)) in after.memories.iter().zip(&right.memories).enumerate() {
        let right: Vec<f64> = right.iter().map(|value| f64::from(*value)).collect();
        let off = difference(got, &right, 1.0);
        assert!(off <= 1e-5, "{what}: the memory of row {row} is off by {off:e}");
    }
}

fn check_all(instructions: InstructionSet) {
    let file = GoldenFile::read("sab_lstm");
    let cases = file.cases();
    assert!(cases.len() >= 80, "only {} goldens", cases.len());
    // From case 80 on, the file covers every part.
    let has = |key: &str, name: &str| cases.iter().any(|case| case.meta[key] == name);
    if cases.len() > 80 {
        assert!(Cell::ALL.iter().all(|part| has("cell", part.name())));
        assert!(Scorer::ALL.iter().all(|part| has("scorer", part.name())));
        assert!(Sparsifier::ALL.iter().all(|part| has("sparsifier", part.name())));
        assert!(Store::ALL.iter().all(|part| has("store", part.name())));
        assert!(Evict::ALL.iter().all(|part| has("evict", part.name())));
    }
    cases.iter().for_each(|case| check_case(case, instructions));
}

fn check_credit(instructions: InstructionSet) {
    let file = GoldenFile::read("credit");
    let cases = file.cases();
    assert!(cases.len() >= 18, "only {} goldens", cases.len());
    assert!(cases.iter().all(|case| case.model().credit_across_calls && !case.earlier().is_empty()));
    cases.iter().for_each(|case| check_case(case, instructions));
}

#[test]
fn the_engine_agrees_with_pytorch() {
    check_all(InstructionSet::Detect);
}

#[test]
fn the_engine_without_vector_instructions_agrees_with_pytorch() {
    check_all(InstructionSet::Baseline);
}

#[test]
fn r21_credit_across_calls_agrees_with_pytorch() {
    check_credit(InstructionSet::Detect);
}

#[test]
fn r21_credit_without_vector_instructions_agrees_with_pytorch() {
    check_credit(InstructionSet::Baseline);
}
