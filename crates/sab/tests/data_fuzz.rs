//! Whatever is done to a file, no loader panics, and what a loader accepts is consistent.

mod data_support;

use arbtest::arbtest;
use data_support::*;
use sab::data::*;
use std::path::Path;

const NAME: &str = "fuzzed";

fn consistent_images(images: &Images) {
    assert!(!images.is_empty());
    assert_eq!(images.pixels.len(), images.len() * images.steps * images.channels);
    assert!(images.labels.iter().all(|label| *label < 10));
    assert_eq!(images.pixels_of(images.len() - 1).len(), images.steps * images.channels);
}

fn consistent_text(split: &TextSplit) {
    for part in [&split.train, &split.validation, &split.test] {
        assert!(!part.is_empty());
        assert!(part.iter().all(|number| usize::from(*number) < split.alphabet.len()));
        let text = split.alphabet.decode(part);
        assert_eq!(split.alphabet.encode(&text).unwrap(), *part);
    }
}

fn consistent_table(table: &Table) {
    assert!(!table.sequences.is_empty() && !table.feature_names.is_empty());
    for sequence in &table.sequences {
        assert!(sequence.steps > 0 && !sequence.id.is_empty());
        assert_eq!(sequence.features.len(), sequence.steps * table.feature_names.len());
        assert!(sequence.features.iter().all(|x| x.is_finite()));
        let expected = if table.on == AnswerOn::Each { sequence.steps } else { 1 };
        assert_eq!(sequence.answers.len(), expected);
        match &sequence.answers {
            Answers::Classes(classes) => assert!(classes.iter().all(|class| *class < table.class_names.len())),
            Answers::Values(values) => assert!(values.iter().all(|value| value.is_finite())),
        }
    }
    let all: Vec<usize> = (0..table.sequences.len()).collect();
    let standardization = Standardization::of_features(table, &all).unwrap();
    for sequence in &table.sequences {
        let mut rows = sequence.features.clone();
        standardization.apply(&mut rows);
        assert!(rows.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn mutated_idx_files() {
    arbtest(|u| {
        let count = u.int_in_range(1..=3)?;
        let (mut images, mut labels) = (idx_images(count), idx_labels(count));
        let file = if u.arbitrary()? { &mut images } else { &mut labels };
        mutate(u, file)?;
        if let Ok(images) = parse_idx(Path::new(NAME), images.as_slice(), labels.as_slice()) {
            consistent_images(&images);
        }
        Ok(())
    });
}

#[test]
fn mutated_cifar10_batches() {
    arbtest(|u| {
        let mut batch = cifar_batch(u.int_in_range(1..=2)?);
        mutate(u, &mut batch)?;
        if let Ok(images) = parse_cifar10(Path::new(NAME), &batch) {
            consistent_images(&images);
        }
        Ok(())
    });
}

#[test]
fn mutated_gzip_files() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "mnist/train-labels-idx1-ubyte.gz", gzip(&idx_labels(2)));
    put(dir.path(), "mnist/t10k-labels-idx1-ubyte.gz", gzip(&idx_labels(2)));
    put(dir.path(), "mnist/t10k-images-idx3-ubyte.gz", gzip(&idx_images(2)));
    let good = gzip(&idx_images(2));
    arbtest(|u| {
        let mut bytes = good.clone();
        mutate(u, &mut bytes)?;
        put(dir.path(), "mnist/train-images-idx3-ubyte.gz", bytes);
        if let Ok(set) = load_mnist(dir.path()) {
            consistent_images(&set.train);
        }
        Ok(())
    });
}

#[test]
fn mutated_tar_archives() {
    let dir = tempfile::tempdir().unwrap();
    let cifar: Vec<_> = BATCHES.iter().map(|name| (name.to_string(), cifar_batch(1))).collect();
    let words = |part| (format!("simple-examples/data/ptb.{part}.txt"), b" a few <unk> words\n".to_vec());
    let (cifar, ptb) = (untar_gz(&cifar), untar_gz(&["train", "valid", "test"].map(words)));
    arbtest(|u| {
        // Unpacked, so that a change is not just a broken checksum of gzip.
        let (mut cifar, mut ptb) = (cifar.clone(), ptb.clone());
        mutate(u, &mut cifar)?;
        put(dir.path(), "cifar10/cifar-10-binary.tar.gz", cifar);
        if let Ok(set) = load_cifar10(dir.path()) {
            consistent_images(&set.train);
            consistent_images(&set.test);
        }
        mutate(u, &mut ptb)?;
        put(dir.path(), "ptb/simple-examples.tgz", ptb);
        if let Ok(split) = load_ptb(dir.path()) {
            consistent_text(&split);
        }
        Ok(())
    });
}

fn untar_gz(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let packed = tar_gz(members);
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut bytes).unwrap();
    bytes
}

