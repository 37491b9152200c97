//! Edge cases of the rules, and calls that must be refused with an [`EngineError`], never a panic.

mod common;

use attentive_engine::{
    Call, Cell, EngineError, Evict, Inputs, InstructionSet, KTop, KTrunc, MOST_STEPS, Model, OutputAdjoints, Owner,
    PackedWeights, ReadoutAdjoint, Replay, Retrieval, RowStart, ScoreGradient, Scorer, Sparsifier, Store, StoreRule,
    TapeInputs, backward, forward,
};
use common::{Example, Input, Random, Run, State, all_parts, all_stores, assert_same};
use std::sync::Arc;

fn run(example: &Example) -> Run {
    example.run(1, true).unwrap_or_else(|error| panic!("{:?}: {error}", example.model))
}

fn gradient<'a>(run: &'a Run, name: &str) -> &'a [f32] {
    &run.gradients.iter().find(|(own, _)| *own == name).expect(name).1
}

fn is_zero(values: &[f32]) -> bool {
    values.iter().all(|value| *value == 0.0)
}

/// A model whose scorer's parameters are all zero, so that all scores are equal.
fn with_equal_scores(model: Model) -> Example {
    let mut example = Example::random(model, (2, 9), true, 1.0, 5);
    let scorer = cell_parameters(&model);
    example.parameters[scorer..].iter_mut().for_each(|values| values.fill(0.0));
    example
}

/// The number of parameters of the cell, which come first.
fn cell_parameters(model: &Model) -> usize {
    model.parameters().iter().filter(|parameter| parameter.owner == Owner::Cell).count()
}

#[test]
fn r5_equal_scores_give_no_summary_and_no_gradient_to_the_scorer() {
    for (cell, scorer, _) in all_parts() {
        // At the first step there is one memory and R6 applies: a single weight of 1 has no gradient either.
        let model =
            Model { cell, scorer, k_top: KTop::Count(1), score_gradient: ScoreGradient::Full, ..Model::new(3, 5) };
        let example = with_equal_scores(model);
        let out = run(&example);
        assert!(is_zero(&out.summary), "{model:?}");
        for (name, gradient) in &out.gradients[cell_parameters(&model)..out.gradients.len() - 1] {
            assert!(is_zero(gradient), "{name} of {model:?}");
        }
        // Only the cell is left.
        let mut plain = example.clone();
        plain.model.k_top = KTop::Count(0);
        let plain = run(&plain);
        assert_eq!(common::bits(&out.hidden), common::bits(&plain.hidden), "{model:?}");
    }
}

#[test]
fn r17_equal_scores_share_the_weight_among_the_oldest() {
    for &scorer in Scorer::ALL {
        let k_top = 4;
        let sparsifier = Sparsifier::Softmax;
        let model = Model { scorer, sparsifier, k_top: KTop::Count(k_top), ..Model::new(3, 5) };
        let out = run(&with_equal_scores(model));
        let reminders = out.reminders.expect("requested");
        for t in 0..9 {
            let got: Vec<(u64, f32)> =
                reminders.at(1, t).iter().map(|reminder| (reminder.step, reminder.weight)).collect();
            let chosen = k_top.min(t + 1);
            let right: Vec<(u64, f32)> = (0..chosen as u64).map(|step| (step, 1.0 / chosen as f32)).collect();
            assert_eq!(got, right, "{scorer}, step {t}");
        }
    }
}

#[test]
fn r4_of_two_equal_memories_the_older_is_chosen() {
    for (sparsifier, capacity) in [(Sparsifier::Prominence, None), (Sparsifier::Softmax, Some(9))] {
        for &scorer in Scorer::ALL {
            let store = StoreRule { k_att: 50, capacity, ..StoreRule::default() };
            let model = Model { scorer, sparsifier, store, k_top: KTop::Count(1), ..Model::new(3, 5) };
            let mut example = Example::random(model, (1, 1), true, 1.0, 8);
            // Three memories, each of them twice.
            let mut random = Random::new(1);
            let states = random.numbers(3 * 5, 1.0);
            let slot_steps = vec![0, 3, 5, 6, 7, 9];
            example.state.rows = vec![RowStart { steps: 9, slot_steps, received: Vec::new() }];
            example.state.memories = vec![[&states[..], &states[..]].concat()];
            let out = run(&example);
            let reminders = out.reminders.expect("requested");
            // Prominence: the best is as good as the threshold (R5). Softmax: the older one alone.
            match sparsifier {
                Sparsifier::Prominence => assert!(is_zero(&out.summary), "{scorer}"),
                Sparsifier::Softmax => assert!([0, 3, 5].contains(&reminders.at(0, 0)[0].step), "{scorer}"),
            }
        }
    }
}

