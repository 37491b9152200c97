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
    """What the program prints, and its last words if it fails."""
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
    """NumPy from the files to the outputs, without the reference."""
    for folder in FOLDERS:
        model, example = load_numpy(folder / "model.safetensors"), load_numpy(folder / "example.safetensors")
        model = {name: value.astype(np.float64) for name, value in model.items()}
        settings = json.loads((folder / "config.json").read_text())["model"]
        names = ["lstm.weight_ih", "lstm.weight_hh", "lstm.bias", "attention.w1", "attention.w2", "attention.w3"]
        weights = {short: model[name] for short, name in zip(Weights._fields, names)}
        x = example["dense"].astype(np.float64) if "dense" in example else np.eye(7)[example["tokens"]]
        nothing = np.zeros((x.shape[1], settings["hidden"]))
        for row in range(len(x)):
            h, s, _ = explicit_adjoints.gradients(
                x[row], weights, nothing, nothing, k_top=settings["k_top"], k_att=settings["k_att"], k_trunc=None,
                trunc_phase=0, score_gradient="weights", mental_updates=True, hops="all", state=None)
            y = h @ model["output.v1"].T + s @ model["output.v2"].T + model["output.bias"]
            assert np.abs(y - example["outputs"][row]).max() < 1e-5


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
    """What the example is for: none of these passes unnoticed."""
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
