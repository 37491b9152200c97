//! Model folders: what PyTorch writes gives the same outputs here, and what is written here gives them in PyTorch.

mod common;

use attentive::ForwardOptions;
use burn::tensor::Device;
use common::{Place, tiny_copy};
use sab::models::Parameter;
use sab::models::file::{from_bytes, to_pytorch};
use sab::run_dir::{ModelConfig, load_model, save_model};
use sab::tasks::{Answers, Asked, Batch, Input, InputKind};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn oracle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle").join(name)
}

fn floats(tensor: &TensorView) -> Vec<f32> {
    assert_eq!(tensor.dtype(), Dtype::F32);
    tensor.data().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
}

/// The example of a golden folder as a batch, and the right outputs `[rows, steps, outputs]`.
fn example(folder: &Path) -> (Batch, Vec<f32>) {
    let bytes = fs::read(folder.join("example.safetensors")).expect("readable");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let (input, shape) = match file.tensor("tokens") {
        Ok(tokens) => {
            let numbers =
                tokens.data().chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().expect("eight")));
            (Input::Tokens(numbers.map(|token| token as i32).collect()), tokens.shape().to_vec())
        }
        Err(_) => {
            let dense = file.tensor("dense").expect("an input");
            (Input::Dense { width: dense.shape()[2], values: floats(&dense) }, dense.shape().to_vec())
        }
    };
    let batch = Batch { rows: shape[0], steps: shape[1], input, asked: Asked::From(0), answers: Answers::Unknown };
    (batch, floats(&file.tensor("outputs").expect("outputs")))
}

#[test]
fn models_from_pytorch_give_the_same_outputs_here() {
    for name in ["goldens/model", "goldens/model_dense"] {
        let (device, folder) = (Device::flex(), oracle(name));
        let (_, model, _) = load_model(&folder, &device).expect(name);
        let (batch, right) = example(&folder);
        let outputs = model.answer(&batch, &ForwardOptions::new(), &device).expect(name);
        let outputs = outputs.into_data().try_to_vec::<f32>().expect("floats");
        assert_eq!(outputs.len(), right.len());
        let most = outputs.iter().zip(&right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most < 1e-4, "{name}: {most}");
    }
}

#[test]
fn a_saved_model_is_the_file_that_pytorch_wrote() {
    for name in ["goldens/model", "goldens/model_dense"] {
        let (place, folder) = (Place::new(), oracle(name));
        let (config, model, _) = load_model(&folder, &Device::flex()).expect(name);
        save_model(&place.path("."), model.snapshot().expect("parameters"), 7).expect("saved");
        config.save(&place.path(".")).expect("saved");
        let read = |path: PathBuf| from_bytes::<serde_json::Value>(&fs::read(path).expect("readable")).expect("good");
        let (ours, theirs) = (read(place.path("model.safetensors")), read(folder.join("model.safetensors")));
        assert_eq!(ours.parameters, theirs.parameters);
        assert_eq!(ours.facts.expect("facts")["update"], 7);
        assert_eq!(ModelConfig::load(&place.path(".")).expect("good"), ModelConfig::load(&folder).expect("good"));
        assert_eq!(to_pytorch(model.snapshot().expect("parameters")).len(), 9);
    }
}

#[test]
fn a_transformer_comes_back_from_its_file() {
    let place = Place::new();
    let small = ["--set", "model.kind=transformer", "--set", "model.heads=2", "--set", "model.feed_forward=8"];
    place.ok(&tiny_copy("run", "20", &small));
    let summary = place.json("run/summary.json");
    let judged: serde_json::Value = serde_json::from_str(&place.ok(&["eval", "run", "--json"])).expect("JSON");
    assert_eq!(judged["metrics"], summary["test"]);
    assert!(place.fails(2, &["attention", "run"]).contains("Transformer"));
}

