"""Outputs as `PackedSequence`s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

if TYPE_CHECKING:
    from .output import SabOutput


def like(x: PackedSequence, output: SabOutput) -> SabOutput:
    """The output with `hidden` and `summary` packed as the input is."""
    output.hidden, output.summary = _pack(x, output.hidden), _pack(x, output.summary)  # type: ignore[assignment]
    return output


def _pack(x: PackedSequence, values: Tensor) -> PackedSequence:
    """Packs `[batch, time, ...]`, whose rows are in the caller's order."""
    if x.sorted_indices is not None:
        values = values.index_select(0, x.sorted_indices)
    # Step by step the rows that have not ended, which come first.
    steps = x.batch_sizes.tolist()
    data = torch.cat([values[:rows, step] for step, rows in enumerate(steps)])
    return PackedSequence(data, x.batch_sizes, x.sorted_indices, x.unsorted_indices)