#[test]
fn mutated_zip_archives() {
    let dir = tempfile::tempdir().unwrap();
    let good = zip("text8", &b" words of text ".repeat(100));
    arbtest(|u| {
        let mut bytes = good.clone();
        mutate(u, &mut bytes)?;
        put(dir.path(), "text8/text8.zip", bytes);
        if let Ok(split) = load_text8(dir.path()) {
            consistent_text(&split);
        }
        Ok(())
    });
}

#[test]
fn mutated_texts() {
    let good = "Grüße, 世界! \u{1f980}\r\n".repeat(80);
    arbtest(|u| {
        let mut bytes = good.clone().into_bytes();
        mutate(u, &mut bytes)?;
        if let Ok(split) = parse_text(Path::new(NAME), &bytes) {
            consistent_text(&split);
            let length = split.train.len() + split.validation.len() + split.test.len();
            assert!(length >= 1000 && split.train.len() * 10 >= length * 8);
        }
        Ok(())
    });
}

fn layout(u: &mut arbtest::arbitrary::Unstructured) -> arbtest::arbitrary::Result<TableLayout> {
    let name = |u: &mut arbtest::arbitrary::Unstructured| {
        Ok(Some(u.choose(&["id", "t", "x", "y", "label", "none"])?.to_string()).filter(|name| name != "none"))
    };
    Ok(TableLayout {
        sequence: name(u)?,
        step: name(u)?,
        label: name(u)?,
        features: name(u)?.into_iter().collect(),
        kind: *u.choose(&[None, Some(AnswerKind::Class), Some(AnswerKind::Value)])?,
        on: *u.choose(&[AnswerOn::Last, AnswerOn::Each])?,
        classes: if u.arbitrary()? { vec!["yes".into(), "no".into()] } else { Vec::new() },
    })
}

#[test]
fn mutated_tables() {
    let good = "id,t,x,y,label\na,2,1.5,-3,yes\na,1,0,1e10,no\n\"b, c\",1,7,8,yes\nd,1,1,1,1\nd,3,1,3e38,2\n";
    arbtest(|u| {
        let mut bytes = good.as_bytes().to_vec();
        let layout = if u.arbitrary()? { layout(u)? } else { TableLayout::default() };
        mutate(u, &mut bytes)?;
        if let Ok(table) = parse_table(Path::new(NAME), &bytes, &layout) {
            consistent_table(&table);
            assert!(layout.classes.is_empty() || table.class_names.is_empty() || table.class_names == layout.classes);
        }
        if let Ok(questions) = parse_questions(Path::new(NAME), &bytes, &layout) {
            let width = questions.feature_names.len();
            let fits = |one: &Question| !one.steps.is_empty() && one.features.len() == one.steps.len() * width;
            assert!(width > 0 && questions.sequences.iter().all(fits));
        }
        Ok(())
    });
}

#[test]
fn arbitrary_bytes_and_alphabets() {
    arbtest(|u| {
        let bytes: Vec<u8> = u.arbitrary()?;
        let path = Path::new(NAME);
        _ = parse_idx(path, bytes.as_slice(), bytes.as_slice());
        _ = parse_cifar10(path, &bytes);
        _ = parse_text(path, &bytes);
        _ = parse_table(path, &bytes, &TableLayout::default());
        let text: String = u.arbitrary()?;
        if let Ok(alphabet) = Alphabet::of(text.chars()) {
            assert_eq!(alphabet.decode(&alphabet.encode(&text).unwrap()), text);
            let json = serde_json::to_string(&alphabet).unwrap();
            assert_eq!(serde_json::from_str::<Alphabet>(&json).unwrap(), alphabet);
        }
        Ok(())
    });
}
