//! [`Predictor`]: answers the sequences of a new table with a trained model, as `sab predict` does.
//!
//! ```no_run
//! use sab::predict::{Answer, Predictor};
//! use std::path::Path;
//!
//! let predictor = Predictor::open(Path::new("runs/batches"))?;
//! let questions = predictor.load(Path::new("new.csv"))?;
//! let mut strong = Vec::new();
//! predictor.answer(&questions, 1, |prediction| {
//!     if let Answer::Class { name: "strong", probability, .. } = prediction.answer {
//!         strong.push((prediction.sequence.to_string(), probability));
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), sab::LabError>(())
//! ```

use crate::data::{AnswerOn, DataError, Question, Questions, Standardization, load_questions};
use crate::device::cpu;
use crate::error::{LabError, Result};
use crate::models::{Model, numbers};
use crate::run_dir::{ModelConfig, RunDir, load_model};
use crate::tasks::{Answers, Asked, Batch, Input, InputKind, OutputKind, largest};
use crate::train::STEPS_AT_ONCE;
use attentive::ForwardOptions;
use burn::tensor::Device;
use std::path::Path;

/// Sequences that are answered at once, if they are short enough.
const ROWS_AT_ONCE: usize = 128;

/// A model that learned from a table, ready to answer another one.
#[derive(Debug)]
pub struct Predictor {
    config: ModelConfig,
    model: Model,
    device: Device,
    scale: Standardization,
}

/// The answer of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// One of the classes.
    Class {
        /// The most likely class.
        name: &'a str,
        /// Its probability according to the model.
        probability: f64,
        /// The probability of every class, in the order of [`Predictor::classes`].
        probabilities: &'a [f64],
    },
    /// A number, in the table's own units.
    Number(f32),
}

/// An answer and the sequence it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction<'a> {
    /// The sequence, as in the sequence column.
    pub sequence: &'a str,
    /// The step, as in the step column: the last one, or each.
    pub step: &'a str,
    /// The answer.
    pub answer: Answer<'a>,
}

impl Predictor {
    /// Reads a run directory, or a folder with `model.safetensors` and `config.json`. A model that did not learn from a
    /// table is an error that says what to use instead.
    pub fn open(folder: &Path) -> Result<Self> {
        let device = cpu();
        let mut config = ModelConfig::load(folder)?;
        let (Some(features), Some(scale)) = (&config.facts.features, config.facts.standardization.clone()) else {
            return Err(LabError::Config(no_table(&config, folder)));
        };
        let classes = config.facts.classes.as_ref().map_or(OutputKind::Value, |names| OutputKind::Classes(names.len()));
        let width = features.len();
        if config.input != InputKind::Dense(width) || scale.mean().len() != width || config.output != classes {
            return Err(LabError::Run(format!(
                "{}/config.json does not fit itself: its features, classes, scales, input and output differ in number",
                folder.display()
            )));
        }
        // An older config.json may lack facts that the run's settings have.
        if config.facts.on.is_none()
            && let Ok(run) = RunDir::open(folder)
        {
            run.experiment()?.task.kind().complete(&mut config.facts);
        }
        let (_, model, _) = load_model(folder, &device)?;
        Ok(Self { config, model, device, scale })
    }

    /// The model's settings and the facts saved with it.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The names of the classes; none if answers are numbers.
    pub fn classes(&self) -> &[String] {
        self.config.facts.classes.as_deref().unwrap_or_default()
    }

    /// Which steps are answered.
    pub fn on(&self) -> AnswerOn {
        self.config.facts.on.unwrap_or_default()
    }

    /// Reads a table: the sequence, step and feature columns that the model was trained with, found by their names. The
    /// label column may be missing, other columns do not matter.
    pub fn load(&self, file: &Path) -> Result<Questions> {
        Ok(load_questions(file, &self.config.facts.layout())?)
    }

