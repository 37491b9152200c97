"""`SabState`: what a batch carries from one call to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from .._engine import State
from .._options import Options
from .autograd import array
from .checks import floats, mask


class SabState:
    """Hidden state, cell state and memories of every row of a batch (R14).

    A state is data: no gradient goes through it, unless its layer has `credit_across_calls`. Calls leave the state that
    they were given as it is, and return a new one. A state can be saved (`state_dict`, `pickle`, `torch.save`), copied,
    and reset row by row. Layers make states: a call returns one, and `SabLSTM.initial_state` and `SabLSTM.load_state`
    build one.
    """

    def __init__(
        self,
        options: Options,
        state: State | None,
        hidden: Tensor | None = None,
        pending: Callable[[], State] | None = None,
    ) -> None:
        self._options = options
        self._state = state
        # The hidden states of the call, as long as the state's memories are rows of them.
        self._hidden = hidden
        self._version = 0 if hidden is None else hidden._version
        self._pending = pending

    def engine_state(self) -> State:
        """The engine's state, with all its memories."""
        if self._pending is not None:
            self._state, self._pending = self._pending(), None
        assert self._state is not None
        if self._hidden is not None:
            if self._hidden._version != self._version:
                raise RuntimeError(
                    "the hidden states of the call that left this state were changed in place before the state was "
                    "used: use the state first, or change a copy (`output.hidden.clone()`)"
                )
            self._state.settle(array(self._hidden))
            self._hidden = None
        return self._state

    @property
    def batch(self) -> int:
        """The number of rows."""
        return self.engine_state().batch

    @property
    def hidden(self) -> Tensor:
        """H of the last step, `[batch, hidden]`, a copy."""
        return torch.from_numpy(self.engine_state().hidden())

    @property
    def cell(self) -> Tensor | None:
        """C of the last step, `[batch, hidden]`, a copy; `None` for a cell without one."""
        return self.state_dict().get("cell")

    @property
    def memory(self) -> Tensor:
        """The memories, `[batch, slots, hidden]`, a copy; zeros where a row holds fewer than another."""
        return self.state_dict()["memory"]

    @property
    def steps(self) -> Tensor:
        """The steps that each row has taken since it was fresh, `[batch]`."""
        return torch.tensor(self.engine_state().steps)

    @property
    def slots(self) -> Tensor:
        """The number of memories that each row holds, the null slot included, `[batch]`."""
        return torch.tensor(self.engine_state().slots)

    def reset(self, rows: int | Iterable[int] | Tensor) -> None:
        """Starts rows afresh, in place: row numbers, or a mask `[batch]` of `torch.bool`."""
        state = self.engine_state()
        if isinstance(rows, Tensor) and rows.dtype == torch.bool:
            rows = mask("rows", rows, (state.batch,)).nonzero().flatten().tolist()
        chosen = [int(rows)] if isinstance(rows, int) else [int(row) for row in rows]
        for row in chosen:
            if not 0 <= row < state.batch:
                raise IndexError(f"there is no row {row} to reset: the state has rows 0 to {state.batch - 1}")
        state.reset(chosen)

    def detach(self) -> SabState:
        """A state that no gradient of later calls goes through.

        That is this state itself, unless its layer has `credit_across_calls`: then it is one without the steps that led
        to its memories.
        """
        state = self.engine_state()
        return self if state.segments() is None else SabState(self._options, state.without_segments())

    def clone(self) -> SabState:
        """A copy that can be reset by itself."""
        return SabState(self._options, self.engine_state().copy())

    def state_dict(self) -> dict[str, Tensor]:
        """The state as tensors, for saving; `SabLSTM.load_state` restores it.

        `hidden` and `cell` `[batch, hidden]` (no `cell` for a GRU), `memory` `[batch, slots, hidden]`, `steps`
        `[batch]`, `slot_steps` `[batch, slots]` with -1 where a row has fewer memories, `received` `[batch, slots]`
        (the weights that memories have received, R18), and `k_att`. With `credit_across_calls`, entries that begin with
        `segment` hold the steps that led to the memories (R21).
        """
        hidden, cell, memory, steps, slot_steps, received = self.engine_state().data()
        room = memory.shape[1]
        segments = self.engine_state().segments()
        return {
            "hidden": torch.from_numpy(hidden),
            **({} if cell is None else {"cell": torch.from_numpy(cell)}),
            "memory": torch.from_numpy(memory),
            "steps": torch.tensor(steps),
            "slot_steps": torch.tensor([row + [-1] * (room - len(row)) for row in slot_steps]),
            "received": torch.tensor([row + [0.0] * (room - len(row)) for row in received]),
            "k_att": torch.tensor(self._options.k_att),
            **({} if segments is None else _segment_tensors(segments)),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return state_of, (self._options, self.state_dict())

    def __copy__(self) -> SabState:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> SabState:
        return self.clone()

    def __repr__(self) -> str:
        if self._pending is not None:
            return "SabState(not computed yet)"
        return f"SabState(batch={self.batch}, steps={self.steps.tolist()}, slots={self.slots.tolist()})"


def state_of(options: Options, tensors: Mapping[str, Tensor]) -> SabState:
    """The state of a `state_dict`. A damaged one is a `ValueError` or a `TypeError`."""
    tensors = dict(tensors)
    segments = {name: tensors.pop(name) for name in _SEGMENTS if name in tensors}
    cell = {"cell"} if options.model.carries else set()
    wanted = {"hidden", "memory", "steps", "slot_steps", "received", "k_att"} | cell
    if set(tensors) != wanted:
        missing, foreign = sorted(wanted - set(tensors)), sorted(set(tensors) - wanted)
        raise ValueError(f"the state does not fit the layer: missing {missing}, not known {foreign}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"the state's `{name}` is a {type(tensor).__name__}, but a tensor is needed")
        ranks = {"memory": 3, "steps": 1, "k_att": 0}
        if tensor.dim() != ranks.get(name, 2):
            raise ValueError(
                f"the state's `{name}` has shape {list(tensor.shape)}, but {ranks.get(name, 2)} dimensions"
            )
        if name in ("hidden", "cell", "memory", "received"):
            floats(f"the state's `{name}`", tensor)
        elif tensor.dtype != torch.int64:
            raise TypeError(f"the state's `{name}` is {tensor.dtype}, but torch.int64 is needed")
    if int(tensors["k_att"]) != options.k_att:
        raise ValueError(f"the state's `k_att` is {int(tensors['k_att'])}, but the layer's is {options.k_att}")
    batch, room = tensors["memory"].shape[:2]
    for name in ("slot_steps", "received"):
        if tuple(tensors[name].shape) != (batch, room):
            raise ValueError(
                f"the state's `{name}` has shape {list(tensors[name].shape)}, but {[batch, room]} is needed"
            )
    if tensors["steps"].lt(0).any():
        raise ValueError("the state's `steps` holds a negative number")
    slot_steps = [[step for step in row if step >= 0] for row in tensors["slot_steps"].tolist()]
    counted = zip(tensors["received"].tolist(), slot_steps, strict=True)
    state = State.of_data(
        options.model,
        array(tensors["hidden"]),
        array(tensors["cell"]) if cell else None,
        array(tensors["memory"]),
        tensors["steps"].tolist(),
        slot_steps,
        [row[: len(steps)] for row, steps in counted],
        _segment_arrays(segments) if segments else None,
    )
    return SabState(options, state)


# The steps that led to memories: `k_trunc` and the phase; for each segment its row, its steps, and whether it goes on;
# for each memory its segment, its slot, and its steps; h and c before each segment; and of all steps the inputs, in one
# of two kinds, and the summaries.
_SEGMENTS = {
    "segment_grid": torch.int64,
    "segments": torch.int64,
    "segment_slots": torch.int64,
    "segment_states": torch.float32,
    "segment_tokens": torch.int64,
    "segment_inputs": torch.float32,
    "segment_summaries": torch.float32,
}


def _segment_tensors(segments: tuple[Any, ...]) -> dict[str, Tensor]:
    named = zip(_SEGMENTS, segments, strict=True)
    return {name: torch.as_tensor(values) for name, values in named if values is not None}


def _segment_arrays(tensors: dict[str, Tensor]) -> tuple[Any, ...]:
    ranks = {"segment_grid": 1, "segment_tokens": 1}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor) or tensor.dtype != _SEGMENTS[name] or tensor.dim() != ranks.get(name, 2):
            dimensions = ranks.get(name, 2)
            raise ValueError(f"the state's `{name}` must be {_SEGMENTS[name]} with {dimensions} dimensions")
    if missing := [
        name for name in _SEGMENTS if name not in tensors and name not in ("segment_tokens", "segment_inputs")
    ]:
        raise ValueError(f"the state does not fit the layer: missing {missing}")
    if tensors["segment_grid"].shape != (2,) or tensors["segment_grid"].lt(0).any():
        raise ValueError("the state's `segment_grid` must be two numbers from 0")
    arrays = [array(tensors[name]) if name in tensors else None for name in _SEGMENTS]
    return (tensors["segment_grid"].tolist(), *arrays[1:])
