//! What holds where nothing is said. The metrics that justify a default are in `docs/`.

use super::model::{LstmSettings, ModelSettings, Start, TransformerSettings, default_novelty, no_capacity};
use super::task::{AnswerKind, CsvSettings, TASK_NAMES, TaskSettings};
use super::train::{Schedule, TrainSettings};
use super::values::{Auto, Limit};
use super::{Experiment, nearest};
use crate::data::AnswerOn;
use crate::error::{LabError, Result};
use attentive::{Cell, Evict, Hops, KTop, KTrunc, ScoreGradient, Scorer, Sparsifier, Store, TruncPhase};
use std::path::PathBuf;

/// The defaults of a task with a kind of model.
pub(super) fn of(task: &str, kind: Option<&str>) -> Result<Experiment> {
    let settings = task_settings(task)?;
    let model = match kind {
        None | Some("sab") => ModelSettings::Sab(lstm(&settings)),
        Some("transformer") => {
            ModelSettings::Transformer(TransformerSettings { hidden: 128, layers: 2, heads: 4, feed_forward: 512 })
        }
        Some(other) => {
            return Err(LabError::Config(format!("there is no `model.kind` \"{other}\": \"sab\" or \"transformer\"")));
        }
    };
    let train = train(&settings);
    Ok(Experiment { data_dir: "data".into(), task: settings, model, train })
}

fn task_settings(name: &str) -> Result<TaskSettings> {
    Ok(match name {
        "copy" => TaskSettings::Copy { length: 100, blank_weight: Auto::of(0.02), validation: 320, test: 2000 },
        "adding" => TaskSettings::Adding { length: 200, validation: 640, test: 5000 },
        "ptb" => TaskSettings::Ptb { length: 100 },
        "text8" => TaskSettings::Text8 { length: 180 },
        "text" => TaskSettings::Text { file: PathBuf::new(), length: 100 },
        "pmnist" => TaskSettings::Pmnist { permutation_seed: 1, validation: 5000 },
        "cifar10" => TaskSettings::Cifar10 { validation: 5000, mirror: false, shift: 0 },
        "csv" => TaskSettings::Csv(CsvSettings {
            file: PathBuf::new(),
            sequence: String::new(),
            step: String::new(),
            label: String::new(),
            features: Vec::new(),
            answers: AnswerKind::Guess,
            on: AnswerOn::Last,
            split_seed: 1,
        }),
        other => {
            let hint = match nearest(other, TASK_NAMES) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("the tasks are {}", TASK_NAMES.join(", ")),
            };
            return Err(LabError::Config(format!("there is no task `{other}`; {hint}")));
        }
    })
}

fn lstm(task: &TaskSettings) -> LstmSettings {
    let start = Start::default();
    let sab = |hidden, k_trunc, k_top, k_att| LstmSettings {
        hidden,
        cell: Cell::default(),
        scorer: Scorer::default(),
        sparsifier: Sparsifier::default(),
        store: Store::default(),
        novelty: default_novelty(),
        capacity: no_capacity(),
        evict: Evict::default(),
        k_top: KTop::Count(k_top),
        k_att,
        k_trunc: KTrunc::Every(k_trunc),
        trunc_phase: TruncPhase::Random,
        mental_updates: true,
        score_gradient: ScoreGradient::Weights,
        hops: Hops::All,
        start,
    };
    // One pixel is a small input, and the loss comes after hundreds of steps.
    let pixels = |input_gain| Start { input_gain, forget_bias: 1.0, ..start };
    // The paper's settings of each task where they are affordable; its text models have 1000 units.
    match task {
        TaskSettings::Copy { .. } => LstmSettings { start: Start { input_gain: 11.3, ..start }, ..sab(128, 5, 5, 1) },
        TaskSettings::Adding { .. } => LstmSettings { start: Start { input_gain: 64.0, ..start }, ..sab(128, 5, 5, 1) },
        // Fewer than the memories of a sequence: what never has to choose in training cannot do it on longer texts.
        TaskSettings::Ptb { .. } | TaskSettings::Text8 { .. } | TaskSettings::Text { .. } => {
            LstmSettings { start: Start { input_gain: 32.0, ..start }, ..sab(256, 10, 5, 10) }
        }
        TaskSettings::Pmnist { .. } => LstmSettings { start: pixels(8.0), ..sab(128, 50, 10, 50) },
        TaskSettings::Cifar10 { .. } => LstmSettings { start: pixels(64.0), ..sab(128, 16, 10, 16) },
        TaskSettings::Csv(_) => sab(64, 10, 5, 2),
    }
}

fn train(task: &TaskSettings) -> TrainSettings {
    let usual = TrainSettings {
        seed: 1,
        batch: 64,
        updates: 20_000,
        epochs: Limit::WORD,
        max_seconds: Limit::WORD,
        learning_rate: 1e-3,
        schedule: Schedule::Cosine,
        final_rate: 0.0,
        warmup: 0,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        clip: Limit::of(1.0),
        validate_every: 500,
        validation_batches: Limit::WORD,
        test_batches: Limit::WORD,
        patience: Limit::WORD,
        checkpoint_every: 500,
        keep: 2,
        log_every: 50,
        attention_every: Limit::of(500),
        refusals: 10,
        threads: Auto::WORD,
    };
    match task {
        TaskSettings::Copy { .. } => TrainSettings { batch: 32, updates: 12_000, learning_rate: 5e-3, ..usual },
        TaskSettings::Adding { .. } => TrainSettings { batch: 32, updates: 6_000, learning_rate: 8e-3, ..usual },
        TaskSettings::Ptb { .. } | TaskSettings::Text8 { .. } => TrainSettings {
            updates: 10_000,
            batch: 32,
            learning_rate: 1e-2,
            validation_batches: Limit::of(100),
            ..usual
        },
        TaskSettings::Text { .. } => TrainSettings {
            updates: 5_000,
            batch: 32,
            learning_rate: 1e-2,
            validate_every: 250,
            validation_batches: Limit::of(100),
            ..usual
        },
        TaskSettings::Pmnist { .. } | TaskSettings::Cifar10 { .. } => {
            TrainSettings { updates: 10_000, learning_rate: 5e-3, validation_batches: Limit::of(20), ..usual }
        }
        TaskSettings::Csv(_) => {
            TrainSettings { updates: 2_000, batch: 32, validate_every: 100, patience: Limit::of(10), ..usual }
        }
    }
}
