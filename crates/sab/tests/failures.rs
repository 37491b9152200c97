//! Every failure has a message, and nothing good is lost.
#![cfg(unix)]

mod common;

use common::{Place, TINY, checkpoints, everything, stderr, tiny_copy, weights};
use std::fs;
use std::process::Command;

#[test]
fn a_run_directory_that_exists_is_not_overwritten() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    let before = everything(&place.path("run"));
    let message = place.fails(4, &tiny_copy("run", "20", &["--seed", "2"]));
    assert!(message.contains("--resume run") && message.contains("--run"), "{message}");
    assert!(before == everything(&place.path("run")));
}

#[test]
fn without_a_name_each_run_gets_its_own_directory() {
    let place = Place::new();
    for _ in 0..2 {
        let arguments = tiny_copy("", "20", &[]);
        let arguments: Vec<&str> = arguments.into_iter().filter(|word| *word != "--run" && !word.is_empty()).collect();
        place.ok(&arguments);
    }
    for name in ["runs/copy-3-sab-trunc5-top5-seed1", "runs/copy-3-sab-trunc5-top5-seed1-2"] {
        assert!(place.path(name).join("summary.json").is_file(), "{name}");
    }
}

#[test]
fn a_device_that_the_build_does_not_have_is_an_error_that_says_how_to_get_it() {
    let place = Place::new();
    for (device, built) in [("wgpu", cfg!(feature = "wgpu")), ("cuda", cfg!(feature = "cuda"))] {
        if built {
            continue;
        }
        let message = place.fails(2, &tiny_copy("run", "20", &["--device", device]));
        assert!(
            message.contains(&format!("sab was built without {device}; install it with `cargo install")),
            "{message}"
        );
        assert!(!place.path("run").exists());
        place.ok(&tiny_copy(device, "20", &[]));
        for command in [&["train", "--resume", device][..], &["eval", device], &["attention", device]] {
            place.fails(2, &[command, &["--device", device]].concat());
        }
    }
    let message = place.fails(2, &tiny_copy("run", "20", &["--device", "abacus"]));
    assert!(message.contains("cpu, wgpu, cuda"), "{message}");
}

#[test]
fn a_run_goes_on_where_it_was_and_says_if_it_cannot() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    let mut environment = place.json("run/environment.json");
    let devices = serde_json::json!([{ "device": "cpu", "adapter": null, "from_update": 0 }]);
    assert_eq!(environment["devices"], devices);
    let file = place.path("run/environment.json");
    let before = fs::read(&file).expect("readable");
    place.ok(&["train", "--resume", "run", "--quiet"]);
    assert_eq!(fs::read(&file).expect("readable"), before);
    environment["devices"][0]["device"] = "abacus".into();
    fs::write(&file, environment.to_string()).expect("written");
    let message = place.fails(4, &["train", "--resume", "run"]);
    assert!(message.contains("environment.json") && message.contains("abacus"), "{message}");
    // Runs that do not say where they were trained were trained on the CPU.
    environment.as_object_mut().expect("an object").remove("devices");
    fs::write(&file, environment.to_string()).expect("written");
    place.ok(&["train", "--resume", "run", "--quiet"]);
}

#[test]
fn what_is_not_a_run_cannot_be_resumed() {
    let place = Place::new();
    place.write("folder/notes.txt", "no run");
    for (name, part) in [("nowhere", "does not exist"), ("folder", "no config.toml")] {
        let message = place.fails(4, &["train", "--resume", name]);
        assert!(message.contains(part), "{message}");
        place.fails(4, &["eval", name]);
        place.fails(4, &["attention", name]);
    }
}

/// Damages a run in one way, and sees that resuming is refused with a message that has all `parts` and that every file
/// is as it was.
fn refuses(place: &Place, run: &str, damage: impl FnOnce(), parts: &[&str]) {
    damage();
    let before = everything(&place.path(run));
    let message = place.fails(4, &["train", "--resume", run, "--quiet"]);
    for part in parts {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    let same = |(name, content): &(std::path::PathBuf, Vec<u8>)| {
        name.ends_with(".lock") || before.iter().any(|(old, was)| old == name && was == content)
    };
    let after = everything(&place.path(run));
    assert!(after.iter().all(same) && after.len() >= before.len());
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused_and_nothing_is_overwritten() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "40", &[]));
    place.ok(&tiny_copy("other", "40", &["--set", "model.hidden=9"]));
    let latest = checkpoints(&place.path("run")).pop().expect("a checkpoint");
    let good = fs::read(&latest).expect("readable");

    let write = |bytes: Vec<u8>| fs::write(&latest, bytes).expect("written");
    let mut flipped = good.clone();
    *flipped.last_mut().expect("not empty") ^= 1;
    refuses(&place, "run", || write(flipped), &["update-0000000040", "damaged", "remove it to continue"]);
    refuses(&place, "run", || write(good[..good.len() / 2].to_vec()), &["update-0000000040", "remove it"]);
    refuses(&place, "run", || write(Vec::new()), &["update-0000000040", "safetensors"]);
    refuses(&place, "run", || write(vec![0xff; 64]), &["update-0000000040", "safetensors"]);
    let foreign = checkpoints(&place.path("other")).pop().expect("a checkpoint");
    let foreign = fs::read(foreign).expect("readable");
    refuses(&place, "run", || write(foreign), &["another experiment"]);
    let model = fs::read(place.path("run/model.safetensors")).expect("readable");
    refuses(&place, "run", || write(model), &["update-0000000040"]);

    // As the message says: without the damaged one the run goes on from the one before.
    let whole = {
        write(good);
        weights(&place.path("run"))
    };
    fs::remove_file(&latest).expect("removed");
    place.ok(&["train", "--resume", "run", "--quiet"]);
    assert!(whole == weights(&place.path("run")));
}

