//! Runs that are stopped, killed and resumed end as if nothing had happened.
#![cfg(unix)]

mod common;

use common::{Place, TINY, checkpoints, metrics, stderr, tiny_copy, weights};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

/// Numbers that differ from run to run of the tests: kills must be survived wherever they fall.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        Self(now.as_nanos() as u64 | 1)
    }

    fn milliseconds(&mut self, from: u64, to: u64) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(from + self.0 % (to - from))
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} has not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The update of the last line of metrics.
fn last_update(run: &Path) -> u64 {
    metrics(run).iter().filter_map(|line| line["update"].as_u64()).max().unwrap_or(0)
}

fn latest_checkpoint(run: &Path) -> u64 {
    let of_name = |path: &std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        name.trim_start_matches("update-").parse().expect("a number")
    };
    if run.join("checkpoints").exists() { checkpoints(run).last().map_or(0, of_name) } else { 0 }
}

/// Kills a run at random moments, `kills` times, resumes it each time, lets it end, and compares it with `whole`. Where
/// the run is done before the last kill it is compared and begun again: how many kills a run meets is the machine's
/// affair.
fn survives_kills(
    place: &Place, begin: &[&str], run: &str, whole: &str, kills: usize, most_lost: u64, pause: (u64, u64),
) {
    let path = place.path(run);
    let mut chance = Chance::new();
    let mut child = place.start(begin);
    let mut done = 0;
    while done < kills {
        std::thread::sleep(chance.milliseconds(pause.0, pause.1));
        if let Some(status) = child.try_wait().expect("it can be asked") {
            assert!(status.success(), "{run} ended with {status} after {done} kills");
            same_run(place, run, whole, done);
            std::fs::remove_dir_all(&path).expect("removed");
            child = place.start(begin);
            continue;
        }
        signal(&child, "KILL");
        child.wait().expect("it is gone");
        done += 1;
        // A run exists with all it needs, or not at all.
        let (seen, saved) = (last_update(&path), latest_checkpoint(&path));
        assert!(seen <= saved + most_lost, "kill {done}: {seen} updates seen, checkpoint at {saved}");
        let next =
            if path.exists() { vec!["train", "--resume", run, "--quiet", "--threads", "1"] } else { begin.to_vec() };
        child = place.start(&next);
    }
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{run} ended with {status} after {done} kills");
    same_run(place, run, whole, done);
}

fn same_run(place: &Place, run: &str, whole: &str, kills: usize) {
    let (path, whole) = (place.path(run), place.path(whole));
    assert!(weights(&path) == weights(&whole), "{run}: other weights after {kills} kills");
    assert_eq!(metrics(&path), metrics(&whole), "{run}: other metrics after {kills} kills");
    let attention = |run: &Path| std::fs::read_to_string(run.join("attention.jsonl")).expect("it is there");
    assert!(attention(&path) == attention(&whole), "{run}: other attention after {kills} kills");
    let metrics = |run: &Path| place.json(&run.join("summary.json").to_string_lossy())["test"].clone();
    assert_eq!(metrics(&path), metrics(&whole));
}

#[test]
fn twenty_kills_at_random_moments_lose_nothing() {
    let place = Place::new();
    place.ok(&long_copy("whole"));
    survives_kills(&place, &long_copy("killed"), "killed", "whole", 25, 100, (10, 150));
}

/// Some seconds of training, with a checkpoint every tenth of a second or so.
fn long_copy(run: &str) -> Vec<&str> {
    let more = ["--set", "task.length=20", "--set", "train.checkpoint_every=100", "--set", "train.log_every=5"];
    let more = more.into_iter().chain(["--set", "train.attention_every=200"]);
    tiny_copy(run, "5000", &[]).into_iter().chain(more).collect()
}

fn interrupted_by(name: &str, code: i32) {
    let place = Place::new();
    place.ok(&long_copy("whole"));
    let mut child = place.start(&long_copy("stopped"));
    let path = place.path("stopped");
    wait_until("the first updates", || last_update(&path) > 130);
    signal(&child, name);
    assert_eq!(child.wait().expect("it ends").code(), Some(code));
    let saved = latest_checkpoint(&path);
    assert!(saved >= last_update(&path), "the checkpoint is of the very update");
    assert!(!path.join("summary.json").exists());
    place.ok(&["train", "--resume", "stopped", "--quiet", "--threads", "1"]);
    assert!(weights(&path) == weights(&place.path("whole")), "other weights");
    assert_eq!(metrics(&path), metrics(&place.path("whole")));
}

