//! Mistakes of a caller with the parts of a model: their settings, parameters and states.

use crate::common::{Parameters, random_state_for};
use crate::{PATHS, device, expect_message, expect_on_both, ones, run_by};
use attentive::{Cell, Evict, SabLstm, SabLstmConfig, SabState, SabStateRecord, Scorer};
use burn::module::Param;
use burn::tensor::{DType, Tensor, TensorData};

fn config() -> SabLstmConfig {
    SabLstmConfig::new(3, 4).with_k_top(2)
}

fn layer(config: &SabLstmConfig) -> SabLstm {
    Parameters::random_for(config, 1).layer(config, DType::F32, &device())
}

#[test]
fn a_wrong_setting_of_the_store_is_named_and_init_does_not_panic() {
    let cases = [
        (config().with_capacity(0), "`capacity` is 0", "at least 1 memory besides the null slot"),
        (config().with_capacity(usize::MAX), "`capacity` is", "less than"),
        (config().with_novelty(-0.1), "`novelty` is -0.1", "a finite number, at least 0"),
        (config().with_novelty(f64::NAN), "`novelty` is NaN", "a finite number, at least 0"),
        (config().with_novelty(f64::INFINITY), "`novelty` is inf", "a finite number, at least 0"),
        (config().with_novelty(f64::NEG_INFINITY), "`novelty` is -inf", "a finite number, at least 0"),
        // Refused even if the store does not use it, because the file was probably meant differently.
        (SabLstmConfig { novelty: -1.0, ..config() }, "`novelty` is -1", "a finite number, at least 0"),
    ];
    for (config, field, hint) in cases {
        expect_message(config.validate(), &[field, hint]);
        expect_message(config.try_init(&device()), &[field, hint]);
        expect_on_both(&[field, hint], |path| run_by(&config.init(&device()), ones([1, 2, 3]), None, path));
    }
    // The largest numbers that are none.
    for config in [config().with_novelty(f64::MAX), config().with_novelty(0.0), config().with_capacity(1)] {
        for path in PATHS {
            assert!(run_by(&layer(&config), ones([1, 4, 3]), None, path).is_ok(), "{path:?}, {config:?}");
        }
    }
}

#[test]
fn a_parameter_that_the_parts_do_not_have_is_named_with_those_they_have() {
    let matrix = || Param::from_tensor(Tensor::<2>::zeros([4, 4], &device()));
    let vector = || Param::from_tensor(Tensor::<1>::zeros([4], &device()));
    let mut lstm = layer(&config().with_scorer(Scorer::Cosine));
    let has = "weight_ih, weight_hh, bias, w1, temperature";
    expect_message(lstm.set_matrix("w2", matrix()), &["`w2`", has]);
    expect_message(lstm.set_vector("w3", vector()), &["`w3`", has]);
    expect_message(lstm.set_matrix("", matrix()), &["``", has]);
    assert!(lstm.matrix("w2").is_none() && lstm.vector("w3").is_none() && lstm.vector("temperature").is_some());
    // A parameter is not found under the wrong kind.
    assert!(lstm.vector("w1").is_none() && lstm.matrix("bias").is_none());
    let mut lstm = layer(&config().with_scorer(Scorer::Dot));
    expect_message(lstm.set_vector("w3", vector()), &["`w3`", "weight_ih, weight_hh, bias, w1, w2"]);
    expect_message(lstm.set_vector("temperature", vector()), &["`temperature`"]);
}

#[test]
fn a_parameter_of_the_wrong_kind_is_found_when_the_layer_runs() {
    let mut lstm = layer(&config());
    lstm.set_vector("w1", Param::from_tensor(Tensor::<1>::zeros([16], &device()))).expect("the name is right");
    expect_on_both(&["`w1` has shape [16]", "[4, 4]"], |path| run_by(&lstm, ones([1, 2, 3]), None, path));
    let mut lstm = layer(&config().with_cell(Cell::Gru));
    let lstms = layer(&config()).matrix("weight_hh").expect("a matrix").clone();
    lstm.set_matrix("weight_hh", lstms).expect("the name is right");
    expect_on_both(&["`weight_hh` has shape [4, 16]", "[4, 12]"], |path| run_by(&lstm, ones([1, 2, 3]), None, path));
}

#[test]
fn a_parameter_of_any_part_that_is_not_finite_is_reported() {
    for scorer in Scorer::ALL {
        for cell in Cell::ALL {
            let config = config().with_cell(*cell).with_scorer(*scorer);
            for number in 0..Parameters::random_for(&config, 1).0.len() {
                let mut parameters = Parameters::random_for(&config, 1);
                let name = parameters.0[number].0;
                parameters.all_mut()[number].values[0] = f64::NAN;
                let lstm = parameters.layer(&config, DType::F32, &device());
                let words = ["NaN or an infinity"];
                expect_on_both(&words, |path| run_by(&lstm, ones([1, 4, 3]), None, path));
                let fused = run_by(&lstm, ones([1, 4, 3]), None, attentive::Path::Fused);
                expect_message(fused, &[&format!("`{name}`")]);
            }
        }
    }
}

#[test]
fn a_state_of_another_cell_is_an_error() {
    let of = |cell| random_state_for(&config().with_cell(cell), &[3, 3], 1, DType::F32);
    let (lstm, gru) = (layer(&config()), layer(&config().with_cell(Cell::Gru)));
    let words = ["it has a cell state", "`gru`", "takes none"];
    expect_on_both(&words, |path| run_by(&gru, ones([2, 2, 3]), Some(of(Cell::Lstm)), path));
    let words = ["it has no cell state", "`lstm`", "needs one"];
    expect_on_both(&words, |path| run_by(&lstm, ones([2, 2, 3]), Some(of(Cell::Gru)), path));
}

