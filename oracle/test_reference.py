"""Tests of the reference itself. `python test_reference.py` runs them all; pytest finds them as well.

Each rule's gradient is checked against something that is not autograd through `sab_reference.py`: finite
differences, `torch.nn.LSTM` and `torch.nn.GRU`, or the reverse sweep written by hand in `explicit_adjoints.py`.
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
import sab_reference
from sab_reference import Options, State, Weights, attention_weights, fresh_state, sab_lstm, weight_shapes

torch.set_default_dtype(torch.float64)
INPUT = 3
GOLDENS = Path(__file__).parent / "goldens" / "sab_lstm.safetensors"


# R15-R18, each part by itself and several together.
NOVEL, LEAST = dict(store="novelty", novelty=0.7), dict(evict="least-attended")
PARTS = [
    {}, dict(cell="gru"), dict(scorer="dot"), dict(scorer="cosine"), dict(sparsifier="softmax"), NOVEL, dict(capacity=2),
    dict(capacity=2, **LEAST), dict(cell="gru", scorer="dot"), dict(scorer="dot", sparsifier="softmax"),
    dict(cell="gru", scorer="cosine", sparsifier="softmax"), dict(scorer="cosine", capacity=1, **NOVEL),
    dict(cell="gru", scorer="dot", sparsifier="softmax", capacity=2, **NOVEL, **LEAST),
    dict(cell="gru", scorer="cosine", capacity=3, **LEAST),
]


def draw_weights(generator, hidden, inputs=INPUT, attention_scale=2.0, cell="lstm", scorer="additive", **_):
    scale = hidden**-0.5
    scales = {"weight_ih": scale, "weight_hh": scale, "bias": scale, "w1": scale * attention_scale,
              "w2": scale * attention_scale, "w3": attention_scale, "temperature": attention_scale}
    shapes = weight_shapes(cell, scorer, inputs, hidden)
    return Weights(**{n: torch.randn(*shape, generator=generator) * scales[n] for n, shape in shapes.items()})


def draw_state(generator, batch, hidden, slots, steps, cell="lstm", **_):
    def normal(*shape):
        return torch.randn(*shape, generator=generator) * 0.5

    places = torch.arange(max(slots))[None, :]
    valid = places < torch.tensor(slots)[:, None]
    memory = normal(batch, max(slots), hidden) * valid[:, :, None]
    return State(normal(batch, hidden), normal(batch, hidden) if cell == "lstm" else None, memory, torch.tensor(slots),
                 torch.tensor(steps), torch.where(valid, places, -1), normal(batch, max(slots)).abs() * valid)


def numpy_row(state, row=0):
    """A row of a state, as `explicit_adjoints` takes and returns it."""
    slots = int(state.slots[row])
    return dict(h=state.h[row].numpy(), c=None if state.c is None else state.c[row].numpy(),
                memories=list(state.memory[row, :slots].numpy()), slot_steps=state.slot_steps[row, :slots].tolist(),
                received=state.received[row, :slots].tolist(), steps=int(state.steps[row]))


def tracked(tensor):
    return tensor.detach().clone().requires_grad_()


def loss(output, cotangents):
    return (output.hidden * cotangents[0]).sum() + (output.summary * cotangents[1]).sum()


def autograd_gradients(x, weights, options, cotangents, state=None):
    x, weights = tracked(x), Weights(**{name: tracked(value) for name, value in weights.present().items()})
    output = sab_lstm(x, weights, options, state)
    loss(output, cotangents).backward()
    leaves = {"x": x, **weights.present()}
    return output, {n: torch.zeros_like(v) if v.grad is None else v.grad for n, v in leaves.items()}


def assert_close(actual, expected, tolerance, what=""):
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    error = (actual - expected).abs().max().item()
    assert error <= tolerance * max(1.0, expected.abs().max().item()), f"{what}: off by {error:.2e}"


def assert_same_state(state, row, wanted, what):
    """Asserts that the state of a row is the one returned by `explicit_adjoints`, and that its padding is correct."""
    found = numpy_row(state, row)
    assert (found["slot_steps"], found["steps"]) == (wanted["slot_steps"], wanted["steps"]), what
    for name in ("h", "memories", "received", *(["c"] if found["c"] is not None else [])):
        assert_close(np.array(found[name]), np.array(wanted[name]), 1e-11, f"{name}, {what}")
    slots = int(state.slots[row])
    assert (state.slot_steps[row, slots:] == -1).all() and not state.received[row, slots:].any(), what


def hangs_on_the_last_bits(output, options) -> bool:
    """Whether scores that differ only by rounding decide a choice or a division. A growing state saturates its scores."""
    if options.k_top in (0, "all"):
        return False
    for scores in itertools.chain.from_iterable(output.scores):
        if len(scores) > options.k_top:
            above = scores.sort(descending=True).values
            above = above[: options.k_top] - above[options.k_top]
            if (above.sum() if options.sparsifier == "prominence" else above[-1]) < 1e-6:
                return True
    return False


def compare_with_sweep(generator, options, number, carried) -> bool:
    """Outputs, the state and the gradient of every parameter, of the reference and of the sweep by hand.

    Returns False for a draw that depends on the last bits; it is skipped.
    """
    hidden, time = 2 + number % 4, 5 + number % 7
    weights = draw_weights(generator, hidden, **asdict(options))
    x = torch.randn(1, time, INPUT, generator=generator)
    cotangents = torch.randn(2, 1, time, hidden, generator=generator)
    state = None
    if carried:
        slots = 1 + number % (5 if options.capacity is None else options.capacity + 1)
        state = draw_state(generator, 1, hidden, [slots], [4 + number % 6], options.cell)

    output, grads = autograd_gradients(x, weights, options, cotangents, state)
    if hangs_on_the_last_bits(output, options):
        return False
    hand_hidden, hand_summary, hand_grads, hand_state = explicit_adjoints.gradients(
        x[0].numpy(), {n: w.numpy() for n, w in weights.present().items()}, *cotangents[:, 0].numpy(),
        **asdict(options), state=numpy_row(state) if carried else None)
    assert_close(output.hidden[0].detach(), hand_hidden, 1e-11, f"hidden, {options}")
    assert_close(output.summary[0].detach(), hand_summary, 1e-11, f"summary, {options}")
    assert_same_state(output.state, 0, hand_state, options)
    for name, grad in grads.items():
        assert_close(grad[0] if name == "x" else grad, hand_grads[name], 1e-9, f"grad {name}, {options}")
    return True


def test_hand_written_reverse_sweep_agrees_for_every_combination_of_options():
    """R4-R6, R9-R12, and R14 in every second case."""
    generator = torch.Generator().manual_seed(1)
    settings = itertools.product([0, 1, 3, 50, "all"], [1, 2, 3], [None, 1, 4], [0, 2], ["weights", "full"],
                                 [True, False], ["all", "one"])
    for number, setting in enumerate(settings):
        assert compare_with_sweep(generator, Options(*setting), number, carried=number % 2 == 1)


def test_hand_written_reverse_sweep_agrees_for_every_part():
    """R15-R18 with all gradient rules."""
    generator = torch.Generator().manual_seed(10)
    settings = itertools.product(PARTS, [0, 1, 2, "all"], [1, 2], ["weights", "full"], [True, False], ["all", "one"])
    compared = []
    for number, (parts, k_top, k_att, *rules) in enumerate(settings):
        options = Options(k_top, k_att, (None, 3, 4)[number % 3], number % 2, *rules, **parts)
        compared.append(compare_with_sweep(generator, options, number, carried=number // 7 % 2 == 1))
    assert sum(compared) > 0.99 * len(compared)


def test_finite_differences_agree_with_the_exact_derivative():
    """`full`, all hops, mental updates, no truncation: the gradient is complete, including the threshold (R10)."""
    generator = torch.Generator().manual_seed(2)
    defaults = [(0, 1, {}), (1, 1, {}), (2, 1, {}), (3, 2, {}), ("all", 1, {}), ("all", 3, {})]
    for k_top, k_att, parts in defaults + [(2, 1, parts) for parts in PARTS[1:]] + [(0, 1, dict(cell="gru"))]:
        options = Options(k_top, k_att, score_gradient="full", **parts)
        hidden = 4 if not parts else 3
        weights = draw_weights(generator, hidden, **parts)
        x = torch.randn(2, 7, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, 7, hidden, generator=generator)
        _, grads = autograd_gradients(x, weights, options, cotangents)
        for name, value in {"x": x, **weights.present()}.items():
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
    everything = dict(cell="gru", scorer="cosine", sparsifier="softmax", capacity=4, **NOVEL)
    for k_top, k_att, k_trunc, parts in [(2, 1, None, {}), (3, 2, 4, {}), ("all", 1, 3, {}), (2, 1, None, everything)]:
        weights = draw_weights(generator, 4, **parts)
        x = torch.randn(2, 10, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, 10, 4, generator=generator)
        all_hops = Options(k_top, k_att, k_trunc, **parts)
        _, one_hop = autograd_gradients(x, weights, replace(all_hops, hops="one"), cotangents)

        def gradients_scaled_by(factor):
            def scaled(*arguments):
                summary, *others = remind(*arguments)
                return summary.detach() + factor * (summary - summary.detach()), *others

            sab_reference.remind = scaled
            try:
                return autograd_gradients(x, weights, all_hops, cotangents)[1]
            finally:
                sab_reference.remind = remind

        none, plus, minus = (gradients_scaled_by(factor) for factor in (0.0, epsilon, -epsilon))
        for name, grad in one_hop.items():
            linear_part = none[name] + (plus[name] - minus[name]) / (2 * epsilon)
            assert_close(grad, linear_part, 1e-5, f"{name}, {all_hops}")
        # The two must differ, or this test would prove nothing.
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


def test_k_top_zero_is_torch_gru():
    """R15, R6 and R9, as above; and one step is `nn.GRUCell`."""
    generator = torch.Generator().manual_seed(11)
    hidden, time = 5, 11
    for options, segments in [(Options(0, 2, cell="gru"), [time]), (Options(0, 2, 4, 1, cell="gru"), [3, 4, 4])]:
        weights = draw_weights(generator, hidden, cell="gru")
        x = torch.randn(2, time, INPUT, generator=generator)
        cotangents = torch.randn(2, 2, time, hidden, generator=generator)
        output, grads = autograd_gradients(x, weights, options, cotangents)

        gru, cell = torch.nn.GRU(INPUT, hidden, batch_first=True), torch.nn.GRUCell(INPUT, hidden)
        b_r, b_z, b_n_input, b_n_hidden = weights.bias.chunk(4)
        biases = torch.cat([b_r, b_z, b_n_input]), torch.cat([0 * b_r, 0 * b_z, b_n_hidden])
        for module in (gru, cell):
            for parameter, value in zip(module.parameters(), (weights.weight_ih, weights.weight_hh, *biases)):
                parameter.data.copy_(value)
        carried, outputs = None, []
        for segment in x.split(segments, dim=1):
            h, carried = gru(segment, carried)
            carried = carried.detach()
            outputs.append(h)
        h = torch.cat(outputs, dim=1)
        (h * cotangents[0]).sum().backward()
        assert_close(output.hidden, h, 1e-12)
        assert_close(output.hidden[:, 6], cell(x[:, 6], output.hidden[:, 5].detach()), 1e-12)
        weight_ih, weight_hh, bias_ih, bias_hh = (parameter.grad for parameter in gru.parameters())
        assert_close(grads["weight_ih"], weight_ih, 1e-11)
        assert_close(grads["weight_hh"], weight_hh, 1e-11)
        assert_close(grads["bias"], torch.cat([bias_ih, bias_hh[-hidden:]]), 1e-11)
        assert output.state.c is None and output.state.slots.tolist() == [1, 1] and not output.state.received.any()


def test_tokens_are_one_hot_inputs():
    generator = torch.Generator().manual_seed(5)
    weights = draw_weights(generator, 4, inputs=6)
    tokens = torch.randint(0, 6, (3, 9), generator=generator)
    one_hot = torch.nn.functional.one_hot(tokens, 6).to(torch.float64)
    options = Options(2, 2, 3)
    assert_close(sab_lstm(tokens, weights, options).hidden, sab_lstm(one_hot, weights, options).hidden, 1e-12)


def same_bits(one: State, other: State) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(one, other))


def test_pieces_with_carried_state_give_the_bits_of_the_whole():
    """R14. A row that is reset while the others continue starts like a fresh one."""
    generator = torch.Generator().manual_seed(6)
    for parts in PARTS:
        weights = draw_weights(generator, 5, **parts)
        x = torch.randn(3, 17, INPUT, generator=generator)
        options = Options(2, 3 if not parts else 2, 4, trunc_phase=2, **parts)
        whole = sab_lstm(x, weights, options)
        state, pieces = None, []
        for piece in x.split([1, 7, 4, 5], dim=1):
            output = sab_lstm(piece, weights, options, state)
            state = output.state
            pieces.append(output.hidden)
        assert torch.equal(torch.cat(pieces, dim=1), whole.hidden), parts
        assert same_bits(state, whole.state), parts

        fresh = fresh_state(3, 5, x.dtype, options.cell)
        padding = state.memory.shape[1] - 1
        fresh = fresh._replace(memory=torch.nn.functional.pad(fresh.memory, (0, 0, 0, padding)),
                               slot_steps=torch.nn.functional.pad(fresh.slot_steps, (0, padding), value=-1),
                               received=torch.nn.functional.pad(fresh.received, (0, padding)))
        reset = State(*(old if old is None else torch.cat([old[:1], new[1:2], old[2:]]) for old, new in zip(state, fresh)))
        after = sab_lstm(x, weights, options, reset)
        assert torch.equal(after.hidden[1], whole.hidden[1]), parts
        slots = whole.state.slots[1]
        assert after.state.slots[1] == slots and after.state.steps.tolist() == [34, 17, 34]
        for name in ("slot_steps", "received"):
            assert torch.equal(getattr(after.state, name)[1, :slots], getattr(whole.state, name)[1, :slots]), parts
        if not parts:
            assert after.state.slots[0] == 1 + 34 // 3


def test_ties_go_to_the_older_memory():
    """R4: of equal scores the older is chosen, and the first one that is not chosen is the threshold."""
    scores = tracked(torch.tensor([0.5, 2.0, 1.0, 1.0, 1.0]))
    shares = attention_weights(scores, 2)
    assert torch.equal(shares, torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]))
    scores = tracked(torch.tensor([1.0, 3.0, 2.0, 1.0]))
    (attention_weights(scores, 2) @ torch.tensor([0.0, 1.0, 0.0, 0.0])).backward()
    assert scores.grad[0] != 0 and scores.grad[3] == 0, "the older of two equal thresholds has the gradient"


def test_softmax_takes_the_older_of_equal_scores():
    """R17: all other memories have exactly zero weight and zero gradient."""
    scores = tracked(torch.tensor([0.5, 2.0, 1.0, 1.0, 1.0]))
    shares = attention_weights(scores, 3, "softmax")
    wanted = torch.tensor([2.0, 1.0, 1.0]).exp()
    assert_close(shares[1:4].detach(), wanted / wanted.sum(), 1e-15)
    assert shares[0] == 0 and shares[4] == 0
    (shares @ torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0])).backward()
    assert (scores.grad != 0).tolist() == [False, True, True, True, False]
    equal = attention_weights(torch.ones(6), 2, "softmax")
    assert equal.tolist() == [0.5, 0.5, 0.0, 0.0, 0.0, 0.0], "R5 is about prominence: here all equal is no special case"
    few = torch.tensor([1.0, 3.0])
    assert torch.equal(attention_weights(few, 2, "softmax"), torch.softmax(few, 0)), "R6"


def test_a_zero_vector_has_cosine_zero_and_no_gradient():
    """R16: a memory, the query or both; alone and in a run that starts with the null slot."""
    generator = torch.Generator().manual_seed(12)
    weights = Weights(*(tracked(w) if w is not None else None for w in draw_weights(generator, 4, scorer="cosine")))
    some, zero = torch.randn(2, 4, generator=generator), torch.zeros(4)
    for memories, h_hat, zeros in [(torch.stack([zero, *some]), some[0], [0]), (some, zero, [0, 1]),
                                   (torch.stack([zero, zero]), zero, [0, 1])]:
        memories, h_hat = tracked(memories), tracked(h_hat)
        scores = sab_reference.cosine_scores(memories, h_hat, weights)
        assert all((scores[slot] == 0) == (slot in zeros) for slot in range(len(scores)))
        if scores.requires_grad:
            scores.sum().backward()
            assert not memories.grad[zeros].any() and memories.grad.isfinite().all() and h_hat.grad.isfinite().all()
    by_torch = torch.nn.functional.cosine_similarity(some @ weights.w1.T, (weights.w1 @ some[1])[None])
    assert_close(sab_reference.cosine_scores(some, some[1], weights).detach(),
                 (weights.temperature * by_torch).detach(), 1e-12)
    x = torch.randn(2, 8, INPUT, generator=generator)
    cotangents = torch.randn(2, 2, 8, 4, generator=generator)
    for w1 in (weights.w1, 0 * weights.w1):  # with W1 = 0 every vector is zero
        _, grads = autograd_gradients(x, weights._replace(w1=w1.detach()),
                                      Options("all", 1, score_gradient="full", scorer="cosine"), cotangents)
        assert all(grad.isfinite().all() for grad in grads.values())
        assert grads["w1"].any() == w1.any()


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
    chosen = {sab_reference.additive_scores(memories, torch.randn(6, generator=generator), weights).argmax().item()
              for _ in range(20)}
    assert len(chosen) > 1


def test_memories_are_stored_and_paths_cut_where_the_rules_say():
    """R2, R9: the grid counts a row's own steps, and a memory stored at a truncation point is not cut off."""
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


