//! The text loaders split at the right places and name what is wrong.

mod data_support;

use data_support::*;
use sab::data::{Alphabet, load_ptb, load_text, load_text8};

#[test]
fn an_alphabet_encodes_decodes_and_survives_serde() {
    let alphabet = Alphabet::of("höchst\n".chars()).unwrap();
    assert_eq!(alphabet.symbols(), ['\n', 'c', 'h', 's', 't', 'ö']);
    let numbers = alphabet.encode("höchst").unwrap();
    assert_eq!(numbers, [2, 5, 1, 2, 3, 4]);
    assert_eq!(alphabet.decode(&numbers), "höchst");
    assert_eq!(alphabet.decode(&[6, u16::MAX, 4]), "\u{fffd}\u{fffd}t");
    let json = serde_json::to_string(&alphabet).unwrap();
    assert_eq!(json, r#""\nchstö""#);
    assert_eq!(serde_json::from_str::<Alphabet>(&json).unwrap(), alphabet);
}

#[test]
fn a_character_outside_the_alphabet_is_named_with_its_place() {
    let alphabet = Alphabet::new(vec!['b', 'a']).unwrap();
    assert_eq!(alphabet.encode("ab").unwrap(), [1, 0]);
    says(alphabet.encode("abäx"), &["character 'ä' at position 2 is not in the alphabet of 2 symbols"]);
    says(alphabet.encode("ab\u{7}"), &["'\\u{7}' at position 2"]);
}

#[test]
fn a_bad_alphabet_is_refused_even_from_a_file() {
    says(Alphabet::new(vec!['a', 'b', 'a']), &["'a' occurs twice"]);
    says(Alphabet::new(vec!['ä', 'ä']), &["'ä' occurs twice"]);
    says(Alphabet::new(vec![]), &["at least one"]);
    says(Alphabet::of((0..70_000).filter_map(char::from_u32)), &["too large"]);
    assert!(serde_json::from_str::<Alphabet>("\"aa\"").is_err());
}

#[test]
fn any_text_is_split_at_90_and_95_percent_of_its_characters() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = "äb€d".chars().cycle().take(2000).collect();
    put(dir.path(), "t.txt", format!("\u{feff}{text}"));
    let split = load_text(&dir.path().join("t.txt")).unwrap();
    assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (1800, 100, 100));
    assert_eq!(split.alphabet.symbols(), ['b', 'd', 'ä', '€']);
    assert_eq!(split.alphabet.decode(&split.train[..5]), "äb€dä");
    let whole = [split.train, split.validation, split.test].concat();
    assert_eq!(split.alphabet.decode(&whole), text);
    assert_eq!(split.note, None);
}

#[test]
fn bad_texts_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.txt");
    says(load_text(&path), &["t.txt does not exist"]);
    says(load_text(dir.path()), &["cannot read", "directory"]);
    put(dir.path(), "t.txt", "");
    says(load_text(&path), &["is empty"]);
    put(dir.path(), "t.txt", "ä".repeat(999));
    says(load_text(&path), &["too short", "999 characters and needs 1000"]);
    put(dir.path(), "t.txt", [b"a".repeat(1234).as_slice(), b"\xff", b"a"].concat());
    says(load_text(&path), &["not UTF-8", "offset 1234"]);
    let many: String = (0x100..).filter_map(char::from_u32).take(65_001).collect();
    put(dir.path(), "t.txt", many);
    says(load_text(&path), &["more than 65000 different characters"]);
}

fn text8(length: usize) -> Vec<u8> {
    b" anarchism originated as a term of abuse".iter().copied().cycle().take(length).collect()
}

#[test]
fn text8_is_the_same_zipped_and_unpacked_and_a_prefix_is_noted() {
    for (name, bytes) in [
        ("text8/text8", text8(4000)),
        ("text8/text8.zip", zip("text8", &text8(4000))),
        ("text8.zip", zip("text8", &text8(4000))),
        ("text8", text8(4000)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), name, bytes);
        let split = load_text8(dir.path()).unwrap();
        assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (3600, 200, 200));
        assert_eq!(split.alphabet.len(), 27);
        assert_eq!(split.alphabet.decode(&split.train[..12]), " anarchism o");
        assert_eq!(split.alphabet.encode(" az").unwrap(), [0, 1, 26]);
        assert!(split.note.unwrap().starts_with("a prefix of text8 (4000 of 100000000 bytes)"));
    }
}

