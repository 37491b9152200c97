//! Experiments: defaults, files that say what differs, and errors that name the key.

use sab::experiment::{Experiment, Schedule, TASK_NAMES, TrainSettings, Value, parse_value};
use sab::train::learning_rate;

fn set(pairs: &[(&str, &str)]) -> Vec<(String, Value)> {
    pairs.iter().map(|(key, value)| ((*key).to_string(), parse_value(value))).collect()
}

#[test]
fn the_defaults_of_every_task_hold_and_come_back_from_their_own_text() {
    for &name in TASK_NAMES {
        for kind in ["sab", "transformer"] {
            let changes = set(&[("model.kind", kind), ("task.file", "x.txt")]);
            let changes = if ["text", "csv"].contains(&name) { changes } else { changes[..1].to_vec() };
            let experiment = Experiment::of_task(name, &changes).expect(name);
            let text = experiment.to_toml().expect("text");
            assert_eq!(Experiment::of_text(&text, "itself", &[]).expect(&text), experiment);
            assert_eq!(experiment.task.name(), name);
        }
    }
}

#[test]
fn a_file_says_only_what_differs_and_the_command_line_has_the_last_word() {
    let text = "[task]\nname = \"copy\"\nlength = 30\n[model]\nk_top = \"all\"\nk_trunc = \"none\"\n[train]\nclip = \"none\"\n";
    let experiment = Experiment::of_text(text, "file", &set(&[("task.length", "40"), ("train.learning_rate", "1")]));
    let experiment = experiment.expect("it holds");
    assert_eq!(experiment.task.length(), Some(40));
    assert_eq!((experiment.train.clip, experiment.train.learning_rate), (None, 1.0));
    assert_eq!(experiment.short_name(), "copy-40-attention-full-seed1");
}

#[test]
fn unknown_keys_are_errors_that_name_the_nearest() {
    for (key, right) in [
        ("model.ktop", "model.k_top"),
        ("model.k_tpo", "model.k_top"),
        ("train.lerning_rate", "train.learning_rate"),
        ("learning_rate", "train.learning_rate"),
        ("model.start.forgetbias", "model.start.forget_bias"),
    ] {
        let message = Experiment::of_task("copy", &set(&[(key, "1")])).expect_err(key).to_string();
        assert!(message.contains(&format!("`{key}`")) && message.contains(&format!("`{right}`")), "{message}");
    }
    let message = Experiment::of_task("pmnist", &set(&[("task.length", "5")])).expect_err("no length").to_string();
    assert!(message.contains("task.length"), "{message}");
    let message = Experiment::of_task("cpoy", &[]).expect_err("no task").to_string();
    assert!(message.contains("did you mean `copy`"), "{message}");
}

#[test]
fn wrong_values_are_errors_that_name_their_key() {
    for (key, value, part) in [
        ("model.k_att", "0", "k_att"),
        ("model.k_top", "many", "k_top"),
        ("model.hidden", "-3", "`model.hidden` is -3: expected a whole number, 0 or more"),
        ("model.mental_updates", "1", "`model.mental_updates` is 1: expected true or false"),
        ("train.batch", "0", "train.batch"),
        ("train.learning_rate", "nan", "train.learning_rate"),
        ("train.learning_rate", "fast", "`train.learning_rate` is \"fast\": expected a number"),
        ("train.clip", "0", "train.clip"),
        ("train.beta2", "1", "train.beta2"),
        ("train.weight_decay", "-0.1", "train.weight_decay"),
        ("train.weight_decay", "201", "train.weight_decay"),
        ("train.final_rate", "2", "train.final_rate"),
        ("train.threads", "0", "train.threads"),
        ("train.schedule", "wavy", "schedule"),
        ("train.epochs", "some", "epochs"),
        ("task.length", "0", "task.length"),
        ("task.test", "0", "task.test"),
        ("task", "3", "task"),
        ("model.start", "3", "model.start"),
        ("task.name", "3", "task.name"),
        ("model.kind", "cnn", "cnn"),
    ] {
        let message = Experiment::of_task("copy", &set(&[(key, value)])).expect_err(key).to_string();
        assert!(message.contains(part), "{key} = {value}: {message}");
    }
}

#[test]
fn images_are_moved_by_no_more_than_half_their_width() {
    assert!(Experiment::of_task("cifar10", &set(&[("task.shift", "16")])).is_ok());
    let message = Experiment::of_task("cifar10", &set(&[("task.shift", "17")])).expect_err("too far").to_string();
    assert!(message.contains("`task.shift` is 17: it must be between 0 and 16 pixels"), "{message}");
}

#[test]
fn what_is_not_toml_is_an_error_with_its_place() {
    let message = Experiment::of_text("[task\nname=1", "my.toml", &[]).expect_err("not TOML").to_string();
    assert!(message.contains("my.toml") && message.contains("line 1"), "{message}");
    let message = Experiment::of_text("", "my.toml", &[]).expect_err("no task").to_string();
    assert!(message.contains("task.name") && message.contains("copy"), "{message}");
}

fn scheduled(schedule: Schedule, final_rate: f64, warmup: u64) -> TrainSettings {
    let usual = Experiment::of_task("copy", &[]).expect("the defaults hold").train;
    TrainSettings { learning_rate: 2.0, schedule, final_rate, warmup, ..usual }
}

#[test]
fn schedules_begin_at_the_first_rate_and_end_at_the_last() {
    for (schedule, middle) in [(Schedule::Cosine, 1.1), (Schedule::Linear, 1.1), (Schedule::Constant, 2.0)] {
        let settings = scheduled(schedule, 0.1, 0);
        assert_eq!(learning_rate(&settings, 0, 100), 2.0);
        assert!((learning_rate(&settings, 50, 100) - middle).abs() < 1e-12);
        let last = if schedule == Schedule::Constant { 2.0 } else { 0.2 };
        assert!((learning_rate(&settings, 100, 100) - last).abs() < 1e-12);
    }
}

#[test]
fn the_rate_rises_over_the_warm_up() {
    let settings = scheduled(Schedule::Constant, 0.0, 9);
    assert!((learning_rate(&settings, 0, 100) - 0.2).abs() < 1e-12);
    assert!((learning_rate(&settings, 4, 100) - 1.0).abs() < 1e-12);
    assert_eq!(learning_rate(&settings, 9, 100), 2.0);
}
