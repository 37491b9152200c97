"""`Caller`: one call of a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from .._engine import Weights
from . import pieces
from .autograd import Call, ModelFunction, SequenceFunction, read
from .output import Reminders, SabOutput
from .state import SabState

if TYPE_CHECKING:
    from .lstm import SabLSTM


class Caller:
    """One call of a layer, which may consist of several calls of the engine."""

    def __init__(self, layer: SabLSTM, dense: bool, phase: int, reminders: int | None) -> None:
        self.options, self.dense = layer.options, dense
        self.phase, self.reminders = phase, reminders
        self.threads = torch.get_num_threads()
        self._parameters = layer.parameters_in_order()
        self._layer = layer
        self._weights: dict[bool, Weights] = {}

    def weights(self, tracked: bool) -> Weights:
        """The weights of the call."""
        if tracked not in self._weights:
            self._weights[tracked] = self._layer.packed_weights(self._parameters, self.dense, tracked, self.threads)
        return self._weights[tracked]

    def run(self, x: Tensor, state: SabState | None, no_gradient: bool = False) -> tuple[SabOutput, SabState]:
        """Runs whole rows."""
        tracked = not no_gradient and self._tracks(x, [])
        call, given = self._call(x, state, tracked)
        if tracked:
            apply = cast(Callable[..., tuple[Tensor, Tensor]], SequenceFunction.apply)
            hidden, summary = apply(call, given, *self._parameters)
        else:
            hidden, summary = call.run(given, tracked=False)
        reminded = None if call.reminded is None else Reminders(*call.reminded)
        return SabOutput(hidden, summary, reminded, call.drift), self._left(call)

    def run_pieces(
        self, x: Tensor, state: SabState | None, lengths: list[int], reset: Tensor | None
    ) -> tuple[SabOutput, SabState]:
        """Runs rows that end early or begin anew."""
        return pieces.run(self, x, state, lengths, reset)

    def read(self, x: Tensor, state: SabState | None, readout: list[Tensor], last: bool) -> tuple[Tensor, SabState]:
        """Runs whole rows and the output layer `v1`, `v2`, `bias`."""
        tracked = self._tracks(x, readout)
        call, given = self._call(x, state, tracked)
        if not tracked:
            hidden, summary = call.run(given, tracked=False)
            return read(hidden, summary, readout[0], readout[1], readout[2], last, self.threads), self._left(call)
        apply = cast(Callable[..., Tensor], ModelFunction.apply)
        return apply(call, last, given, *readout, *self._parameters), self._left(call)

    def _left(self, call: Call) -> SabState:
        return SabState(self.options, call.left, call.hidden)

    def _tracks(self, x: Tensor, readout: list[Tensor]) -> bool:
        with_gradient = [*self._parameters, *readout, *([x] if self.dense else [])]
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in with_gradient)

    def _call(self, x: Tensor, state: SabState | None, tracked: bool) -> tuple[Call, Tensor | None]:
        call = Call(
            model=self.options.model,
            weights=self.weights(tracked),
            state=None if state is None else state.engine_state(),
            phase=self.phase,
            reminders=self.reminders if self.options.attends else None,
            tokens=None if self.dense else x.long(),
            threads=self.threads,
        )
        return call, x if self.dense else None
