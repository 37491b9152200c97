"""The layer against the independent PyTorch program in `oracle/`, over its grid of cases."""

import numpy as np
import pytest

import cases

torch = pytest.importorskip("torch")
from attentive import SabLSTM  # noqa: E402


def layer_of(about, options, tensors):
    layer = SabLSTM(about["inputs"], about["hidden"], **options)
    weights = {name: torch.tensor(tensors[name]).float() for name in layer.state_dict()}
    layer.load_state_dict(weights)
    return layer


def state_of(layer, about, options, tensors):
    if "state/h" not in tensors:
        return None
    memory, slots, steps = tensors["state/memory"], tensors["state/slots"], tensors["state/steps"]
    batch, room = memory.shape[:2]
    slot_steps = np.array(tensors.get("state/slot_steps", np.full((batch, room), -1)))
    if "state/slot_steps" not in tensors:
        # Old cases leave the steps out: a row holds its last memories.
        for row, count in enumerate(slots):
            last = steps[row] // options["k_att"]
            slot_steps[row, :count] = [max(last - back, 0) * options["k_att"] for back in reversed(range(count))]
    # Some rows have dropped their oldest memories: the layer takes the first slot as the null slot, whatever it holds.
    slot_steps[:, 0] = 0
    found = {
        "hidden": tensors["state/h"].astype(np.float32),
        "memory": memory.astype(np.float32),
        "steps": steps,
        "slot_steps": slot_steps,
        "received": tensors.get("state/received", np.zeros((batch, room))).astype(np.float32),
        "k_att": np.array(options["k_att"]),
    }
    if "state/c" in tensors:
        found["cell"] = tensors["state/c"].astype(np.float32)
    return layer.load_state({key: torch.from_numpy(np.array(value)) for key, value in found.items()})


def outputs_agree(got, expected):
    got, expected = np.asarray(got, np.float64), np.asarray(expected)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))


def input_of(about, tensors):
    if about["tokens"]:
        return torch.tensor(tensors["tokens"])
    return torch.tensor(tensors["x"]).float().requires_grad_()


def check(about, options, tensors, layer, state):
    """The last call of a case: outputs, the state after it, and every gradient."""
    x = input_of(about, tensors)
    output, after = layer(x, state)
    outputs_agree(output.hidden.detach(), tensors["out/hidden"])
    outputs_agree(output.summary.detach(), tensors["out/summary"])
    left = after.state_dict()
    outputs_agree(left["hidden"], tensors["out/final_h"])
    if "out/final_c" in tensors:
        outputs_agree(left["cell"], tensors["out/final_c"])
    assert left["steps"].tolist() == tensors["out/steps"].tolist()
    # The oracle does not store memories that no step can be reminded of. The engine reports them nevertheless.
    if options["k_top"] != 0:
        outputs_agree(left["memory"], tensors["out/memory"])
        if "out/slot_steps" in tensors:
            assert left["slot_steps"][:, 1:].tolist() == tensors["out/slot_steps"][:, 1:].tolist()
        if options.get("evict") == "least-attended" and options["capacity"]:
            outputs_agree(left["received"], tensors["out/received"])

    loss = (output.hidden * torch.tensor(tensors["cotangent/hidden"]).float()).sum()
    loss = loss + (output.summary * torch.tensor(tensors["cotangent/summary"]).float()).sum()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in layer.named_parameters()}
    if not about["tokens"]:
        gradients["x"] = x.grad
    expected = {name: tensors[f"grad/{name}"] for name in gradients}
    largest = max(np.abs(value).max() for value in expected.values())
    for name, gradient in gradients.items():
        allowed = 1e-4 * max(np.abs(expected[name]).max(), 0.01 * largest)
        np.testing.assert_allclose(gradient, expected[name], rtol=0, atol=allowed, err_msg=name)
    return output


@pytest.mark.parametrize("name", cases.names())
def test_outputs_states_and_every_gradient_are_those_of_the_oracle(name):
    about, options, tensors = cases.case(name)
    layer = layer_of(about, options, tensors)
    check(about, options, tensors, layer, state_of(layer, about, options, tensors))


@pytest.mark.parametrize("name", cases.names("credit"))
def test_r21_credit_across_calls_is_that_of_the_oracle(name):
    about, options, tensors = cases.case(name, "credit")
    assert options["credit_across_calls"]
    state = None
    for number, own in enumerate(about["earlier"]):
        inner = f"call_{number}/"
        of_call = {key.removeprefix(inner): value for key, value in tensors.items() if key.startswith(inner)}
        layer = layer_of(about, {**options, "trunc_phase": own["trunc_phase"]}, of_call)
        _, state = layer(input_of(about, of_call).detach(), state)
    output = check(about, options, tensors, layer_of(about, options, tensors), state)
    drift = output.drift()
    assert (drift is not None) == ("out/drift" in tensors)
    if drift is not None:
        assert drift.memories == tensors["out/drift_memories"][0]
        np.testing.assert_allclose([drift.mean, drift.most], tensors["out/drift"][0], rtol=0, atol=1e-5)
