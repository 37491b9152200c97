//! R9 to R13: the paths of gradient, and the places where it is exactly zero.

use crate::common::{Array, Input, Numbers, Parameters, difference, random_state, run};
use crate::{Gradients, PATHS, at, by, by_hand, chosen, observe, only, reach};
use attentive::{Hops, KTrunc, Path, SabLstmConfig, SabOutput, SabState, SabStateRecord, ScoreGradient, TruncPhase};
use burn::tensor::{DType, Device, TensorData};

const TIME: usize = 10;
const UNITS: usize = 5;

fn config() -> SabLstmConfig {
    SabLstmConfig::new(3, UNITS).with_k_top(2).with_k_trunc(1).with_trunc_phase(0)
}

fn parameters() -> Parameters {
    Parameters::random(3, UNITS, 25)
}

fn one_row() -> Input {
    Input::random(1, TIME, 3, false, 22)
}

/// Pseudorandom adjoints at one step (from 1) of one row, zero elsewhere.
fn loss_at(rows: usize, row: usize, step: usize) -> Array {
    only([rows, TIME, UNITS], row, step - 1, &Numbers::new(23).take(UNITS, 1.0))
}

fn nothing(rows: usize) -> Array {
    Array::new(&[rows, TIME, UNITS], vec![0.0; rows * TIME * UNITS])
}

/// Gradients of a loss on h at one step of the one row.
fn gradients_at(config: &SabLstmConfig, step: usize, path: Path) -> Gradients {
    Gradients::of(config, &parameters(), &one_row(), None, [&loss_at(1, 0, step), &nothing(1)], &by(path))
}

fn is_zero(array: &Array) -> bool {
    array.values.iter().all(|d| *d == 0.0)
}

fn close(a: &Gradients, b: &Gradients, names: &[&str], what: &str) {
    for name in names {
        let d = difference(a.get(name), b.get(name), 1.0);
        assert!(d < 1e-5, "{what}: {name} differs by {d:e}");
    }
}

const PARAMETERS: [&str; 6] = ["weight_ih", "weight_hh", "bias", "w1", "w2", "w3"];

/// The memories at the last step of the only row, and the ranks of their scores, best first.
fn ranked_memories(out: &SabOutput) -> Vec<usize> {
    let (hidden, summary) = (Array::of(&out.hidden), Array::of(&out.summary));
    let last = TIME - 1;
    let h_hat: Vec<f64> = at(&hidden, 0, last).iter().zip(at(&summary, 0, last)).map(|(h, s)| h - s).collect();
    let memory = |step: usize| if step == 0 { vec![0.0; UNITS] } else { at(&hidden, 0, step - 1).to_vec() };
    let scores: Vec<f64> = (0..TIME).map(|step| by_hand::score(&parameters(), &memory(step), &h_hat)).collect();
    let mut steps: Vec<usize> = (0..TIME).collect();
    steps.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    steps
}

