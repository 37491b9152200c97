//! `stream`: names and their values in an endless stream, each asked for once, long after.

use super::{
    Answers, Asked, Batch, CommonKeys, HeldOut, Input, InputKind, Metrics, OutputKind, Split, Tally, Task, TaskKind,
    kind,
};
use crate::error::Result;
use crate::rng::{Draws, Purpose};
use crate::settings::{TrainSettings, within, wrong};
use attentive::{Initialization, SabLstmConfig, Scorer, number_or};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;

/// A held-out stream has this many times `length` steps.
const HELD_OUT_LENGTHS: usize = 4;
/// A name is used again this many blocks later. A cue is asked for within three.
const FEWEST_GROUPS: usize = 3;
/// Bits for the block in the number that it is drawn from; the row has the others.
const BLOCK_BITS: u32 = 40;
const BLANK: i32 = 0;

/// Cues, questions and distractors on blank steps. A cue is a value and, `gap` blanks later, a name; a question is the
/// name again, by itself, and is answered at once with the value. Each cue is asked for exactly once, `length` steps
/// later on average, at least half and at most one and a half times as late; the order of the questions is random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// How many steps after a cue it is asked for, on average.
    pub length: usize,
    /// Cues that wait for their question at any time; an even number.
    pub open: usize,
    /// Different names, at least one and a half times `open`. A name does not come again while its cue is open.
    pub names: usize,
    /// Different values.
    pub values: usize,
    /// Blank steps between a value and its name.
    pub gap: usize,
    /// Different distractors.
    pub distractors: usize,
    /// The share of distractors among the steps that are neither cue nor question.
    pub noise: f64,
    /// Training streams begin anew after this many times `length` steps, each row at another time: a number, or `"none"`
    /// for streams without end.
    #[serde(with = "number_or::none")]
    pub restart: Option<usize>,
    /// Validation streams.
    pub validation: usize,
    /// Test streams.
    pub test: usize,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            length: 2000,
            open: 16,
            names: 48,
            values: 8,
            gap: 0,
            distractors: 8,
            noise: 0.02,
            restart: None,
            validation: 32,
            test: 100,
        }
    }
}

impl TaskKind for Stream {
    fn help(&self) -> &'static str {
        "endless: give the value of a name that came about LENGTH steps ago"
    }

    fn model(&self) -> SabLstmConfig {
        // As in the copy task: a single token counts as much as the whole hidden state.
        let initialization = Initialization { input_gain: 11.3, ..Initialization::default() };
        let sizes = SabLstmConfig::new(0, 128).with_initialization(initialization).with_scorer(Scorer::Dot);
        // A random phase would begin the segments of carried memories anew with every update (R21).
        sizes.with_novelty(0.1).with_capacity(500).with_trunc_phase(0)
    }

    fn train(&self) -> TrainSettings {
        // The reminders of whole streams are long.
        let usual = TrainSettings { attention_every: None, ..TrainSettings::default() };
        TrainSettings { batch: 32, update_every: Some(100), updates: 20_000, learning_rate: 5e-3, ..usual }
    }

    fn validate(&self) -> Result<()> {
        kind::check_length(self.length, 1)?;
        within("task.open", self.open, 2..=10_000, "")?;
        if !self.open.is_multiple_of(2) {
            return Err(wrong("task.open", self.open, "it must be an even number"));
        }
        let fewest = FEWEST_GROUPS * self.cues();
        within("task.names", self.names, fewest..=100_000, ", one and a half times `task.open` or more")?;
        within("task.values", self.values, 2..=10_000, "")?;
        within("task.distractors", self.distractors, 1..=10_000, "")?;
        within("task.noise", self.noise, 0.0..=1.0, "")?;
        within("task.restart", self.restart.unwrap_or(1), 1..=1_000_000, ", or \"none\"")?;
        within("task.gap", self.gap, 0..=1_000_000, "")?;
        let shortest = 2 * self.cues() * (self.cue_steps() + 1);
        if self.length < shortest {
            let hint = format!("{} open cues with a gap of {} take at least {shortest} steps", self.open, self.gap);
            return Err(wrong("task.length", self.length, &hint));
        }
        self.counts().validate()
    }

    fn common_keys(&mut self) -> CommonKeys<'_> {
        CommonKeys { length: Some(&mut self.length), test: Some(&mut self.test), ..CommonKeys::default() }
    }

    fn open(&self, _data_dir: &Path) -> Result<Box<dyn Task>> {
        Ok(Box::new(self.clone()))
    }
}

