//! R21, credit across calls, on both paths. The engine's own tests compare it with one long call and with finite
//! differences.

use super::common::{Array, Input, Numbers, Parameters, Run, compare, run};
use super::{PATHS, by};
use attentive::{Cell, Path, SabLstmConfig, SabState, SabStateRecord, ScoreGradient, Scorer, Sparsifier};
use burn::tensor::{DType, Device};

const BATCH: usize = 3;
/// The steps of the first call and of the second.
const TIMES: [usize; 2] = [13, 8];

fn base() -> SabLstmConfig {
    SabLstmConfig::new(3, 6).with_k_top(2).with_k_trunc(4).with_trunc_phase(1).with_credit_across_calls(true)
}

fn configs() -> Vec<SabLstmConfig> {
    vec![
        base(),
        base().with_cell(Cell::Gru).with_sparsifier(Sparsifier::Softmax),
        base().with_scorer(Scorer::Dot).with_score_gradient(ScoreGradient::Full),
        base().with_scorer(Scorer::Cosine).with_score_gradient(ScoreGradient::Full).with_k_att(2),
        base().with_capacity(4),
        base().with_novelty(0.5).with_score_gradient(ScoreGradient::Full),
    ]
}

/// Two calls with a change of the weights between them.
struct Case {
    config: SabLstmConfig,
    seed: u64,
    tokens: bool,
}

impl Case {
    /// The state after the first call.
    fn first(&self, dtype: DType, path: Path) -> SabState {
        let device = Device::flex().autodiff();
        let input = Input::random(BATCH, TIMES[0], 3, self.tokens, self.seed + 1);
        let parameters = Parameters::random_for(&self.config, self.seed);
        let layer = parameters.layer(&self.config, dtype, &device);
        layer.forward_with(input.tensor(dtype, &device).0, None, &by(path)).expect("a good input").state
    }

    fn later_parameters(&self) -> Parameters {
        let mut parameters = Parameters::random_for(&self.config, self.seed);
        let mut numbers = Numbers::new(self.seed + 9);
        for array in parameters.all_mut() {
            array.values.iter_mut().for_each(|value| *value = f64::from(*value as f32 + 0.03 * numbers.next() as f32));
        }
        parameters
    }

    fn second(&self, state: SabState, dtype: DType, path: Path) -> Run {
        let input = Input::random(BATCH, TIMES[1], 3, self.tokens, self.seed + 2);
        let mut numbers = Numbers::new(self.seed + 3);
        let shape = [BATCH, TIMES[1], self.config.hidden];
        let mut adjoint = || Array::new(&shape, numbers.take(shape.iter().product(), 1.0));
        let adjoints = [&adjoint(), &adjoint()];
        run(&self.config, &self.later_parameters(), &input, Some(state), adjoints, dtype, &by(path))
    }