#[test]
fn a_state_that_holds_more_than_the_capacity_is_an_error() {
    let state = random_state_for(&config(), &[1, 5], 1, DType::F32);
    for evict in Evict::ALL {
        let lstm = layer(&config().with_capacity(4).with_evict(*evict));
        let words = ["holds 5 memories besides the null slot", "`capacity` is 4"];
        expect_on_both(&words, |path| run_by(&lstm, ones([2, 2, 3]), Some(state.clone()), path));
        let lstm = layer(&config().with_capacity(5).with_evict(*evict));
        for path in PATHS {
            let out = run_by(&lstm, ones([2, 2, 3]), Some(state.clone()), path).expect("as many as there may be");
            assert_eq!((out.state.slots(0), out.state.slots(1)), (4, 6), "{path:?}");
        }
    }
}

/// A record of two rows that hold some of their steps, with received weights.
fn record() -> SabStateRecord {
    let data = |shape: &[usize]| TensorData::zeros::<f32, _>(shape.to_vec());
    SabStateRecord {
        hidden: data(&[2, 4]),
        cell: Some(data(&[2, 4])),
        memory: data(&[2, 3, 4]),
        steps: vec![6, 9],
        k_att: 1,
        slot_steps: vec![vec![0, 2, 6], vec![0, 9]],
        received: vec![vec![0.5, 0.0, 2.0], vec![1.0, 0.0]],
        segments: None,
    }
}

#[test]
fn a_record_with_broken_slot_steps_or_received_numbers_is_an_error() {
    assert!(SabState::from_record(record(), &device()).is_ok());
    type Damage = fn(&mut SabStateRecord);
    let cases: [(Damage, &[&str]); 15] = [
        (|r| r.slot_steps[0] = vec![0, 6, 2], &["out of order", "step 6 comes before step 2"]),
        (|r| r.slot_steps[0] = vec![0, 2, 2], &["out of order"]),
        (|r| r.slot_steps[0] = vec![0, 0, 2], &["out of order"]),
        (|r| r.slot_steps[0] = vec![2, 4, 6], &["null slot"]),
        (|r| r.slot_steps[1] = Vec::new(), &["null slot"]),
        (|r| r.slot_steps[1] = vec![0, 10], &["remembers step 10", "taken only 9 steps"]),
        (|r| r.slot_steps[1] = vec![0, u64::MAX], &["remembers step", "taken only 9 steps"]),
        (|r| r.slot_steps.truncate(1), &["`slot_steps`", "has 1 rows", "`steps` has 2"]),
        (|r| r.slot_steps.push(vec![0]), &["`slot_steps`", "has 3 rows", "`steps` has 2"]),
        (|r| (r.slot_steps[0], r.received[0]) = (vec![0, 1, 2, 3], vec![0.0; 4]), &["`memory`", "[2, at least 4, 4]"]),
        (|r| r.received.truncate(1), &["`received`", "has 1 rows", "`steps` has 2"]),
        (|r| r.received[0].truncate(2), &["`received` has 2 values", "holds 3 memories"]),
        (|r| r.received[1][0] = f32::NAN, &["received", "negative or not finite"]),
        (|r| r.received[1][0] = f32::INFINITY, &["received", "negative or not finite"]),
        (|r| r.received[1][0] = -0.5, &["received", "negative or not finite"]),
    ];
    for (damage, words) in cases {
        let mut broken = record();
        damage(&mut broken);
        expect_message(SabState::from_record(broken, &device()), words);
    }
}

#[test]
fn a_record_of_an_earlier_version_holds_every_k_att_th_step() {
    let old = r#"{"hidden": H, "cell": H, "memory": M, "steps": [5, 2], "k_att": 2}"#;
    let json =
        |shape: &[usize]| serde_json::to_string(&TensorData::zeros::<f32, _>(shape.to_vec())).expect("plain data");
    let old = old.replace('H', &json(&[2, 4])).replace('M', &json(&[2, 3, 4]));
    let record: SabStateRecord = serde_json::from_str(&old).expect("an earlier version wrote it");
    let state = SabState::from_record(record, &device()).expect("a good record");
    assert_eq!((state.slot_steps(0), state.slot_steps(1)), ([0, 2, 4].as_slice(), [0, 2].as_slice()));
    assert!(state.received(0).is_empty() && state.received(1).is_empty());
    let lstm = layer(&config().with_k_att(2));
    for path in PATHS {
        let out = run_by(&lstm, ones([2, 3, 3]), Some(state.clone()), path).expect("it fits the layer");
        assert_eq!(out.state.slot_steps(0), [0, 2, 4, 6, 8], "{path:?}");
    }
}

#[test]
fn a_state_without_received_numbers_starts_from_nothing_received() {
    let config = config().with_capacity(3).with_evict(Evict::LeastAttended);
    let (mut without, mut nothing) = (record(), record());
    without.received = Vec::new();
    nothing.received.iter_mut().for_each(|row| row.fill(0.0));
    for path in PATHS {
        let [a, b] = [without.clone(), nothing.clone()].map(|record| {
            let state = SabState::from_record(record, &device()).expect("a good record");
            run_by(&layer(&config), ones([2, 5, 3]), Some(state), path).expect("it fits the layer").state
        });
        for row in 0..2 {
            assert_eq!((a.slot_steps(row), a.received(row)), (b.slot_steps(row), b.received(row)), "{path:?}");
        }
    }
}