/// One stream is cut into blocks of half a `length`. A block has a number of slots, each with one cue and, from the third
/// block on, one question, which is about a cue of the block before the last. A block is drawn by itself: its cues, and
/// the slots of the block after the next in which they are asked for, do not depend on other blocks.
struct Cues {
    /// Name and value of the cue in each slot.
    cues: Vec<(usize, usize)>,
    /// For each slot of the block after the next, the cue that is asked for.
    asked: Vec<usize>,
}

/// The random numbers of one stream.
struct Source {
    purpose: Purpose,
    seed: u64,
    /// Rows and blocks share one number: the row is in its upper bits.
    row: usize,
    /// Blocks of this row in earlier streams.
    before: u64,
}

/// What is drawn for a block. The names are shuffled for the first block alone.
#[derive(Clone, Copy)]
enum Drawn {
    Cues = 0,
    Symbols = 1,
    Names = 2,
}

impl Source {
    fn held_out(split: Split, stream: usize) -> Self {
        let purpose = HeldOut::purpose(split);
        Self { purpose, seed: HeldOut::SEED, row: stream, before: 0 }
    }

    fn draws(&self, block: u64, drawn: Drawn) -> Draws {
        let place = self.before.wrapping_add(block) << 2 | drawn as u64;
        Draws::new(self.purpose, self.seed, (self.row as u64) << BLOCK_BITS | place & ((1 << BLOCK_BITS) - 1))
    }
}

impl Stream {
    fn counts(&self) -> HeldOut {
        HeldOut { validation: self.validation, test: self.test }
    }

    /// Cues of a block.
    fn cues(&self) -> usize {
        self.open / 2
    }

    /// Steps of a block.
    fn block(&self) -> usize {
        self.length / 2
    }

    /// Steps from a value to its name, both included.
    fn cue_steps(&self) -> usize {
        self.gap + 2
    }

    fn name(&self, name: usize) -> i32 {
        1 + name as i32
    }

    fn value(&self, value: usize) -> i32 {
        (1 + self.names + value) as i32
    }

    fn symbols(&self) -> usize {
        1 + self.names + self.values + self.distractors
    }

    /// Streams that a row has had before a batch, and the batches of the present one.
    fn life(&self, batch: u64, row: usize) -> (u64, u64) {
        let Some(restart) = self.restart else { return (0, batch) };
        let (restart, moved) = (restart as u64, batch + row as u64);
        match moved / restart - row as u64 / restart {
            0 => (0, batch),
            life => (life, moved % restart),
        }
    }

    /// The cues of a block. The names take turns in groups, which a stream shuffles once: a name comes again only after
    /// as many blocks as there are groups, long after its question.
    fn cues_of(&self, source: &Source, block: u64) -> Cues {
        let count = self.cues();
        let mut names: Vec<usize> = (0..self.names).collect();
        source.draws(0, Drawn::Names).shuffle(&mut names);
        let group = (block % (self.names / count) as u64) as usize;
        let group = &mut names[group * count..][..count];
        let mut draws = source.draws(block, Drawn::Cues);
        draws.shuffle(group);
        let cues = group.iter().map(|name| (*name, draws.below(self.values))).collect();
        let mut asked: Vec<usize> = (0..count).collect();
        draws.shuffle(&mut asked);
        Cues { cues, asked }
    }

    /// The symbols of a block, and its questions: steps of the block with the right values.
    fn block_of(&self, source: &Source, block: u64) -> (Vec<i32>, Vec<(usize, i32)>) {
        let (steps, count) = (self.block(), self.cues());
        let here = self.cues_of(source, block);
        let before = block.checked_sub(2).map(|before| self.cues_of(source, before));
        let mut draws = source.draws(block, Drawn::Symbols);
        let (mut tokens, mut questions) = (Vec::with_capacity(steps), Vec::new());
        let first_distractor = self.value(self.values);
        for _ in 0..steps {
            let noise = draws.fraction() < self.noise as f32;
            tokens.push(if noise { first_distractor + draws.below(self.distractors) as i32 } else { BLANK });
        }
        for slot in 0..count {
            let (start, end) = (slot * steps / count, (slot + 1) * steps / count);
            // The question stands before the cue or after it, so it takes one of the steps that the cue leaves.
            let free = end - start - self.cue_steps();
            let (cue, question) = (draws.below(free + 1), draws.below(free));
            let (cue, question) = if question < cue { (cue, question) } else { (cue, question + self.cue_steps()) };
            let (name, value) = here.cues[slot];
            tokens[start + cue..][..self.cue_steps()].fill(BLANK);
            tokens[start + cue] = self.value(value);
            tokens[start + cue + self.gap + 1] = self.name(name);
            if let Some(before) = &before {
                let (name, value) = before.cues[before.asked[slot]];
                tokens[start + question] = self.name(name);
                questions.push((start + question, value as i32));
            }
        }
        questions.sort_unstable();
        (tokens, questions)
    }

