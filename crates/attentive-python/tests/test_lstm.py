"""The layer as a module of PyTorch."""

import copy
import dataclasses
import io
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence  # noqa: E402

from attentive import SabLSTM, SabModel, SabReadout  # noqa: E402


def layer_of(seed=1, **options):
    torch.manual_seed(seed)
    layer = SabLSTM(5, 12, **{"k_top": 3, "trunc_phase": 0, **options})
    layer.reset_parameters(attention_gain=3, score_gain=3)
    return layer


def gradients(layer, loss):
    return torch.autograd.grad(loss, list(layer.parameters()))


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_first_two_numbers_say_the_sizes_and_names_are_those_of_pytorch():
    layer = SabLSTM(5, 12)
    assert {name: tuple(value.shape) for name, value in layer.state_dict().items()} == {
        "weight_ih": (48, 5),
        "weight_hh": (48, 12),
        "bias": (48,),
        "w1": (12, 12),
        "w2": (12, 12),
        "w3": (12,),
    }
    assert all(value.is_contiguous() for value in layer.parameters())
    assert repr(SabLSTM(5, 12, cell="gru")) == "SabLSTM(5, 12, k_top=5, k_att=1, k_trunc=5, cell='gru')"


def test_without_attention_it_is_nn_lstm_with_its_weights_and_gradients():
    torch.manual_seed(3)
    for kind in (nn.LSTM, nn.GRU):
        theirs = kind(5, 12, batch_first=True)
        ours = SabLSTM.from_lstm(theirs, k_top=0, k_trunc=None)
        x = torch.randn(3, 9, 5)
        output, _ = ours(x)
        expected, _ = theirs(x)
        torch.testing.assert_close(output.hidden, expected, rtol=0, atol=1e-6)
        assert not output.summary.any()
        output.hidden.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(ours.weight_hh.grad, theirs.weight_hh_l0.grad, rtol=1e-4, atol=1e-5)


def test_a_step_after_the_other_gives_the_bits_of_the_whole_sequence():
    for options in ({}, {"cell": "gru", "scorer": "cosine"}, {"store": "novelty", "capacity": 3}):
        layer = layer_of(**options)
        x = torch.randn(4, 20, 5)
        with torch.no_grad():
            whole, last = layer(x, reminders=2)
            state, steps = None, []
            for t in range(20):
                output, state = layer.step(x[:, t], state, reminders=2)
                steps.append(output)
        assert torch.equal(torch.stack([step.hidden for step in steps], 1), whole.hidden)
        assert torch.equal(torch.stack([step.summary for step in steps], 1), whole.summary)
        assert torch.equal(steps[-1].reminders.steps[:, 0], whole.reminders.steps[:, -1, 0])
        assert same(state.state_dict().values(), last.state_dict().values())


def test_the_number_of_threads_changes_no_bit():
    layer, x, found = layer_of(), torch.randn(8, 30, 5), []
    threads = torch.get_num_threads()
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        output, _ = layer(x)
        found.append([output.hidden, *gradients(layer, output.hidden.square().sum())])
    torch.set_num_threads(threads)
    assert same(found[0], found[1]) and same(found[0], found[2])


def test_a_state_stays_as_it_is_and_can_be_saved_copied_and_reset():
    layer, x = layer_of(store="novelty", capacity=4, evict="least-attended"), torch.randn(3, 12, 5)
    _, state = layer(x)
    before = state.state_dict()
    continued, _ = layer(x, state)
    assert same(before.values(), state.state_dict().values())
    stored = io.BytesIO()
    torch.save(state.state_dict(), stored)
    stored.seek(0)
    for other in (
        layer.load_state(torch.load(stored)),
        pickle.loads(pickle.dumps(state)),
        copy.deepcopy(state),
        state.clone(),
        state.detach(),
    ):
        assert same([layer(x, other)[0].hidden], [continued.hidden])
    reset = state.clone()
    reset.reset([1])
    assert reset.steps.tolist() == [12, 0, 12] and state.steps.tolist() == [12, 12, 12]
    after, _ = layer(x, reset)
    assert torch.equal(after.hidden[0], continued.hidden[0])
    assert torch.equal(after.hidden[1], layer(x)[0].hidden[1])
    reset.reset(torch.tensor([True, False, False]))
    reset.reset(2)
    assert reset.steps.tolist() == [0, 0, 0]


