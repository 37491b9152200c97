//! [`Changes`]: keys of a trained model that are different in an evaluation, such as `model.store`.

use crate::error::{LabError, Result};
use crate::experiment::{Experiment, ModelSettings, Value};
use crate::settings::keys;
use std::collections::BTreeMap;

/// Dotted keys with their values.
pub type Changes = BTreeMap<String, Value>;

/// The keys that an evaluation may change: they decide what is stored and how steps are reminded, without parameters.
const FREE: [&str; 7] = ["store", "novelty", "capacity", "evict", "k_top", "k_att", "sparsifier"];

/// The keys that decide the parameters.
const OF_PARAMETERS: [&str; 7] = ["kind", "hidden", "cell", "scorer", "layers", "heads", "feed_forward"];

const MODEL: &str = "model";

/// The changes of some `--set key=value`; of two for one key the later counts.
pub(crate) fn parsed(set: &[String]) -> Result<Changes> {
    set.iter().map(|text| crate::experiment::parse_change(text)).collect()
}

/// The model of an experiment after some changes, and those of them that change something. A key that an evaluation
/// cannot change is an error.
pub(crate) fn changed(experiment: &Experiment, changes: &Changes) -> Result<(ModelSettings, Changes)> {
    if changes.is_empty() {
        return Ok((experiment.model.clone(), Changes::new()));
    }
    let before = flat(experiment)?;
    if let Some(key) = changes.keys().find(|key| before.contains_key(*key) && !is_free(key)) {
        return Err(refused(key));
    }
    // Unknown keys and values of the wrong kind get the errors of any configuration.
    let given: Vec<(String, Value)> = changes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let after = Experiment::of_text(&experiment.to_toml()?, "--set", &given)?;
    let mut effective = flat(&after)?;
    effective.retain(|key, value| before.get(key) != Some(value));
    Ok((after.model, effective))
}

/// `store=novelty, novelty=0.2`
pub(crate) fn in_words(changes: &Changes) -> String {
    let of_one = |(key, value): (&String, &Value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), String::from);
        format!("{key}={value}")
    };
    changes.iter().map(of_one).collect::<Vec<_>>().join(", ")
}

fn is_free(key: &str) -> bool {
    key.split_once('.').is_some_and(|(section, key)| section == MODEL && FREE.contains(&key))
}

fn flat(experiment: &Experiment) -> Result<Changes> {
    let table = toml::Table::try_from(experiment).map_err(|why| LabError::Config(why.to_string()))?;
    Ok(keys::flatten(&table).into_iter().collect())
}

fn refused(key: &str) -> LabError {
    let free = FREE.map(|key| format!("{MODEL}.{key}")).join(", ");
    let why = match key.split_once('.') {
        Some((MODEL, key)) if OF_PARAMETERS.contains(&key) => "it decides the parameters, which are trained",
        Some((MODEL, _)) => "it matters in training only",
        _ => "it does not belong to the model",
    };
    LabError::Config(format!("`--set {key}` cannot change a trained model: {why}; what can be set is {free}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(set: &[&str]) -> Result<(ModelSettings, Changes)> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_string()).collect();
        changed(&Experiment::of_task("copy", &[]).unwrap(), &parsed(&set)?)
    }

    #[test]
    fn only_what_changes_something_is_a_change() {
        let (_, effective) = change(&["model.store=novelty", "model.novelty=0.1", "model.k_top=all"]).unwrap();
        assert_eq!(in_words(&effective), "model.k_top=all, model.store=novelty");
        let (model, effective) = change(&["model.store=every", "model.capacity=none"]).unwrap();
        assert!(effective.is_empty() && model == Experiment::of_task("copy", &[]).unwrap().model);
        // The same number, however it is written.
        let novelty = |text: &str| change(&[text]).unwrap().1;
        assert_eq!(novelty("model.novelty=1"), novelty("model.novelty=1.0"));
        assert_eq!(change(&["model.k_att=2", "model.k_att=3"]).unwrap().1["model.k_att"], Value::Integer(3));
    }

    #[test]
    fn what_cannot_change_says_why() {
        for (set, part) in [
            ("model.hidden=64", "decides the parameters"),
            ("model.scorer=dot", "decides the parameters"),
            ("model.kind=transformer", "decides the parameters"),
            ("model.k_trunc=10", "in training only"),
            ("model.start.input_gain=1", "in training only"),
            ("train.batch=5", "does not belong to the model"),
            ("task.length=5", "does not belong to the model"),
            ("model.stor=novelty", "did you mean `model.store`?"),
            ("model.store=nowhere", "model.store"),
            ("model.novelty=-1", "`model.novelty` is -1"),
            ("model.capacity=0", "`model.capacity` is 0"),
            ("model.store", "has no `=`"),
            ("model=5", "is a section"),
        ] {
            let why = change(&[set]).expect_err(set);
            assert!(why.to_string().contains(part), "{set}: {why}");
            assert_eq!(why.exit_code(), 2, "{set}: {why}");
        }
    }

    #[test]
    fn every_key_that_may_change_is_a_key_of_the_model() {
        let experiment = Experiment::of_task("copy", &[]).unwrap();
        let known = flat(&experiment).unwrap();
        assert!(FREE.iter().all(|key| known.contains_key(&format!("{MODEL}.{key}"))));
    }
}