#[test]
fn a_changed_configuration_does_not_fit_the_checkpoint() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "40", &[]));
    let path = place.path("run/config.toml");
    let text = fs::read_to_string(&path).expect("readable");
    let change = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replace(from, to)).expect("written");
    };
    refuses(&place, "run", || change("hidden = 8", "hidden = 16"), &["config.json", "changed"]);
    refuses(&place, "run", || change("learning_rate = ", "learning_rate = 1"), &["another experiment"]);
    fs::write(&path, text.replace("hidden = 8", "hiden = 8")).expect("written");
    let message = place.fails(2, &["train", "--resume", "run"]);
    assert!(message.contains("model.hiden") && message.contains("model.hidden"), "{message}");
}

#[test]
fn a_damaged_model_file_is_an_error() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    let path = place.path("run/model.safetensors");
    let good = fs::read(&path).expect("readable");
    let mut hostile = good.clone();
    hostile[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut flipped = good.clone();
    *flipped.last_mut().expect("not empty") ^= 64;
    for bad in [Vec::new(), good[..good.len() - 3].to_vec(), hostile, flipped] {
        fs::write(&path, bad).expect("written");
        for command in [&["eval", "run"][..], &["transfer", "run", "--lengths", "5"], &["attention", "run"]] {
            let message = place.fails(4, command);
            assert!(message.contains("model.safetensors"), "{message}");
        }
    }
    for (config, fault) in [("", "is not valid JSON (EOF"), ("{}", "does not describe a model (missing field")] {
        fs::write(place.path("run/config.json"), config).expect("written");
        for command in ["eval", "info", "sample"] {
            let message = place.fails(4, &[command, "run"]);
            assert!(message.contains(&format!("run/config.json {fault}")), "{message}");
            assert!(message.contains("restore it, or train again"), "{message}");
        }
    }
}

#[test]
fn a_folder_without_a_model_is_answered_with_where_models_come_from() {
    let place = Place::new();
    place.write("empty/readme.txt", "");
    place.write("new.csv", "id,t,x\na,1,2\n");
    for command in [&["eval"][..], &["info"], &["sample"], &["predict", "new.csv"]] {
        for (folder, fault) in [("nodir", "nodir does not exist"), ("empty", "empty is not a run directory")] {
            let message = place.fails(4, &[&command[..1], &[folder], &command[1..]].concat());
            assert!(message.contains(fault) && message.contains("`sab train` creates run directories"), "{message}");
        }
    }
}

#[test]
fn losses_that_are_not_numbers_never_reach_the_weights_and_end_the_run() {
    let place = Place::new();
    let out = place.sab(&tiny_copy(
        "run",
        "400",
        &["--lr", "1e30", "--set", "train.clip=none", "--set", "train.schedule=constant"],
    ));
    let message = stderr(&out);
    assert_eq!(out.status.code(), Some(5), "{message}");
    assert!(message.contains("10 updates in a row") && message.contains("--lr"), "{message}");
    assert!(!place.path("run/summary.json").exists());
    // The checkpoint it leaves is good: reading one refuses what is not a number. It ends the same way when resumed.
    let again = place.fails(5, &["train", "--resume", "run", "--quiet"]);
    assert!(again.contains("10 updates in a row"), "{again}");
}

