"""`load`: a trained model without PyTorch."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _engine
from ._engine import State, Weights
from .folder import Folder, read_folder


class NumpyReminders(NamedTuple):
    """The memories that each step was reminded of, the largest weight first."""

    steps: NDArray[np.int64]
    """`[batch, time, most]`: the step whose hidden state the memory holds, from 1; 0 is the null slot, -1 no memory."""
    weights: NDArray[np.float32]
    """`[batch, time, most]`: its weight in the summary."""


class NumpyModel:
    """A trained model that computes on NumPy arrays.

    Made by `attentive.load`. It can be used from several threads at once; its weights do not change.
    """

    def __init__(self, folder: Folder, threads: int | None = None) -> None:
        self.folder = folder
        self.threads = (os.cpu_count() or 1) if threads is None else max(1, threads)
        tensors, options = folder.tensors, folder.options
        values = [np.ascontiguousarray(tensors[declared.name]) for declared in options.parameters]
        self._weights = Weights(options.model, values, not folder.tokens, self.threads, True)
        self._outputs = [np.ascontiguousarray(tensors[f"output.{name}"]) for name in ("v1", "v2", "bias")]

    @property
    def input_size(self) -> int:
        """The size of a dense input, or the number of tokens."""
        return self.folder.options.input_size

    @property
    def output_size(self) -> int:
        """The number of outputs."""
        return self.folder.output_size

    def predict(self, x: ArrayLike) -> NDArray[np.float32]:
        """The outputs of every step from a fresh state, `[batch, time, output]`: scores of classes, or one number.

        `x` has tokens, `[batch, time]`, or dense inputs, `[batch, time, input]`, whichever the model was trained on.
        """
        return self.run(x)[0]

    def run(self, x: ArrayLike, state: State | None = None) -> tuple[NDArray[np.float32], State]:
        """The outputs of every step, `[batch, time, output]`, and the state for the next call. `state` stays."""
        hidden, summary, after, _ = self._forward(self._checked(x, step=False), state, None)
        batch, time, units = hidden.shape
        rows = (hidden.reshape(-1, units), summary.reshape(-1, units))
        y = _engine.readout(*rows, self._outputs[0], self._outputs[1], self._outputs[2], self.threads)
        return y.reshape(batch, time, -1), after

    def step(self, x: ArrayLike, state: State | None = None) -> tuple[NDArray[np.float32], State]:
        """The outputs of one step of a stream, `[batch, output]`, and the state for the next one.

        `x` is `[batch]` or `[batch, input]`. The results are the same bits as those of `run` over the whole sequence.
        """
        y, after = self.run(self._checked(x, step=True)[:, None], state)
        return y[:, 0], after

    def reminders(self, x: ArrayLike, most: int = 5) -> NumpyReminders:
        """The memories that each step of a sequence was reminded of, at most `most` of them."""
        if most < 1:
            raise ValueError(f"`most` is {most}: it must be at least 1")
        if not self.folder.options.attends:
            raise ValueError("the model has no attention (`k_top` is 0), so that it is reminded of nothing")
        found = self._forward(self._checked(x, step=False), None, most)[3]
        assert found is not None
        return NumpyReminders(*found)

    def _forward(self, x: NDArray[Any], state: State | None, most: int | None) -> Any:
        hidden, summary, after, _, reminders = _engine.forward(
            self.folder.options.model,
            self._weights,
            x,
            state,
            phase=0,
            tracked=False,
            threads=self.threads,
            reminders=most,
        )
        return hidden, summary, after, reminders

    def _checked(self, x: ArrayLike, step: bool) -> NDArray[Any]:
        given = np.asarray(x)
        tokens = self.folder.tokens
        wanted, right = (
            ("whole numbers", "[batch, time]") if tokens else ("numbers", f"[batch, time, {self.input_size}]")
        )
        if given.dtype.kind not in ("iu" if tokens else "iuf"):
            raise TypeError(f"the input is {given.dtype}, but the model was trained on {wanted}, {right}")
        if step:
            right = right.replace(", time", "")
        shape = given.shape
        dimensions = 2 - step if tokens else 3 - step
        if len(shape) != dimensions or 0 in shape or (not tokens and shape[-1] != self.input_size):
            raise ValueError(f"the input has shape {list(shape)}, but {right} is needed, each at least 1")
        return np.ascontiguousarray(given, np.int64 if tokens else np.float32)

    def __repr__(self) -> str:
        kind = "tokens" if self.folder.tokens else "inputs"
        units = self.folder.options.hidden_size
        return f"NumpyModel({self.input_size} {kind}, {units} units, {self.output_size} outputs)"


def load(folder: str | os.PathLike[str], threads: int | None = None) -> NumpyModel:
    """The model of a folder that `sab` or `save_folder` wrote, on NumPy arrays; PyTorch is not needed.

    `threads` is the number of threads, by default one for each core; it does not change a bit of the results. A folder
    that is missing, damaged or of another kind is a `FileNotFoundError` or a `ValueError`.
    """
    return NumpyModel(read_folder(folder), threads)