/// Some parts other than the default, as `--set` takes them.
const PARTS: [&[&str]; 4] = [
    &[],
    &["model.cell=gru", "model.sparsifier=softmax", "model.start.forget_bias=-3"],
    &["model.scorer=cosine", "model.store=novelty", "model.novelty=0.05"],
    &[
        "model.cell=gru",
        "model.scorer=dot",
        "model.capacity=7",
        "model.evict=least-attended",
        "model.sparsifier=softmax",
    ],
];

fn run_with(parts: &[&str]) -> Place {
    let place = Place::new();
    let settings: Vec<&str> = parts.iter().flat_map(|part| ["--set", part]).collect();
    place.ok(&tiny_copy("run", "20", &settings));
    place
}

#[test]
fn a_model_of_any_parts_comes_back_from_its_file() {
    for parts in PARTS {
        let place = run_with(parts);
        let judged: serde_json::Value = serde_json::from_str(&place.ok(&["eval", "run", "--json"])).expect("JSON");
        assert_eq!(judged["metrics"], place.json("run/summary.json")["test"], "{parts:?}");
    }
}

#[test]
fn a_file_with_tensors_that_the_parts_do_not_have_is_refused() {
    let place = run_with(PARTS[2]);
    let run = place.path("run");
    let (_, model, _) = load_model(&run, &Device::flex()).expect("a model");
    let mut parameters = model.snapshot().expect("parameters");
    assert!(parameters.iter().any(|parameter| parameter.name == "lstm.temperature"));
    // W1 serves memories and queries: a W2 beside it means another model.
    let w1 = parameters.iter().find(|parameter| parameter.name == "lstm.w1").expect("there").clone();
    parameters.push(Parameter { name: "lstm.w2".into(), ..w1 });
    save_model(&run, parameters, 20).expect("saved");
    let message = place.fails(4, &["eval", "run"]);
    assert!(message.contains("`lstm.w2` is not a parameter of this model"), "{message}");
}

/// With `SAB_PYTHON` a Python that has PyTorch: a model trained here goes through the oracle.
#[test]
fn a_model_trained_here_gives_the_same_outputs_in_pytorch() {
    let python = std::env::var("SAB_PYTHON").unwrap_or_else(|_| "python3".into());
    let has_torch = Command::new(&python).args(["-c", "import torch, safetensors, numpy"]).output();
    if !has_torch.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: {python} has no PyTorch; set SAB_PYTHON to one that has");
        return;
    }
    PARTS.iter().for_each(|parts| goes_through_pytorch(&python, parts));
}

fn goes_through_pytorch(python: &str, parts: &[&str]) {
    let place = run_with(parts);
    let device = Device::flex();
    let (config, model, _) = load_model(&place.path("run"), &device).expect("a model");
    assert_eq!(config.input, InputKind::Tokens(10));
    let (rows, steps) = (3, 40);
    let tokens: Vec<i32> = (0..rows * steps).map(|place| (place * place % 10) as i32).collect();
    let input = Input::Tokens(tokens.clone());
    let batch = Batch { rows, steps, input, asked: Asked::From(0), answers: Answers::Unknown };
    let outputs = model.answer(&batch, &ForwardOptions::new(), &device).expect("outputs");
    let outputs = outputs.into_data().try_to_vec::<f32>().expect("floats");
    let bytes = |numbers: Vec<[u8; 4]>| numbers.concat();
    let (tokens, outputs) = (
        bytes(tokens.iter().map(|token| token.to_le_bytes()).collect()),
        bytes(outputs.iter().map(|output| output.to_le_bytes()).collect()),
    );
    let tensors = [
        ("tokens", TensorView::new(Dtype::I32, vec![rows, steps], &tokens).expect("a tensor")),
        ("outputs", TensorView::new(Dtype::F32, vec![rows, steps, 9], &outputs).expect("a tensor")),
    ];
    let example = place.write("example.safetensors", safetensors::serialize(tensors, None).expect("a file"));
    let out = Command::new(python).arg(oracle("check_model.py")).arg(place.path("run")).arg(example).output();
    let out = out.expect("Python runs");
    assert!(out.status.success(), "{parts:?}: {}{}", String::from_utf8_lossy(&out.stdout), common::stderr(&out));
}