#[test]
fn r16_zero_norms_score_0_and_get_no_gradient() {
    // W1 = 0 makes all projections zero; an input of zeros without a bias makes the states zero.
    let model = Model { scorer: Scorer::Cosine, score_gradient: ScoreGradient::Full, ..Model::new(3, 5) };
    for (cell, sparsifier) in Cell::ALL.iter().flat_map(|cell| Sparsifier::ALL.iter().map(move |s| (*cell, *s))) {
        for k_top in [KTop::Count(2), KTop::All] {
            let model = Model { cell, sparsifier, k_top, ..model };
            let mut example = Example::random(model, (2, 9), true, 1.0, 6);
            example.parameters[cell_parameters(&model)].fill(0.0);
            let out = run(&example);
            assert!(is_zero(gradient(&out, "temperature")) && is_zero(gradient(&out, "w1")), "{model:?}");
            assert!(out.gradients.iter().all(|(_, gradient)| attentive_engine::all_finite(gradient)));
            let mut still = Example::random(model, (2, 9), true, 1.0, 6);
            still.input = Input::Dense(vec![0.0; 2 * 9 * 3]);
            still.parameters[2].fill(0.0);
            let out = run(&still);
            assert!(is_zero(&out.hidden) && is_zero(gradient(&out, "temperature")), "{model:?}");
            assert!(out.gradients.iter().all(|(_, gradient)| attentive_engine::all_finite(gradient)));
        }
    }
}

#[test]
fn r18_a_capacity_of_one_keeps_the_null_slot_and_the_newest() {
    for &evict in Evict::ALL {
        for (cell, scorer, sparsifier) in all_parts() {
            let store = StoreRule { capacity: Some(1), evict, ..StoreRule::default() };
            for k_top in [KTop::Count(1), KTop::Count(5), KTop::All] {
                let model = Model { cell, scorer, sparsifier, store, k_top, ..Model::new(3, 5) };
                let out = run(&Example::random(model, (2, 9), true, 1.0, 7));
                for (row, end) in out.after.rows.iter().enumerate() {
                    assert_eq!(end.slot_steps, [0, 9], "{model:?}");
                    let reminders = out.reminders.as_ref().expect("requested");
                    let fits = |t: usize| reminders.at(row, t).iter().all(|r| r.step == 0 || r.step == t as u64);
                    assert!((0..9).all(fits), "{model:?}");
                }
            }
        }
    }
}

#[test]
fn r18_a_novelty_of_0_stores_all_that_differs_and_a_huge_one_nothing() {
    for &cell in Cell::ALL {
        let store = |novelty| StoreRule { store: Store::Novelty, novelty, ..StoreRule::default() };
        let model = |novelty| Model { cell, store: store(novelty), ..Model::new(3, 5) };
        let example = Example::random(model(0.0), (2, 9), true, 1.0, 9);
        let every = Example { model: Model { store: StoreRule::default(), ..example.model }, ..example.clone() };
        assert_same(&run(&example), &run(&every), "all states differ");
        // States that stay constant: zero input, no bias, no reminders.
        let mut still = example.clone();
        still.input = Input::Dense(vec![0.0; 2 * 9 * 3]);
        still.parameters[2].fill(0.0);
        let nothing_stored = |out: &Run| out.after.rows.iter().all(|row| row.slot_steps == [0]);
        assert!(nothing_stored(&run(&still)), "the null slot is zero too");
        for novelty in [1.0, 1e9, 1e300, f64::MAX] {
            let huge = Example { model: model(novelty), ..example.clone() };
            let out = run(&huge);
            assert!(nothing_stored(&out), "{novelty}");
            // Only the null slot, which adds nothing.
            assert!(is_zero(&out.summary), "{novelty}");
        }
    }
}

