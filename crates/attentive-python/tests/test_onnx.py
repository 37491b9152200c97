"""ONNX files, run by onnxruntime, against the engine."""

import itertools

import numpy as np
import pytest

import attentive
import cases
from attentive.safetensors import read_tensors

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_sequence(path, x):
    file = session(path)
    names = [output.name for output in file.get_outputs()]
    return dict(zip(names, file.run(names, {"x": x}), strict=True))


def run_steps(path, x):
    file = session(path)
    names = [output.name for output in file.get_outputs()]
    sizes = {"batch": len(x), "slots": 1}
    state = {}
    for given in file.get_inputs():
        if given.name != "x":
            shape = [sizes.get(size, size) for size in given.shape]
            state[given.name] = np.zeros(shape, np.int64 if "int" in given.type else np.float32)
    outputs = []
    for t in range(x.shape[1]):
        found = dict(zip(names, file.run(names, {"x": x[:, t], **state}), strict=True))
        state = {name: found["next_" + name.removeprefix("state_")] for name in state}
        outputs.append(found["y"])
    return np.stack(outputs, 1), state


@pytest.mark.parametrize("name", ["model", "model_dense"])
def test_a_folder_as_a_file_gives_the_outputs_of_the_engine(name, tmp_path):
    folder = cases.GOLDENS / name
    tensors, _ = read_tensors(folder / "example.safetensors")
    x = tensors.get("tokens", tensors.get("dense"))
    attentive.export_onnx(folder, tmp_path / "sequence.onnx")
    attentive.export_onnx(folder, tmp_path / "step.onnx", step=True)
    model = attentive.load(folder)
    for rows, steps in ((3, 25), (1, 25), (2, 1), (3, 4)):  # batch and time are dynamic
        part = x[:rows, :steps]
        expected = model.predict(part)
        found = run_sequence(tmp_path / "sequence.onnx", part)
        np.testing.assert_allclose(found["y"], expected, rtol=0, atol=1e-5)
        y, state = run_steps(tmp_path / "step.onnx", part)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)
        # The state after a sequence is the one that steps go on from.
        for key, value in state.items():
            np.testing.assert_allclose(found["next_" + key.removeprefix("state_")], value, rtol=0, atol=1e-5)
    hidden, _, memory, *_ = model.run(x)[1].data()
    found = run_sequence(tmp_path / "sequence.onnx", x)
    np.testing.assert_allclose(found["next_h"], hidden, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["next_memory"], memory, rtol=0, atol=1e-5)


STORES = [
    {},
    {"store": "novelty", "novelty": 0.5},
    {"capacity": 3},
    {"capacity": 3, "evict": "least-attended"},
    {"store": "novelty", "novelty": 0.3, "capacity": 2, "evict": "least-attended"},
]
PARTS = list(
    itertools.product(["lstm", "gru"], ["additive", "dot", "cosine"], ["prominence", "softmax"], [0, 3, "all"])
)


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_every_part_as_a_file_gives_the_outputs_of_the_engine(number, tmp_path):
    torch = pytest.importorskip("torch")
    cell, scorer, sparsifier, k_top = PARTS[number]
    for k_att, options in zip([1, 2, 1, 1, 2], STORES, strict=True):
        torch.manual_seed(number)
        layer = attentive.SabLSTM(5, 8, k_top, k_att, cell=cell, scorer=scorer, sparsifier=sparsifier, **options)
        layer.reset_parameters(attention_gain=2, score_gain=2)
        model = attentive.SabModel(layer, attentive.SabReadout(8, 3))
        x = torch.randint(5, (3, 9))
        expected = model(x)[0].detach().numpy()
        attentive.export_onnx(model, tmp_path / "sequence.onnx", inputs="tokens")
        attentive.export_onnx(model, tmp_path / "step.onnx", inputs="tokens", step=True)
        tolerance = 1e-5 * max(1.0, np.abs(expected).max())
        found = run_sequence(tmp_path / "sequence.onnx", x.numpy())
        np.testing.assert_allclose(found["y"], expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(run_steps(tmp_path / "step.onnx", x.numpy())[0], expected, rtol=0, atol=tolerance)


def test_a_layer_alone_has_no_y(tmp_path):
    torch = pytest.importorskip("torch")
    layer, x = attentive.SabLSTM(5, 8), torch.randn(2, 7, 5)
    attentive.export_onnx(layer, tmp_path / "layer.onnx", inputs="dense")
    found = run_sequence(tmp_path / "layer.onnx", x.numpy())
    assert "y" not in found
    np.testing.assert_allclose(found["hidden"], layer(x)[0].hidden.detach(), rtol=0, atol=1e-5)


def test_every_part_that_the_engine_has_is_known():
    from attentive import _engine
    from attentive.export.step import PARTS

    assert {name: sorted(_engine.names(name)) for name in PARTS} == {
        name: sorted(known) for name, known in PARTS.items()
    }