#[test]
fn r9_gradient_is_cut_right_after_steps_with_t_plus_phase_divisible_by_k_trunc() {
    // Rows with different step counts have their own grids.
    let before = [0, 1, 5];
    let input = Input::random(3, TIME, 3, false, 24);
    for path in PATHS {
        for (k, phase) in [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (3, 4), (4, 0), (7, 3)] {
            for (k_top, mental_updates) in [(0, true), (2, false)] {
                for step in [1, 4, 9] {
                    let config = config()
                        .with_k_top(k_top)
                        .with_mental_updates(mental_updates)
                        .with_k_trunc(k)
                        .with_trunc_phase(phase);
                    let state = random_state(UNITS, &before, 1, 25, DType::F32);
                    let loss = loss_at(1, 0, step);
                    let loss = Array::new(&[3, TIME, UNITS], loss.values.repeat(3));
                    let got =
                        Gradients::of(&config, &parameters(), &input, Some(state), [&loss, &nothing(3)], &by(path));
                    for (row, before) in before.into_iter().enumerate() {
                        let cut_after = |step: usize| (before as usize + step + phase).is_multiple_of(k);
                        let right = reach(step, cut_after, |_| Vec::new(), 0);
                        assert_eq!(
                            got.steps(row),
                            right,
                            "{path:?}, k_trunc {k}, phase {phase}, row {row}, k_top {k_top}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn r9_without_k_trunc_nothing_is_cut() {
    for path in PATHS {
        for phase in [TruncPhase::Fixed(3), TruncPhase::Random] {
            let config = config().with_k_top(0).with_k_trunc(KTrunc::None).with_trunc_phase(phase);
            assert_eq!(gradients_at(&config, TIME, path).steps(0), (1..=TIME).collect::<Vec<_>>());
        }
    }
}

#[test]
fn r9_a_random_phase_is_drawn_from_seed_and_number_of_the_batch() {
    let config = config().with_k_trunc(5).with_trunc_phase(TruncPhase::Random).with_k_top(0);
    let gradients = |options| {
        let loss = [&loss_at(1, 0, TIME), &nothing(1)];
        Gradients::of(&config, &parameters(), &one_row(), None, loss, &options)
    };
    let mut lengths = Vec::new();
    for batch in 0..12 {
        let [a, b] = PATHS.map(|path| gradients(by(path).with_batch(7, batch)));
        assert_eq!(a.steps(0), b.steps(0), "both paths draw the same");
        let again = gradients(by(Path::Fused).with_batch(7, batch));
        assert_eq!(b.get("x").bits(), again.get("x").bits(), "the same seed and batch draw the same");
        lengths.push(a.steps(0).len());
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert_eq!(lengths, [1, 2, 3, 4, 5], "every phase is drawn");
}

#[test]
fn r9_without_a_number_of_the_batch_a_layer_counts_its_calls() {
    let config = config().with_k_trunc(5).with_trunc_phase(TruncPhase::Random).with_k_top(0);
    let device = Device::flex().autodiff();
    for path in PATHS {
        // How far gradient reaches in each of the first calls of a new layer.
        let lengths = || {
            let lstm = parameters().layer(&config, DType::F32, &device);
            let length = || {
                let (x, dense) = one_row().tensor(DType::F32, &device);
                let out = lstm.forward_with(x, None, &by(path)).expect("a good input");
                let grads = out.hidden.narrow(1, TIME - 1, 1).sum().backward();
                let gradient = dense.and_then(|x| x.grad(&grads)).expect("a dense input");
                Array::of(&gradient).values.chunks(3).filter(|step| step.iter().any(|d| *d != 0.0)).count()
            };
            (0..10).map(|_| length()).collect::<Vec<_>>()
        };
        let calls = lengths();
        assert_eq!(calls, lengths(), "{path:?}: a run can be repeated");
        assert!(calls.iter().any(|length| *length != calls[0]), "{path:?}: the phase changes from call to call");
    }
}

#[test]
fn r9_the_phase_does_not_change_what_is_computed() {
    let hidden = |phase: usize| {
        let out =
            observe(&config().with_k_trunc(4).with_trunc_phase(phase), &parameters(), &one_row(), None, Path::Fused);
        Array::of(&out.hidden).bits()
    };
    assert_eq!(hidden(0), hidden(3));
}

#[test]
fn r9_a_huge_phase_is_a_phase() {
    for path in PATHS {
        let steps =
            |phase| gradients_at(&config().with_k_top(0).with_k_trunc(5).with_trunc_phase(phase), 9, path).steps(0);
        assert_eq!(steps(usize::MAX), steps(usize::MAX % 5));
    }
}

#[test]
fn r10_a_chosen_memory_gets_its_weight_times_the_summary_s_adjoint() {
    let config = config().with_hops(Hops::One);
    for path in PATHS {
        let got = gradients_at(&config, TIME, path);
        // The same adjoints added by hand, with memories as constants.
        let out = observe(&config, &parameters(), &one_row(), None, path);
        let mut loss = loss_at(1, 0, TIME);
        let d_s = at(&loss, 0, TIME - 1).to_vec();
        let reminders = out.reminders.expect("the layer attends");
        for reminder in reminders.at(0, TIME - 1).iter().filter(|reminder| reminder.step > 0) {
            let start = (reminder.step as usize - 1) * UNITS;
            loss.values[start..start + UNITS]
                .iter_mut()
                .zip(&d_s)
                .for_each(|(to, d)| *to += f64::from(reminder.weight) * d);
        }
        let by_hand = config.clone().with_mental_updates(false);
        let right = Gradients::of(&by_hand, &parameters(), &one_row(), None, [&loss, &nothing(1)], &by(path));
        close(&got, &right, &["x", "weight_ih", "weight_hh", "bias"], &format!("{path:?}"));
        assert!(got.steps(0).len() > 1, "something was chosen");
    }
}

#[test]
fn r10_with_weights_the_scores_gradient_enters_no_state_with_full_it_enters_the_query() {
    for path in PATHS {
        let steps = |score_gradient| {
            // Only the summary of the last step counts: h_hat can get a gradient through the query alone.
            let config = config().with_score_gradient(score_gradient).with_mental_updates(false);
            let loss = [&nothing(1), &loss_at(1, 0, TIME)];
            let got = Gradients::of(&config, &parameters(), &one_row(), None, loss, &by(path));
            for name in ["w1", "w2", "w3"] {
                assert!(!is_zero(got.get(name)), "{path:?}: {name} learns");
            }
            got.steps(0)
        };
        assert!(steps(ScoreGradient::Weights).is_empty(), "{path:?}");
        assert_eq!(steps(ScoreGradient::Full), [TIME]);
    }
}

#[test]
fn r10_full_reaches_the_chosen_memories_and_the_next_best_weights_the_chosen_alone() {
    for path in PATHS {
        for k_top in [2, 3] {
            let config = config().with_hops(Hops::One).with_k_top(k_top);
            let ranked = ranked_memories(&observe(&config, &parameters(), &one_row(), None, path));
            let right = |memories: usize| {
                let mut steps: Vec<usize> = ranked[..memories].iter().copied().filter(|step| *step > 0).collect();
                steps.push(TIME);
                steps.sort_unstable();
                steps
            };
            let got = |score_gradient| gradients_at(&config.clone().with_score_gradient(score_gradient), TIME, path);
            let [weights, full] = [ScoreGradient::Weights, ScoreGradient::Full].map(got);
            assert_ne!(ranked[k_top], 0, "the null slot would hide the threshold's gradient");
            assert_eq!(weights.steps(0), right(k_top), "{path:?}, k_top {k_top}");
            assert_eq!(full.steps(0), right(k_top + 1), "{path:?}, k_top {k_top}");
            // With one hop and single-step segments the scorer is used once, so it learns the same.
            close(&weights, &full, &["w1", "w2", "w3"], &format!("{path:?}"));
        }
    }
}

/// The steps that gradient reaches by the rules, given the reminders that the layer reports.
fn right_reach(config: &SabLstmConfig, k_trunc: usize, step: usize, hops: usize, path: Path) -> Vec<usize> {
    let out = observe(config, &parameters(), &one_row(), None, path);
    let reminders = out.reminders.expect("the layer attends");
    reach(step, |step| step.is_multiple_of(k_trunc), |step| chosen(&reminders, 0, step), hops)
}

#[test]
fn r11_from_a_memory_gradient_goes_on_down_to_the_truncation_point() {
    for path in PATHS {
        for (k_trunc, k_att, k_top) in [(3, 1, 1), (4, 1, 1), (3, 2, 1), (4, 3, 2)] {
            let mut longer = 0;
            for step in 5..=TIME {
                let config = config().with_hops(Hops::One).with_k_trunc(k_trunc).with_k_att(k_att).with_k_top(k_top);
                let right = right_reach(&config, k_trunc, step, 1, path);
                assert_eq!(
                    gradients_at(&config, step, path).steps(0),
                    right,
                    "{path:?}, k_trunc {k_trunc}, step {step}"
                );
                longer += right.len() - right_reach(&config, k_trunc, step, 0, path).len();
            }
            assert!(longer > 0, "no memory of an earlier segment was chosen: the test shows nothing");
        }
    }
}

#[test]
fn r11_without_mental_updates_a_memory_is_a_constant_but_the_scorer_learns() {
    for path in PATHS {
        for hops in [Hops::All, Hops::One] {
            for score_gradient in [ScoreGradient::Weights, ScoreGradient::Full] {
                for k_trunc in [1, 4] {
                    let config = config().with_k_trunc(k_trunc).with_hops(hops).with_score_gradient(score_gradient);
                    let config = config.with_mental_updates(false);
                    let got = gradients_at(&config, TIME, path);
                    assert_eq!(got.steps(0), right_reach(&config, k_trunc, TIME, 0, path), "{path:?}, {config:?}");
                    for name in ["w1", "w2", "w3"] {
                        assert!(!is_zero(got.get(name)), "{path:?}: {name} learns");
                    }
                }
            }
        }
    }
}

#[test]
fn r12_one_hop_goes_through_one_attention_all_through_as_many_as_there_are() {
    for path in PATHS {
        for (k_trunc, k_top) in [(1, 1), (1, 2), (3, 1), (4, 2)] {
            let mut further = 0;
            for step in 4..=TIME {
                let config = config().with_k_trunc(k_trunc).with_k_top(k_top);
                let [one, all] = [(Hops::One, 1), (Hops::All, usize::MAX)].map(|(hops, most)| {
                    let got = gradients_at(&config.clone().with_hops(hops), step, path).steps(0);
                    let right = right_reach(&config, k_trunc, step, most, path);
                    assert_eq!(got, right, "{path:?}, {hops:?}, k_trunc {k_trunc}, step {step}");
                    right
                });
                further += all.len() - one.len();
            }
            assert!(further > 0, "nothing needs two hops: the test shows nothing");
        }
    }
}

#[test]
fn r12_hops_make_no_difference_where_no_second_one_is_possible() {
    // Two steps: the second can be reminded of the first, and the first only of the null slot.
    let input = Input::random(1, 2, 3, false, 22);
    let loss = Array::new(&[1, 2, UNITS], Numbers::new(26).take(2 * UNITS, 1.0));
    for path in PATHS {
        for score_gradient in [ScoreGradient::Weights, ScoreGradient::Full] {
            let got = [Hops::One, Hops::All].map(|hops| {
                let config = config().with_k_trunc(None).with_hops(hops).with_score_gradient(score_gradient);
                Gradients::of(&config, &parameters(), &input, None, [&loss, &loss], &by(path))
            });
            close(&got[0], &got[1], &["x", "weight_ih", "weight_hh", "bias", "w1", "w2", "w3"], &format!("{path:?}"));
        }
    }
}

/// Every combination of the gradient rules.
fn all_ways() -> Vec<SabLstmConfig> {
    let mut configs = Vec::new();
    for hops in [Hops::All, Hops::One] {
        for score_gradient in [ScoreGradient::Weights, ScoreGradient::Full] {
            for mental_updates in [true, false] {
                for k_att in [1, 3] {
                    let config = config().with_k_trunc(3).with_hops(hops).with_k_att(k_att);
                    configs.push(config.with_score_gradient(score_gradient).with_mental_updates(mental_updates));
                }
            }
        }
    }
    configs
}

#[test]
fn r13_rows_and_steps_without_an_adjoint_get_exactly_zero_and_add_nothing() {
    let input = Input::random(3, TIME, 3, false, 27);
    let Input::Dense(x) = &input else { panic!("a dense input") };
    let alone = Input::Dense(Array::new(&[1, TIME, 3], x.values[TIME * 3..2 * TIME * 3].to_vec()));
    for path in PATHS {
        for config in all_ways() {
            for step in [3, 7, TIME] {
                let loss = [&loss_at(3, 1, step), &loss_at(3, 1, step)];
                let got = Gradients::of(&config, &parameters(), &input, None, loss, &by(path));
                let what = format!("{path:?}, step {step}, {config:?}");
                assert!(got.steps(0).is_empty() && got.steps(2).is_empty(), "other rows: {what}");
                assert!(got.steps(1).iter().all(|reached| *reached <= step), "later steps: {what}");
                assert!(got.steps(1).contains(&step), "{what}");
                let loss = [&loss_at(1, 0, step), &loss_at(1, 0, step)];
                let right = Gradients::of(&config, &parameters(), &alone, None, loss, &by(path));
                close(&got, &right, &PARAMETERS, &what);
                assert_eq!(got.steps(1), right.steps(0), "{what}");
            }
        }
    }
}

#[test]
fn r13_one_sweep_gives_the_sum_of_the_gradients_of_single_steps() {
    let input = Input::random(2, TIME, 3, false, 28);
    let losses: Vec<Array> = [(0, 2), (0, 9), (1, 5), (1, 6)].map(|(row, step)| loss_at(2, row, step)).to_vec();
    let sum = (0..losses[0].values.len()).map(|i| losses.iter().map(|loss| loss.values[i]).sum());
    let sum = Array::new(&losses[0].shape, sum.collect());
    for path in PATHS {
        for config in all_ways() {
            let gradients =
                |loss: &Array| Gradients::of(&config, &parameters(), &input, None, [loss, &nothing(2)], &by(path));
            let together = gradients(&sum);
            let single: Vec<Gradients> = losses.iter().map(gradients).collect();
            for (name, got) in &together.0 {
                let right = (0..got.values.len()).map(|i| single.iter().map(|g| g.get(name).values[i]).sum());
                let d = difference(got, &Array::new(&got.shape, right.collect()), 1.0);
                assert!(d < 2e-5, "{path:?}, {config:?}: {name} differs by {d:e}");
            }
        }
    }
}

#[test]
fn r13_no_adjoint_at_all_gives_zeros() {
    for path in PATHS {
        for config in all_ways() {
            let got = Gradients::of(&config, &parameters(), &one_row(), None, [&nothing(1), &nothing(1)], &by(path));
            assert!(got.0.iter().all(|(_, gradient)| is_zero(gradient)), "{path:?}");
        }
    }
}

/// A network whose h_hat is a function of the input alone, with symbols as steps: unit 0 makes a query that saturates
/// the scorer, so that all scores are equal and the summary is zero (R5); unit 1 sets a memory's score.
fn symbols(steps: &[[f64; 2]]) -> (Parameters, Input) {
    let mut parameters = Parameters::random(2, 2, 1);
    parameters.all_mut().into_iter().for_each(|array| array.values.fill(0.0));
    // Gates i, f, g, o of two units: inputs go to g, the cell forgets everything.
    let from_x = &mut parameters["weight_ih"].values;
    (from_x[4], from_x[8 + 5]) = (1.0, 1.0);
    parameters["bias"].values.copy_from_slice(&[3.0, 3.0, -200.0, -200.0, 0.0, 0.0, 3.0, 3.0]);
    parameters["w1"].values.copy_from_slice(&[0.0, 0.0, 1.0, 0.5]);
    parameters["w2"].values.copy_from_slice(&[-400.0, -400.0, 0.1, 0.2]);
    parameters["w3"].values.copy_from_slice(&[1.0, 0.5]);
    (parameters, Input::Dense(Array::new(&[1, steps.len(), 2], steps.concat())))
}

#[test]
fn r10_w3_learns_where_a_step_saturates_the_scorer() {
    let (mut parameters, _) = symbols(&[]);
    // Step 4 saturates every unit of the scorer upwards, so that its scores differ by some 1e-10; step 5 does not.
    parameters["w2"].values.copy_from_slice(&[20.0, 22.0, 0.1, 0.2]);
    let x = Input::Dense(Array::new(&[1, 5, 2], vec![0.0, 0.3, 0.0, 0.9, 0.0, -0.5, 0.6, 0.7, 0.0, 0.6]));
    let config = SabLstmConfig::new(2, 2).with_k_top(2).with_k_trunc(1).with_trunc_phase(0).with_mental_updates(false);
    let loss = Array::new(&[1, 5, 2], vec![0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, -0.7]);
    let zero = only([1, 5, 2], 0, 0, &[0.0, 0.0]);
    let w3 = |path, dtype| run(&config, &parameters, &x, None, [&loss, &zero], dtype, &by(path)).gradients[5].1.clone();
    let (got, right) = (w3(Path::Fused, DType::F32), w3(Path::Portable, DType::F64));
    assert!(difference(&got, &right, right.values[1].abs()) < 0.05, "{got:?} instead of {right:?}");
}

#[test]
fn r4_of_equal_scores_the_older_memory_comes_first() {
    let saturating = |score: f64| [0.5, score];
    // Best and second best, two equal ones of which one is the threshold, a worse one; then the query.
    let steps = [saturating(0.3), saturating(0.9), saturating(0.3), saturating(0.7), saturating(0.1), [0.0, 0.6]];
    let (parameters, input) = symbols(&steps);
    // Three memories of zeros, so that there are more than k_top from the first step on.
    let start = || {
        let [hidden, memory] = [vec![1, 2], vec![1, 3, 2]].map(TensorData::zeros::<f32, _>);
        let (cell, steps, slot_steps, received) = (Some(hidden.clone()), vec![2], Vec::new(), Vec::new());
        let record = SabStateRecord { hidden, cell, memory, steps, k_att: 1, slot_steps, received, segments: None };
        Some(SabState::from_record(record, &Device::flex()).expect("a good record"))
    };
    let config = SabLstmConfig::new(2, 2).with_k_top(2).with_k_trunc(1).with_trunc_phase(0);
    let config = config.with_score_gradient(ScoreGradient::Full).with_hops(Hops::One);
    let (loss, zero) = (only([1, 6, 2], 0, 5, &[1.0, -0.7]), only([1, 6, 2], 0, 5, &[0.0, 0.0]));
    for path in PATHS {
        let out = observe(&config, &parameters, &input, start(), path);
        let summary = Array::of(&out.summary);
        assert!((0..5).all(|t| at(&summary, 0, t) == [0.0, 0.0]), "{path:?}: equal scores, as intended");
        assert_eq!(chosen(&out.reminders.expect("the layer attends"), 0, 6), [4, 6], "{path:?}");
        let got = Gradients::of(&config, &parameters, &input, start(), [&loss, &zero], &by(path));
        // Through the threshold gradient reaches step 1, and not step 3, which has the same score.
        assert_eq!(got.steps(0), [1, 2, 4, 6], "{path:?}");
    }
}
