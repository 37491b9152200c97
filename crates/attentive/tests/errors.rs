//! Mistakes of a caller: each gives an error that says what is wrong and what would be right, never a panic.

mod common;

#[path = "errors/configuration.rs"]
mod configuration;
#[path = "errors/parts.rs"]
mod parts;
#[path = "errors/readout.rs"]
mod readout;

use attentive::{
    ForwardOptions, Initialization, KTop, Path, Result, SabError, SabInput, SabLstm, SabLstmConfig, SabOutput,
    SabReadoutConfig, SabState, SabStateRecord, ScoreGradient,
};
use burn::module::Param;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::{Array, Input, Parameters, gradients_of, random_state};

const PATHS: [Path; 2] = [Path::Portable, Path::Fused];

fn device() -> Device {
    Device::flex()
}

fn config() -> SabLstmConfig {
    SabLstmConfig::new(3, 4).with_k_top(2)
}

fn layer(config: &SabLstmConfig) -> SabLstm {
    Parameters::random(config.input, config.hidden, 1).layer(config, DType::F32, &device())
}

fn run_by(lstm: &SabLstm, input: impl Into<SabInput>, state: Option<SabState>, path: Path) -> Result<SabOutput> {
    lstm.forward_with(input, state, &ForwardOptions::new().with_path(path))
}

fn ones(shape: [usize; 3]) -> Tensor<3> {
    Tensor::ones(shape, &device())
}

/// Asserts that the message of an error contains all these words.
#[track_caller]
fn expect_message<T>(result: Result<T>, words: &[&str]) {
    let message = result.err().expect("an error").to_string();
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

/// Asserts the same for a mistake on each path.
#[track_caller]
fn expect_on_both<T>(words: &[&str], attempt: impl Fn(Path) -> Result<T>) {
    for path in PATHS {
        expect_message(attempt(path), words);
    }
}

#[test]
fn a_wrong_field_of_the_configuration_is_named_and_init_does_not_panic() {
    let with = |initialization: Initialization| config().with_initialization(initialization);
    let defaults = Initialization::default();
    let cases: Vec<(SabLstmConfig, &str, &str)> = vec![
        (SabLstmConfig::new(0, 4), "`input` is 0", "at least 1"),
        (SabLstmConfig::new(3, 0), "`hidden` is 0", "at least 1"),
        (SabLstmConfig::new(0, 0), "`input` is 0", "at least 1"),
        (config().with_k_att(0), "`k_att` is 0", "at least 1"),
        (config().with_k_trunc(0), "`k_trunc` is 0", "at least 1 step, or none"),
        (with(Initialization { bound: Some(-0.5), ..defaults }), "`initialization.bound` is -0.5", "at least 0"),
        (
            with(Initialization { attention_gain: -1.0, ..defaults }),
            "`initialization.attention_gain` is -1",
            "at least 0",
        ),
        (with(Initialization { score_gain: -1.0, ..defaults }), "`initialization.score_gain` is -1", "at least 0"),
        (
            with(Initialization { forget_bias: f64::NAN, ..defaults }),
            "`initialization.forget_bias` is NaN",
            "a finite number",
        ),
        (
            with(Initialization { forget_bias: f64::INFINITY, ..defaults }),
            "`initialization.forget_bias` is inf",
            "finite",
        ),
    ];
    for (config, field, hint) in cases {
        expect_message(config.validate(), &[field, hint]);
        expect_message(config.try_init(&device()), &[field, hint]);
        let lstm = config.init(&device());
        expect_message(lstm.forward(ones([1, 2, 3]), None), &[field, hint]);
        expect_message(lstm.step(Tensor::<2>::ones([1, 3], &device()), None), &[field, hint]);
    }
}

#[test]
fn a_negative_forget_bias_is_fine() {
    let config = config().with_initialization(Initialization { forget_bias: -2.0, ..Initialization::default() });
    assert!(config.validate().is_ok());
    assert!(config.init(&device()).forward(ones([1, 2, 3]), None).is_ok());
}

#[test]
fn init_with_a_gain_that_is_not_finite_does_not_panic() {
    let defaults = Initialization::default();
    let cases = [
        (Initialization { bound: Some(f64::NAN), ..defaults }, "initialization.bound"),
        (Initialization { bound: Some(f64::INFINITY), ..defaults }, "initialization.bound"),
        (Initialization { attention_gain: f64::NAN, ..defaults }, "initialization.attention_gain"),
        (Initialization { score_gain: f64::INFINITY, ..defaults }, "initialization.score_gain"),
    ];
    for (initialization, field) in cases {
        let config = config().with_initialization(initialization);
        expect_message(config.validate(), &[field, "a finite number, at least 0"]);
        let lstm = config.init(&device());
        expect_message(lstm.forward(ones([1, 2, 3]), None), &[field, "a finite number, at least 0"]);
        // Such a layer is useless, but displaying it must not panic.
        assert_eq!(lstm.matrix("w1").expect("a matrix").val().dims(), [4, 4]);
        assert_eq!(lstm.vector("w3").expect("a vector").val().dims(), [4]);
        assert_eq!(lstm.vector("bias").expect("a vector").val().dims(), [16]);
    }
}

#[test]
fn a_gain_that_is_not_finite_is_found_without_init() {
    let defaults = Initialization::default();
    for gain in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let config = config().with_initialization(Initialization { score_gain: gain, ..defaults });
        expect_message(config.try_init(&device()), &["`initialization.score_gain`", "a finite number, at least 0"]);
    }
}

