//! The image loaders take good files and name what is wrong with bad ones.

mod data_support;

use data_support::*;
use sab::data::{load_cifar10, load_mnist};
use std::path::Path;

const MNIST: [&str; 4] =
    ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

fn mnist_files() -> [Vec<u8>; 4] {
    [idx_images(12), idx_labels(12), idx_images(3), idx_labels(3)]
}

fn put_mnist(dir: &Path) {
    for (name, bytes) in MNIST.iter().zip(mnist_files()) {
        put(dir, &format!("mnist/{name}.gz"), gzip(&bytes));
    }
}

#[test]
fn mnist_is_read_gzipped_unpacked_and_without_its_folder() {
    let layouts: [(&str, bool); 4] = [("mnist/", true), ("mnist/", false), ("", true), ("", false)];
    for (folder, packed) in layouts {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in MNIST.iter().zip(mnist_files()) {
            if packed {
                put(dir.path(), &format!("{folder}{name}.gz"), gzip(&bytes));
            } else {
                put(dir.path(), &format!("{folder}{name}"), bytes);
            }
        }
        let set = load_mnist(dir.path()).unwrap();
        assert_eq!((set.train.len(), set.test.len()), (12, 3));
        assert_eq!((set.train.steps, set.train.channels), (784, 1));
        assert_eq!(set.train.labels[..4], [0, 1, 2, 3]);
        assert_eq!(set.train.pixels_of(1)[..2], [(784 % 251) as u8, (785 % 251) as u8]);
        assert_eq!(set.test.pixels_of(2).len(), 784);
    }
}

#[test]
fn a_file_with_gz_in_its_name_may_be_unpacked_already() {
    let dir = tempfile::tempdir().unwrap();
    put_mnist(dir.path());
    put(dir.path(), "mnist/train-images-idx3-ubyte.gz", idx_images(12));
    assert_eq!(load_mnist(dir.path()).unwrap().train.len(), 12);
}

#[test]
fn a_missing_mnist_file_is_named_with_the_command_that_gets_it() {
    for name in MNIST {
        let dir = tempfile::tempdir().unwrap();
        put_mnist(dir.path());
        std::fs::remove_file(dir.path().join(format!("mnist/{name}.gz"))).unwrap();
        says(load_mnist(dir.path()), &[name, "does not exist", "sab data fetch mnist --data-dir"]);
    }
    says(load_mnist(Path::new("/no such place")), &["does not exist", "--data-dir '/no such place'` to download it"]);
}

#[test]
fn a_truncated_mnist_file_is_an_error_wherever_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    put_mnist(dir.path());
    for (name, bytes) in MNIST.iter().zip(mnist_files()) {
        let path = format!("mnist/{name}.gz");
        let packed = gzip(&bytes);
        let packed_ends =
            (0..40).chain((40..packed.len()).step_by(61)).chain(packed.len().saturating_sub(9)..packed.len());
        for end in packed_ends.filter(|end| *end < packed.len()) {
            put(dir.path(), &path, &packed[..end]);
            says(load_mnist(dir.path()), &[name, "download it again"]);
        }
        for end in (0..30).chain((30..bytes.len()).step_by(997)).chain([bytes.len() - 1]).filter(|e| *e < bytes.len()) {
            put(dir.path(), &path, &bytes[..end]);
            says(load_mnist(dir.path()), &[name, if end == 0 { "is empty" } else { "is truncated" }]);
        }
        put(dir.path(), &path, packed);
    }
    put(dir.path(), "mnist/train-images-idx3-ubyte.gz", &idx_images(12)[..1203]);
    says(
        load_mnist(dir.path()),
        &["is truncated: the header promises 12 images (9424 bytes) but only 1187 bytes follow"],
    );
}

#[test]
fn corrupt_gzip_wrong_magic_and_swapped_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    put_mnist(dir.path());
    let images = "mnist/train-images-idx3-ubyte.gz";
    let mut corrupt = gzip(&idx_images(12));
    let middle = corrupt.len() / 2;
    corrupt[middle..middle + 20].fill(0xaa);
    put(dir.path(), images, corrupt);
    says(load_mnist(dir.path()), &["corrupt", "download it again"]);

    let mut wrong_sum = gzip(&idx_images(12));
    let end = wrong_sum.len();
    wrong_sum[end - 6] ^= 1;
    put(dir.path(), images, wrong_sum);
    says(load_mnist(dir.path()), &["corrupt"]);

    put(dir.path(), images, gzip(b"<html>404 not found</html>"));
    says(load_mnist(dir.path()), &["is not an idx file of images: it begins with 0x3c68746d"]);

    put(dir.path(), images, gzip(&idx_labels(12)));
    says(load_mnist(dir.path()), &["mislabelled file: it holds labels, not images"]);
    put_mnist(dir.path());
    put(dir.path(), "mnist/t10k-labels-idx1-ubyte.gz", gzip(&idx_images(3)));
    says(load_mnist(dir.path()), &["t10k-labels", "mislabelled file: it holds images, not labels"]);
}