#[test]
fn two_processes_cannot_train_in_one_directory() {
    let place = Place::new();
    let mut child = place.start(&tiny_copy("run", "1000000", &[]));
    let began = std::time::Instant::now();
    while !place.path("run/metrics.jsonl").exists() {
        assert!(began.elapsed().as_secs() < 60);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let message = place.fails(4, &["train", "--resume", "run", "--quiet"]);
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(message.contains("another process"), "{message}");
}

#[test]
fn a_place_that_cannot_be_written_to_is_said() {
    let place = Place::new();
    place.write("file", "in the way");
    let message = place.fails(4, &tiny_copy("file/run", "20", &[]));
    assert!(message.contains("file"), "{message}");
    assert_eq!(fs::read(place.path("file")).expect("still there"), b"in the way");
}

#[test]
fn a_full_disk_stops_the_run_with_its_last_checkpoint() {
    let place = Place::new();
    place.ok(&tiny_copy("whole", "200", &[]));
    // A limit on the size of files fails a write as a full disk does: checkpoints are larger than it, the rest is
    // smaller.
    let size = |name: &str| fs::metadata(place.path(name)).expect("a file").len();
    let blocks = size("whole/model.safetensors") / 512 + 2;
    let latest = checkpoints(&place.path("whole")).pop().expect("a checkpoint");
    assert!(fs::metadata(latest).expect("a file").len() > blocks * 512);
    let arguments = tiny_copy("full", "200", &[]);
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let out = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_sab")])
        .args(&arguments)
        .current_dir(place.path("."))
        .output()
        .expect("a shell");
    let message = stderr(&out);
    assert_eq!(out.status.code(), Some(4), "{message}");
    assert!(message.contains("cannot write") && message.contains("checkpoints"), "{message}");
    assert!(everything(&place.path("full")).iter().all(|(name, _)| !name.to_string_lossy().ends_with(".partial")));
    // With room again the run goes on, to the same end.
    place.ok(&["train", "--resume", "full", "--quiet"]);
    assert!(weights(&place.path("full")) == weights(&place.path("whole")));
}

/// A run on a file of one's own, and the file's content.
fn run_on_a_file(place: &Place, task: &str) -> String {
    let content = match task {
        "text" => "abc abd cab ".repeat(300),
        _ => {
            let rows =
                (0..60).map(|row| format!("{},{},{},{}\n", row / 3, row % 3, row * 7 % 5, ["no", "yes"][row / 3 % 2]));
            format!("id,t,x,label\n{}", rows.collect::<String>())
        }
    };
    place.write("file", &content);
    place.ok(&[&["train", task, "--file", "file", "--run", "run", "--steps", "40"], TINY].concat());
    content
}

#[test]
fn a_file_that_has_changed_since_a_run_began_is_not_silently_used() {
    for task in ["text", "csv"] {
        let place = Place::new();
        let content = run_on_a_file(&place, task);
        let judged = place.ok(&["eval", "run"]);
        // The same characters, the same columns, classes, means and deviations.
        let changed = match task {
            "text" => content.replacen("abc abd", "abd abc", 1),
            _ => content.lines().map(|line| format!("{line}\r\n")).collect(),
        };
        place.write("file", &changed);
        let before = everything(&place.path("run"));
        for command in [&["train", "--resume", "run", "--quiet"][..], &["eval", "run"], &["attention", "run"]] {
            let message = place.fails(3, command);
            let parts = ["file has changed since the run run began", "put the old one back", "sab eval run --file"];
            assert!(parts.iter().all(|part| message.contains(part)), "{task}, {command:?}: {message}");
        }
        assert!(before == everything(&place.path("run")));
        place.ok(&["eval", "run", "--file", "file"]);
        // Runs of older versions kept no digest.
        let mut config = place.json("run/config.json");
        assert!(config["facts"].as_object_mut().expect("facts").remove("sha256").is_some());
        let kept = fs::read(place.path("run/config.json")).expect("readable");
        place.write("run/config.json", config.to_string());
        place.ok(&["train", "--resume", "run", "--quiet"]);

        place.write("run/config.json", kept);
        place.write("file", &content);
        assert_eq!(place.ok(&["eval", "run"]), judged);
        place.ok(&["train", "--resume", "run", "--quiet"]);
    }
}

#[test]
fn a_file_that_has_moved_is_found_where_the_configuration_says() {
    for task in ["text", "csv"] {
        let place = Place::new();
        run_on_a_file(&place, task);
        let judged = place.ok(&["eval", "run"]);
        fs::create_dir(place.path("elsewhere")).expect("a folder");
        fs::rename(place.path("file"), place.path("elsewhere/file")).expect("moved");
        for command in [&["train", "--resume", "run", "--quiet"][..], &["eval", "run"]] {
            let message = place.fails(3, command);
            assert!(message.contains("run/config.toml") && message.contains("`task.file`"), "{message}");
        }
        let config = fs::read_to_string(place.path("run/config.toml")).expect("readable");
        let (old, new) = (place.path("file"), place.path("elsewhere/file"));
        let moved = config.replace(&old.display().to_string(), &new.display().to_string());
        assert_ne!(config, moved);
        place.write("run/config.toml", moved);
        assert_eq!(place.ok(&["eval", "run"]), judged);
        place.ok(&["train", "--resume", "run", "--quiet"]);
    }
}