def test_what_is_stored_is_new():
    """R18: `novelty` compares with the latest memory, the null slot at first; k_att still counts."""
    generator = torch.Generator().manual_seed(13)
    weights = draw_weights(generator, 4)
    x = torch.randn(1, 16, INPUT, generator=generator)
    for k_att, novelty in [(1, 0.8), (2, 0.8), (3, 0.3)]:
        output = sab_lstm(x, weights, Options(2, k_att, store="novelty", novelty=novelty))
        latest, wanted = np.zeros(4), [0]
        for step, h in enumerate(output.hidden[0].numpy(), start=1):
            if step % k_att == 0 and np.linalg.norm(h - latest) > novelty * np.linalg.norm(h):
                latest, wanted = h, [*wanted, step]
        assert output.state.slot_steps[0].tolist() == wanted and 2 < len(wanted)
        assert len(wanted) < 17 // k_att or k_att == 3, "some states are not new"

    every = sab_lstm(x, weights, Options(2, 2))
    assert same_bits(sab_lstm(x, weights, Options(2, 2, store="novelty", novelty=0.0)).state, every.state)
    assert sab_lstm(x, weights, Options(2, 1, store="novelty", novelty=1e9)).state.slot_steps.tolist() == [[0]]
    # From the null slot |h - 0| is |h| exactly: with a novelty of 1 or more a fresh row never stores.
    assert sab_lstm(x, weights, Options(2, 1, store="novelty", novelty=1.0)).state.slot_steps.tolist() == [[0]]