    /// Hands the answers to `take`, in the order of the sequences and of their steps. Some sequences are in memory at
    /// once; their number and that of the threads change no answer of a recurrent model.
    pub fn answer(
        &self, questions: &Questions, threads: usize, mut take: impl FnMut(Prediction<'_>) -> Result<()>,
    ) -> Result<()> {
        if Some(&questions.feature_names) != self.config.facts.features.as_ref() {
            let names = questions.feature_names.join(", ");
            return Err(DataError::Invalid(format!("the model did not learn from the features {names}")).into());
        }
        let options = ForwardOptions::new().with_threads(threads);
        let mut rest = questions.sequences.as_slice();
        while !rest.is_empty() {
            let (some, after) = rest.split_at(at_once(rest));
            let batch = self.batch(some)?;
            let outputs = numbers(self.model.answer(&batch, &options, &self.device)?)?;
            self.hand_out(some, &batch, &outputs, &mut take)?;
            rest = after;
        }
        Ok(())
    }

    /// Questions as a batch, scaled as in training.
    fn batch(&self, questions: &[Question]) -> Result<Batch> {
        let width = self.scale.mean().len();
        let lengths: Vec<usize> = questions.iter().map(|question| question.steps.len()).collect();
        let mut scaled = Vec::with_capacity(questions.len());
        for (question, length) in questions.iter().zip(&lengths) {
            if *length == 0 || question.features.len() != length * width {
                let (id, have) = (&question.id, question.features.len());
                let why = format!("sequence `{id}` has {have} numbers, not {width} for each of {length} steps");
                return Err(DataError::Invalid(why).into());
            }
            let mut features = question.features.clone();
            self.scale.apply(&mut features);
            scaled.push(features);
        }
        let steps = lengths.iter().copied().max().unwrap_or(0);
        let rows: Vec<&[f32]> = scaled.iter().map(Vec::as_slice).collect();
        let asked = match self.on() {
            AnswerOn::Last => Asked::At(lengths.iter().map(|length| length - 1).collect()),
            AnswerOn::Each => Asked::Until(lengths),
        };
        let input = Input::padded(&rows, width, steps);
        Ok(Batch { rows: rows.len(), steps, input, asked, answers: Answers::Unknown })
    }

    fn hand_out(
        &self, questions: &[Question], batch: &Batch, outputs: &[f32],
        take: &mut impl FnMut(Prediction<'_>) -> Result<()>,
    ) -> Result<()> {
        let width = self.config.output.size().max(1);
        // Padding has outputs too where every step is asked.
        let a_row = batch.answer_count() / batch.rows.max(1) * width;
        for (question, row) in questions.iter().zip(outputs.chunks_exact(a_row.max(1))) {
            let asked = match self.on() {
                AnswerOn::Last => &question.steps[question.steps.len() - 1..],
                AnswerOn::Each => &question.steps[..],
            };
            for (step, output) in asked.iter().zip(row.chunks_exact(width)) {
                if let Some(bad) = output.iter().find(|number| !number.is_finite()) {
                    let why = format!("the model answers step {step} of sequence `{}` with {bad}", question.id);
                    return Err(LabError::Run(format!("{why}: it is damaged, or the features are far out of range")));
                }
                let probabilities = softmax(output);
                let answer = match largest(output).and_then(|class| Some((self.classes().get(class)?, class))) {
                    Some((name, class)) => {
                        Answer::Class { name, probability: probabilities[class], probabilities: &probabilities }
                    }
                    None => Answer::Number(self.in_units_of_the_table(output[0])),
                };
                take(Prediction { sequence: &question.id, step, answer })?;
            }
        }
        Ok(())
    }

    fn in_units_of_the_table(&self, output: f32) -> f32 {
        let mut number = [output];
        if let Some(scale) = &self.config.facts.answer_standardization {
            scale.undo(&mut number);
        }
        number[0]
    }
}

/// The number of questions that are answered together: padded to the longest, they fit into the memory for one batch.
fn at_once(questions: &[Question]) -> usize {
    let mut longest = 1;
    let fits = |(place, question): &(usize, &Question)| {
        longest = longest.max(question.steps.len());
        (place + 1).saturating_mul(longest) <= STEPS_AT_ONCE
    };
    questions.iter().take(ROWS_AT_ONCE).enumerate().take_while(fits).count().max(1)
}

fn softmax(scores: &[f32]) -> Vec<f64> {
    let most = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(f64::from(*score)));
    let weights: Vec<f64> = scores.iter().map(|score| (f64::from(*score) - most).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Advice for a model that did not learn from a table.
fn no_table(config: &ModelConfig, folder: &Path) -> String {
    let (task, run) = (&config.task, folder.display());
    let instead = match task.as_str() {
        _ if config.facts.alphabet.is_some() => {
            format!(
                "`sab sample {run}` generates text with it, `sab eval {run} --file FILE` evaluates it on another text"
            )
        }
        "pmnist" | "cifar10" => format!(
            "`sab eval {run}` evaluates it on the test images; other images can be answered from Rust, by `Model::answer`"
        ),
        "copy" | "adding" => format!("`sab eval {run}` and `sab transfer {run}` evaluate it on generated sequences"),
        _ => "it can be asked from Rust, by `Model::answer`".into(),
    };
    format!("the model learned `{task}`, not a table (`sab train csv`): {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions(lengths: &[usize]) -> Vec<Question> {
        let one =
            |length: &usize| Question { id: "a".into(), steps: vec![String::new(); *length], features: Vec::new() };
        lengths.iter().map(one).collect()
    }

    #[test]
    fn questions_in_memory_at_once_are_bounded() {
        assert_eq!(at_once(&questions(&[3; 500])), ROWS_AT_ONCE);
        assert_eq!(at_once(&questions(&[STEPS_AT_ONCE / 4; 9])), 4);
        assert_eq!(at_once(&questions(&[1, STEPS_AT_ONCE / 2, STEPS_AT_ONCE])), 2);
        // A longer sequence is answered alone.
        assert_eq!(at_once(&questions(&[STEPS_AT_ONCE + 1, 1])), 1);
    }

    #[test]
    fn probabilities_add_up_to_one() {
        let found = softmax(&[1000.0, 1001.0, -1000.0]);
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12 && (found[1] / found[0] - 1f64.exp()).abs() < 1e-9);
    }
}
