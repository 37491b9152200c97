"""Tests of the model folders and their check. `python test_model_files.py` runs them all; pytest finds them as well."""

import contextlib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file, save_file

import check_model
import explicit_adjoints
from sab_reference import Weights

HERE = Path(__file__).resolve().parent
FOLDERS = [HERE / "goldens" / "model", HERE / "goldens" / "model_dense"]


def checked(folder, example=None) -> tuple[dict | None, str | None]:
    """The program's output, and its error message if it fails."""
    printed, complaint = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            check_model.main([str(folder), str(example or folder / "example.safetensors")])
        except SystemExit as end:
            complaint = end.code
    return json.loads(printed.getvalue()) if printed.getvalue() else None, complaint


@contextlib.contextmanager
def copied(folder, weights=None, example=None, **config):
    """The folder with some tensors replaced, or removed where they are None, and other values in config.json."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for file, changes in (("model.safetensors", weights or {}), ("example.safetensors", example or {})):
            tensors = load_file(folder / file) | changes
            save_file({n: tensor.contiguous() for n, tensor in tensors.items() if tensor is not None}, copy / file)
        (copy / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | config))
        yield copy


def assert_refused(words, folder, weights=None, example=None, **config):
    with copied(folder, weights, example, **config) as copy:
        printed, complaint = checked(copy)
    assert printed is None and complaint is not None and words in complaint, f"{words!r}, but {complaint!r}"


def test_the_goldens_pass():
    for folder, shape in zip(FOLDERS, ([3, 25, 5], [3, 25, 1])):
        printed, complaint = checked(folder)
        assert complaint is None
        assert printed["outputs"] == shape and printed["tolerance"] == 1e-4 and printed["largest_difference"] < 1e-5
    with copied(FOLDERS[0], example={"tokens": load_file(FOLDERS[0] / "example.safetensors")["tokens"].int()}) as copy:
        assert checked(copy)[1] is None, "int32 tokens"


def test_the_program_by_hand_agrees_with_the_goldens():
    """Computes the outputs from the files in NumPy, without the reference."""
    for folder in FOLDERS:
        model, example = load_numpy(folder / "model.safetensors"), load_numpy(folder / "example.safetensors")
        model = {name: value.astype(np.float64) for name, value in model.items()}
        settings = json.loads((folder / "config.json").read_text())["model"]
        names = ["lstm.weight_ih", "lstm.weight_hh", "lstm.bias", "attention.w1", "attention.w2", "attention.w3"]
        weights = {short: model[name] for short, name in zip(Weights._fields, names)}
        x = example["dense"].astype(np.float64) if "dense" in example else np.eye(7)[example["tokens"]]
        nothing = np.zeros((x.shape[1], settings["hidden"]))
        for row in range(len(x)):
            h, s, *_ = explicit_adjoints.gradients(
                x[row], weights, nothing, nothing, k_top=settings["k_top"], k_att=settings["k_att"], k_trunc=None,
                trunc_phase=0, score_gradient="weights", mental_updates=True, hops="all", state=None)
            y = h @ model["output.v1"].T + s @ model["output.v2"].T + model["output.bias"]
            assert np.abs(y - example["outputs"][row]).max() < 1e-5


@contextlib.contextmanager
def folder_of_parts(**parts):
    """A folder of a model with these parts and new tensors. The outputs come from `explicit_adjoints`."""
    cell, scorer = parts.get("cell", "lstm"), parts.get("scorer", "additive")
    random, hidden = np.random.default_rng(1), 12
    gates = {"lstm": 4, "gru": 3}[cell]
    names = {"additive": ["w1", "w2", "w3"], "dot": ["w1", "w2"], "cosine": ["w1"]}[scorer]
    shapes = {"weight_ih": (gates * hidden, 7), "weight_hh": (gates * hidden, hidden), "bias": (4 * hidden,)}
    shapes |= {name: (hidden,) * (1 if name == "w3" else 2) for name in names}
    weights = {name: random.uniform(-0.9, 0.9, shape).astype(np.float32) for name, shape in shapes.items()}
    weights |= {"temperature": np.array([4.0], np.float32)} if scorer == "cosine" else {}
    tensors = dict.fromkeys(["attention.w1", "attention.w2", "attention.w3"])
    tensors |= {("lstm." if name in ("weight_ih", "weight_hh", "bias") else "attention.") + name: torch.from_numpy(value)
                for name, value in weights.items()}
    old, example = load_numpy(FOLDERS[0] / "model.safetensors"), load_numpy(FOLDERS[0] / "example.safetensors")
    rows = example["tokens"][:, :12]  # a GRU adds summaries to a state that it keeps, so the state grows over many steps
    nothing, outputs = np.zeros((rows.shape[1], hidden)), []
    numbers = {key: value for key, value in parts.items() if value not in ("none", None)}
    for tokens in rows:
        h, s, *_ = explicit_adjoints.gradients(
            np.eye(7)[tokens], {name: value.astype(np.float64) for name, value in weights.items()}, nothing, nothing,
            k_top=3, k_att=2, **numbers)
        outputs.append(h @ old["output.v1"].T + s @ old["output.v2"].T + old["output.bias"])
    settings = json.loads((FOLDERS[0] / "config.json").read_text())["model"] | parts
    made = {"tokens": torch.tensor(rows), "outputs": torch.tensor(np.array(outputs)).float()}
    gate_order = "r, z, n" if cell == "gru" else "i, f, g, o"
    with copied(FOLDERS[0], tensors, made, model=settings, gates=gate_order) as folder:
        yield folder


def test_folders_of_other_parts_are_read():
    """R15-R18: the reference and the program by hand agree, and the parts make a difference."""
    several = [dict(cell="gru"), dict(scorer="dot"), dict(scorer="cosine"), dict(sparsifier="softmax"),
               dict(store="novelty", novelty=0.5), dict(capacity=3), dict(capacity=4, evict="least-attended"),
               dict(cell="gru", scorer="cosine", sparsifier="softmax", store="novelty", novelty=0.3, capacity=3,
                    evict="least-attended")]
    for parts in several:
        with folder_of_parts(**parts) as folder:
            assert checked(folder)[1] is None, parts
            if not {"cell", "scorer"} & parts.keys():  # the tensors are those of the default
                settings = json.loads((FOLDERS[0] / "config.json").read_text())["model"]
                with copied(folder, model=settings) as plain:
                    assert checked(plain)[0]["largest_difference"] > 0.01, parts
    for parts in (dict(novelty=None, capacity=None), dict(capacity="none", store="every", novelty=0.5)):
        with folder_of_parts(**parts) as folder:
            assert checked(folder)[1] is None, "the same as the defaults"


def test_parts_that_are_wrong_are_reported():
    tokens = FOLDERS[0]
    model = json.loads((tokens / "config.json").read_text())["model"]
    for key, value in (("cell", "rnn"), ("scorer", 1), ("sparsifier", None), ("store", "some"), ("novelty", -0.5),
                       ("novelty", "0.5"), ("novelty", True), ("capacity", 0), ("capacity", 2.5), ("evict", "newest")):
        assert_refused(f"`model.{key}` is {json.dumps(value)}", tokens, model=model | {key: value})
    assert_refused("`model.novelty` is null", tokens, model=model | {"store": "novelty"})
    assert_refused('not 1 and "r, z, n"', tokens, model=model | {"cell": "gru"})
    assert_refused("`lstm.weight_ih` has shape [48, 7], not [36, 7]", tokens, model=model | {"cell": "gru"},
                   gates="r, z, n")
    assert_refused("there is no `attention.temperature`", tokens, model=model | {"scorer": "cosine"})
    assert_refused("`attention.w3` is not known", tokens, model=model | {"scorer": "dot"})
    assert_refused("`attention.temperature` is not known", tokens, {"attention.temperature": torch.ones(1)})
    with folder_of_parts(scorer="cosine") as folder:
        assert_refused("`attention.w2` is not known", folder, {"attention.w2": torch.zeros(12, 12)})
        assert_refused("`attention.temperature` has shape [2], not [1]", folder, {"attention.temperature": torch.ones(2)})


def test_tensors_that_are_wrong_are_reported():
    tokens, dense = FOLDERS
    w1 = load_file(tokens / "model.safetensors")["attention.w1"]
    assert_refused("`attention.w1` has shape [11, 12], not [12, 12]", tokens, {"attention.w1": w1[:11]})
    assert_refused("`output.bias` has shape [1, 1], not [1]", dense, {"output.bias": torch.zeros(1, 1)})
    assert_refused("there is no `output.v2`", tokens, {"output.v2": None})
    assert_refused("`attention.w4` is not known", tokens, {"attention.w4": w1})
    assert_refused("`attention.w1` is float64, not float32", tokens, {"attention.w1": w1.double()})
    assert_refused("`attention.w1` holds a NaN", tokens, {"attention.w1": w1 * torch.nan})


def test_examples_that_do_not_fit_are_reported():
    tokens, dense = FOLDERS
    example = load_file(tokens / "example.safetensors")
    assert_refused("there is no `tokens`", tokens, example={"tokens": None, "dense": torch.zeros(3, 25, 7)})
    assert_refused("there is no `outputs`", tokens, example={"outputs": None})
    assert_refused("`dense` is not known", tokens, example={"dense": torch.zeros(3, 25, 7)})
    assert_refused("`tokens` is float32", tokens, example={"tokens": example["tokens"].float()})
    assert_refused("`tokens` are not all from 0 to 6", tokens, example={"tokens": example["tokens"] + 1})
    assert_refused("`tokens` has shape [0, 25]", tokens, example={"tokens": example["tokens"][:0]})
    assert_refused("`outputs` has shape [3, 24, 5], not [3, 25, 5]", tokens,
                   example={"outputs": example["outputs"][:, 1:]})
    assert_refused("`outputs` is float64", tokens, example={"outputs": example["outputs"].double()})
    assert_refused("`outputs` holds a NaN", tokens, example={"outputs": example["outputs"] * torch.nan})
    assert_refused("`dense` has shape [3, 25, 2], not [any, any, 3]", dense, example={"dense": torch.zeros(3, 25, 2)})


def test_models_that_the_reference_does_not_know_are_reported():
    folder = FOLDERS[0]
    model = json.loads((folder / "config.json").read_text())["model"]
    assert_refused('kind "transformer"', folder, model={"kind": "transformer", "hidden": 12})
    assert_refused("`model.k_top` is \"some\"", folder, model=model | {"k_top": "some"})
    assert_refused("`model.mental_updates` is 1, not true or false", folder, model=model | {"mental_updates": 1})
    assert_refused("`model.hidden` is null", folder, model={"kind": "sab"})
    assert_refused("`input` is {\"tokens\": 0}", folder, input={"tokens": 0})
    assert_refused("`output` is \"values\"", folder, output="values")
    assert_refused("gates \"i, f, o, g\"", folder, gates="i, f, o, g")
    assert_refused("format 2", folder, format=2)
    assert "cannot read" in checked(folder.parent)[1]
    assert "cannot read" in checked(folder, folder / "config.json")[1]


def test_a_large_difference_is_reported():
    folder = FOLDERS[0]
    outputs = load_file(folder / "example.safetensors")["outputs"]
    outputs[1, 7, 3] += 2e-4
    with copied(folder, example={"outputs": outputs}) as copy:
        printed, complaint = checked(copy)
        assert abs(printed["largest_difference"] - 2e-4) < 1e-5
        assert "differ by 2.0e-04" in complaint and "output 3 of row 1, step 7" in complaint

        command = [sys.executable, str(HERE / "check_model.py"), str(copy), str(copy / "example.safetensors")]
        process = subprocess.run(command, capture_output=True, text=True)
        assert process.returncode == 1 and process.stderr == complaint + "\n"
        assert json.loads(process.stdout) == printed
    outputs[1, 7, 3] -= 1.5e-4
    with copied(folder, example={"outputs": outputs}) as copy:
        assert checked(copy)[1] is None, "5e-5 is within the tolerance"


def test_a_wrong_option_makes_a_large_difference():
    """The purpose of the example: each of these mistakes is noticed."""
    for folder in FOLDERS:
        model = json.loads((folder / "config.json").read_text())["model"]
        for key, value in (("k_top", 4), ("k_top", 0), ("k_att", model["k_att"] + 1)):
            with copied(folder, model=model | {key: value}) as copy:
                printed, complaint = checked(copy)
            assert complaint is not None and printed["largest_difference"] > 0.1, f"{folder.name}, {key} {value}"


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok  {name}")
