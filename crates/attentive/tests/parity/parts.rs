//! The fused path against the portable one with every part, and with the parts that can be combined (R15-R18).
//!
//! A case says nothing about the engine if its store or its choices decide differently after a small disturbance of the
//! parameters. Both show in the memories at the end, or in the outputs.

use super::{Case, Counts, Loss, PORTABLE_FLOOR, TOLERANCE, Tolerance, cases};
use crate::common::parts::{each_combination, each_pair, each_part};
use arbtest::arbitrary::{Result, Unstructured};
use attentive::{Cell, Evict, Hops, InstructionSet, KTop, SabLstmConfig, ScoreGradient, Scorer, Sparsifier, Store};
use burn::tensor::DType;

/// Any parts at all.
fn random_parts(u: &mut Unstructured<'_>, config: SabLstmConfig) -> Result<SabLstmConfig> {
    let config = config
        .with_cell(*u.choose(Cell::ALL)?)
        .with_scorer(*u.choose(Scorer::ALL)?)
        .with_sparsifier(*u.choose(Sparsifier::ALL)?)
        .with_evict(*u.choose(Evict::ALL)?);
    let capacity = if u.ratio(1, 2)? { None } else { Some(u.int_in_range(1..=6)?) };
    let novelty = *u.choose(&[None, None, Some(0.2), Some(0.6), Some(0.9)])?;
    let config = config.with_capacity(capacity);
    Ok(match novelty {
        Some(novelty) => config.with_novelty(novelty),
        None => config,
    })
}

fn check_random_parts(first: u64, count: u64, score_gradient: ScoreGradient) {
    let mut counts = Counts::default();
    cases(first, count, |u| {
        let case = Case::random_with(u, score_gradient, random_parts)?;
        let compared = case.check_fused(TOLERANCE).is_some();
        let config = &case.config;
        counts.add("all".into(), compared);
        counts.add(format!("{}, {}", config.cell, config.scorer), compared);
        counts.add(format!("{}, {}", config.scorer, config.sparsifier), compared);
        let capacity = config.capacity.map_or("no capacity".to_string(), |_| config.evict.to_string());
        counts.add(format!("{}, {}", config.sparsifier, config.store), compared);
        counts.add(format!("{}, {capacity}, carried {}", config.store, case.steps.is_some()), compared);
        counts.add(format!("hops {:?}", config.hops), compared);
        Ok(())
    });
    // Which cases are stable depends on the processor's last digits: 4 of 9 on one, 6 on another.
    counts.check(3);
    assert_eq!(counts.0.len(), 1 + 6 + 6 + 4 + 12 + 2, "not everything came up");
    let [tried, compared] = counts.0["all"];
    assert!(compared * 10 > tried * 5, "only {compared} of {tried} compared");
}

#[test]
fn fused_agrees_with_portable_for_any_parts_where_scores_train_weights() {
    check_random_parts(3001, 300, ScoreGradient::Weights);
}

#[test]
fn fused_agrees_with_portable_for_any_parts_where_the_score_gradient_is_full() {
    check_random_parts(4001, 300, ScoreGradient::Full);
}

/// Long enough to reach the capacity, short enough that `f32` can follow.
const TIME: usize = 7;

/// Some cases of a model, with each combination of the gradient rules.
fn some_cases(config: &SabLstmConfig) -> Vec<Case> {
    let mut all = Vec::new();
    for (score_gradient, hops) in [(ScoreGradient::Weights, Hops::All), (ScoreGradient::Full, Hops::One)] {
        for seed in 0..12 {
            let config = config.clone().with_score_gradient(score_gradient).with_hops(hops);
            let steps = (seed % 3 > 0).then(|| vec![4, 0, 11]);
            all.push(Case::new(config, (3, TIME), seed % 2 == 0, steps, Loss::Everywhere, 70 + seed));
        }
    }
    all
}

fn check_each(models: Vec<(String, SabLstmConfig)>) {
    let mut counts = Counts::default();
    for (name, config) in models {
        for case in some_cases(&config) {
            counts.add(name.clone(), case.check_fused(TOLERANCE).is_some());
        }
    }
    counts.check(3);
}

fn base() -> SabLstmConfig {
    SabLstmConfig::new(3, 11).with_k_top(2).with_k_att(1).with_k_trunc(4).with_trunc_phase(1)
}

#[test]
fn fused_agrees_with_portable_for_each_part() {
    for k_top in [KTop::Count(0), KTop::Count(2), KTop::All] {
        check_each(each_part(&base().with_k_top(k_top)));
    }
}

#[test]
fn fused_agrees_with_portable_for_each_pair_of_parts() {
    check_each(each_pair(&base()));
}

#[test]
fn fused_and_portable_agree_in_f32_for_each_part_and_pair() {
    let tolerance = Tolerance { floor: PORTABLE_FLOOR, ..TOLERANCE };
    for (name, config) in each_combination(&base()) {
        let stable = |case: &&Case| case.reference(TOLERANCE).is_some();
        let cases = some_cases(&config);
        let case = cases.iter().find(stable).unwrap_or_else(|| panic!("{name}: no case can be compared"));
        case.check(&case.fused(InstructionSet::Detect), &case.portable(DType::F32), tolerance, &name);
    }
}

#[test]
fn some_states_are_novel_and_some_are_not() {
    // The other tests of novelty prove nothing if their stores keep all states or none.
    let config = base().with_novelty(crate::common::parts::NOVELTY);
    assert_eq!(config.store, Store::Novelty);
    let stored: usize = some_cases(&config).iter().map(|case| case.portable(DType::F64).slot_steps[1].len() - 1).sum();
    let all = some_cases(&config).len() * TIME;
    assert!((all / 10..all * 9 / 10).contains(&stored), "{stored} of {all} states are stored");
}
