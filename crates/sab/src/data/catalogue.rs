//! The data sets that are known by name: their files, sources and checks, and the terms of use.
//!
//! The sha256 sums of the MNIST files, of the unpacked Penn Treebank files and of the CIFAR-10 batches were computed
//! from files whose published md5 sums match (for the character files of the Penn Treebank, from which the word files
//! follow, none is published). Those of `cifar-10-binary.tar.gz`, `text8.zip` and the complete unpacked text8 are
//! published by several independent projects. No sha256 of `simple-examples.tgz` is published: it is known by its size
//! and by the sha256 of its members.

use super::error::{DataError, Result};
use super::{cifar10, ptb, text};
use crate::suggest::did_you_mean;

/// A data set that can be fetched and verified.
#[derive(Clone, Copy, Debug)]
pub struct DataSet<'a> {
    /// Its name, and that of its folder in the data directory.
    pub name: &'a str,
    /// A description in a few words.
    pub title: &'a str,
    /// The files to download.
    pub downloads: &'a [KnownFile<'a>],
    /// The forms in which a user may have it unpacked: one complete form is enough.
    pub unpacked: &'a [&'a [KnownFile<'a>]],
    /// The folders below that of the set that may hold unpacked files.
    pub folders: &'a [&'a str],
    /// The terms of use, in one sentence.
    pub terms: &'a str,
}

/// A file with a known content.
#[derive(Clone, Copy, Debug)]
pub struct KnownFile<'a> {
    /// Its name.
    pub file: &'a str,
    /// Its size.
    pub bytes: u64,
    /// How to tell that it is right.
    pub check: Check<'a>,
    /// Sizes and sha256 sums of beginnings, the shortest first: a file that ends early but agrees is a prefix.
    pub prefixes: &'a [(u64, &'a str)],
    /// The folders to download it from, the official one first; the name of the file follows after a slash. Empty for
    /// a file that comes out of an archive.
    pub locations: &'a [&'a str],
}

/// How to tell that a file is right.
#[derive(Clone, Copy, Debug)]
pub enum Check<'a> {
    /// The sha256 of the file, in lower-case hexadecimal.
    Sha256(&'a str),
    /// The file is a gzipped tar archive with these members, whatever their folders; each has a sha256.
    Members(&'a [KnownFile<'a>]),
}

const fn known(file: &'static str, bytes: u64, sha256: &'static str) -> KnownFile<'static> {
    KnownFile { file, bytes, check: Check::Sha256(sha256), prefixes: &[], locations: &[] }
}

