"""Tests of credit across calls (R21) in the reference. `python test_credit.py` runs them all; pytest finds them as well.

The gradient is compared with one long call, with finite differences, and with the adjoints written by hand, which also
run over the committed goldens.
"""

import itertools
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

import explicit_adjoints
from sab_reference import Options, Weights, sab_lstm
from test_reference import (INPUT, LEAST, NOVEL, PARTS, assert_close, autograd_gradients, draw_weights,
                            hangs_on_the_last_bits, loss)

torch.set_default_dtype(torch.float64)
GOLDENS = Path(__file__).parent / "goldens" / "credit.safetensors"
CREDIT = Options(2, 1, 4, credit_across_calls=True)
HIDDEN = 4


def draw(generator, options, batch, time, hidden=HIDDEN):
    """Weights, inputs and cotangents."""
    weights = draw_weights(generator, hidden, **asdict(options))
    return (weights, torch.randn(batch, time, INPUT, generator=generator),
            torch.randn(2, batch, time, hidden, generator=generator))


def changed(weights, generator, by=0.1):
    """Weights after an update."""
    return Weights(**{name: value + by * torch.randn(value.shape, generator=generator)
                      for name, value in weights.present().items()})


def after_calls(x, weights, options, ends):
    """The state after calls that end at these steps."""
    state = None
    for start, end in itertools.pairwise([0, *ends]):
        state = sab_lstm(x[:, start:end], weights, options, state).state
    return state


def far_apart(gradients, others):
    """Whether two sets of gradients differ by much."""
    return any((gradients[name] - others[name]).abs().max() > 1e-3 for name in gradients if name != "x")


def test_the_gradient_is_that_of_one_long_call_with_one_hop():
    """With the same weights and a truncation point between the calls."""
    generator = torch.Generator().manual_seed(31)
    seen = 0
    for parts, score_gradient, (k_att, phase) in itertools.product(PARTS, ["weights", "full"], [(1, 0), (2, 3)]):
        options = replace(CREDIT, k_att=k_att, trunc_phase=phase, score_gradient=score_gradient, hops="one", **parts)
        boundary, time = 12 - phase, 19
        weights, x, cotangents = draw(generator, options, 2, time)
        cotangents[:, :, :boundary] = 0  # the loss lies in the second call
        whole, wanted = autograd_gradients(x, weights, replace(options, credit_across_calls=False), cotangents)
        if hangs_on_the_last_bits(whole, options):
            continue
        state = after_calls(x, weights, options, [boundary])
        second = (x[:, boundary:], weights, options, cotangents[:, :, boundary:], state)
        output, grads = autograd_gradients(*second)
        assert torch.equal(output.hidden, whole.hidden[:, boundary:]), "forward is not changed by a bit"
        assert all(memory.drift < 1e-12 for memory in output.replayed), options
        assert_close(grads["x"], wanted["x"][:, boundary:], 1e-11, options)  # earlier inputs are data
        for name in weights.present():
            assert_close(grads[name], wanted[name], 1e-11, f"{name}, {options}")
        _, without = autograd_gradients(*second[:2], replace(options, credit_across_calls=False), *second[3:])
        seen += far_apart(grads, without)
    assert seen > 40