#[test]
fn hostile_headers_and_contents_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("images", header([0x803, u32::MAX, 28, 28]), "promises 4294967295 images"),
        ("images", header([0x803, 1, u32::MAX, u32::MAX]), "images of 4294967295x4294967295 pixels"),
        ("images", header([0x803, 1_000_000, 28, 28]), "promises 1000000 images (784000016 bytes)"),
        ("images", header([0x803, 0, 28, 28]), "holds no images"),
        ("images", [idx_images(12), vec![0]].concat(), "but more follow"),
        ("images", idx_images(11), "holds 11 images but the label file beside it holds 12 labels"),
    ];
    for (part, bytes, text) in cases {
        put_mnist(dir.path());
        put(dir.path(), &format!("mnist/train-{part}-idx3-ubyte.gz"), gzip(&bytes));
        says(load_mnist(dir.path()), &[text]);
    }
    put_mnist(dir.path());
    let mut labels = idx_labels(12);
    labels[8 + 5] = 10;
    put(dir.path(), "mnist/train-labels-idx1-ubyte.gz", labels);
    says(load_mnist(dir.path()), &["has label 10 at image 5, but labels are 0 to 9"]);
}

fn header(words: [u32; 4]) -> Vec<u8> {
    words.map(u32::to_be_bytes).concat()
}

fn cifar_members(images: usize) -> Vec<(String, Vec<u8>)> {
    let batch = |(i, name): (usize, &&str)| (format!("cifar-10-batches-bin/{name}"), cifar_batch(images + i));
    BATCHES.iter().enumerate().map(batch).collect()
}

#[test]
fn cifar10_is_the_same_from_the_archive_and_unpacked_with_colours_side_by_side() {
    let (packed, unpacked) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    put(packed.path(), "cifar10/cifar-10-binary.tar.gz", tar_gz(&cifar_members(2)));
    for (name, bytes) in cifar_members(2) {
        put(unpacked.path(), &format!("cifar10/{name}"), bytes);
    }
    let set = load_cifar10(packed.path()).unwrap();
    assert_eq!(set, load_cifar10(unpacked.path()).unwrap());
    assert_eq!((set.train.len(), set.test.len()), (2 + 3 + 4 + 5 + 6, 7));
    assert_eq!((set.train.steps, set.train.channels), (1024, 3));
    let record = &cifar_batch(2)[3073..];
    let image = set.train.pixels_of(1);
    for step in [0, 1, 500, 1023] {
        assert_eq!(image[3 * step..3 * step + 3], [record[1 + step], record[1025 + step], record[2049 + step]]);
    }
    assert_eq!(set.train.labels[..5], [0, 1, 0, 1, 2]);
}

#[test]
fn a_fetched_cifar10_archive_prevails_over_a_broken_unpacked_file() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "cifar10/cifar-10-batches-bin/data_batch_1.bin", "broken");
    says(
        load_cifar10(dir.path()),
        &["data_batch_1.bin is truncated or not a CIFAR-10 batch", "sab data fetch cifar10"],
    );
    put(dir.path(), "cifar10/cifar-10-binary.tar.gz", tar_gz(&cifar_members(1)));
    assert!(load_cifar10(dir.path()).is_ok());
}

#[test]
fn bad_cifar10_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    says(load_cifar10(dir.path()), &["cifar10/cifar-10-batches-bin/data_batch_1.bin does not exist"]);
    let test = "cifar10/cifar-10-batches-bin/test_batch.bin";
    for (name, bytes) in cifar_members(1) {
        put(dir.path(), &format!("cifar10/{name}"), bytes);
    }
    let good = cifar_batch(2);
    for end in [1, 2, 3072, 3074, 6145] {
        put(dir.path(), test, &good[..end]);
        says(load_cifar10(dir.path()), &["test_batch.bin is truncated", &format!("{end} bytes")]);
    }
    put(dir.path(), test, "");
    says(load_cifar10(dir.path()), &["test_batch.bin is empty"]);
    let mut label = good.clone();
    label[3073] = 200;
    put(dir.path(), test, label);
    says(load_cifar10(dir.path()), &["has label 200 at image 1"]);
    std::fs::remove_file(dir.path().join(test)).unwrap();
    says(load_cifar10(dir.path()), &["test_batch.bin does not exist"]);
}

#[test]
fn bad_cifar10_archives_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let archive = "cifar10/cifar-10-binary.tar.gz";
    let good = tar_gz(&cifar_members(1));
    for end in (0..good.len()).step_by(good.len() / 40 + 1) {
        put(dir.path(), archive, &good[..end]);
        says(load_cifar10(dir.path()), &["cifar-10-binary.tar.gz", "download it again"]);
    }
    put(dir.path(), archive, tar_gz(&cifar_members(1)[..5]));
    says(load_cifar10(dir.path()), &["lacks the member test_batch.bin"]);
    put(dir.path(), archive, "no archive at all, though it has quite a few bytes");
    assert!(load_cifar10(dir.path()).is_err());
    // A member that claims to have exabytes.
    let mut header = tar::Header::new_gnu();
    header.set_path("cifar-10-batches-bin/data_batch_1.bin").unwrap();
    header.set_size(1 << 60);
    header.set_cksum();
    put(dir.path(), archive, gzip(header.as_bytes()));
    says(load_cifar10(dir.path()), &["truncated"]);
}
