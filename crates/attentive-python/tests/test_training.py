"""The layer in the ways that PyTorch trains models."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from attentive import SabLSTM, SabModel, SabReadout  # noqa: E402


def model_of():
    torch.manual_seed(1)
    return SabModel(SabLSTM(5, 16, k_top=3, trunc_phase=0), SabReadout(16, 5))


def parameters_after_steps(model, run, steps=3):
    torch.manual_seed(2)
    adam = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        x = torch.randint(5, (4, 12))
        adam.zero_grad()
        nn.functional.cross_entropy(run(x).flatten(0, 1), x.flatten()).backward()
        adam.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


class TwoLayers(nn.Module):
    """As a user writes it: tensor operations around the layer."""

    def __init__(self, model):
        super().__init__()
        self.lstm, self.readout = model.lstm, model.readout

    def forward(self, x):
        output, _ = self.lstm(x)
        return self.readout(output.hidden * 1.0, output.summary).relu()


def test_a_compiled_model_computes_what_it_computes_without():
    model = model_of()
    expected = parameters_after_steps(model, TwoLayers(model))
    for backend in ("eager", "aot_eager"):
        model = model_of()
        found = parameters_after_steps(model, torch.compile(TwoLayers(model), backend=backend))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_second_derivatives_are_a_clear_error():
    layer, x = SabLSTM(5, 8), torch.randn(2, 6, 5, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x)[0].hidden.sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives do not exist"):
        first.square().sum().backward()
    model = model_of()
    found = torch.autograd.grad(model(torch.ones(2, 6, dtype=torch.int64))[0].sum(), model.lstm.w1, create_graph=True)
    with pytest.raises(NotImplementedError, match="create_graph"):
        found[0].sum().backward()


def test_a_graph_serves_twice_if_it_is_retained_and_once_if_not():
    layer = SabLSTM(5, 8, trunc_phase=0)
    loss = layer(torch.randn(2, 6, 5))[0].hidden.square().sum()
    loss.backward(retain_graph=True)
    once = layer.w1.grad.clone()
    loss.backward()
    torch.testing.assert_close(layer.w1.grad, 2 * once)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_no_tape_outlives_its_graph():
    from attentive.nn import autograd

    gc.collect()
    before = len(autograd._TAPES)
    layer = SabLSTM(5, 8)
    output, _ = layer(torch.randn(2, 6, 5))
    loss = output.hidden.sum()
    assert len(autograd._TAPES) == before + 1
    loss.backward()
    # PyTorch frees what the graph has saved, although `loss` and `output` are still here.
    assert len(autograd._TAPES) == before
    with torch.no_grad():
        layer(torch.randn(2, 6, 5))
    layer(torch.randn(2, 6, 5))
    assert len(autograd._TAPES) == before


def test_checkpoints_compute_the_same_gradients():
    from torch.utils.checkpoint import checkpoint

    model, x = model_of(), torch.randn(3, 12, 5)
    for reentrant in (False, True):
        given = x.clone().requires_grad_()
        found = checkpoint(lambda x: model(x)[0], given, use_reentrant=reentrant)
        found.square().sum().backward()
        got = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        model(x)[0].square().sum().backward()
        assert all(torch.equal(a, b.grad) for a, b in zip(got, model.parameters(), strict=True))
        model.zero_grad()


def test_parts_of_a_model_may_be_frozen():
    model, x = model_of(), torch.randn(3, 12, 5, requires_grad=True)
    model.lstm.requires_grad_(False)
    model(x)[0].sum().backward()
    assert model.lstm.w1.grad is None and model.readout.v1.grad is not None and x.grad is not None
    model.lstm.w2.requires_grad_(True)
    model(x)[0].sum().backward()
    assert model.lstm.w2.grad is not None and model.lstm.w1.grad is None
    with torch.inference_mode():
        y, state = model(x)
        y, state = model(x, state)
        assert not y.requires_grad and state.steps.tolist() == [24] * 3


def test_autocast_computes_in_float32():
    layer, before = SabLSTM(5, 8), nn.Linear(3, 5)
    with torch.autocast("cpu", torch.bfloat16):
        x = before(torch.randn(2, 6, 3))
        assert x.dtype == torch.bfloat16
        output, _ = layer(x)
    assert output.hidden.dtype == torch.float32
    output.hidden.sum().backward()
    assert before.weight.grad is not None


def test_optimizers_that_view_parameters_as_one_vector():
    model = model_of()
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 0.5, model.parameters())
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        lbfgs.zero_grad()
        loss = model(torch.ones(2, 6, dtype=torch.int64))[0].square().mean()
        loss.backward()
        return loss

    lbfgs.step(closure)


class Answers(Dataset):
    """A data set whose items a model computes, in whatever process loads them."""

    def __init__(self):
        self.model = model_of().requires_grad_(False)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.model(torch.full((1, 20), index % 5))[0]


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.skipif(sys.platform != "linux", reason="`fork` is not everywhere")
def test_workers_of_a_data_loader_run_the_layer(context):
    answers = Answers()
    expected = torch.stack([answers[index] for index in range(8)])
    loader = DataLoader(answers, batch_size=4, num_workers=2, multiprocessing_context=context)
    assert torch.equal(torch.cat(list(loader)), expected)


DISTRIBUTED = """
    import torch, torch.distributed as dist
    from torch import nn
    from attentive import SabLSTM, SabModel, SabReadout
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = SabModel(SabLSTM(5, 16, trunc_phase=0), SabReadout(16, 5))
    parallel = nn.parallel.DistributedDataParallel(model)
    x = torch.randint(5, (8, 12), generator=torch.Generator().manual_seed(3))
    own = x[4 * rank : 4 * rank + 4]
    nn.functional.cross_entropy(parallel(own)[0].flatten(0, 1), own.flatten()).backward()
    got = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    nn.functional.cross_entropy(model(x)[0].flatten(0, 1), x.flatten()).backward()
    for a, b in zip(got, model.parameters()):
        torch.testing.assert_close(a, b.grad, rtol=1e-4, atol=1e-6)
    dist.barrier()
    print(f"rank {rank} agrees", flush=True)
    dist.destroy_process_group()