def test_novelty_zero_does_not_store_the_same_state_twice():
    """R18: all weights are zero here, so h_hat is zero and every state is the null slot's again."""
    weights = Weights(*(torch.zeros(shape) for shape in weight_shapes("lstm", "dot", INPUT, 2).values()))
    state = fresh_state(1, 2, torch.float64)
    state = state._replace(memory=torch.tensor([[[3.0, 4.0]]]))
    new_ones = Options("all", 1, scorer="dot", store="novelty", novelty=0.0)
    output = sab_lstm(torch.zeros(1, 5, INPUT), weights, new_ones, state)
    assert torch.equal(output.hidden[0], torch.tensor([[3.0, 4.0]]).expand(5, 2))
    assert output.state.slot_steps.tolist() == [[0]]
    every = sab_lstm(torch.zeros(1, 5, INPUT), weights, Options("all", 1, scorer="dot"), state)
    assert every.state.slot_steps.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_the_rule_decides_which_memory_makes_room():
    """R18: the null slot stays, the others keep their order, and received weights are decayed sums."""
    generator = torch.Generator().manual_seed(14)
    weights = draw_weights(generator, 4)
    x = torch.randn(1, 14, INPUT, generator=generator)
    for capacity in (1, 2, 4):
        oldest = sab_lstm(x, weights, Options(2, 1, capacity=capacity))
        assert oldest.state.slot_steps.tolist() == [[0, *range(15 - capacity, 15)]]
        assert torch.equal(oldest.state.memory[0, 1:], oldest.hidden[0, -capacity:])
        for k_top, sparsifier in itertools.product([1, 2, "all"], ["prominence", "softmax"]):
            least = sab_lstm(x, weights, Options(k_top, 1, capacity=capacity, evict="least-attended", sparsifier=sparsifier))
            held = {0: 0.0}
            for step, scores in enumerate(least.scores[0], start=1):
                shares = attention_weights(scores, k_top, sparsifier).tolist()
                held = {at: 0.999 * received + share for (at, received), share in zip(held.items(), shares, strict=True)}
                if len(held) == capacity + 1:
                    del held[min(list(held)[1:], key=lambda at: (held[at], at))]
                held[step] = 0.0
            assert least.state.slot_steps[0].tolist() == list(held)
            assert_close(least.state.received[0], list(held.values()), 1e-12)
            assert torch.equal(least.state.memory[0, 1:], least.hidden[0, [at - 1 for at in list(held)[1:]]])


