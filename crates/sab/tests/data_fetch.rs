//! Fetching checks what arrives, keeps what is right and leaves nothing behind when it fails.

mod data_support;

use data_support::*;
use sab::data::{
    CATALOGUE, Check, DataSet, FetchOptions, FileReport, KnownFile, Verdict, data_set, fetch, fetch_set, verify,
    verify_set,
};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn known<'a>(file: &'a str, bytes: u64, check: Check<'a>, locations: &'a [&'a str]) -> KnownFile<'a> {
    KnownFile { file, bytes, check, prefixes: &[], locations }
}

/// A server that answers every request with the same bytes, and how often it was asked.
fn server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/files/", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = Vec::new();
            let mut buffer = [0; 1024];
            while !request.windows(4).any(|w| w == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(n) if n > 0 => request.extend_from_slice(&buffer[..n]),
                    _ => break,
                }
            }
            assert!(request.starts_with(b"GET /files/set.bin "), "{}", String::from_utf8_lossy(&request));
            count.fetch_add(1, Ordering::SeqCst);
            answer(&mut stream);
        }
    });
    (url, asked)
}

fn response(body: &[u8], length: Option<usize>) -> Vec<u8> {
    let length = length.map(|n| format!("Content-Length: {n}\r\n")).unwrap_or_default();
    // Marked as gzip although it is the file itself: it must arrive as it is.
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n{length}Connection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

fn content() -> Vec<u8> {
    (0..200_000u32).map(|i| (i * 7 % 256) as u8).collect()
}

/// Fetches a set of one file from a mirror that answers as given.
struct Attempt {
    dir: tempfile::TempDir,
    result: sab::data::Result<Vec<PathBuf>>,
    progress: Vec<(u64, Option<u64>)>,
}

fn attempt(dir: tempfile::TempDir, mirror: &str, check: Check, bytes: u64) -> Attempt {
    let download = known("set.bin", bytes, check, &[]);
    let (downloads, options) = ([download], options(mirror));
    let set = DataSet { name: "demo", title: "", downloads: &downloads, unpacked: &[], folders: &[""], terms: "" };
    let mut progress = Vec::new();
    let mut note = |file: &str, done, total| {
        assert_eq!(file, "set.bin");
        progress.push((done, total));
    };
    let result = fetch_set(&set, dir.path(), &options, &mut note);
    Attempt { dir, result, progress }
}

fn options(mirror: &str) -> FetchOptions {
    FetchOptions { mirror: Some(mirror.into()), patience: Duration::from_millis(400) }
}

fn attempt_content(mirror: &str) -> Attempt {
    let sum = sha256(&content());
    attempt(tempfile::tempdir().unwrap(), mirror, Check::Sha256(&sum), content().len() as u64)
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[track_caller]
fn fails(attempt: Attempt, parts: &[&str]) {
    says(attempt.result, parts);
    assert!(files(attempt.dir.path()).is_empty(), "something was left behind");
    assert!(!attempt.dir.path().join("demo").exists());
}

#[test]
fn a_good_file_arrives_once_with_progress_and_is_kept_afterwards() {
    for length in [Some(content().len()), None] {
        let (url, asked) = server(move |s| _ = s.write_all(&response(&content(), length)));
        let first = attempt_content(&url);
        let paths = first.result.unwrap();
        assert_eq!(paths, [first.dir.path().join("demo/set.bin")]);
        assert_eq!(std::fs::read(&paths[0]).unwrap(), content());
        assert_eq!(first.progress.first(), Some(&(0, Some(200_000))));
        assert_eq!(first.progress.last(), Some(&(200_000, Some(200_000))));
        let second = attempt(first.dir, &url, Check::Sha256(&sha256(&content())), 200_000);
        assert_eq!(second.result.unwrap(), paths);
        assert!(second.progress.is_empty());
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!(files(second.dir.path()).len(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&paths[0]).unwrap().permissions().mode();
            assert_ne!(mode & 0o777, 0o600, "the file is as private as a temporary one");
        }
    }
}

#[test]
fn a_wrong_file_that_is_there_is_replaced() {
    let (url, _) = server(|s| _ = s.write_all(&response(&content(), None)));
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "demo/set.bin", "wrong");
    let attempt = attempt(dir, &url, Check::Sha256(&sha256(&content())), 200_000);
    assert_eq!(std::fs::read(&attempt.result.unwrap()[0]).unwrap(), content());
}

#[test]
fn a_failed_download_leaves_the_old_file_as_it_was() {
    let (url, _) = server(|s| _ = s.write_all(&response(&[0; 200_000], None)));
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "demo/set.bin", "wrong");
    let attempt = attempt(dir, &url, Check::Sha256(&sha256(&content())), 200_000);
    says(attempt.result, &["the downloaded file has the sha256"]);
    assert_eq!(files(attempt.dir.path()).len(), 1);
    assert_eq!(std::fs::read(attempt.dir.path().join("demo/set.bin")).unwrap(), b"wrong");
}