def test_a_given_hidden_state_is_the_null_slot():
    layer, hidden = layer_of(), torch.rand(2, 12)
    state = layer.initial_state(hidden, torch.rand(2, 12))
    assert torch.equal(state.memory[:, 0], hidden) and torch.equal(state.hidden, hidden)
    assert not torch.equal(layer(torch.ones(2, 3, 5), state)[0].hidden, layer(torch.ones(2, 3, 5))[0].hidden)


def each_by_itself(layer, x, pieces):
    """The layer over pieces, each a sequence from a fresh state: `(row, start, end)`."""
    hidden = torch.zeros(*x.shape[:2], 12)
    for row, start, end in pieces:
        hidden = hidden.index_put(
            (torch.tensor(row), torch.arange(start, end)), layer(x[row : row + 1, start:end])[0].hidden[0]
        )
    return hidden


def test_rows_of_different_lengths_are_the_rows_by_themselves():
    layer, lengths = layer_of(), [7, 1, 20, 16, 5]
    x = torch.randn(5, 20, 5)
    x[1, 1:] = torch.nan  # what stands after the end is ignored
    x.requires_grad_()
    output, state = layer(x, lengths=torch.tensor(lengths), reminders=3)
    clean = x.detach().nan_to_num().requires_grad_()
    expected = each_by_itself(layer, clean, [(row, 0, length) for row, length in enumerate(lengths)])
    assert torch.equal(output.hidden, expected)
    assert state.steps.tolist() == lengths
    for row, length in enumerate(lengths):
        alone, last = layer(clean[row : row + 1, :length], reminders=3)
        assert torch.equal(last.hidden[0], state.hidden[row])
        assert torch.equal(last.memory[0], state.memory[row, : length + 1])
        most = alone.reminders.steps.shape[2]
        assert torch.equal(output.reminders.steps[row, :length, :most], alone.reminders.steps[0])
        assert (output.reminders.steps[row, length:] == -1).all()
    loss = torch.randn(5, 20, 12)
    got = torch.autograd.grad((output.hidden * loss).sum(), [*layer.parameters(), x])
    right = torch.autograd.grad((expected * loss).sum(), [*layer.parameters(), clean])
    for a, b in zip(got, right, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_row_that_is_reset_begins_anew_within_the_call():
    layer, x = layer_of(), torch.randn(3, 20, 5)
    reset = torch.zeros(3, 20, dtype=torch.bool)
    reset[0, 4] = reset[0, 11] = reset[1, 0] = reset[2, 19] = True
    _, carried = layer(torch.randn(3, 6, 5))
    output, state = layer(x, carried, reset=reset)
    pieces = [(0, 4, 11), (0, 11, 20), (1, 0, 20), (2, 19, 20)]
    expected = each_by_itself(layer, x, pieces)
    for row, start, end in pieces:
        assert torch.equal(output.hidden[row, start:end], expected[row, start:end])
    # The pieces before the first reset go on from the carried state.
    assert torch.equal(output.hidden[0, :4], layer(x[:, :4], carried)[0].hidden[0])
    assert torch.equal(output.hidden[2, :19], layer(x[:, :19], carried)[0].hidden[2])
    assert state.steps.tolist() == [9, 20, 1]
    again, _ = layer.step(x[:, 0], state, reset=torch.tensor([True, False, False]))
    assert torch.equal(again.hidden[0], layer.step(x[:, 0])[0].hidden[0])


def test_a_packed_sequence_comes_back_packed():
    layer, lengths = layer_of(), torch.tensor([3, 9, 1])
    for x in (torch.randn(3, 9, 5), torch.randint(5, (3, 9))):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, state = layer(packed)
        assert isinstance(output.hidden, PackedSequence)
        padded, _ = pad_packed_sequence(output.hidden, batch_first=True)
        assert torch.equal(padded, layer(x, lengths=lengths)[0].hidden)
        assert state.steps.tolist() == [3, 9, 1]
        y = SabReadout(12, 2)(output)
        assert isinstance(y, PackedSequence) and y.data.shape == (13, 2)


def test_time_may_come_first():
    layer, x = layer_of(), torch.randn(3, 9, 5)
    other = SabLSTM.of_options(layer.options, batch_first=False)
    other.load_state_dict(layer.state_dict())
    expected, _ = layer(x, lengths=[9, 2, 5], reminders=2)
    output, _ = other(x.transpose(0, 1), lengths=[9, 2, 5], reminders=2)
    assert torch.equal(output.hidden, expected.hidden.transpose(0, 1))
    assert torch.equal(output.reminders.weights, expected.reminders.weights.transpose(0, 1))


def test_a_model_is_its_two_layers():
    for x, batch_first in (
        (torch.randn(4, 9, 5), True),
        (torch.randint(5, (4, 9)), True),
        (torch.randn(4, 9, 5), False),
    ):
        x = x.transpose(0, 1) if not batch_first else x
        model = SabModel(layer_of(batch_first=batch_first), SabReadout(12, 3))
        for lengths in (None, [9, 4, 1, 9]):
            for last in (False, True):
                y, _ = model(x, lengths=lengths, last=last)
                expected = model.readout(model.lstm(x, lengths=lengths)[0])
                if last:
                    steps_first = expected if batch_first else expected.transpose(0, 1)
                    ends = torch.tensor(lengths or [9] * 4) - 1
                    expected = steps_first[torch.arange(4), ends]
                torch.testing.assert_close(y, expected)
                got, right = (gradients(model, out.square().sum()) for out in (y, expected))
                for a, b in zip(got, right, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            assert torch.equal(model(x)[0], model(x)[0])


def test_saving_copying_and_loading_keep_the_outputs():
    layer, x = layer_of(), torch.randint(5, (2, 8))
    expected = layer(x)[0].hidden
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    fresh = layer_of(seed=9)
    fresh.load_state_dict(layer.state_dict())
    assigned = layer_of(seed=9)
    assigned.load_state_dict(layer.state_dict(), assign=True)
    named = {
        {"w": "attention."}.get(name[0] if name[1:].isdigit() else "", "lstm.") + name: value
        for name, value in layer.state_dict().items()
    }
    of_folder = layer_of(seed=9)
    of_folder.load_state_dict({**named, "output.bias": torch.zeros(3)})
    for other in (copy.deepcopy(layer), torch.load(stored, weights_only=False), fresh, assigned, of_folder):
        assert torch.equal(other(x)[0].hidden, expected)
    with pytest.raises(RuntimeError, match="w3"):
        layer.load_state_dict({name: value for name, value in layer.state_dict().items() if name != "w3"})


def test_evaluation_notices_every_change_of_a_parameter():
    layer, x = layer_of(), torch.randint(5, (2, 8))
    for change in (
        lambda: layer.w1.data.mul_(2),
        lambda: layer.w3.detach().numpy().fill(0.5),
        lambda: layer.weight_hh.data.copy_(torch.randn(48, 12)),
        lambda: layer.reset_parameters(),
    ):
        with torch.no_grad():
            layer(x)
            change()
            now = layer(x)[0].hidden
        assert torch.equal(now, layer(x)[0].hidden.detach())


def test_random_phases_differ_between_calls_and_can_be_repeated():
    layer, x = layer_of(trunc_phase="random", k_trunc=7), torch.randn(2, 30, 5)
    found = [gradients(layer, layer(x)[0].hidden.square().sum())[1] for _ in range(12)]
    assert len({tuple(gradient.flatten().tolist()) for gradient in found}) > 3
    first, again = (gradients(layer, layer(x, batch=(1, 7))[0].hidden.square().sum()) for _ in range(2))
    assert same(first, again)


def test_reminders_have_steps_and_weights():
    layer = layer_of()
    reminders = layer(torch.randn(2, 9, 5), reminders=2)[0].reminders
    assert reminders.steps.shape == reminders.weights.shape == (2, 9, 2)
    assert reminders.steps[0, 0].tolist() == [0, -1]  # the null slot is all there is
    assert torch.equal(reminders.weights[:, 0, 0], torch.ones(2))
    assert (reminders.steps < torch.arange(1, 10).view(1, 9, 1)).all()
    assert layer_of(k_top=0)(torch.randn(2, 9, 5), reminders=2)[0].reminders is None


def test_outputs_and_inputs_are_not_copied():
    layer = layer_of()
    x = torch.randn(4, 16, 5)
    from attentive.nn import autograd

    seen = []
    original = autograd._engine.forward

    class Spy:
        def __getattr__(self, name):
            return getattr(engine, name)

        def forward(self, *arguments, **named):
            found = original(*arguments, **named)
            seen.append((arguments[2].ctypes.data, found[0].ctypes.data, found[1].ctypes.data))
            return found

    engine = autograd._engine
    autograd._engine = Spy()
    try:
        output, _ = layer(x)
        with torch.no_grad():
            other, _ = layer(x)
    finally:
        autograd._engine = engine
    assert seen[0] == (x.data_ptr(), output.hidden.data_ptr(), output.summary.data_ptr())
    assert seen[1] == (x.data_ptr(), other.hidden.data_ptr(), other.summary.data_ptr())


def test_two_threads_at_once_compute_what_one_does():
    layer, batches = layer_of(), [torch.randn(8, 60, 5) for _ in range(2)]
    alone = [gradients(layer, layer(x)[0].hidden.square().sum()) for x in batches]
    found = [[], []]

    def work(number):
        for _ in range(10):
            x = batches[number]
            with torch.no_grad():
                layer(x)
            found[number].append(gradients(layer, layer(x)[0].hidden.square().sum()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert all(len(results) == 10 for results in found)
    assert all(same(alone[number], results) for number in range(2) for results in found[number])


@pytest.mark.parametrize("tokens", [True, False])
def test_r21_gradient_reaches_memories_of_earlier_calls(tokens):
    layer = layer_of(k_trunc=4, hops="one", credit_across_calls=True)
    one_hop = SabLSTM.of_options(dataclasses.replace(layer.options, credit_across_calls=False))
    one_hop.load_state_dict(layer.state_dict())
    x = torch.randint(5, (3, 20)) if tokens else torch.randn(3, 20, 5)
    weights = torch.randn(3, 12, 12)

    def of_second_call(state):
        output, _ = layer(x[:, 8:], state)
        return output, gradients(layer, (output.hidden * weights).sum())

    _, first = layer(x[:, :8])
    output, found = of_second_call(first)
    assert output.drift().memories > 0 and output.drift().most == 0
    whole, _ = one_hop(x)
    expected = gradients(one_hop, (whole.hidden[:, 8:] * weights).sum())
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    for other in (pickle.loads(pickle.dumps(first)), layer.load_state(first.state_dict()), first.clone()):
        assert same(found, of_second_call(other)[1])
    output, detached = of_second_call(first.detach())
    assert not same(found, detached) and output.drift() is None
    # Rows may come and go: gradient of a row that was reset ends there.
    first.reset([0, 1, 2])
    assert of_second_call(first)[0].drift() is None


def test_r21_damaged_segments_are_refused():
    layer = layer_of(k_trunc=4, credit_across_calls=True)
    good = layer(torch.randint(5, (3, 9)))[1].state_dict()
    names = [name for name in good if name.startswith("segment")]
    assert len(names) == 6
    for name in names:
        for wrong in (
            {key: value for key, value in good.items() if key != name},
            {**good, name: good[name][:-1] if name != "segment_slots" else good[name][:, :2]},
            {**good, name: good[name] - 50},
            {**good, name: good[name].double()},
        ):
            try:
                layer.load_state(wrong)
            except (ValueError, TypeError):
                continue
            assert good[name].is_floating_point(), name  # other numbers are other data
