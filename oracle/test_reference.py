"""Tests of the reference itself. `python test_reference.py` runs them all; pytest finds them as well.

Each rule's gradient is checked against something that is not autograd through `sab_reference.py`: finite
differences, `torch.nn.LSTM`, or the reverse sweep written by hand in `explicit_adjoints.py`.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

import explicit_adjoints
import sab_reference
from sab_reference import Options, State, Weights, attention_weights, fresh_state, sab_lstm

torch.set_default_dtype(torch.float64)
INPUT = 3
GOLDENS = Path(__file__).parent / "goldens" / "sab_lstm.safetensors"


def draw_weights(generator, hidden, inputs=INPUT, attention_scale=2.0):
    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    scale = hidden**-0.5
    return Weights(
        weight_ih=normal(4 * hidden, inputs) * scale,
        weight_hh=normal(4 * hidden, hidden) * scale,
        bias=normal(4 * hidden) * scale,
        w1=normal(hidden, hidden) * scale * attention_scale,
        w2=normal(hidden, hidden) * scale * attention_scale,
        w3=normal(hidden) * attention_scale,
    )


def draw_state(generator, batch, hidden, slots, steps):
    def normal(*shape):
        return torch.randn(*shape, generator=generator) * 0.5

    valid = torch.arange(max(slots))[None, :, None] < torch.tensor(slots)[:, None, None]
    memory = normal(batch, max(slots), hidden) * valid
    return State(normal(batch, hidden), normal(batch, hidden), memory, torch.tensor(slots), torch.tensor(steps))


def tracked(tensor):
    return tensor.detach().clone().requires_grad_()


def loss(output, cotangents):
    return (output.hidden * cotangents[0]).sum() + (output.summary * cotangents[1]).sum()


def autograd_gradients(x, weights, options, cotangents, state=None):
    x, weights = tracked(x), Weights(*map(tracked, weights))
    output = sab_lstm(x, weights, options, state)
    loss(output, cotangents).backward()
    leaves = {"x": x, **weights._asdict()}
    return output, {n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in leaves.items()}


def assert_close(actual, expected, tolerance, what=""):
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    error = (actual - expected).abs().max().item()
    assert error <= tolerance * max(1.0, expected.abs().max().item()), f"{what}: off by {error:.2e}"


def test_hand_written_reverse_sweep_agrees_for_every_combination_of_options():
    """R4-R6, R9-R12, and R14 in every second case: outputs and the gradient of every parameter."""
    generator = torch.Generator().manual_seed(1)
    settings = itertools.product([0, 1, 3, 50, "all"], [1, 2, 3], [None, 1, 4], [0, 2], ["weights", "full"],
                                 [True, False], ["all", "one"])
    for number, (k_top, k_att, k_trunc, phase, score_gradient, mental, hops) in enumerate(settings):
        options = Options(k_top, k_att, k_trunc, phase, score_gradient, mental, hops)
        hidden, time = 2 + number % 4, 5 + number % 7
        weights = draw_weights(generator, hidden)
        x = torch.randn(1, time, INPUT, generator=generator)
        cotangents = torch.randn(2, 1, time, hidden, generator=generator)
        state = numpy_state = None
        if number % 2:
            state = draw_state(generator, 1, hidden, [1 + number % 5], [number % 6])
            numpy_state = (state.h[0].numpy(), state.c[0].numpy(), list(state.memory[0].numpy()), number % 6)

        output, grads = autograd_gradients(x, weights, options, cotangents, state)
        hand_hidden, hand_summary, hand_grads = explicit_adjoints.gradients(
            x[0].numpy(), {n: w.numpy() for n, w in weights._asdict().items()}, *cotangents[:, 0].numpy(),
            k_top=k_top, k_att=k_att, k_trunc=k_trunc, trunc_phase=phase, score_gradient=score_gradient,
            mental_updates=mental, hops=hops, state=numpy_state)
        assert_close(output.hidden[0].detach(), hand_hidden, 1e-11, f"hidden, {options}")
        assert_close(output.summary[0].detach(), hand_summary, 1e-11, f"summary, {options}")
        for name, grad in grads.items():
            hand = hand_grads[name]
            assert_close(grad[0] if name == "x" else grad, hand, 1e-9, f"grad {name}, {options}")


def test_finite_differences_agree_with_the_exact_derivative():
    """`full`, all hops, mental updates, no truncation: nothing is left out, threshold included (R10)."""
    generator = torch.Generator().manual_seed(2)
    for k_top, k_att in [(0, 1), (1, 1), (2, 1), (3, 2), ("all", 1), ("all", 3)]:
        options = Options(k_top, k_att, score_gradient="full")
        weights = draw_weights(generator, 4)
        x = torch.randn(2, 7, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, 7, 4, generator=generator)
        _, grads = autograd_gradients(x, weights, options, cotangents)
        for name, value in {"x": x, **weights._asdict()}.items():
            for index in np.ndindex(*value.shape):
                def loss_at(shift):
                    moved = value.clone()
                    moved[index] += shift
                    if name == "x":
                        return loss(sab_lstm(moved, weights, options), cotangents)
                    return loss(sab_lstm(x, weights._replace(**{name: moved}), options), cotangents)

                numeric = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6
                assert_close(grads[name][index], numeric, 2e-6, f"{name}{index}, {options}")


def test_one_hop_is_the_part_of_all_hops_that_is_linear_in_the_skip_path():
    """R12 from its definition, without a second recurrence.

    Scale the gradient that passes a summary by epsilon: a path through n reminders then weighs epsilon**n. With
    constants inside the scorer a path that passes a summary ends in W1..W3 or enters a memory, so one hop is
    what weighs epsilon**0 and epsilon**1.
    """
    generator = torch.Generator().manual_seed(3)
    remind, epsilon = sab_reference.remind, 1e-4
    for k_top, k_att, k_trunc in [(2, 1, None), (3, 2, 4), ("all", 1, 3)]:
        weights = draw_weights(generator, 4)
        x = torch.randn(2, 10, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, 10, 4, generator=generator)
        all_hops = Options(k_top, k_att, k_trunc)
        _, one_hop = autograd_gradients(x, weights, Options(k_top, k_att, k_trunc, hops="one"), cotangents)

        def gradients_scaled_by(factor):
            def scaled(*arguments):
                summary, scores = remind(*arguments)
                return summary.detach() + factor * (summary - summary.detach()), scores

            sab_reference.remind = scaled
            try:
                return autograd_gradients(x, weights, all_hops, cotangents)[1]
            finally:
                sab_reference.remind = remind

        none, plus, minus = (gradients_scaled_by(factor) for factor in (0.0, epsilon, -epsilon))
        for name, grad in one_hop.items():
            linear_part = none[name] + (plus[name] - minus[name]) / (2 * epsilon)
            assert_close(grad, linear_part, 1e-5, f"{name}, {all_hops}")
        # The two differ, or this test would prove nothing.
        assert (autograd_gradients(x, weights, all_hops, cotangents)[1]["w1"] - one_hop["w1"]).abs().max() > 1e-3


def test_k_top_zero_is_torch_lstm():
    """R1, R6, and R9: with truncation, nn.LSTM run segment by segment on detached states."""
    generator = torch.Generator().manual_seed(4)
    hidden, time, k_trunc, phase = 5, 11, 4, 1
    for options, segments in [(Options(0, 2), [time]), (Options(0, 2, k_trunc, phase), [3, 4, 4])]:
        weights = draw_weights(generator, hidden)
        x = torch.randn(2, time, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, time, hidden, generator=generator)
        output, grads = autograd_gradients(x, weights, options, cotangents)

        lstm = torch.nn.LSTM(INPUT, hidden, batch_first=True)
        for parameter, value in zip(lstm.parameters(), (*weights[:3], torch.zeros(4 * hidden))):
            parameter.data.copy_(value)
        carried, outputs = None, []
        for segment in x.split(segments, dim=1):
            h, carried = lstm(segment, carried)
            carried = tuple(part.detach() for part in carried)
            outputs.append(h)
        h = torch.cat(outputs, dim=1)
        (h * cotangents[0]).sum().backward()
        assert_close(output.hidden, h, 1e-12)
        assert_close(output.state.c, carried[1][0], 1e-12)
        for name, parameter in zip(("weight_ih", "weight_hh", "bias"), lstm.parameters()):
            assert_close(grads[name], parameter.grad, 1e-11, name)
        assert not output.summary.any()
        assert not any(grads[name].any() for name in ("w1", "w2", "w3"))


def test_tokens_are_one_hot_inputs():
    generator = torch.Generator().manual_seed(5)
    weights = draw_weights(generator, 4, inputs=6)
    tokens = torch.randint(0, 6, (3, 9), generator=generator)
    one_hot = torch.nn.functional.one_hot(tokens, 6).to(torch.float64)
    options = Options(2, 2, 3)
    assert_close(sab_lstm(tokens, weights, options).hidden, sab_lstm(one_hot, weights, options).hidden, 1e-12)


def test_pieces_with_carried_state_give_the_bits_of_the_whole():
    """R14, and a row that is reset while the others run on starts as a fresh one does."""
    generator = torch.Generator().manual_seed(6)
    weights = draw_weights(generator, 5)
    x = torch.randn(3, 17, INPUT, generator=generator)
    options = Options(2, 3, 4, trunc_phase=2)
    whole = sab_lstm(x, weights, options)
    state, pieces = None, []
    for piece in x.split([1, 7, 4, 5], dim=1):
        output = sab_lstm(piece, weights, options, state)
        state = output.state
        pieces.append(output.hidden)
    assert torch.equal(torch.cat(pieces, dim=1), whole.hidden)
    assert all(torch.equal(a, b) for a, b in zip(state, whole.state))

    fresh = fresh_state(1, 5, x.dtype)
    memory = state.memory.clone()
    memory[1] = 0
    reset = State(*(torch.cat([old[:1], new, old[2:]]) for old, new in zip(state[:2], fresh[:2])), memory,
                  *(torch.cat([old[:1], new, old[2:]]) for old, new in zip(state[3:], fresh[3:])))
    after = sab_lstm(x, weights, options, reset)
    assert torch.equal(after.hidden[1], whole.hidden[1])
    assert after.state.slots[1] == whole.state.slots[1] and after.state.steps[1] == 17
    assert after.state.slots[0] == 1 + 34 // 3


def test_ties_go_to_the_older_memory():
    """R4: of equal scores the older is chosen, and the first one that is not chosen is the threshold."""
    scores = tracked(torch.tensor([0.5, 2.0, 1.0, 1.0, 1.0]))
    shares = attention_weights(scores, 2)
    assert torch.equal(shares, torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]))
    scores = tracked(torch.tensor([1.0, 3.0, 2.0, 1.0]))
    (attention_weights(scores, 2) @ torch.tensor([0.0, 1.0, 0.0, 0.0])).backward()
    assert scores.grad[0] != 0 and scores.grad[3] == 0, "the older of two equal thresholds has the gradient"


def test_equal_scores_give_no_summary_and_no_nan():
    """R5"""
    generator = torch.Generator().manual_seed(7)
    weights = draw_weights(generator, 4)._replace(w3=torch.zeros(4))
    x = torch.randn(2, 8, INPUT, generator=generator)
    cotangents = torch.randn(2, 2, 8, 4, generator=generator)
    output, grads = autograd_gradients(x, weights, Options(1, 1, score_gradient="full"), cotangents)
    assert not output.summary[:, 1:].any()
    assert all(grad.isfinite().all() for grad in grads.values())


def test_the_query_changes_the_choice():
    """R3"""
    generator = torch.Generator().manual_seed(8)
    weights = draw_weights(generator, 6)
    memories = torch.randn(12, 6, generator=generator)
    chosen = {sab_reference.score(memories, torch.randn(6, generator=generator), weights).argmax().item()
              for _ in range(20)}
    assert len(chosen) > 1


def test_memories_are_stored_and_paths_cut_where_the_rules_say():
    """R2, R9: the grid counts a row's own steps, and what is stored at a truncation point is not cut."""
    generator = torch.Generator().manual_seed(9)
    weights = draw_weights(generator, 4)
    x = tracked(torch.randn(2, 6, INPUT, generator=generator))
    state = draw_state(generator, 2, 4, slots=[2, 3], steps=[1, 3])
    options = Options("all", 2, k_trunc=3, mental_updates=False)
    output = sab_lstm(x, weights, options, state)
    assert torch.equal(output.state.memory[0, 2:5], output.hidden[0, [0, 2, 4]])  # steps 2, 4, 6
    assert torch.equal(output.state.memory[1, 3:], output.hidden[1, [0, 2, 4]])  # steps 4, 6, 8
    output.hidden[:, -1].sum().backward()
    reached = x.grad.abs().sum(dim=2) > 0
    assert reached.tolist() == [[False] * 5 + [True], [False] * 3 + [True] * 3]  # step 7; steps 7, 8, 9

    x.grad = None
    sab_lstm(x, weights, Options("all", 2, k_trunc=3), state).summary[0, -1].sum().backward()
    assert (x.grad[0].abs().sum(dim=1) > 0).tolist()[4], "step 6 is a memory, although the path is cut after it"