#[test]
fn a_wrong_digest_is_an_error_that_names_both() {
    let mut wrong = content();
    wrong[100] ^= 1;
    let sums = (sha256(&wrong), sha256(&content()));
    let (url, _) = server(move |s| _ = s.write_all(&response(&wrong, None)));
    fails(attempt_content(&url), &["set.bin", "has the sha256", &sums.0, &sums.1, "--mirror URL"]);
}

#[test]
fn a_file_that_is_too_long_or_too_short_is_an_error() {
    let (url, _) = server(|s| _ = s.write_all(&response(b"short", Some(5))));
    fails(attempt_content(&url), &["the server has a file of 5 bytes, not of 200000"]);
    let (url, _) = server(|s| _ = s.write_all(&response(b"short", None)));
    fails(attempt_content(&url), &["the downloaded file has 5 bytes, not 200000"]);
    // A server that never ends is cut off.
    let (url, _) = server(|s| {
        _ = s.write_all(&response(&[], None));
        while s.write_all(&[0; 4096]).is_ok() {}
    });
    fails(attempt_content(&url), &["sends more than 200000 bytes"]);
}

#[test]
fn http_errors_are_explained() {
    let (url, _) = server(|s| _ = s.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
    fails(attempt_content(&url), &[&format!("{url}set.bin"), "the server does not have it (HTTP 404)"]);
    let (url, _) = server(|s| _ = s.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"));
    fails(attempt_content(&url), &["HTTP 503"]);
    let (url, _) = server(|s| _ = s.write_all(b"complete nonsense\r\n\r\n"));
    fails(attempt_content(&url), &["cannot download set.bin"]);
}

#[test]
fn a_broken_connection_is_an_error() {
    let (url, _) = server(|s| _ = s.write_all(&response(&content()[..70_000], Some(200_000))));
    fails(attempt_content(&url), &["the connection broke after", "of 200000 bytes"]);
    let (url, _) = server(|_| {});
    fails(attempt_content(&url), &["cannot download set.bin"]);
}

#[test]
fn a_silent_server_is_given_up() {
    let started = Instant::now();
    let (url, _) = server(|_| std::thread::sleep(Duration::from_secs(20)));
    fails(attempt_content(&url), &["does not answer in time"]);
    let (url, _) = server(|s| {
        _ = s.write_all(&response(&content()[..1000], None));
        std::thread::sleep(Duration::from_secs(20));
    });
    fails(attempt_content(&url), &["the connection broke after 1000 of 200000 bytes"]);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn no_server_and_no_url_are_errors() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fails(attempt_content(&format!("http://127.0.0.1:{port}")), &["no connection to the server"]);
    fails(attempt_content("no url"), &["cannot download set.bin: no url/set.bin"]);
    fails(attempt_content("ftp://127.0.0.1"), &["cannot download set.bin"]);
}

#[test]
fn the_second_location_serves_when_the_first_fails() {
    let (bad, _) = server(|s| _ = s.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    let (good, _) = server(|s| _ = s.write_all(&response(&content(), None)));
    let sum = sha256(&content());
    let locations = [bad.as_str(), good.as_str()];
    let downloads = [known("set.bin", 200_000, Check::Sha256(&sum), &locations)];
    let set = DataSet { name: "demo", title: "", downloads: &downloads, unpacked: &[], folders: &[""], terms: "" };
    let dir = tempfile::tempdir().unwrap();
    assert!(fetch_set(&set, dir.path(), &FetchOptions::default(), &mut |_, _, _| {}).is_ok());
}

#[test]
fn an_archive_can_be_checked_by_its_members() {
    let text = b"some text".to_vec();
    let sum = sha256(&text);
    let members = [known("a.txt", 9, Check::Sha256(&sum), &[])];
    let good = tar_gz(&[("deep/er/a.txt".into(), text), ("b.txt".into(), b"else".to_vec())]);
    let wrong = tar_gz(&[("a.txt".into(), b"sametext".to_vec())]);
    let empty = tar_gz(&[("b.txt".into(), b"else".to_vec())]);
    let garbage = vec![7; 100];
    let cases =
        [(good, ""), (wrong, "has a member a.txt with the sha256"), (empty, "lacks the member a.txt"), (garbage, "")];
    for (i, (archive, problem)) in cases.into_iter().enumerate() {
        let bytes = archive.len() as u64;
        let (url, _) = server(move |s| _ = s.write_all(&response(&archive, None)));
        let attempt = attempt(tempfile::tempdir().unwrap(), &url, Check::Members(&members), bytes);
        if i == 0 { assert!(attempt.result.is_ok()) } else { fails(attempt, &[problem]) }
    }
}

#[test]
fn an_unwritable_place_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "demo", "a file where the folder should be");
    says(attempt(dir, "http://127.0.0.1:1", Check::Sha256(""), 1).result, &["cannot write", "demo"]);
}

#[test]
fn an_unknown_set_is_an_error_with_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |name: &str| fetch(name, dir.path(), None, &mut |_, _, _| {});
    says(ask("minst"), &["no data set `minst`; did you mean `mnist`?"]);
    says(ask("CIFAR-10"), &["did you mean `cifar10`?"]);
    says(ask("imagenet"), &["no data set `imagenet`; the data sets are mnist, ptb, text8, cifar10"]);
    says(ask(""), &["no data set ``"]);
}