#[test]
fn a_gain_of_0_makes_zeros() {
    let defaults = Initialization::default();
    let cases = [
        Initialization { bound: Some(0.0), ..defaults },
        Initialization { attention_gain: 0.0, ..defaults },
        Initialization { score_gain: 0.0, ..defaults },
    ];
    for initialization in cases {
        let config = config().with_initialization(initialization);
        assert!(config.validate().is_ok());
        assert!(config.init(&device()).forward(ones([1, 2, 3]), None).is_ok());
    }
}

#[test]
fn a_bound_beyond_f32_is_an_error() {
    for bound in [1e39, 1e300] {
        let config = config().with_initialization(Initialization { bound: Some(bound), ..Initialization::default() });
        expect_message(config.init(&device()).forward(ones([1, 2, 3]), None), &["initialization.bound"]);
    }
}

#[test]
fn a_wrong_shape_of_the_input_is_named_with_the_right_one() {
    let lstm = layer(&config());
    for shape in [[2, 5, 4], [2, 5, 1], [2, 5, 0], [0, 5, 3], [2, 0, 3], [0, 0, 3]] {
        let words = [&format!("`input` has shape {shape:?}"), "[batch, time, 3]", "at least one row and one step"];
        expect_on_both(&words, |path| run_by(&lstm, ones(shape), None, path));
    }
    for shape in [[0, 5], [5, 0]] {
        let words = [&format!("`input` has shape {shape:?}"), "[batch, time]", "at least one row and one step"];
        expect_on_both(&words, |path| run_by(&lstm, Tensor::<2, Int>::ones(shape, &device()), None, path));
    }
    expect_message(lstm.step(Tensor::<2>::ones([2, 4], &device()), None), &["`input`", "[2, 1, 4]", "3]"]);
    expect_message(lstm.step(Tensor::<1, Int>::ones([0], &device()), None), &["`input`", "at least one row"]);
}

#[test]
fn a_token_outside_the_input_size_is_named_with_its_row_and_step() {
    let lstm = layer(&config());
    for token in [3, 1000, -1, i64::MIN, i64::MAX] {
        let tokens = TensorData::new(vec![0, 1, 2, 2, 0, token, 1, 1], [2, 4]);
        let words = [&format!("token {token} of row 1 at step 1"), "outside 0..3"];
        expect_on_both(&words, |path| {
            let tokens = Tensor::<2, Int>::from_data(tokens.clone(), (&device(), DType::I64));
            run_by(&lstm, tokens, None, path)
        });
    }
}

#[test]
fn another_float_type_is_an_error_that_says_how_to_cast() {
    let lstm = layer(&config());
    let x = || ones([1, 2, 3]).cast(DType::F64);
    expect_on_both(&["`input` is F64", "F32 is needed", "cast"], |path| run_by(&lstm, x(), None, path));
    expect_message(lstm.forward(x(), None), &["`input` is F64"]);

    let mut mixed = layer(&config());
    let w2 = mixed.matrix("w2").expect("a matrix").val().cast(DType::F64);
    mixed.set_matrix("w2", Param::from_tensor(w2)).expect("a parameter of the layer");
    expect_on_both(&["`w2` is F64", "F32 is needed"], |path| run_by(&mixed, ones([1, 2, 3]), None, path));
}

