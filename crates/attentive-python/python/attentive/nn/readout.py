"""`SabReadout`: the output layer."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.rnn import PackedSequence

from .output import SabOutput


class SabReadout(nn.Module):
    """`y = V1 h + V2 s + b` (R8).

    Parameters: `v1` and `v2` `[output, hidden]`, `bias` `[output]`.

    >>> layer, readout = SabLSTM(10, 32), SabReadout(32, 9)
    >>> output, state = layer(torch.randint(10, (4, 20)))
    >>> readout(output).shape
    torch.Size([4, 20, 9])
    """

    def __init__(self, hidden_size: int, output_size: int) -> None:
        super().__init__()
        for name, size in (("hidden_size", hidden_size), ("output_size", output_size)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"`{name}` is {size!r}: it must be a whole number from 1")
        self.hidden_size, self.output_size = hidden_size, output_size
        self.v1 = nn.Parameter(torch.empty(output_size, hidden_size))
        self.v2 = nn.Parameter(torch.empty(output_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(output_size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws all parameters uniformly from `±1 / sqrt(2 * hidden)`."""
        bound = 1 / math.sqrt(2 * self.hidden_size)
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound)

    def forward(
        self, hidden: SabOutput | Tensor | PackedSequence, summary: Tensor | PackedSequence | None = None
    ) -> Tensor:
        """`[..., output]` from the output of a layer, or from `hidden` and `summary`, `[..., hidden]` each."""
        if isinstance(hidden, SabOutput):
            output = hidden
            hidden, summary = output.hidden, output.summary
        if isinstance(hidden, PackedSequence) and isinstance(summary, PackedSequence):
            return cast(Tensor, hidden._replace(data=self(hidden.data, summary.data)))
        if not isinstance(hidden, Tensor) or not isinstance(summary, Tensor):
            raise TypeError("a readout needs the output of a layer, or `hidden` and `summary`")
        for name, given in (("hidden", hidden), ("summary", summary)):
            if given.shape != hidden.shape or given.shape[-1:] != (self.hidden_size,):
                right = f"[..., {self.hidden_size}]"
                raise ValueError(f"`{name}` has shape {list(given.shape)}, but {right} is needed, the same for both")
        return F.linear(hidden, self.v1, self.bias) + F.linear(summary, self.v2)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.hidden_size}, {self.output_size}"
