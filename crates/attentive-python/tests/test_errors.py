"""Mistakes are Python exceptions of the fitting type, with a sentence that helps. Nothing aborts the process."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

import attentive
import cases
from attentive import _engine

torch = pytest.importorskip("torch")
from attentive import SabLSTM, SabModel, SabReadout  # noqa: E402

MODEL = cases.GOLDENS / "model"
layer = SabLSTM(5, 8)
dense, tokens = torch.randn(2, 6, 5), torch.randint(5, (2, 6))
_, state = layer(dense)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"k_top": -1}, ValueError, "`k_top` is -1: it must be at least 0"),
        ({"k_top": "some"}, ValueError, 'it must be a whole number or "all"'),
        ({"k_top": 2.5}, TypeError, "`k_top` is 2.5: it must be a whole number"),
        ({"k_att": 0}, ValueError, "`k_att` is 0: it must be at least 1"),
        ({"k_trunc": 0}, ValueError, "`k_trunc` is 0: it must be at least 1 step"),
        ({"k_att": True}, TypeError, "`k_att` is True"),
        ({"cell": "rnn"}, ValueError, 'there is no cell "rnn"; choose one of lstm, gru'),
        ({"scorer": "dott"}, ValueError, "choose one of additive, dot, cosine"),
        ({"hops": "two"}, ValueError, '`hops` is "two": it must be "all" or "one"'),
        ({"score_gradient": ""}, ValueError, '"weights" or "full"'),
        ({"novelty": float("nan"), "store": "novelty"}, ValueError, "`novelty` is NaN"),
        ({"capacity": 0}, ValueError, "`capacity` is 0"),
        ({"hidden_size": 0}, ValueError, "`hidden` is 0"),
        ({"input_size": 0}, ValueError, "`input` is 0"),
        ({"hidden_size": 10**9}, ValueError, "at most"),
        ({"trunc_phase": "fixed"}, ValueError, 'whole number or "random"'),
    ],
)
def test_options(options, kind, words):
    with pytest.raises(kind, match=words.replace("(", r"\(")):
        SabLSTM(**{"input_size": 5, "hidden_size": 8, **options})


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: layer(dense.double()), TypeError, r"the input is torch.float64.*use `.float\(\)`"),
        (lambda: layer(dense.half()), TypeError, "float16"),
        (lambda: layer(tokens.bool()), TypeError, "torch.bool"),
        (lambda: layer(dense.to("meta")), RuntimeError, r"the input is on meta.*use `.cpu\(\)`"),
        (lambda: layer(dense.to_sparse()), TypeError, "to_dense"),
        (lambda: layer(dense.numpy()), TypeError, "the input is a ndarray"),
        (lambda: layer(dense[0]), ValueError, r"shape \[6, 5\], but dense inputs need \[batch, time, 5\]"),
        (lambda: layer(dense[:, :, :4]), ValueError, r"shape \[2, 6, 4\]"),
        (lambda: layer(dense[:0]), ValueError, "at least one row"),
        (lambda: layer(tokens[:, :0]), ValueError, r"tokens need \[batch, time\]"),
        (lambda: layer(tokens.unsqueeze(2)), ValueError, r"tokens need \[batch, time\]"),
        (lambda: layer(tokens + 3), IndexError, "is outside 0..5"),
        (lambda: layer(tokens - 9), IndexError, "token -"),
        (lambda: layer(dense.index_put((torch.tensor(1), torch.tensor(3)), torch.tensor(torch.nan))), ValueError,
         "`input` holds a NaN or an infinity in row 1 at step 3"),
        (lambda: layer(dense, lengths=[6, 0]), ValueError, "the length of row 1 is 0, but it must be from 1 to 6"),
        (lambda: layer(dense, lengths=[7, 6]), ValueError, "the length of row 0 is 7"),
        (lambda: layer(dense, lengths=[6]), ValueError, "`lengths` has 1 values, but 2"),
        (lambda: layer(dense, lengths=[6.5, 6]), ValueError, "whole numbers"),
        (lambda: layer(dense, lengths=torch.tensor([6.0, 6.0])), TypeError, "float32"),
        (lambda: layer(dense, lengths=6), TypeError, "one for each row"),
        (lambda: layer(dense, reset=torch.zeros(2, 6)), TypeError, "torch.bool is needed"),
        (lambda: layer(dense, reset=torch.zeros(6, 2, dtype=torch.bool)), ValueError, r"`reset` has shape \[6, 2\]"),
        (lambda: layer(dense, reminders=0), ValueError, "`reminders` is 0"),
        (lambda: layer(dense, batch=3), TypeError, "`batch` is 3, but a seed and a number"),
        (lambda: layer(dense, batch=(0, -1)), ValueError, "must be from 0"),
        (lambda: layer(dense, state.hidden), TypeError, "the state is a Tensor, but a SabState"),
        (lambda: layer(dense[:1], state), ValueError, "the state has 2 rows, but the input has 1"),
        (lambda: SabLSTM(5, 9)(dense, state), ValueError, "another layer: its `hidden_size` is 8, but 9"),
        (lambda: SabLSTM(5, 8, cell="gru")(dense, state), ValueError, "its `cell` is 'lstm'"),
        (lambda: SabLSTM(5, 8, k_att=2)(dense, state), ValueError, "its `k_att` is 1"),
        (lambda: SabLSTM(5, 8, capacity=2)(dense, state), ValueError, "holds 6 memories.*`capacity` is 2"),
        (lambda: layer.step(dense), ValueError, r"a dense input of one step must have \[batch, 5\]"),
        (lambda: layer.step(tokens), ValueError, r"tokens of one step must have \[batch\]"),
        (lambda: state.clone().reset([2]), IndexError, "there is no row 2 to reset"),
        (lambda: state.clone().reset(torch.tensor([True])), ValueError, r"`rows` has shape \[1\]"),
        (lambda: layer.initial_state(torch.zeros(2, 9)), ValueError, r"`hidden` has shape \[2, 9\]"),
        (lambda: layer.initial_state(torch.full((2, 8), torch.inf)), ValueError, "NaN or an infinity"),
        (lambda: SabLSTM(5, 8, cell="gru").initial_state(torch.zeros(2, 8), torch.zeros(2, 8)), ValueError, "no cell state"),
        (lambda: SabReadout(8, 0), ValueError, "`output_size` is 0"),
        (lambda: SabReadout(8, 2)(dense), TypeError, "the output of a layer"),
        (lambda: SabReadout(8, 2)(dense, dense), ValueError, r"\[..., 8\] is needed"),
        (lambda: SabModel(layer, SabReadout(9, 2)), ValueError, "the layer has 8 hidden units"),
        (lambda: attentive.save_folder(SabModel(layer, SabReadout(8, 2)), "/nowhere"), ValueError, 'inputs="tokens"'),
        (lambda: attentive.export_onnx(layer, "/nowhere"), ValueError, 'inputs="tokens"'),
        (lambda: attentive.export_onnx(3, "/nowhere"), TypeError, "a int cannot be exported"),
    ],
)  # fmt: skip
def test_calls(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_a_layer_of_another_type_says_what_to_do():
    for other, kind, words in (
        (SabLSTM(5, 8).double(), TypeError, r"`weight_ih` is torch.float64.*use `.float\(\)`"),
        (SabLSTM(5, 8).to("meta"), RuntimeError, "is on meta"),
    ):
        with pytest.raises(kind, match=words):
            other(dense)
    back = SabLSTM(5, 8).double().float()
    assert back(dense)[0].hidden.dtype == torch.float32


def test_a_parameter_with_a_nan_is_named():
    bad = SabLSTM(5, 8)
    with torch.no_grad():
        bad.w2[3, 3] = torch.nan
    for grad in (True, False):
        with torch.set_grad_enabled(grad), pytest.raises(ValueError, match="`w2` holds a NaN or an infinity"):
            bad(dense)


@pytest.mark.parametrize("name", list(state.state_dict()))
def test_a_damaged_state_is_refused(name):
    good = state.state_dict()
    for wrong in (
        {key: value for key, value in good.items() if key != name},
        {**good, name: good[name].double()},
        {**good, name: good[name].unsqueeze(0)},
        {**good, name: None},
        {**good, name: good[name] - 100} if name in ("steps", "slot_steps", "k_att", "received") else {},
        {**good, name: good[name][:1]} if name != "k_att" else {},
        {**good, name: torch.full_like(good[name], torch.nan)} if good[name].is_floating_point() else {},
    ):
        with pytest.raises((ValueError, TypeError), match="state"):
            layer.load_state(wrong)


def test_a_non_contiguous_input_is_the_same_as_a_contiguous_one():
    x = torch.randn(5, 6, 2).transpose(0, 2)
    assert not x.is_contiguous()
    assert torch.equal(layer(x)[0].hidden, layer(x.contiguous())[0].hidden)
    output, _ = layer(x)
    for adjoint in (torch.ones(()).expand(2, 6, 8), torch.randn(8, 6, 2).transpose(0, 2)):
        one, other = (
            torch.autograd.grad(output.hidden, layer.w1, given, retain_graph=True)[0]
            for given in (adjoint, adjoint.contiguous())
        )
        assert torch.equal(one, other)


def test_hidden_states_changed_in_place_are_noticed():
    output, after = layer(dense)
    output.hidden.detach().zero_()
    with pytest.raises(RuntimeError, match="changed in place"):
        layer(dense, after)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.hidden.sum().backward()


@pytest.mark.parametrize("place", ["config.json", "model.safetensors"])
def test_a_damaged_folder_is_an_error_that_names_the_file(place, tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    file = tmp_path / "model" / place
    good = file.read_bytes()
    draw = np.random.default_rng(1)
    for attempt in range(300):
        bad = bytearray(good)
        if attempt % 3 == 0:
            bad = bad[: draw.integers(len(bad))]
        else:
            for _ in range(1 + attempt % 5):
                bad[draw.integers(len(bad) if attempt % 2 else min(len(bad), 1500))] = draw.integers(256)
        file.write_bytes(bad)
        try:
            attentive.load(tmp_path / "model")
        except ValueError as why:
            assert place in str(why), why
    file.unlink()
    with pytest.raises(FileNotFoundError, match=place):
        attentive.load(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match="is not a model folder"):
        attentive.torch_model(tmp_path / "nowhere")


def test_a_panic_is_an_exception():
    with pytest.raises(RuntimeError, match="a bug in attentive: this is a test; please report it"):
        _engine._panic()


def test_without_torch_its_names_say_what_to_install():
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import attentive\n"
        f"assert attentive.load({str(MODEL)!r}).predict([[1, 2]]).shape == (1, 2, 5)\n"
        "try: attentive.SabLSTM\n"
        "except ImportError as why: print(why)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "`attentive.SabLSTM` needs PyTorch: pip install torch" in out.stdout