"""


def test_two_processes_train_together(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(textwrap.dedent(DISTRIBUTED))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(program)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    out = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert out.returncode == 0, out.stderr
    assert "rank 0 agrees" in out.stdout and "rank 1 agrees" in out.stdout


def resident_kilobytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_flat_over_ten_thousand_steps():
    model, x = SabModel(SabLSTM(5, 8, k_top=2, capacity=4), SabReadout(8, 2)), torch.randint(5, (2, 4))
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    state = None

    def step():
        nonlocal state
        output, state = model.lstm(x, state, lengths=[4, 2] if state is None else None, reminders=1)
        loss = model.readout(output).square().mean() + model(x)[0].mean()
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        with torch.no_grad():
            model.step(x[:, 0], state)

    for _ in range(2000):
        step()
    gc.collect()
    before = resident_kilobytes()
    for _ in range(10_000):
        step()
    gc.collect()
    assert resident_kilobytes() - before < 4096


def test_an_output_keeps_no_state_alive():
    import pickle
    import weakref

    layer = SabLSTM(5, 8)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            _, state = layer(torch.randn(2, 6, 5))
            output, after = layer(torch.randn(2, 6, 5), state)
        if grad:
            output.hidden.sum().backward()
        gone = [weakref.ref(state.engine_state()), weakref.ref(after.engine_state())]
        del state, after
        gc.collect()
        assert all(reference() is None for reference in gone)
        del output.__dict__["hidden"], output.__dict__["summary"]
        assert pickle.loads(pickle.dumps(output)).drift() is None