/// All data sets.
pub const CATALOGUE: &[DataSet<'static>] = &[
    DataSet {
        name: "mnist",
        title: "MNIST handwritten digits, 60,000 + 10,000 images of 28x28 pixels",
        downloads: &MNIST_PACKED,
        unpacked: &[&MNIST_UNPACKED],
        folders: &[""],
        terms: "Y. LeCun, C. Cortes and C. Burges, from NIST Special Databases 1 and 3: free for research, commonly \
                stated as CC BY-SA 3.0",
    },
    DataSet {
        name: "ptb",
        title: "Penn Treebank in T. Mikolov's version, 5.9 million characters",
        downloads: &[KnownFile {
            file: ptb::ARCHIVE,
            // The author's page, which is not always reachable, and the copy that PaddlePaddle downloads.
            locations: &[
                "https://www.fit.vutbr.cz/~imikolov/rnnlm",
                "http://www.fit.vutbr.cz/~imikolov/rnnlm",
                "https://dataset.bj.bcebos.com/imikolov",
            ],
            bytes: 34_869_662,
            check: Check::Members(&PTB_WORDS),
            prefixes: &[],
        }],
        unpacked: &[&PTB_WORDS, &PTB_CHARACTERS],
        folders: &ptb::FOLDERS,
        terms: "Wall Street Journal text of the Linguistic Data Consortium's Penn Treebank: for research use only",
    },
    DataSet {
        name: "text8",
        title: "text8, the first 100,000,000 characters of cleaned English Wikipedia",
        downloads: &[KnownFile {
            locations: &["https://mattmahoney.net/dc", "http://mattmahoney.net/dc"],
            ..known("text8.zip", 31_344_016, "a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232")
        }],
        unpacked: &[&[TEXT8]],
        folders: &[""],
        terms: "Wikipedia text of March 2006: GFDL, today CC BY-SA 3.0",
    },
    DataSet {
        name: "cifar10",
        title: "CIFAR-10, 50,000 + 10,000 colour images of 32x32 pixels",
        downloads: &[KnownFile {
            locations: &["https://www.cs.toronto.edu/~kriz"],
            ..known(cifar10::ARCHIVE, 170_052_171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd")
        }],
        unpacked: &[&CIFAR10_BATCHES],
        folders: &[cifar10::FOLDER, ""],
        terms: "A. Krizhevsky, V. Nair and G. Hinton: no formal licence; cite \"Learning Multiple Layers of Features \
                from Tiny Images\", 2009",
    },
];

/// The data set of a name; the error for an unknown one suggests the nearest name or lists all.
pub fn data_set(name: &str) -> Result<&'static DataSet<'static>> {
    CATALOGUE.iter().find(|set| set.name == name).ok_or_else(|| {
        let wanted = name.to_lowercase().replace(['-', '_', ' '], "");
        let known: Vec<&str> = CATALOGUE.iter().map(|set| set.name).collect();
        let hint = did_you_mean(&wanted, &known, "data sets");
        DataError::UnknownSet(format!("there is no data set `{name}`; {hint}"))
    })
}

/// The author's own site now refuses downloads; these two serve the original files.
const MNIST_LOCATIONS: &[&str] =
    &["https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist"];

const fn mnist(file: &'static str, bytes: u64, sha256: &'static str) -> KnownFile<'static> {
    KnownFile { locations: MNIST_LOCATIONS, ..known(file, bytes, sha256) }
}

const MNIST_PACKED: [KnownFile<'static>; 4] = [
    mnist("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    mnist("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    mnist("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    mnist("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
];

const MNIST_UNPACKED: [KnownFile<'static>; 4] = [
    known("train-images-idx3-ubyte", 47_040_016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    known("train-labels-idx1-ubyte", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    known("t10k-images-idx3-ubyte", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    known("t10k-labels-idx1-ubyte", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
];

const PTB_WORDS: [KnownFile<'static>; 3] = [
    known("ptb.train.txt", 5_101_618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
    known("ptb.valid.txt", 399_782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
    known("ptb.test.txt", 449_945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
];

const PTB_CHARACTERS: [KnownFile<'static>; 3] = [
    known("ptb.char.train.txt", 10_034_964, "e313d91425e06c4f0a8fb6e881dcce0c291f2a0e9f4dda54833069b122f91da9"),
    known("ptb.char.valid.txt", 786_084, "21661f63ec355085879458b6524644d4add5573541b4be14fb52ab2e2e995eb8"),
    known("ptb.char.test.txt", 884_846, "1ef5607ac3c463b16e38bfe7900dd3bfc91de5a96e0f21e7eab5188b465b8ebe"),
];

const TEXT8: KnownFile<'static> = KnownFile {
    // The second is what enwik8 yields when Mahoney's filter is applied to it.
    prefixes: &[
        (1_000_000, "a29a713419313a2c4f0f38d3907938156a7c088a69c7c30542410124651ab5b2"),
        (74_081_952, "56994afbff37bd7c3de0c9d1e39231ba8ac50e42192849faef419f1e5c7dda06"),
    ],
    ..known("text8", text::TEXT8_BYTES as u64, "6e890197040d37d85beb962ae1f041ff1d9a9ca8d20c7d99c85027eebf51dca7")
};

const CIFAR10_BATCHES: [KnownFile<'static>; 6] = [
    known("data_batch_1.bin", 30_730_000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
    known("data_batch_2.bin", 30_730_000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
    known("data_batch_3.bin", 30_730_000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
    known("data_batch_4.bin", 30_730_000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
    known("data_batch_5.bin", 30_730_000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    known("test_batch.bin", 30_730_000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
];