#[test]
fn the_fused_path_says_why_it_cannot_run() {
    let lstm = Parameters::random(3, 4, 1).layer(&config(), DType::F64, &device());
    let x = ones([1, 2, 3]).cast(DType::F64);
    expect_message(run_by(&lstm, x.clone(), None, Path::Fused), &["fused path cannot run", "F64", "Path::Auto"]);
    assert!(lstm.forward(x, None).is_ok(), "Path::Auto takes the other path");

    let mut readout = SabReadoutConfig::new(4, 2).init(&device());
    readout.v1 = Param::from_tensor(readout.v1.val().cast(DType::F64));
    readout.v2 = Param::from_tensor(readout.v2.val().cast(DType::F64));
    readout.bias = Param::from_tensor(readout.bias.val().cast(DType::F64));
    let h = ones([1, 2, 4]).cast(DType::F64);
    expect_message(readout.forward_by(h.clone(), h.clone(), Path::Fused), &["fused path cannot run", "F32"]);
    assert!(readout.forward(h.clone(), h).is_ok());
}

#[test]
fn a_state_that_does_not_fit_is_an_error_that_says_what_would() {
    let lstm = layer(&config());
    let state = |units, rows: &[u64], k_att, dtype| random_state(units, rows, k_att, 1, dtype);
    let cases = [
        (state(4, &[3; 3], 1, DType::F32), vec!["batch size is 3", "2, the batch size of the input"]),
        (state(5, &[3; 2], 1, DType::F32), vec!["hidden size is 5", "4 is needed"]),
        (state(4, &[3; 2], 2, DType::F32), vec!["`k_att` is 2", "1 is needed"]),
        (state(4, &[3; 2], 1, DType::F64), vec!["type is F64", "F32 is needed"]),
    ];
    for (state, words) in cases {
        expect_on_both(&words, |path| run_by(&lstm, ones([2, 2, 3]), Some(state.clone()), path));
    }
}

#[test]
fn a_state_made_by_hand_must_be_consistent() {
    let zeros = |rows: usize, units: usize| Tensor::<2>::zeros([rows, units], &device());
    expect_message(SabState::starting_from(zeros(2, 4), zeros(2, 5), 1), &["`cell`", "[2, 5]", "[2, 4]"]);
    expect_message(SabState::starting_from(zeros(2, 4), zeros(3, 4), 1), &["`cell`", "[3, 4]", "[2, 4]"]);
    expect_message(SabState::starting_from(zeros(2, 4), zeros(2, 4), 0), &["`k_att` is 0", "at least 1"]);
}

#[test]
fn a_damaged_record_of_a_state_is_an_error() {
    let mut good = random_state(4, &[3, 5], 1, 1, DType::F32).to_record();
    // Without slot steps, as in records of earlier versions. Slot steps have their own test.
    good.slot_steps.clear();
    assert!(SabState::from_record(good.clone(), &device()).is_ok());
    let data = |shape: &[usize]| TensorData::zeros::<f32, _>(shape.to_vec());
    type Damage<'a> = Box<dyn Fn(&mut SabStateRecord) + 'a>;
    let cases: Vec<(Damage<'_>, Vec<&str>)> = vec![
        (Box::new(|r| r.hidden = data(&[8])), vec!["`hidden`", "[8]"]),
        (Box::new(|r| r.hidden = data(&[2, 4, 1])), vec!["`hidden`", "[2, 4, 1]"]),
        (Box::new(|r| r.hidden = data(&[2, 3])), vec!["`cell`", "[2, 3] is needed"]),
        (Box::new(|r| r.cell = Some(data(&[1, 4]))), vec!["`cell`", "[1, 4]", "[2, 4] is needed"]),
        (Box::new(|r| r.memory = data(&[2, 6])), vec!["`memory`", "[2, 6]"]),
        (Box::new(|r| r.memory = data(&[2, 5, 4])), vec!["`memory`", "[2, 5, 4]", "[2, at least 6, 4]"]),
        (Box::new(|r| r.memory = data(&[2, 6, 5])), vec!["`memory`", "[2, 6, 5]", "[2, at least 6, 4]"]),
        (Box::new(|r| r.memory = data(&[3, 6, 4])), vec!["`memory`", "[3, 6, 4]", "[2, at least 6, 4]"]),
        (Box::new(|r| r.memory = data(&[2, 0, 4])), vec!["`memory`", "at least 6"]),
        (Box::new(|r| r.steps = vec![3]), vec!["`steps`", "[1]", "[2] is needed"]),
        (Box::new(|r| r.steps = vec![3, 6]), vec!["`memory`", "at least 7"]),
        (Box::new(|r| r.steps = vec![3, 1 << 40]), vec!["`memory`", "at least"]),
        (Box::new(|r| r.k_att = 0), vec!["`k_att` is 0", "at least 1"]),
        (Box::new(|r| r.cell = Some(TensorData::zeros::<i32, _>([2, 4]))), vec!["`cell` is I32", "floats"]),
        (Box::new(|r| r.memory = TensorData::zeros::<i64, _>([2, 6, 4])), vec!["`memory` is I64", "floats"]),
    ];
    for (damage, words) in cases {
        let mut record = good.clone();
        damage(&mut record);
        expect_message(SabState::from_record(record, &device()), &words);
    }
}