#[test]
fn bad_text8_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    says(load_text8(dir.path()), &["text8.zip does not exist", "sab data fetch text8"]);
    put(dir.path(), "text8/text8", "");
    says(load_text8(dir.path()), &["is empty"]);
    put(dir.path(), "text8/text8", [text8(1500), b"\n".to_vec()].concat());
    says(load_text8(dir.path()), &["the byte `\\n` at offset 1500", "only a-z and space"]);
    let good = zip("text8", &text8(4000));
    for end in 0..good.len() {
        put(dir.path(), "text8/text8.zip", &good[..end]);
        says(load_text8(dir.path()), &["text8.zip", "download it again"]);
    }
    put(dir.path(), "text8/text8.zip", zip("text9", &text8(4000)));
    says(load_text8(dir.path()), &["lacks the member text8"]);
}

const WORDS: [&str; 3] = [" aer banknote N <unk>\n mr. <unk> is chairman\n", " no it was n't\n", " a b\n\n"];
const CHARACTERS: [&str; 3] = [
    " a e r _ b a n k n o t e _ N _ < u n k > \n m r . _ < u n k > _ i s _ c h a i r m a n \n ",
    "n o _ i t _ w a s _ n ' t\n",
    "a _ b\r\n ",
];

fn ptb_members(words: bool) -> Vec<(String, Vec<u8>)> {
    let (kind, texts) = if words { ("", WORDS) } else { ("char.", CHARACTERS) };
    let parts = ["train", "valid", "test"].iter().zip(texts);
    parts.map(|(part, text)| (format!("ptb.{kind}{part}.txt"), text.into())).collect()
}

#[test]
fn the_penn_treebank_is_the_same_from_words_characters_and_the_archive() {
    let mut splits = Vec::new();
    for words in [true, false] {
        for folder in ["ptb", "", "ptb/simple-examples/data", "simple-examples/data", "ptb/data"] {
            let dir = tempfile::tempdir().unwrap();
            for (name, bytes) in ptb_members(words) {
                put(dir.path(), format!("{folder}/{name}").trim_start_matches('/'), bytes);
            }
            splits.push(load_ptb(dir.path()).unwrap());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let inside = |(name, bytes)| (format!("./simple-examples/data/{name}"), bytes);
    let members: Vec<_> = [ptb_members(false), ptb_members(true)].concat().into_iter().map(inside).collect();
    put(dir.path(), "ptb/simple-examples.tgz", tar_gz(&members));
    splits.push(load_ptb(dir.path()).unwrap());
    let first = &splits[0];
    assert_eq!(first.alphabet.decode(&first.train), "aer banknote N <unk>\nmr. <unk> is chairman\n");
    assert_eq!(first.alphabet.decode(&first.validation), "no it was n't\n");
    assert_eq!(first.alphabet.decode(&first.test), "a b\n");
    assert!(splits.iter().all(|split| split == first));
}

#[test]
fn bad_penn_treebank_files_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    says(load_ptb(dir.path()), &["simple-examples.tgz does not exist", "sab data fetch ptb", "to download it"]);
    for (name, bytes) in ptb_members(true) {
        put(dir.path(), &format!("ptb/{name}"), bytes);
    }
    std::fs::remove_file(dir.path().join("ptb/ptb.valid.txt")).unwrap();
    says(load_ptb(dir.path()), &["ptb.valid.txt does not exist"]);
    put(dir.path(), "ptb/ptb.valid.txt", " \n \n");
    says(load_ptb(dir.path()), &["ptb.valid.txt is empty"]);
    put(dir.path(), "ptb/ptb.valid.txt", b"no \xc3( it");
    says(load_ptb(dir.path()), &["ptb.valid.txt is not UTF-8", "offset 3"]);
    for (name, bytes) in ptb_members(false) {
        put(dir.path(), &format!("ptb/{name}"), bytes);
    }
    put(dir.path(), "ptb/ptb.char.test.txt", WORDS[0]);
    says(load_ptb(dir.path()), &["ptb.char.test.txt is not a character file: line 1 has `aer`"]);
    let good = tar_gz(&ptb_members(true));
    for end in 0..good.len() {
        put(dir.path(), "ptb/simple-examples.tgz", &good[..end]);
        says(load_ptb(dir.path()), &["simple-examples.tgz", "download it again"]);
    }
    put(dir.path(), "ptb/simple-examples.tgz", tar_gz(&ptb_members(true)[..2]));
    says(load_ptb(dir.path()), &["lacks the member ptb.test.txt"]);
}
