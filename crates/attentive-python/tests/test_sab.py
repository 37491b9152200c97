"""Models go between `sab` and Python in both directions. Needs the programs of the workspace, compiled."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import attentive
import cases
from attentive.safetensors import read_tensors, to_bytes

BUILT = Path(os.environ.get("CARGO_TARGET_DIR", cases.REPOSITORY / "target")) / "release"
SAB = Path(os.environ.get("SAB_PROGRAM", BUILT / "sab"))
needs_sab = pytest.mark.skipif(
    not SAB.exists(), reason=f"{SAB} is not there: cargo build --release, or set SAB_PROGRAM"
)


def sab(*arguments, **options):
    out = subprocess.run([SAB, *map(str, arguments)], capture_output=True, text=True, **options)
    assert out.returncode == 0, out.stderr
    return out.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short training of `sab`."""
    folder = tmp_path_factory.mktemp("runs") / "copy"
    settings = ["train.updates=40", "train.validate_every=20", "train.log_every=10", "task.test=64", "model.hidden=24"]
    changes = [word for setting in settings for word in ("--set", setting)]
    sab("train", "copy", "--length", 8, "--run", folder, *changes)
    return folder


@needs_sab
def test_metrics_of_a_run_are_read(run):
    metrics = attentive.read_run(run)
    assert metrics.train["update"].tolist()[-1] == 40
    assert np.isfinite(metrics.validation["ce"]).all() and "accuracy" in metrics.validation


@needs_sab
def test_a_model_that_sab_trained_is_written_back_without_a_change(run, tmp_path):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(1).integers(0, 10, (4, 28))
    model = attentive.torch_model(run)
    with torch.no_grad():
        y = model(torch.from_numpy(x))[0].numpy()
    np.testing.assert_array_equal(y, attentive.load(run).predict(x))
    before = sab("eval", run, "--json")
    other = tmp_path / "run"
    shutil.copytree(run, other)
    attentive.save_folder(model, other, update=40)
    assert json.loads(sab("eval", other, "--json"))["metrics"] == json.loads(before)["metrics"]
    assert read_tensors(other / "model.safetensors")[1]


@needs_sab
@pytest.mark.parametrize("credit", [False, True])
def test_sab_runs_on_a_model_that_pytorch_trained(credit, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    layer = attentive.SabLSTM(10, 16, 3, 2, 4, capacity=30, scorer="dot", cell="gru", credit_across_calls=credit)
    model = attentive.SabModel(layer, attentive.SabReadout(16, 9))
    folder = tmp_path / "of_pytorch"
    task = {"name": "copy", "length": 8, "test": 32}
    attentive.save_folder(model, folder, inputs="tokens", task=task)
    assert "accuracy" in json.loads(sab("eval", folder, "--json"))["metrics"]
    sab("transfer", folder, "--lengths", "8,20")
    sab("attention", folder)
    assert attentive.torch_model(folder).lstm.options == layer.options
    kept = (folder / "config.toml").read_bytes()
    attentive.save_folder(attentive.torch_model(folder), folder, task={"name": "copy", "length": 9})
    assert (folder / "config.toml").read_bytes() == kept, "settings of a run stay"


@pytest.mark.parametrize("name", ["model", "model_dense"])
def test_the_outputs_are_the_bits_of_the_rust_layer(name, tmp_path):
    """The example `from_pytorch` runs Burn's layer and prints the largest difference from the outputs in a file."""
    program = Path(os.environ.get("SAB_EXAMPLES", BUILT / "examples")) / "from_pytorch"
    if not program.exists():
        pytest.skip(f"{program} is not there: cargo build --release --examples")
    folder = tmp_path / name
    shutil.copytree(cases.GOLDENS / name, folder)
    tensors, _ = read_tensors(folder / "example.safetensors")
    given = "tokens" if "tokens" in tensors else "dense"
    outputs = attentive.load(folder).predict(tensors[given])
    (folder / "example.safetensors").write_bytes(to_bytes({given: tensors[given], "outputs": outputs}))
    out = subprocess.run([program, folder], capture_output=True, text=True, check=True).stdout
    assert re.search(r"the largest difference from PyTorch is 0\.0e0\b", out), out
