"""`SabModel`: a layer and its output layer, as a model folder holds them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..folder import Folder, read_folder
from . import checks
from .eager import eager
from .lstm import SabLSTM
from .output import SabOutput
from .readout import SabReadout
from .state import SabState


class SabModel(nn.Module):
    """A layer and its output layer.

    In training this is faster than to call the two one after the other: the gradient of the output goes straight into
    the layer's sweep.

    >>> model = SabModel(SabLSTM(10, 32), SabReadout(32, 9))
    >>> y, state = model(torch.randint(10, (4, 20)))
    >>> y.shape
    torch.Size([4, 20, 9])
    """

    def __init__(self, lstm: SabLSTM, readout: SabReadout) -> None:
        super().__init__()
        if lstm.options.hidden_size != readout.hidden_size:
            ours, theirs = lstm.options.hidden_size, readout.hidden_size
            raise ValueError(f"the layer has {ours} hidden units, but the output layer expects {theirs}")
        self.lstm, self.readout = lstm, readout
        self.folder: Folder | None = None
        """The folder that the model was read from: what `save_folder` repeats, such as the facts of its data."""

    @eager
    def forward(
        self,
        x: Tensor,
        state: SabState | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        *,
        last: bool = False,
        reset: Tensor | None = None,
        batch: tuple[int, int] | None = None,
    ) -> tuple[Tensor, SabState]:
        """Runs sequences, from a state or a fresh one.

        Args:
            x: as in `SabLSTM.forward`, but no `PackedSequence`.
            state: as there.
            lengths: as there.
            last: whether only the last step of each row is wanted, for tasks with one answer per sequence.
            reset: as there.
            batch: as there.

        Returns:
            y of every step, `[batch, time, output]`, or of the last one of each row, `[batch, output]`, and the state.
        """
        time_first = not self.lstm.batch_first and isinstance(x, Tensor) and x.dim() >= 2
        if time_first:
            x = x.transpose(0, 1)
            reset = reset.transpose(0, 1) if isinstance(reset, Tensor) and reset.dim() == 2 else reset
        x, pieces, caller = self.lstm.caller(x, state, lengths, reset, None, batch)
        v1, v2, bias = self.readout.v1, self.readout.v2, self.readout.bias
        for name, parameter in (("v1", v1), ("v2", v2), ("bias", bias)):
            checks.floats(f"the parameter `{name}`", parameter)
        if pieces is None:
            y, after = caller.read(x, state, [v1, v2, bias], last)
        else:
            output, after = caller.run_pieces(x, state, pieces, reset)
            y = self.readout(_last_of(output, pieces) if last else output)
        return (y.transpose(0, 1) if time_first and not last else y), after

    def step(self, x: Tensor, state: SabState | None = None, **options: Any) -> tuple[Tensor, SabState]:
        """Runs one step of a stream: y `[batch, output]`, and the state for the next one; see `SabLSTM.step`."""
        output, after = self.lstm.step(x, state, **options)
        return self.readout(output), after


def _last_of(output: SabOutput, lengths: list[int]) -> SabOutput:
    rows, ends = torch.arange(len(lengths)), torch.tensor(lengths) - 1
    return SabOutput(output.hidden[rows, ends], output.summary[rows, ends])


def torch_model(folder: str | os.PathLike[str]) -> SabModel:
    """The model of a folder that `sab` or `save_folder` wrote: a run directory, or one with its two model files.

    A folder that is missing, damaged or of another kind is a `FileNotFoundError` or a `ValueError`.
    """
    found = read_folder(folder)
    model = SabModel(SabLSTM.of_options(found.options), SabReadout(found.options.hidden_size, found.output_size))
    with torch.no_grad():
        for name, values in found.tensors.items():
            own = name.removeprefix("output.")
            parameter = (model.lstm if own == name else model.readout).get_parameter(own)
            parameter.copy_(torch.from_numpy(values.copy()))
    model.folder = found
    return model