#[test]
fn r18_a_k_top_above_the_capacity_is_all_of_it() {
    for (cell, scorer, sparsifier) in all_parts() {
        for store in all_stores().into_iter().filter(|store| store.capacity.is_some()) {
            let store = StoreRule { novelty: 0.05, ..store };
            let model = |k_top| Model { cell, scorer, sparsifier, store, k_top, ..Model::new(3, 5) };
            let example = Example::random(model(KTop::All), (2, 15), true, 1.0, 10);
            let right = run(&example);
            let store = StoreRule { capacity: None, ..store };
            let all = run(&Example { model: Model { store, ..model(KTop::All) }, ..example.clone() });
            let held = |run: &Run| run.after.rows.iter().map(|row| row.slot_steps.len()).max();
            assert!(held(&right) < held(&all), "something is forgotten");
            // Three memories and the null slot.
            for k_top in [4, 5, 64, 1000, usize::MAX] {
                let same = Example { model: model(KTop::Count(k_top)), ..example.clone() };
                assert_same(&run(&same), &right, &format!("{:?}", same.model));
            }
        }
        // A capacity that is never reached changes nothing.
        let model = |capacity, evict| {
            let store = StoreRule { capacity, evict, ..StoreRule::default() };
            Model { cell, scorer, sparsifier, store, k_top: KTop::Count(2), ..Model::new(3, 5) }
        };
        let example = Example::random(model(None, Evict::Oldest), (2, 15), true, 1.0, 10);
        for (capacity, evict) in [(15, Evict::Oldest), (15, Evict::LeastAttended), (1 << 31, Evict::Oldest)] {
            let mut got = run(&Example { model: model(Some(capacity), evict), ..example.clone() });
            got.after.rows.iter_mut().for_each(|row| row.received.clear());
            assert_same(&got, &run(&example), "a large capacity");
        }
    }
}

fn fresh(model: &Model) -> attentive_engine::State {
    attentive_engine::State::fresh(model, 2)
}