def test_k_top_above_the_capacity_is_dense_attention():
    generator = torch.Generator().manual_seed(15)
    weights = draw_weights(generator, 4)
    x = torch.randn(2, 12, INPUT, generator=generator)
    for rest in (dict(capacity=3), dict(capacity=3, sparsifier="softmax", **LEAST)):
        dense = sab_lstm(x, weights, Options("all", 1, **rest))
        for k_top in (4, 50):
            assert torch.equal(sab_lstm(x, weights, Options(k_top, 1, **rest)).hidden, dense.hidden)
        assert not torch.equal(sab_lstm(x, weights, Options(3, 1, **rest)).hidden, dense.hidden)


def test_an_evicted_memory_has_its_gradient():
    """R18: with a capacity of 1, the memory of step 2 is evicted after step 4, and step 3 was reminded of it."""
    generator = torch.Generator().manual_seed(16)
    weights = draw_weights(generator, 4)
    x = tracked(torch.randn(1, 6, INPUT, generator=generator))
    output = sab_lstm(x, weights, Options("all", 2, 1, capacity=1))  # the sequential path is cut after every step
    assert output.state.slot_steps.tolist() == [[0, 6]]
    output.summary[0, 2].sum().backward(retain_graph=True)
    assert (x.grad[0].abs().sum(dim=1) > 0).tolist() == [False, True, False, False, False, False]
    x.grad = None
    output.summary[0, 4].sum().backward()
    assert x.grad[0, 3].any() and x.grad[0, 1].any(), "step 5: the memory of step 4, and through it that of step 2"
    x.grad = None
    sab_lstm(x, weights, Options("all", 2, 1, capacity=1, hops="one")).summary[0, 4].sum().backward()
    assert x.grad[0, 3].any() and not x.grad[0, 1].any(), "one hop ends at step 4"