#[test]
fn ctrl_c_saves_and_the_run_goes_on_bit_for_bit() {
    interrupted_by("INT", 130);
}

#[test]
fn sigterm_saves_and_the_run_goes_on_bit_for_bit() {
    interrupted_by("TERM", 143);
}

#[test]
fn an_evaluation_that_is_stopped_keeps_the_lengths_that_are_done() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "20", &[]));
    for (name, code, word) in [("INT", 130, "Ctrl-C"), ("TERM", 143, "SIGTERM")] {
        // The second length takes hours.
        let lengths = ["transfer", "run", "--lengths", "5,900000000", "--sequences", "2", "--set", "model.k_top=0"];
        let mut command = place.command(&lengths);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        wait_until("the first length", || place.path("run/transfer.json").exists());
        std::thread::sleep(Duration::from_millis(200));
        signal(&child, name);
        let out = child.wait_with_output().expect("it ends");
        assert_eq!(out.status.code(), Some(code), "{}", stderr(&out));
        let message = format!("error: stopped by {word}: 1 length of 2 saved in run/transfer.json\n");
        assert!(stderr(&out).ends_with(&message), "{}", stderr(&out));
        let found = place.json("run/transfer.json");
        assert_eq!(found["changed"][0]["lengths"].as_array().map(Vec::len), Some(1));
        let left: Vec<_> = std::fs::read_dir(place.path("run")).expect("a folder").flatten().collect();
        assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("partial")));
        std::fs::remove_file(place.path("run/transfer.json")).expect("removed");
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let place = Place::new();
    // One update of this takes many seconds.
    let slow = ["--set", "task.length=4000", "--set", "model.hidden=256", "--set", "train.batch=64"];
    let mut child = place.start(&tiny_copy("slow", "100", &slow));
    wait_until("the run", || place.path("slow/.lock").exists());
    std::thread::sleep(Duration::from_millis(1000));
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("it can be asked").is_none(), "the first asks for a checkpoint");
    let began = Instant::now();
    signal(&child, "INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(checkpoints(&place.path("slow")).is_empty());
}

#[test]
fn a_finished_run_resumes_to_itself() {
    let place = Place::new();
    place.ok(&tiny_copy("run", "50", &[]));
    let before = (weights(&place.path("run")), metrics(&place.path("run")));
    let again = stderr(&place.sab(&["train", "--resume", "run"]));
    assert!(again.contains("; all 50 updates are done\n") && !again.contains("Ctrl-C"), "{again}");
    assert!(before == (weights(&place.path("run")), metrics(&place.path("run"))));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let place = Place::new();
    place.ok(&tiny_copy("one", "60", &[]));
    let four = tiny_copy("four", "60", &[]);
    let four: Vec<&str> = four.iter().map(|word| if *word == "1" { "4" } else { word }).collect();
    place.ok(&four);
    assert!(weights(&place.path("one")) == weights(&place.path("four")));
}

#[test]
fn runs_with_another_seed_differ() {
    let place = Place::new();
    place.ok(&tiny_copy("one", "20", &[]));
    place.ok(&tiny_copy("two", "20", &["--seed", "2"]));
    assert!(weights(&place.path("one")).1 != weights(&place.path("two")).1);
}

/// Every other task, with data made here: kills must not change what comes out.
mod every_task {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn idx(magic: u32, sizes: &[u32], content: impl Iterator<Item = u8>) -> Vec<u8> {
        let head = [&[magic][..], sizes].concat();
        gzip(&head.iter().flat_map(|number| number.to_be_bytes()).chain(content).collect::<Vec<u8>>())
    }

    fn pixels(count: u32) -> impl Iterator<Item = u8> {
        (0..count).map(|place| (place.wrapping_mul(2_654_435_761) >> 24) as u8)
    }

