//! Reads the input as a table. The first byte chooses the layout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sab::data::{AnswerKind, AnswerOn, TableLayout, parse_questions, parse_table};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Some((choice, csv)) = data.split_first() else { return };
    let layout = TableLayout {
        kind: [None, Some(AnswerKind::Class), Some(AnswerKind::Value)][usize::from(choice % 3)],
        on: if choice / 3 % 2 == 0 { AnswerOn::Last } else { AnswerOn::Each },
        ..TableLayout::default()
    };
    if let Ok(table) = parse_table(Path::new("fuzz"), csv, &layout) {
        for sequence in &table.sequences {
            assert_eq!(sequence.features.len(), sequence.steps * table.feature_names.len());
            assert_eq!(sequence.answers.len(), if table.on == AnswerOn::Each { sequence.steps } else { 1 });
        }
    }
    if let Ok(questions) = parse_questions(Path::new("fuzz"), csv, &layout) {
        for question in &questions.sequences {
            assert_eq!(question.features.len(), question.steps.len() * questions.feature_names.len());
        }
    }
});