    /// The second call, if single precision can follow it.
    fn right(&self) -> Option<Run> {
        let [right, rounded] =
            [DType::F64, DType::F32].map(|dtype| self.second(self.first(dtype, Path::Portable), dtype, Path::Portable));
        compare(&rounded, &right, 5e-6, 5e-5, 0.1).ok().map(|()| right)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    configs().into_iter().flat_map(|config| {
        (0..8).map(move |seed| Case { config: config.clone(), seed: 40 * seed, tokens: seed % 2 == 0 })
    })
}

#[test]
fn r21_both_paths_give_the_same_gradient() {
    let mut compared = 0;
    for case in cases() {
        let Some(right) = case.right() else { continue };
        let what = format!("tokens {}, seed {}, {:?}", case.tokens, case.seed, case.config);
        for path in PATHS {
            let got = case.second(case.first(DType::F32, path), DType::F32, path);
            compare(&got, &right, 1e-5, 1e-4, 0.1).unwrap_or_else(|why| panic!("{path:?}, {what}: {why}"));
        }
        let without = Case { config: case.config.clone().with_credit_across_calls(false), ..case };
        let without = without.second(without.first(DType::F32, Path::Fused), DType::F32, Path::Fused);
        compared += usize::from(compare(&without, &right, 1e-5, 1e-3, 0.1).is_err());
    }
    assert!(compared >= 20, "credit across calls makes a difference in {compared} cases only");
}

#[test]
fn r21_a_saved_state_passes_credit_with_the_same_bits() {
    for path in PATHS {
        for case in cases().step_by(3) {
            let state = case.first(DType::F32, path);
            let saved = serde_json::to_string(&state.to_record()).expect("plain data");
            let record: SabStateRecord = serde_json::from_str(&saved).expect("the saved record");
            assert!(record.segments.as_ref().is_some_and(|segments| !segments.segments.is_empty()));
            let restored = SabState::from_record(record, &Device::flex()).expect("a good record");
            let [a, b] = [state, restored].map(|state| case.second(state, DType::F32, path));
            assert_eq!(a.hidden.values, b.hidden.values);
            for ((name, a), (_, b)) in a.gradients.iter().zip(&b.gradients) {
                assert_eq!(a.values, b.values, "{path:?}, {name}, {:?}", case.config);
            }
        }
    }
}

#[test]
fn r21_a_state_of_one_path_serves_the_other() {
    for case in cases().step_by(5) {
        let Some(right) = case.right() else { continue };
        for (first, second) in [(Path::Portable, Path::Fused), (Path::Fused, Path::Portable)] {
            let got = case.second(case.first(DType::F32, first), DType::F32, second);
            // The two calls round differently.
            compare(&got, &right, 2e-5, 5e-4, 0.1).unwrap_or_else(|why| panic!("{first:?}: {why}"));
        }
    }
}

#[test]
fn r21_the_drift_is_reported_after_the_backward_pass() {
    let device = Device::flex().autodiff();
    for path in PATHS {
        let case = Case { config: base(), seed: 5, tokens: true };
        for (parameters, moved) in [(Parameters::random_for(&base(), 5), false), (case.later_parameters(), true)] {
            let layer = parameters.layer(&base(), DType::F32, &device);
            let input = Input::random(BATCH, TIMES[1], 3, true, 6);
            let state = case.first(DType::F32, path);
            let out = layer.forward_with(input.tensor(DType::F32, &device).0, Some(state), &by(path)).expect("good");
            assert!(path == Path::Portable || out.drift.get().is_none(), "only the sweep replays");
            out.hidden.clone().sum().backward();
            let drift = out.drift.get().expect("memories are replayed");
            assert!(drift.memories > 0 && drift.most >= drift.mean);
            // The engine computes the same bits again; tensor operations may round otherwise in another batch.
            assert_eq!(drift.mean > 1e-4, moved, "{path:?}: {drift:?}");
            assert!(moved || path == Path::Portable || drift.most == 0.0, "{drift:?}");
        }
    }
}

#[test]
fn r21_damaged_segments_are_refused() {
    let case = Case { config: base(), seed: 5, tokens: true };
    let record = case.first(DType::F32, Path::Fused).to_record();
    type Damage<'a> = &'a dyn Fn(&mut attentive::SegmentsRecord);
    let damages: [(Damage<'_>, &str); 6] = [
        (&|s| s.segments[1].row = 7, "row 7"),
        (&|s| s.segments[1].slots[0].0 = 99, "slot 99"),
        (&|s| s.segments[1].slots[0].1 = 99, "step 99"),
        (&|s| s.segments[1].hidden.truncate(2), "hidden"),
        (&|s| s.segments[1].summaries[3] = f32::INFINITY, "not finite"),
        (&|s| s.segments[1].tokens = None, "tokens and some dense"),
    ];
    for (damage, why) in damages {
        for path in PATHS {
            let mut record = record.clone();
            damage(record.segments.as_mut().expect("segments"));
            let device = Device::flex().autodiff();
            let refused = SabState::from_record(record, &Device::flex()).and_then(|state| {
                let layer = case.later_parameters().layer(&base(), DType::F32, &device);
                let input = Input::random(BATCH, 2, 3, true, 6);
                layer.forward_with(input.tensor(DType::F32, &device).0, Some(state), &by(path)).map(|_| ())
            });
            let message = refused.expect_err(why).to_string();
            assert!(message.contains(why) || message.contains("segment"), "{message}");
        }
    }
}