    fn data(place: &Place) {
        for (name, count) in [("train", 40_u32), ("t10k", 12)] {
            let images = idx(2051, &[count, 28, 28], pixels(count * 784));
            let labels = idx(2049, &[count], (0..count).map(|label| (label % 10) as u8));
            place.write(&format!("data/mnist/{name}-images-idx3-ubyte.gz"), images);
            place.write(&format!("data/mnist/{name}-labels-idx1-ubyte.gz"), labels);
        }
        let record = |label: u32| std::iter::once((label % 10) as u8).chain(pixels(3072));
        for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"] {
            place.write(
                &format!("data/cifar10/cifar-10-batches-bin/{name}.bin"),
                (0..8).flat_map(record).collect::<Vec<u8>>(),
            );
        }
        let words = ["the cat sat on a mat ", "no dog ran in the fog ", "we saw it all from here "];
        let text: String = (0..400).map(|place| words[place * 7 % 3]).collect();
        place.write("data/text8/text8", &text);
        place.write("book.txt", &text);
        for name in ["train", "valid", "test"] {
            place
                .write(&format!("data/ptb/ptb.{name}.txt"), " the cat sat on <unk> N mats \n no dog ran \n".repeat(60));
        }
        let mut table = "id,step,x,y,label\n".to_string();
        for (id, step) in (0..30).flat_map(|id| (0..3 + id % 4).map(move |step| (id, step))) {
            table += &format!("s{id},{step},{},{},{}\n", id % 3, step * id % 5, ["up", "down"][id % 2]);
        }
        place.write("table.csv", table);
    }

    fn task_survives(arguments: &[&str]) {
        let place = Place::new();
        data(&place);
        fn all<'a>(arguments: &[&'a str], run: &'a str) -> Vec<&'a str> {
            let few =
                ["--set", "train.checkpoint_every=4", "--set", "train.log_every=1", "--set", "train.validate_every=8"];
            [&["train"][..], arguments, TINY, &few, &["--run", run]].concat()
        }
        place.ok(&all(arguments, "whole"));
        survives_kills(&place, &all(arguments, "killed"), "killed", "whole", 5, 4, (10, 60));
    }

    #[test]
    fn adding() {
        task_survives(&["adding", "--length", "30", "--steps", "600"]);
    }

    #[test]
    fn penn_treebank() {
        task_survives(&["ptb", "--length", "20", "--steps", "600"]);
    }

    #[test]
    fn text8() {
        task_survives(&["text8", "--length", "20", "--steps", "600"]);
    }

    #[test]
    fn a_text() {
        task_survives(&["text", "--file", "book.txt", "--length", "20", "--steps", "600"]);
    }

    #[test]
    fn permuted_mnist() {
        task_survives(&["pmnist", "--steps", "24", "--set", "task.validation=8"]);
    }

    #[test]
    fn cifar10() {
        task_survives(&["cifar10", "--steps", "20", "--set", "task.validation=8"]);
    }

    #[test]
    fn a_table() {
        task_survives(&["csv", "--file", "table.csv", "--steps", "600"]);
    }

    #[test]
    fn a_stream() {
        let small = ["--set", "task.open=2", "--set", "task.names=3", "--set", "model.capacity=20"];
        let cut = ["--set", "train.update_every=7", "--set", "task.validation=4", "--set", "task.test=4"];
        task_survives(&[&["stream", "--length", "30", "--steps", "1500"][..], &small, &cut].concat());
    }

    #[test]
    fn a_stream_with_credit_across_updates() {
        let small = ["--set", "task.open=2", "--set", "task.names=3", "--set", "model.capacity=20"];
        let cut = ["--set", "train.update_every=7", "--set", "task.validation=4", "--set", "task.test=4"];
        let credit = ["--set", "model.credit_across_calls=true", "--set", "model.trunc_phase=0"];
        task_survives(&[&["stream", "--length", "30", "--steps", "1000"][..], &small, &cut, &credit].concat());
    }

    #[test]
    fn updates_inside_a_sequence() {
        task_survives(&["copy", "--length", "5", "--steps", "1500", "--set", "train.update_every=9"]);
    }

    #[test]
    fn a_text_as_a_stream() {
        let stream = ["--set", "task.stream=true", "--set", "model.capacity=10"];
        task_survives(&[&["text", "--file", "book.txt", "--length", "20", "--steps", "600"][..], &stream].concat());
    }

    #[test]
    fn a_transformer() {
        let small = ["--set", "model.heads=2", "--set", "model.feed_forward=16", "--set", "model.layers=1"];
        task_survives(
            &[&["copy", "--length", "5", "--steps", "80", "--set", "model.kind=transformer"][..], &small].concat(),
        );
    }
}