    /// Some steps of a stream, and the questions among them.
    fn stretch_of(&self, source: &Source, steps: Range<u64>) -> (Vec<i32>, Vec<(usize, i32)>) {
        let size = self.block() as u64;
        let (mut tokens, mut questions) = (Vec::new(), Vec::new());
        for block in steps.start / size..steps.end.div_ceil(size) {
            let (of_block, asked) = self.block_of(source, block);
            let inside = |step: usize| steps.contains(&(block * size + step as u64));
            let place = |step: usize| (block * size + step as u64 - steps.start) as usize;
            tokens.extend(of_block.iter().enumerate().filter(|(step, _)| inside(*step)).map(|(_, token)| *token));
            let asked = asked.into_iter().filter(|(step, _)| inside(*step));
            questions.extend(asked.map(|(step, value)| (place(step), value)));
        }
        (tokens, questions)
    }

    /// Some steps of several streams, from the given ones on.
    fn batch(&self, steps: usize, streams: impl Iterator<Item = (Source, u64)>) -> Batch {
        let (mut rows, mut tokens, mut asked, mut answers) = (0, Vec::new(), Vec::new(), Vec::new());
        for (source, start) in streams {
            let (of_row, questions) = self.stretch_of(&source, start..start.saturating_add(steps as u64));
            tokens.extend(of_row);
            asked.extend(questions.iter().map(|(step, _)| (rows, *step)));
            answers.extend(questions.iter().map(|(_, value)| *value));
            rows += 1;
        }
        Batch {
            rows,
            steps,
            input: Input::Tokens(tokens),
            asked: Asked::Only(asked),
            answers: Answers::Classes(answers),
        }
    }
}

impl Task for Stream {
    fn input(&self) -> InputKind {
        InputKind::Tokens(self.symbols())
    }

    fn output(&self) -> OutputKind {
        OutputKind::Classes(self.values)
    }

    fn training_batch(&self, seed: u64, update: u64, rows: usize) -> Batch {
        let stream = |row: usize| {
            let (life, batch) = self.life(update, row);
            let before = life.saturating_mul(2 * self.restart.unwrap_or(0) as u64);
            let source = Source { purpose: Purpose::Training, seed, row, before };
            (source, batch.saturating_mul(self.length as u64))
        };
        self.batch(self.length, (0..rows).map(stream))
    }

    fn training_steps(&self) -> usize {
        self.length
    }

    fn begins(&self, _seed: u64, batch: u64, rows: usize) -> Vec<usize> {
        (0..rows).filter(|row| self.life(batch, *row).1 == 0).collect()
    }

    fn held_out(&self, split: Split) -> usize {
        self.counts().of(split)
    }

    fn held_out_sequences(&self, split: Split, sequences: Range<usize>) -> Batch {
        let steps = self.held_out_steps(split, sequences.clone());
        self.held_out_stretch(split, sequences, 0..steps)
    }

    fn held_out_steps(&self, _split: Split, _sequences: Range<usize>) -> usize {
        HELD_OUT_LENGTHS * self.length
    }

    fn held_out_stretch(&self, split: Split, sequences: Range<usize>, steps: Range<usize>) -> Batch {
        let stream = |stream| (Source::held_out(split, stream), steps.start as u64);
        self.batch(steps.len(), sequences.map(stream))
    }

    fn shown_steps(&self) -> usize {
        2 * self.length
    }

    fn metrics(&self, tally: &Tally) -> Metrics {
        vec![("ce", tally.all.ce()), ("accuracy", tally.all.accuracy())]
    }

    fn describe(&self) -> Option<String> {
        Some(format!(
            "each name is asked for {} to {} steps after it came with its value; guessing is right 1 time in {}",
            self.block(),
            3 * self.block(),
            self.values
        ))
    }
}