#[test]
fn a_record_whose_bytes_are_cut_off_is_an_error() {
    let good = random_state(4, &[3], 1, 1, DType::F32).to_record();
    for field in ["hidden", "cell", "memory"] {
        let mut json = serde_json::to_value(&good).expect("plain data");
        json[field]["bytes"].as_array_mut().expect("bytes").truncate(7);
        match serde_json::from_value::<SabStateRecord>(json) {
            Ok(record) => expect_message(SabState::from_record(record, &device()), &[field, "damaged"]),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let mut json = serde_json::to_value(&good).expect("plain data");
    json["celll"] = 1.into();
    let error = serde_json::from_value::<SabStateRecord>(json).expect_err("an unknown key").to_string();
    assert!(error.contains("celll") && error.contains("memory"), "{error}");
}

#[test]
fn a_record_with_an_impossible_number_of_steps_is_an_error() {
    let mut record = random_state(4, &[3], 1, 1, DType::F32).to_record();
    record.steps = vec![u64::MAX];
    expect_message(SabState::from_record(record, &device()), &["steps", "largest"]);
}

#[test]
fn a_record_with_an_impossible_k_att_is_an_error_or_runs() {
    let mut record = random_state(4, &[3], 1, 1, DType::F32).to_record();
    (record.steps, record.k_att) = (vec![u64::MAX], usize::MAX);
    let Ok(state) = SabState::from_record(record, &device()) else { return };
    for path in PATHS {
        let _ = run_by(&layer(&config().with_k_att(usize::MAX)), ones([1, 2, 3]), Some(state.clone()), path);
    }
}

#[test]
fn a_state_that_is_not_finite_is_an_error() {
    let device = device().autodiff();
    for path in PATHS {
        for field in 0..3 {
            for value in [f32::NAN, f32::INFINITY] {
                let mut record = random_state(4, &[3], 1, 1, DType::F32).to_record();
                let cell = record.cell.as_mut().expect("an LSTM has one");
                let data = [&mut record.hidden, cell, &mut record.memory].into_iter().nth(field).expect("three");
                let shape = data.shape().to_vec();
                *data = TensorData::new(vec![value; shape.iter().product()], shape);
                let Ok(state) = SabState::from_record(record, &device) else { continue };
                let lstm = Parameters::random(3, 4, 1).layer(&config(), DType::F32, &device);
                let x = Tensor::<3>::ones([1, 3, 3], &device);
                let result = run_by(&lstm, x, Some(state), path);
                assert!(result.is_err(), "{path:?}: field {field} is {value}");
            }
        }
    }
}

#[test]
fn reset_of_a_row_that_is_not_there_is_an_error_and_changes_nothing() {
    let mut state = random_state(4, &[3, 5], 1, 1, DType::F32);
    expect_message(state.reset(&[0, 2]), &["no row 2", "the batch has 2"]);
    assert_eq!(state.steps(), [3, 5]);
    assert!(state.reset(&[]).is_ok());
    assert!(state.reset(&[1, 1]).is_ok(), "twice is once");
    assert_eq!((state.steps(), state.slots(7)), (vec![3, 0], 0));
}

#[test]
fn nan_and_infinity_in_the_input_are_reported_on_the_fused_path_with_their_place() {
    let lstm = layer(&config());
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let Input::Dense(mut x) = Input::random(3, 5, 3, false, 2) else { panic!("a dense input") };
        x.values[(2 * 5 + 3) * 3 + 1] = value;
        let attempt = |path| run_by(&lstm, x.tensor::<3>(DType::F32, &device()), None, path);
        expect_on_both(&["`input` holds a NaN or an infinity", "clean the data"], attempt);
        expect_message(attempt(Path::Fused), &["in row 2 at step 3"]);
    }
}

#[test]
fn a_parameter_that_is_not_finite_is_reported() {
    // With a carried state, no step has so few memories that it takes a softmax; test both cases.
    for state in [None, Some(random_state(4, &[6], 1, 1, DType::F32))] {
        for (number, name) in ["weight_ih", "weight_hh", "bias", "w1", "w2", "w3"].into_iter().enumerate() {
            for value in [f64::NAN, f64::INFINITY] {
                let mut parameters = Parameters::random(3, 4, 1);
                parameters.all_mut()[number].values[1] = value;
                let lstm = parameters.layer(&config(), DType::F32, &device());
                let attempt = |path| run_by(&lstm, ones([1, 4, 3]), state.clone(), path);
                expect_message(attempt(Path::Fused), &[&format!("`{name}`"), "NaN or an infinity"]);
                match attempt(Path::Portable) {
                    Err(error) => assert!(matches!(error, SabError::NonFinite { .. }), "{error}"),
                    // An infinity may only saturate a gate, which is harmless.
                    Ok(out) => assert!(value.is_infinite() && finite(&out), "{name} is {value}"),
                }
            }
        }
    }
}

fn finite(out: &SabOutput) -> bool {
    let parts = [Array::of(&out.hidden), Array::of(&out.summary), Array::of(&out.state.memory())];
    let more = [Array::of(&out.state.hidden()), Array::of(&out.state.cell().expect("an LSTM has one"))];
    parts.iter().chain(&more).all(|array| array.values.iter().all(|x| x.is_finite()))
}

#[test]
fn enormous_finite_numbers_give_an_error_or_finite_results() {
    let device = device().autodiff();
    for path in PATHS {
        for k_top in [KTop::Count(0), KTop::Count(1), KTop::Count(2), KTop::All] {
            for scale in [1e10, 1e20, 1e30, 1e38, 3e38] {
                // One parameter, all of them, or the input.
                for number in 0..8 {
                    let config = config().with_k_top(k_top).with_score_gradient(ScoreGradient::Full).with_k_trunc(None);
                    let (mut parameters, input) = (Parameters::random(3, 4, 3), Input::random(2, 7, 3, false, 4));
                    let Input::Dense(mut x) = input else { panic!("a dense input") };
                    for (i, array) in parameters.all_mut().into_iter().chain([&mut x]).enumerate() {
                        if i == number || (number == 7 && i < 6) {
                            array.values.iter_mut().for_each(|value| *value = value.signum() * scale);
                        }
                    }
                    let lstm = parameters.layer(&config, DType::F32, &device);
                    let what = format!("{path:?}, k_top {k_top:?}, scale {scale:e}, tensor {number}");
                    match run_by(&lstm, x.tensor::<3>(DType::F32, &device), None, path) {
                        Ok(out) => assert!(finite(&out), "{what}"),
                        Err(error) => assert!(matches!(error, SabError::NonFinite { .. }), "{what}: {error}"),
                    }
                }
            }
        }
    }
}

#[test]
fn enormous_recurrent_weights_give_finite_gradients_or_an_error() {
    let device = device().autodiff();
    for path in PATHS {
        let mut parameters = Parameters::random(3, 4, 3);
        parameters["weight_hh"].values.iter_mut().for_each(|value| *value = value.signum() * 1e20);
        let lstm = parameters.layer(&config().with_k_top(0).with_k_trunc(None), DType::F32, &device);
        let (x, _) = Input::random(2, 7, 3, false, 4).tensor(DType::F32, &device);
        let Ok(out) = run_by(&lstm, x, None, path) else { continue };
        for (name, gradient) in gradients_of(&lstm, &out.hidden.sum().backward()) {
            assert!(gradient.values.iter().all(|d| d.is_finite()), "{path:?}: {name}");
        }
    }
}

#[test]
fn any_number_of_reminders_may_be_asked_for() {
    for path in PATHS {
        let options = ForwardOptions::new().with_path(path).with_reminders(usize::MAX);
        let out = layer(&config()).forward_with(ones([1, 4, 3]), None, &options).expect("a good input");
        assert_eq!(out.reminders.expect("the layer attends").at(0, 3).len(), 2);
    }
}

#[test]
fn reminders_outside_the_batch_are_empty() {
    let options = ForwardOptions::new().with_reminders(0);
    let out = layer(&config()).forward_with(ones([1, 4, 3]), None, &options).expect("0 counts as 1");
    let reminders = out.reminders.expect("the layer attends");
    assert_eq!(reminders.at(0, 3).len(), 1);
    assert!(reminders.at(1, 0).is_empty() && reminders.at(0, 4).is_empty());
}
