//! In unit tests a new [`crate::Buffer`] is full of NaN, so reading before writing shows in the results.

use crate::index::SEARCHES;
use crate::kernels::tests::numbers;
use crate::{
    Call, Cell, Evict, Gradients, Hops, Inputs, InstructionSet, KTop, KTrunc, Model, OutputAdjoints, PackedWeights,
    Reminders, Replay, Retrieval, ScoreGradient, Scorer, Sparsifier, State, Store, StoreRule, TapeInputs, all_finite,
    backward, forward,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const INPUT: usize = 3;

/// Runs two calls, the second from the state of the first. The loss is on the last step and on all summaries.
fn run(model: Model, (batch, time): (usize, usize), dense: bool) {
    let what = format!("{batch} rows, {time} steps, dense {dense}, {model:?}");
    let hidden = model.hidden;
    let declared = model.parameters();
    let scale = 1.0 / (hidden as f32).sqrt();
    let values: Vec<Vec<f32>> = (1..).zip(&declared).map(|(seed, p)| numbers(p.len(), seed, scale)).collect();
    let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
    let weights = Arc::new(PackedWeights::new(&model, &values, dense, 3).expect("good weights"));
    let x = if dense { numbers(batch * time * INPUT, 20, 1.0) } else { Vec::new() };
    let tokens = Arc::new((0..batch * time).map(|i| (i * 7 % 3) as u32).collect::<Vec<_>>());
    let call = |replay| Call {
        model,
        time,
        inputs: if dense { Inputs::Dense } else { Inputs::Tokens(Arc::clone(&tokens)) },
        tracked: true,
        replay,
        retrieval: Retrieval::Auto,
        threads: 3,
        instructions: InstructionSet::Detect,
        reminders: Some(3),
    };
    let mut first = forward(call(Replay::Auto), State::fresh(&model, batch), Arc::clone(&weights), &x).expect(&what);

    // The second call starts from the state that the first one leaves.
    first.state.settle(&first.hidden.as_slice()[..batch * time * hidden]).expect(&what);
    let replayed = forward(call(Replay::Always), first.state.clone(), Arc::clone(&weights), &x).expect(&what);
    let out = forward(call(Replay::Never), first.state, weights, &x).expect(&what);
    let states = &out.hidden.as_slice()[..batch * time * hidden];
    let summaries = if model.attends() { &out.summary.as_slice()[..states.len()] } else { &[] };
    assert!(all_finite(states) && all_finite(summaries) && all_finite(&out.state.cell()), "{what}");

    let mut d_hidden = vec![0.0; states.len()];
    (0..batch).for_each(|row| d_hidden[((row + 1) * time - 1) * hidden..][..hidden].fill(1.0));
    let inputs = TapeInputs { dense: &x, hidden: states };
    // With a loss on the last step alone, the sweep skips some steps.
    for d_summary in [None, Some(vec![0.1; states.len()])] {
        let d_summary = d_summary.as_deref();
        let outputs = || OutputAdjoints { hidden: Some(&d_hidden), summary: d_summary, readouts: Vec::new() };
        let Gradients { parameters, input, .. } = backward(&out.tape, &values, inputs, outputs(), dense).expect(&what);
        // R20: a tape that holds only some states gives the same bits.
        let again = backward(&replayed.tape, &values, inputs, outputs(), dense).expect(&what);
        assert!(again.parameters == parameters && again.input == input, "replayed: {what}");
        for (gradient, parameter) in parameters.iter().zip(&declared) {
            assert_eq!(gradient.len(), parameter.len(), "{what}: {}", parameter.name);
            assert!(all_finite(gradient), "{what}: {}", parameter.name);
        }
        assert!(input.is_none_or(|input| all_finite(&input)), "{what}");
    }
}

#[test]
fn no_buffer_is_read_before_it_is_written() {
    let capacities = [(None, Evict::Oldest), (Some(2), Evict::Oldest), (Some(2), Evict::LeastAttended)];
    let novelty = |store| if store == Store::Novelty { 0.3 } else { 0.0 };
    let stores: Vec<StoreRule> = Store::ALL
        .iter()
        .flat_map(|store| capacities.map(|(capacity, evict)| (*store, capacity, evict)))
        .map(|(store, capacity, evict)| StoreRule { store, k_att: 2, novelty: novelty(store), capacity, evict })
        .collect();
    let parts: Vec<(Cell, Scorer, Sparsifier)> = Cell::ALL
        .iter()
        .flat_map(|cell| Scorer::ALL.iter().map(|scorer| (*cell, *scorer)))
        .flat_map(|(cell, scorer)| Sparsifier::ALL.iter().map(move |sparsifier| (cell, scorer, *sparsifier)))
        .collect();
    let limits = [(KTop::Count(0), KTrunc::None), (KTop::Count(2), KTrunc::Every(3)), (KTop::All, KTrunc::None)];
    let gradients = [(Hops::All, ScoreGradient::Weights), (Hops::One, ScoreGradient::Full)];
    for (batch, time, hidden) in [(1, 1, 1), (3, 9, 5), (5, 40, 16), (40, 30, 33), (3, 5, 330)] {
        for (k_top, k_trunc) in limits {
            for (turn, ((cell, scorer, sparsifier), store)) in
                (0..).zip(parts.iter().flat_map(|parts| stores.iter().map(move |store| (*parts, *store))))
            {
                let variants = gradients.into_iter().flat_map(|gradient| [(gradient, true), (gradient, false)]);
                // Large models take one of the four variants in turn.
                let taken = |variant: usize| hidden < 33 || variant == (turn + turn / 4 + turn / 6) % 4;
                for (_, ((hops, score_gradient), dense)) in variants.enumerate().filter(|(variant, _)| taken(*variant))
                {
                    let parts = Model { cell, scorer, sparsifier, store, ..Model::new(INPUT, hidden) };
                    let model = Model { k_top, k_trunc, hops, score_gradient, ..parts };
                    run(model, (batch, time), dense);
                }
            }
        }
    }
}

/// The bits of hidden states and reminders of a sequence that waits, and how many searches by index it took.
fn wait(model: Model, threads: usize, retrieval: Retrieval) -> (Vec<u32>, Option<Reminders>, usize) {
    const TIME: usize = 700;
    let values: Vec<Vec<f32>> = (1..).zip(&model.parameters()).map(|(seed, p)| numbers(p.len(), seed, 0.4)).collect();
    let values: Vec<&[f32]> = values.iter().map(Vec::as_slice).collect();
    let weights = Arc::new(PackedWeights::new(&model, &values, false, 1).expect("good weights"));
    // Rows differ in their first tokens. Later tokens repeat, and states settle.
    let token = |i: usize| if i % TIME < 12 { (i / 5 % 3) as u32 } else { 0 };
    let call = Call {
        model,
        time: TIME,
        inputs: Inputs::Tokens(Arc::new((0..3 * TIME).map(token).collect())),
        tracked: false,
        replay: Replay::Auto,
        retrieval,
        threads,
        instructions: InstructionSet::Detect,
        reminders: Some(6),
    };
    let before = SEARCHES.load(SeqCst);
    let out = forward(call, State::fresh(&model, 3), weights, &[]).expect("numbers");
    // A buffer may be longer than what was asked for.
    let bits = out.hidden.as_slice()[..3 * TIME * model.hidden].iter().map(|h| h.to_bits()).collect();
    (bits, out.reminders, SEARCHES.load(SeqCst) - before)
}

#[test]
fn r19_an_index_changes_no_bit() {
    let stores = [
        StoreRule::default(),
        StoreRule { capacity: Some(300), evict: Evict::Oldest, ..StoreRule::default() },
        StoreRule { capacity: Some(300), evict: Evict::LeastAttended, ..StoreRule::default() },
        StoreRule { k_att: 2, ..StoreRule::default() },
    ];
    for (scorer, sparsifier) in Scorer::ALL.iter().flat_map(|a| Sparsifier::ALL.iter().map(move |b| (*a, *b))) {
        let mut searches = Vec::new();
        for store in stores {
            let model = Model { scorer, sparsifier, store, ..Model::new(INPUT, 24) };
            let (right, reminders, none) = wait(model, 1, Retrieval::Exhaustive);
            assert_eq!(none, 0);
            for threads in [1, 2, 3, 8] {
                let (bits, found, count) = wait(model, threads, Retrieval::Auto);
                assert!(bits == right && found == reminders, "{scorer} {sparsifier} {store:?}, {threads} threads");
                searches.push(count);
            }
        }
        let enough = scorer.part().bounds().is_none() || searches.iter().sum::<usize>() > 1000;
        assert!(enough, "{scorer} {sparsifier}: {searches:?} searches prove little");
    }
}
