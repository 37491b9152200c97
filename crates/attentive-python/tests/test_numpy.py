"""Trained models on NumPy arrays, without PyTorch."""

import os
import signal
import threading

import numpy as np
import pytest

import attentive
import cases
from attentive.safetensors import read_tensors

FOLDERS = [cases.GOLDENS / "model", cases.GOLDENS / "model_dense"]


def example_of(folder):
    tensors, _ = read_tensors(folder / "example.safetensors")
    return tensors.get("tokens", tensors.get("dense")), tensors["outputs"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_gives_the_outputs_of_its_example(folder):
    x, expected = example_of(folder)
    np.testing.assert_allclose(attentive.load(folder).predict(x), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("folder", FOLDERS)
def test_steps_are_the_bits_of_the_sequence_and_states_stay(folder):
    model, (x, _) = attentive.load(folder, threads=1), example_of(folder)
    whole = attentive.load(folder, threads=2).predict(x)
    state, outputs = None, []
    for t in range(x.shape[1]):
        y, state = model.step(x[:, t], state)
        outputs.append(y)
    np.testing.assert_array_equal(np.stack(outputs, 1), whole)
    assert state.steps == [25] * 3
    half, middle = model.run(x[:, :12])
    for _ in range(2):  # the state in the middle can be used twice
        rest, _ = model.run(x[:, 12:], middle)
        np.testing.assert_array_equal(np.concatenate([half, rest], 1), whole)
    copy = middle.copy()
    copy.reset([0])
    assert (copy.steps, middle.steps) == ([0, 12, 12], [12, 12, 12])


def test_reminders_name_steps_before():
    model, (x, _) = attentive.load(FOLDERS[0]), example_of(FOLDERS[0])
    steps, weights = model.reminders(x, most=2)
    assert steps.shape == weights.shape == (3, 25, 2)
    assert (steps < np.arange(1, 26)[None, :, None]).all()
    assert (weights[:, 1:, 0] >= weights[:, 1:, 1]).all()


def test_a_wrong_input_is_an_error():
    model = attentive.load(FOLDERS[0])
    for x, kind, words in (
        ([1, 2], ValueError, r"shape \[2\], but \[batch, time\]"),
        ([[1.5]], TypeError, "trained on whole numbers"),
        ([[9]], IndexError, "token 9 of row 0 at step 0"),
        ([[-1]], IndexError, "token -1"),
        (np.zeros((0, 3), int), ValueError, "at least 1"),
    ):
        with pytest.raises(kind, match=words):
            model.predict(x)
    with pytest.raises(ValueError, match=r"\[batch, time, 3\]"):
        attentive.load(FOLDERS[1]).predict(np.zeros((2, 4, 2)))
    with pytest.raises(ValueError, match="its batch size is 3"):
        model.run([[1]], model.run([[1], [2], [3]])[1])
    with pytest.raises(ValueError, match="`most` is 0"):
        model.reminders([[1]], most=0)


def test_two_threads_share_a_model():
    model, (x, _) = attentive.load(FOLDERS[0]), example_of(FOLDERS[0])
    whole, wrong = model.predict(x), []

    def work():
        wrong.extend(1 for _ in range(100) if not np.array_equal(model.predict(x), whole))

    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_states_of_one_stream_share_memories_and_nothing_else():
    model, (x, _) = attentive.load(FOLDERS[0]), example_of(FOLDERS[0])
    states = [model.run(x[:, :1])[1]]
    for t in range(1, 25):
        states.append(model.step(x[:, t], states[-1])[1])
    expected = [model.run(x[:, : t + 1])[1].data() for t in range(25)]

    def same(state, right):
        for got, wanted in zip(state.data(), right, strict=True):
            np.testing.assert_array_equal(got, wanted)

    states[24].reset([1])  # those before it do not notice
    for t in (3, 23, 0, 12):
        same(states[t], expected[t])
    states[7].reset([0, 2])
    same(states[8], expected[8])
    assert (states[24].steps, states[7].steps) == ([25, 0, 25], [0, 8, 0])


def test_a_mistake_costs_no_state():
    model = attentive.load(FOLDERS[1])
    x = np.ones((2, 9, 3), np.float32)
    whole = model.predict(x)
    _, state = model.run(x[:, :5])
    bad = x.copy()
    bad[1, 6, 2] = np.nan
    for wrong in (bad[:, 5:], x[:1, 5:], x[:, 5:, :2]):
        with pytest.raises(ValueError, match=r"NaN|batch size|input"):
            model.run(wrong, state)
    np.testing.assert_array_equal(model.run(x[:, 5:], state)[0], whole[:, 5:])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="`fork` is not everywhere")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_other_threads_calls_leaves_a_child_that_works():
    model, (x, _) = attentive.load(FOLDERS[0], threads=1), example_of(FOLDERS[0])
    x = np.tile(x, (40, 4))  # large enough for the pool of buffers
    whole, ended = model.predict(x), threading.Event()

    def work():
        while not ended.is_set():
            model.predict(x)

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    try:
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends the child if it hangs
                os._exit(0 if np.array_equal(model.predict(x), whole) else 3)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ended.set()
        [thread.join() for thread in threads]
