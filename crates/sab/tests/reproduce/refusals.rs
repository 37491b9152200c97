//! Errors come before anything is trained, and say what to do.

use super::*;

#[test]
fn wrong_names_are_explained() {
    let place = small();
    let message = place.fails(2, &["reproduce", "coppy"]);
    assert!(message.contains("did you mean `copy`?"), "{message}");
    let message = place.fails(2, &reproduce(&["--only", "gru"]));
    assert!(message.contains("no row has gru in its name; the nearest rows are small/"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("small/lstm", "small/lstn"));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("there is no experiment mine/small/lstn.toml; did you mean `small/lstm`?"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("paper = [\"12.5\"]", "paper = [\"1\", \"2\", \"3\"]"));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("3 metrics of the paper for 2 columns"), "{message}");
    place.write("mine/small/table.toml", TABLE.replace("label = \"LSTM\"", "label = \"SAB | 2\""));
    let message = place.fails(2, &reproduce(&[]));
    assert!(message.contains("two rows of a group have the label \"SAB | 2\""), "{message}");
    place.write("mine/small/table.toml", TABLE.replacen("paper =", "alternative = true\npaper =", 1));
    let message = place.fails(2, &reproduce(&[]));
    assert!(
        message.contains("the row \"SAB | 2\" has alternative settings, but there is no row above it"),
        "{message}"
    );
    assert!(!place.path("out").exists(), "nothing is trained for a table that is refused");
    place.write("empty/readme.txt", "");
    let message = place.fails(2, &["reproduce", "small", "--experiments", "empty"]);
    assert!(message.contains("empty has no tables"), "{message}");
    assert!(place.ok(&["reproduce"]).contains("copy"), "the tables are listed");
}

#[test]
fn a_table_of_nothing_is_not_made() {
    let place = small();
    let message = place.fails(4, &reproduce(&["--table-only"]));
    assert!(message.contains("out has no records of the table small; run `sab reproduce small`"), "{message}");
    let message = place.fails(4, &["reproduce", "all", "--results", "out", "--table-only"]);
    assert!(message.contains("out has no records; run `sab reproduce all`, or name the folder"), "{message}");
    assert!(!place.path("out").exists());
}

#[test]
fn what_cannot_work_is_said_before_anything_is_trained() {
    let place = small();
    let refused = |code: i32, arguments: &[&str], words: &str| {
        let message = place.fails(code, &reproduce(arguments));
        assert!(message.contains(words), "{message}");
        assert!(!place.path("runs").exists() && !place.path("out/runs").exists(), "something was trained");
    };
    // A metric that the task does not have.
    place.write("mine/small/table.toml", TABLE.replace("name = \"accuracy\"", "name = \"acuracy\""));
    for arguments in [&[][..], &["--dry-run"]] {
        refused(2, arguments, "reports `acuracy`, but its task has ce_last10, accuracy, ce");
    }
    // A picture of a row that is not there, and of an update that is not recorded.
    let attention = |experiment: &str| {
        let lines =
            format!("[attention]\nexperiment = \"small/{experiment}\"\nupdates = [0, 7]\nlast = 10\n\n[[groups]]");
        place.write("mine/small/table.toml", TABLE.replacen("[[groups]]", &lines, 1));
    };
    attention("sap");
    refused(2, &[], "the attention figure shows `small/sap`, which is not a row of the table");
    attention("sab");
    refused(2, &[], "the attention of update 7, but small/sab records it every 500 updates");
    // A value that does not fit is named with its file.
    place.write("mine/small/table.toml", TABLE);
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = \"many\""));
    refused(2, &[], "mine/small/lstm.toml: `train.updates` is \"many\"");
    place.write("mine/small/lstm.toml", experiment("k_top = 0", "updates = 40"));
    // A place for results that cannot be one.
    let elsewhere =
        ["reproduce", "small", "--experiments", "mine", "--results", "/proc/none", "--runs", "runs", "--quiet"];
    let message = place.fails(4, &elsewhere);
    assert!(message.contains("cannot create /proc/none"), "{message}");
    assert!(!place.path("runs").exists(), "something was trained");
}

#[test]
fn options_that_need_a_table_ask_for_one() {
    let place = Place::new();
    for option in [&["--seeds", "3"][..], &["--dry-run"], &["--table-only"], &["--only", "sab"], &["--formats", "md"]] {
        let message = place.fails(2, &[&["reproduce"], option].concat());
        assert!(message.contains("<TABLE>") || message.contains("TABLE"), "{message}");
    }
}