def test_hand_written_reverse_sweep_agrees_with_every_golden():
    """The file as it is committed: tokens, batches and carried states included, each row by itself."""
    tensors = load_file(GOLDENS)
    with safe_open(GOLDENS, "numpy") as file:
        cases = {n: json.loads(text) for n, text in file.metadata().items() if n.startswith("case_")}
    option_names = ("k_top", "k_att", "k_trunc", "trunc_phase", "score_gradient", "mental_updates", "hops")
    for case, config in cases.items():
        golden = {n.removeprefix(case + "/"): value for n, value in tensors.items() if n.startswith(case + "/")}
        weights = {name: golden[name] for name in Weights._fields}
        x = np.eye(config["inputs"])[golden["tokens"]] if config["tokens"] else golden["x"]
        total = {name: np.zeros_like(value) for name, value in weights.items()}
        for row in range(config["batch"]):
            state = None
            if "state/h" in golden:
                memories = list(golden["state/memory"][row, : golden["state/slots"][row]])
                state = (golden["state/h"][row], golden["state/c"][row], memories, golden["state/steps"][row])
            hidden, summary, grads = explicit_adjoints.gradients(
                x[row], weights, golden["cotangent/hidden"][row], golden["cotangent/summary"][row], state=state,
                **{name: config[name] for name in option_names})
            assert_close(golden["out/hidden"][row], hidden, 1e-11, case)
            assert_close(golden["out/summary"][row], summary, 1e-11, case)
            if not config["tokens"]:
                assert_close(golden["grad/x"][row], grads["x"], 1e-9, case)
            for name in total:
                total[name] += grads[name]
        for name in total:
            assert_close(golden[f"grad/{name}"], total[name], 1e-9, f"{case}, {name}")


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok  {name}")
