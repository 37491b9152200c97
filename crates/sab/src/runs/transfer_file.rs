//! `transfer.json`: a trained model at other lengths.
//!
//! `lengths` holds the results of the model as it was trained. Results with changes (`--set`) stand apart, in
//! `changed`: one entry for each set of changes, with lengths of its own.

use super::Trained;
use super::changes::Changes;
use super::lengths::{AtLength, OVERFLOWED};
use crate::error::{LabError, Result};
use crate::run_dir::{atomic, files};
use crate::tasks::as_json;
use crate::train::{Judgement, MEMORIES, PEAK_MIB, SECONDS};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// The content of the file.
#[derive(Debug)]
pub(super) struct TransferFile {
    /// Everything but the results.
    head: Map<String, Value>,
    /// By the changes, as JSON text, and by length.
    results: BTreeMap<String, BTreeMap<usize, Value>>,
}

impl TransferFile {
    /// With the results of earlier calls for the same model.
    pub(super) fn open(path: &Path, trained: &Trained) -> Result<Self> {
        let head = json!({
            "run": trained.run.path(), "trained_at": trained.experiment.task.length(), "update": trained.update,
        });
        let read = files::read_json(path)
            .map_err(|why| LabError::Run(format!("{why}; remove this file to evaluate the model again")))?;
        let same = |document: &Value| trained.update.is_some() && document["update"].as_u64() == trained.update;
        let results = read.filter(same).map(|document| results_of(&document)).unwrap_or_default();
        Ok(Self { head: head.as_object().cloned().unwrap_or_default(), results })
    }

    pub(super) fn add(&mut self, done: &AtLength) {
        self.results.entry(key(&done.at.set)).or_default().insert(done.at.length, entry(done));
    }

    pub(super) fn document(&self) -> Value {
        let lengths = |of: &BTreeMap<usize, Value>| of.values().cloned().collect::<Vec<_>>();
        let plain = key(&Changes::new());
        let mut document = self.head.clone();
        document.insert("lengths".into(), self.results.get(&plain).map(lengths).unwrap_or_default().into());
        let changed: Vec<Value> = (self.results.iter().filter(|(set, _)| **set != plain))
            .map(|(set, of)| json!({ "set": serde_json::from_str::<Value>(set).ok(), "lengths": lengths(of) }))
            .collect();
        if !changed.is_empty() {
            document.insert("changed".into(), changed.into());
        }
        document.into()
    }

    pub(super) fn save(&self, path: &Path) -> Result<()> {
        atomic::write_json(path, &self.document())
    }
}

/// The entry of a length in the content of a `transfer.json`: of the model as it was trained, or with changes.
pub(crate) fn entry_of<'a>(document: &'a Value, set: &Changes, length: usize) -> Option<&'a Value> {
    let lengths = match set.is_empty() {
        true => document.get("lengths"),
        false => document.get("changed")?.as_array()?.iter().find(|one| one["set"] == json!(set))?.get("lengths"),
    };
    lengths?.as_array()?.iter().find(|found| found["length"].as_u64() == Some(length as u64))
}

fn results_of(document: &Value) -> BTreeMap<String, BTreeMap<usize, Value>> {
    let by_length = |lengths: &Value| -> BTreeMap<usize, Value> {
        let all = lengths.as_array().cloned().unwrap_or_default().into_iter();
        all.filter_map(|result| Some((result["length"].as_u64()? as usize, result))).collect()
    };
    let changed = document["changed"].as_array().cloned().unwrap_or_default().into_iter();
    let changed = changed.map(|one| (one["set"].to_string(), by_length(&one["lengths"])));
    std::iter::once((key(&Changes::new()), by_length(&document["lengths"]))).chain(changed).collect()
}

/// The same changes give the same text: their keys are in order.
fn key(set: &Changes) -> String {
    json!(set).to_string()
}

fn entry(done: &AtLength) -> Value {
    let length = done.at.length;
    let mut entry = match &done.judgement {
        None => json!({ "length": length, "failure": OVERFLOWED, "metrics": {} }),
        Some(Judgement { metrics, sequences, memories }) => {
            let mut metrics = as_json(metrics);
            metrics.extend(memories.map(|memories| (MEMORIES.into(), json!(memories))));
            json!({ "length": length, "sequences": sequences, "metrics": metrics })
        }
    };
    entry[SECONDS] = json!(done.seconds);
    entry["threads"] = json!(done.threads);
    if let Some(bytes) = done.peak_memory {
        entry[PEAK_MIB] = json!((bytes >> 10) as f64 / 1024.0);
    }
    entry
}