def test_gradients_agree_with_finite_differences_after_the_weights_have_changed():
    """Carried memories move as their replays do. Without truncation points in the second call, `full` is exact."""
    generator = torch.Generator().manual_seed(32)
    for parts, k_att in [*((parts, 1) for parts in PARTS), ({}, 2)]:
        options = replace(CREDIT, k_att=k_att, k_trunc=5, trunc_phase=0, score_gradient="full", **parts)
        boundary, time = 10, 14
        before, x, cotangents = draw(generator, options, 1, time, hidden=3)
        weights = changed(before, generator)
        first = sab_lstm(x[:, :boundary], before, options)
        state = first.state
        second, cotangents = x[:, boundary:], cotangents[:, :, boundary:]
        output, grads = autograd_gradients(second, weights, options, cotangents, state)
        assert max(memory.drift for memory in output.replayed) > 1e-2

        def replayed(step, now):
            """The state after a step of the first call, from the latest truncation point before it, in NumPy."""
            p = {name: value.numpy() for name, value in now.present().items()}
            start = (step - 1) // 5 * 5
            old = {name: value.numpy() for name, value in before.present().items()}
            hand = dict(k_top=2, k_att=k_att, k_trunc=5, trunc_phase=0, **{
                name: getattr(options, name)
                for name in ("cell", "scorer", "sparsifier", "store", "novelty", "capacity", "evict")})
            _, _, at_start = explicit_adjoints.forward(x[0, :start].numpy(), old, hand, explicit_adjoints.fresh_state(old))
            h, c = at_start["h"], at_start["c"]
            for t in range(start, step):
                h_hat, c, _ = explicit_adjoints.FORWARD[options.cell](x[0, t].numpy(), h, c, p)
                h = h_hat + first.summary[0, t].numpy()
            return torch.from_numpy(h)

        steps = state.slot_steps[0].tolist()
        now = {step: replayed(step, weights) for step in steps if step}

        def loss_at(moved):
            memory = state.memory.clone()
            for slot, step in enumerate(steps):
                if step:
                    memory[0, slot] += replayed(step, moved) - now[step]
            return loss(sab_lstm(second, moved, replace(options, credit_across_calls=False),
                                 state._replace(memory=memory)), cotangents)

        for name, value in weights.present().items():
            for index in np.ndindex(*value.shape):
                def shifted(by):
                    moved = value.clone()
                    moved[index] += by
                    return loss_at(weights._replace(**{name: moved}))

                numeric = (shifted(1e-6) - shifted(-1e-6)) / 2e-6
                assert_close(grads[name][index], numeric, 5e-6, f"{name}{index}, {options}")