#[test]
fn the_catalogue_is_sound() {
    let digest = |sum: &str| sum.len() == 64 && sum.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    for set in CATALOGUE {
        assert_eq!(data_set(set.name).unwrap().name, set.name);
        assert!(!set.terms.is_empty() && !set.title.is_empty() && !set.folders.is_empty());
        let members = set.downloads.iter().flat_map(|d| {
            assert!(!d.locations.is_empty());
            assert!(d.locations.iter().all(|l| l.starts_with("http") && !l.ends_with('/')));
            if let Check::Members(members) = d.check { members } else { &[] }
        });
        for known in set.downloads.iter().chain(members).chain(set.unpacked.iter().copied().flatten()) {
            let sum = if let Check::Sha256(sum) = known.check { digest(sum) } else { known.file.ends_with(".tgz") };
            assert!(sum && known.bytes > 0, "{}", known.file);
            assert!(known.prefixes.iter().all(|(length, sum)| *length < known.bytes && digest(sum)));
            assert!(known.prefixes.is_sorted());
        }
    }
}

fn verdicts(reports: &[FileReport]) -> Vec<(String, Verdict)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    reports.iter().map(|report| (name(&report.path), report.verdict.clone())).collect()
}

#[test]
fn verify_tells_good_wrong_prefix_and_missing_files_apart() {
    let (a, b) = (content(), b"labels".to_vec());
    let (sum_a, sum_b, sum_start) = (sha256(&a), sha256(&b), sha256(&a[..1000]));
    let prefixes = [(1000, sum_start.as_str())];
    let unpacked = [
        KnownFile { prefixes: &prefixes, ..known("a", a.len() as u64, Check::Sha256(&sum_a), &[]) },
        known("b", b.len() as u64, Check::Sha256(&sum_b), &[]),
    ];
    let packed_b = gzip(&b);
    let sum_packed = sha256(&packed_b);
    let downloads = [
        known("a.gz", 1, Check::Sha256(&sum_a), &[]),
        known("b.gz", packed_b.len() as u64, Check::Sha256(&sum_packed), &[]),
    ];
    let forms = [&unpacked[..]];
    let set =
        DataSet { name: "demo", title: "", downloads: &downloads, unpacked: &forms, folders: &["in", ""], terms: "" };
    let dir = tempfile::tempdir().unwrap();
    let check = || verdicts(&verify_set(&set, dir.path()).unwrap());
    assert_eq!(check(), []);

    put(dir.path(), "demo/in/a", &a);
    assert_eq!(check(), [("a".into(), Verdict::Good), ("b".into(), Verdict::Missing)]);
    put(dir.path(), "demo/b.gz", &packed_b);
    assert_eq!(check(), [("b.gz".into(), Verdict::Good), ("a".into(), Verdict::Good)]);
    std::fs::remove_file(dir.path().join("demo/b.gz")).unwrap();
    put(dir.path(), "demo/b", &b);
    assert_eq!(check(), [("a".into(), Verdict::Good), ("b".into(), Verdict::Good)]);
    // Unpacked, complete and right: nothing to download.
    let paths = fetch_set(&set, dir.path(), &options("http://127.0.0.1:1"), &mut |_, _, _| {}).unwrap();
    assert_eq!(paths, [dir.path().join("demo/in/a"), dir.path().join("demo/b")]);

    put(dir.path(), "demo/in/a", &a[..1000]);
    assert_eq!(check()[0].1, Verdict::Prefix("the first 1000 of 200000 bytes".into()));
    put(dir.path(), "demo/in/a", &a[..1500]);
    let part = "the first 1500 of 200000 bytes, of which 1000 could be checked";
    assert_eq!(check()[0].1, Verdict::Prefix(part.into()));
    put(dir.path(), "demo/in/a", &a[1..1500]);
    assert_eq!(check()[0].1, Verdict::Wrong("does not begin like a".into()));
    put(dir.path(), "demo/in/a", &a[..999]);
    assert_eq!(check()[0].1, Verdict::Wrong("has 999 bytes, not 200000".into()));
    put(dir.path(), "demo/b", b"label5");
    assert!(matches!(&check()[1].1, Verdict::Wrong(text) if text.contains("sha256")));
    put(dir.path(), "demo/b", b"labels and more");
    assert_eq!(check()[1].1, Verdict::Wrong("has 15 bytes, not 6".into()));
}

#[test]
fn verify_looks_at_every_set_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(verify(dir.path()).unwrap(), []);
    put(dir.path(), "mnist/t10k-labels-idx1-ubyte.gz", gzip(&idx_labels(3)));
    put(dir.path(), "text8/text8", "short");
    let reports = verify(dir.path()).unwrap();
    let sets: Vec<&str> = reports.iter().map(|report| report.set.as_str()).collect();
    assert_eq!(sets, ["mnist", "mnist", "mnist", "mnist", "text8"]);
    assert!(matches!(reports[0].verdict, Verdict::Wrong(_)) && matches!(reports[4].verdict, Verdict::Wrong(_)));
    assert!(reports[1..4].iter().all(|report| report.verdict == Verdict::Missing));
    says(verify(&dir.path().join("nowhere")), &["nowhere does not exist"]);
}