def test_hops_and_gradient_rules_change_no_decision():
    generator = torch.Generator().manual_seed(17)
    parts = dict(capacity=3, **NOVEL, **LEAST)
    weights = draw_weights(generator, 5)
    x = torch.randn(2, 15, INPUT, generator=generator)
    first = sab_lstm(x, weights, Options(2, 1, **parts)).state
    for rules in itertools.product(["weights", "full"], [True, False], ["all", "one"]):
        assert same_bits(sab_lstm(x, weights, Options(2, 1, 4, 0, *rules, **parts)).state, first)


def test_hand_written_reverse_sweep_agrees_with_every_golden():
    """The committed file, including tokens, batches and carried states, each row by itself."""
    tensors = load_file(GOLDENS)
    with safe_open(GOLDENS, "numpy") as file:
        cases = {n: json.loads(text) for n, text in file.metadata().items() if n.startswith("case_")}
    option_names = list(Options.__dataclass_fields__)
    for case, config in cases.items():
        golden = {n.removeprefix(case + "/"): value for n, value in tensors.items() if n.startswith(case + "/")}
        options = {name: config[name] for name in option_names if name in config}
        weights = {name: golden[name] for name in Weights._fields if name in golden}
        x = np.eye(config["inputs"])[golden["tokens"]] if config["tokens"] else golden["x"]
        total = {name: np.zeros_like(value) for name, value in weights.items()}
        told = "out/slot_steps" in golden
        assert told == (case >= "case_080") and ("out/final_c" in golden) == (config["cell"] == "lstm")
        for row in range(config["batch"]):
            state = None
            if "state/h" in golden:
                slots = golden["state/slots"][row]
                state = dict(h=golden["state/h"][row], c=golden["state/c"][row] if "state/c" in golden else None,
                             memories=list(golden["state/memory"][row, :slots]), steps=golden["state/steps"][row],
                             slot_steps=golden["state/slot_steps"][row, :slots] if told else range(slots),
                             received=golden["state/received"][row, :slots] if told else np.zeros(slots))
            hidden, summary, grads, final = explicit_adjoints.gradients(
                x[row], weights, golden["cotangent/hidden"][row], golden["cotangent/summary"][row], state=state, **options)
            assert_close(golden["out/hidden"][row], hidden, 1e-11, case)
            assert_close(golden["out/summary"][row], summary, 1e-11, case)
            names = dict(h="out/final_h", c="out/final_c", memory="out/memory", slots="out/slots", steps="out/steps",
                         slot_steps="out/slot_steps", received="out/received")
            if told:
                found = State(**{name: torch.from_numpy(golden[key]) if key in golden else None
                                 for name, key in names.items()})
                assert_same_state(found, row, final, case)
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