/// The name in the error, and the change to a good example that causes it.
type Spoil = (&'static str, fn(&mut Example));

/// The arguments of a good call, which a test spoils.
fn good() -> Example {
    let store = StoreRule { capacity: Some(4), evict: Evict::LeastAttended, ..StoreRule::default() };
    let model = Model { store, ..Model::new(3, 5) };
    Example::random(model, (2, 4), true, 1.0, 11).with_random_state(11)
}

#[test]
fn slices_of_a_wrong_length_are_refused() {
    let spoil: [Spoil; 7] = [
        ("input", |e| e.input = Input::Dense(vec![0.0; 23])),
        ("tokens", |e| e.input = Input::Tokens(vec![0; 9])),
        ("hidden", |e| e.state.hidden.truncate(9)),
        ("cell", |e| e.state.cell.push(0.0)),
        ("w2", |e| e.parameters[4].truncate(24)),
        ("parameters", |e| e.parameters.truncate(5)),
        ("d_hidden", |e| e.adjoints[0].truncate(5)),
    ];
    for (name, spoil) in spoil {
        let mut example = good();
        spoil(&mut example);
        match example.run(1, true) {
            Err(EngineError::Length { what, got, expected }) => assert!(what == name && got != expected, "{what}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    let mut example = good();
    example.time = 0;
    assert!(matches!(example.run(1, true), Err(EngineError::Length { what: "steps", .. })));
    let mut example = good();
    example.state = State::fresh(0, 5);
    assert!(matches!(example.run(1, true), Err(EngineError::Length { what: "rows", .. })));
    let mut example = good();
    example.state.memories[0].clear();
    example.state.memories[1].clear();
    example.state.memories[1].extend([0.0; 3]);
    assert!(matches!(example.run(1, true), Err(EngineError::State(_))), "room for not one memory");
    // A GRU has no cell state.
    let model = Model { cell: Cell::Gru, ..Model::new(3, 5) };
    let mut example = Example::random(model, (2, 4), true, 1.0, 11);
    example.state.cell = vec![0.0; 10];
    assert!(matches!(example.run(1, true), Err(EngineError::Length { what: "cell", expected: 0, .. })));
}

#[test]
fn a_token_out_of_range_is_refused() {
    let mut example = good();
    example.input = Input::Tokens(vec![0, 1, 2, 0, 1, 2, 3, 0]);
    let error = example.run(1, true).expect_err("token 3 of 3");
    assert_eq!(error, EngineError::Token { row: 1, step: 2, token: 3, input: 3 });
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    let spoil: [Spoil; 6] = [
        ("w3", |e| e.parameters[5][2] = f32::NAN),
        ("weight_hh", |e| e.parameters[1][7] = f32::INFINITY),
        ("input", |e| e.input = Input::Dense([vec![0.0; 22], vec![f32::NAN, 0.0]].concat())),
        ("state", |e| e.state.hidden[3] = f32::NAN),
        ("state", |e| e.state.cell[3] = f32::NEG_INFINITY),
        ("state", |e| e.state.memories[1][0] = f32::NAN),
    ];
    for (name, spoil) in spoil {
        let mut example = good();
        spoil(&mut example);
        match example.run(1, true) {
            Err(EngineError::NonFinite { what, .. }) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    // An overflow during the pass is found at the end.
    let mut example = good();
    example.model.scorer = Scorer::Dot;
    example.parameters.truncate(5);
    example.parameters[3].fill(3e38);
    example.parameters[4].fill(-3e38);
    assert!(matches!(example.run(1, true), Err(EngineError::NonFinite { what: "hidden", .. })));
}

#[test]
fn a_start_that_contradicts_itself_or_the_model_is_refused() {
    let spoil: [fn(&mut RowStart); 9] = [
        |row| row.slot_steps.clear(),
        |row| row.slot_steps = vec![1],
        |row| row.slot_steps = vec![0, 2, 2],
        |row| row.slot_steps = vec![0, row.steps + 1],
        |row| row.slot_steps = (0..6).collect(),
        |row| row.received = vec![0.0; 9],
        |row| row.received = vec![-1.0; row.slot_steps.len()],
        |row| row.received = vec![f32::NAN; row.slot_steps.len()],
        |row| row.steps = MOST_STEPS + 1,
    ];
    for (number, spoil) in spoil.into_iter().enumerate() {
        let mut example = good();
        spoil(&mut example.state.rows[1]);
        example.state.memories.iter_mut().for_each(|memory| memory.resize(6 * 5, 0.0));
        assert!(matches!(example.run(1, true), Err(EngineError::State(_))), "case {number}");
    }
}

#[test]
fn r14_a_state_is_settled_before_the_next_call_and_fits_its_model() {
    let example = good();
    let model = example.model;
    let weights = example.weights(1).expect("good weights");
    let state = example.state.of_engine(&model).expect("a good state");
    let call = || Call {
        model,
        time: 4,
        inputs: Inputs::Tokens(Arc::new(vec![0; 8])),
        tracked: false,
        replay: Replay::Auto,
        retrieval: Retrieval::Auto,
        threads: 1,
        instructions: InstructionSet::Detect,
        reminders: None,
    };
    let weights = match example.input {
        Input::Tokens(_) => weights,
        Input::Dense(_) => Example { input: Input::Tokens(vec![0; 8]), ..example.clone() }.weights(1).expect("weights"),
    };
    let mut out = forward(call(), state, Arc::clone(&weights), &[]).expect("a good call");
    let refused = |result: attentive_engine::Result<()>, why: &str| {
        let message = result.expect_err(why).to_string();
        assert!(message.contains(why), "{message}");
    };
    assert!(!out.state.is_settled());
    refused(out.state.memory().map(|_| ()), "settle");
    refused(out.state.reset(&[0]), "settle");
    refused(forward(call(), out.state.clone(), Arc::clone(&weights), &[]).map(|_| ()), "settle");
    refused(out.state.settle(&[0.0; 39]), "40");
    let hidden = &out.hidden.as_slice()[..40];
    out.state.settle(hidden).expect("its own states");
    out.state.settle(hidden).expect("a second time does nothing");
    refused(out.state.reset(&[2]), "no row 2");
    out.state.reset(&[1]).expect("a row");
    assert_eq!(out.state.rows()[1].slot_steps, [0]);
    assert!(out.state.rows()[0].slot_steps.len() > 1);
    assert!(forward(call(), out.state, Arc::clone(&weights), &[]).is_ok());
    for why in ["hidden size", "cell state", "capacity"] {
        let mut model = Model { store: StoreRule { capacity: None, ..model.store }, ..model };
        let state = example.state.of_engine(&model).expect("a good state");
        match why {
            "hidden size" => model.hidden = 6,
            "cell state" => model.cell = Cell::Gru,
            _ => model.store.capacity = Some(1),
        }
        let values: Vec<Vec<f32>> = model.parameters().iter().map(|parameter| vec![0.1; parameter.len()]).collect();
        let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
        let weights = Arc::new(PackedWeights::new(&model, &values, false, 1).expect("good weights"));
        refused(forward(Call { model, ..call() }, state, weights, &[]).map(|_| ()), why);
    }
}

#[test]
fn weights_of_another_model_or_kind_of_input_are_refused() {
    let example = good();
    let others: [fn(&mut Model); 5] = [
        |model| model.hidden = 6,
        |model| model.input = 4,
        |model| model.cell = Cell::Gru,
        |model| model.scorer = Scorer::Dot,
        |model| model.k_top = KTop::Count(0),
    ];
    let call = |model| Call {
        model,
        time: 4,
        inputs: Inputs::Tokens(Arc::new(vec![0; 8])),
        tracked: true,
        replay: Replay::Auto,
        retrieval: Retrieval::Auto,
        threads: 1,
        instructions: InstructionSet::Detect,
        reminders: None,
    };
    let pack = |model: &Model, dense: bool| {
        let values: Vec<Vec<f32>> = model.parameters().iter().map(|parameter| vec![0.1; parameter.len()]).collect();
        let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
        Arc::new(PackedWeights::new(model, &values, dense, 1).expect("good weights"))
    };
    for other in others {
        let mut model = example.model;
        other(&mut model);
        let out = forward(call(model), fresh(&model), pack(&example.model, false), &[]);
        assert!(matches!(out, Err(EngineError::Model { field: "model", .. })), "{model:?}");
    }
    let out = forward(call(example.model), fresh(&example.model), pack(&example.model, true), &[]);
    assert!(matches!(out, Err(EngineError::Model { field: "model", .. })), "packed for dense inputs");
    // The gradient rules and the store do not affect the packed weights.
    let model = Model { k_trunc: KTrunc::None, sparsifier: Sparsifier::Softmax, k_top: KTop::All, ..example.model };
    assert!(forward(call(model), fresh(&model), pack(&example.model, false), &[]).is_ok());
}

#[test]
fn a_backward_pass_that_does_not_fit_its_tape_is_refused() {
    let model = Model::new(3, 5);
    let values: Vec<Vec<f32>> = model.parameters().iter().map(|parameter| vec![0.1; parameter.len()]).collect();
    let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
    let weights = Arc::new(PackedWeights::new(&model, &values, false, 1).expect("good weights"));
    let run = |tracked| {
        let call = Call {
            model,
            time: 4,
            inputs: Inputs::Tokens(Arc::new(vec![0; 8])),
            tracked,
            replay: Replay::Auto,
            retrieval: Retrieval::Auto,
            threads: 1,
            instructions: InstructionSet::Detect,
            reminders: None,
        };
        forward(call, fresh(&model), Arc::clone(&weights), &[]).expect("a good call")
    };
    let (out, ones) = (run(true), vec![1.0; 2 * 4 * 5]);
    let inputs = TapeInputs { dense: &[], hidden: &out.hidden.as_slice()[..40] };
    let loss = || OutputAdjoints { hidden: Some(&ones), summary: None, readouts: Vec::new() };
    assert!(backward(&out.tape, &values, inputs, loss(), false).is_ok());
    let length = |result: attentive_engine::Result<_>, name| match result {
        Err(EngineError::Length { what, .. }) => assert_eq!(what, name),
        other => panic!("{name}: {other:?}"),
    };
    length(backward(&out.tape, &values[1..], inputs, loss(), false), "parameters");
    length(backward(&out.tape, &values, TapeInputs { hidden: &ones[1..], ..inputs }, loss(), false), "hidden");
    length(backward(&out.tape, &values, TapeInputs { dense: &ones, ..inputs }, loss(), false), "input");
    let short = OutputAdjoints { summary: Some(&ones[1..]), ..OutputAdjoints::default() };
    length(backward(&out.tape, &values, inputs, short, false), "d_summary");
    let readout = |d_y, hidden, v: &[f32]| {
        let readouts = vec![ReadoutAdjoint::new(d_y, [hidden, 3], true, v, v)];
        OutputAdjoints { readouts, ..OutputAdjoints::default() }
    };
    assert!(backward(&out.tape, &values, inputs, readout(&ones[..2 * 3], 5, &ones[..15]), false).is_ok());
    length(backward(&out.tape, &values, inputs, readout(&ones[..2 * 4], 5, &ones[..15]), false), "d_y");
    length(backward(&out.tape, &values, inputs, readout(&ones[..2 * 3], 17, &[1.0; 51]), false), "v1");
    length(backward(&out.tape, &values, inputs, readout(&ones[..2 * 3], 6, &ones[..18]), false), "v1");
    length(backward(&out.tape, &values, inputs, readout(&ones[..2 * 3], 5, &ones[..14]), false), "v1");
    // The forward pass without `tracked` keeps a tape of one step only.
    let untracked = run(false);
    let result = backward(&untracked.tape, &values, inputs, loss(), false);
    assert!(matches!(result, Err(EngineError::Model { field: "tracked", .. })), "{result:?}");
}