def test_adjoints_by_hand_agree_for_every_part():
    """Three calls with changing weights and phases. A truncation point seldom lies between them."""
    generator = torch.Generator().manual_seed(33)
    compared, settings = 0, itertools.product(PARTS, [1, 3, "all"], ["weights", "full"], ["all", "one"])
    for number, (parts, k_top, score_gradient, hops) in enumerate(settings):
        options = Options(k_top, 1 + number % 2, 3 + number % 3, number % 4, score_gradient, True, hops, **parts,
                          credit_across_calls=True)
        weights, x, cotangents = draw(generator, options, 1, 14)
        state, hand_state, clear = None, None, True
        for start, end, shift in [(0, 5, 0), (5, 9, number % 5 // 4), (9, 14, number % 5 // 3)]:
            now = replace(options, trunc_phase=options.trunc_phase + shift)
            of_call = cotangents[:, :, start:end]
            output, grads = autograd_gradients(x[:, start:end], weights, now, of_call, state)
            clear = clear and not hangs_on_the_last_bits(output, options)
            if not clear:
                break
            p = {name: value.numpy() for name, value in weights.present().items()}
            with np.errstate(over="ignore"):  # where states grow, a share of softmax may be 1 / inf
                _, _, hand_grads, hand_state = explicit_adjoints.gradients(
                    x[0, start:end].numpy(), p, *of_call[:, 0].numpy(), **asdict(now), state=hand_state)
            for name, grad in grads.items():
                assert_close(grad[0] if name == "x" else grad, hand_grads[name], 1e-9, f"{name}, {now}")
            if k_top != 1 or score_gradient == "weights":  # otherwise rounding decides whether gradient enters the threshold
                entered = [memory.drift for memory in output.replayed if memory.memory.grad.any()]
                for drift, by_hand in zip(entered, hand_state["drifts"], strict=True):
                    assert_close(drift, by_hand, 1e-9, now)
            state, weights = output.state, changed(weights, generator)
        compared += clear
    assert compared > 0.9 * (number + 1)


def test_where_a_call_ends_does_not_matter():
    """A segment goes on through calls, one step at a time too, and is bounded by `k_trunc`."""
    generator = torch.Generator().manual_seed(34)
    for parts in PARTS:
        options = replace(CREDIT, trunc_phase=2, **parts)
        weights, x, cotangents = draw(generator, options, 2, 20)
        later = changed(weights, generator)
        ends = [[14], [3, 4, 9, 14], list(range(1, 15))]  # a truncation point lies after step 14
        runs = [autograd_gradients(x[:, 14:], later, options, cotangents[:, :, 14:], after_calls(x, weights, options, these))
                for these in ends]
        for output, grads in runs[1:]:
            assert [memory.drift for memory in output.replayed] == [memory.drift for memory in runs[0][0].replayed]
            for name, grad in grads.items():
                assert_close(grad, runs[0][1][name], 1e-12, f"{name}, {options}")
        kept = after_calls(x, weights, options, ends[2]).segments
        for segment in itertools.chain(*kept.slots, kept.since_cut):
            assert segment is None or len(segment.inputs) == len(segment.summaries) <= options.k_trunc
        assert all(slots[0] is None and all(slots[1:]) for slots in kept.slots), "nothing led to the null slot"


def test_another_grid_begins_new_segments():
    generator = torch.Generator().manual_seed(35)
    weights, x, _ = draw(generator, CREDIT, 1, 8)
    state = sab_lstm(x[:, :6], weights, CREDIT).state
    for options, steps in [(CREDIT, 3), (replace(CREDIT, trunc_phase=4), 3), (replace(CREDIT, trunc_phase=3), 1),
                           (replace(CREDIT, k_trunc=5), 1)]:
        segments = sab_lstm(x[:, 6:7], weights, options, state).state.segments
        assert [len(segment.inputs) for segment in segments.slots[0][1:]] == [1, 2, 3, 4, 1, 2, steps], options
        assert segments.grid == options.grid()


def test_every_option_makes_a_difference():
    """Between calls: credit itself, the truncation points, the store, and the rules of R10 and R12."""
    generator = torch.Generator().manual_seed(36)
    options = replace(CREDIT, capacity=5, **NOVEL, **LEAST)
    weights, x, cotangents = draw(generator, options, 3, 22)
    later = changed(weights, generator)

    def gradients(now):
        return autograd_gradients(x[:, 13:], later, now, cotangents[:, :, 13:], after_calls(x, weights, now, [13]))[1]

    right = gradients(options)
    for name, value in dict(credit_across_calls=False, k_trunc=5, trunc_phase=1, k_att=2, hops="one", score_gradient="full",
                            store="every", capacity=4, evict="oldest", sparsifier="softmax").items():
        assert far_apart(gradients(replace(options, **{name: value})), right), name


def test_a_memory_without_a_segment_is_a_constant():
    """The null slot, memories of calls without the option, and every memory in a call without it."""
    generator = torch.Generator().manual_seed(37)
    weights, x, cotangents = draw(generator, CREDIT, 2, 14)
    without = replace(CREDIT, credit_across_calls=False)
    state, bare = (after_calls(x, weights, options, [8]) for options in (CREDIT, without))
    assert bare.segments is None
    results = [autograd_gradients(x[:, 8:], weights, options, cotangents[:, :, 8:], carried)
               for options, carried in [(without, state), (CREDIT, bare), (without, bare)]]
    for output, grads in results:
        assert not output.replayed
        assert all(torch.equal(grad, results[0][1][name]) for name, grad in grads.items())


def test_adjoints_by_hand_agree_with_every_golden():
    """The committed file, each row by itself, with the first calls by hand as well."""
    tensors = load_file(GOLDENS)
    with safe_open(GOLDENS, "numpy") as file:
        cases = {name: json.loads(text) for name, text in file.metadata().items() if name.startswith("case_")}
    assert len(cases) >= 18
    for case, config in cases.items():
        golden = {name.removeprefix(case + "/"): value for name, value in tensors.items() if name.startswith(case + "/")}
        options = {name: config[name] for name in Options.__dataclass_fields__}
        total, drifts = {}, []
        for row in range(config["batch"]):
            state = None
            calls = [(f"call_{number}/", call["trunc_phase"]) for number, call in enumerate(config["earlier"])]
            for folder, phase in [*calls, ("", config["trunc_phase"])]:
                weights = {name: golden[folder + name] for name in Weights._fields if folder + name in golden}
                x = np.eye(config["inputs"])[golden[folder + "tokens"]] if config["tokens"] else golden[folder + "x"]
                nothing = np.zeros((x.shape[1], config["hidden"]))
                cotangents = [golden[f"cotangent/{of}"][row] if not folder else nothing for of in ("hidden", "summary")]
                hidden, summary, grads, state = explicit_adjoints.gradients(
                    x[row], weights, *cotangents, state=state, **{**options, "trunc_phase": phase})
            assert_close(golden["out/hidden"][row], hidden, 1e-11, case)
            assert_close(golden["out/summary"][row], summary, 1e-11, case)
            if not config["tokens"]:
                assert_close(golden["grad/x"][row], grads["x"], 1e-9, case)
            total = {name: total.get(name, 0) + grads[name] for name in weights}
            drifts += state["drifts"]
        for name in total:
            assert_close(golden[f"grad/{name}"], total[name], 1e-9, f"{case}, {name}")
        assert len(drifts) == golden["out/drift_memories"][0], case
        assert_close(golden["out/drift"][0], [np.mean(drifts), np.max(drifts)], 1e-11, case)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok  {name}", flush=True)
